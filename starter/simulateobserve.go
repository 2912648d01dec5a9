package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/internal/strict"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
	"chimera.ai/engine/store"
)

// observed is the JSON answer of simulate observe.
type observed struct {
	OK         bool   `json:"ok"`
	Hypothesis string `json:"hypothesis"`
	// Observed has all that was observed so far, and Missing the KPIs that were not.
	Observed json.RawMessage `json:"observed"`
	Missing  []string        `json:"missing"`
}

func observeCommand(p *Program, fs *flag.FlagSet) action {
	values := fs.String("values", "", "`JSON` object with the values of KPIs, @FILE, or - for standard input; categories that the model does not have are taken, too")
	return func(ctx context.Context, operands []string) error {
		switch {
		case len(operands) == 1 && *values == "":
			return misuse("chimera simulate observe needs KPI=VALUE, such as size=1042").withHint("--values takes a JSON object of all values.")
		case len(operands) > 1 && *values != "":
			return misuse("--values takes the place of KPI=VALUE")
		}
		l, err := p.openLedger(ctx)
		if err != nil {
			return err
		}
		bounded, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		h, err := l.Hypothesis(bounded, operands[0])
		if errors.Is(err, ledger.ErrNotFound) {
			return negative("the ledger has no hypothesis %s", printable(operands[0])).
				withHint("%s shows the forecasts of a run's effects, with their ids.", p.command("effects", "RUN"))
		}
		if err != nil {
			return storeError(err)
		}
		forecast, err := predictionOf(&h)
		if err != nil {
			return negative("the hypothesis %s: %s", printable(h.HypothesisID), err)
		}
		said, err := p.measured(forecast, operands[1:], *values)
		if err != nil {
			return err
		}
		err = l.ObserveHypothesis(bounded, h.HypothesisID, said)
		switch {
		case errors.Is(err, ledger.ErrConflict):
			return negative("something else was observed of %s before: %s", printable(h.HypothesisID), printable(string(h.Observed))).
				withHint("What was observed stays as it is.")
		case errors.Is(err, ledger.ErrDenied):
			return denied(err, "to record what was observed", store.Roles.Guardian)
		case err != nil:
			return storeError(err)
		}
		if h, err = l.Hypothesis(bounded, h.HypothesisID); err != nil {
			return storeError(err)
		}
		return p.showObserved(&h, forecast)
	}
}

// showObserved shows what was observed of a hypothesis so far.
func (p *Program) showObserved(h *ledger.Hypothesis, forecast *causal.Prediction) error {
	answer := observed{OK: true, Hypothesis: h.HypothesisID, Observed: h.Observed, Missing: []string{}}
	var have map[string]json.RawMessage
	if err := json.Unmarshal(h.Observed, &have); err != nil {
		return negative("what was observed of %s cannot be read: %s", printable(h.HypothesisID), err)
	}
	for _, k := range forecast.KPIs {
		if have[k.Variable] == nil {
			answer.Missing = append(answer.Missing, k.Variable)
		}
	}
	if p.json() {
		return p.document(answer)
	}
	p.printf("%s  %s\n", printable(h.HypothesisID), printable(string(h.Observed)))
	if len(answer.Missing) > 0 {
		p.say("not observed yet: %s", inLine(strings.Join(answer.Missing, ", ")))
	}
	return nil
}

// predictionOf reads the prediction of a hypothesis.
func predictionOf(h *ledger.Hypothesis) (*causal.Prediction, error) {
	f := new(causal.Prediction)
	if err := strict.Decode(h.Prediction, f); err != nil {
		return nil, err
	}
	return f, nil
}

// measured reads what was measured, of KPIs that were forecast, as a JSON object.
func (p *Program) measured(forecast *causal.Prediction, given []string, values string) (json.RawMessage, error) {
	all := map[string]any{}
	if values != "" {
		raw, err := p.jsonOf("--values", values)
		if err != nil {
			return nil, err
		}
		v, err := schemas.Decode(raw)
		object, ok := v.(map[string]any)
		if err != nil || !ok || len(object) == 0 {
			return nil, misuse("--values is a JSON object of KPIs, such as {\"size\": 1042}")
		}
		for name, v := range object {
			k, err := kpiOf(forecast, name)
			if err != nil {
				return nil, err
			}
			if err := kindOf(k, v); err != nil {
				return nil, err
			}
		}
		all = object
	}
	for _, text := range given {
		name, value, ok := strings.Cut(text, "=")
		if !ok || value == "" {
			return nil, misuse("%q is not KPI=VALUE, such as size=1042", text)
		}
		k, err := kpiOf(forecast, name)
		if err != nil {
			return nil, err
		}
		if _, twice := all[name]; twice {
			return nil, misuse("%s is given twice", name)
		}
		if all[name], err = valueOf(k, value); err != nil {
			return nil, err
		}
	}
	raw, err := plan.Canonical(all)
	if err != nil {
		return nil, misuse("what was measured: %s", err)
	}
	return raw, nil
}

// kpiOf finds a KPI that was forecast.
func kpiOf(forecast *causal.Prediction, name string) (*causal.Forecast, error) {
	var names []string
	for i := range forecast.KPIs {
		k := &forecast.KPIs[i]
		if names = append(names, k.Variable); k.Variable == name {
			return k, nil
		}
	}
	return nil, misuse("the forecast has no KPI %q", name).meant("", name, names, "It has: "+strings.Join(names, ", ")+".")
}

// kindOf refuses a value that is not of a KPI's kind.
func kindOf(k *causal.Forecast, v any) error {
	_, isNumber := v.(json.Number)
	_, isText := v.(string)
	switch {
	case len(k.With.P) > 0 && !isText:
		return misuse("%s is one of %s", k.Variable, strings.Join(categoriesOf(k), ", "))
	case len(k.With.P) == 0 && !isNumber:
		return misuse("%s is a number", k.Variable)
	}
	return nil
}

// valueOf reads a value of a KPI: a number, or a category that the forecast has.
func valueOf(k *causal.Forecast, text string) (any, error) {
	if len(k.With.P) > 0 {
		names := categoriesOf(k)
		if slices.Contains(names, text) {
			return text, nil
		}
		f := misuse("%s is one of %s, not %q", k.Variable, strings.Join(names, ", "), text)
		if near := syntax.Nearest(text, names); near != "" {
			return nil, f.withHint("Did you mean %s=%s?", k.Variable, near)
		}
		return nil, f.withHint("--values takes a category that the model does not have.")
	}
	v, err := schemas.Decode([]byte(text))
	if _, isNumber := v.(json.Number); err != nil || !isNumber {
		return nil, misuse("%s is a number, not %q", k.Variable, text)
	}
	return v, nil
}

func categoriesOf(k *causal.Forecast) (names []string) {
	for _, p := range k.With.P {
		names = append(names, p.Category)
	}
	return names
}
