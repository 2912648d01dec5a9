package fit

import (
	"slices"
	"strings"

	"chimera.ai/engine/guardian/causal"
)

// graph is the graph of a model; its nodes are indexes of the model's variables.
type graph struct {
	names             []string
	index             map[string]int
	parents, children [][]int
}

// graphOf returns the graph of a model without the edges that cut reports. Edges from what is no variable are
// left out.
func graphOf(m *causal.Model, cut func(from, to string) bool) *graph {
	g := &graph{index: map[string]int{}}
	for i := range m.Variables {
		g.names = append(g.names, m.Variables[i].Name)
		g.index[m.Variables[i].Name] = i
	}
	g.parents, g.children = make([][]int, len(g.names)), make([][]int, len(g.names))
	for i := range m.Variables {
		for _, name := range m.Variables[i].Parents {
			p, ok := g.index[name]
			if !ok || cut != nil && cut(name, g.names[i]) {
				continue
			}
			g.parents[i] = append(g.parents[i], p)
			g.children[p] = append(g.children[p], i)
		}
	}
	return g
}

// set returns which nodes have one of the names.
func (g *graph) set(names ...string) []bool {
	in := make([]bool, len(g.names))
	for _, name := range names {
		if i, ok := g.index[name]; ok {
			in[i] = true
		}
	}
	return in
}

// list returns the names of a set's nodes, sorted.
func (g *graph) list(in []bool) []string {
	var names []string
	for i, ok := range in {
		if ok {
			names = append(names, g.names[i])
		}
	}
	slices.Sort(names)
	return names
}

// reach returns the nodes that edges lead to from a set, that set included.
func reach(edges [][]int, from []bool) []bool {
	in := slices.Clone(from)
	var queue []int
	for i, ok := range in {
		if ok {
			queue = append(queue, i)
		}
	}
	for len(queue) > 0 {
		v := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, w := range edges[v] {
			if !in[w] {
				in[w] = true
				queue = append(queue, w)
			}
		}
	}
	return in
}

func (g *graph) ancestors(of []bool) []bool   { return reach(g.parents, of) }
func (g *graph) descendants(of []bool) []bool { return reach(g.children, of) }

// open returns a path along which from and to depend on each other, given the values of a set, or "" if they are
// d-separated (Pearl; the search is that of Koller and Friedman, algorithm 3.1).
func (g *graph) open(from, to, given []bool) string {
	n := len(g.names)
	above := g.ancestors(given)
	// A state is a node and whether it was reached from a parent.
	const none = -1
	before := make([]int, 2*n)
	for i := range before {
		before[i] = none
	}
	var queue []int
	visit := func(node int, down bool, origin int) {
		state := 2 * node
		if down {
			state++
		}
		if before[state] == none {
			before[state] = origin
			queue = append(queue, state)
		}
	}
	for i, ok := range from {
		if ok {
			visit(i, false, 2*i)
		}
	}
	for len(queue) > 0 {
		state := queue[0]
		queue = queue[1:]
		v, down := state/2, state%2 == 1
		if to[v] {
			return g.path(before, state)
		}
		if !given[v] {
			for _, c := range g.children[v] {
				visit(c, true, state)
			}
		}
		if !down && !given[v] || down && above[v] {
			for _, p := range g.parents[v] {
				visit(p, false, state)
			}
		}
	}
	return ""
}

func (g *graph) path(before []int, state int) string {
	var steps []string
	for {
		steps = append(steps, g.names[state/2])
		if before[state] == state {
			break
		}
		if state%2 == 1 {
			steps = append(steps, " → ")
		} else {
			steps = append(steps, " ← ")
		}
		state = before[state]
	}
	slices.Reverse(steps)
	return strings.Join(steps, "")
}
