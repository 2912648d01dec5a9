package graph

import "slices"

// maxBends bounds the bends of edges. A plan that needs more gets long edges that are
// straight from their labels on.
const maxBends = 20_000

// sweeps is the number of passes, down and up, that improve the order within layers.
const sweeps = 8

// slot is a place in a layer: a node, or a bend of an edge (node -1). Nodes
// are in the even layers. Every edge has a bend in the odd layer below its
// source, as wide as its label, so that labels do not lie over each other.
type slot struct {
	node int
	// up and down are the slots that edges lead to, in the layers next to it.
	up, down []int
	layer    int
	width    float64
	x        float64
}

// wire combines the lines between two nodes that are drawn as one: those of one kind, in
// the same direction, under the same condition.
type wire struct {
	from, to int
	lines    []int
	// through are the bends, from the source to the target.
	through []int
	// back is set if the wire goes up the layers, in a loop.
	back bool
}

// layout is a layered drawing (after Sugiyama): longest-path layers, bends for
// long edges, barycentres for the order within a layer.
type layout struct {
	slots  []slot
	layers [][]int
	wires  []wire
}

// newLayout places nodes of the given widths; label gives the width of a wire's
// label.
func newLayout(lines []line, widths []float64, label func(lines []int) float64, gap float64) *layout {
	l := &layout{slots: make([]slot, len(widths))}
	for i := range l.slots {
		l.slots[i] = slot{node: i, width: widths[i]}
	}
	l.join(lines)
	l.rank()
	l.bend(label)
	l.sort()
	l.place(gap)
	return l
}

// join combines the lines of one kind between two nodes into a wire.
func (l *layout) join(lines []line) {
	type key struct {
		from, to  int
		style     *style
		condition string
	}
	at := map[key]int{}
	for i := range lines {
		e := &lines[i]
		k := key{e.from, e.to, e.style, e.condition}
		w, ok := at[k]
		if !ok {
			w = len(l.wires)
			at[k] = w
			l.wires = append(l.wires, wire{from: e.from, to: e.to})
		}
		l.wires[w].lines = append(l.wires[w].lines, i)
	}
}

// rank assigns every node its layer: the next even one below the deepest of its
// sources. It marks the wires that close a cycle.
func (l *layout) rank() {
	out := make([][]int, len(l.slots))
	for i, w := range l.wires {
		out[w.from] = append(out[w.from], i)
	}
	const unseen, open, done = 0, 1, 2
	state := make([]int, len(l.slots))
	var order []int
	for root := range l.slots {
		if state[root] != unseen {
			continue
		}
		type frame struct{ node, next int }
		stack := []frame{{root, 0}}
		state[root] = open
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if f.next == len(out[f.node]) {
				state[f.node] = done
				order = append(order, f.node)
				stack = stack[:len(stack)-1]
				continue
			}
			w := &l.wires[out[f.node][f.next]]
			f.next++
			switch state[w.to] {
			case open:
				w.back = true
			case unseen:
				state[w.to] = open
				stack = append(stack, frame{w.to, 0})
			}
		}
	}
	slices.Reverse(order)
	deepest := 0
	for _, n := range order {
		for _, at := range out[n] {
			if w := l.wires[at]; !w.back {
				l.slots[w.to].layer = max(l.slots[w.to].layer, l.slots[n].layer+2)
			}
		}
		deepest = max(deepest, l.slots[n].layer)
	}
	// The output is at the bottom, wherever its last source is.
	last := len(l.slots) - 1
	for i := range last {
		if l.slots[i].layer == deepest {
			deepest += 2
			break
		}
	}
	l.slots[last].layer = deepest
	l.layers = make([][]int, max(l.slots[last].layer, deepest)+1)
	for i := range l.slots {
		l.layers[l.slots[i].layer] = append(l.layers[l.slots[i].layer], i)
	}
}

// bend routes edges through a slot in each layer between their ends.
func (l *layout) bend(label func(lines []int) float64) {
	need := 0
	for _, w := range l.wires {
		if !w.back {
			need += max(0, l.slots[w.to].layer-l.slots[w.from].layer-1)
		}
	}
	for i := range l.wires {
		w := &l.wires[i]
		if w.back {
			continue
		}
		at := w.from
		first := l.slots[w.from].layer + 1
		for layer := first; layer < l.slots[w.to].layer && (layer == first || need <= maxBends); layer++ {
			width := 8.0
			if layer == first {
				width = max(width, label(w.lines))
			}
			n := len(l.slots)
			l.slots = append(l.slots, slot{node: -1, layer: layer, width: width})
			l.layers[layer] = append(l.layers[layer], n)
			w.through = append(w.through, n)
			l.link(at, n)
			at = n
		}
		l.link(at, w.to)
	}
}

func (l *layout) link(above, below int) {
	l.slots[above].down = append(l.slots[above].down, below)
	l.slots[below].up = append(l.slots[below].up, above)
}

// sort orders each layer by the mean position of its neighbours above, then below.
func (l *layout) sort() {
	place := make([]float64, len(l.slots))
	number := func(layer []int) {
		for i, s := range layer {
			place[s] = float64(i)
		}
	}
	for _, layer := range l.layers {
		number(layer)
	}
	mean := make([]float64, len(l.slots))
	arrange := func(layer []int, next func(*slot) []int) {
		for _, s := range layer {
			mean[s] = place[s]
			if near := next(&l.slots[s]); len(near) > 0 {
				sum := 0.0
				for _, n := range near {
					sum += place[n]
				}
				mean[s] = sum / float64(len(near))
			}
		}
		slices.SortStableFunc(layer, func(a, b int) int {
			switch {
			case mean[a] < mean[b]:
				return -1
			case mean[a] > mean[b]:
				return 1
			}
			return 0
		})
		number(layer)
	}
	for range sweeps {
		for _, layer := range l.layers {
			arrange(layer, func(s *slot) []int { return s.up })
		}
		for i := len(l.layers) - 1; i >= 0; i-- {
			arrange(l.layers[i], func(s *slot) []int { return s.down })
		}
	}
}

// place sets the x of the middle of every slot: layers are centred, then slots
// move towards their neighbours as far as those beside them let them.
func (l *layout) place(gap float64) {
	for _, layer := range l.layers {
		total := 0.0
		for _, s := range layer {
			total += l.slots[s].width + gap
		}
		x := -total / 2
		for _, s := range layer {
			l.slots[s].x = x + l.slots[s].width/2
			x += l.slots[s].width + gap
		}
	}
	pull := func(layer []int, next func(*slot) []int) {
		for at, i := range layer {
			s := &l.slots[i]
			near := next(s)
			if len(near) == 0 {
				continue
			}
			want := 0.0
			for _, n := range near {
				want += l.slots[n].x
			}
			want /= float64(len(near))
			if at > 0 {
				left := &l.slots[layer[at-1]]
				want = max(want, left.x+(left.width+s.width)/2+gap)
			}
			if at+1 < len(layer) {
				right := &l.slots[layer[at+1]]
				want = min(want, right.x-(right.width+s.width)/2-gap)
			}
			s.x = want
		}
	}
	for range sweeps {
		for _, layer := range l.layers {
			pull(layer, func(s *slot) []int { return s.up })
		}
		for i := len(l.layers) - 1; i >= 0; i-- {
			pull(l.layers[i], func(s *slot) []int { return s.down })
		}
	}
}
