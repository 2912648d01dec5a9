package causal

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// atMost is the probability that at most so many of n worlds break, each with the probability p.
func atMost(found, n int, p float64) float64 {
	log := func(k int) float64 { x, _ := math.Lgamma(float64(k + 1)); return x }
	total := 0.0
	for k := found; k >= 0; k-- {
		term := math.Exp(log(n) - log(k) - log(n-k) + float64(float64(k)*math.Log(p)) + float64(float64(n-k)*math.Log1p(-p)))
		if total += term; term < total*1e-9 && float64(k) < float64(n)*p {
			break
		}
	}
	return total
}

// TestTheUpperEndIsRarelyTooLow: whatever the probability is, the share of predictions that are judged by less than it
// is what is said of z. It is greatest just above one of the upper ends.
func TestTheUpperEndIsRarelyTooLow(t *testing.T) {
	nominal := 0.5 * math.Erfc(z/math.Sqrt2)
	for _, n := range []int{MinSamples, DefaultSamples, MaxSamples} {
		for found := 0; found < n; found += 1 + min(found, n-found)/20 {
			p := wilson(found, n).judged
			miss := atMost(found, n, p)
			switch {
			case p < 0.01:
				require.Less(t, miss, 0.95*nominal, "%d of %d", found, n)
			case p < 0.3:
				require.Less(t, miss, 1.0001*nominal, "%d of %d", found, n)
			case p < 0.9:
				require.Less(t, miss, 1./400, "%d of %d", found, n)
			default:
				require.Less(t, miss, 1./11, "%d of %d", found, n)
				if more := p + 1/float64(n); more < 1 {
					require.Less(t, atMost(found, n, more), 1./400, "%d of %d", found, n)
				}
			}
		}
	}
}
