package audit_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/guardian"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/plan"
)

// TestPrechecks: an effect that was permitted without its prechecks, or by others than the
// role effects has stated, is found, and so is one whose prechecks nobody called again.
func TestPrechecks(t *testing.T) {
	said := plan.DigestOf([]byte(`{"weather":"sun"}`))
	for name, c := range map[string]struct {
		before, after *ledger.Check
		want          string
	}{
		"honest":           {&ledger.Check{OutputDigest: said}, &ledger.Check{OutputDigest: said}, ""},
		"never called":     {nil, nil, "has not returned last what the decision names"},
		"not called again": {&ledger.Check{OutputDigest: said}, nil, "was not called again after people had approved it"},
		"failed":           {&ledger.Check{OutputDigest: said}, &ledger.Check{Failure: "tool_error"}, "has not returned last what the decision names"},
		"another answer":   {&ledger.Check{OutputDigest: said}, &ledger.Check{OutputDigest: plan.DigestOf(nil)}, "has not returned last what the decision names"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			cat, dan := secret(t), secret(t)
			d.state(t, signerOf("cat", "cat", cat), signerOf("dan", "dan", dan))
			a := d.asks(t, "x")
			record := func(check *ledger.Check, barrier string) {
				if check == nil {
					return
				}
				check.Node, check.Visit, check.Barrier, check.State = "look", 1, barrier, ledger.CheckSucceeded
				if check.Failure != "" {
					check.State = ledger.CheckFailed
				}
				_, err := d.store.RecordCheck(t.Context(), a.run, *check)
				require.NoError(t, err)
			}
			record(c.before, "")
			approvals := []string{d.accept(t, a, "cat", cat), d.accept(t, a, "dan", dan)}
			_, err := d.store.CloseBarrier(t.Context(), a.barrier.ID, ledger.BarrierApproved, "")
			require.NoError(t, err)
			record(c.after, a.barrier.ID)
			a.ask.Barrier, a.ask.Approvals = a.barrier.ID, approvals
			raw, err := json.Marshal(guardian.Evidence{Policy: "p", Operation: "o", Action: &guardian.Action{
				Node: "pay", Inputs: json.RawMessage(`{}`), Prechecks: []guardian.Precheck{{Node: "look", Output: said}}, Run: guardian.Run{Workflow: "x", Origin: "r", Path: "pay/1"},
			}})
			require.NoError(t, err)
			_, err = d.store.Authorize(t.Context(), a.run, a.ask, func(st ledger.Standing) (ledger.Ruling, error) {
				r, err := ledgertest.Rule(ledger.Approve)(st)
				r.Evidence = ledger.Packet{Parts: []ledger.Part{{Name: "action", Data: raw}}}
				return r, err
			})
			require.NoError(t, err)
			d.drain(t)
			saysOnly(t, d.verify(t, nil).Problems, audit.BadStory, "precheck", c.want)
		})
	}
}

// saysOnly checks that of the problems of a kind that speak of something there is only the one
// that is wanted, or, where want is "", none.
func saysOnly(t *testing.T, problems []audit.Problem, kind audit.ProblemKind, of, want string) {
	t.Helper()
	var found []string
	for _, p := range problems {
		if p.Kind == kind && strings.Contains(p.Message, of) {
			found = append(found, p.Message)
		}
	}
	if want == "" {
		require.Empty(t, found)
		return
	}
	require.Len(t, found, 1)
	require.Contains(t, found[0], want)
}
