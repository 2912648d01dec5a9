package plan

import (
	"slices"

	"chimera.ai/engine/contract"
)

// EdgeState is the state of an edge.
type EdgeState byte

// The states of an edge.
const (
	EdgeOpen EdgeState = iota
	EdgeDelivered
	EdgeSkipped
)

// NodeState is the state of a node, in the order of its life. The numbers are in
// the histories of runs that continue as new.
type NodeState byte

// The states of a node.
const (
	NodePending NodeState = iota
	NodeReady             // it runs as soon as there is room
	NodeRunning
	NodeSucceeded
	NodeFailed
	NodeSkipped
)

// Settled reports whether a node in this state will not change any longer.
func (s NodeState) Settled() bool { return s >= NodeSucceeded }

// Progress resolves the edges and nodes of one plan, by the rules of the plan
// language. It knows nothing about calls or time: its user states how each node has
// ended, and it says which nodes run next.
//
// A node is decided once all its incoming edges have resolved. It runs if every
// required edge was delivered, every port that its input schema requires has a
// value, and, if it has edges at all, at least one was delivered. Otherwise it is
// skipped, and all its edges with it. The node $output is assembled after all
// others, by a rule of its own ([Progress.Assembles]).
//
// Nodes that undo another ([Node.Undoes]) are no part of that: they stay pending, and count
// as settled, until [Progress.Undo] lets those of one node run.
type Progress struct {
	plan  *Plan
	nodes []NodeState
	edges []EdgeState
	// open counts a node's unresolved incoming edges.
	open []int32
	// queue holds decided nodes that run, in the order of their decision.
	queue []int
	// settled counts nodes that will not change any longer.
	settled int
	// log lists nodes in the order in which they settled, until they are taken.
	log []int
	// unhandled lists failed nodes whose error edges were delivered, while no
	// target of them runs yet.
	unhandled []int
	// orphans lists failed nodes whose failure is not handled, and broken the nodes whose
	// undoing has failed so.
	orphans, broken []int
}

// NewProgress returns the progress of a plan of which nothing has run.
func NewProgress(p *Plan) *Progress {
	s := &Progress{
		plan:  p,
		nodes: make([]NodeState, len(p.Nodes)),
		edges: make([]EdgeState, len(p.Edges)),
		open:  make([]int32, len(p.Nodes)),
	}
	for i := range p.Edges {
		s.open[p.Edges[i].To]++
	}
	for i := range p.Nodes {
		if p.Nodes[i].Undoes != 0 {
			s.settled++
		}
	}
	return s
}

// Begin settles $input with its outcome and decides the nodes that have no edges.
func (s *Progress) Begin(input contract.Outcome) {
	s.Succeed(0, input)
	for i := 1; i < s.last(); i++ {
		if s.nodes[i] == NodePending && s.open[i] == 0 {
			s.decide(i)
		}
	}
}

// Next takes the next node that is to run, or reports false. $output is not among
// them: see [Progress.Output].
func (s *Progress) Next() (int, bool) {
	if len(s.queue) == 0 {
		return 0, false
	}
	i := s.queue[0]
	s.queue = s.queue[1:]
	s.nodes[i] = NodeRunning
	return i, true
}

// Output takes $output to run, or reports false: once, when all else has settled.
func (s *Progress) Output() (int, bool) {
	i := s.last()
	if !s.Done() || s.nodes[i] != NodePending {
		return 0, false
	}
	s.nodes[i] = NodeRunning
	return i, true
}

// Succeed settles node i with its outcome. A missing entry of Held counts as
// not delivered.
func (s *Progress) Succeed(i int, out contract.Outcome) {
	if i == s.last() {
		s.nodes[i] = NodeSucceeded
		return
	}
	s.settle(i, NodeSucceeded)
	for _, e := range s.plan.Out(i) {
		if s.plan.Edges[e].FromPort == CompensatePort {
			continue
		}
		at := s.plan.HeldAt(e)
		held := s.plan.Edges[e].Type != Error && at < len(out.Held) && out.Held[at]
		s.resolve(e, held)
	}
	s.review()
}

// Fail settles node i as failed; held says which of its error edges hold, in the
// order of the plan. A missing entry counts as not delivered.
func (s *Progress) Fail(i int, held []bool) {
	if i == s.last() {
		s.nodes[i] = NodeFailed
		return
	}
	s.settle(i, NodeFailed)
	// The failure is open before its edges resolve, because resolving them may
	// decide a target at once.
	s.unhandled = append(s.unhandled, i)
	for _, e := range s.plan.Out(i) {
		at := s.plan.HeldAt(e)
		edge := &s.plan.Edges[e]
		if edge.FromPort == CompensatePort {
			continue
		}
		s.resolve(e, edge.Type == Error && edge.FromPort == ErrorPort && at < len(held) && held[at])
	}
	s.review()
}

func (s *Progress) settle(i int, state NodeState) {
	s.nodes[i] = state
	if s.plan.Nodes[i].Undoes == 0 {
		s.settled++
	}
	s.log = append(s.log, i)
}

// resolve settles edge e. Skipping spreads by a work list, not by recursion:
// a plan may be a chain of a hundred thousand nodes.
func (s *Progress) resolve(e int, delivered bool) {
	s.mark(e, delivered)
	work := []int{s.plan.Edges[e].To}
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		if s.open[i] > 0 || s.nodes[i] != NodePending || i == s.last() {
			continue
		}
		if s.runs(i) {
			s.enqueue(i)
			continue
		}
		s.settle(i, NodeSkipped)
		for _, out := range s.plan.Out(i) {
			if s.plan.Edges[out].FromPort == CompensatePort {
				continue
			}
			s.mark(out, false)
			work = append(work, s.plan.Edges[out].To)
		}
	}
}

func (s *Progress) mark(e int, delivered bool) {
	s.edges[e] = EdgeSkipped
	if delivered {
		s.edges[e] = EdgeDelivered
	}
	s.open[s.plan.Edges[e].To]--
}

func (s *Progress) decide(i int) {
	if s.runs(i) {
		s.enqueue(i)
		return
	}
	s.settle(i, NodeSkipped)
	for _, e := range s.plan.Out(i) {
		if s.plan.Edges[e].FromPort != CompensatePort {
			s.resolve(e, false)
		}
	}
}

func (s *Progress) enqueue(i int) {
	s.nodes[i] = NodeReady
	s.queue = append(s.queue, i)
}

// runs applies the run rule to a node whose incoming edges have resolved. One that another
// node's verify calls is no part of the run.
func (s *Progress) runs(i int) bool {
	if s.plan.Nodes[i].Called {
		return false
	}
	in := s.plan.In(i)
	delivered := len(in) == 0
	for _, e := range in {
		if s.edges[e] == EdgeDelivered {
			delivered = true
		} else if s.plan.Edges[e].Required {
			return false
		}
	}
	return delivered && s.filled(i)
}

// filled reports whether every required port of node i has a value.
func (s *Progress) filled(i int) bool {
	n := &s.plan.Nodes[i]
	if len(n.RequiredPorts) == 0 {
		return true
	}
	filled := map[string]bool{}
	for _, w := range n.With {
		filled[w.Port] = true
	}
	for _, e := range s.plan.In(i) {
		if edge := &s.plan.Edges[e]; s.edges[e] == EdgeDelivered && edge.Carries() {
			filled[edge.ToPort] = true
		}
	}
	return filled[WholePort] || !slices.ContainsFunc(n.RequiredPorts, func(port string) bool { return !filled[port] })
}

// review moves failures that can no longer be handled to orphans, and drops those
// that are handled: a target of one of their delivered error edges runs. $output
// counts as a target that runs, since it is assembled at the end.
func (s *Progress) review() {
	still := s.unhandled[:0]
	for _, i := range s.unhandled {
		handled, waiting := false, false
		for _, e := range s.plan.Out(i) {
			if s.plan.Edges[e].FromPort != ErrorPort || s.edges[e] != EdgeDelivered {
				continue
			}
			to := s.plan.Edges[e].To
			switch s.nodes[to] {
			case NodeSkipped:
			case NodePending:
				handled = handled || to == s.last()
				waiting = true
			case NodeReady, NodeRunning, NodeSucceeded, NodeFailed:
				handled = true
			}
		}
		switch {
		case handled:
		case waiting:
			still = append(still, i)
		case s.plan.Nodes[i].Undoes != 0:
			s.broken = append(s.broken, s.plan.Nodes[i].Undoes)
		default:
			s.orphans = append(s.orphans, i)
		}
	}
	s.unhandled = still
}

// Stop drops what is ready to run, except nodes that undo the given node; 0 is none.
func (s *Progress) Stop(except int) {
	var queue []int
	for _, i := range s.queue {
		if except != 0 && s.plan.Nodes[i].Undoes == except {
			queue = append(queue, i)
			continue
		}
		s.nodes[i] = NodePending
	}
	s.queue = queue
}

// Undo lets the nodes run that undo node i. known reports that its output is known: edges
// that read it are delivered only then.
func (s *Progress) Undo(i int, known bool) {
	for _, e := range s.plan.Out(i) {
		if edge := &s.plan.Edges[e]; edge.FromPort == CompensatePort {
			s.resolve(e, known || !edge.ReadsOutput)
		}
	}
}

// Undoes reports whether nodes that undo node i have run or can run, and whether all of them
// have settled.
func (s *Progress) Undoes(i int) (some, all bool) {
	all = true
	for n := range s.plan.Nodes {
		if s.plan.Nodes[n].Undoes != i {
			continue
		}
		state := s.nodes[n]
		some = some || state != NodeSkipped && state != NodePending
		all = all && state.Settled()
	}
	return some, all
}

// Broken reports whether a node that undoes node i has failed, and nothing handles that.
func (s *Progress) Broken(i int) bool { return slices.Contains(s.broken, i) }

// Orphans lists the failed nodes whose failure is not handled, in the order of
// discovery. Any of them ends a run. Nodes that undo another are not among them.
func (s *Progress) Orphans() []int { return s.orphans }

// Node is the state of node i.
func (s *Progress) Node(i int) NodeState { return s.nodes[i] }

// Edge is the state of edge e.
func (s *Progress) Edge(e int) EdgeState { return s.edges[e] }

// Ready counts the nodes that [Progress.Next] would return.
func (s *Progress) Ready() int { return len(s.queue) }

// Settled counts the nodes that will not change any longer, including $input but
// not $output.
func (s *Progress) Settled() int { return s.settled }

// TakeSettled returns the nodes that have settled since it was last called, in that
// order.
func (s *Progress) TakeSettled() []int {
	log := s.log
	s.log = nil
	return log
}

// last is the index of $output.
func (s *Progress) last() int { return len(s.nodes) - 1 }

// Done reports whether every node but $output has settled.
func (s *Progress) Done() bool { return s.settled == s.last() }

// Assembles reports whether the plan's output can be assembled: every required edge
// into $output was delivered, and every required port has a value.
func (s *Progress) Assembles() bool {
	for _, e := range s.plan.In(s.last()) {
		if s.plan.Edges[e].Required && s.edges[e] != EdgeDelivered {
			return false
		}
	}
	return s.filled(s.last())
}

// Deliveries lists the delivered edges that carry a value into node i, in plan
// order, the first one for each port only.
func (s *Progress) Deliveries(i int) []int {
	var list []int
	filled := map[string]bool{}
	for _, e := range s.plan.In(i) {
		edge := &s.plan.Edges[e]
		if s.edges[e] != EdgeDelivered || !edge.Carries() || filled[edge.ToPort] {
			continue
		}
		filled[edge.ToPort] = true
		list = append(list, e)
	}
	return list
}
