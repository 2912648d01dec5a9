package lint

import "slices"

// arc is an edge of a digraph. edge is the index of the plan's edge, or -1 in other
// graphs.
type arc struct{ to, edge int }

// digraph lists the arcs that leave each node.
type digraph struct{ out [][]arc }

func newDigraph(doc *Document) *digraph {
	g := &digraph{out: make([][]arc, len(doc.Nodes))}
	for i, out := range doc.Out {
		g.out[i] = make([]arc, 0, len(out))
		for _, at := range out {
			g.out[i] = append(g.out[i], arc{doc.Edges[at].To, at})
		}
	}
	return g
}

// components lists the strongly connected components that hold a cycle, each
// sorted, ordered by their smallest node. Only arcs whose edge is kept count.
func (g *digraph) components(keep func(edge int) bool) [][]int {
	all := make([]int, len(g.out))
	for i := range all {
		all[i] = i
	}
	return g.componentsWithin(all, keep)
}

// componentsWithin is components for the subgraph that nodes span. It is Tarjan's
// algorithm, without recursion.
func (g *digraph) componentsWithin(nodes []int, keep func(edge int) bool) [][]int {
	index := make(map[int]int, len(nodes))
	for _, n := range nodes {
		index[n] = 0
	}
	low := make(map[int]int, len(nodes))
	onStack := map[int]bool{}
	var stack []int
	var found [][]int
	next := 1
	type frame struct{ node, arc int }
	for _, root := range nodes {
		if index[root] != 0 {
			continue
		}
		frames := []frame{{root, 0}}
		index[root], low[root] = next, next
		next++
		stack = append(stack, root)
		onStack[root] = true
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
			if f.arc < len(g.out[f.node]) {
				a := g.out[f.node][f.arc]
				f.arc++
				at, within := index[a.to]
				switch {
				case !within || !keep(a.edge):
				case at == 0:
					index[a.to], low[a.to] = next, next
					next++
					stack = append(stack, a.to)
					onStack[a.to] = true
					frames = append(frames, frame{a.to, 0})
				case onStack[a.to]:
					low[f.node] = min(low[f.node], at)
				}
				continue
			}
			n := f.node
			frames = frames[:len(frames)-1]
			if len(frames) > 0 {
				p := frames[len(frames)-1].node
				low[p] = min(low[p], low[n])
			}
			if low[n] != index[n] {
				continue
			}
			cut := len(stack) - 1
			for stack[cut] != n {
				cut--
			}
			comp := slices.Clone(stack[cut:])
			stack = stack[:cut]
			for _, x := range comp {
				delete(onStack, x)
			}
			if len(comp) > 1 || slices.ContainsFunc(g.out[n], func(a arc) bool { return a.to == n && keep(a.edge) }) {
				slices.Sort(comp)
				found = append(found, comp)
			}
		}
	}
	slices.SortFunc(found, func(a, b []int) int { return a[0] - b[0] })
	return found
}

// round returns a shortest cycle through the first node of a component, and the
// edge that closes it.
func (g *digraph) round(comp []int) (path []int, closing int) {
	start := comp[0]
	type step struct{ from, edge int }
	inside := make(map[int]bool, len(comp))
	for _, n := range comp {
		inside[n] = true
	}
	came := map[int]step{}
	queue := []int{start}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for _, a := range g.out[n] {
			if a.to == start {
				for at := n; ; at = came[at].from {
					path = append(path, at)
					if at == start {
						break
					}
				}
				slices.Reverse(path)
				return path, a.edge
			}
			if _, seen := came[a.to]; !seen && inside[a.to] {
				came[a.to] = step{n, a.edge}
				queue = append(queue, a.to)
			}
		}
	}
	return []int{start}, -1
}

// topological orders all nodes so that kept arcs point forward, and otherwise by
// their order in the file. It returns nil if there is no such order.
func (g *digraph) topological(keep func(edge int) bool) []int {
	waits := make([]int, len(g.out))
	for _, arcs := range g.out {
		for _, a := range arcs {
			if keep(a.edge) {
				waits[a.to]++
			}
		}
	}
	order := make([]int, 0, len(g.out))
	for i, w := range waits {
		if w == 0 {
			order = append(order, i)
		}
	}
	for at := 0; at < len(order); at++ {
		for _, a := range g.out[order[at]] {
			if !keep(a.edge) {
				continue
			}
			if waits[a.to]--; waits[a.to] == 0 {
				order = append(order, a.to)
			}
		}
	}
	if len(order) < len(g.out) {
		return nil
	}
	return order
}

// graph returns the nodes and arcs of the document. Its edges must be connected and
// its commit policies resolved.
func (d *Document) graph() *digraph {
	if d.arcs == nil {
		d.arcs = newDigraph(d)
	}
	return d.arcs
}
