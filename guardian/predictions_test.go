package guardian_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/guardian"
)

// A prediction that was made before the decision is the one that the decision would make.
func TestPredictBeforehand(t *testing.T) {
	salt := []byte("0123456789abcdef")
	for name, minor := range map[string]int{"valid": 1000, "outside of the model": 500_000} {
		a := action(transfer(minor))
		plain := foreseeing(t, modelledText, drain).Decide(a, salt, facts())
		g := foreseeing(t, modelledText, drain)
		require.True(t, g.Predicts(a.Operation))
		require.False(t, g.Predicts("bank/other"))
		g.Predict(a, salt)
		require.Equal(t, plain, g.Decide(a, salt, facts()), name)
	}
	foreseeing(t, modelledText, drain).Predict(&guardian.Action{}, nil) // is malformed, which Decide says
}
