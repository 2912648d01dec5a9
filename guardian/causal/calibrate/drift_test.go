package calibrate

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// driftIn returns the drift of the first KPI, without the other parts of a report.
func driftIn(pairs []Pair) Drift {
	var samples []sample
	for i := range pairs {
		if all, _, problem := check(&pairs[i]); problem == "" {
			samples = append(samples, sample{pairs[i].At, &all[0], pairs[i].Observed[all[0].Variable]})
		}
	}
	return driftOf(samples)
}

// drift returns the drift of forecasts with the given means, standard deviation and residuals.
func drift(sd float64, n int, mean, residual func(i int) float64) Drift {
	var pairs []Pair
	for i := range n {
		pairs = append(pairs, pair(i, 0.5, mean(i), sd, mean(i)+residual(i)))
	}
	return driftIn(pairs)
}

// TestNoDriftOfRounding: residuals that are the same but for rounding have not drifted, whatever the
// size of the values.
func TestNoDriftOfRounding(t *testing.T) {
	for _, sd := range []float64{0, 1e-3, 1, 1e6} {
		for _, size := range []float64{0, 1e-9, 0.1, 3, 1e6, 1e15, 1e90} {
			for _, residual := range []float64{0, 0.1, -1. / 3, 1e5} {
				d := drift(sd, 60, func(i int) float64 { return size * (1 + float64(i)/7) }, func(int) float64 { return residual })
				require.Equal(t, NoDrift, d.State, "sd %g, size %g, residual %g: %+v", sd, size, residual, d)
			}
		}
	}
	// Sums of decimals: 0.1 + 0.2 is not 0.3.
	d := drift(0, 40, func(i int) float64 { return float64(i) * 0.1 }, func(i int) float64 { return float64(i)*0.1 + 0.3 - (float64(i)*0.1 + 0.1) })
	require.Equal(t, NoDrift, d.State)
	require.Nil(t, d.T)
}

// TestDriftOfConstants: where nothing varies, any difference that is not rounding is drift.
func TestDriftOfConstants(t *testing.T) {
	for _, sd := range []float64{0, 1} {
		d := drift(sd, 40, func(int) float64 { return 50 }, func(i int) float64 {
			if i >= 30 {
				return 0.001
			}
			return 0
		})
		require.Equal(t, Drifted, d.State)
		require.Nil(t, d.T)
		require.InDelta(t, 0.001, d.Recent.Mean, 1e-12)
		require.Zero(t, d.Earlier.Mean)
	}
}

func TestNotEnoughData(t *testing.T) {
	step := func(i int) float64 { return float64(i / 10 * 100) }
	for n, want := range map[int]DriftState{1: NotEnoughData, 19: NotEnoughData, 20: Drifted} {
		require.Equal(t, want, drift(1, n, func(int) float64 { return 0 }, step).State, "%d observations", n)
	}
}

func TestWindows(t *testing.T) {
	zero := func(int) float64 { return 0 }
	for n, recent := range map[int]int{20: 10, 40: 10, 80: 20, 1000: 100} {
		d := drift(1, n, zero, zero)
		require.Equal(t, recent, d.Recent.Of)
		require.Equal(t, n-recent, d.Earlier.Of)
		require.True(t, d.Earlier.Until.Before(d.Recent.From))
	}
}

// TestDriftFound: a shift of one standard deviation is found in 100 of 400 observations; without
// one, false alarms are about as rare as the level says.
func TestDriftFound(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	found, alarms := 0, 0
	const trials = 1000
	for range trials {
		noise := func(shift float64, from int) func(int) float64 {
			return func(i int) float64 {
				x := float64(10 * rnd.NormFloat64())
				if i >= from {
					x += shift
				}
				return x
			}
		}
		mean := func(int) float64 { return 50 }
		if drift(10, 60, mean, noise(0, 0)).State == Drifted {
			alarms++
		}
		if found < 50 && drift(10, 400, mean, noise(10, 300)).State == Drifted {
			found++
		}
	}
	require.Equal(t, 50, found)
	require.Less(t, alarms, trials*2/100)
}

// TestDriftOfCategories: other forecasts are no drift if they are right, and are if they are wrong.
func TestDriftOfCategories(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	state := func(wrong bool) DriftState {
		var pairs []Pair
		for i := range 800 {
			rain := 0.05
			if i >= 700 {
				rain = 0.4
			}
			p := rain
			if wrong && i >= 700 {
				p = 0.9
			}
			sky := "dry"
			if rnd.Float64() < p {
				sky = "wet"
			}
			pairs = append(pairs, weather(i, rain, sky))
		}
		return Measure(pairs).Models[0].KPIs[0].Drift.State
	}
	require.Equal(t, NoDrift, state(false))
	require.Equal(t, Drifted, state(true))
}

// TestNoDriftOfForecasts: that forecasts change is no drift, although nothing rare has been observed.
func TestNoDriftOfForecasts(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 10))
	for _, jitter := range []float64{0, 0.002} {
		var pairs []Pair
		for i := range 40 {
			rain := 0.02 + float64(jitter*rnd.Float64())
			if i >= 30 {
				rain *= 3
			}
			pairs = append(pairs, weather(i, rain, "dry"))
		}
		require.Equal(t, NoDrift, driftIn(pairs).State, "%g", jitter)
	}
	alarms := 0
	const trials = 500
	for range trials {
		var pairs []Pair
		for i := range 60 {
			rain, sky := float64(rnd.Float64()*0.1), "dry"
			if i >= 45 {
				rain *= 2
			}
			if rnd.Float64() < rain {
				sky = "wet"
			}
			pairs = append(pairs, weather(i, rain, sky))
		}
		if driftIn(pairs).State == Drifted {
			alarms++
		}
	}
	require.Less(t, alarms, trials*2/100)
}

// TestCritical compares with a table of Student's distribution.
func TestCritical(t *testing.T) {
	for freedom, want := range map[float64]float64{9: 3.2498, 10: 3.1693, 18: 2.8784, 30: 2.7500, 120: 2.6174, 1e9: 2.5758} {
		require.InDelta(t, want, critical(freedom), 0.002, "%g", freedom)
	}
}
