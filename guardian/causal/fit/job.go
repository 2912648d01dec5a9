package fit

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"chimera.ai/engine/guardian/causal"
)

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
	case j.data.column(j.v.Name) < 0 && len(j.data.Columns) == 1:
		return j.refuse("the data have one column, %.60q, and none of this name: cells are separated by commas", j.data.Columns[0])
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
	slices.SortFunc(j.result.Table, j.order)
	return j.finite()
}

// order compares rows by the names of their categories, as a model that was read has them.
func (j *job) order(a, b causal.Row) int {
	for _, p := range j.parents {
		if c := strings.Compare(a.When[p.Name], b.When[p.Name]); c != 0 {
			return c
		}
	}
	return 0
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
		return j.refuse("too few rows: %d, and at least %d are needed besides those held out (coefficients: %d; rows that lack a value: %d)",
			len(j.train.rows), need, coefficients, j.train.missing)
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

// finite refuses a mechanism with a number that a model cannot have. What is 0 has no sign then.
func (j *job) finite() error {
	var all []float64
	if l := j.result.Linear; l != nil {
		l.Intercept += 0
		for _, p := range j.parents {
			l.Weights[p.Name] += 0
		}
		all = append(all, l.Intercept)
		for _, p := range j.parents {
			all = append(all, l.Weights[p.Name])
		}
	}
	for _, r := range j.result.Table {
		if r.Value != nil {
			*r.Value += 0
			all = append(all, *r.Value)
		}
	}
	if n := j.result.Noise; n != nil {
		for i := range n.Empirical {
			n.Empirical[i] += 0
		}
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
		// NaN too.
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
