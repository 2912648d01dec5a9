package embedded

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/expr"
)

// TestFunctionWords: what is suggested for a function of another language exists,
// and what has a name of its own in CEL needs no other.
func TestFunctionWords(t *testing.T) {
	for word, name := range functionWords {
		require.Contains(t, expr.Functions(), name, word)
		require.NotContains(t, expr.Functions(), word)
	}
}
