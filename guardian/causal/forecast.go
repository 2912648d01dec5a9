package causal

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// bins is into how many intervals plots divide a distribution.
const bins = 40

// describe fills in what two worlds say.
func (s *Simulator) describe(p *Prediction, without, with *result) {
	p.Risk, p.Baseline = risk(with.broken), risk(without.broken)
	p.Estimate = p.Risk
	if p.Method == MonteCarlo {
		p.Estimate = with.broken.nearest()
	}
	for k := range s.program.kpis {
		kpi := &s.program.kpis[k]
		a, b := &with.kpis[k], &without.kpis[k]
		f := Forecast{KPI: *kpi.KPI, Broken: risk(a.broken)}
		if p.Method == MonteCarlo && kpi.Bounded() {
			f.Estimate = a.broken.nearest()
		}
		values := s.program.nodes[kpi.node].Values
		f.With, f.Without = a.distribution(values), b.distribution(values)
		if a.shares == nil {
			f.Low, f.High = min(a.low, b.low), max(a.high, b.high)
			if f.Low == f.High {
				f.Low, f.High = f.Low-0.5, f.High+0.5
			}
			f.With.Bins, f.Without.Bins = a.bins(f.Low, f.High), b.bins(f.Low, f.High)
		}
		p.KPIs = append(p.KPIs, f)
	}
	p.Summary = summary(s.program, p, without, with)
}

func (m *marginal) distribution(categories []string) Distribution {
	if m.shares == nil {
		return Distribution{Mean: number(m.mean), Variance: number(m.variance), P05: number(m.p05), P50: number(m.p50), P95: number(m.p95)}
	}
	var d Distribution
	for i, name := range categories {
		d.P = append(d.P, Share{name, number(m.shares[i])})
	}
	return d
}

// bins gives the probabilities of equal intervals, or nothing if those have no width.
func (m *marginal) bins(low, high float64) []float64 {
	width := (high - low) / bins
	if !finite(width) || low+width == low || high-width == high {
		return nil
	}
	out := make([]float64, bins)
	before := m.below(low)
	for i := range out {
		after := 1.0
		if i+1 < bins {
			after = m.below(low + float64(float64(i+1)*width))
		}
		out[i], before = max(after-before, 0), after
	}
	return out
}

// units are the units of a risk's last place in 1.
const units = 1e9

// risk rounds a probability up. What is above a unit by less than the rounding of the calculation is that unit.
func risk(c chance) json.Number {
	n := math.Ceil(float64(c.judged*units) - 1e-5)
	if n < 1 && c.possible {
		n = 1
	}
	return decimal(min(max(n, 0), units))
}

// nearest rounds the probability itself.
func (c chance) nearest() json.Number { return decimal(math.Floor(float64(c.estimate*units) + 0.5)) }

// decimal writes so many units.
func decimal(n float64) json.Number {
	switch {
	case n >= units:
		return "1"
	case n <= 0:
		return "0"
	}
	return json.Number("0." + strings.TrimRight(fmt.Sprintf("%0*d", RiskPlaces, int64(n)), "0"))
}
