package sagas

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
)

var (
	plans = flag.Int("plans", 60, "how many random plans are run; with -short, a quarter")
	seed  = flag.Uint64("seed", 1, "the first seed of plans")
)

func TestMain(m *testing.M) {
	if Worker() {
		return
	}
	stage.Main(m)
}

// batch is how many plans run side by side at most.
const batch = 50

// deadly reports whether the plan of a seed may kill its worker.
func deadly(seed uint64) bool { return seed%4 == 0 }

// TestRandomSagas: whatever fails, is cancelled, late or killed, the tool's own journal is
// as the model says.
func TestRandomSagas(t *testing.T) {
	n := uint64(*plans)
	if testing.Short() {
		n /= 4
	}
	for _, kills := range []bool{false, true} {
		var all []*Plan
		for s := *seed; s < *seed+n; s++ {
			if deadly(s) == kills {
				all = append(all, Draw(s, kills))
			}
		}
		for some := range slices.Chunk(all, batch) {
			t.Run(fmt.Sprintf("%d from seed %d, kills %t", len(some), some[0].Seed, kills), func(t *testing.T) {
				stage.Parallel(t)
				Run(t, some, kills)
			})
		}
	}
}

// TestDrawnPlansCompile: every plan that is drawn compiles.
func TestDrawnPlansCompile(t *testing.T) {
	operations, bundle, err := rules()
	require.NoError(t, err)
	_, whole, err := host.Catalog(operations, nil)
	require.NoError(t, err)
	for s := range uint64(300) {
		source, err := Draw(s, s%2 == 0).Source()
		require.NoError(t, err)
		p, ds := compiler.Compile(compiler.Source{Name: "plan", Text: []byte(source)}, whole, bundle)
		require.NotNil(t, p, "seed %d: %v\n%s", s, ds, source)
	}
}
