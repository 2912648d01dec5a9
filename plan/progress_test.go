package plan_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// world decides what the nodes of a random plan do.
type world struct {
	plan  *plan.Plan
	fails []bool
	// holds says for each edge whether its predicate, or its port, would hold.
	holds []bool
}

func drawWorld(t *rapid.T) *world {
	n := rapid.IntRange(2, 12).Draw(t, "nodes")
	p := &plan.Plan{Nodes: make([]plan.Node, n)}
	for i := range p.Nodes {
		p.Nodes[i].Kind = plan.KindCall
		if i > 0 && i < n-1 && rapid.Bool().Draw(t, "with") {
			p.Nodes[i].With = []plan.PortTemplate{{Port: "a"}}
		}
		if i > 0 && rapid.IntRange(0, 2).Draw(t, "needs") == 0 {
			p.Nodes[i].RequiredPorts = []string{"a"}
		}
	}
	p.Nodes[0].Kind, p.Nodes[n-1].Kind = plan.KindInput, plan.KindOutput
	w := &world{plan: p}
	for range rapid.IntRange(0, 3*n).Draw(t, "edges") {
		from := rapid.IntRange(0, n-2).Draw(t, "from")
		to := rapid.IntRange(from+1, n-1).Draw(t, "to")
		e := plan.Edge{
			From: from, To: to, FromPort: "x",
			ToPort:   rapid.SampledFrom([]string{"a", "b", "$", plan.StartPort}).Draw(t, "port"),
			Type:     rapid.SampledFrom([]plan.EdgeType{plan.Data, plan.Control, plan.Conditional, plan.Error}).Draw(t, "type"),
			Required: rapid.Bool().Draw(t, "required"),
		}
		if e.Type == plan.Error {
			e.FromPort = plan.ErrorPort
			if from == 0 {
				e.Type, e.FromPort = plan.Data, "x"
			}
		}
		p.Edges = append(p.Edges, e)
		w.holds = append(w.holds, e.Type == plan.Control || rapid.Bool().Draw(t, "holds"))
	}
	for i := range p.Nodes {
		w.fails = append(w.fails, i > 0 && rapid.IntRange(0, 3).Draw(t, "fails") == 0)
	}
	p.Index()
	return w
}

// model states the rules of the plan language in the plainest way, node by node
// in topological order.
func (w *world) model() (nodes []plan.NodeState, edges []plan.EdgeState) {
	p := w.plan
	nodes = make([]plan.NodeState, len(p.Nodes))
	edges = make([]plan.EdgeState, len(p.Edges))
	for i := range p.Nodes {
		required, any, filled := true, false, map[string]bool{}
		count := 0
		for e := range p.Edges {
			if p.Edges[e].To != i {
				continue
			}
			count++
			if edges[e] == plan.EdgeDelivered {
				any = true
				if p.Edges[e].Carries() {
					filled[p.Edges[e].ToPort] = true
				}
			} else if p.Edges[e].Required {
				required = false
			}
		}
		for _, with := range p.Nodes[i].With {
			filled[with.Port] = true
		}
		for _, port := range p.Nodes[i].RequiredPorts {
			if !filled[port] && !filled["$"] {
				required = false
			}
		}
		switch {
		case i == len(p.Nodes)-1:
			continue
		case i > 0 && (!required || count > 0 && !any):
			nodes[i] = plan.NodeSkipped
		case w.fails[i]:
			nodes[i] = plan.NodeFailed
		default:
			nodes[i] = plan.NodeSucceeded
		}
		for e := range p.Edges {
			if p.Edges[e].From != i {
				continue
			}
			edges[e] = plan.EdgeSkipped
			want := plan.NodeSucceeded
			if p.Edges[e].Type == plan.Error {
				want = plan.NodeFailed
			}
			if nodes[i] == want && w.holds[e] {
				edges[e] = plan.EdgeDelivered
			}
		}
	}
	return nodes, edges
}

// orphaned lists, by the model, failed nodes whose failure no node handles.
func (w *world) orphaned(nodes []plan.NodeState, edges []plan.EdgeState) []int {
	var list []int
	for i, s := range nodes {
		if s != plan.NodeFailed {
			continue
		}
		handled := false
		for e, edge := range w.plan.Edges {
			if edge.From == i && edge.Type == plan.Error && edges[e] == plan.EdgeDelivered {
				to := nodes[edge.To]
				handled = handled || edge.To == len(nodes)-1 || to == plan.NodeSucceeded || to == plan.NodeFailed
			}
		}
		if !handled {
			list = append(list, i)
		}
	}
	return list
}

func (w *world) outcome(i int) contract.Outcome {
	var out contract.Outcome
	for _, e := range w.plan.Out(i) {
		if w.plan.Edges[e].Type != plan.Error {
			out.Held = append(out.Held, w.holds[e])
		}
	}
	return out
}

func (w *world) held(i int) []bool {
	var held []bool
	for _, e := range w.plan.Out(i) {
		if w.plan.Edges[e].Type == plan.Error {
			held = append(held, w.holds[e])
		}
	}
	return held
}

func TestResolutionAgreesWithTheModelInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		s := plan.NewProgress(w.plan)
		s.Begin(w.outcome(0))
		var running []int
		for {
			for {
				i, ok := s.Next()
				if !ok {
					break
				}
				running = append(running, i)
			}
			if len(running) == 0 {
				break
			}
			if rapid.IntRange(0, 4).Draw(t, "carried") == 0 && len(s.Orphans()) == 0 {
				var c contract.Carried
				s.Carry(&c)
				s = plan.NewProgress(w.plan)
				require.True(t, s.Restore(&c))
			}
			at := rapid.IntRange(0, len(running)-1).Draw(t, "lands")
			i := running[at]
			running = slices.Delete(running, at, at+1)
			if w.fails[i] {
				s.Fail(i, w.held(i))
			} else {
				s.Succeed(i, w.outcome(i))
			}
		}
		nodes, edges := w.model()
		last := len(nodes) - 1
		for i, want := range nodes[:last] {
			require.Equal(t, want, s.Node(i), "node %d", i)
		}
		for e, want := range edges {
			require.Equal(t, want, s.Edge(e), "edge %d", e)
		}
		require.True(t, s.Done())
		require.Equal(t, w.orphaned(nodes, edges), slices.Sorted(slices.Values(s.Orphans())))
		var c contract.Carried
		s.Carry(&c)
		require.Empty(t, c.Queue)
		require.Empty(t, c.Unhandled)
	})
}

// TestDeliveriesAreTheFirstOfEachPort: of several edges that are delivered to one
// port, the first in the order of the plan is its value.
func TestDeliveriesAreTheFirstOfEachPort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		s := plan.NewProgress(w.plan)
		s.Begin(w.outcome(0))
		for i, ok := s.Next(); ok; i, ok = s.Next() {
			s.Succeed(i, w.outcome(i))
		}
		for i := range w.plan.Nodes {
			var want []int
			ports := map[string]bool{}
			for e, edge := range w.plan.Edges {
				if edge.To == i && s.Edge(e) == plan.EdgeDelivered && edge.Carries() && !ports[edge.ToPort] {
					ports[edge.ToPort] = true
					want = append(want, e)
				}
			}
			require.Equal(t, want, s.Deliveries(i), "node %d", i)
		}
	})
}

// TestRestoreRefuses a state that is not of the plan.
func TestRestoreRefuses(t *testing.T) {
	p := &plan.Plan{Nodes: make([]plan.Node, 3), Edges: []plan.Edge{{From: 0, To: 1, Type: plan.Data}}}
	p.Index()
	for name, c := range map[string]contract.Carried{
		"too few nodes":      {Nodes: make([]byte, 2), Edges: make([]byte, 1)},
		"too many edges":     {Nodes: make([]byte, 3), Edges: make([]byte, 2)},
		"a state of a node":  {Nodes: []byte{6, 0, 0}, Edges: make([]byte, 1)},
		"a state of an edge": {Nodes: make([]byte, 3), Edges: []byte{3}},
		"a node in line":     {Nodes: make([]byte, 3), Edges: make([]byte, 1), Queue: []int{3}},
		"an open failure":    {Nodes: make([]byte, 3), Edges: make([]byte, 1), Unhandled: []int{-1}},
	} {
		require.False(t, plan.NewProgress(p).Restore(&c), name)
	}
}

func TestSkippingALongChainNeedsNoStack(t *testing.T) {
	const n = 100_000
	p := &plan.Plan{Nodes: make([]plan.Node, n)}
	for i := range n - 1 {
		p.Edges = append(p.Edges, plan.Edge{From: i, To: i + 1, FromPort: "x", ToPort: "x", Type: plan.Data, Required: true})
	}
	p.Index()
	s := plan.NewProgress(p)
	s.Begin(contract.Outcome{Held: []bool{false}})
	require.True(t, s.Done())
	require.False(t, s.Assembles())
	require.Equal(t, plan.NodeSkipped, s.Node(n-2))
}
