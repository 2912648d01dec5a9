package ledgertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// origins: what a run may do, all runs of its origin may do together, so a run that is reset
// gains nothing.
func origins(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	first, reset, other := run(), run(), run()
	reset.Root = "r2"
	other.Workflow, other.Root, other.Origin = "other", "r3", "r3"
	for _, r := range []ledger.Run{first, reset, other} {
		require.NoError(t, s.OpenRun(ctx, r))
	}
	// found has an action decided with a word, and returns what was found.
	found := func(r ledger.Run, a ledger.Authorization, word string) (found ledger.Standing) {
		t.Helper()
		_, err := s.Authorize(ctx, r, a, func(st ledger.Standing) (ledger.Ruling, error) {
			found = st
			return Rule(word)(st)
		})
		require.NoError(t, err)
		return found
	}

	// Calls are counted, each once however often it is decided on.
	for _, c := range []struct {
		run        ledger.Run
		id, action string
		want       int64
	}{
		{first, "a", "pay", 1},
		{first, "b", "pay", 2},
		{reset, "c", "pay", 3},
		{other, "d", "pay", 1},
		{first, "e", "pay", 4},
		{reset, "a", "pay more", 4},
		{reset, "f", "pay", 5},
	} {
		require.Equal(t, c.want, found(c.run, Ask(c.id, c.action), ledger.Approve).Calls, c.id)
	}

	// So is what calls of probabilistic nodes cost.
	far, most := ledger.At(time.Unix(1<<33, 0)), usd(t, 30)
	call := func(r ledger.Run) *ledger.HeldCall {
		return &ledger.HeldCall{Workflow: r.Workflow, Root: r.Root, Origin: r.Origin, Node: "think", Prob: true, Most: &most}
	}
	for _, c := range []struct {
		run   ledger.Run
		id    string
		cents int64
		want  error
	}{
		{first, "most of it", 20, nil},
		{reset, "too much", 11, ledger.ErrBudget},
		{reset, "the rest", 10, nil},
		{first, "no more", 1, ledger.ErrBudget},
		{other, "elsewhere", 30, nil},
	} {
		_, err := s.OpenHold(ctx, ledger.Hold{ID: c.id, Agent: "thinker", Amount: usd(t, c.cents), ExpiresAt: far, Call: call(c.run)})
		require.ErrorIs(t, err, c.want, c.id)
	}
	cent := usd(t, 1)
	a := Ask("say", "say")
	a.Cost, a.Call = &cent, call(reset)
	require.Equal(t, ledger.Exceeded, found(reset, a, "ESCALATE").Money)
	Drain(t, s, Key(t))
	Same(t, s, Replay(t, s))
}
