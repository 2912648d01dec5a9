package workflows

import (
	"slices"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// edgeState is what is known of an edge.
type edgeState byte

const (
	edgeOpen edgeState = iota
	edgeDelivered
	edgeSkipped
)

// nodeState is what is known of a node, in the order of a node's life.
type nodeState byte

const (
	nodePending nodeState = iota
	nodeReady             // it runs as soon as there is room
	nodeRunning
	nodeSucceeded
	nodeFailed
	nodeSkipped
)

// progress resolves the edges and nodes of one plan by the rules of the plan
// language. It is pure: it knows nothing of activities or time.
//
// A node is decided once all its incoming edges have resolved. It runs if every
// required edge was delivered, every port that its input schema requires has a
// value, and, where it has edges at all, at least one was delivered. Otherwise
// it is skipped, and all its edges with it.
type progress struct {
	plan  *plan.Plan
	nodes []nodeState
	edges []edgeState
	// open counts a node's unresolved incoming edges.
	open []int32
	// queue holds decided nodes that run, in the order of their decision.
	queue []int
	// settled counts nodes that will not change any more.
	settled int
	// log lists nodes in the order in which they settled, until it is taken.
	log []int
	// unhandled lists failed nodes whose error edges were delivered, while no
	// target of them runs yet.
	unhandled []int
	// orphans lists failed nodes whose failure nobody handles.
	orphans []int
}

func newProgress(p *plan.Plan) *progress {
	s := &progress{
		plan:  p,
		nodes: make([]nodeState, len(p.Nodes)),
		edges: make([]edgeState, len(p.Edges)),
		open:  make([]int32, len(p.Nodes)),
	}
	for i := range p.Edges {
		s.open[p.Edges[i].To]++
	}
	return s
}

// begin settles $input and decides the nodes that have no edges. The node
// $output is decided last, by [progress.assembles].
func (s *progress) begin(input contract.Outcome) {
	s.succeed(0, input)
	for i := 1; i < len(s.nodes)-1; i++ {
		if s.nodes[i] == nodePending && s.open[i] == 0 {
			s.decide(i)
		}
	}
}

// next takes the next node that is to run, or reports false.
func (s *progress) next() (int, bool) {
	if len(s.queue) == 0 {
		return 0, false
	}
	i := s.queue[0]
	s.queue = s.queue[1:]
	s.nodes[i] = nodeRunning
	return i, true
}

// succeed settles node i with its outcome. A missing entry of Held counts as
// not delivered.
func (s *progress) succeed(i int, out contract.Outcome) {
	s.settle(i, nodeSucceeded)
	for _, e := range s.plan.Out(i) {
		at := s.plan.HeldAt(e)
		held := s.plan.Edges[e].Type != plan.Error && at < len(out.Held) && out.Held[at]
		s.resolve(e, held)
	}
	s.review()
}

// fail settles node i as failed; held says which of its error edges are delivered.
func (s *progress) fail(i int, held []bool) {
	s.settle(i, nodeFailed)
	// The failure is open before its edges resolve, because resolving them may
	// decide a target at once.
	s.unhandled = append(s.unhandled, i)
	for _, e := range s.plan.Out(i) {
		at := s.plan.HeldAt(e)
		edge := &s.plan.Edges[e]
		s.resolve(e, edge.Type == plan.Error && edge.FromPort == plan.ErrorPort && at < len(held) && held[at])
	}
	s.review()
}

func (s *progress) settle(i int, state nodeState) {
	s.nodes[i] = state
	s.settled++
	s.log = append(s.log, i)
}

// resolve settles edge e. Skipping spreads by a work list, not by recursion:
// a plan may be a chain of a hundred thousand nodes.
func (s *progress) resolve(e int, delivered bool) {
	s.mark(e, delivered)
	work := []int{s.plan.Edges[e].To}
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		if s.open[i] > 0 || s.nodes[i] != nodePending || i == len(s.nodes)-1 {
			continue
		}
		if s.runs(i) {
			s.enqueue(i)
			continue
		}
		s.settle(i, nodeSkipped)
		for _, out := range s.plan.Out(i) {
			s.mark(out, false)
			work = append(work, s.plan.Edges[out].To)
		}
	}
}

func (s *progress) mark(e int, delivered bool) {
	s.edges[e] = edgeSkipped
	if delivered {
		s.edges[e] = edgeDelivered
	}
	s.open[s.plan.Edges[e].To]--
}

func (s *progress) decide(i int) {
	if s.runs(i) {
		s.enqueue(i)
		return
	}
	s.settle(i, nodeSkipped)
	for _, e := range s.plan.Out(i) {
		s.resolve(e, false)
	}
}

func (s *progress) enqueue(i int) {
	s.nodes[i] = nodeReady
	s.queue = append(s.queue, i)
}

// runs applies the run rule to a node whose incoming edges have resolved.
func (s *progress) runs(i int) bool {
	in := s.plan.In(i)
	delivered := len(in) == 0
	for _, e := range in {
		if s.edges[e] == edgeDelivered {
			delivered = true
		} else if s.plan.Edges[e].Required {
			return false
		}
	}
	return delivered && s.filled(i)
}

// filled reports whether every required port of node i has a value.
func (s *progress) filled(i int) bool {
	n := &s.plan.Nodes[i]
	if len(n.RequiredPorts) == 0 {
		return true
	}
	filled := map[string]bool{}
	for _, w := range n.With {
		filled[w.Port] = true
	}
	for _, e := range s.plan.In(i) {
		if edge := &s.plan.Edges[e]; s.edges[e] == edgeDelivered && edge.Carries() {
			filled[edge.ToPort] = true
		}
	}
	return filled[plan.WholePort] || !slices.ContainsFunc(n.RequiredPorts, func(port string) bool { return !filled[port] })
}

// review moves failures that nobody can handle any more to orphans, and forgets
// those that are handled: a target of one of their delivered error edges runs.
// $output counts as a target that runs, since it is assembled at the end.
func (s *progress) review() {
	still := s.unhandled[:0]
	for _, i := range s.unhandled {
		handled, waiting := false, false
		for _, e := range s.plan.Out(i) {
			if s.plan.Edges[e].Type != plan.Error || s.edges[e] != edgeDelivered {
				continue
			}
			to := s.plan.Edges[e].To
			switch s.nodes[to] {
			case nodePending:
				if to == len(s.nodes)-1 {
					handled = true
				}
				waiting = true
			case nodeReady, nodeRunning, nodeSucceeded, nodeFailed:
				handled = true
			}
		}
		switch {
		case handled:
		case waiting:
			still = append(still, i)
		default:
			s.orphans = append(s.orphans, i)
		}
	}
	s.unhandled = still
}

// done reports whether every node but $output has settled.
func (s *progress) done() bool { return s.settled == len(s.nodes)-1 }

// assembles decides $output: whether the plan's output can be assembled.
func (s *progress) assembles() bool {
	last := len(s.nodes) - 1
	for _, e := range s.plan.In(last) {
		if s.plan.Edges[e].Required && s.edges[e] != edgeDelivered {
			return false
		}
	}
	return s.filled(last)
}

// deliveries lists the delivered edges that carry a value into node i, in plan
// order, the first one for each port only.
func (s *progress) deliveries(i int) []int {
	var list []int
	filled := map[string]bool{}
	for _, e := range s.plan.In(i) {
		edge := &s.plan.Edges[e]
		if s.edges[e] != edgeDelivered || !edge.Carries() || filled[edge.ToPort] {
			continue
		}
		filled[edge.ToPort] = true
		list = append(list, e)
	}
	return list
}
