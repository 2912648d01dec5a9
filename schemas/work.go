package schemas

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
)

// bag counts how often each schema is visited with one value. It is sorted by
// schema.
type bag []entry

type entry struct {
	node  int
	times float64
}

// key returns a key that identifies the bag.
func (b bag) key() string {
	var sb strings.Builder
	for _, e := range b {
		var buf [2 * binary.MaxVarintLen64]byte
		b := binary.AppendUvarint(buf[:0], uint64(e.node))
		sb.Write(binary.AppendUvarint(b, math.Float64bits(e.times)))
	}
	return sb.String()
}

// bound is the most that a visit of any part of any value can cost, in units of work. If no
// small bound holds for the schema, known is false, and the work is computed for each
// value.
type bound struct {
	known               bool
	visit, member, text float64
	unique              float64
}

// total bounds the work for a value of a size.
func (b bound) total(sz size) float64 {
	// Each value but the root may have a name, which is visited as well.
	nodes, bytes := 2*float64(sz.nodes), 2*float64(sz.bytes)
	return (b.visit+b.member)*nodes + b.text*bytes + b.unique*uniqueWork(20, sz)*float64(max(sz.depth, 1))
}

// tally gathers how often schemas are visited.
type tally struct {
	g     *graph
	times []float64
	heap  []int
}

func (t *tally) push(n int, times float64) {
	if t.times[n] == 0 {
		t.heap = append(t.heap, n)
		for i := len(t.heap) - 1; i > 0; {
			up := (i - 1) / 2
			if t.heap[up] <= t.heap[i] {
				break
			}
			t.heap[up], t.heap[i] = t.heap[i], t.heap[up]
			i = up
		}
	}
	t.times[n] += times
}

func (t *tally) pop() (entry, bool) {
	if len(t.heap) == 0 {
		return entry{}, false
	}
	n := t.heap[0]
	last := len(t.heap) - 1
	t.heap[0] = t.heap[last]
	t.heap = t.heap[:last]
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < last; c++ {
			if t.heap[c] < t.heap[least] {
				least = c
			}
		}
		if least == i {
			break
		}
		t.heap[i], t.heap[least] = t.heap[least], t.heap[i]
		i = least
	}
	e := entry{n, t.times[n]}
	t.times[n] = 0
	return e, true
}

// take empties the tally into a bag.
func (t *tally) take() bag {
	b := make(bag, 0, len(t.heap))
	for {
		e, ok := t.pop()
		if !ok {
			return b
		}
		b = append(b, e)
	}
}

// close adds what the schemas of b apply to the same value, of kind k, and gives
// all visits with their work. Indexes only grow along edges, so one pass does.
func (t *tally) close(b bag, k kind) (visits bag, w bound) {
	for _, e := range b {
		t.push(e.node, e.times)
	}
	visits = make(bag, 0, len(b))
	for {
		e, ok := t.pop()
		if !ok {
			return visits, w
		}
		n := &t.g.nodes[e.node]
		w.visit += visitWork * e.times
		if n.kinds&k == 0 {
			continue
		}
		w.visit += (n.visit - visitWork) * e.times
		w.member += n.member * e.times
		w.text += n.text * e.times
		if n.unique {
			w.unique += e.times
		}
		visits = append(visits, e)
		for _, c := range n.inplace {
			t.push(c, e.times)
		}
	}
}

// member returns the visits of the member of that name.
func (t *tally) member(visits bag, name string) bag {
	for _, e := range visits {
		n := &t.g.nodes[e.node]
		if c, ok := n.props[name]; ok {
			t.push(c, e.times)
		} else {
			t.each(n.others, e.times)
		}
		t.each(n.matching, e.times)
	}
	return t.take()
}

// name returns the visits of a member's name.
func (t *tally) name(visits bag) bag {
	for _, e := range visits {
		t.each(t.g.nodes[e.node].names, e.times)
	}
	return t.take()
}

// item returns the visits of a list's member number i.
func (t *tally) item(visits bag, i int) bag {
	for _, e := range visits {
		n := &t.g.nodes[e.node]
		if i < len(n.prefix) {
			t.push(n.prefix[i], e.times)
		} else {
			t.each(n.rest, e.times)
		}
		t.each(n.all, e.times)
	}
	return t.take()
}

func (t *tally) each(nodes []int, times float64) {
	for _, c := range nodes {
		t.push(c, times)
	}
}

// explore looks for a bound that holds for each part of any value, by following all that
// a value can lead to. It gives up if that is too much.
func (g *graph) explore() bound {
	const most = 1 << 12
	steps := 64*len(g.nodes) + 4096
	t := &tally{g: g, times: make([]float64, len(g.nodes))}
	total := bound{known: true}
	seen := map[string]bool{}
	var queue []bag
	push := func(b bag) {
		if len(b) == 0 {
			return
		}
		if k := b.key(); !seen[k] {
			seen[k] = true
			queue = append(queue, b)
		}
	}
	push(bag{{g.root, 1}})
	for len(queue) > 0 {
		b := queue[0]
		queue = queue[1:]
		for _, k := range []kind{aScalar, aList, anObject} {
			visits, w := t.close(b, k)
			steps -= len(visits)
			total.visit = max(total.visit, w.visit)
			total.member = max(total.member, w.member)
			total.text = max(total.text, w.text)
			total.unique = max(total.unique, w.unique)
			if steps < 0 || w.visit > most*visitWork {
				return bound{}
			}
			switch k {
			case aList:
				longest := 0
				for _, e := range visits {
					longest = max(longest, len(g.nodes[e.node].prefix))
				}
				for i := 0; i <= longest && steps >= 0; i++ {
					steps -= len(visits) + 1
					push(t.item(visits, i))
				}
			case anObject:
				names := map[string]bool{}
				for _, e := range visits {
					for name := range g.nodes[e.node].props {
						names[name] = true
					}
				}
				for _, name := range slices.Sorted(maps.Keys(names)) {
					if steps -= len(visits) + 1; steps >= 0 {
						push(t.member(visits, name))
					}
				}
				for _, e := range visits {
					t.each(g.nodes[e.node].others, e.times)
					t.each(g.nodes[e.node].matching, e.times)
				}
				push(t.take())
				push(t.name(visits))
			}
		}
	}
	return total
}

// admit computes the work of validating v, and returns an error if it is too much.
func (g *graph) admit(v any, sz size) error {
	if g.bound.known && g.bound.total(sz) <= MaxWork {
		return nil
	}
	w := worker{tally: tally{g: g, times: make([]float64, len(g.nodes))}, left: MaxWork}
	if w.walk(v, bag{{g.root, 1}}); w.left < 0 {
		return tooLarge("validating this value against its schema is too much work")
	}
	return nil
}

// worker computes the work for one value.
type worker struct {
	tally
	left float64
}

// walk subtracts the work of v, visited by the schemas of b.
func (w *worker) walk(v any, b bag) {
	if w.left < 0 || len(b) == 0 {
		return
	}
	switch v := v.(type) {
	case []any:
		visits, c := w.close(b, aList)
		w.left -= c.visit + c.member*float64(len(v))
		if c.unique > 0 && w.left >= 0 {
			whole, _ := measure(v)
			w.left -= c.unique * uniqueWork(len(v), whole)
		}
		for i, e := range v {
			w.walk(e, w.item(visits, i))
		}
	case map[string]any:
		visits, c := w.close(b, anObject)
		w.left -= c.visit + c.member*float64(len(v))
		for name, e := range v {
			w.left -= c.text * float64(len(name))
			w.walk(name, w.name(visits))
			w.walk(e, w.member(visits, name))
		}
	case string:
		_, c := w.close(b, aScalar)
		w.left -= c.visit + c.text*float64(len(v))
	case json.Number:
		_, c := w.close(b, aScalar)
		weight, _ := checkNumber(string(v))
		w.left -= c.visit + c.text*float64(weight)
	default:
		_, c := w.close(b, aScalar)
		w.left -= c.visit
	}
}

// uniqueWork is the work of comparing the n members of a list with each other,
// given the size of the list: all pairs of short lists, hashes of longer ones.
func uniqueWork(n int, sz size) float64 {
	per := numberWork*float64(sz.nodes) + float64(sz.bytes)
	if n <= 20 {
		return per * 10
	}
	return per * 2
}
