package causal

import (
	"math"

	"chimera.ai/engine/internal/elementary"
)

// upper returns the probability that a standard normal variable is greater than z. Its relative error is
// below 1e-12 down to where doubles end (z = 37).
//
// It is erfc(z/√2)/2, by the rational approximations of W. J. Cody, "Rational Chebyshev approximations for
// the error function", Mathematics of Computation 23 (1969), with the coefficients of CALERF (SPECFUN,
// netlib).
func upper(z float64) float64 {
	x := z / math.Sqrt2
	y := math.Abs(x)
	var tail float64 // erfc(y)
	switch {
	case y <= 0.46875:
		square := float64(y * y)
		return 0.5 - float64(0.5*float64(x*(poly(square, codyA[:])/poly(square, codyB[:]))))
	case y <= 4:
		tail = float64(square(y) * (poly(y, codyC[:]) / poly(y, codyD[:])))
	case y < 27.5:
		inverse := 1 / float64(y*y)
		tail = float64(inverse * (poly(inverse, codyP[:]) / poly(inverse, codyQ[:])))
		tail = float64(square(y) * ((1/math.SqrtPi - tail) / y))
	}
	if x < 0 {
		return 1 - float64(tail/2)
	}
	return tail / 2
}

// square returns exp(-y²), with y split so that its square is not rounded before it is raised.
func square(y float64) float64 {
	whole := float64(math.Floor(y*16) / 16)
	rest := float64((y - whole) * (y + whole))
	return float64(elementary.Exp(-float64(whole*whole)) * elementary.Exp(-rest))
}

// poly evaluates a polynomial, the highest coefficient first.
func poly(x float64, of []float64) float64 {
	sum := of[0]
	for _, c := range of[1:] {
		sum = float64(sum*x) + c
	}
	return sum
}

var (
	codyA = [...]float64{1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3}
	codyB = [...]float64{1, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3}
	codyC = [...]float64{2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e1, 2.98635138197400131e2,
		8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3}
	codyD = [...]float64{1, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
		3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3}
	codyP = [...]float64{1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1, 1.60837851487422766e-2, 6.58749161529837803e-4}
	codyQ = [...]float64{1, 2.56852019228982242e0, 1.87295284992346047e0, 5.27905102951428412e-1, 6.05183413124413191e-2, 2.33520497626869185e-3}
)

// quantile returns the number below which a standard normal variable is with probability p, between 0 and 1.
// Its relative error is about 1e-16: M. J. Wichura, "Algorithm AS 241: The Percentage Points of the
// Normal Distribution", Applied Statistics 37 (1988), PPND16.
func quantile(p float64) float64 {
	if q := p - 0.5; math.Abs(q) <= central {
		return middle(q)
	}
	return outer(p)
}

// central is how far from the median the first approximation holds.
const central = 0.425

func middle(q float64) float64 {
	r := 0.180625 - float64(q*q)
	return float64(q * (poly7(r, &wichuraA) / poly7(r, &wichuraB)))
}

func outer(p float64) float64 {
	r := p
	if p > 0.5 {
		r = 1 - p
	}
	r = math.Sqrt(-elementary.Log(r))
	if r <= 5 {
		r -= 1.6
		r = poly7(r, &wichuraC) / poly7(r, &wichuraD)
	} else {
		r -= 5
		r = poly7(r, &wichuraE) / poly7(r, &wichuraF)
	}
	if p < 0.5 {
		return -r
	}
	return r
}

// quantiles sets each p to its quantile. The few in the tails are calculated after all others, and nothing before that
// depends on which they are, so that the processor need not guess.
func quantiles(p []float64) {
	var tails [blockSize]struct {
		i int
		p float64
	}
	limit := math.Float64bits(central)
	for len(p) > 0 {
		n, count := min(len(p), blockSize), 0
		for i, x := range p[:n] {
			q := x - 0.5
			tails[count].i, tails[count].p = i, x
			count += int((limit - math.Float64bits(math.Abs(q))) >> 63)
			p[i] = middle(q)
		}
		for _, t := range tails[:count] {
			p[t.i] = outer(t.p)
		}
		p = p[n:]
	}
}

// poly7 evaluates a polynomial of degree 7, the highest coefficient first.
func poly7(x float64, c *[8]float64) float64 {
	a := float64(float64(float64(c[0]*x)+c[1])*x) + c[2]
	b := float64(float64(float64(a*x)+c[3])*x) + c[4]
	d := float64(float64(float64(b*x)+c[5])*x) + c[6]
	return float64(d*x) + c[7]
}

var (
	wichuraA = [8]float64{2.5090809287301226727e+3, 3.3430575583588128105e+4, 6.7265770927008700853e+4, 4.5921953931549871457e+4,
		1.3731693765509461125e+4, 1.9715909503065514427e+3, 1.3314166789178437745e+2, 3.3871328727963666080e0}
	wichuraB = [8]float64{5.2264952788528545610e+3, 2.8729085735721942674e+4, 3.9307895800092710610e+4, 2.1213794301586595867e+4,
		5.3941960214247511077e+3, 6.8718700749205790830e+2, 4.2313330701600911252e+1, 1}
	wichuraC = [8]float64{7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
		3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0}
	wichuraD = [8]float64{1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
		6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1}
	wichuraE = [8]float64{2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
		2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0}
	wichuraF = [8]float64{2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
		1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1}
)
