package audit

import (
	"encoding/json"
	"hash/maphash"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// TestRiskOfAHypothesis: equal risks are one, however they are written; and nobody makes a verification
// slow by writing a number that has a million digits.
func TestRiskOfAHypothesis(t *testing.T) {
	v := &verifier{seed: maphash.MakeSeed()}
	terms := func(risk string) [len(hypothesisTerms)]uint64 {
		return v.terms(&ledger.Hypothesis{RiskScore: json.Number(risk)})
	}
	require.Equal(t, terms("0.25"), terms("25e-2"))
	require.Equal(t, terms("0.000000001"), terms("1E-9"))
	require.NotEqual(t, terms("0.25"), terms("0.250000001"))
	require.NotEqual(t, terms("1"+strings.Repeat("0", 9999)), terms("1e9999"), "it is not written out")
}
