package activities

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// foreseer notes for which salts predictions are made.
type foreseer struct {
	Judge
	salts [][]byte
	held  *turns
}

func (f *foreseer) Predicts(operation string) bool { return operation == "bank/transfer" }

func (f *foreseer) Predict(_ *Action, salt []byte) {
	f.salts = append(f.salts, salt)
	if len(f.held.free) == 0 {
		panic("it is nobody's turn")
	}
}

// Predictions are made before a decision begins, for the salt that it will have, by all who decide.
func TestPredictBeforehand(t *testing.T) {
	g := new(Guardian)
	now, then := &foreseer{held: &g.turns}, &foreseer{held: &g.turns}
	a := &Action{Node: &plan.Node{ProviderType: plan.Skill, Provider: "bank", Operation: "transfer"}}

	salt, err := g.predict(t.Context(), now, nil, a)
	require.NoError(t, err)
	require.Len(t, salt, 16)
	require.Equal(t, [][]byte{salt}, now.salts)
	other, err := g.predict(t.Context(), now, nil, a)
	require.NoError(t, err)
	require.NotEqual(t, salt, other)

	said := &approved{salt: []byte("0123456789abcdef"), then: then}
	salt, err = g.predict(t.Context(), now, said, a)
	require.NoError(t, err)
	require.Equal(t, said.salt, salt)
	require.Equal(t, [][]byte{said.salt}, then.salts)

	now.salts = nil
	_, err = g.predict(t.Context(), now, nil, &Action{Node: &plan.Node{Provider: "bank", Operation: "balance"}})
	require.NoError(t, err)
	require.Empty(t, now.salts)
	require.Empty(t, g.turns.free, "every turn is ended")
}

// Who waits for a turn too long is told so, and asks again.
func TestPredictInTurn(t *testing.T) {
	g := new(Guardian)
	var leave func()
	for range runtime.GOMAXPROCS(0) {
		var err error
		leave, err = g.turns.take(t.Context())
		require.NoError(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := &foreseer{held: &g.turns}
	a := &Action{Node: &plan.Node{ProviderType: plan.Skill, Provider: "bank", Operation: "transfer"}}
	_, err := g.predict(ctx, f, nil, a)
	var failure *contract.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, contract.StoreUnavailable, failure.Kind)
	require.ErrorIs(t, err, context.Canceled)
	leave()
	_, err = g.predict(t.Context(), f, nil, a)
	require.NoError(t, err)
}
