package plan

import "slices"

// index caches what can be derived from nodes and edges.
type index struct {
	built    bool
	in, out  [][]int
	valueAt  []int
	outputAt []int
	heldAt   []int
}

// Index derives the adjacency of the plan. [Decode] calls it. Code that builds a
// Plan by hand must call it once before sharing the plan between goroutines.
func (p *Plan) Index() {
	if p.index.built {
		return
	}
	x := index{
		built:    true,
		in:       make([][]int, len(p.Nodes)),
		out:      make([][]int, len(p.Nodes)),
		valueAt:  make([]int, len(p.Edges)),
		outputAt: make([]int, len(p.Edges)),
		heldAt:   make([]int, len(p.Edges)),
	}
	normal := make([]int, len(p.Nodes))
	failed := make([]int, len(p.Nodes))
	for i := range p.Edges {
		e := &p.Edges[i]
		x.in[e.To] = append(x.in[e.To], i)
		x.out[e.From] = append(x.out[e.From], i)
		x.valueAt[i] = slices.Index(p.Nodes[e.From].OutPorts, e.FromPort)
		x.outputAt[i] = -1
		if e.ReadsOutput {
			x.outputAt[i] = slices.Index(p.Nodes[e.From].OutPorts, WholePort)
		}
		if e.Type == Error {
			x.heldAt[i] = failed[e.From]
			failed[e.From]++
		} else {
			x.heldAt[i] = normal[e.From]
			normal[e.From]++
		}
	}
	p.index = x
}

// In lists the edges into node i, in plan order. The caller must not change it.
func (p *Plan) In(i int) []int { return p.index.in[i] }

// Out lists the edges out of node i, in plan order. The caller must not change it.
func (p *Plan) Out(i int) []int { return p.index.out[i] }

// ValueAt is the index of edge i's port in its source's OutPorts, or -1 if the edge
// carries no value.
func (p *Plan) ValueAt(i int) int { return p.index.valueAt[i] }

// OutputAt is the place of "$" in the OutPorts of edge i's source where the
// edge's transform reads the whole output, else -1.
func (p *Plan) OutputAt(i int) int { return p.index.outputAt[i] }

// HeldAt is the place of edge i among its source's outgoing edges of its sort:
// error edges (contract.RouteResult) or all others (contract.Outcome).
func (p *Plan) HeldAt(i int) int { return p.index.heldAt[i] }
