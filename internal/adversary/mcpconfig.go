package adversary

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/testca"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/trust"
)

var discard = slog.New(slog.DiscardHandler)

// configAttacks are those on the files that a worker is configured with: its servers, its manifests
// and its tools.
func (d *Deployment) configAttacks() (all []*Attack) {
	b := d.tools
	server := func(name string, change func(s *mcp.Server)) func(t testing.TB, o *host.Options) {
		return func(_ testing.TB, o *host.Options) {
			s := o.Servers[name]
			change(&s)
			o.Servers[name] = s
		}
	}
	says := func(name string, change func(x *catalog.Template)) func(t testing.TB, o *host.Options) {
		return func(t testing.TB, o *host.Options) {
			x := *b.template(name)
			change(&x)
			o.Catalog = registry.Under(o.Catalog, parsed(t, []catalog.Entry{entryOf(t, &x, x.State())}))
		}
	}
	pure := func(x *catalog.Template) { x.Effect = plan.Pure }
	for _, x := range []struct {
		role   host.Role
		name   string
		server string
		change func(t testing.TB, o *host.Options)
		core   bool
	}{
		{host.RoleEffects, "another address of a server", bank, server(bank, func(s *mcp.Server) {
			s.URL, s.JWT, s.TLS.CertFile, s.TLS.KeyFile = b.URL+"/"+vault, nil, b.certFile, b.keyFile
		}), true},
		{host.RoleEffects, "no pinned key", bank, server(bank, func(s *mcp.Server) { s.TLS.Pins = nil }), false},
		{host.RoleEffects, "another authority", vault, func(t testing.TB, o *host.Options) {
			server(vault, func(s *mcp.Server) { s.TLS.CAFile = testca.New(t, "other").File })(t, o)
		}, false},
		{host.RoleEffects, "another command", files, server(files, func(s *mcp.Server) { s.Command, s.Args = "./mcp-files", []string{"-write", b.reports, "shown"} }), false},
		{host.RoleEffects, "nothing pinned", files, server(files, func(s *mcp.Server) { s.Pin = nil }), false},
		{host.RoleEffects, "a variable more", files, server(files, func(s *mcp.Server) { s.Env = map[string]string{"REPORTS": b.reports, "ENV": "x"} }), false},
		{host.RoleEffects, "no manifest", bank, func(_ testing.TB, o *host.Options) { delete(o.Manifests, bank) }, false},
		{host.RoleEffects, "another server's manifest", bank, func(_ testing.TB, o *host.Options) { o.Manifests[bank] = o.Manifests[files] }, false},
		{host.RoleEffects, "an unsigned manifest", bank, func(t testing.TB, o *host.Options) { o.Manifests[bank] = written(t, t.TempDir(), []byte(`{}`)) }, false},
		{host.RoleEffects, "nothing says whose secrets they are", bank, func(_ testing.TB, o *host.Options) { delete(o.Callers, bank) }, false},
		{host.RoleEffects, "tools: a lower effect class", bank, says(bank, pure), false},
		{host.RoleEffects, "tools: another definition", bank, says(bank, func(x *catalog.Template) {
			x.Definition = json.RawMessage(strings.Replace(string(x.Definition), `"description":"pay"`, `"description":"pays"`, 1))
		}), false},
		{host.RoleEffects, "tools: other endpoints", bank, says(bank, func(x *catalog.Template) { x.Endpoints = []string{d.Plan} }), false},
		{host.RoleGuardian, "tools: a lower effect class", bank, says(bank, pure), false},
		{host.RoleGuardian, "tools: other endpoints", bank, says(bank, func(x *catalog.Template) { x.Endpoints = []string{d.Plan} }), false},
		{host.RoleEngine, "tools: a lower effect class", bank, says(bank, pure), true},
		{host.RoleEngine, "tools: other endpoints", bank, says(bank, func(x *catalog.Template) { x.Endpoints = []string{d.Plan} }), false},
		{host.RoleEngine, "tools: no endpoints", desk, says(desk, func(x *catalog.Template) { x.Endpoints = nil }), false},
		{host.RoleTools, "another address of a server", desk, server(desk, func(s *mcp.Server) {
			s.URL = b.URL + "/" + vault
			s.TLS.CertFile, s.TLS.KeyFile = b.certFile, b.keyFile
			s.OAuth = nil
		}), false},
		{host.RoleEffects, "another root of trust", bank, func(t testing.TB, o *host.Options) {
			own := *o.Trust
			key, _, err := trust.NewKey()
			require.NoError(t, err)
			own.Admins = slices.Clone(own.Admins)
			own.Admins[1].Key = key.Public()
			o.Trust = &own
		}, false},
	} {
		all = append(all, &Attack{Thief: WorkerConfig, Class: FileBent, About: string(x.role), Name: string(x.role) + ": " + x.name, Long: !x.core, Do: func(t testing.TB, d *Deployment) (o Outcome, says string) {
			l := d.live(t)
			if err := l.with(t, x.role, func(o *host.Options) { x.change(t, o) }, func() { o, says = l.attempt(t, x.server) }); err != nil {
				return Refused, "it does not start: " + err.Error()
			}
			return o, says
		}})
	}
	for name, content := range map[string][]byte{"removed": nil, "emptied": {}, "garbage": []byte("garbage")} {
		all = append(all, &Attack{Thief: WorkerConfig, Class: FileBent, About: "manifest", Name: "effects: the manifest " + name, Do: func(t testing.TB, d *Deployment) (o Outcome, says string) {
			l := d.live(t)
			exchanged(t, b.manifests[bank], content, func() { o, says = l.attempt(t, bank) })
			return o, says
		}})
	}
	return all
}

// catalogAttacks are those on a catalog with its statements, which others believe without the store.
func (d *Deployment) catalogAttacks(t testing.TB, state trust.State) (all []*Attack) {
	var statements []json.RawMessage
	var entries []catalog.Entry
	d.reads(t, func(l ledger.Store) {
		var err error
		entries, err = registry.Entries(t.Context(), l, state)
		require.NoError(t, err)
		statements, err = l.Authority(t.Context())
		require.NoError(t, err)
	})
	believes := func(t testing.TB, text []byte) error {
		all, ds := compiler.ParseCatalog(compiler.Source{Name: "tools.yaml", Text: text})
		if ds.HasErrors() {
			return errors.New(ds[0].Summary)
		}
		if len(all.Statements) == 0 {
			return errors.New("it has no statements")
		}
		_, differ, err := registry.Believe(all, d.Root)
		if err == nil && len(differ) > 0 {
			err = differ[0].Err
		}
		return err
	}
	whole := func(entries []catalog.Entry, statements []json.RawMessage) []byte {
		text, err := catalog.Write(entries, statements...)
		require.NoError(t, err)
		return text
	}
	require.NoError(t, believes(t, whole(entries, statements)))
	add := func(name string, text func(entries []catalog.Entry, statements []json.RawMessage) []byte) {
		all = append(all, shown(ExportedCatalog, "statements", name, func(t testing.TB, _ *Deployment) error {
			return believes(t, text(slices.Clone(entries), slices.Clone(statements)))
		}))
		all[len(all)-1].Class = FileBent
	}
	replace := func(what, old, by string) {
		add(what, func(e []catalog.Entry, s []json.RawMessage) []byte {
			text := string(whole(e, s))
			head, tail, found := strings.Cut(text, "statements:\n")
			require.True(t, found)
			require.Contains(t, head, old)
			return []byte(strings.Replace(head, old, by, 1) + "statements:\n" + tail)
		})
	}
	replace("a lower effect class", "effect_class: committing", "effect_class: pure")
	replace("another status", "status: allow_auto", "status: manual_review")
	replace("a description more", `description: pay`, `description: pays`)
	replace("an answer that is trusted", "effect_class: pure", "effect_class: pure\n    trusted_output: true")
	add("another endpoint", func(e []catalog.Entry, s []json.RawMessage) []byte {
		x := *d.tools.template(bank)
		x.Endpoints = append([]string{plan.DigestOf([]byte("other"))}, x.Endpoints...)
		i := slices.IndexFunc(e, func(e catalog.Entry) bool { return e.Operation == x.Name() })
		e[i] = entryOf(t, &x, plan.AllowAuto)
		return whole(e, s)
	})
	add("an operation more", func(e []catalog.Entry, s []json.RawMessage) []byte {
		more := e[0]
		more.Operation = "bank/refund"
		return whole(append(e, more), s)
	})
	for _, i := range []int{0, len(statements) / 2} {
		add(fmt.Sprintf("statement %d left out", i), func(e []catalog.Entry, s []json.RawMessage) []byte { return whole(e, slices.Delete(s, i, i+1)) })
	}
	add("statements exchanged", func(e []catalog.Entry, s []json.RawMessage) []byte { s[0], s[1] = s[1], s[0]; return whole(e, s) })
	add("a statement twice", func(e []catalog.Entry, s []json.RawMessage) []byte { return whole(e, append(s, s[len(s)-1])) })
	add("no statements", func(e []catalog.Entry, _ []json.RawMessage) []byte { return whole(e, nil) })
	add("a statement by one admin", func(e []catalog.Entry, s []json.RawMessage) []byte {
		facts, err := d.tools.template(bank).Facts()
		require.NoError(t, err)
		id := d.tools.template(bank)
		signed, err := state.Draft(state.Issued.Time(), &trust.TrustTool{ToolID: id.ToolID(), Fingerprint: id.Fingerprint, Status: "allow_auto", Facts: json.RawMessage(strings.Replace(string(facts), "committing", "pure", 1))}).Envelope(d.Admin)
		require.NoError(t, err)
		raw, err := signed.Encode()
		require.NoError(t, err)
		return whole(e, append(s, raw))
	})
	add("the last statement cut off", func(e []catalog.Entry, s []json.RawMessage) []byte { return whole(e, s[:len(s)-1]) })
	return all
}
