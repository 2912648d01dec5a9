package audit

import (
	"fmt"
	"math"
	"time"

	"chimera.ai/engine/ledger"
)

// clock has the times of all entries, by their places. The store's clock gives them, and
// whoever may add an entry could give it any: so what one entry says of the time counts only
// as far as its neighbours bear it out.
type clock struct {
	// pages have the seconds of entries since 1970, and far those of the first that do not fit.
	pages [][]uint32
	far   map[int64]int64
	n     int64
	// latest has, for each page, the latest second that is borne out.
	latest []int64
}

const (
	// maxFar bounds the times that are kept although they do not fit; further ones count as the
	// first or the last that do.
	maxFar = 100
	// pageSize is the number of entries of a page.
	pageSize = 1 << 12
	// neighbours is how many entries after one bear out its time.
	neighbours = 8
)

// add adds the time of the next entry.
func (c *clock) add(at ledger.Time) {
	if c.n%pageSize == 0 {
		c.pages = append(c.pages, make([]uint32, 0, pageSize))
	}
	page := &c.pages[len(c.pages)-1]
	seconds := at.Time().Unix()
	fits := min(max(seconds, 0), math.MaxUint32)
	*page = append(*page, uint32(fits))
	if fits != seconds && len(c.far) < maxFar {
		if c.far == nil {
			c.far = map[int64]int64{}
		}
		c.far[c.n] = seconds
	}
	c.n++
}

func (c *clock) at(i int64) int64 {
	s := c.pages[i/pageSize][i%pageSize]
	if s == 0 || s == math.MaxUint32 {
		if far, ok := c.far[i]; ok {
			return far
		}
	}
	return int64(s)
}

// The slack between two entries, in seconds.
const slackSeconds = int64(slack / time.Second)

// later reports whether one second is more than slack after another.
func later(a, b int64) bool { return a-b > slackSeconds }

// ahead reports whether the time of an entry is far after those of most entries that follow it, of
// which there must be two: those were added later, and say that it was not so late.
func (c *clock) ahead(i int64) bool {
	against, all := c.following(i)
	return against > 1 && 2*against > all
}

// following counts the neighbours after an entry, and those of which its time is far after.
func (c *clock) following(i int64) (against, all int64) {
	last := min(c.n-1, i+neighbours)
	for j := i + 1; j <= last; j++ {
		if later(c.at(i), c.at(j)) {
			against++
		}
	}
	return against, last - i
}

// alone reports whether an entry is ahead of all that follow it, and none before it has such a time
// either. Two entries that agree may be right, where one stands against two.
func (c *clock) alone(i int64) bool {
	if against, all := c.following(i); against < 2 || against < all {
		return false
	}
	for j := max(0, i-neighbours); j < i; j++ {
		if !later(c.at(i), c.at(j)) {
			return false
		}
	}
	return true
}

// overtaken reports whether the last two entries before one, but for those that are alone, are far
// after it.
func (c *clock) overtaken(i int64) bool {
	n := 0
	for j := i - 1; j >= max(0, i-neighbours) && n < 2; j-- {
		if !later(c.at(j), c.at(i)) {
			return false
		}
		if !c.alone(j) {
			n++
		}
	}
	return n > 0
}

// behind reports whether the time of an entry is far before those of most entries before it, as
// far as these are borne out.
func (c *clock) behind(i int64) bool {
	from := max(0, i-neighbours)
	early := false
	for j := from; j < i && !early; j++ {
		early = later(c.at(j), c.at(i))
	}
	if !early {
		return false
	}
	against, all := 0, 0
	for j := from; j < i; j++ {
		if c.ahead(j) {
			continue
		}
		if all++; later(c.at(j), c.at(i)) {
			against++
		}
	}
	return 2*against > all
}

// reach bounds how far back an entry is looked for whose time is borne out.
const reach = 1024

// stated returns since when an entry counts as stated. One whose time is far from those around it
// counts since the last entry before it whose time is not, or has its own time if there is none.
func (c *clock) stated(i int64, own ledger.Time) ledger.Time {
	if !c.ahead(i) && !c.behind(i) {
		return own
	}
	for j := i - 1; j >= max(0, i-reach); j-- {
		if !c.ahead(j) && !c.behind(j) {
			return seconds(c.at(j))
		}
	}
	return own
}

func seconds(s int64) ledger.Time { return ledger.At(time.Unix(s, 0)) }

// passes returns the place of the first entry after another that shows that an instant had passed
// when it was added, or the greatest number if none does.
func (c *clock) passes(after int64, end time.Time) int64 {
	if c.latest == nil {
		c.latest = make([]int64, len(c.pages))
		for i := range c.latest {
			c.latest[i] = math.MinInt64
		}
		for i := range c.n {
			if p := i / pageSize; c.at(i) > c.latest[p] && !c.alone(i) {
				c.latest[p] = c.at(i)
			}
		}
	}
	for i := after + 1; i < c.n; i++ {
		if p := i / pageSize; c.latest[p] <= end.Unix() {
			i = (p+1)*pageSize - 1 // nothing in this page
		} else if c.at(i) > end.Unix() && !c.alone(i) {
			return i
		}
	}
	return math.MaxInt64
}

// strays warns of entries whose times are far from those of their neighbours.
func (v *verifier) strays() {
	for _, x := range []struct {
		is   func(int64) bool
		says string
	}{
		{v.clock.ahead, "an entry is of %s, more than %s after those that follow it%s: a clock was set, or it has a time of its own"},
		{v.clock.overtaken, "an entry is of %s, more than %s before those that it follows%s: a clock was set, or it was made later than it says"},
	} {
		n, first := 0, int64(-1)
		for i := range v.clock.n {
			if !x.is(i) {
				continue
			}
			if n++; n == 1 {
				first = i
			}
		}
		if n == 0 {
			continue
		}
		more := ""
		if n > 1 {
			more = fmt.Sprintf(", as are %d more", n-1)
		}
		v.warn(BadTime, first, x.says, seconds(v.clock.at(first)), slack, more)
	}
}
