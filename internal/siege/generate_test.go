package siege

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/host"
)

// TestPlansCompile: what is generated is valid, and the model can say how it goes.
func TestPlansCompile(t *testing.T) {
	o, err := Tools()
	require.NoError(t, err)
	_, catalog, err := host.Catalog(o.Catalog, Skills(t.TempDir()))
	require.NoError(t, err)
	ends := map[string]int{}
	for seed := uint64(1); seed <= 40; seed++ {
		p := Generate(seed, seed%4 != 0)
		source, err := p.Source()
		require.NoError(t, err)
		_, ds := compiler.Compile(compiler.Source{Name: "plan", Text: []byte(source)}, catalog, nil)
		for _, d := range ds {
			if d.Severity == diag.Error {
				t.Logf("seed %d (%s): %s %s %s", seed, p.Name, d.Code, d.Summary, d.Detail)
			}
		}
		if ds.HasErrors() {
			t.Errorf("seed %d: %s", seed, p.Name)
			continue
		}
		m, err := Foresee(p)
		require.NoError(t, err)
		switch {
		case !m.Complete:
			ends["lasts"]++
		case len(m.Fatal) > 0:
			ends["fails"]++
		default:
			ends["succeeds"]++
		}
	}
	t.Log(ends)
}
