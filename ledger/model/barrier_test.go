package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// What follows at a barrier comes neither before its time nor after the barrier's.
func TestNothingFollowsEarly(t *testing.T) {
	escalated, reminded := about(ledger.BarrierEscalated, chain, "b/1", ledger.EscalatedData{ID: "b/1"}), about(ledger.BarrierReminded, chain, "b/1/1", ledger.RemindedData{ID: "b/1", Number: 1})
	for name, change := range map[string]func(*ledger.Barrier){
		"early":    func(b *ledger.Barrier) { late := at(24 * 3600); b.EscalatesAt, b.RemindEveryMS = &late, 24*3600*1000 },
		"late":     func(b *ledger.Barrier) { b.ExpiresAt = at(-24 * 3600) },
		"never":    func(b *ledger.Barrier) { b.EscalatesAt, b.RemindEveryMS = nil, 0 },
		"too many": func(b *ledger.Barrier) { b.EscalatesAt, b.RemindEveryMS = nil, -1 },
	} {
		t.Run(name, func(t *testing.T) {
			l := start()
			for _, f := range until("barrier.opened/b/1") {
				require.NoError(t, l.say(f))
			}
			if l.say(with(life()[len(until("barrier.opened/b/1"))], change)) != nil {
				return // it is not opened like that
			}
			require.ErrorContains(t, l.say(escalated), "nothing follows at barrier b/1")
			require.ErrorContains(t, l.say(reminded), "nothing follows at barrier b/1")
		})
	}
}
