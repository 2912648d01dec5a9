package audit_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/trust"
)

// deployment is a world with a root of trust: two admins, an author of plans, and
// an agent.
type deployment struct {
	world
	boot          *trust.Bootstrap
	admins        []*trust.Key
	author, agent *trust.Key
	former        []string
	runs          int
}

func secret(t testing.TB) *trust.Key {
	k, _, err := trust.NewKey()
	require.NoError(t, err)
	return k
}

// newDeployment begins one, whose witnesses are those.
func newDeployment(t testing.TB, witnesses ...string) *deployment {
	d := &deployment{world: world{store: stores["sqlite"](t), key: ledgertest.Key(t)}, admins: []*trust.Key{secret(t), secret(t)}, author: secret(t), agent: secret(t)}
	d.boot = &trust.Bootstrap{
		Format: trust.BootstrapFormat, Deployment: "example", Audience: trust.Prod, Quorum: 2, Issued: ledger.At(time.Now().Add(-time.Hour)),
		Admins:    []trust.Admin{{ID: "a", Person: "ada", Key: d.admins[0].Public()}, {ID: "b", Person: "bob", Key: d.admins[1].Public()}},
		Log:       trust.LogKey{Origin: ledgertest.Origin, Key: d.key.Public()},
		Witnesses: trust.Witnesses{Keys: append([]string{}, witnesses...), Quorum: len(witnesses)},
	}
	require.NoError(t, d.boot.Check())
	d.trust = audit.Trust{Format: audit.TrustFormat, Origin: ledgertest.Origin, Log: d.key.Public(), Audience: "prod", Namespaces: []string{"default"}, Bootstrap: d.boot}
	d.state(t,
		// One follows the other at once, so both count for a while.
		&trust.ActivateBundle{Digest: bundle.Digest()}, &trust.ActivateBundle{Digest: ledgertest.Policy},
		&trust.AddPublisher{ID: "ann", Person: "ann", Key: d.author.Public(), Uses: []string{"plans"}},
		&trust.AddPublisher{ID: "max", Person: "max", Key: secret(t).Public(), Uses: []string{"manifests"}},
		&trust.AddAgent{AgentID: "bot", Owner: "ann", Keys: []string{d.agent.Public()}})
	return d
}

// draft returns the next statement, signed by the admins.
func (d *deployment) draft(t testing.TB, change func(*trust.Statement), acts ...trust.Act) []byte {
	s, err := trust.Read(t.Context(), d.store, d.boot)
	require.NoError(t, err)
	st := s.Draft(time.Now(), acts...)
	if change != nil {
		change(st)
	}
	e, err := st.Envelope(d.admins...)
	require.NoError(t, err)
	raw, err := e.Encode()
	require.NoError(t, err)
	return raw
}

// state publishes a statement.
func (d *deployment) state(t testing.TB, acts ...trust.Act) {
	_, err := trust.Publish(t.Context(), d.store, d.boot, d.draft(t, nil, acts...), time.Now())
	require.NoError(t, err)
}

// publish keeps a plan that was signed by a key.
func (d *deployment) publish(t testing.TB, name string, key *trust.Key, change func(*trust.Plan)) {
	p := trust.Plan{Deployment: "example", Audience: trust.Prod, Author: "ann", Name: name, Version: "1", Issued: ledger.At(time.Now()),
		SourceDigest: ledger.BodyDigest([]byte("source of " + name)), Digest: ledger.BodyDigest([]byte(name))}
	row := ledger.Plan{Name: p.Name, Version: p.Version, SourceDigest: p.SourceDigest, Digest: p.Digest, Author: p.Author, Agent: "bot"}
	if key != nil {
		if change != nil {
			change(&p)
		}
		var err error
		row.Signature, err = trust.SignPlan(key, p)
		require.NoError(t, err)
		row.Author = p.Author
	}
	_, err := d.store.PublishPlan(t.Context(), row)
	require.NoError(t, err)
}

// start opens and ends a run, with a start grant if there is a key for it.
func (d *deployment) start(t testing.TB, id string, key *trust.Key, change func(*trust.Grant)) {
	r := ledger.Run{Workflow: id, Root: "r", Origin: "r", Agent: "bot", PlanDigest: ledger.BodyDigest([]byte("p")), InputDigest: ledger.BodyDigest([]byte("i"))}
	if key != nil {
		d.grant(t, &r, key, change)
	}
	require.NoError(t, d.store.OpenRun(t.Context(), r))
	r.State = ledger.RunSucceeded
	_, _, err := d.store.CloseRun(t.Context(), r, nil)
	require.NoError(t, err)
}

// grant gives a run a start grant.
func (d *deployment) grant(t testing.TB, r *ledger.Run, key *trust.Key, change func(*trust.Grant)) {
	d.runs++
	g := trust.Grant{Deployment: "example", Audience: trust.Prod, Namespace: "default", WorkflowID: r.Workflow, Plan: r.PlanDigest, Input: r.InputDigest,
		Agent: "bot", Requester: "ann", Nonce: fmt.Sprintf("%032x", d.runs), Issued: ledger.At(time.Now()), Expires: ledger.At(time.Now().Add(time.Hour))}
	if change != nil {
		change(&g)
	}
	var err error
	r.Grant, err = trust.SignGrant(key, g)
	require.NoError(t, err)
	r.GrantDigest, err = trust.GrantDigest(r.Grant)
	require.NoError(t, err)
	r.Requester = g.Requester
}

// drain places and exports what there is.
func (d *deployment) drain(t testing.TB) {
	q := &ledger.Sequencer{Store: d.store, Key: d.key, Former: d.former}
	for {
		n, err := q.Integrate(t.Context())
		require.NoError(t, err)
		if n == 0 {
			break
		}
	}
	d.export(t)
}

// later moves the entries of a kind in time, with the log's key in hand.
func (d *deployment) later(t testing.TB, kind ledger.Kind, by time.Duration) {
	d.move(t, by, func(e *ledger.Entry) bool { return e.Kind == kind })
}

// move is like later, for the entries that are chosen.
func (d *deployment) move(t testing.TB, by time.Duration, chosen func(*ledger.Entry) bool) {
	s := storyOf(t, linesOf(d.read(t, audit.EntriesFile)))
	for _, e := range s {
		if chosen(e) {
			e.At = ledger.At(e.At.Time().Add(by))
		}
	}
	lines := s.lines(t, true)
	d.write(t, audit.EntriesFile, bytes.Join(lines, nil))
	d.write(t, audit.CheckpointFile, d.sign(t, d.key, lines))
}

// finds expects one problem, or none where says is "".
func (d *deployment) finds(t testing.TB, kind audit.ProblemKind, says string) audit.Report {
	t.Helper()
	r := d.verify(t, nil)
	if says == "" {
		require.True(t, r.OK, "%v", r.Problems)
		return r
	}
	require.False(t, r.OK)
	require.True(t, slices.ContainsFunc(r.Problems, func(p audit.Problem) bool { return p.Kind == kind && strings.Contains(p.Message, says) }), "%s: %s in %v", kind, says, r.Problems)
	return r
}

func TestAuthors(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(t *testing.T, d *deployment)
		says string
	}{
		"signed": {func(t *testing.T, d *deployment) { d.publish(t, "a", d.author, nil) }, ""},
		"signed by one who was revoked later": {func(t *testing.T, d *deployment) {
			d.publish(t, "a", d.author, nil)
			d.state(t, &trust.RevokePublisher{ID: "ann"})
		}, ""},
		"unsigned":              {func(t *testing.T, d *deployment) { d.publish(t, "a", nil, nil) }, "the plan a@1 was published without its author's signature"},
		"signed by another key": {func(t *testing.T, d *deployment) { d.publish(t, "a", secret(t), nil) }, "the publisher ann has not signed it"},
		"signed for another deployment": {func(t *testing.T, d *deployment) {
			d.publish(t, "a", d.author, func(p *trust.Plan) { p.Deployment = "other" })
		}, "signed for other"},
		"signed for dev": {func(t *testing.T, d *deployment) {
			d.publish(t, "a", d.author, func(p *trust.Plan) { p.Audience = trust.Dev })
		}, "signed for example (dev)"},
		"another plan's signature": {func(t *testing.T, d *deployment) { d.publish(t, "a", d.author, func(p *trust.Plan) { p.Name = "b" }) }, "the signature is of b@1, not of a@1"},
		"another source": {func(t *testing.T, d *deployment) {
			d.publish(t, "a", d.author, func(p *trust.Plan) { p.SourceDigest = ledger.BodyDigest(nil) })
		}, "of another source or plan"},
		"by one who signs no plans": {func(t *testing.T, d *deployment) {
			d.publish(t, "a", d.author, func(p *trust.Plan) { p.Author = "max" })
		}, "the publisher max does not sign plans"},
		"by one whom nobody knows": {func(t *testing.T, d *deployment) {
			d.publish(t, "a", d.author, func(p *trust.Plan) { p.Author = "eve" })
		}, "there is no publisher \"eve\""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			c.do(t, d)
			d.drain(t)
			d.finds(t, audit.BadAuthority, c.says)
		})
	}
	t.Run("after the author was revoked", func(t *testing.T) {
		d := newDeployment(t)
		d.publish(t, "a", d.author, nil)
		d.state(t, &trust.RevokePublisher{ID: "ann"})
		d.drain(t)
		d.later(t, ledger.PlanPublished, time.Hour)
		r := d.finds(t, audit.BadAuthority, "by ann, who was revoked at")
		require.Positive(t, r.Problems[0].Index, "it says where")
	})
}

func TestGrants(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(t *testing.T, d *deployment)
		says string
	}{
		"none":  {func(t *testing.T, d *deployment) { d.start(t, "x", nil, nil) }, ""},
		"valid": {func(t *testing.T, d *deployment) { d.start(t, "x", d.agent, nil) }, ""},
		"by a key that was replaced later": {func(t *testing.T, d *deployment) {
			d.start(t, "x", d.agent, nil)
			d.state(t, &trust.SetAgentKeys{AgentID: "bot", Keys: []string{secret(t).Public()}})
		}, ""},
		"by a new key": {func(t *testing.T, d *deployment) {
			k := secret(t)
			d.state(t, &trust.SetAgentKeys{AgentID: "bot", Keys: []string{k.Public()}})
			d.start(t, "x", k, nil)
		}, ""},
		"by another key": {func(t *testing.T, d *deployment) { d.start(t, "x", secret(t), nil) }, "the start of x: not trusted: no key that may act for bot has signed the grant"},
		"for another run": {func(t *testing.T, d *deployment) {
			d.start(t, "x", d.agent, func(g *trust.Grant) { g.WorkflowID = "y" })
		}, "the grant is for the workflow \"y\", not \"x\""},
		"for another input": {func(t *testing.T, d *deployment) {
			d.start(t, "x", d.agent, func(g *trust.Grant) { g.Input = ledger.BodyDigest([]byte("j")) })
		}, "the grant is for the input"},
		"for another namespace": {func(t *testing.T, d *deployment) {
			d.start(t, "x", d.agent, func(g *trust.Grant) { g.Namespace = "other" })
		}, "the start of x: it is for the namespace \"other\", and the trust file has default"},
		"for dev": {func(t *testing.T, d *deployment) {
			d.start(t, "x", d.agent, func(g *trust.Grant) { g.Audience = trust.Dev })
		}, "the grant is for the audience \"dev\""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			c.do(t, d)
			d.drain(t)
			d.finds(t, audit.BadAuthority, c.says)
		})
	}
	t.Run("by a key that was replaced before", func(t *testing.T) {
		d := newDeployment(t)
		d.start(t, "x", d.agent, func(g *trust.Grant) {
			g.Issued, g.Expires = ledger.At(time.Now().Add(time.Hour)), ledger.At(time.Now().Add(2*time.Hour))
		})
		d.state(t, &trust.SetAgentKeys{AgentID: "bot", Keys: []string{}})
		d.drain(t)
		d.later(t, ledger.RunOpened, time.Hour)
		d.finds(t, audit.BadAuthority, "no key that may act for bot has signed the grant")
	})
	t.Run("that has expired", func(t *testing.T) {
		d := newDeployment(t)
		d.start(t, "x", d.agent, nil)
		d.drain(t)
		d.later(t, ledger.RunOpened, 3*time.Hour)
		r := d.finds(t, "", "")
		require.True(t, slices.ContainsFunc(r.Warnings, func(p audit.Problem) bool { return strings.Contains(p.Message, "after its grant has expired") }), "%v", r.Warnings)
	})
}

// TestStatementsInTime: whether a statement may be stated is judged by when it was.
func TestStatementsInTime(t *testing.T) {
	d := newDeployment(t)
	over := ledger.At(time.Now().Add(30 * time.Minute))
	raw := d.draft(t, func(s *trust.Statement) { s.Expires = &over }, &trust.ActivateBundle{Digest: ledger.BodyDigest([]byte("b"))})
	_, err := trust.Publish(t.Context(), d.store, d.boot, raw, time.Now())
	require.NoError(t, err)
	d.drain(t)
	d.finds(t, "", "")
	d.later(t, ledger.AuthorityStated, time.Hour)
	r := d.finds(t, audit.BadAuthority, "statement 2: ")
	require.Contains(t, r.Problems[0].Message, "expired")
	require.Positive(t, r.Problems[0].Index)
}

func TestApprovalsInTime(t *testing.T) {
	key := secret(t)
	valid := func(d *deployment, id string, from, to time.Duration) *trust.EnrollSigner {
		public := newPublic(t)
		if id == "good" {
			public = key.Public()
		}
		return &trust.EnrollSigner{ID: id, Person: id, Roles: []string{"cfo"}, SigType: "pkcs11", PublicKey: public,
			NotBefore: ledger.At(time.Now().Add(from)), NotAfter: ledger.At(time.Now().Add(to))}
	}
	for name, c := range map[string]struct {
		signer string
		later  time.Duration
		says   string
	}{
		"valid":          {"good", 0, ""},
		"nobody":         {"eve", 0, "whom no statement of the admins has enrolled"},
		"not yet":        {"young", 0, "whose key is valid from"},
		"over":           {"good", 5 * time.Hour, "whose key is valid from"},
		"revoked before": {"gone", time.Hour, "who was revoked at"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			d.state(t, valid(d, "good", -time.Hour, 2*time.Hour), valid(d, "young", time.Hour, 2*time.Hour), valid(d, "gone", -time.Hour, 2*time.Hour))
			d.accept(t, d.asks(t, "x"), c.signer, key)
			d.state(t, &trust.RevokeSigner{ID: "gone"})
			d.drain(t)
			if c.later > 0 {
				d.later(t, ledger.ApprovalAccepted, c.later)
			}
			d.finds(t, audit.BadAuthority, c.says)
		})
	}
}

// TestRotation: the log gets another key, which the admins have stated.
func TestRotation(t *testing.T) {
	d := newDeployment(t)
	d.start(t, "x", nil, nil)
	d.drain(t)
	before, old := d.read(t, audit.CheckpointFile), d.trust
	former := d.key
	next := ledgertest.Key(t)

	// Stated, and not followed: the former key no longer counts.
	d.state(t, &trust.RotateLog{LogKey: trust.LogKey{Origin: ledgertest.Origin, Key: next.Public()}})
	d.drain(t)
	r := d.finds(t, audit.BadCheckpoint, "which the admins have replaced at")
	require.Equal(t, former.Public(), r.Key)

	// Followed: the trust file may be the old one or a new one.
	d.key, d.former = next, []string{former.Public()}
	d.drain(t)
	require.Equal(t, next.Public(), d.finds(t, "", "").Key)
	d.trust.Log = next.Public()
	d.finds(t, "", "")
	r = d.verify(t, before)
	require.True(t, r.OK, "the older checkpoint is by the former key: %v", r.Problems)

	// Someone who has the former key still signs nothing that counts.
	d.write(t, audit.CheckpointFile, d.sign(t, former, linesOf(d.read(t, audit.EntriesFile))))
	d.finds(t, audit.BadCheckpoint, "which the admins have replaced at")
	d.trust = old
	d.finds(t, audit.BadCheckpoint, "which the admins have replaced at")

	// Nor if the statement is withheld from an auditor with the new trust file.
	lines := linesOf(d.read(t, audit.EntriesFile))
	c, err := ledger.ParseCheckpoint(before)
	require.NoError(t, err)
	d.write(t, audit.EntriesFile, bytes.Join(lines[:c.Size], nil))
	d.write(t, audit.BodiesFile, bytes.Join(linesOf(d.read(t, audit.BodiesFile))[:c.Size], nil))
	d.write(t, audit.CheckpointFile, before)
	d.trust.Log = next.Public()
	d.finds(t, audit.BadAuthority, "the log's key in the trust file is not one that the admins have stated in this log")

	// A third key, which nobody has stated.
	d.trust = old
	d.export(t)
	d.write(t, audit.CheckpointFile, d.sign(t, ledgertest.Key(t), linesOf(d.read(t, audit.EntriesFile))))
	d.finds(t, audit.BadCheckpoint, "is not signed by the log's key "+next.Public())
	_, err = audit.Verify(d.dir, d.trust, d.sign(t, ledgertest.Key(t), nil))
	require.ErrorContains(t, err, "the older checkpoint")
}

// TestWitnessRotation: the admins replace the witnesses.
func TestWitnessRotation(t *testing.T) {
	made := func(name string) (string, string) {
		secret, public, err := ledger.NewKey(name)
		require.NoError(t, err)
		return secret, public
	}
	first, firstKey := made("w1")
	second, secondKey := made("w2")
	mine, mineKey := made("auditor")
	d := newDeployment(t, firstKey)
	cosign := func(secret string) {
		t.Helper()
		w, err := ledger.NewWitness(secret, d.key.Public(), nil)
		require.NoError(t, err)
		raw, err := d.store.Checkpoint(t.Context())
		require.NoError(t, err)
		only, err := ledger.Signers{Log: d.key.Public()}.Alone(raw)
		require.NoError(t, err)
		cosigned, err := w.Cosign(only, nil)
		require.NoError(t, err)
		require.NoError(t, d.store.AddCosignatures(t.Context(), cosigned))
		d.export(t)
	}
	d.drain(t)
	d.finds(t, audit.BadCheckpoint, "0 of the known witnesses have cosigned, 1 must")
	cosign(second)
	d.finds(t, audit.BadCheckpoint, "0 of the known witnesses have cosigned, 1 must")
	cosign(first)
	require.Equal(t, []string{"w1"}, d.finds(t, "", "").Witnesses)

	d.state(t, &trust.SetWitnesses{Witnesses: trust.Witnesses{Keys: []string{secondKey}, Quorum: 1}})
	d.drain(t)
	cosign(first)
	d.finds(t, audit.BadCheckpoint, "0 of the known witnesses have cosigned, 1 must")
	// Nor does it count for one whose trust file knows the first set alone.
	d.trust.Witnesses, d.trust.Quorum = []string{firstKey}, 1
	d.finds(t, audit.BadCheckpoint, "0 of the known witnesses have cosigned, 1 must")
	cosign(second)
	r := d.finds(t, "", "")
	require.Equal(t, []string{"w2"}, r.Witnesses)
	require.NotNil(t, r.Time)

	// The auditor asks for a witness of their own beside that.
	d.trust.Witnesses, d.trust.Quorum = []string{mineKey}, 1
	d.finds(t, audit.BadCheckpoint, "0 of the known witnesses have cosigned, 1 must")
	cosign(mine)
	require.ElementsMatch(t, []string{"w2", "auditor"}, d.finds(t, "", "").Witnesses)
	// Under the quorum.
	_, third := made("w3")
	d.trust.Witnesses, d.trust.Quorum = []string{mineKey, third}, 2
	d.finds(t, audit.BadCheckpoint, "1 of the known witnesses have cosigned, 2 must")
}

// newPublic makes a public key.
func newPublic(t testing.TB) string {
	k, _, err := trust.NewKey()
	require.NoError(t, err)
	return k.Public()
}
