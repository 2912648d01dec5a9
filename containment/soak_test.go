package containment_test

import "flag"

// soak is set by make soak: the tests draw many more cases, or take all of them.
var soak = flag.Bool("soak", false, "draw many more cases")

// firstSeed draws other cases.
var firstSeed = flag.Uint64("seed", 0, "which random cases are drawn")

// times is how many cases a test draws: few, or all of them in a soak.
func times(few, all uint64) uint64 {
	if *soak {
		return all
	}
	return few
}
