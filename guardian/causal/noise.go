package causal

import (
	"errors"
	"slices"
)

// kind is the kind of a distribution.
type kind int

const (
	silent kind = iota
	normalNoise
	uniformNoise
	bernoulliNoise
	empiricalNoise
)

// distribution is that of a noise.
type distribution struct {
	kind kind
	// mean and sd of a normal distribution; low and width of a uniform one; p of Bernoulli's.
	mean, sd, low, width, p float64
	empirical               []float64
	// outcomes are there if they are few.
	outcomes outcomes
}

// outcomes are values with probabilities, none of which is 0, whose sum is 1. sums has the sum up to each.
type outcomes struct{ values, p, sums []float64 }

// maxOutcomes is how many values of an empirical distribution are enumerated.
const maxOutcomes = 64

var errProbabilities = errors.New("probabilities are from 0 to 1, and their sum is 1")

// newOutcomes returns the outcomes of named categories.
func newOutcomes(named map[string]float64, categories []string) (outcomes, error) {
	var o outcomes
	known := 0
	for i, name := range categories {
		p, ok := named[name]
		if ok {
			known++
		}
		if !(p >= 0 && p <= 1) {
			return o, errProbabilities
		}
		if p > 0 {
			o.values, o.p = append(o.values, float64(i)), append(o.p, p)
		}
	}
	if known != len(named) {
		return o, errors.New("a probability is that of no category")
	}
	return o, o.complete()
}

// complete makes the sum of the probabilities exactly 1.
func (o *outcomes) complete() error {
	var total sum
	for _, p := range o.p {
		total.add(p)
	}
	t := total.value()
	if !(t > 1-1e-6 && t < 1+1e-6) {
		return errProbabilities
	}
	var upTo sum
	for i := range o.p {
		o.p[i] /= t
		upTo.add(o.p[i])
		o.sums = append(o.sums, upTo.value())
	}
	return nil
}

// draw returns the outcome for a uniform number.
func (o *outcomes) draw(u float64) float64 {
	for i, s := range o.sums {
		if u < s {
			return o.values[i]
		}
	}
	return o.values[len(o.values)-1]
}

// newDistribution compiles a noise.
func newDistribution(n *Noise, categories []string) (distribution, error) {
	var d distribution
	if n == nil {
		return d, nil
	}
	count := 0
	for _, there := range []bool{n.Normal != nil, n.Uniform != nil, n.Bernoulli != nil, n.Categorical != nil, n.Empirical != nil} {
		if there {
			count++
		}
	}
	if count != 1 {
		return d, errors.New("a noise has exactly one distribution")
	}
	var err error
	switch {
	case n.Normal != nil:
		d.kind, d.mean, d.sd = normalNoise, n.Normal.Mean, n.Normal.SD
		if !finite(d.mean) || !finite(d.sd) || d.sd < 0 {
			return d, errors.New("a normal noise has a finite mean, and a standard deviation from 0 on")
		}
		if d.sd == 0 {
			d.outcomes = outcomes{values: []float64{d.mean}, p: []float64{1}, sums: []float64{1}}
		}
	case n.Uniform != nil:
		d.kind, d.low, d.width = uniformNoise, n.Uniform.Min, n.Uniform.Max-n.Uniform.Min
		if !finite(d.low) || !finite(d.width) || d.width < 0 {
			return d, errors.New("a uniform noise has a finite range")
		}
		if d.width == 0 {
			d.outcomes = outcomes{values: []float64{d.low}, p: []float64{1}, sums: []float64{1}}
		}
	case n.Bernoulli != nil:
		d.kind, d.p = bernoulliNoise, *n.Bernoulli
		if !(d.p >= 0 && d.p <= 1) {
			return d, errProbabilities
		}
		for i, p := range []float64{1 - d.p, d.p} {
			if p > 0 {
				d.outcomes.values, d.outcomes.p = append(d.outcomes.values, float64(i)), append(d.outcomes.p, p)
			}
		}
	case n.Categorical != nil:
		d.outcomes, err = newOutcomes(n.Categorical, categories)
	case n.Empirical != nil:
		d.kind, d.empirical = empiricalNoise, n.Empirical
		if len(n.Empirical) == 0 || len(n.Empirical) > MaxEmpirical || slices.ContainsFunc(n.Empirical, func(x float64) bool { return !finite(x) }) {
			return d, errors.New("an empirical noise has some finite numbers")
		}
		d.outcomes = grouped(n.Empirical)
	}
	return d, err
}

// grouped returns the different numbers and how often each is there, or nothing if they are many.
func grouped(numbers []float64) outcomes {
	var o outcomes
	sorted := slices.Clone(numbers)
	slices.Sort(sorted)
	for i := 0; i < len(sorted); {
		end := i
		for end < len(sorted) && sorted[end] == sorted[i] {
			end++
		}
		o.values, o.p = append(o.values, sorted[i]+0), append(o.p, float64(end-i)/float64(len(sorted)))
		i = end
	}
	if len(o.values) > maxOutcomes {
		return outcomes{}
	}
	return o
}

// few reports whether the outcomes can be enumerated.
func (d *distribution) few() bool { return d.kind == silent || len(d.outcomes.values) > 0 }

// sample turns uniform numbers into those of the distribution.
func (d *distribution) sample(u []float64) {
	switch d.kind {
	case silent:
		clear(u)
	case normalNoise:
		quantiles(u)
		for i, x := range u {
			u[i] = d.mean + float64(d.sd*x)
		}
	case uniformNoise:
		for i, x := range u {
			u[i] = d.low + float64(d.width*x)
		}
	case bernoulliNoise:
		for i, x := range u {
			u[i] = 0
			if x < d.p {
				u[i] = 1
			}
		}
	case empiricalNoise:
		n := float64(len(d.empirical))
		for i, x := range u {
			u[i] = d.empirical[min(int(float64(x*n)), len(d.empirical)-1)]
		}
	}
}

// sum adds numbers and what rounding takes from each sum (A. Neumaier, 1974).
type sum struct{ total, lost float64 }

func (s *sum) add(x float64) {
	t := s.total + x
	if s.total >= x && s.total >= -x || s.total <= x && s.total <= -x {
		s.lost += (s.total - t) + x
	} else {
		s.lost += (x - t) + s.total
	}
	s.total = t
}

func (s *sum) value() float64 { return s.total + s.lost }
