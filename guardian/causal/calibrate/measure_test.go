package calibrate

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/plan"
)

var (
	start  = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	digest = plan.DigestOf([]byte("model"))
)

func num(x float64) json.Number { return json.Number(strconv.FormatFloat(x, 'g', -1, 64)) }

func ptr(x float64) *float64 { return &x }

// pair is a forecast of a number with a bound, and one observation.
func pair(i int, broken, mean, sd, observed float64) Pair {
	return Pair{
		At: start.Add(time.Duration(i) * time.Hour), Model: digest,
		Prediction: &causal.Prediction{
			ID: fmt.Sprintf("sim_%032d", i), Name: "sizes", Model: digest, Estimate: num(broken), Risk: num(broken), Baseline: "0",
			KPIs: []causal.Forecast{{
				KPI: causal.KPI{Variable: "size", Max: ptr(100), Unit: "bytes"}, Broken: num(broken),
				With: causal.Distribution{
					Mean: num(mean), Variance: num(float64(sd * sd)), P05: num(mean - float64(1.645*sd)), P50: num(mean), P95: num(mean + float64(1.645*sd)),
				},
			}},
		},
		Observed: map[string]causal.Value{"size": {Number: observed}},
	}
}

// weather is a forecast of a category, with a chance of rain, of which dry is allowed.
func weather(i int, rain float64, observed string) Pair {
	p := pair(i, rain, 0, 1, 0)
	p.Prediction.KPIs = []causal.Forecast{{
		KPI: causal.KPI{Variable: "weather", Allow: []string{"dry"}}, Broken: num(rain),
		With: causal.Distribution{P: []causal.Share{{Category: "dry", P: num(1 - rain)}, {Category: "wet", P: num(rain)}}},
	}}
	p.Observed = map[string]causal.Value{"weather": {Category: observed}}
	return p
}

func TestMeasure(t *testing.T) {
	pairs := []Pair{
		pair(0, 0.1, 50, 10, 60),  // inside, one sd above
		pair(1, 0.1, 50, 10, 10),  // below
		pair(2, 0.8, 90, 10, 120), // breaks, above
		pair(3, 0.3, 90, 0, 90),   // a forecast without a standard deviation
		pair(4, 0.3, 90, 10, 0),   // not observed
	}
	pairs[4].Observed = nil
	r := Measure(pairs)
	require.Equal(t, 5, r.Forecasts)
	require.Zero(t, r.Refused)
	require.Len(t, r.Models, 1)
	m := r.Models[0]
	require.Equal(t, "sizes", m.Name)
	require.Equal(t, digest, m.Digest)
	require.Equal(t, start, m.First)
	require.Equal(t, start.Add(4*time.Hour), m.Last)
	k := m.KPIs[0]
	require.Equal(t, 5, k.Forecasts)
	require.Equal(t, 4, k.Observed)
	// (0.1² + 0.1² + 0.2² + 0.3²) / 4, of a rate of 1/4.
	require.InDelta(t, 0.0375, k.Risk.Brier, 1e-15)
	require.InDelta(t, 0.1875, k.Risk.Reference, 1e-15)
	require.InDelta(t, 0.8, *k.Risk.Skill, 1e-15)
	require.InDelta(t, 0.325, k.Risk.Predicted, 1e-15)
	require.Equal(t, Share{Count: 1, Of: 4, Rate: 0.25, Low: k.Risk.Broken.Low, High: k.Risk.Broken.High}, k.Risk.Broken)
	require.Len(t, k.Risk.Bins, 3)
	require.Equal(t, []float64{0.1, 0.2, 0.1}, []float64{k.Risk.Bins[0].Low, k.Risk.Bins[0].High, k.Risk.Bins[0].Predicted})
	require.Equal(t, 2, k.Risk.Bins[0].Broken.Of)
	require.Equal(t, 1, k.Risk.Bins[2].Broken.Count)
	require.Equal(t, k.Risk, m.Risk, "there is one KPI")
	require.Equal(t, 2, k.Interval.Inside.Count)
	require.Equal(t, 4, k.Interval.Inside.Of)
	require.Equal(t, 1, k.Interval.Below)
	require.Equal(t, 1, k.Interval.Above)
	require.InDelta(t, 0, k.Residual.Mean, 1e-15)
	require.Equal(t, 3, k.Residual.Of)
	require.InDelta(t, 0, *k.Residual.Standardized, 1e-15)
	require.InDelta(t, math.Sqrt(13), *k.Residual.Spread, 1e-12)
	require.Equal(t, Drift{State: NotEnoughData}, k.Drift)
}

func TestCategories(t *testing.T) {
	r := Measure([]Pair{weather(0, 0.2, "dry"), weather(1, 0.4, "wet"), weather(2, 0.2, "snow")})
	k := r.Models[0].KPIs[0]
	// 2·0.2², 2·0.6², and 0.8² + 0.2² + 1.
	require.InDelta(t, (0.08+0.72+1.68)/3, k.Categories.Brier, 1e-15)
	require.InDelta(t, 2./3, k.Categories.Reference, 1e-15)
	require.Equal(t, 1, k.Categories.Unforeseen)
	require.Equal(t, "wet", k.Categories.Shares[1].Category)
	require.InDelta(t, 0.8/3, k.Categories.Shares[1].Predicted, 1e-15)
	require.Equal(t, 1, k.Categories.Shares[1].Observed.Count)
	require.Equal(t, 2, k.Risk.Broken.Count, "what is not allowed breaks the bound, foreseen or not")
	require.Nil(t, k.Residual)
	require.Nil(t, k.Interval)
}

// TestRiskOfModel: a forecast of which one KPI was not observed says nothing of the whole.
func TestRiskOfModel(t *testing.T) {
	both := func(i int, size float64, sky string) Pair {
		p := pair(i, 0.5, 50, 10, size)
		p.Prediction.KPIs = append(p.Prediction.KPIs, weather(i, 0.2, "dry").Prediction.KPIs[0])
		if sky != "" {
			p.Observed["weather"] = causal.Value{Category: sky}
		}
		return p
	}
	m := Measure([]Pair{both(0, 50, "dry"), both(1, 50, "wet"), both(2, 500, ""), both(3, 500, "wet")}).Models[0]
	require.Equal(t, 2, m.Risk.Broken.Count)
	require.Equal(t, 3, m.Risk.Broken.Of)
	require.Equal(t, 4, m.KPIs[0].Observed)
	require.Equal(t, 3, m.KPIs[1].Observed)
}

// TestRiskOfSamples: what is scored is the probability that samples estimate, of a KPI as of the whole model, and
// not the upper end of its interval.
func TestRiskOfSamples(t *testing.T) {
	limit := 9.5
	s, err := causal.New(&causal.Model{
		Name: "rare", Operations: []string{"a/b"}, Samples: causal.MinSamples, KPIs: []causal.KPI{{Variable: "y", Max: &limit}},
		Variables: []causal.Variable{{Name: "y", Provenance: causal.Assumed, Noise: &causal.Noise{Uniform: &causal.Range{Max: 10}}}},
	})
	require.NoError(t, err)
	var pairs []Pair
	for i := range 100 {
		p, err := s.Simulate(nil, strconv.Itoa(i))
		require.NoError(t, err)
		require.Equal(t, causal.MonteCarlo, p.Method)
		pairs = append(pairs, Pair{At: start, Model: p.Model, Prediction: p, Observed: map[string]causal.Value{"y": {Number: 1}}})
	}
	m := Measure(pairs).Models[0]
	require.InDelta(t, 0.05, m.Risk.Predicted, 4*math.Sqrt(0.05*0.95/100_000))
	require.Equal(t, m.Risk, m.KPIs[0].Risk)
}

func TestNoObservations(t *testing.T) {
	p := pair(0, 0.5, 1, 1, 1)
	p.Observed = map[string]causal.Value{"other": {Number: 3}}
	for name, pairs := range map[string][]Pair{"none": nil, "nothing observed": {p}} {
		raw, err := json.Marshal(Measure(pairs))
		require.NoError(t, err, name)
		require.NotContains(t, string(raw), "null", name)
		require.NotContains(t, string(raw), "brier", name)
	}
}

// TestJSON holds the names of the report: programs read them.
func TestJSON(t *testing.T) {
	p := pair(0, 0.25, 50, 10, 60)
	p.Observed["size"] = causal.Value{Number: 150}
	raw, err := json.MarshalIndent(Measure([]Pair{p, {At: start}}), "", " ")
	require.NoError(t, err)
	share := func(count int, rate, low, high string) string {
		return fmt.Sprintf(`{"count": %d, "of": 1, "rate": %s, "low": %s, "high": %s}`, count, rate, low, high)
	}
	one := share(1, "1", "0.20654931437723745", "1")
	risk := `{"brier": 0.5625, "reference": 0, "predicted": 0.25, "broken": ` + one + `, "bins": [
		{"low": 0.2, "high": 0.3, "predicted": 0.25, "broken": ` + one + `}]}`
	require.JSONEq(t, `{"forecasts": 2, "refused": 1, "problems": [{"problem": "there is no prediction", "count": 1}], "models": [{
		"model": "sizes", "model_digest": "`+digest+`", "first": "2026-11-01T00:00:00Z", "last": "2026-11-01T00:00:00Z", "forecasts": 1,
		"risk": `+risk+`,
		"kpis": [{"kpi": "size", "unit": "bytes", "forecasts": 1, "observed": 1, "risk": `+risk+`,
			"interval": {"inside": `+share(0, "0", "0", "0.7934506856227626")+`, "below": 0, "above": 1},
			"residual": {"mean": 100, "standardized": 10, "of": 1},
			"drift": {"state": "not_enough_data"}}]}]}`, string(raw))
}

func TestRefused(t *testing.T) {
	long := strings.Repeat("x", maxName+1)
	for name, change := range map[string]func(p *Pair){
		"no prediction":       func(p *Pair) { p.Prediction = nil },
		"far future":          func(p *Pair) { p.At = time.Unix(1<<60, 0) },
		"no model":            func(p *Pair) { p.Model = "" },
		"another model":       func(p *Pair) { p.Prediction.Model = plan.DigestOf(nil) },
		"no name":             func(p *Pair) { p.Prediction.Name = "" },
		"long name":           func(p *Pair) { p.Prediction.Name = long },
		"not UTF-8":           func(p *Pair) { p.Prediction.Name = "\xff" },
		"no KPIs":             func(p *Pair) { p.Prediction.KPIs = nil },
		"many KPIs":           func(p *Pair) { p.Prediction.KPIs = make([]causal.Forecast, causal.MaxKPIs+1) },
		"twice the same":      func(p *Pair) { p.Prediction.KPIs = append(p.Prediction.KPIs, p.Prediction.KPIs[0]) },
		"no estimate":         func(p *Pair) { p.Prediction.Estimate = "" },
		"NaN":                 func(p *Pair) { p.Prediction.Estimate = "NaN" },
		"infinite":            func(p *Pair) { p.Prediction.KPIs[0].With.Mean = "Inf" },
		"huge":                func(p *Pair) { p.Prediction.KPIs[0].With.Mean = "1e300" },
		"overflows":           func(p *Pair) { p.Prediction.KPIs[0].With.Variance = "1e999" },
		"no mean":             func(p *Pair) { p.Prediction.KPIs[0].With.Mean = "" },
		"negative variance":   func(p *Pair) { p.Prediction.KPIs[0].With.Variance = "-1" },
		"quantiles crossed":   func(p *Pair) { p.Prediction.KPIs[0].With.P05 = "1e9" },
		"one quantile":        func(p *Pair) { p.Prediction.KPIs[0].With.P05 = "" },
		"above 1":             func(p *Pair) { p.Prediction.KPIs[0].Broken = "1.5" },
		"estimated above 1":   func(p *Pair) { p.Prediction.KPIs[0].Estimate = "1.5" },
		"below 0":             func(p *Pair) { p.Prediction.KPIs[0].Broken = "-0.5" },
		"a bound that is NaN": func(p *Pair) { p.Prediction.KPIs[0].Max = ptr(math.NaN()) },
		"allows of a number":  func(p *Pair) { p.Prediction.KPIs[0].Allow = []string{"a"} },
		"long unit":           func(p *Pair) { p.Prediction.KPIs[0].Unit = long },
		"a bound of categories": func(p *Pair) {
			*p = weather(1, 0.5, "wet")
			p.Prediction.KPIs[0].Max = ptr(1)
		},
		"shares over 1": func(p *Pair) {
			*p = weather(1, 0.5, "wet")
			p.Prediction.KPIs[0].With.P[0].P = "0.9"
		},
		"a category twice": func(p *Pair) {
			*p = weather(1, 0.5, "wet")
			p.Prediction.KPIs[0].With.P[0].Category = "wet"
		},
		"other KPIs": func(p *Pair) { p.Prediction.KPIs[0].Unit = "kg" },
		"other name": func(p *Pair) { p.Prediction.Name = "swapped" },
	} {
		t.Run(name, func(t *testing.T) {
			bad := pair(1, 0.1, 50, 10, 60)
			change(&bad)
			r := Measure([]Pair{pair(0, 0.1, 50, 10, 60), bad})
			require.Equal(t, 1, r.Refused)
			require.Len(t, r.Problems, 1)
			require.Len(t, r.Models, 1)
			require.Equal(t, 1, r.Models[0].Forecasts)
			_, err := json.Marshal(r)
			require.NoError(t, err)
		})
	}
}

func TestUnusable(t *testing.T) {
	for _, v := range []causal.Value{{Category: "big"}, {Number: math.NaN()}, {Number: math.Inf(1)}, {Number: 1e300}} {
		p := pair(0, 0.1, 50, 10, 60)
		p.Observed["size"] = v
		k := Measure([]Pair{p}).Models[0].KPIs[0]
		require.Equal(t, 1, k.Unusable)
		require.Zero(t, k.Observed)
		require.Nil(t, k.Risk)
	}
	p := weather(0, 0.1, strings.Repeat("x", maxName+1))
	require.Equal(t, 1, Measure([]Pair{p}).Models[0].KPIs[0].Unusable)
}

// TestExtremes: what the largest and the smallest numbers give is finite, or absent.
func TestExtremes(t *testing.T) {
	var pairs []Pair
	for i := range 60 {
		sd := []float64{0, 1e-160, 1e150, 1}[i/15]
		p := pair(i, []float64{0, 1, 1e-300}[i%3], 1e100, 1, []float64{-1e100, 1e100, 0, 5e-324}[i%4])
		p.Prediction.KPIs[0].With = causal.Distribution{Mean: []json.Number{"1e100", "-1e100", "0"}[i%3], Variance: num(float64(sd * sd))}
		pairs = append(pairs, p)
	}
	for from := range 4 {
		r := Measure(pairs[15*from:])
		require.Zero(t, r.Refused)
		_, err := json.Marshal(r)
		require.NoError(t, err)
	}
}

// TestOrder: the order of the pairs does not matter, even of those at one time.
func TestOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var pairs []Pair
	for i := range 200 {
		p := pair(i, rnd.Float64(), 100*rnd.Float64(), 1+rnd.Float64(), 100*rnd.Float64())
		p.At = start.Add(time.Duration(i/50) * time.Hour)
		if i%5 == 0 {
			p = weather(i, rnd.Float64(), []string{"dry", "wet", "snow"}[i%3])
			p.Model = plan.DigestOf([]byte{byte(i % 2)})
			p.Prediction.Model = p.Model
		}
		pairs = append(pairs, p)
	}
	want, err := json.Marshal(Measure(pairs))
	require.NoError(t, err)
	for range 20 {
		rnd.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
		got, err := json.Marshal(Measure(pairs))
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(string(want), string(got)))
	}
}

// TestWilson: the ends are the rates p of which the observed one is 1.96 standard errors away, where the
// error is that of p.
func TestWilson(t *testing.T) {
	for of := 1; of <= 2000; of = of*3 + 1 {
		for count := 0; count <= of; count += max(1, of/7) {
			s := shareOf(count, of)
			for _, p := range []float64{s.Low, s.High} {
				d := s.Rate - p
				require.InDelta(t, float64(d*d), 1.959964*1.959964*p*(1-p)/float64(of), 1e-8, "%d of %d", count, of)
			}
			require.Less(t, s.Low, s.High)
			require.LessOrEqual(t, s.Low, s.Rate)
			require.GreaterOrEqual(t, s.High, s.Rate)
		}
	}
	require.InDelta(t, 0.4902, shareOf(8, 10).Low, 1e-4)
	require.InDelta(t, 0.9433, shareOf(8, 10).High, 1e-4)
}

// TestHonest: forecasts that tell the truth score as theory says.
func TestHonest(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var pairs []Pair
	for i := range 4000 {
		p := rnd.Float64()
		z := rnd.NormFloat64()
		pairs = append(pairs, pair(i, p, 50, 10, 50+float64(10*z)))
		// Whether it breaks is a coin of its own.
		pairs[i].Prediction.KPIs = append(pairs[i].Prediction.KPIs, weather(i, p, "").Prediction.KPIs[0])
		sky := "dry"
		if rnd.Float64() < p {
			sky = "wet"
		}
		pairs[i].Observed["weather"] = causal.Value{Category: sky}
	}
	m := Measure(pairs).Models[0]
	size, sky := m.KPIs[0], m.KPIs[1]
	require.LessOrEqual(t, size.Interval.Inside.Low, 0.9)
	require.GreaterOrEqual(t, size.Interval.Inside.High, 0.9)
	require.InDelta(t, 0, *size.Residual.Standardized, 4/math.Sqrt(4000))
	require.InDelta(t, 1, *size.Residual.Spread, 0.05)
	require.Equal(t, NoDrift, size.Drift.State)
	// E[p(1-p)] of a uniform p.
	require.InDelta(t, 1./6, sky.Risk.Brier, 0.01)
	require.InDelta(t, 1./3, *sky.Risk.Skill, 0.05)
	require.InDelta(t, float64(2*sky.Risk.Brier), sky.Categories.Brier, 1e-12)
	require.Equal(t, NoDrift, sky.Drift.State)
	require.Len(t, sky.Risk.Bins, 10)
	for _, b := range sky.Risk.Bins {
		require.InDelta(t, b.Predicted, b.Broken.Rate, 0.1)
	}
}
