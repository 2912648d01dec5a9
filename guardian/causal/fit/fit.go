package fit

import (
	"errors"
	"fmt"
	"slices"

	"chimera.ai/engine/guardian/causal"
)

// DefaultHoldOut is the share of the rows that are held out if [Options.HoldOut] is 0.
const DefaultHoldOut = 0.2

// A mechanism is fitted to at least this many rows, and so many more for each coefficient.
const (
	minRows        = 10
	minRowsForEach = 5
)

// Options say what is fitted, and how.
type Options struct {
	// Source names the data, for people.
	Source string
	// HoldOut is the share of the rows that are held out, at most 0.5.
	HoldOut float64
	// Only names the variables to fit, drafted or not. Without it, all drafted ones are fitted.
	Only []string
	// Marginalize names parents without data whose influence is to become noise: their edges to what is fitted
	// are taken out of the model.
	Marginalize []string
	// UniformUnseen gives equal probabilities to the categories of a table in combinations of which there are no
	// data. Else these are refused.
	UniformUnseen bool
}

// Report says what was fitted.
type Report struct {
	Variables []Fitted
	// Ranges are the levers that have the range of the data now.
	Ranges []string
	// Unused are the columns of which the model has no variable.
	Unused []string
}

// Fitted says how one variable was fitted, besides its [causal.Fit].
type Fitted struct {
	Variable string
	// Mechanism is "linear", "table", "means" or "noise".
	Mechanism string
	// Missing counts the rows that were left out, because they lack a value.
	Missing int
	// Notes say in words what a person has to know.
	Notes []string
}

// RefusedError reports a variable that cannot be fitted.
type RefusedError struct{ Variable, Message string }

func (e *RefusedError) Error() string { return e.Variable + ": " + e.Message }

// Fit returns a model with fitted mechanisms, which is otherwise the one that it is given: that is not changed. A
// lever without a range has that of the data then. If a variable cannot be fitted, none is. The errors, joined
// ([errors.Join]), are [*RefusedError] and [*DataError], and other ones for options that say nothing.
func Fit(m *causal.Model, d *Data, o Options) (*causal.Model, *Report, error) {
	if err := d.validate(); err != nil {
		return nil, nil, err
	}
	wanted, err := o.check(m, d)
	if err != nil {
		return nil, nil, err
	}
	out := *m
	out.Variables = slices.Clone(m.Variables)
	report, digest := &Report{}, d.Digest()
	var refused []error
	for i := range out.Variables {
		if !wanted[out.Variables[i].Name] {
			continue
		}
		j := &job{model: m, v: &m.Variables[i], data: d, options: o, digest: digest}
		if err := j.run(); err != nil {
			refused = append(refused, err)
			continue
		}
		out.Variables[i] = j.result
		report.Variables = append(report.Variables, j.report)
	}
	if len(refused) > 0 {
		return nil, nil, errors.Join(refused...)
	}
	if err := ranges(&out, d, report); err != nil {
		return nil, nil, err
	}
	for _, c := range d.Columns {
		if m.Variable(c) == nil {
			report.Unused = append(report.Unused, c)
		}
	}
	if n := len(causal.Write(&out)); n > causal.MaxFile {
		return nil, nil, fmt.Errorf("the fitted model has %d bytes, more than %d", n, causal.MaxFile)
	}
	if problems := causal.Check(&out); len(problems) > 0 {
		return nil, nil, fmt.Errorf("the fitted model is not valid: %s", problems[0].Summary)
	}
	return &out, report, nil
}

// check returns the variables to fit.
func (o Options) check(m *causal.Model, d *Data) (map[string]bool, error) {
	if o.Source == "" {
		return nil, errors.New("the data have no name (source)")
	}
	// Not the other way round: NaN is refused too.
	if !(o.HoldOut >= 0 && o.HoldOut <= 0.5) {
		return nil, fmt.Errorf("the share of the rows held out is %g: it must be from 0 to 0.5", o.HoldOut)
	}
	wanted := map[string]bool{}
	for _, name := range o.Only {
		if m.Variable(name) == nil {
			return nil, fmt.Errorf("the model has no variable %q to fit", name)
		}
		wanted[name] = true
	}
	for i := range m.Variables {
		if len(o.Only) == 0 && m.Variables[i].Drafted() {
			wanted[m.Variables[i].Name] = true
		}
	}
	if len(wanted) == 0 {
		return nil, errors.New("nothing is to be fitted: all variables of the model have a mechanism, and none is named")
	}
	for _, name := range o.Marginalize {
		if d.column(name) >= 0 {
			return nil, fmt.Errorf("%s has data: it cannot be made noise", name)
		}
		used := false
		for i := range m.Variables {
			used = used || wanted[m.Variables[i].Name] && slices.Contains(m.Variables[i].Parents, name)
		}
		if !used {
			return nil, fmt.Errorf("%q is to be made noise, but is no parent of what is fitted", name)
		}
	}
	return wanted, nil
}

// ranges sets those of levers without one: a model is valid for what was observed.
func ranges(m *causal.Model, d *Data, report *Report) error {
	for i := range m.Variables {
		v := &m.Variables[i]
		if v.Range != nil || v.Categorical() || !bound(m, v.Name) || d.column(v.Name) < 0 {
			continue
		}
		s, err := d.sample([]*causal.Variable{v})
		if err != nil {
			return err
		}
		x := s.columns[v.Name].numbers
		if len(x) == 0 {
			return &RefusedError{v.Name, "no row has a value of it, so that nothing is known of its range"}
		}
		v.Range = &causal.Range{Min: slices.Min(x), Max: slices.Max(x)}
		report.Ranges = append(report.Ranges, v.Name)
	}
	return nil
}

// bound reports whether an action sets the variable.
func bound(m *causal.Model, name string) bool {
	return slices.ContainsFunc(m.Bind, func(b causal.Binding) bool { return b.Variable == name })
}
