package fit

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// longley are the data of Longley (1967), an ill-conditioned problem of the Statistical Reference Datasets of NIST
// (www.itl.nist.gov/div898/strd/lls/data/Longley.shtml).
var longley = [][]float64{
	{60323, 61122, 60171, 61187, 63221, 63639, 64989, 63761, 66019, 67857, 68169, 66513, 68655, 69564, 69331, 70551},
	{83.0, 88.5, 88.2, 89.5, 96.2, 98.1, 99.0, 100.0, 101.2, 104.6, 108.4, 110.8, 112.6, 114.2, 115.7, 116.9},
	{234289, 259426, 258054, 284599, 328975, 346999, 365385, 363112, 397469, 419180, 442769, 444546, 482704, 502601, 518173, 554894},
	{2356, 2325, 3682, 3351, 2099, 1932, 1870, 3578, 2904, 2822, 2936, 4681, 3813, 3931, 4806, 4007},
	{1590, 1456, 1616, 1650, 3099, 3594, 3547, 3350, 3048, 2857, 2798, 2637, 2552, 2514, 2572, 2827},
	{107608, 108632, 109773, 110929, 112075, 113270, 115094, 116219, 117388, 118734, 120445, 121950, 123366, 125368, 127852, 130081},
	{1947, 1948, 1949, 1950, 1951, 1952, 1953, 1954, 1955, 1956, 1957, 1958, 1959, 1960, 1961, 1962},
}

// TestLongley holds slopes, standard errors and residuals to the certified values.
func TestLongley(t *testing.T) {
	var columns []covariate
	for _, x := range longley[1:] {
		columns = append(columns, covariate{"x", x})
	}
	s, err := leastSquares(columns, longley[0])
	require.NoError(t, err)
	require.InEpsilon(t, 836424.055505915, s.rss, 1e-9)
	want := []float64{15.0618722713733, -0.0358191792925910, -2.02022980381683, -1.03322686717359, -0.0511041056535807, 1829.15146461355}
	sd := []float64{84.9149257747669, 0.0334910077722432, 0.488399681651699, 0.214274163161675, 0.226073200069370, 455.478499142212}
	for i := range want {
		require.InEpsilon(t, want[i], s.slopes[i], 1e-8)
		require.InEpsilon(t, sd[i], math.Sqrt(s.rss/9*s.inverse[i][i]), 1e-8)
	}
}

func TestCollinear(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	a, b, c, d := make([]float64, 50), make([]float64, 50), make([]float64, 50), make([]float64, 50)
	for i := range a {
		a[i], b[i], d[i] = r.NormFloat64(), 1e6*r.NormFloat64(), r.NormFloat64()
		c[i] = 2*a[i] - 1e-6*b[i] + 5
	}
	_, err := leastSquares([]covariate{{"a", a}, {"b", b}, {"c", c}, {"d", d}}, d)
	require.ErrorContains(t, err, "collinear")
	for _, name := range []string{"a", "b", "c"} {
		require.ErrorContains(t, err, name)
	}
	require.NotContains(t, err.Error(), "d is collinear")
	_, err = leastSquares([]covariate{{"a", a}, {"one", constant(7, 50)}}, d)
	require.EqualError(t, err, "one has the same value in all rows")
	_, err = leastSquares([]covariate{{"a", a}, {"tenth", constant(0.1, 50)}}, d)
	require.EqualError(t, err, "tenth has the same value in all rows")
}

func constant(x float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = x
	}
	return out
}
