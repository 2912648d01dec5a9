package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// What follows at a barrier comes neither before its time nor after the barrier's.
func TestNothingFollowsEarly(t *testing.T) {
	escalated, reminded := about(ledger.BarrierEscalated, chain, "b/1", ledger.EscalatedData{ID: "b/1"}), about(ledger.BarrierReminded, chain, "b/1/1", ledger.RemindedData{ID: "b/1", Number: 1})
	for name, c := range map[string]struct {
		change func(*ledger.Barrier)
		opened bool
	}{
		"early":    {func(b *ledger.Barrier) { late := at(24 * 3600); b.EscalatesAt, b.RemindEveryMS = &late, 24*3600*1000 }, true},
		"late":     {func(b *ledger.Barrier) { b.ExpiresAt = at(-24 * 3600) }, true},
		"never":    {func(b *ledger.Barrier) { b.EscalatesAt, b.RemindEveryMS = nil, 0 }, true},
		"too many": {func(b *ledger.Barrier) { b.EscalatesAt, b.RemindEveryMS = nil, -1 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := start()
			for _, f := range until("barrier.opened/b/1") {
				require.NoError(t, l.say(f))
			}
			err := l.say(with(life()[len(until("barrier.opened/b/1"))], c.change))
			if !c.opened {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.ErrorContains(t, l.say(escalated), "nothing follows at barrier b/1")
			require.ErrorContains(t, l.say(reminded), "nothing follows at barrier b/1")
		})
	}
}
