package fit

import (
	"slices"

	"chimera.ai/engine/guardian/causal"
)

// backDoor returns the measured variables by which the effect of setting all causes together on a variable can be
// adjusted for confounding: the smallest set, and of equal ones the first by names. If there is
// none, it returns a path that no set blocks.
//
// No member of the set descends from a cause, and the set d-separates the causes from the variable in the graph
// without the edges that leave the causes. Then the second and third rules of Pearl's calculus give
//
//	P(to | do(from)) = Σ P(to | from, set) · P(set)
func backDoor(m *causal.Model, from []string, to string, measured []string) (set []string, path string) {
	g := graphOf(m, func(parent, _ string) bool { return slices.Contains(from, parent) })
	causes, target := g.set(from...), g.set(to)
	// Of two nodes that any set separates, some of their ancestors do (Tian, Paz and Pearl 1998).
	near := g.ancestors(g.set(append([]string{to}, from...)...))
	after := graphOf(m, nil).descendants(causes)
	free := g.set(measured...)
	for i := range free {
		free[i] = free[i] && near[i] && !after[i] && !target[i]
	}
	if path = g.open(causes, target, free); path != "" {
		return nil, path
	}
	n := newNet(g, near, causes, target, free)
	size := n.cut()
	for _, name := range g.list(free) {
		if size == 0 {
			break
		}
		// A node belongs to a smallest set if the rest needs one fewer without it.
		n.gone[g.index[name]] = true
		if n.cut() == size-1 {
			set = append(set, name)
			size--
		} else {
			n.gone[g.index[name]] = false
		}
	}
	return set, ""
}

// net is the moral graph of some nodes, in which the nodes that separate two sets are counted by a flow: each
// free node carries one unit (Menger's theorem).
type net struct {
	links        [][]int
	source, sink []bool
	// free are the nodes that may separate, gone those that were taken out.
	free, gone []bool
}

func newNet(g *graph, near, source, sink, free []bool) *net {
	n := &net{links: make([][]int, len(g.names)), source: source, sink: sink, free: free, gone: make([]bool, len(g.names))}
	linked := make([]bool, len(g.names)*len(g.names))
	link := func(a, b int) {
		if a != b && !linked[a*len(g.names)+b] {
			linked[a*len(g.names)+b], linked[b*len(g.names)+a] = true, true
			n.links[a], n.links[b] = append(n.links[a], b), append(n.links[b], a)
		}
	}
	for v, in := range near {
		if !in {
			continue
		}
		// The ancestors of a set have their parents in it.
		for i, p := range g.parents[v] {
			link(v, p)
			for _, q := range g.parents[v][:i] {
				link(p, q)
			}
		}
	}
	return n
}

// arc is a directed edge of a flow; the arc of index i^1 goes back.
type arc struct{ to, capacity int }

// cut returns how many free nodes separate source and sink: those that are not free never link the two alone.
func (n *net) cut() int {
	const unlimited = 1 << 30
	var arcs []arc
	// Node v is entered at 2v and left at 2v+1.
	out := make([][]int, 2*len(n.links))
	add := func(a, b, capacity int) {
		out[a] = append(out[a], len(arcs))
		out[b] = append(out[b], len(arcs)+1)
		arcs = append(arcs, arc{b, capacity}, arc{a, 0})
	}
	for v := range n.links {
		if n.gone[v] {
			continue
		}
		capacity := unlimited
		if n.free[v] {
			capacity = 1
		}
		add(2*v, 2*v+1, capacity)
		for _, w := range n.links[v] {
			if !n.gone[w] {
				add(2*v+1, 2*w, unlimited)
			}
		}
	}
	for flow := 0; ; flow++ {
		if !n.augment(arcs, out) {
			return flow
		}
	}
}

// augment sends one more unit along a shortest path.
func (n *net) augment(arcs []arc, out [][]int) bool {
	// by holds the arc by which a place was reached, plus 1.
	by, begin := make([]int, len(out)), make([]bool, len(out))
	var queue []int
	for v, ok := range n.source {
		if ok {
			begin[2*v+1] = true
			queue = append(queue, 2*v+1)
		}
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if n.sink[at/2] {
			for !begin[at] {
				i := by[at] - 1
				arcs[i].capacity--
				arcs[i^1].capacity++
				at = arcs[i^1].to
			}
			return true
		}
		for _, i := range out[at] {
			if to := arcs[i].to; arcs[i].capacity > 0 && by[to] == 0 && !begin[to] {
				by[to] = i + 1
				queue = append(queue, to)
			}
		}
	}
	return false
}
