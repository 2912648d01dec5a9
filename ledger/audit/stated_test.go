package audit_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// unknown is a run with a call of unknown outcome, about which people are asked by a request
// that edit has changed.
func (d *deployment) unknown(t testing.TB, edit func(*approval.Request)) (asked, ledger.Invocation) {
	a := asked{ask: ledgertest.Ask("i-x", "action of x")}
	a.run = ledger.Run{
		Workflow: "x", Root: "r", Origin: "r", Agent: "bot", Requester: "rae", PlanName: "pay", PlanVersion: "1", PlanDigest: ledger.BodyDigest([]byte("pay")), InputDigest: ledger.BodyDigest([]byte("i")),
	}
	d.grant(t, &a.run, d.agent, func(g *trust.Grant) { g.Requester = a.run.Requester })
	require.NoError(t, d.store.OpenRun(t.Context(), a.run))
	got, err := d.store.Authorize(t.Context(), a.run, a.ask, ledgertest.Rule(ledger.Approve))
	require.NoError(t, err)
	_, err = d.store.Claim(t.Context(), a.ask.ID, got.Decision.ID, "token", time.Minute)
	require.NoError(t, err)
	i, err := d.store.Settle(t.Context(), a.ask.ID, ledger.Effect{Token: "token", Settlement: ledger.Settlement{Attempt: 1, State: ledger.Unknown}})
	require.NoError(t, err)
	until := ledger.At(time.Now().Add(24 * time.Hour))
	request := approval.Request{
		Kind: approval.Outcome, Deployment: "example", Audience: trust.Prod, Namespace: "default", Workflow: "x", Origin: "r", Barrier: "o/1", Plan: a.run.PlanDigest, Agent: "bot",
		Policy: d.keeps(t, bundle), Rule: approval.Rule{Groups: cfos, Excluded: []string{"ann", "rae"}}, Opened: ledger.At(time.Now().Add(-time.Minute)), Expires: until,
		Actions: []approval.Action{{Invocation: i.ID, Action: i.ActionDigest, Decision: i.DecisionID, Permitted: got.Decision.DecidedAt}},
	}
	if edit != nil {
		edit(&request)
	}
	raw, err := request.Encode()
	require.NoError(t, err)
	a.barrier, err = d.store.OpenBarrier(t.Context(), a.run, ledger.Barrier{
		ID: "o/1", Name: "outcome/pay", Outcome: true, Request: raw, ExpiresAt: until,
		Actions: []ledger.Awaited{{Invocation: i.ID, Action: i.ActionDigest, Decision: i.DecisionID}},
	})
	require.NoError(t, err)
	return a, i
}

// states has the ledger accept a statement, whoever has made it, and returns its id.
func (d *deployment) states(t testing.TB, a asked, says approval.Decision, signer string, key *trust.Key) string {
	r, digest, err := approval.ParseRequest(a.barrier.Request)
	require.NoError(t, err)
	p := r.Payload(digest, says)
	p.Signer, p.Role, p.Reason, p.Nonce = signer, "cfo", "I have looked", plan.DigestOf([]byte(signer))[7:39]
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

// TestStatements: what the log says that people have stated, enough of the right people have
// signed.
func TestStatements(t *testing.T) {
	for name, c := range map[string]struct {
		by   func(t *testing.T, d *deployment, a asked, cat, dan *trust.Key) []string
		end  ledger.InvocationState
		edit func(*approval.Request)
		says string
	}{
		"executed": {func(t *testing.T, d *deployment, a asked, cat, dan *trust.Key) []string {
			return []string{d.states(t, a, approval.Executed, "cat", cat), d.states(t, a, approval.Executed, "dan", dan)}
		}, ledger.Settled, nil, ""},
		"not executed": {func(t *testing.T, d *deployment, a asked, cat, dan *trust.Key) []string {
			return []string{d.states(t, a, approval.NotExecuted, "cat", cat), d.states(t, a, approval.NotExecuted, "dan", dan)}
		}, ledger.Released, nil, ""},
		"the opposite of what they say": {func(t *testing.T, d *deployment, a asked, cat, dan *trust.Key) []string {
			return []string{d.states(t, a, approval.Executed, "cat", cat), d.states(t, a, approval.Executed, "dan", dan)}
		}, ledger.Released, nil, "not enough of them have stated that"},
		"by one": {func(t *testing.T, d *deployment, a asked, cat, _ *trust.Key) []string {
			return []string{d.states(t, a, approval.Executed, "cat", cat)}
		}, ledger.Settled, nil, "not enough of them have stated that"},
		"with another's key": {func(t *testing.T, d *deployment, a asked, cat, _ *trust.Key) []string {
			return []string{d.states(t, a, approval.Executed, "cat", cat), d.states(t, a, approval.Executed, "dan", cat)}
		}, ledger.Settled, nil, "forged"},
		"of whom one contradicts": {func(t *testing.T, d *deployment, a asked, cat, dan *trust.Key) []string {
			return []string{d.states(t, a, approval.NotExecuted, "cat", cat), d.states(t, a, approval.Executed, "dan", dan)}
		}, ledger.Released, nil, "not enough of them have stated that"},
		"about another call": {func(t *testing.T, d *deployment, a asked, cat, dan *trust.Key) []string {
			return []string{d.states(t, a, approval.Executed, "cat", cat), d.states(t, a, approval.Executed, "dan", dan)}
		}, ledger.Settled, func(r *approval.Request) { r.Actions[0].Decision = "i-x/7" }, "they were asked something else"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			cat, dan := secret(t), secret(t)
			d.state(t, signerOf("cat", "cat", cat), signerOf("dan", "dan", dan))
			a, i := d.unknown(t, c.edit)
			by := c.by(t, d, a, cat, dan)
			_, err := d.store.CloseBarrier(t.Context(), a.barrier.ID, ledger.BarrierApproved, "")
			require.NoError(t, err)
			end := ledger.Effect{Token: "token", Settlement: ledger.Settlement{Attempt: 1, State: c.end, Stated: slices.Sorted(slices.Values(by))}}
			if c.end == ledger.Settled {
				end.Result = json.RawMessage(`{"stated":"executed"}`)
			}
			_, err = d.store.Settle(t.Context(), i.ID, end)
			require.NoError(t, err)
			d.drain(t)
			r := d.verify(t, nil)
			found := ""
			for _, p := range r.Problems {
				if p.Kind == audit.BadAuthority && !strings.Contains(p.Message, "the permit of") { // no guardian's
					found += p.Message + "\n"
				}
			}
			if c.says == "" {
				require.Empty(t, found)
				return
			}
			require.Contains(t, found, c.says)
		})
	}
}
