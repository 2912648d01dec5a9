package audit

import (
	"cmp"
	"fmt"
	"slices"

	"chimera.ai/engine/ledger"
)

// losses records the missing bodies, and what the log says about them.
type losses struct {
	of map[ledger.Class]*lost
}

// lost are those of a class.
type lost struct {
	n int64
	// stated is how many bodies acts of pruning have removed, at most n.
	stated int64
	// open are those that no act explains yet, and first is the earliest
	// instant at which one of them was stated, in milliseconds.
	open  []loss
	first int64
	// looked counts how often one of them was looked at.
	looked int64
}

// maxLooked bounds how often missing bodies of a class are looked at: those under legal hold stay
// open, and acts could be as many.
const maxLooked = 1 << 30

// loss is a missing body.
type loss struct {
	index, at int64
	chain     string
	// held: it was under legal hold when bodies of its age were pruned.
	held bool
}

func newLosses() losses { return losses{map[ledger.Class]*lost{}} }

// lose counts a missing body. chain is the name that the reader keeps.
func (l losses) lose(index int64, e *ledger.Entry, chain string) {
	c := l.of[e.Class]
	if c == nil {
		c = new(lost)
		l.of[e.Class] = c
	}
	at := e.At.Time().UnixMilli()
	if len(c.open) == 0 || at < c.first {
		c.first = at
	}
	c.n++
	c.open = append(c.open, loss{index: index, at: at, chain: chain})
}

// act handles an act of pruning, whose entry has that index. It explains bodies of
// entries before it in the log that were stated before its instant and were not
// under legal hold; nothing else could be pruned.
func (l losses) act(index int64, p ledger.PrunedData, held map[string]bool) {
	c := l.of[p.Class]
	if c == nil || p.Count <= 0 {
		return
	}
	// At most as many as there can be, so that sums of foreign numbers do not
	// overflow.
	c.stated += min(int64(p.Count), c.n-min(c.stated, c.n))
	before := p.Before.Time().UnixMilli()
	if c.first >= before || c.looked > maxLooked {
		return
	}
	c.looked += int64(len(c.open))
	kept := c.open[:0]
	for _, x := range c.open {
		if x.index < index && x.at < before {
			if !held[x.chain] {
				continue
			}
			x.held = true
		}
		if len(kept) == 0 || x.at < c.first {
			c.first = x.at
		}
		kept = append(kept, x)
	}
	c.open = kept
}

// unexplained is a missing body that the log does not explain.
type unexplained struct {
	// index is its entry's, -1 where it is about none in particular.
	index int64
	says  string
}

// unexplained returns the losses that the acts of pruning do not explain: bodies
// that none of them can have removed, and more than they have removed.
func (l losses) unexplained() (out []unexplained) {
	for class, c := range l.of {
		if class == ledger.Permanent {
			continue // said of each
		}
		if len(c.open) > 0 {
			x := c.open[0]
			why := "the log does not say that they were pruned"
			if x.held {
				why = "it was under legal hold when others were pruned"
			}
			out = append(out, unexplained{x.index, fmt.Sprintf("%s missing, first that of an entry of %s: %s", ofClass(len(c.open), class), x.chain, why)})
		} else if c.stated < c.n {
			out = append(out, unexplained{-1, fmt.Sprintf("%s missing, and the log says that %s pruned", ofClass(c.n, class), count(c.stated, "was", "were"))})
		}
	}
	slices.SortFunc(out, func(a, b unexplained) int { return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.says, b.says)) })
	return out
}

// ofClass begins a sentence about bodies of a class.
func ofClass[N int | int64](n N, class ledger.Class) string {
	return count(n, "body of class "+string(class)+" is", "bodies of class "+string(class)+" are")
}
