package siege

import (
	"flag"
	"testing"
	"time"

	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
)

var (
	plans = flag.Int("plans", 0, "how many heavy plans are run under siege; 0 is a few small ones")
	seed  = flag.Uint64("seed", 1, "the first seed of plans")
	huge  = flag.Bool("huge", false, "a plan of 100,000 nodes is run")
	calm  = flag.Bool("calm", false, "nothing befalls runs")
)

func TestMain(m *testing.M) {
	if Worker() {
		return
	}
	stage.Main(m)
}

// TestNoPlanWedgesItsRun: whatever happens to a run, it ends as the model says, and
// the ledger, Temporal and the client agree on the end.
func TestNoPlanWedgesItsRun(t *testing.T) {
	o := Options{Plans: 6, Seed: *seed, Small: true, Calm: *calm, Patience: 5 * time.Minute}
	if testing.Short() {
		o.Plans = 3
	}
	if *plans > 0 {
		o.Plans, o.Small, o.Patience = *plans, false, 10*time.Minute
	} else {
		stage.Parallel(t)
	}
	Run(t, o)
}

// TestAHundredThousandNodes: the largest plan finishes.
func TestAHundredThousandNodes(t *testing.T) {
	if !*huge {
		t.Skip("it takes minutes: -huge runs it")
	}
	f := camp(t, host.Options{})
	f.patience = 30 * time.Minute
	b := newBuilder(9)
	b.p.Parallel = 10_000
	for range 9 {
		b.chain(10_000, b.local)
	}
	b.wide(9990, 100, true, b.local)
	f.wins(t, f.send(t, b.p))
}
