package calibrate

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/plan"
)

// maxName bounds names, in bytes.
const maxName = 256

// forecast is what one prediction says of one KPI, as numbers.
type forecast struct {
	causal.KPI
	broken                float64
	mean, sd, p05, p95    float64
	categories            []string
	p                     []float64
	categorical, interval bool
}

// check reads the forecasts of a pair. It says what is wrong with the pair, or "".
func check(pair *Pair) (all []forecast, estimate float64, problem string) {
	p := pair.Prediction
	switch {
	case p == nil:
		return nil, 0, "there is no prediction"
	case pair.At.UTC().Year() < 1 || pair.At.UTC().Year() > 9999:
		return nil, 0, "the time is one that JSON cannot hold"
	case !plan.IsDigest(pair.Model) || p.Model != pair.Model:
		return nil, 0, "the prediction is not of the model that the store names"
	case !text(p.Name) || !text(p.ID):
		return nil, 0, "the prediction has no name or no id, or one that is too long"
	case len(p.KPIs) == 0 || len(p.KPIs) > causal.MaxKPIs:
		return nil, 0, "the prediction has no KPIs, or too many"
	}
	estimate, ok := probability(p.Estimate)
	if !ok {
		return nil, 0, "the risk is no probability"
	}
	for i := range p.KPIs {
		f, ok := read(&p.KPIs[i])
		if !ok || slices.ContainsFunc(all, func(g forecast) bool { return g.Variable == f.Variable }) {
			return nil, 0, "the forecast of a KPI is malformed"
		}
		all = append(all, f)
	}
	return all, estimate, ""
}

func read(from *causal.Forecast) (f forecast, ok bool) {
	f = forecast{KPI: from.KPI, categorical: len(from.With.P) > 0}
	if !text(f.Variable) || len(f.Unit) > maxName || !utf8.ValidString(f.Unit) || len(f.Allow) > causal.MaxCategories {
		return f, false
	}
	for _, bound := range []*float64{f.Min, f.Max} {
		if bound != nil && (f.categorical || !bounded(*bound)) {
			return f, false
		}
	}
	if f.Bounded() {
		// Calibration is that of the probability itself: the upper end of an interval is too high on purpose.
		if f.broken, ok = probability(from.Broken); ok && from.Estimate != "" {
			f.broken, ok = probability(from.Estimate)
		}
		if !ok {
			return f, false
		}
	}
	if f.categorical {
		return f, f.readShares(from.With.P)
	}
	if len(f.Allow) > 0 {
		return f, false
	}
	var variance float64
	if f.mean, ok = number(from.With.Mean); !ok {
		return f, false
	}
	// A variance is the square of what is bounded.
	variance, err := strconv.ParseFloat(string(from.With.Variance), 64)
	if err != nil || !finite(variance) || variance < 0 {
		return f, false
	}
	f.sd = math.Sqrt(variance)
	if from.With.P05 == "" && from.With.P95 == "" {
		return f, true
	}
	var low, high bool
	f.p05, low = number(from.With.P05)
	f.p95, high = number(from.With.P95)
	f.interval = low && high && f.p05 <= f.p95
	return f, f.interval
}

func (f *forecast) readShares(shares []causal.Share) bool {
	if len(shares) > causal.MaxCategories {
		return false
	}
	sum := 0.0
	for _, s := range shares {
		p, ok := probability(s.P)
		if !ok || !text(s.Category) || slices.Contains(f.categories, s.Category) {
			return false
		}
		f.categories, f.p = append(f.categories, s.Category), append(f.p, p)
		sum += p
	}
	return math.Abs(sum-1) <= 1e-6
}

// same reports whether two forecasts are of the same KPI.
func (f *forecast) same(g *forecast) bool {
	equal := func(a, b *float64) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }
	return f.Variable == g.Variable && f.Unit == g.Unit && equal(f.Min, g.Min) && equal(f.Max, g.Max) &&
		slices.Equal(f.Allow, g.Allow) && slices.Equal(f.categories, g.categories)
}

// usable reports whether a value is one that the KPI can have.
func (f *forecast) usable(v causal.Value) bool {
	if f.categorical {
		return text(v.Category)
	}
	return v.Category == "" && bounded(v.Number)
}

// breaks reports whether a value is outside of the KPI's bound.
func (f *forecast) breaks(v causal.Value) bool {
	if f.categorical {
		return len(f.Allow) > 0 && !slices.Contains(f.Allow, v.Category)
	}
	return f.Min != nil && v.Number < *f.Min || f.Max != nil && v.Number > *f.Max
}

func text(s string) bool { return s != "" && len(s) <= maxName && utf8.ValidString(s) }

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func bounded(x float64) bool { return math.Abs(x) <= causal.MaxNumber }

func number(n json.Number) (float64, bool) {
	x, err := strconv.ParseFloat(string(n), 64)
	return x, err == nil && bounded(x)
}

func probability(n json.Number) (float64, bool) {
	x, ok := number(n)
	return x, ok && x >= 0 && x <= 1
}
