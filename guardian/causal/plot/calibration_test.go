package plot

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/guardian/causal/calibrate"
	"chimera.ai/engine/plan"
)

// risk returns a score with n bins.
func risk(n int) *calibrate.Risk {
	r := &calibrate.Risk{Score: calibrate.Score{Brier: 0.0812, Reference: 0.1275, Skill: ptr(0.3631)}, Predicted: 0.14, Broken: calibrate.Share{Count: 18, Of: 120, Rate: 0.15, Low: 0.097, High: 0.224}}
	for i := range n {
		at := float64(i) / 10
		r.Bins = append(r.Bins, calibrate.Bin{
			Low: at, High: at + 0.1, Predicted: at + 0.04,
			Broken: calibrate.Share{Count: i, Of: []int{9, 12, 412, 1300, 25_000}[i%5], Rate: at * at, Low: at * at * 0.8, High: 0.1 + at*at*0.9},
		})
	}
	return r
}

func report() *calibrate.Report {
	kpi := func(name string, bins int) calibrate.KPI {
		return calibrate.KPI{Name: name, Forecasts: 130, Observed: 120, Risk: risk(bins), Interval: &calibrate.Interval{Inside: calibrate.Share{Count: 104, Of: 120}}, Drift: calibrate.Drift{State: calibrate.NoDrift}}
	}
	first := calibrate.Model{Name: "report-size", Digest: plan.DigestOf([]byte("a")), Risk: risk(4), KPIs: []calibrate.KPI{kpi("cost", 10), kpi("outcome", 1), kpi("size", 3), {Name: "wait"}}}
	first.KPIs[0].Drift = calibrate.Drift{State: calibrate.Drifted, Earlier: &calibrate.Window{Mean: 0.0312}, Recent: &calibrate.Window{Mean: -1.284}}
	first.KPIs[1].Interval, first.KPIs[1].Risk.Skill = nil, nil
	first.KPIs[1].Categories = &calibrate.Categories{Score: calibrate.Score{Brier: 0.31}}
	first.KPIs[2].Drift.State = calibrate.NotEnoughData
	return &calibrate.Report{Models: []calibrate.Model{first, {Name: "transfer", Digest: plan.DigestOf([]byte("b")), Risk: risk(2), KPIs: []calibrate.KPI{kpi("loss", 2)}}}}
}

func TestCalibration(t *testing.T) {
	golden(t, "calibration", Calibration(report()))
	require.Equal(t, Calibration(report()), Calibration(report()))
}

func TestNoCalibration(t *testing.T) {
	for _, r := range []*calibrate.Report{nil, {}, calibrate.Measure(nil), {Models: []calibrate.Model{{Name: "a", Risk: risk(1)}}}} {
		require.Contains(t, valid(t, Calibration(r)), "There is no forecast of a bound whose KPI was observed.")
	}
}

func TestHostileCalibration(t *testing.T) {
	for _, name := range hostile {
		r := report()
		for i := range 30 {
			m := r.Models[0]
			m.Name = fmt.Sprint(name, i)
			m.KPIs = []calibrate.KPI{r.Models[0].KPIs[0], r.Models[0].KPIs[1]}
			m.KPIs[0].Name, m.KPIs[0].Unit = name, name
			m.Digest = []string{name, "", plan.DigestOf(nil)}[i%3]
			r.Models = append(r.Models, m)
		}
		svg := Calibration(r)
		require.NotContains(t, string(svg), "<script")
		require.NotContains(t, string(svg), "<image")
		require.Contains(t, valid(t, svg), "and 71 more")
		require.Less(t, len(svg), 200_000)
	}
	r := report()
	for i := range r.Models[0].KPIs[0].Risk.Bins {
		b := &r.Models[0].KPIs[0].Risk.Bins[i]
		b.Predicted, b.Broken.Rate, b.Broken.Low, b.Broken.High, b.Broken.Of = 1e300, -5, -1e300, 7, math.MaxInt
	}
	r.Models[0].KPIs[0].Risk.Brier = 1e-300
	r.Models[0].KPIs[0].Drift.Recent.Mean = -1.2345e200
	valid(t, Calibration(r))
}
