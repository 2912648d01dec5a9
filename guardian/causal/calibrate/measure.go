package calibrate

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/plan"
)

// sample is a forecast of a KPI and what was observed.
type sample struct {
	at       time.Time
	forecast *forecast
	value    causal.Value
}

// said is a probability that something breaks, and whether it did.
type said struct {
	p      float64
	broken bool
}

// group gathers the forecasts of one model.
type group struct {
	Model
	first   []forecast
	samples [][]sample
	// risks has the forecasts of which all KPIs with a bound were observed.
	risks []said
}

// Measure says how good forecasts were. Pairs that are malformed are refused, and counted.
func Measure(pairs []Pair) *Report {
	report := &Report{Forecasts: len(pairs), Models: []Model{}}
	problems := map[string]int{}
	groups := map[string]*group{}
	var order []*group
	for _, pair := range inOrder(pairs) {
		all, estimate, problem := check(pair)
		if problem == "" {
			g := groups[pair.Model]
			if g == nil {
				g = &group{Model: Model{Name: pair.Prediction.Name, Digest: pair.Model, First: pair.At.UTC()}}
				g.begin(all)
				groups[pair.Model] = g
				order = append(order, g)
			}
			if g.fits(pair, all) {
				g.add(pair, all, estimate)
				continue
			}
			problem = "the KPIs are not those of the model's first forecast"
		}
		report.Refused++
		problems[problem]++
	}
	for message, count := range problems {
		report.Problems = append(report.Problems, Problem{message, count})
	}
	slices.SortFunc(report.Problems, func(a, b Problem) int { return strings.Compare(a.Message, b.Message) })
	for _, g := range order {
		report.Models = append(report.Models, g.finish())
	}
	slices.SortStableFunc(report.Models, func(a, b Model) int { return strings.Compare(a.Name, b.Name) })
	return report
}

// inOrder sorts pairs by time, and those of one time by what they hold.
func inOrder(pairs []Pair) []*Pair {
	type keyed struct {
		pair *Pair
		key  string
	}
	all := make([]keyed, len(pairs))
	for i := range pairs {
		p := &pairs[i]
		// What has no JSON, such as a number that is none, counts nowhere, whatever its place.
		prediction, _ := json.Marshal(p.Prediction)
		observed, _ := json.Marshal(p.Observed)
		all[i] = keyed{p, p.Model + plan.DigestOf(prediction) + plan.DigestOf(observed)}
	}
	slices.SortStableFunc(all, func(a, b keyed) int {
		return cmp.Or(a.pair.At.Compare(b.pair.At), strings.Compare(a.key, b.key))
	})
	sorted := make([]*Pair, len(all))
	for i := range all {
		sorted[i] = all[i].pair
	}
	return sorted
}

func (g *group) begin(all []forecast) {
	g.first, g.samples = all, make([][]sample, len(all))
	for i := range all {
		g.KPIs = append(g.KPIs, KPI{Name: all[i].Variable, Unit: all[i].Unit})
	}
}

func (g *group) fits(pair *Pair, all []forecast) bool {
	if pair.Prediction.Name != g.Name || len(all) != len(g.first) {
		return false
	}
	for i := range all {
		if !all[i].same(&g.first[i]) {
			return false
		}
	}
	return true
}

func (g *group) add(pair *Pair, all []forecast, estimate float64) {
	g.Forecasts++
	g.Last = pair.At.UTC()
	bounds, observed, broken := 0, 0, false
	for i := range all {
		f, k := &all[i], &g.KPIs[i]
		k.Forecasts++
		if f.Bounded() {
			bounds++
		}
		value, ok := pair.Observed[f.Variable]
		if !ok {
			continue
		}
		if !f.usable(value) {
			k.Unusable++
			continue
		}
		k.Observed++
		g.samples[i] = append(g.samples[i], sample{pair.At.UTC(), f, value})
		if f.Bounded() {
			observed++
			broken = broken || f.breaks(value)
		}
	}
	// A break among only some of the values would count, and their holding would not.
	if bounds > 0 && observed == bounds {
		g.risks = append(g.risks, said{estimate, broken})
	}
}

func (g *group) finish() Model {
	g.Risk = riskOf(g.risks)
	for i := range g.KPIs {
		k, samples := &g.KPIs[i], g.samples[i]
		k.Drift = driftOf(samples)
		if len(samples) == 0 {
			continue
		}
		if g.first[i].Bounded() {
			risks := make([]said, len(samples))
			for j, s := range samples {
				risks[j] = said{s.forecast.broken, s.forecast.breaks(s.value)}
			}
			k.Risk = riskOf(risks)
		}
		if g.first[i].categorical {
			k.Categories = categoriesOf(samples)
		} else {
			k.Interval, k.Residual = intervalOf(samples), residualOf(samples)
		}
	}
	return g.Model
}

func intervalOf(samples []sample) *Interval {
	var i Interval
	inside, of := 0, 0
	for _, s := range samples {
		f := s.forecast
		switch {
		case !f.interval:
			continue
		case s.value.Number < f.p05:
			i.Below++
		case s.value.Number > f.p95:
			i.Above++
		default:
			inside++
		}
		of++
	}
	if of == 0 {
		return nil
	}
	i.Inside = shareOf(inside, of)
	return &i
}

func residualOf(samples []sample) *Residual {
	var sum float64
	var standardized []float64
	for _, s := range samples {
		f := s.forecast
		sum += s.value.Number - f.mean
		if f.sd > 0 {
			standardized = append(standardized, (s.value.Number-f.mean)/f.sd)
		}
	}
	r := &Residual{Mean: sum / float64(len(samples)), Of: len(standardized)}
	if r.Of > 0 {
		mean, variance := moments(standardized)
		r.Standardized = known(mean)
		if r.Of > 1 {
			r.Spread = known(math.Sqrt(variance))
		}
	}
	return r
}

// known returns a number that JSON can hold, or nil.
func known(x float64) *float64 {
	if !finite(x) {
		return nil
	}
	return &x
}

// moments returns the mean of numbers, and the variance of what they are taken from.
func moments(xs []float64) (mean, variance float64) {
	for _, x := range xs {
		mean += x
	}
	mean /= float64(len(xs))
	for _, x := range xs {
		d := x - mean
		variance += float64(d * d)
	}
	return mean, variance / float64(max(len(xs)-1, 1))
}
