package fit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

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

// job fits one variable.
type job struct {
	model   *causal.Model
	v       *causal.Variable
	data    *Data
	options Options
	digest  string

	// parents are those that stay; marginalized are those taken out, and adjusted is the back-door set.
	parents, adjusted []*causal.Variable
	marginalized      []string
	train, test       *sample

	result causal.Variable
	report Fitted
}

func (j *job) refuse(format string, args ...any) error {
	return &RefusedError{j.v.Name, fmt.Sprintf(format, args...)}
}

func (j *job) run() error {
	switch {
	case j.data.column(j.v.Name) < 0:
		return j.refuse("the data have no column of this name")
	case j.v.Expression != "":
		return j.refuse("its mechanism is an expression, which is not fitted")
	case j.v.Value != nil:
		return j.refuse("it has a constant value, which is not fitted")
	}
	if err := j.identify(); err != nil {
		return err
	}
	all, err := j.data.sample(slices.Concat([]*causal.Variable{j.v}, j.parents, j.adjusted))
	if err != nil {
		return err
	}
	share := j.options.HoldOut
	if share == 0 {
		share = DefaultHoldOut
	}
	j.train, j.test = all.split(share)
	j.result = *j.v
	j.result.Linear, j.result.Table, j.result.Noise, j.result.Parents = nil, nil, nil, nil
	for _, p := range j.parents {
		j.result.Parents = append(j.result.Parents, p.Name)
	}
	if err := j.mechanism(); err != nil {
		return err
	}
	return j.finite()
}

// mechanism fits the one that the kinds of the variable and of its parents leave.
func (j *job) mechanism() error {
	categories := 0
	for _, p := range j.parents {
		if p.Categorical() {
			categories++
		}
	}
	switch {
	case len(j.parents) == 0:
		return j.root()
	case categories == len(j.parents) && j.v.Categorical():
		return j.table()
	case categories == len(j.parents):
		return j.means()
	case categories == 0 && !j.v.Categorical():
		return j.linear()
	}
	return j.refuse("only a number is fitted to parents that are numbers, and only to parents of one kind: write an expression")
}

// root fits a variable without parents.
func (j *job) root() error {
	if err := j.enough(max(len(j.v.Values)-1, 1)); err != nil {
		return err
	}
	if j.v.Categorical() {
		codes, k := j.train.columns[j.v.Name].codes, len(j.v.Values)
		counts := make([]int, k)
		for _, c := range codes {
			counts[c]++
		}
		p, errs := map[string]float64{}, map[string]float64{}
		for c, category := range j.v.Values {
			p[category] = jeffreys(counts[c], len(codes), k)
			errs[category] = posterior(p[category], len(codes), k)
		}
		j.result.Noise = &causal.Noise{Categorical: p}
		j.done("noise", errs, "")
		j.tested(j.brier(func(int) map[string]float64 { return p }))
		return nil
	}
	n, mean, errs, err := root(j.v.Noise, j.train.columns[j.v.Name].numbers)
	if err != nil {
		return j.refuse("%s", err)
	}
	j.result.Noise = n
	j.done("noise", errs, "")
	j.tested(j.rmse(func(int) float64 { return mean }))
	return nil
}

// enough refuses to fit more coefficients than the rows bear.
func (j *job) enough(coefficients int) error {
	if need := minRows + minRowsForEach*coefficients; len(j.train.rows) < need {
		return j.refuse("%d rows are too few to fit %d coefficients to: at least %d are needed, besides those held out (%d rows lack a value)",
			len(j.train.rows), coefficients, need, j.train.missing)
	}
	return nil
}

// done records how the mechanism was fitted.
func (j *job) done(mechanism string, errs map[string]float64, note string) {
	j.result.Provenance = causal.Fitted
	j.result.Fit = &causal.Fit{Source: j.options.Source, Digest: j.digest, Rows: len(j.train.rows), HeldOut: len(j.test.rows),
		Marginalized: j.marginalized, Errors: errs}
	for _, z := range j.adjusted {
		j.result.Fit.Adjusted = append(j.result.Fit.Adjusted, z.Name)
	}
	j.report.Variable, j.report.Mechanism, j.report.Missing = j.v.Name, mechanism, j.train.missing
	if note != "" {
		j.report.Notes = append(j.report.Notes, note)
	}
}

func (j *job) tested(e *float64) { j.result.Fit.HeldOutError = e }

// rmse returns the root mean square error of the rows held out, or nil if there are none.
func (j *job) rmse(predict func(row int) float64) *float64 {
	y := j.test.columns[j.v.Name].numbers
	if len(y) == 0 {
		return nil
	}
	total := 0.0
	for i, x := range y {
		e := x - predict(i)
		total += float64(e * e)
	}
	total = math.Sqrt(total / float64(len(y)))
	return &total
}

// brier returns the mean Brier score of the rows held out, summed over the categories (Brier 1950), or nil.
func (j *job) brier(predict func(row int) map[string]float64) *float64 {
	y := j.test.columns[j.v.Name].codes
	if len(y) == 0 {
		return nil
	}
	total := 0.0
	for i, code := range y {
		p := predict(i)
		for c, category := range j.v.Values {
			e := p[category]
			if c == code {
				e--
			}
			total += float64(e * e)
		}
	}
	total /= float64(len(y))
	return &total
}

// finite refuses a mechanism with a number that a model cannot have.
func (j *job) finite() error {
	var all []float64
	if l := j.result.Linear; l != nil {
		all = append(all, l.Intercept)
		for _, p := range j.parents {
			all = append(all, l.Weights[p.Name])
		}
	}
	for _, r := range j.result.Table {
		if r.Value != nil {
			all = append(all, *r.Value)
		}
	}
	if n := j.result.Noise; n != nil {
		all = append(all, n.Empirical...)
		if n.Normal != nil {
			all = append(all, n.Normal.Mean, n.Normal.SD)
		}
		if n.Uniform != nil {
			all = append(all, n.Uniform.Min, n.Uniform.Max)
		}
	}
	for _, e := range j.result.Fit.Errors {
		all = append(all, e)
	}
	if e := j.result.Fit.HeldOutError; e != nil {
		all = append(all, *e)
	}
	for _, x := range all {
		if !(math.Abs(x) <= causal.MaxNumber) {
			return j.refuse("the data give a number beyond %g", float64(causal.MaxNumber))
		}
	}
	return nil
}

// names lists the names of variables.
func names(list []*causal.Variable) string {
	var out []string
	for _, v := range list {
		out = append(out, v.Name)
	}
	return strings.Join(out, ", ")
}
