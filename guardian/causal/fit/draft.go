package fit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// Call is a past call of an operation.
type Call struct {
	Succeeded bool
	// Cost is what the call has cost, in major units of one currency; nil if that is not known.
	Cost     *float64
	Duration time.Duration
	// Args are the arguments, decoded as [schemas.Decode] does.
	Args any
}

// MaxLevers bounds the levers of a drafted model.
const MaxLevers = 32

// The categories of the outcome of a call.
const (
	outcomeOK     = "ok"
	outcomeFailed = "failed"
)

// FromCalls drafts the model of an operation from the JSON Schema of its input and from its past calls: how often they
// failed, what they have cost, and how many seconds they took. Each property of the input that is a number, a text (by
// its length), a flag or one of some words becomes a lever. A person then says what the KPIs depend on, and what
// bounds they have. The notes say what is left to do.
//
// A lever's range is that of the schema, or where this has no bound, that of the calls. If nothing is known of it,
// there is none, and the model judges nothing before a person says for which numbers it is valid.
func FromCalls(operation string, input json.RawMessage, calls []Call, source string) (m *causal.Model, notes []string, err error) {
	schema, err := schemas.Decode(input)
	if err != nil {
		return nil, nil, fmt.Errorf("read the schema of the input: %w", err)
	}
	m = &causal.Model{
		Name: strings.Trim(notName.ReplaceAllString(strings.ToLower(operation), "-"), "-"), Version: "1", Operations: []string{operation},
		Description: fmt.Sprintf("Drafted from the input schema of %s and %d of its calls.", operation, len(calls)), Samples: causal.DefaultSamples,
	}
	if len(m.Name) > 63 {
		m.Name = strings.Trim(m.Name[:63], "-")
	}
	d := &draft{m: m, calls: calls, source: source, taken: map[string]bool{"outcome": true, "cost": true, "duration": true}}
	d.levers(schema)
	if len(m.Bind) == 0 {
		return nil, nil, errors.New("the input has no property that is a number, a text, a flag or one of some words, so that a call would set nothing")
	}
	if len(calls) > 0 {
		if d.digest, err = digestOf(calls); err != nil {
			return nil, nil, err
		}
	}
	d.history()
	slices.SortFunc(m.Variables, func(a, b causal.Variable) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(m.Bind, func(a, b causal.Binding) int { return strings.Compare(a.Variable, b.Variable) })
	slices.SortFunc(m.KPIs, func(a, b causal.KPI) int { return strings.Compare(a.Variable, b.Variable) })
	if problems := causal.Check(m); len(problems) > 0 {
		return nil, nil, fmt.Errorf("the drafted model is not valid: %s", problems[0].Summary)
	}
	return m, append(d.notes, "say what the KPIs depend on: write `parents` and a mechanism, or fit one to data"), nil
}

var notName = regexp.MustCompile(`[^a-z0-9]+`)

// digestOf identifies a history.
func digestOf(calls []Call) (string, error) {
	b := bytes.NewBufferString("causal-calls/1\x00")
	for i := range calls {
		c := &calls[i]
		args, err := plan.Canonical(c.Args)
		if err != nil {
			return "", fmt.Errorf("read the arguments of a call: %w", err)
		}
		cost := "-"
		if c.Cost != nil {
			cost = strconv.FormatFloat(*c.Cost, 'g', -1, 64)
		}
		fmt.Fprintf(b, "%t %s %d %s\n", c.Succeeded, cost, c.Duration, args)
	}
	return plan.DigestOf(b.Bytes()), nil
}

// draft is a model in the making.
type draft struct {
	m              *causal.Model
	calls          []Call
	source, digest string
	taken          map[string]bool
	notes          []string
}

func (d *draft) note(format string, args ...any) {
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

// history adds what is known of past calls.
func (d *draft) history() {
	outcome := causal.Variable{Name: "outcome", Values: []string{outcomeOK, outcomeFailed}, Provenance: causal.Assumed}
	failed, costs, durations := 0, []float64(nil), []float64(nil)
	for i := range d.calls {
		c := &d.calls[i]
		if !c.Succeeded {
			failed++
		}
		if c.Cost != nil && math.Abs(*c.Cost) <= causal.MaxNumber {
			costs = append(costs, *c.Cost)
		}
		durations = append(durations, c.Duration.Seconds())
	}
	if n := len(d.calls); n > 0 {
		p, ok := jeffreys(failed, n, 2), jeffreys(n-failed, n, 2)
		outcome.Noise = &causal.Noise{Categorical: map[string]float64{outcomeFailed: p, outcomeOK: ok}}
		outcome.Provenance, outcome.Fit = causal.Fitted, d.fit(n, map[string]float64{outcomeFailed: posterior(p, n, 2), outcomeOK: posterior(ok, n, 2)})
	} else {
		d.note("there are no calls yet: fit `outcome` and `duration` to data, or write their `noise`")
	}
	d.m.Variables = append(d.m.Variables, outcome)
	d.m.KPIs = append(d.m.KPIs, causal.KPI{Variable: "outcome", Allow: []string{outcomeOK}})
	if len(costs) > 0 {
		d.measured("cost", "What a call costs.", "", costs)
	}
	d.measured("duration", "How long a call takes.", "s", durations)
}

// measured adds a number of which there are past values.
func (d *draft) measured(name, description, unit string, x []float64) {
	v := causal.Variable{Name: name, Description: description, Provenance: causal.Assumed}
	if len(x) >= minRows {
		centered, _ := center(x)
		sd := norm(centered) / math.Sqrt(float64(len(x)-1))
		v.Noise, v.Provenance = &causal.Noise{Empirical: thin(x, MaxEmpirical)}, causal.Fitted
		v.Fit = d.fit(len(x), map[string]float64{"mean": sd / math.Sqrt(float64(len(x)))})
	} else if len(x) > 0 {
		d.note("%d values of `%s` are too few: fit it to data, or write its `noise`", len(x), name)
	}
	d.m.Variables = append(d.m.Variables, v)
	d.m.KPIs = append(d.m.KPIs, causal.KPI{Variable: name, Unit: unit})
	d.note("`%s` has no bound yet: write `min` or `max` under `kpis`, or take it out there", name)
}

func (d *draft) fit(rows int, errs map[string]float64) *causal.Fit {
	return &causal.Fit{Source: d.source, Digest: d.digest, Rows: rows, Errors: errs}
}
