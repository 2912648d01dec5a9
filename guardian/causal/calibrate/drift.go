package calibrate

import (
	"math"
	"slices"
)

// Windows of drift.
const (
	// MinWindow is the least number of observations of a window.
	MinWindow = 10
	// MaxRecent bounds the recent window, so that a long history does not hide what is new.
	MaxRecent = 100
)

// constant is the part of the observed values' size below which differences between residuals are
// rounding, not drift.
const constant = 1e-9

// driftOf compares the last quarter of the samples, but at least [MinWindow] and at most [MaxRecent],
// with all earlier ones. The means differ if Welch's t is significant at 1 %; where both windows are
// constant, which leaves nothing to estimate an error from, if they differ by more than rounding. The
// level is that of one KPI at one time: who looks at many, or again and again, sees some by chance.
func driftOf(samples []sample) Drift {
	recent := min(max(len(samples)/4, MinWindow), MaxRecent)
	earlier := len(samples) - recent
	if earlier < MinWindow {
		return Drift{State: NotEnoughData}
	}
	residuals, scale, measure := residualsOf(samples)
	d := Drift{State: NoDrift, Measure: measure}
	mean1, variance1 := steady(residuals[:earlier])
	mean2, variance2 := steady(residuals[earlier:])
	d.Earlier = windowOf(samples[:earlier], float64(mean1*scale), float64(math.Sqrt(variance1)*scale))
	d.Recent = windowOf(samples[earlier:], float64(mean2*scale), float64(math.Sqrt(variance2)*scale))
	if samples[0].forecast.categorical {
		// As long as nothing rare has been observed, surprises hardly vary. What then differs are the forecasts.
		variance1 = max(variance1, expected(samples[:earlier]))
		variance2 = max(variance2, expected(samples[earlier:]))
	}
	differ := math.Abs(mean2-mean1) > constant
	if variance1 == 0 && variance2 == 0 {
		if differ {
			d.State = Drifted
		}
		return d
	}
	n1, n2 := float64(earlier), float64(recent)
	e1, e2 := variance1/n1, variance2/n2
	t := (mean2 - mean1) / math.Sqrt(e1+e2)
	critical := critical(float64((e1+e2)*(e1+e2)) / (float64(e1*e1)/(n1-1) + float64(e2*e2)/(n2-1)))
	d.T, d.Critical = known(t), known(critical)
	if differ && math.Abs(t) > critical {
		d.State = Drifted
	}
	return d
}

func windowOf(samples []sample, mean, sd float64) *Window {
	return &Window{From: samples[0].at, Until: samples[len(samples)-1].at, Of: len(samples), Mean: mean, SD: sd}
}

// steady returns the moments of residuals, without a variance that is but rounding.
func steady(xs []float64) (mean, variance float64) {
	mean, variance = moments(xs)
	if math.Sqrt(variance) <= constant {
		variance = 0
	}
	return mean, variance
}

// residualsOf returns the residuals divided by scale: the largest of the values that they are the
// difference of, by whose size they are rounded, of the KPI's bounds, and of the standard deviations.
func residualsOf(samples []sample) (residuals []float64, scale float64, measure string) {
	residuals = make([]float64, len(samples))
	if samples[0].forecast.categorical {
		for i, s := range samples {
			residuals[i] = surprise(s)
		}
		return residuals, 1, "surprise"
	}
	measure = "standardized"
	if slices.ContainsFunc(samples, func(s sample) bool { return s.forecast.sd == 0 }) {
		measure = "residual"
	}
	for i, s := range samples {
		unit := 1.0
		if measure == "standardized" {
			unit = s.forecast.sd
			scale = max(scale, 1)
		}
		for _, bound := range []*float64{s.forecast.Min, s.forecast.Max} {
			if bound != nil {
				scale = max(scale, math.Abs(*bound)/unit)
			}
		}
		residuals[i] = s.value.Number/unit - s.forecast.mean/unit
		scale = max(scale, math.Abs(s.value.Number)/unit, math.Abs(s.forecast.mean)/unit)
	}
	if scale > 0 {
		for i := range residuals {
			residuals[i] /= scale
		}
	}
	return residuals, scale, measure
}

// surprise is the Brier score of a category less what the forecast expects it to be:
// (1 - 2p + Σp²) - (1 - Σp²).
func surprise(s sample) float64 {
	x := 0.0
	for i, p := range s.forecast.p {
		x += float64(2 * p * p)
		if s.forecast.categories[i] == s.value.Category {
			x -= float64(2 * p)
		}
	}
	return x
}

// expected is the variance that surprises have if the forecasts of categories are right: 4 (Σp³ - (Σp²)²).
func expected(samples []sample) float64 {
	variance := 0.0
	for _, s := range samples {
		squares, cubes := 0.0, 0.0
		for _, p := range s.forecast.p {
			squares += float64(p * p)
			cubes += float64(p * p * p)
		}
		variance += 4 * max(cubes-float64(squares*squares), 0)
	}
	return variance / float64(len(samples))
}

// critical returns the quantile of 99.5 % of Student's distribution, by the expansion of Cornish and
// Fisher around that of the normal distribution (Abramowitz and Stegun 26.7.5). Of 9 degrees of freedom, the
// least that there are, it is short by 0.002.
func critical(freedom float64) float64 {
	const z = 2.5758293035489004
	const (
		g1 = (z*z*z + z) / 4
		g2 = (5*z*z*z*z*z + 16*z*z*z + 3*z) / 96
		g3 = (3*z*z*z*z*z*z*z + 19*z*z*z*z*z + 17*z*z*z - 15*z) / 384
	)
	return z + (g1+(g2+g3/freedom)/freedom)/freedom
}
