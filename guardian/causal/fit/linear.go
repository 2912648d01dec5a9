package fit

import (
	"math"

	"chimera.ai/engine/guardian/causal"
)

// linear fits a number to parents that are numbers. Members of the back-door set are covariates: their part is left to
// the noise, so that the mean under an intervention is that of the whole population.
func (j *job) linear() error {
	y := j.train.columns[j.v.Name].numbers
	n, kx := len(y), len(j.parents)
	var columns []covariate
	for _, p := range j.parents {
		columns = append(columns, covariate{p.Name, j.train.columns[p.Name].numbers})
	}
	for _, z := range j.adjusted {
		columns = append(columns, dummies(j.train.columns[z.Name])...)
	}
	k := len(columns)
	if err := j.enough(k + 1); err != nil {
		return err
	}
	if centered, _ := center(y); norm(centered) <= zero(y) {
		return j.refuse("it has the same value in all rows, so that nothing can be said of its causes")
	}
	s, err := leastSquares(columns, y)
	if err != nil {
		return j.refuse("%s", err)
	}
	l := &causal.Linear{Intercept: mean(y), Weights: map[string]float64{}}
	size := largest(y)
	for i, c := range columns[:kx] {
		l.Weights[c.name] = s.slopes[i]
		l.Intercept -= float64(s.slopes[i] * mean(c.values))
		size = max(size, math.Abs(float64(s.slopes[i]*largest(c.values))))
	}
	r := make([]float64, n)
	for i := range r {
		r[i] = y[i] - l.Intercept
		for _, c := range columns[:kx] {
			r[i] -= float64(l.Weights[c.name] * c.values[i])
		}
	}
	r, _ = center(r)
	free := float64(n - k - 1)
	variance, around := s.rss/free, float64(norm(r)*norm(r))/free
	res, err := residuals(j.v.Noise, r, math.Sqrt(around), size)
	if err != nil {
		return j.refuse("%s", err)
	}
	l.Intercept -= res.mean
	of := around / float64(n)
	errs := map[string]float64{}
	for a := range kx {
		for b := range kx {
			of += float64(float64(mean(columns[a].values)*mean(columns[b].values)) * float64(variance*s.inverse[a][b]))
		}
	}
	errs["intercept"] = math.Sqrt(max(of, 0))
	for i, c := range columns[:kx] {
		errs[c.name] = math.Sqrt(float64(variance * s.inverse[i][i]))
	}
	j.result.Linear, j.result.Noise = l, res.noise
	j.done("linear", errs, res.note)
	j.tested(j.rmse(func(i int) float64 {
		x := l.Intercept + res.mean
		for _, p := range j.parents {
			x += float64(l.Weights[p.Name] * j.test.columns[p.Name].numbers[i])
		}
		return x
	}))
	return nil
}

// dummies returns a variable as columns: a number as it is, categories as one column of 0 and 1 for each that was
// seen but the first.
func dummies(s *series) []covariate {
	if !s.v.Categorical() {
		return []covariate{{s.v.Name, s.numbers}}
	}
	var columns []covariate
	first := true
	for code, category := range s.v.Values {
		values, seen := make([]float64, len(s.codes)), false
		for i, c := range s.codes {
			if c == code {
				values[i], seen = 1, true
			}
		}
		if seen && !first {
			columns = append(columns, covariate{s.v.Name + "=" + category, values})
		}
		first = first && !seen
	}
	return columns
}
