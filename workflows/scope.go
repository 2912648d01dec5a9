package workflows

import (
	"encoding/json"
	"time"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// scope is one body of a plan that runs once, with the states of its nodes and
// edges. The plan's root is one.
type scope struct {
	plan     *plan.Plan
	progress *plan.Progress
	// path precedes the ids of the scope's nodes wherever a node of a run is
	// named. It is empty for the root, and otherwise ends in a slash.
	path string
	// visit counts the visits of a loop and element the elements of a list, from 1;
	// element is 0 outside of lists.
	visit, element int

	// values holds, for each settled node, its OutPorts' values while a target
	// may still read them; remaining counts those edges. An effect's prechecks may be called
	// once more until the effect has settled.
	values    [][]contract.Value
	remaining []int32
	// held is how many bytes values have.
	held int
	// errors holds the failure of each failed node, by node.
	errors []*contract.ErrorPayload
	// began and ended are when nodes were first launched and when they settled, in
	// milliseconds since the run's start, plus one; 0 is not yet. attempts counts
	// the contract's attempts.
	began, ended []int64
	attempts     []int32
	// undone is what the call was made with whose effect is being undone, and what it has
	// returned.
	undone struct{ args, output contract.Value }
}

func newScope(p *plan.Plan) *scope {
	s := &scope{
		plan:      p,
		progress:  plan.NewProgress(p),
		visit:     1,
		values:    make([][]contract.Value, len(p.Nodes)),
		remaining: make([]int32, len(p.Nodes)),
		errors:    make([]*contract.ErrorPayload, len(p.Nodes)),
		began:     make([]int64, len(p.Nodes)),
		ended:     make([]int64, len(p.Nodes)),
		attempts:  make([]int32, len(p.Nodes)),
	}
	for i := range p.Nodes {
		s.read(i, func(from int) { s.remaining[from]++ })
	}
	return s
}

// read calls f with each node whose values are read until node i has settled, as often as
// they are: by the node, and by its prechecks.
func (s *scope) read(i int, f func(from int)) {
	for _, e := range s.plan.In(i) {
		if s.plan.Edges[e].FromPort != plan.CompensatePort { // that reads what the ledger has
			f(s.plan.Edges[e].From)
		}
	}
	for _, check := range s.plan.Nodes[i].Prechecks() {
		for _, e := range s.plan.In(check) {
			f(s.plan.Edges[e].From)
		}
	}
}

// name is the command id of node i: no two nodes of a run have the same, and none
// has that of a command of the engine.
func (s *scope) name(i int) string { return "node/" + s.path + s.plan.Nodes[i].ID }

// hold keeps the values of a node for the edges that will read them.
func (s *scope) hold(from int, values []contract.Value) {
	s.held += length(values) - length(s.values[from])
	s.values[from] = values
}

// consume drops what no edge will read any longer: the values of a node, or the
// details of its failure.
func (s *scope) consume(from int) {
	if s.remaining[from]--; s.remaining[from] > 0 {
		return
	}
	s.hold(from, nil)
	if e := s.errors[from]; e != nil && e.Details != nil {
		short := *e // a local activity may read the other one still
		short.Details = nil
		s.errors[from] = &short
	}
}

// length is how many bytes values have.
func length(values []contract.Value) int {
	n := 0
	for _, v := range values {
		n += len(v)
	}
	return n
}

// deliver returns the delivered edges that fill the ports of node i.
func (s *scope) deliver(i int) []contract.Delivery {
	var all []contract.Delivery
	for _, e := range s.progress.Deliveries(i) {
		edge := &s.plan.Edges[e]
		d := contract.Delivery{Edge: e}
		if edge.FromPort == plan.CompensatePort {
			d.Args, d.Output, d.Error = s.undone.args, s.undone.output, s.errors[edge.From]
		} else if edge.Type == plan.Error {
			d.Error = handled(s.errors[edge.From])
		} else {
			values := s.values[edge.From]
			d.Value = at(values, s.plan.ValueAt(e))
			d.Output = at(values, s.plan.OutputAt(e))
		}
		all = append(all, d)
	}
	return all
}

// handled is a failure as error edges see it: one of unknown outcome, only once its effect no
// longer stands.
func handled(e *contract.ErrorPayload) *contract.ErrorPayload {
	if e == nil || e.Kind != contract.OutcomeUnknown {
		return e
	}
	undone := *e
	undone.Details = json.RawMessage(`{"undone":true}`)
	return &undone
}

func at(values []contract.Value, i int) contract.Value {
	if i < 0 || i >= len(values) {
		return nil
	}
	return values[i]
}

// stamp returns a time in the run in the form of began and ended. The server's
// clock may have stepped back since the start.
func stamp(start, t time.Time) int64 { return max(t.Sub(start).Milliseconds(), 0) + 1 }
