package adversary

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/testca"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// credentialAttacks are those with keys and credentials for MCP servers.
func (d *Deployment) credentialAttacks(t testing.TB, state trust.State) []*Attack {
	return slices.Concat(d.publisherAttacks(state), d.tokenAttacks(t, state), d.clientAttacks(), d.sessionAttacks())
}

// publisherAttacks are those of the publisher of manifests of files and bank.
func (d *Deployment) publisherAttacks(state trust.State) (all []*Attack) {
	b := d.tools
	next := func(m *trust.Manifest) { m.Version = "1.1.0" }
	other := func(m *trust.Manifest) { m.Tools[0].Fingerprint = plan.DigestOf([]byte("other")) }
	for _, x := range []struct {
		name, server string
		key          *trust.Key
		change       func(*trust.Manifest)
		// file: the thief has the worker's file, too.
		file bool
	}{
		{"of a next version", bank, b.publisher, next, true},
		{"of a next version of what a worker starts", files, b.publisher, next, true},
		{"of the same version, with other tools", bank, b.publisher, other, true},
		{"of the same version, again", bank, b.publisher, nil, false},
		{"of an older version", bank, b.publisher, func(m *trust.Manifest) { m.Version = "0.9.0" }, false},
		{"with a lower effect class", bank, b.publisher, func(m *trust.Manifest) { m.Tools[1].Effect = plan.Pure }, false},
		{"of a server that is another's", vault, b.publisher, nil, true},
		{"by a revoked publisher", bank, b.gone, nil, false},
		{"with an author's key", bank, d.Author, nil, false},
		{"with an admin's key", bank, d.Admin, nil, false},
		{"with an agent's key", bank, d.Starter, nil, false},
	} {
		all = append(all, shown(PublisherKey, "manifest", x.name, func(t testing.TB, d *Deployment) error {
			_, err := trust.VerifyManifest(state, b.manifest(t, x.key, x.server, x.change), x.server)
			return err
		}))
		if x.file {
			all = append(all, &Attack{Thief: PublisherKey, Class: FileBent, About: "manifest", Name: x.name + ", on the disk of effects", Long: x.server == vault, Do: func(t testing.TB, d *Deployment) (o Outcome, says string) {
				l, raw := d.live(t), b.manifest(t, x.key, x.server, x.change)
				if b.manifests[x.server] == "" {
					err := l.with(t, host.RoleEffects, func(o *host.Options) { o.Manifests[x.server] = written(t, t.TempDir(), raw) }, func() { o, says = l.attempt(t, x.server) })
					if err != nil {
						return Refused, err.Error()
					}
					return o, says
				}
				exchanged(t, b.manifests[x.server], raw, func() { o, says = l.attempt(t, x.server) })
				return o, says
			}})
		}
	}
	return append(all, shown(PublisherKey, "plan", "a plan", func(t testing.TB, d *Deployment) error {
		return d.publishes(state, b.publisher, "max")
	}), shown(PublisherKey, "authority", "accepts its own manifest, with one admin", func(t testing.TB, d *Deployment) error {
		_, digest, err := trust.ReadManifest(b.manifest(t, b.publisher, bank, next))
		require.NoError(t, err)
		e, err := state.Draft(time.Now(), &trust.AcceptManifest{Provider: bank, Version: "1.1.0", Digest: digest}).Envelope(d.Admin, b.publisher)
		if err != nil {
			return err
		}
		raw, err := e.Encode()
		if err == nil {
			_, err = state.Next(raw)
		}
		return err
	}))
}

// publishes returns why a plan by a key is not believed.
func (d *Deployment) publishes(state trust.State, k *trust.Key, author string) error {
	p := trust.Plan{Deployment: d.Root.Deployment, Audience: d.Root.Audience, Author: author, Name: "lie", Version: "1", Issued: ledger.At(time.Now()), SourceDigest: ledger.BodyDigest([]byte("lie")), Digest: ledger.BodyDigest([]byte("compiled"))}
	signature, err := trust.SignPlan(k, p)
	if err != nil {
		return err
	}
	return trust.Authored(state, p.Digest, ledger.Plan{Name: p.Name, Version: p.Version, SourceDigest: p.SourceDigest, Digest: p.Digest, Agent: "tester", Author: author, Signature: signature})
}

// written is a file in a folder with a content.
func written(t testing.TB, folder string, content []byte) string {
	t.Helper()
	f, err := os.CreateTemp(folder, "")
	require.NoError(t, err)
	_, err = f.Write(content)
	require.NoError(t, errors.Join(err, f.Close()))
	return f.Name()
}

// exchanged lets f run while a file has another content, or is not there where that is nil.
func exchanged(t testing.TB, file string, content []byte, f func()) {
	t.Helper()
	was, err := os.ReadFile(file)
	require.NoError(t, err)
	put := func(content []byte) {
		// A program that runs cannot be written to, but replaced.
		require.NoError(t, os.Rename(written(t, filepath.Dir(file), content), file))
		require.NoError(t, os.Chmod(file, 0o755))
	}
	defer put(was)
	if content == nil {
		require.NoError(t, os.Remove(file))
	} else {
		put(content)
	}
	f()
}

// direct is a call that somebody makes of a server, without the deployment: its count there is what
// became of it.
func (d *Deployment) direct(thief Thief, about, name, server string, s func(t testing.TB) mcp.Server) *Attack {
	return &Attack{Thief: thief, Class: Signature, About: about, Name: name, Do: func(t testing.TB, d *Deployment) (Outcome, string) {
		pool := mcp.NewPool(map[string]mcp.Server{server: s(t)}, mcp.Options{Logger: discard})
		defer func() { require.NoError(t, pool.Close()) }()
		line := "direct " + name
		_, err := pool.Call(t.Context(), server, d.tools.template(server).Operation, []byte(`{"line":"`+line+`"}`))
		if n := d.tools.got(t, server, line); n > 0 {
			return Unseen, fmt.Sprintf("the server has taken %d calls that the deployment did not make", n)
		}
		require.Error(t, err)
		return Refused, err.Error()
	}}
}

// tokenAttacks are those with the key that signs tokens for the bank.
func (d *Deployment) tokenAttacks(t testing.TB, state trust.State) (all []*Attack) {
	b := d.tools
	text := testca.PEM(t, b.token)
	minting := func(server, audience string) func(t testing.TB) mcp.Server {
		return func(t testing.TB) mcp.Server {
			s := b.server(t, server)
			s.OAuth, s.TLS.CertFile, s.TLS.KeyFile, s.JWT = nil, "", "", &mcp.JWT{Key: text, Issuer: issuer, Audience: audience}
			return s
		}
	}
	all = append(all,
		d.direct(TokenKey, "mcp", "at its server", bank, minting(bank, "")),
		d.direct(TokenKey, "mcp", "for another audience", bank, minting(bank, b.URL+"/"+vault)),
		d.direct(TokenKey, "mcp", "at a server that asks for certificates", vault, minting(vault, b.URL+"/"+bank)),
		d.direct(TokenKey, "mcp", "at a server that asks for another's tokens", desk, minting(desk, "")),
	)
	key, err := trust.ParseKey([]byte(text))
	require.NoError(t, err)
	run := ledger.Run{Workflow: "minted", Agent: "tester", PlanDigest: d.ofServer[bank], InputDigest: d.Plan}
	now := time.Now()
	permit := trust.Permit{Deployment: d.Root.Deployment, Audience: d.Root.Audience, Guardian: "guardian", Invocation: "i", Decision: "d", Call: d.Plan, Issued: ledger.At(now), Expires: ledger.At(now.Add(time.Minute))}
	return append(all, shown(TokenKey, "permit", "a permit", func(testing.TB, *Deployment) error {
		raw, err := trust.SignPermit(key, permit)
		if err == nil {
			_, err = trust.VerifyPermit(state, raw, permit, now)
		}
		return err
	}), shown(TokenKey, "run.opened", "a start grant", func(t testing.TB, d *Deployment) error {
		want := trust.Grant{Deployment: d.Root.Deployment, Audience: d.Root.Audience, Namespace: "default", WorkflowID: run.Workflow, Plan: run.PlanDigest, Input: run.InputDigest, Agent: run.Agent}
		_, err := trust.VerifyGrant(state, d.grantOf(t, key, run, nil), want, now)
		return err
	}), shown(TokenKey, "plan", "a plan", func(testing.TB, *Deployment) error {
		return d.publishes(state, key, "ada")
	}), shown(TokenKey, "manifest", "a manifest", func(t testing.TB, _ *Deployment) error {
		_, err := trust.VerifyManifest(state, b.manifest(t, key, bank, nil), bank)
		return err
	}))
}

// clientAttacks are those with the client's certificate, with the secret of the OAuth client, and with the one
// in a header.
func (d *Deployment) clientAttacks() []*Attack {
	b := d.tools
	with := func(server string, change func(s *mcp.Server)) func(t testing.TB) mcp.Server {
		return func(t testing.TB) mcp.Server {
			s := b.server(t, server)
			s.JWT, s.OAuth, s.Headers = nil, nil, nil
			change(&s)
			return s
		}
	}
	certificate := func(s *mcp.Server) { s.TLS.CertFile, s.TLS.KeyFile = b.certFile, b.keyFile }
	secret := func(s *mcp.Server) {
		s.OAuth = &mcp.OAuth{Issuer: b.URL, TokenURL: b.URL + "/token", ClientID: clientID, ClientSecret: b.secret}
	}
	static := func(s *mcp.Server) { s.Headers = map[string]string{header: b.static} }
	effects := func(change func(s *mcp.Server)) func(t testing.TB, d *Deployment) error {
		return func(t testing.TB, d *Deployment) error {
			o := d.of(t, host.RoleEffects)
			o.Catalog = d.tools.imported
			require.NoError(t, o.Check())
			s := o.Servers[bank]
			s.JWT = nil
			change(&s)
			o.Servers[bank] = s
			return o.Check()
		}
	}
	return []*Attack{
		d.direct(ClientKey, "mcp", "at its server", vault, with(vault, certificate)),
		d.direct(ClientKey, "mcp", "at a server that asks for tokens", bank, with(bank, certificate)),
		d.direct(ClientKey, "mcp", "at a server that asks for another's tokens", desk, with(desk, certificate)),
		{Thief: ClientKey, Class: ServerBent, About: "mcp", Name: "as a server", Do: func(t testing.TB, d *Deployment) (o Outcome, says string) {
			client := d.tools.client
			d.tools.hostile(&client, nil, func() { o, says = d.approved(t, vault) })
			return o, says
		}},
		d.direct(ClientSecret, "mcp", "at its server", desk, with(desk, secret)),
		d.direct(ClientSecret, "mcp", "at a server that asks for signed tokens", bank, with(bank, secret)),
		d.direct(ClientSecret, "mcp", "at a server that asks for certificates", vault, with(vault, func(s *mcp.Server) { secret(s); s.TLS.CertFile, s.TLS.KeyFile = "", "" })),
		shown(ClientSecret, "mcp", "for what has effects", effects(secret)),
		d.direct(StaticSecret, "mcp", "at its server", till, with(till, static)),
		d.direct(StaticSecret, "mcp", "at a server that asks for signed tokens", bank, with(bank, static)),
		d.direct(StaticSecret, "mcp", "at a server that asks for certificates", vault, with(vault, func(s *mcp.Server) { static(s); s.TLS.CertFile, s.TLS.KeyFile = "", "" })),
		d.direct(StaticSecret, "mcp", "at a server that asks for another's tokens", desk, with(desk, static)),
		shown(StaticSecret, "mcp", "for what has effects", effects(static)),
	}
}

// approved makes the call that the admins have approved of a server, as a worker does in a session that
// it begins, and says whether the server got it. after lists the kinds of failures with which it may have.
func (d *Deployment) approved(t testing.TB, server string, after ...contract.Kind) (Outcome, string) {
	t.Helper()
	of := d.tools.template(server)
	pool := mcp.NewPool(map[string]mcp.Server{server: d.tools.servers(t)[server]}, mcp.Options{Logger: discard})
	defer func() { require.NoError(t, pool.Close()) }()
	line := "approved"
	before := d.tools.got(t, server, line)
	_, err := pool.CallPinned(t.Context(), server, of.Operation, []byte(`{"line":"`+line+`"}`), mcp.Pin{Fingerprint: of.Fingerprint, Endpoints: of.Endpoints, Instructions: of.Instructions, Again: true})
	got := d.tools.got(t, server, line) - before
	if err == nil {
		return Unseen, fmt.Sprintf("it got %d calls", got)
	}
	var e *contract.Error
	require.ErrorAs(t, err, &e)
	if got > 1 || got == 1 && !slices.Contains(after, e.Kind) {
		return Unseen, fmt.Sprintf("it got %d calls: %s", got, e)
	}
	return Refused, string(e.Kind) + ": " + e.Message
}

// sessionAttacks are those of whoever knows the id of a session with the bank, and the last token
// that was used there.
func (d *Deployment) sessionAttacks() (all []*Attack) {
	b := d.tools
	for _, x := range []struct{ name, method, server string }{
		{"a call", http.MethodPost, bank}, {"its end", http.MethodDelete, bank}, {"its stream", http.MethodGet, bank}, {"a call of another server", http.MethodPost, vault},
	} {
		all = append(all, &Attack{Thief: SessionID, Class: Signature, About: "mcp", Name: x.name, Long: x.method == http.MethodGet || x.server != bank, Do: func(t testing.TB, d *Deployment) (Outcome, string) {
			l := d.live(t)
			require.NoError(t, l.goesOn(t, bank))
			_, session := b.credentials()
			require.NotEmpty(t, session)
			line := "session " + x.name
			r, err := http.NewRequestWithContext(t.Context(), x.method, b.URL+"/"+x.server, strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"pay","arguments":{"line":"`+line+`"}}}`))
			require.NoError(t, err)
			r.Header.Set("Mcp-Session-Id", session)
			r.Header.Set("Content-Type", "application/json")
			answer, err := b.Client().Do(r)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, answer.Body)
			require.NoError(t, errors.Join(err, answer.Body.Close()))
			if answer.StatusCode < 400 || b.got(t, x.server, line) > 0 {
				return Unseen, "the server takes the session for a credential: " + answer.Status
			}
			if err := l.goesOn(t, bank); err != nil {
				return Unseen, err.Error()
			}
			return Refused, answer.Status
		}})
	}
	return append(all, &Attack{Thief: SessionID, Class: Signature, About: "mcp", Name: "looked for in the database", Do: func(t testing.TB, d *Deployment) (Outcome, string) {
		l := d.live(t)
		require.NoError(t, errors.Join(l.goesOn(t, bank), l.goesOn(t, desk), l.goesOn(t, till)))
		token, session := b.credentials()
		require.NotEmpty(t, session)
		for name, secret := range map[string]string{"the session": session, "a token": strings.TrimPrefix(token, "Bearer "), "the client's secret": b.secret, "the client's token": b.access, "the secret of a header": b.static} {
			if where := l.holds(t, []byte(secret)); where != "" {
				return Unseen, name + " is in the table " + where
			}
		}
		return Refused, "no table has them"
	}})
}

// holds names a table that has some bytes, or "".
func (c *Copy) holds(t testing.TB, what []byte) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.as(""))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	for _, of := range c.tables(t) {
		var n int
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM "+of.Name+" x WHERE position($1 IN x::text) > 0 OR position($2 IN x::text) > 0", string(what), hex.EncodeToString(bytes.TrimSpace(what))).Scan(&n))
		if n > 0 {
			return of.Name
		}
	}
	return ""
}
