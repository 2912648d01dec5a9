package main

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/guardian/causal/calibrate"
	"chimera.ai/engine/guardian/causal/plot"
	"chimera.ai/engine/ledger"
)

// maxForecasts bounds the forecasts of a report.
const maxForecasts = 50_000

// calibration is the JSON answer of simulate --report.
type calibration struct {
	OK bool `json:"ok"`
	*calibrate.Report
	// Unreadable counts the hypotheses that are not of this version's form.
	Unreadable int    `json:"unreadable,omitempty"`
	SVG        string `json:"svg,omitempty"`
}

// report says how good the forecasts of the ledger were.
func (p *Program) report(ctx context.Context, f *simulateFlags) error {
	since, err := sinceOf("since", f.since)
	if err != nil {
		return err
	}
	l, err := p.existingLedger(ctx)
	if err != nil {
		return err
	}
	filter := ledger.HypothesisFilter{Agent: f.agent, Tool: f.operation}
	if !since.IsZero() {
		filter.Since = ledger.At(since)
	}
	pairs, unreadable, err := pairsOf(ctx, l, filter, f.model)
	if err != nil {
		return err
	}
	answer := calibration{OK: true, Report: calibrate.Measure(pairs), Unreadable: unreadable}
	if f.svg != "" {
		if err := replaceFile(f.svg, plot.Calibration(answer.Report)); err != nil {
			return misuse("%s", err)
		}
		answer.SVG = f.svg
	}
	if p.json() {
		return p.document(answer)
	}
	return p.showCalibration(&answer)
}

// pairsOf reads the forecasts of the ledger, with what was observed of each; of one model, if it is named.
func pairsOf(ctx context.Context, l ledger.Store, filter ledger.HypothesisFilter, model string) (pairs []calibrate.Pair, unreadable int, err error) {
	for offset := 0; ; {
		list, err := l.Hypotheses(ctx, filter, ledger.Page{Limit: logPage, Offset: offset})
		if err != nil {
			return nil, 0, storeError(err)
		}
		for i := range list {
			pair, err := pairOf(&list[i])
			switch {
			case err != nil:
				unreadable++
			case model == "" || pair.Prediction.Name == model:
				pairs = append(pairs, pair)
			}
		}
		if len(pairs) > maxForecasts {
			return nil, 0, negative("there are more than %d forecasts", maxForecasts).withHint("--since, --agent, --operation and --model leave some out.")
		}
		if offset += len(list); len(list) < logPage {
			return pairs, unreadable, nil
		}
	}
}

// pairOf is a hypothesis of the ledger as a forecast with what was observed.
func pairOf(h *ledger.Hypothesis) (pair calibrate.Pair, err error) {
	pair.At = h.CreatedAt.Time()
	if pair.Prediction, err = predictionOf(h); err != nil {
		return pair, err
	}
	pair.Model = pair.Prediction.Model
	pair.Observed = map[string]causal.Value{}
	if h.Observed != nil {
		err = json.Unmarshal(h.Observed, &pair.Observed)
	}
	return pair, err
}

// showCalibration shows people how good forecasts were.
func (p *Program) showCalibration(a *calibration) error {
	if a.Forecasts == 0 {
		p.say("the ledger has no forecasts")
	}
	for i := range a.Models {
		m := &a.Models[i]
		p.printf("%s  %s  %s from %s to %s\n", inLine(m.Name), inLine(m.Digest), plural(m.Forecasts, "forecast"), m.First.Format("2006-01-02"), m.Last.Format("2006-01-02"))
		if m.Risk != nil {
			p.printf("  any bound: %s\n", riskOf(m.Risk))
		}
		table := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(table, "  KPI\tOBSERVED\tBOUND BROKEN\tIN THE 90% INTERVAL\tMEAN ERROR\tDRIFT")
		for j := range m.KPIs {
			k := &m.KPIs[j]
			broken, inside, residual := "-", "-", "-"
			if k.Risk != nil {
				broken = riskOf(k.Risk)
			}
			if k.Interval != nil {
				inside = shareOf(&k.Interval.Inside)
			}
			if k.Residual != nil {
				residual = compact(k.Residual.Mean)
			} else if k.Categories != nil {
				residual = "Brier " + compact(k.Categories.Brier)
			}
			_, _ = fmt.Fprintf(table, "  %s\t%d of %d\t%s\t%s\t%s\t%s\n", inLine(k.Name), k.Observed, k.Forecasts, broken, inside, residual, driftOf(&k.Drift))
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	for _, x := range a.Problems {
		p.say("%s not used: %s", plural(x.Count, "forecast"), inLine(x.Message))
	}
	if a.Unreadable > 0 {
		p.say("%s cannot be read: another version has stated them", plural(a.Unreadable, "forecast"))
	}
	if a.SVG != "" {
		p.say("drawn to %s", a.SVG)
	}
	return nil
}

// riskOf compares the predicted probability of broken bounds with how often they broke.
func riskOf(r *calibrate.Risk) string {
	text := fmt.Sprintf("%s predicted, %s; Brier %s", percent(r.Predicted), shareOf(&r.Broken), compact(r.Brier))
	if r.Skill != nil {
		text += fmt.Sprintf(", skill %s", compact(*r.Skill))
	}
	return text
}

// shareOf is a part of observations, with its confidence interval.
func shareOf(s *calibrate.Share) string {
	return fmt.Sprintf("%d of %d, %s [%s, %s]", s.Count, s.Of, percent(s.Rate), percent(s.Low), percent(s.High))
}

func percent(x float64) string { return fmt.Sprintf("%.1f%%", 100*x) }

func driftOf(d *calibrate.Drift) string {
	switch d.State {
	case calibrate.NotEnoughData:
		return "too few observations"
	case calibrate.Drifted:
		return fmt.Sprintf("drift: %s %s, then %s", inLine(d.Measure), compact(d.Earlier.Mean), compact(d.Recent.Mean))
	case calibrate.NoDrift:
	}
	return "none"
}
