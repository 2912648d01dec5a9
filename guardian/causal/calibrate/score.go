package calibrate

import (
	"math"
	"slices"
)

// normal975 is the quantile of 97.5 % of the standard normal distribution.
const normal975 = 1.959963984540054

// shareOf returns a share of at least one observation. The interval is Wilson's (1927): unlike that of the
// normal approximation it stays between 0 and 1, and is not empty if the rate is 0 or 1.
func shareOf(count, of int) Share {
	n, rate := float64(of), float64(count)/float64(of)
	z2 := float64(normal975 * normal975)
	denominator := 1 + z2/n
	middle := (rate + z2/(2*n)) / denominator
	half := float64(normal975 / denominator * math.Sqrt(float64(rate*(1-rate))/n+z2/float64(4*n*n)))
	s := Share{Count: count, Of: of, Rate: rate, Low: max(0, middle-half), High: min(1, middle+half)}
	// Rounding does not move the ends that are exact.
	if count == 0 {
		s.Low = 0
	}
	if count == of {
		s.High = 1
	}
	return s
}

func scoreOf(brier, reference float64) Score {
	s := Score{Brier: brier, Reference: reference}
	if reference > 0 {
		s.Skill = known(1 - brier/reference)
	}
	return s
}

// tenths is the number of bins of a calibration curve. They are of equal width, so that the curves of
// several reports can be compared.
const tenths = 10

func riskOf(all []said) *Risk {
	if len(all) == 0 {
		return nil
	}
	type tally struct {
		sum       float64
		broken, n int
	}
	var total tally
	var bins [tenths]tally
	brier := 0.0
	for _, s := range all {
		bin := &bins[min(int(s.p*tenths), tenths-1)]
		outcome := 0.0
		if s.broken {
			outcome = 1
			total.broken++
			bin.broken++
		}
		brier += float64((s.p - outcome) * (s.p - outcome))
		total.sum += s.p
		bin.sum += s.p
		bin.n++
	}
	n := float64(len(all))
	broken := shareOf(total.broken, len(all))
	r := &Risk{Score: scoreOf(brier/n, float64(broken.Rate*(1-broken.Rate))), Predicted: total.sum / n, Broken: broken}
	for i, b := range bins {
		if b.n > 0 {
			r.Bins = append(r.Bins, Bin{
				Low: float64(i) / tenths, High: float64(i+1) / tenths,
				Predicted: b.sum / float64(b.n), Broken: shareOf(b.broken, b.n),
			})
		}
	}
	return r
}

func categoriesOf(samples []sample) *Categories {
	names := samples[0].forecast.categories
	c := &Categories{}
	counts, sums := make([]int, len(names)), make([]float64, len(names))
	unforeseen := map[string]int{}
	brier := 0.0
	for _, s := range samples {
		at := slices.Index(names, s.value.Category)
		if at >= 0 {
			counts[at]++
		} else {
			c.Unforeseen++
			unforeseen[s.value.Category]++
			// The forecast said 0.
			brier++
		}
		for i, p := range s.forecast.p {
			sums[i] += p
			d := p
			if i == at {
				d = p - 1
			}
			brier += float64(d * d)
		}
	}
	n := float64(len(samples))
	var rates []float64
	for i, name := range names {
		c.Shares = append(c.Shares, CategoryShare{Category: name, Predicted: sums[i] / n, Observed: shareOf(counts[i], len(samples))})
		rates = append(rates, float64(counts[i])/n)
	}
	for _, count := range unforeseen {
		rates = append(rates, float64(count)/n)
	}
	// The order of a map must not show in the last digit.
	slices.Sort(rates)
	reference := 0.0
	for _, rate := range rates {
		reference += float64(rate * (1 - rate))
	}
	c.Score = scoreOf(brier/n, reference)
	return c
}
