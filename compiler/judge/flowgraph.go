package judge

// flowGraph says which facts of a run depend on which. A vertex is the value of a
// port, whether a node runs, or what an edge brings or decides. Its size is linear
// in the nodes, ports and edges of the plan.
type flowGraph struct {
	arcs []flowArc
	// next[starts[v]:starts[v+1]] are the successors of v, once closed.
	starts []int32
	next   []int32
	count  int32
}

type flowArc struct{ from, to int32 }

func (g *flowGraph) vertex() int32 {
	g.count++
	return g.count - 1
}

func (g *flowGraph) arc(from, to int32) { g.arcs = append(g.arcs, flowArc{from, to}) }

// close sorts the arcs by source, stably.
func (g *flowGraph) close() {
	g.starts = make([]int32, g.count+1)
	for _, a := range g.arcs {
		g.starts[a.from+1]++
	}
	for v := range g.count {
		g.starts[v+1] += g.starts[v]
	}
	g.next = make([]int32, len(g.arcs))
	at := append([]int32(nil), g.starts...)
	for _, a := range g.arcs {
		g.next[at[a.from]] = a.to
		at[a.from]++
	}
	g.arcs = nil
}

// reach returns for every vertex its predecessor on a shortest path from a source:
// itself for a source, -1 for a vertex that no source reaches.
func (g *flowGraph) reach(sources []int32) []int32 {
	came := make([]int32, g.count)
	for v := range came {
		came[v] = -1
	}
	queue := make([]int32, 0, len(sources))
	for _, v := range sources {
		if came[v] < 0 {
			came[v] = v
			queue = append(queue, v)
		}
	}
	for head := 0; head < len(queue); head++ {
		v := queue[head]
		for _, to := range g.next[g.starts[v]:g.starts[v+1]] {
			if came[to] < 0 {
				came[to] = v
				queue = append(queue, to)
			}
		}
	}
	return came
}
