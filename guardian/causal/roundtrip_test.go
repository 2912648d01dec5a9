package causal

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/diag"
)

// TestWriteIsRead: what is written is read back as the same model.
func TestWriteIsRead(t *testing.T) {
	m, found := ParseDraft(diag.Source{Name: "model.yaml", Text: Write(written)})
	require.Empty(t, found)
	require.Empty(t, cmp.Diff(written, m))
	require.Equal(t, written.Digest(), m.Digest())
}

// TestAnyTextIsRead: no text gets another meaning by being written.
func TestAnyTextIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := *written
		m.Description = rapid.StringN(0, 40, 100).Draw(t, "description")
		x := rapid.Float64Range(-MaxNumber, MaxNumber).Draw(t, "x")
		category := rapid.StringN(1, 16, 64).Draw(t, "category")
		m.Variables = append([]Variable{{Name: "a", Values: []string{category}, Value: &Value{Category: category}, Provenance: Assumed},
			{Name: "b", Noise: &Noise{Normal: &Normal{Mean: x + 0, SD: 1}}, Provenance: Assumed}}, m.Variables...)
		read, found := ParseDraft(diag.Source{Name: "model.yaml", Text: Write(&m)})
		if found.HasErrors() {
			// Then the text is one that no model has.
			require.NotEmpty(t, Check(&m), "%s", found)
			return
		}
		require.Equal(t, m.Digest(), read.Digest())
	})
}
