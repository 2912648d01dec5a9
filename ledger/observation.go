package ledger

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// Bounds of what is observed of a hypothesis.
const (
	// MaxObserved bounds the KPIs, and MaxObservedText each name and each text, in bytes.
	MaxObserved     = 32
	MaxObservedText = 256
	// MaxObservedNumber bounds the size of a number, and maxObservedDigits its text, in bytes.
	MaxObservedNumber = 1e300
	maxObservedDigits = 32
)

// Observe adds what was measured of KPIs: a JSON object, which gives each its value, a number or a
// text. Only what the prediction names is observed, each KPI once: another value for one is
// [ErrConflict], and what cannot be observed [ErrInvalid]. fresh has those that were not observed
// before, in canonical JSON, and count how many are observed with them; it is nil if there are none,
// and h is returned as it is.
func (h Hypothesis) Observe(observed json.RawMessage) (out Hypothesis, fresh json.RawMessage, count int, err error) {
	all, err := h.measured()
	if err != nil {
		return h, nil, 0, err
	}
	said, err := measurements(observed)
	if err != nil {
		return h, nil, 0, err
	}
	predicted, err := h.KPIs()
	if err != nil {
		return h, nil, 0, err
	}
	added := map[string]any{}
	for name, value := range said {
		was, known := all[name]
		switch {
		case !slices.Contains(predicted, name):
			return h, nil, 0, fmt.Errorf("%w: the prediction has no KPI %.80q", ErrInvalid, name)
		case known && was != value:
			return h, nil, 0, fmt.Errorf("%w: of %.80q something else was observed", ErrConflict, name)
		case !known:
			added[name] = value
		}
	}
	if len(added) == 0 {
		return h, nil, len(all), nil
	}
	if maps.Copy(all, added); len(all) > MaxObserved {
		return h, nil, 0, fmt.Errorf("%w: more than %d KPIs are observed", ErrInvalid, MaxObserved)
	}
	if h.Observed, err = plan.Canonical(all); err == nil {
		fresh, err = plan.Canonical(added)
	}
	h.State = HypothesisMeasured
	return h, fresh, len(all), err
}

// KPIs are the names of those that the hypothesis predicts, sorted: the variables of "kpis", a list of
// the prediction.
func (h Hypothesis) KPIs() ([]string, error) {
	v, err := schemas.Decode(h.Prediction)
	if err != nil {
		return nil, fmt.Errorf("%w: a prediction: %w", ErrInvalid, err)
	}
	prediction, _ := v.(map[string]any)
	all, _ := prediction["kpis"].([]any)
	var names []string
	for _, k := range all {
		kpi, _ := k.(map[string]any)
		if name, ok := kpi["variable"].(string); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// measured is what was observed before.
func (h Hypothesis) measured() (map[string]any, error) {
	if h.Observed == nil {
		return map[string]any{}, nil
	}
	return measurements(h.Observed)
}

// measurements reads what was observed: texts, and numbers as the shortest text of the same number of
// 64 bits, by which they are equal.
func measurements(raw json.RawMessage) (map[string]any, error) {
	v, err := schemas.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: what was observed: %w", ErrInvalid, err)
	}
	all, ok := v.(map[string]any)
	if !ok || len(all) > MaxObserved {
		return nil, fmt.Errorf("%w: what was observed is no JSON object of at most %d KPIs", ErrInvalid, MaxObserved)
	}
	for name, value := range all {
		if all[name], ok = measurement(value); !ok || !plainText(name) {
			return nil, fmt.Errorf("%w: %.80q is no KPI with a number or a short text", ErrInvalid, name)
		}
	}
	return all, nil
}

// measurement is one value, if it is one that can be observed.
func measurement(v any) (any, bool) {
	switch v := v.(type) {
	case string:
		return v, plainText(v)
	case json.Number:
		x, err := v.Float64()
		if err != nil || len(v) > maxObservedDigits || math.Abs(x) > MaxObservedNumber {
			return nil, false
		}
		text, err := json.Marshal(x + 0) // no negative zero
		return json.Number(text), err == nil
	}
	return nil, false
}

// plainText reports whether a text is short, and has no control characters.
func plainText(s string) bool {
	return s != "" && len(s) <= MaxObservedText && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}
