package audit

import (
	"fmt"
	"slices"

	"chimera.ai/engine/ledger"
)

// losses are the bodies that are not there, by class.
type losses struct {
	n map[ledger.Class]int64
	// last is when the latest of them was stated.
	last map[ledger.Class]ledger.Time
}

func newLosses() losses {
	return losses{map[ledger.Class]int64{}, map[ledger.Class]ledger.Time{}}
}

// add counts a body that is not there.
func (l losses) add(e *ledger.Entry) {
	l.n[e.Class]++
	if l.last[e.Class].Time().Before(e.At.Time()) {
		l.last[e.Class] = e.At
	}
}

// unexplained says of which losses the acts of pruning do not tell: bodies are
// missing that are younger than what was pruned, or more than were pruned.
func (l losses) unexplained(pruned []ledger.PrunedData) []string {
	var out []string
	for _, class := range []ledger.Class{ledger.Operational, ledger.Evidence, ledger.Financial} {
		n := l.n[class]
		if n == 0 {
			continue
		}
		stated, reached := int64(0), false
		for _, p := range pruned {
			if p.Class != class || p.Count < 0 {
				continue
			}
			// As many as there can be: no sum of what strangers state overflows.
			stated = min(stated+min(int64(p.Count), n), n)
			reached = reached || p.Before.Time().After(l.last[class].Time())
		}
		switch {
		case !reached:
			out = append(out, fmt.Sprintf("bodies of class %s are missing, one of %s among them, and the log does not say that they were pruned", class, l.last[class]))
		case stated < n:
			out = append(out, fmt.Sprintf("%d bodies of class %s are missing, and the log says that %d were pruned", n, class, stated))
		}
	}
	return slices.Clip(out)
}
