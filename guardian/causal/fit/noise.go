package fit

import (
	"errors"
	"math"
	"slices"

	"chimera.ai/engine/guardian/causal"
)

// MaxEmpirical bounds the values of a fitted empirical distribution. More of them are thinned to quantiles.
const MaxEmpirical = 200

// exact is said of mechanisms without noise.
const exact = "the residuals are 0: the mechanism has no noise"

// residual is the noise of what a mechanism does not explain.
type residual struct {
	noise *causal.Noise
	// mean is that of the noise, which the mechanism has to leave out.
	mean float64
	note string
}

// residuals estimates the noise from residuals of mean 0, in the family that is declared. sd is their unbiased
// standard deviation, size the largest value that was explained.
func residuals(declared *causal.Noise, r []float64, sd, size float64) (residual, error) {
	if largest(r) <= float64(1e-12*size) {
		return residual{note: exact}, nil
	}
	n := float64(len(r))
	switch {
	case declared == nil || declared.Normal != nil:
		return residual{noise: &causal.Noise{Normal: &causal.Normal{SD: sd}}}, nil
	case declared.Uniform != nil:
		// Symmetric, so that the mean remains 0.
		reach := float64(largest(r) * ((n + 1) / (n - 1)))
		return residual{noise: &causal.Noise{Uniform: &causal.Range{Min: -reach, Max: reach}}}, nil
	case declared.Empirical != nil:
		values, _ := center(thin(r, MaxEmpirical))
		return residual{noise: &causal.Noise{Empirical: values}}, nil
	case declared.Bernoulli != nil:
		middle := (slices.Min(r) + slices.Max(r)) / 2
		ones := 0
		for _, x := range r {
			if x > middle {
				ones++
			}
		}
		p := jeffreys(ones, len(r), 2)
		for _, x := range r {
			if math.Abs(x+p) > 0.25 && math.Abs(x-(1-p)) > 0.25 {
				return residual{}, errors.New("its noise is declared as bernoulli, but the residuals are not near two values that differ by 1")
			}
		}
		return residual{noise: &causal.Noise{Bernoulli: &p}, mean: p}, nil
	}
	return residual{}, errors.New("its noise is declared as categorical, which a number cannot have")
}

// root estimates the distribution of a number without parents, in the family that is declared.
func root(declared *causal.Noise, x []float64) (n *causal.Noise, mean float64, errs map[string]float64, err error) {
	centered, m := center(x)
	count := float64(len(x))
	if norm(centered) <= zero(x) {
		return nil, 0, nil, errors.New("it has the same value in all rows; if it always has, write it as `value`")
	}
	sd := norm(centered) / math.Sqrt(count-1)
	errs = map[string]float64{"mean": sd / math.Sqrt(count)}
	switch {
	case declared == nil || declared.Normal != nil:
		errs["sd"] = sd / math.Sqrt(float64(2*(count-1)))
		return &causal.Noise{Normal: &causal.Normal{Mean: m, SD: sd}}, m, errs, nil
	case declared.Uniform != nil:
		low, high := slices.Min(x), slices.Max(x)
		middle := low + float64((high-low)/2)
		reach := float64((high - low) / 2 * ((count + 1) / (count - 1)))
		// The least of n uniform numbers has this standard deviation.
		end := float64(2 * reach * math.Sqrt(count/(count+2)) / (count + 1))
		return &causal.Noise{Uniform: &causal.Range{Min: middle - reach, Max: middle + reach}}, middle, map[string]float64{"min": end, "max": end}, nil
	case declared.Empirical != nil:
		values := thin(x, MaxEmpirical)
		_, m := center(values)
		return &causal.Noise{Empirical: values}, m, errs, nil
	case declared.Bernoulli != nil:
		ones := 0
		for _, v := range x {
			if v != 0 && v != 1 {
				return nil, 0, nil, errors.New("its noise is declared as bernoulli, but it has values other than 0 and 1")
			}
			ones += int(v)
		}
		p := jeffreys(ones, len(x), 2)
		return &causal.Noise{Bernoulli: &p}, p, map[string]float64{"p": posterior(p, len(x), 2)}, nil
	}
	return nil, 0, nil, errors.New("its noise is declared as categorical, which a number cannot have")
}

// thin returns at most most of the values, sorted: quantiles at equal steps, with the least and the greatest.
func thin(x []float64, most int) []float64 {
	sorted := slices.Sorted(slices.Values(x))
	if len(sorted) <= most {
		return sorted
	}
	out := make([]float64, most)
	for i := range out {
		// Rounded to the nearest in integers.
		out[i] = sorted[(2*i*(len(sorted)-1)+most-1)/(2*(most-1))]
	}
	return out
}

// jeffreys is the mean of the posterior probability of something seen in count of n cases, one of k categories,
// by Jeffreys' prior.
func jeffreys(count, n, k int) float64 {
	return (float64(count) + 0.5) / (float64(n) + float64(float64(k)/2))
}

// posterior is the standard deviation of that probability.
func posterior(p float64, n, k int) float64 {
	return math.Sqrt(float64(p*(1-p)) / (float64(n) + float64(float64(k)/2) + 1))
}
