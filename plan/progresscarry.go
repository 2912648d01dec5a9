package plan

import "chimera.ai/engine/contract"

// Carry writes the progress into the state that an execution of a run passes to the
// next.
func (s *Progress) Carry(c *contract.Carried) {
	c.Nodes, c.Edges = make([]byte, len(s.nodes)), make([]byte, len(s.edges))
	for i, state := range s.nodes {
		c.Nodes[i] = byte(state)
	}
	for i, state := range s.edges {
		c.Edges[i] = byte(state)
	}
	c.Queue, c.Unhandled = s.queue, s.unhandled
}

// Restore restores a carried progress. Nothing may have run yet. It reports whether
// the progress fits the plan.
func (s *Progress) Restore(c *contract.Carried) bool {
	if len(c.Nodes) != len(s.nodes) || len(c.Edges) != len(s.edges) {
		return false
	}
	for i, b := range c.Nodes {
		if b > byte(NodeSkipped) {
			return false
		}
		s.nodes[i] = NodeState(b)
		if s.nodes[i].Settled() && s.plan.Nodes[i].Undoes == 0 {
			s.settled++
		}
	}
	for i, b := range c.Edges {
		if b > byte(EdgeSkipped) {
			return false
		}
		if s.edges[i] = EdgeState(b); s.edges[i] != EdgeOpen {
			s.open[s.plan.Edges[i].To]--
		}
	}
	for _, list := range [][]int{c.Queue, c.Unhandled} {
		for _, i := range list {
			if i < 0 || i >= len(s.nodes) {
				return false
			}
		}
	}
	s.queue, s.unhandled = c.Queue, c.Unhandled
	return true
}
