package compiler

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
)

// past compiles without the refusal of what the engine cannot run yet, to see
// what the passes before it say.
func past(t *testing.T, file string) diag.Diagnostics {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	_, ds := Check(Source{Name: file, Text: text}, testCatalog(t), testPolicy(t))
	return ds
}

// TestBeyond: a plan without a fault is not refused for anything but that it
// cannot run yet.
func TestBeyond(t *testing.T) {
	require.Empty(t, show(past(t, "testdata/later/payment.yaml")))
	for _, d := range past(t, "testdata/later/later.yaml") {
		require.NotEqual(t, diag.PlanNotSupported, d.Code, show(diag.Diagnostics{d}))
	}
}
