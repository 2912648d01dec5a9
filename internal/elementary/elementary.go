// Package elementary is exp and log with the same bits on every machine: no step is left to the
// assembly versions of package math, and no product is fused with a sum. Both err by less than one
// unit in the last place.
package elementary

import "math"

// ln 2 in two parts. The first has 21 trailing zero bits, so that its product with an exponent is
// exact.
const (
	ln2High = 0x1.62e42feep-1
	ln2Low  = math.Ln2 - ln2High
)

// The bounds beyond which exp overflows, and is 0.
const (
	expMax = 709.782712893384
	expMin = -745.1332191019412
)

// taylor are the coefficients of exp, 1/n! from n = 2 on. For |r| <= ln(2)/2 what is left out is below
// 2^-57 of the result.
var taylor = [...]float64{
	1. / 2, 1. / 6, 1. / 24, 1. / 120, 1. / 720, 1. / 5040, 1. / 40320, 1. / 362880, 1. / 3628800, 1. / 39916800,
	1. / 479001600, 1. / 6227020800,
}

// Exp returns e to the power of x: infinity if that is too large, 0 if it is too small.
func Exp(x float64) float64 {
	switch {
	case math.IsNaN(x):
		return x
	case x > expMax:
		return math.Inf(1)
	case x < expMin:
		return 0
	}
	// x = k ln 2 + r
	k := math.Floor(float64(x*math.Log2E) + 0.5)
	r := (x - float64(k*ln2High)) - float64(k*ln2Low)
	sum := taylor[len(taylor)-1]
	for i := len(taylor) - 2; i >= 0; i-- {
		sum = float64(sum*r) + taylor[i]
	}
	sum = 1 + (r + float64(float64(r*r)*sum))
	return scale(sum, int(k))
}

// scale returns x times 2 to the power of k, rounded once, for x between 0.5 and 2 and k between -1100
// and 1100.
func scale(x float64, k int) float64 {
	switch {
	case k > 1000:
		return float64(x*power(k-100)) * power(100)
	case k < -1000:
		return float64(x*power(k+100)) * power(-100)
	}
	return x * power(k)
}

// power returns 2 to the power of k, for k between -1022 and 1023.
func power(k int) float64 { return math.Float64frombits(uint64(k+1023) << 52) }

// area are the coefficients of the inverse hyperbolic tangent, 1/(2n+1) from n = 1 on.
var area = [...]float64{1. / 3, 1. / 5, 1. / 7, 1. / 9, 1. / 11, 1. / 13, 1. / 15, 1. / 17, 1. / 19, 1. / 21, 1. / 23}

// Log returns the natural logarithm of x: minus infinity for 0, and NaN for what is less.
func Log(x float64) float64 {
	switch {
	case math.IsNaN(x) || x > math.MaxFloat64:
		return x
	case x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	}
	// x = 2^k m, for m between √½ and √2
	k := 0
	if x < 0x1p-1022 {
		x, k = x*0x1p54, -54
	}
	bits := math.Float64bits(x)
	k += int(bits>>52) - 1023
	m := math.Float64frombits(bits&(1<<52-1) | 1023<<52)
	if m > math.Sqrt2 {
		m, k = m/2, k+1
	}
	// log m = 2 artanh s = 2s + 2s³/3 + …, for s = f/(2+f); 2s is written f - s f, of which f is exact.
	f := m - 1
	s := f / (2 + f)
	z := float64(s * s)
	sum := area[len(area)-1]
	for i := len(area) - 2; i >= 0; i-- {
		sum = float64(sum*z) + area[i]
	}
	least := float64(s * (f - float64(2*float64(z*sum))))
	if k == 0 {
		return f - least
	}
	return float64(float64(k)*ln2High) + (f - (least - float64(float64(k)*ln2Low)))
}
