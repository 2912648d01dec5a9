package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBoundsOfAMedian(t *testing.T) {
	for _, c := range []struct {
		n         int
		low, high float64
	}{
		{5, math.Inf(-1), math.Inf(1)}, // 2 × 0.5⁵ = 6.3 %
		{6, 1, 6},                      // 2 × 0.5⁶ = 3.1 %
		{9, 2, 8},                      // the tables of the sign test
		{15, 4, 12},
		{20, 6, 15},
		{25, 8, 18},
		{50, 18, 33},
	} {
		var f figures
		for i := range c.n {
			f = append(f, float64(c.n-i)) // in no order
		}
		low, high := f.bounds()
		require.Equal(t, []float64{c.low, c.high}, []float64{low, high}, "%d figures", c.n)
	}
}

func TestVerdict(t *testing.T) {
	require.Equal(t, "held", verdict(0.95, 1.1, 0.95))
	require.Equal(t, "not held", verdict(0.8, 0.94, 0.95))
	require.Contains(t, verdict(0.94, 0.95, 0.95), "not shown")
	low, high := figures{1, 1, 1, 1, 1}.bounds()
	require.Contains(t, verdict(low, high, 0.95), "not shown", "five rounds show nothing")
}

func TestQuartiles(t *testing.T) {
	require.Equal(t, "3 [2–4]", figures{5, 1, 4, 2, 3}.quartiles("%.0f"))
	require.Equal(t, "7 [7–7]", figures{7}.quartiles("%.0f"))
}
