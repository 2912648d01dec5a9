package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/postgres"
)

// Calls of all sorts go through with each part's rights, and the log verifies.
func TestHonestCalls(t *testing.T) {
	long := strings.Repeat("ä/", 150)
	for name, c := range map[string]struct {
		workflow, subject, id, currency string
		minor                           int64
		end                             ledger.InvocationState
		overdraft, reset                bool
	}{
		"zero of a currency without decimals": {"w", "", "i", "JPY", 0, ledger.Settled, false, false},
		"three decimals":                      {"w", "", "i", "KWD", 1, ledger.Settled, false, false},
		"long names with slashes":             {"a/b/" + long, "", "x/1/resolved/" + long, "USD", 100, ledger.Settled, false, true},
		"odd names":                           {"w%_\\'\" \u2028<&>", "", "\u00a0%'/1/abandoned", "USD", 100, ledger.Unknown, false, true},
		"about a person":                      {"w/1", "erika", "i/2", "USD", 7, ledger.Released, false, true},
		"an overdraft":                        {"w", "", "i", "USD", 1 << 40, ledger.Settled, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, o, _ := granted(t)
			ctx := t.Context()
			engine, guardian, effects := as(t, o, postgres.DefaultRoles.Engine), as(t, o, postgres.DefaultRoles.Guardian), as(t, o, postgres.DefaultRoles.Effects)
			r := runAbout(c.workflow, c.subject)
			require.NoError(t, engine.OpenRun(ctx, r))
			cost, err := ledger.Minor(c.minor, ledger.Currency(c.currency))
			require.NoError(t, err)
			limit, err := ledger.Minor(1000, ledger.Currency(c.currency))
			require.NoError(t, err)
			require.NoError(t, guardian.SetBudget(ctx, ledger.Budget{Agent: "agent-42", Currency: ledger.Currency(c.currency), Every: ledger.Daily, Limit: limit}))
			a := ledgertest.Ask(c.id, "i")
			a.Cost, a.Overdraft = &cost, c.overdraft
			a.Call = &ledger.HeldCall{Workflow: c.workflow, Origin: r.Origin, Node: "n<\u2029>", Prob: true}
			wait := ledger.At(time.Now().Add(time.Hour))
			got, err := guardian.Authorize(ctx, r, a, func(st ledger.Standing) (ledger.Ruling, error) {
				x, err := ledgertest.Rule(ledger.Escalate)(st)
				x.Waits = &wait
				return x, err
			})
			require.NoError(t, err)
			b, err := guardian.OpenBarrier(ctx, r, ledger.Barrier{ID: "b", Name: "b", Request: []byte(`{}`), ExpiresAt: wait,
				Actions: []ledger.Awaited{{Invocation: c.id, Action: got.Decision.ActionDigest, Decision: got.Decision.ID}}})
			require.NoError(t, err)
			require.NoError(t, guardian.RecordApproval(ctx, r, ledger.Approval{ID: "a", Barrier: "b", Signer: "s", Accepted: true, Actions: []string{b.Actions[0].Action}, Envelope: []byte(`{}`)}))
			_, err = guardian.ApproveBarrier(ctx, "b", "enough", false)
			require.NoError(t, err)
			if c.reset {
				_, _, err = engine.CloseRun(ctx, ledger.Run{Workflow: c.workflow, Root: "r", State: ledger.RunCancelled}, nil)
				require.NoError(t, err)
				r.Root = "r2"
				require.NoError(t, engine.OpenRun(ctx, r))
			}
			a.Barrier, a.Approvals = "b", []string{"a"}
			got, err = guardian.Authorize(ctx, r, a, ledgertest.Rule(ledger.Approve))
			require.NoError(t, err)
			check := looked
			check.Barrier, check.Node = "b", "x/1"
			for range 3 {
				_, err = effects.RecordCheck(ctx, r, check)
				require.NoError(t, err)
			}
			i, err := effects.Claim(ctx, c.id, got.Decision.ID, "t", time.Hour)
			require.NoError(t, err)
			e := ledger.Effect{Token: "t", Settlement: ledger.Settlement{Attempt: i.Attempt, State: c.end}}
			if c.end == ledger.Settled {
				e.Result, e.OutputDigest, e.Output = []byte(`{"ä\u2028":[0.10,-0,1e-7,1E+2,"\b\f\u007f"]}`), ledger.BodyDigest(nil), []byte("x")
			}
			_, err = effects.Settle(ctx, c.id, e)
			require.NoError(t, err)
			if c.end == ledger.Released {
				got, err = guardian.Authorize(ctx, r, ledger.Authorization{ID: c.id, Digest: a.Digest, Agent: a.Agent, Life: a.Life, Task: a.Task, Cost: &cost}, ledgertest.Rule(ledger.Approve))
				require.NoError(t, err)
				_, err = effects.Claim(ctx, c.id, got.Decision.ID, "t", time.Hour)
				require.NoError(t, err, fmt.Sprint(got))
			}
			key := placed(t, s)
			var aside int
			require.NoError(t, connect(t, o).QueryRow(ctx, "SELECT count(*) FROM aside").Scan(&aside))
			require.Zero(t, aside)
			ok, problems, _ := audited(s)(t, key)
			require.True(t, ok, problems)
		})
	}
}

// What people have stated of a call of unknown outcome is said in the order of their statements' ids.
func TestHonestStatements(t *testing.T) {
	s, o, guardian, effects := asked(t, "", func(*ledger.Authorization) {})
	ctx := t.Context()
	_, err := effects.Claim(ctx, "i", "i/1", "t", time.Hour)
	require.NoError(t, err)
	_, err = effects.Settle(ctx, "i", ledger.Effect{Token: "t", Settlement: ledger.Settlement{Attempt: 1, State: ledger.Unknown}})
	require.NoError(t, err)
	i, err := s.Invocation(ctx, "i")
	require.NoError(t, err)
	r := runAbout("w", "")
	_, err = guardian.OpenBarrier(ctx, r, ledger.Barrier{ID: "b", Name: "b", Outcome: true, Request: []byte(`{}`), ExpiresAt: ledger.At(time.Now().Add(time.Hour)),
		Actions: []ledger.Awaited{{Invocation: "i", Action: i.ActionDigest, Decision: "i/1"}}})
	require.NoError(t, err)
	for _, id := range []string{"a\"1", "b", "Z", "ä"} {
		require.NoError(t, guardian.RecordApproval(ctx, r, ledger.Approval{ID: id, Barrier: "b", Signer: "s", Accepted: true, Actions: []string{}, Envelope: []byte(`{}`)}))
	}
	_, err = guardian.ApproveBarrier(ctx, "b", "enough", false)
	require.NoError(t, err)
	_, _, err = as(t, o, postgres.DefaultRoles.Engine).CloseRun(ctx, ledger.Run{Workflow: "w", Root: "r", State: ledger.RunFailed}, nil)
	require.NoError(t, err)
	e := settled
	e.Stated = []string{"Z", "a\"1", "b", "ä"}
	_, err = effects.Settle(ctx, "i", e)
	require.NoError(t, err)
	ok, problems, _ := audited(s)(t, placed(t, s))
	require.True(t, ok, problems)
}
