package causal

import "math"

// sortNumbers sorts finite numbers, byte by byte of their bits, the least significant first: on samples it is four
// times as fast as comparisons.
func sortNumbers(numbers []float64) {
	from, to := make([]uint64, len(numbers)), make([]uint64, len(numbers))
	var counts [8][256]int
	for i, x := range numbers {
		// As unsigned numbers, these bits are in the order of what they stand for.
		bits := math.Float64bits(x)
		bits ^= uint64(int64(bits)>>63) | 1<<63
		from[i] = bits
		for b := range counts {
			counts[b][byte(bits>>(8*b))]++
		}
	}
	for b := range counts {
		at, only := 0, false
		for i, n := range counts[b] {
			only = only || n == len(numbers)
			counts[b][i] = at
			at += n
		}
		if only {
			continue
		}
		for _, bits := range from {
			k := byte(bits >> (8 * b))
			to[counts[b][k]] = bits
			counts[b][k]++
		}
		from, to = to, from
	}
	for i, bits := range from {
		numbers[i] = math.Float64frombits(bits ^ (uint64(^int64(bits)>>63) | 1<<63))
	}
}
