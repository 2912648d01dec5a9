package draw

import "slices"

// maxBends bounds the bends of edges. A plan that needs more gets long edges that are
// straight from their labels on.
const maxBends = 20_000

// sweeps is the number of passes, down and up, that improve the order within layers.
const sweeps = 8

// Edge is an arrow between two nodes, by their indexes.
type Edge struct{ From, To int }

// Slot is a place in a layer: a node, or a bend of an edge (Node -1). Nodes
// are in the even layers. Every edge has a bend in the odd layer below its
// source, as wide as its label, so that labels do not lie over each other.
type Slot struct {
	Node  int
	Layer int
	// Width is that of the slot, X its middle.
	Width, X float64
	// up and down are the slots that edges lead to, in the layers next to it.
	up, down []int
}

// Wire is the way of an edge.
type Wire struct {
	Edge
	// Through are the bends, from the source to the target.
	Through []int
	// Back is set if the wire goes up the layers, in a loop: it has no bends.
	Back bool
}

// Layout is a layered drawing (after Sugiyama): longest-path layers, bends for
// long edges, barycentres for the order within a layer.
type Layout struct {
	// Slots holds the nodes by their indexes, then the bends.
	Slots []Slot
	// Layers lists the slots of each layer, from left to right.
	Layers [][]int
	// Wires has one for each edge, in their order.
	Wires []Wire
}

// Layered places nodes of the given widths; labels are the widths of the edges' labels, and
// gap is left between the slots of a layer. The node sink, from which no edge may
// lead, is alone at the bottom; -1 is none.
func Layered(edges []Edge, widths, labels []float64, sink int, gap float64) *Layout {
	l := &Layout{Slots: make([]Slot, len(widths)), Wires: make([]Wire, len(edges))}
	for i := range l.Slots {
		l.Slots[i] = Slot{Node: i, Width: widths[i]}
	}
	for i := range edges {
		l.Wires[i].Edge = edges[i]
	}
	l.rank(sink)
	l.bend(labels)
	l.sort()
	l.place(gap)
	return l
}

// rank assigns every node its layer: the next even one below the deepest of its
// sources. It marks the wires that close a cycle.
func (l *Layout) rank(sink int) {
	out := make([][]int, len(l.Slots))
	for i, w := range l.Wires {
		out[w.From] = append(out[w.From], i)
	}
	const unseen, open, done = 0, 1, 2
	state := make([]int, len(l.Slots))
	var order []int
	for root := range l.Slots {
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
			w := &l.Wires[out[f.node][f.next]]
			f.next++
			switch state[w.To] {
			case open:
				w.Back = true
			case unseen:
				state[w.To] = open
				stack = append(stack, frame{w.To, 0})
			}
		}
	}
	slices.Reverse(order)
	deepest := 0
	for _, n := range order {
		for _, at := range out[n] {
			if w := l.Wires[at]; !w.Back {
				l.Slots[w.To].Layer = max(l.Slots[w.To].Layer, l.Slots[n].Layer+2)
			}
		}
		deepest = max(deepest, l.Slots[n].Layer)
	}
	if sink >= 0 {
		for i := range l.Slots {
			if i != sink && l.Slots[i].Layer == deepest {
				deepest += 2
				break
			}
		}
		l.Slots[sink].Layer = deepest
	}
	l.Layers = make([][]int, deepest+1)
	for i := range l.Slots {
		l.Layers[l.Slots[i].Layer] = append(l.Layers[l.Slots[i].Layer], i)
	}
}

// bend routes edges through a slot in each layer between their ends.
func (l *Layout) bend(labels []float64) {
	need := 0
	for _, w := range l.Wires {
		if !w.Back {
			need += max(0, l.Slots[w.To].Layer-l.Slots[w.From].Layer-1)
		}
	}
	for i := range l.Wires {
		w := &l.Wires[i]
		if w.Back {
			continue
		}
		at := w.From
		first := l.Slots[w.From].Layer + 1
		for layer := first; layer < l.Slots[w.To].Layer && (layer == first || need <= maxBends); layer++ {
			width := 8.0
			if layer == first {
				width = max(width, labels[i])
			}
			n := len(l.Slots)
			l.Slots = append(l.Slots, Slot{Node: -1, Layer: layer, Width: width})
			l.Layers[layer] = append(l.Layers[layer], n)
			w.Through = append(w.Through, n)
			l.link(at, n)
			at = n
		}
		l.link(at, w.To)
	}
}

func (l *Layout) link(above, below int) {
	l.Slots[above].down = append(l.Slots[above].down, below)
	l.Slots[below].up = append(l.Slots[below].up, above)
}

// sort orders each layer by the mean position of its neighbours above, then below.
func (l *Layout) sort() {
	place := make([]float64, len(l.Slots))
	number := func(layer []int) {
		for i, s := range layer {
			place[s] = float64(i)
		}
	}
	for _, layer := range l.Layers {
		number(layer)
	}
	mean := make([]float64, len(l.Slots))
	arrange := func(layer []int, next func(*Slot) []int) {
		for _, s := range layer {
			mean[s] = place[s]
			if near := next(&l.Slots[s]); len(near) > 0 {
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
		for _, layer := range l.Layers {
			arrange(layer, func(s *Slot) []int { return s.up })
		}
		for i := len(l.Layers) - 1; i >= 0; i-- {
			arrange(l.Layers[i], func(s *Slot) []int { return s.down })
		}
	}
}

// place sets the x of the middle of every slot: layers are centred, then slots
// move towards their neighbours as far as those beside them let them.
func (l *Layout) place(gap float64) {
	for _, layer := range l.Layers {
		total := 0.0
		for _, s := range layer {
			total += l.Slots[s].Width + gap
		}
		x := -total / 2
		for _, s := range layer {
			l.Slots[s].X = x + l.Slots[s].Width/2
			x += l.Slots[s].Width + gap
		}
	}
	pull := func(layer []int, next func(*Slot) []int) {
		for at, i := range layer {
			s := &l.Slots[i]
			near := next(s)
			if len(near) == 0 {
				continue
			}
			want := 0.0
			for _, n := range near {
				want += l.Slots[n].X
			}
			want /= float64(len(near))
			if at > 0 {
				left := &l.Slots[layer[at-1]]
				want = max(want, left.X+(left.Width+s.Width)/2+gap)
			}
			if at+1 < len(layer) {
				right := &l.Slots[layer[at+1]]
				want = min(want, right.X-(right.Width+s.Width)/2-gap)
			}
			s.X = want
		}
	}
	for range sweeps {
		for _, layer := range l.Layers {
			pull(layer, func(s *Slot) []int { return s.up })
		}
		for i := len(l.Layers) - 1; i >= 0; i-- {
			pull(l.Layers[i], func(s *Slot) []int { return s.down })
		}
	}
}
