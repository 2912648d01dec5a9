package elementary_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/internal/elementary"
)

// exact returns e to the power of x by its series, to 200 bits.
func exact(x float64) *big.Float {
	// x is halved ten times, and the result squared as often.
	r := new(big.Float).SetPrec(300).SetFloat64(x)
	halvings := 20
	r.SetMantExp(r, -halvings)
	sum, term := big.NewFloat(1).SetPrec(300), big.NewFloat(1).SetPrec(300)
	for n := 1; n < 60; n++ {
		term.Mul(term, r)
		term.Quo(term, new(big.Float).SetPrec(300).SetInt64(int64(n)))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum
}

// ulps returns how far a result is from the exact one, in units of its last place.
func ulps(have float64, want *big.Float) float64 {
	unit := math.Nextafter(math.Abs(have), math.Inf(1)) - math.Abs(have)
	d := new(big.Float).SetPrec(300).Sub(new(big.Float).SetFloat64(have), want)
	n, _ := d.Quo(d, new(big.Float).SetFloat64(unit)).Float64()
	return math.Abs(n)
}

func TestExpIsWithinOneUnit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.OneOf(rapid.Float64Range(-745, 709.7), rapid.Float64Range(-1, 1), rapid.Float64Range(-1e-9, 1e-9)).Draw(t, "x")
		require.Less(t, ulps(elementary.Exp(x), exact(x)), 1.0, "%v", x)
	})
}

// Log is checked by its inverse: y = log x exactly if exp y = x, and d(exp y) = x dy.
func TestLogIsWithinOneUnit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.OneOf(rapid.Float64Range(5e-324, math.MaxFloat64), rapid.Float64Range(0.5, 2), rapid.Float64Range(0.999, 1.001)).Draw(t, "x")
		y := elementary.Log(x)
		if x == 1 {
			require.Zero(t, y)
			return
		}
		unit := math.Nextafter(math.Abs(y), math.Inf(1)) - math.Abs(y)
		d := new(big.Float).SetPrec(300).Quo(exact(y), new(big.Float).SetFloat64(x))
		d.Sub(d, big.NewFloat(1))
		off, _ := d.Float64()
		require.Less(t, math.Abs(off), unit, "%v", x)
	})
}

func TestEnds(t *testing.T) {
	inf := math.Inf(1)
	for x, want := range map[float64]float64{0: 1, 709.7827128933841: inf, inf: inf, -inf: 0, -745.14: 0, -745.13: 5e-324} {
		require.Equal(t, want, elementary.Exp(x), "exp %v", x)
	}
	for x, want := range map[float64]float64{0: -inf, 1: 0, inf: inf, math.E: 1, 2: math.Ln2, 5e-324: -744.4400719213812} {
		require.Equal(t, want, elementary.Log(x), "log %v", x)
	}
	require.True(t, math.IsNaN(elementary.Log(-1)))
	require.True(t, math.IsNaN(elementary.Log(math.NaN())))
	require.True(t, math.IsNaN(elementary.Exp(math.NaN())))
}
