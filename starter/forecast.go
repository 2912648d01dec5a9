package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"chimera.ai/engine/guardian"
	"chimera.ai/engine/guardian/causal"
)

// writeForecast writes a forecast for people: a row for each KPI, and the risk.
func writeForecast(w io.Writer, indent string, f *causal.Prediction) error {
	if _, err := fmt.Fprintf(w, "%sforecast %s  %s\n", indent, inLine(f.Name), inLine(f.ID)); err != nil {
		return err
	}
	for _, do := range f.Interventions {
		if _, err := fmt.Fprintf(w, "%s  sets %s = %s\n", indent, inLine(do.Variable), inLine(do.Value.String())); err != nil {
			return err
		}
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "%s  KPI\tWITH THE ACTION\tWITHOUT\tBOUND\tP(BROKEN)\n", indent)
	for i := range f.KPIs {
		k := &f.KPIs[i]
		broken := "-"
		if k.Bounded() {
			broken = inLine(string(k.Broken))
		}
		_, _ = fmt.Fprintf(table, "%s  %s\t%s\t%s\t%s\t%s\n", indent, inLine(k.Variable), spread(&k.With, k.Unit), spread(&k.Without, k.Unit), boundOf(&k.KPI), broken)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s  risk %s, without the action %s (%s)\n", indent, inLine(string(f.Risk)), inLine(string(f.Baseline)), methodOf(f))
	return err
}

// writeObserved writes for people what was measured of the KPIs of a forecast, beside what was predicted.
func writeObserved(w io.Writer, indent string, f *causal.Prediction, observed map[string]causal.Value) error {
	if f == nil {
		return nil
	}
	for i := range f.KPIs {
		k := &f.KPIs[i]
		v, ok := observed[k.Variable]
		if !ok {
			continue
		}
		if _, err := fmt.Fprintf(w, "%sobserved %s = %s; predicted %s\n", indent, inLine(k.Variable), inLine(v.String()), spread(&k.With, k.Unit)); err != nil {
			return err
		}
	}
	return nil
}

// methodOf says how a risk was calculated.
func methodOf(f *causal.Prediction) string {
	switch f.Method {
	case causal.Finite:
		return "exact: all worlds were enumerated"
	case causal.Gaussian:
		return "in closed form"
	case causal.MonteCarlo:
		return fmt.Sprintf("the upper end of a confidence interval around %s, of %s", inLine(string(f.Estimate)), plural(f.Samples, "sample"))
	}
	return inLine(string(f.Method))
}

// spread is a distribution in a few words: the mean and the interval of 90 % of a number, and the
// probabilities of categories.
func spread(d *causal.Distribution, unit string) string {
	if len(d.P) > 0 {
		var all []string
		for _, p := range d.P {
			all = append(all, inLine(p.Category)+" "+short(p.P))
		}
		return strings.Join(all, ", ")
	}
	text := fmt.Sprintf("%s [%s, %s]", short(d.Mean), short(d.P05), short(d.P95))
	if unit != "" {
		text += " " + inLine(unit)
	}
	return text
}

// boundOf is the bound of a KPI in a few words.
func boundOf(k *causal.KPI) string {
	switch {
	case len(k.Allow) > 0:
		return inLine(strings.Join(k.Allow, " or "))
	case k.Min != nil && k.Max != nil:
		return fmt.Sprintf("%s to %s", compact(*k.Min), compact(*k.Max))
	case k.Min != nil:
		return "at least " + compact(*k.Min)
	case k.Max != nil:
		return "at most " + compact(*k.Max)
	}
	return "-"
}

// short is a number with at most six digits that count.
func short(n json.Number) string {
	x, err := n.Float64()
	if err != nil {
		return inLine(string(n))
	}
	return compact(x)
}

func compact(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }

// showForeseen shows what the guardian would say of a call.
func (p *Program) showForeseen(indent string, f *foreseen) error {
	if f.Forecast != nil {
		if err := writeForecast(p.Stdout, indent, f.Forecast); err != nil {
			return err
		}
		whose := "any agent"
		if f.Agent != "" {
			whose = f.Agent
		}
		p.printf("%s  threshold %s, of %s for %s effects\n", indent, inLine(f.Threshold), inLine(whose), f.Effect)
	}
	p.printf("%s  guardian %s\n", indent, verdictOf(f))
	if f.Decision == guardian.Escalate && !f.modelled {
		p.say("Name a model of %s under `models` of the policy, or list the operation under `unmodelled` there.", inLine(f.Operation))
	}
	if f.SVG != "" {
		p.say("drawn to %s", f.SVG)
	}
	return nil
}

// verdictOf says what the guardian would say.
func verdictOf(f *foreseen) string {
	switch {
	case f.Decision == guardian.Approve && f.Reason == unmodelled:
		return "would let it through without a forecast: the policy accepts that (unmodelled)"
	case f.Decision == guardian.Approve:
		return "would let it through: the risk is within the threshold"
	case f.Decision == guardian.Escalate:
		return fmt.Sprintf("would escalate it, %s: %s", f.Reason, inLine(f.Detail))
	}
	return fmt.Sprintf("would reject it, %s: %s", f.Reason, inLine(f.Detail))
}
