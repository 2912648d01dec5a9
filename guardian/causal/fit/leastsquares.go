package fit

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// covariate is a column of numbers by which something is explained.
type covariate struct {
	name   string
	values []float64
}

// solution is a least-squares solution. What it says of the intercept follows from the means.
type solution struct {
	slopes []float64
	// inverse is (X'X)⁻¹ of the centered columns: times the variance of the residuals, the covariance of the slopes.
	inverse [][]float64
	// rss is the sum of the squared residuals.
	rss float64
}

// Columns that point in the same direction up to this share of their length are taken as collinear: the
// coefficients would have lost half of their digits.
const collinear = 1e-8

// leastSquares explains y by columns and an intercept: Householder QR of the centered columns of length 1, with
// column pivoting (Golub and Van Loan, algorithm 5.4.1).
func leastSquares(columns []covariate, y []float64) (*solution, error) {
	k := len(columns)
	a, scale, pivot := make([][]float64, k), make([]float64, k), make([]int, k)
	for j, c := range columns {
		pivot[j] = j
		a[j], _ = center(c.values)
		scale[j] = norm(a[j])
		if scale[j] <= zero(c.values) {
			return nil, fmt.Errorf("%s has the same value in all rows", c.name)
		}
		for i := range a[j] {
			a[j][i] /= scale[j]
		}
	}
	b, _ := center(y)
	r := make([][]float64, k) // by column of a
	for j := range k {
		r[j] = make([]float64, k)
	}
	for step := range k {
		best := step
		for j := step + 1; j < k; j++ {
			if norm(a[j][step:]) > norm(a[best][step:]) {
				best = j
			}
		}
		if norm(a[best][step:]) <= collinear {
			return nil, dependent(columns, pivot, r, step)
		}
		a[step], a[best] = a[best], a[step]
		r[step], r[best] = r[best], r[step]
		pivot[step], pivot[best] = pivot[best], pivot[step]
		v, length := reflector(a[step][step:])
		for j := step; j < k; j++ {
			reflect(v, a[j][step:])
			r[j][step] = a[j][step]
		}
		r[step][step] = length
		reflect(v, b[step:])
	}
	s := &solution{slopes: make([]float64, k), inverse: make([][]float64, k)}
	inverse := invert(r)
	for i := range k {
		s.inverse[pivot[i]] = make([]float64, k)
		for j := range k {
			// R⁻¹ is upper triangular: R⁻¹ R⁻ᵀ is the inverse of R'R.
			total := 0.0
			for l := max(i, j); l < k; l++ {
				total += float64(inverse[i][l] * inverse[j][l])
			}
			s.inverse[pivot[i]][pivot[j]] = total / scale[pivot[i]] / scale[pivot[j]]
		}
		total := 0.0
		for l := i; l < k; l++ {
			total += float64(inverse[i][l] * b[l])
		}
		s.slopes[pivot[i]] = total / scale[pivot[i]]
	}
	for _, e := range b[k:] {
		s.rss += float64(e * e)
	}
	return s, nil
}

// reflector returns the vector of the reflection that turns x into a multiple of the first axis, and that multiple.
func reflector(x []float64) (v []float64, length float64) {
	length = -math.Copysign(norm(x), x[0])
	v = slices.Clone(x)
	v[0] -= length
	n := norm(v)
	for i := range v {
		v[i] /= n
	}
	return v, length
}

// reflect reflects x: x - 2v(v·x).
func reflect(v, x []float64) {
	dot := 0.0
	for i := range v {
		dot += float64(v[i] * x[i])
	}
	for i := range v {
		x[i] -= float64(2 * dot * v[i])
	}
}

// invert inverts an upper triangular matrix, given by its columns, and returns the rows of the inverse.
func invert(r [][]float64) [][]float64 {
	k := len(r)
	inverse := make([][]float64, k)
	for i := range inverse {
		inverse[i] = make([]float64, k)
	}
	for j := range k {
		inverse[j][j] = 1 / r[j][j]
		for i := j - 1; i >= 0; i-- {
			total := 0.0
			for l := i + 1; l <= j; l++ {
				total += float64(r[l][i] * inverse[l][j])
			}
			inverse[i][j] = -total / r[i][i]
		}
	}
	return inverse
}

// dependent names a column that follows from others, which have been taken before it.
func dependent(columns []covariate, pivot []int, r [][]float64, step int) error {
	at := step
	for j := step + 1; j < len(pivot); j++ {
		if columns[pivot[j]].name < columns[pivot[at]].name {
			at = j
		}
	}
	weights := make([]float64, step)
	var others []string
	for i := step - 1; i >= 0; i-- {
		total := r[at][i]
		for l := i + 1; l < step; l++ {
			total -= float64(r[l][i] * weights[l])
		}
		weights[i] = total / r[i][i]
		if math.Abs(weights[i]) > 1e-6 {
			others = append(others, columns[pivot[i]].name)
		}
	}
	slices.Sort(others)
	return fmt.Errorf("%s is collinear with %s: the data do not tell their effects apart", columns[pivot[at]].name, strings.Join(others, ", "))
}

func mean(x []float64) float64 {
	total := 0.0
	for _, v := range x {
		total += v
	}
	return total / float64(len(x))
}

// center subtracts the mean.
func center(x []float64) ([]float64, float64) {
	m := mean(x)
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v - m
	}
	return out, m
}

func norm(x []float64) float64 {
	total := 0.0
	for _, v := range x {
		total += float64(v * v)
	}
	return math.Sqrt(total)
}

// zero returns below what length differences within x are errors of rounding.
func zero(x []float64) float64 {
	return float64(1e-12 * largest(x) * math.Sqrt(float64(len(x))))
}

// largest returns the greatest absolute value.
func largest(x []float64) float64 {
	most := 0.0
	for _, v := range x {
		most = max(most, math.Abs(v))
	}
	return most
}
