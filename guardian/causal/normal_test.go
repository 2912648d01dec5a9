package causal

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// tailOf returns the probability that a standard normal variable is greater than z, by Laplace's continued fraction
// or, near 0, by its series, to 200 bits.
func tailOf(z float64) *big.Float {
	of := func(x float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(x) }
	density := func() *big.Float {
		// exp(-z²/2)/√2π, by the series of exp of a small part, squared often.
		x := of(z)
		x.Mul(x, x)
		x.Quo(x, of(-2))
		x.SetMantExp(x, -20)
		sum, term := of(1), of(1)
		for n := 1; n < 50; n++ {
			term.Mul(term, x)
			term.Quo(term, of(float64(n)))
			sum.Add(sum, term)
		}
		for range 20 {
			sum.Mul(sum, sum)
		}
		twoPi, _ := new(big.Float).SetPrec(200).SetString("6.283185307179586476925286766559005768394338798750211641949889")
		return sum.Quo(sum, twoPi.Sqrt(twoPi))
	}()
	if z < 4 {
		sum, term := of(z), of(z)
		for n := 3; n < 400; n += 2 {
			term.Mul(term, of(z))
			term.Mul(term, of(z))
			term.Quo(term, of(float64(n)))
			sum.Add(sum, term)
		}
		sum.Mul(sum, density)
		return sum.Sub(of(0.5), sum)
	}
	fraction := of(z)
	for n := 3000; n > 0; n-- {
		fraction.Quo(of(float64(n)), fraction)
		fraction.Add(fraction, of(z))
	}
	return density.Quo(density, fraction)
}

func relative(have float64, want *big.Float) float64 {
	d := new(big.Float).SetPrec(200).Quo(new(big.Float).SetFloat64(have), want)
	off, _ := d.Sub(d, big.NewFloat(1)).Float64()
	return math.Abs(off)
}

func TestUpperIsThatOfMoreDigits(t *testing.T) {
	for z := -8.0; z < 37.5; z += 0.473 {
		require.Less(t, relative(upper(z), tailOf(z)), 1e-12, "%v", z)
	}
	rapid.Check(t, func(t *rapid.T) {
		z := rapid.Float64Range(-1, 37.5).Draw(t, "z")
		require.Less(t, relative(upper(z), tailOf(z)), 1e-12, "%v", z)
	})
}

// The tails are tabulated in M. Abramowitz and I. Stegun, "Handbook of Mathematical Functions", 26.1 and 26.2.
func TestUpperOfTables(t *testing.T) {
	for z, want := range map[float64]float64{
		0: 0.5, 1: 0.158655253931457, 2: 0.0227501319481792, 3: 0.00134989803163009, 1.6448536269514722: 0.05, 1.959963984540054: 0.025,
		5: 2.866515718791939e-7, 10: 7.61985302416e-24, 20: 2.75362411861e-89, 37: 5.72557e-300,
	} {
		require.InEpsilon(t, want, upper(z), 1e-5, "%v", z)
	}
	require.Zero(t, upper(math.Inf(1)))
	require.Equal(t, 1.0, upper(math.Inf(-1)))
	require.Zero(t, upper(50))
}

func TestQuantileIsTheInverse(t *testing.T) {
	for p, want := range map[float64]float64{0.5: 0, 0.95: z95, 0.05: -z95, 0.975: 1.959963984540054, 0.25: -0.6744897501960817, 0.001: -3.090232306167814, 1e-20: -9.262340089798408} {
		require.InDelta(t, want, quantile(p), 1e-14, "%v", p)
	}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.OneOf(rapid.Float64Range(1e-300, 1e-3), rapid.Float64Range(1e-300, 0.5)).Draw(t, "p")
		// An error of the quantile is one of p, as large as the density is times as much.
		want := new(big.Float).SetFloat64(p)
		require.Less(t, relative(upper(-quantile(p)), want), 2e-12, "%v", p)
		if p > 1e-10 {
			require.InDelta(t, -quantile(p), quantile(1-p), 1e-5)
		}
	})
}

// The known answers are those of the file kat_vectors of Random123 1.14 (D. E. Shaw Research).
func TestPhiloxHasTheKnownAnswers(t *testing.T) {
	for _, c := range [][10]uint32{
		{0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
		{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
		{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
	} {
		w0, w1, w2, w3 := philox(c[0], c[1], c[2], c[3], c[4], c[5])
		require.Equal(t, c[6:], []uint32{w0, w1, w2, w3})
	}
}

func TestUniformIsInside(t *testing.T) {
	require.Equal(t, 0x1p-53, uniform(0, 0))
	require.Equal(t, 1-0x1p-53, uniform(math.MaxUint32, math.MaxUint32))
	require.True(t, finite(quantile(0x1p-53)) && finite(quantile(1-0x1p-53)))
}

// A number does not depend on which others are drawn with it.
func TestNumbersAreThoseOfTheirSample(t *testing.T) {
	s := newSource("sha256:1", "seed")
	all := make([]float64, 101)
	s.fill(all, 3, 0)
	some := make([]float64, 7)
	s.fill(some, 3, 40)
	require.Equal(t, all[40:47], some)
	other := make([]float64, 101)
	for _, o := range []source{newSource("sha256:1", "other"), newSource("sha256:2", "seed"), s} {
		variable := 3
		if o == s {
			variable = 4
		}
		o.fill(other, variable, 0)
		require.NotEqual(t, all, other)
	}
}

func TestSortNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOf(rapid.OneOf(rapid.Float64(), rapid.Float64Range(0, 2), rapid.SampledFrom([]float64{0, -1, 1}))).Draw(t, "numbers")
		want := slices.Clone(numbers)
		slices.Sort(want)
		sortNumbers(numbers)
		require.Equal(t, want, numbers)
	})
}
