package siege

import (
	"flag"
	"testing"
	"time"

	"chimera.ai/engine/internal/stage"
)

var (
	plans = flag.Int("plans", 0, "how many heavy plans are run under siege; 0 is a few small ones")
	seed  = flag.Uint64("seed", 1, "the first seed of plans")
	calm  = flag.Bool("calm", false, "nothing befalls runs")
)

func TestMain(m *testing.M) {
	if Worker() {
		return
	}
	stage.Main(m)
}

// TestNoPlanWedgesItsRun: whatever befalls a run, it ends as the model says, and
// ledger, Temporal and client tell the same end.
func TestNoPlanWedgesItsRun(t *testing.T) {
	o := Options{Plans: 6, Seed: *seed, Small: true, Calm: *calm, Patience: time.Minute}
	if *plans > 0 {
		o.Plans, o.Small, o.Patience = *plans, false, 4*time.Minute
	}
	Run(t, o)
}
