package siege

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/host"
)

// TestPlansCompile: what is generated is valid, and the model can say how it goes.
func TestPlansCompile(t *testing.T) {
	o, err := Tools()
	require.NoError(t, err)
	_, catalog, err := host.Catalog(o.Catalog, Skills(t.TempDir()))
	require.NoError(t, err)
	last := uint64(40)
	if testing.Short() {
		last = 8
	}
	ends := map[string]int{}
	for seed := uint64(1); seed <= last; seed++ {
		p, err := Draw(seed, seed%4 != 0, catalog)
		require.NoError(t, err)
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
