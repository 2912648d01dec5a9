package audit_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/catalog"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/trust"
)

// cfos is the rule of the tests: two persons of one role.
var cfos = []plan.Group{{Role: "cfo", Min: 2}}

// asked is a run at whose barrier people are asked.
type asked struct {
	run     ledger.Run
	barrier ledger.Barrier
	ask     ledger.Authorization
}

// asks opens a run whose effect waits for people.
func (d *deployment) asks(t testing.TB, workflow string) asked {
	return d.asksAbout(t, workflow, nil, plan.FollowUp{})
}

// asksAbout is like asks, for the action of a digest, or for any if that is nil, and with what
// follows while people have not approved.
func (d *deployment) asksAbout(t testing.TB, workflow string, action func(ledger.Run) (string, error), follows plan.FollowUp, edit ...func(*approval.Request)) asked {
	a := asked{ask: ledgertest.Ask("i-"+workflow, "action of "+workflow)}
	a.run = ledger.Run{Workflow: workflow, Root: "r", Origin: "r", Agent: "bot", PlanDigest: ledger.BodyDigest([]byte("p")), InputDigest: ledger.BodyDigest([]byte("i"))}
	if action != nil {
		a.ask.Digest = func([]byte) (string, error) { return action(a.run) }
	}
	d.grant(t, &a.run, d.agent, nil)
	require.NoError(t, d.store.OpenRun(t.Context(), a.run))
	until := ledger.At(time.Now().Add(30 * 24 * time.Hour))
	got, err := d.store.Authorize(t.Context(), a.run, a.ask, func(st ledger.Standing) (ledger.Ruling, error) {
		r, err := ledgertest.Rule("ESCALATE")(st)
		r.Waits = &until
		return r, err
	})
	require.NoError(t, err)
	waits := approval.Action{
		Invocation: a.ask.ID, Action: got.Decision.ActionDigest, Decision: got.Decision.ID,
		Undo: []approval.Undo{{Node: "back", Operation: "book/erase", Invocation: "u-" + workflow}},
	}
	request := approval.Request{
		Deployment: "example", Audience: trust.Prod, Namespace: "default", Workflow: workflow, Origin: "r", Barrier: "b-" + workflow + "/1", Plan: a.run.PlanDigest, Agent: "bot",
		Requester: a.run.Requester, Policy: d.keeps(t, bundle), Rule: approval.Rule{Groups: cfos, Excluded: []string{"ann", "eve"}, FollowUp: follows}, Actions: []approval.Action{waits}, Opened: ledger.At(time.Now().Add(-time.Minute)), Expires: until,
	}
	for _, e := range edit {
		e(&request)
	}
	raw, err := request.Encode()
	require.NoError(t, err)
	a.barrier, err = d.store.OpenBarrier(t.Context(), a.run, ledger.Barrier{
		ID: request.Barrier, Name: "node/pay", Request: raw, ExpiresAt: until, EscalatesAt: request.EscalatesAt(),
		Actions: []ledger.Awaited{{Invocation: waits.Invocation, Action: waits.Action, Decision: waits.Decision, Undo: []string{"u-" + workflow, "x-" + workflow}}},
	})
	require.NoError(t, err)
	return a
}

// bundle is the policy of barriers, which is active. Ann, who owns the agent bot, approves
// nothing by it.
var bundle = &policy.Bundle{Version: "1", Outcome: []policy.Group{{Role: "cfo", Min: 2}}}

// keeps keeps a bundle in the ledger, and returns its digest there.
func (d *deployment) keeps(t testing.TB, b *policy.Bundle) string {
	g, found := guardian.New(b, &catalog.Catalog{})
	require.NotNil(t, g, "%v", found)
	rules, err := g.Rules("none")
	require.NoError(t, err)
	return d.keep(t, rules.Policy)
}

// accept has the ledger accept a signature, whoever has made it, and returns its id.
func (d *deployment) accept(t testing.TB, a asked, signer string, key *trust.Key) string {
	return d.acceptAs(t, a, signer, "cfo", key)
}

func (d *deployment) acceptAs(t testing.TB, a asked, signer, role string, key *trust.Key) string {
	r, digest, err := approval.ParseRequest(a.barrier.Request)
	require.NoError(t, err)
	p := r.Payload(digest, approval.Approve)
	p.Signer, p.Role, p.Nonce = signer, role, plan.DigestOf([]byte(signer + a.barrier.ID))[7:39]
	p.Issued, p.NotBefore, p.Expires = ledger.At(time.Now()), ledger.At(time.Now().Add(-time.Minute)), r.Expires
	e, err := p.Unsigned()
	require.NoError(t, err)
	require.NoError(t, e.Sign(key))
	raw, err := e.Encode()
	require.NoError(t, err)
	require.NoError(t, d.store.RecordApproval(t.Context(), a.run, ledger.Approval{
		ID: e.Digest(), Barrier: a.barrier.ID, Signer: signer, Accepted: true, Actions: r.Digests(), Envelope: raw,
	}))
	return e.Digest()
}

// permit has the action permitted, by a decision that names who must approve it.
func (d *deployment) permit(t testing.TB, a asked, approvals ...string) {
	if len(approvals) > 0 {
		_, err := d.store.ApproveBarrier(t.Context(), a.barrier.ID, "", a.barrier.EscalatedAt != nil)
		require.NoError(t, err)
		a.ask.Barrier, a.ask.Approvals = a.barrier.ID, approvals
	}
	got, err := d.store.Authorize(t.Context(), a.run, a.ask, asks)
	require.NoError(t, err)
	i, err := d.store.Claim(t.Context(), a.ask.ID, got.Decision.ID, "token", time.Minute)
	require.NoError(t, err)
	_, err = d.store.Settle(t.Context(), a.ask.ID, ledger.Effect{Token: "token", Settlement: ledger.Settlement{Attempt: i.Attempt, State: ledger.Settled, OutputDigest: ledger.BodyDigest(nil)}})
	require.NoError(t, err)
}

// asks approves an action, and names who must approve it.
func asks(st ledger.Standing) (ledger.Ruling, error) {
	r, err := ledgertest.Rule(ledger.Approve)(st)
	r.Decision.Record = json.RawMessage(`{"groups":[{"role":"cfo","min":2}]}`)
	return r, err
}

// undo has what undoes the action permitted by approvals of that.
func (d *deployment) undo(t testing.TB, a asked, invocation string, approvals ...string) {
	ask := ledgertest.Ask(invocation, "undo of "+a.ask.ID)
	ask.Barrier, ask.Approvals = a.barrier.ID, approvals
	_, err := d.store.Authorize(t.Context(), a.run, ask, asks)
	require.NoError(t, err)
}

// TestApprovals: what counts was signed by the right people, and by enough of them.
func TestApprovals(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(t *testing.T, d *deployment, a asked, cat, dan *trust.Key)
		says string
	}{
		"by both": {func(t *testing.T, d *deployment, a asked, cat, dan *trust.Key) {
			d.permit(t, a, d.accept(t, a, "cat", cat), d.accept(t, a, "dan", dan))
		}, ""},
		"with what it undoes": {func(t *testing.T, d *deployment, a asked, cat, dan *trust.Key) {
			both := []string{d.accept(t, a, "cat", cat), d.accept(t, a, "dan", dan)}
			d.permit(t, a, both...)
			d.undo(t, a, "u-x", both...)
		}, ""},
		"with what it undoes, by one": {func(t *testing.T, d *deployment, a asked, cat, dan *trust.Key) {
			both := []string{d.accept(t, a, "cat", cat), d.accept(t, a, "dan", dan)}
			d.permit(t, a, both...)
			d.undo(t, a, "u-x", both[0])
		}, "not enough people have approved it"},
		"as what nobody has signed undoes it": {func(t *testing.T, d *deployment, a asked, cat, dan *trust.Key) {
			both := []string{d.accept(t, a, "cat", cat), d.accept(t, a, "dan", dan)}
			d.permit(t, a, both...)
			d.undo(t, a, "x-x", both...)
		}, "people have approved something else"},
		"by one who is excluded": {func(t *testing.T, d *deployment, a asked, cat, _ *trust.Key) {
			eve := secret(t)
			d.state(t, signerOf("eve", "eve", eve))
			d.permit(t, a, d.accept(t, a, "cat", cat), d.accept(t, a, "eve", eve))
		}, "excluded: eve must not approve this"},
		"by nobody": {func(t *testing.T, d *deployment, a asked, _, _ *trust.Key) { d.permit(t, a) }, "nobody's approval was used"},
		"by one": {func(t *testing.T, d *deployment, a asked, cat, _ *trust.Key) {
			d.permit(t, a, d.accept(t, a, "cat", cat))
		}, "not enough people have approved it"},
		"with another's key": {func(t *testing.T, d *deployment, a asked, cat, _ *trust.Key) {
			d.accept(t, a, "dan", cat)
		}, "forged: the key of the signer dan has not signed it"},
		"of another barrier": {func(t *testing.T, d *deployment, a asked, cat, _ *trust.Key) {
			other := d.asks(t, "other")
			other.barrier.ID = a.barrier.ID
			d.accept(t, other, "cat", cat)
		}, "foreign: it is about the workflow"},
		"by the same person twice": {func(t *testing.T, d *deployment, a asked, cat, _ *trust.Key) {
			again := secret(t)
			d.state(t, signerOf("cat-2", "cat", again))
			d.permit(t, a, d.accept(t, a, "cat", cat), d.accept(t, a, "cat-2", again))
		}, "not enough people have approved it"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			cat, dan := secret(t), secret(t)
			d.state(t, signerOf("cat", "cat", cat), signerOf("dan", "dan", dan))
			c.do(t, d, d.asks(t, "x"), cat, dan)
			d.drain(t)
			r := d.verify(t, nil)
			var found []string
			for _, p := range r.Problems {
				if p.Kind == audit.BadAuthority {
					found = append(found, p.Message)
				}
			}
			if c.says == "" {
				// The permits of these tests are no guardian's.
				for _, f := range found {
					require.Contains(t, f, "the permit of")
				}
				return
			}
			require.Contains(t, found[0], c.says)
		})
	}
}

func signerOf(id, person string, key *trust.Key) *trust.EnrollSigner {
	return &trust.EnrollSigner{
		ID: id, Person: person, Roles: []string{"cfo"}, SigType: trust.SigToken, PublicKey: key.Public(),
		NotBefore: ledger.At(time.Now().Add(-time.Hour)), NotAfter: ledger.At(time.Now().Add(24 * time.Hour)),
	}
}
