package syntax

import "strings"

// Nearest returns the candidate of which name is most probably a misspelling, or "":
// the one with the smallest edit distance, where swapped neighbours count as
// one edit. At most a third of the name's letters may differ, and at least one
// may, so that the suggestion is not a guess. Case decides only between equally
// near candidates, and the order of the candidates decides the rest. If none is
// that near, Nearest returns the one that begins with the name, as timeout_ms does
// with timeout. Names of more than 64 bytes have no suggestion.
func Nearest(name string, candidates []string) string {
	const long = 64
	if name == "" || len(name) > long {
		return ""
	}
	lower := []rune(strings.ToLower(name))
	limit := max(1, len(lower)/3)
	best, bestFold, bestExact := "", limit+1, 0
	for _, c := range candidates {
		if c == name || c == "" || len(c) > long {
			continue
		}
		fold := distance(lower, []rune(strings.ToLower(c)), min(bestFold, limit))
		if fold > limit || fold > bestFold || fold >= len(lower) {
			continue
		}
		exact := distance([]rune(name), []rune(c), len(name)+len(c))
		if fold < bestFold || exact < bestExact {
			best, bestFold, bestExact = c, fold, exact
		}
	}
	if best == "" {
		return continued(string(lower), candidates)
	}
	return best
}

// Slip reports whether name is at most two edits from meant, counted as [Nearest]
// counts them.
func Slip(name, meant string) bool {
	return distance([]rune(strings.ToLower(name)), []rune(strings.ToLower(meant)), 2) <= 2
}

// continued is the only candidate that begins with name, and goes on with
// another word.
func continued(name string, candidates []string) string {
	const short = 4
	if len(name) < short {
		return ""
	}
	only := ""
	for _, c := range candidates {
		rest, ok := strings.CutPrefix(strings.ToLower(c), name)
		if !ok || rest == "" || !strings.ContainsAny(rest[:1], "_-./") {
			continue
		}
		if only != "" {
			return ""
		}
		only = c
	}
	return only
}

// distance is the number of insertions, deletions, substitutions and swaps of
// neighbours between a and b (optimal string alignment), or more than limit if
// it is more than that.
func distance(a, b []rune, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := range a {
		row[0] = i + 1
		least := row[0]
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(above[j+1]+1, row[j]+1, above[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
			least = min(least, row[j+1])
		}
		if least > limit && i > 0 {
			return limit + 1
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
