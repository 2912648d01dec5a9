package workflows

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// due reports whether the run is to continue as new; from then on nothing new
// is launched.
func (r *run) due() bool {
	if r.info.GetCurrentHistoryLength() >= r.head.ContinueAfter || r.info.GetContinueAsNewSuggested() {
		r.draining = true
	}
	return r.draining
}

// continueAsNew ends this execution and carries the state to the next. Nothing
// is in flight.
func (r *run) continueAsNew() error {
	carried := &contract.Carried{
		Root:      r.root,
		Origin:    r.origin,
		StartedMS: r.started.UnixMilli(),
		Nodes:     make([]byte, len(r.nodes)),
		Edges:     make([]byte, len(r.edges)),
		Queue:     r.queue,
		Unhandled: r.unhandled,
		Batch:     r.journal.batch,
		Entries:   slices.Concat(r.journal.unwritten, r.journal.sent, r.journal.entries),
	}
	for i, s := range r.nodes {
		carried.Nodes[i] = byte(s)
		if r.values[i] != nil {
			carried.Values = append(carried.Values, contract.NodeValues{Node: i, Values: r.values[i]})
		}
		if r.errors[i] != nil {
			carried.Errors = append(carried.Errors, *r.errors[i])
		}
	}
	for i, s := range r.edges {
		carried.Edges[i] = byte(s)
	}
	loaded := &plan.Loaded{Plan: r.plan, Head: r.head}
	loaded.Head.Input = contract.Outcome{}
	return workflow.NewContinueAsNewError(r.ctx, contract.WorkflowType, json.RawMessage("null"), loaded, carried)
}

var errCarried = errors.New("the carried state does not fit the plan")

// restore takes up the state that an earlier execution carried.
func (r *run) restore(c *contract.Carried) error {
	if len(c.Nodes) != len(r.nodes) || len(c.Edges) != len(r.edges) {
		return errCarried
	}
	r.root, r.origin = c.Root, c.Origin
	if wasReset(r.info) {
		r.root = r.info.WorkflowExecution.RunID
	}
	r.started = time.UnixMilli(c.StartedMS).UTC()
	r.journal.batch, r.journal.entries = c.Batch, c.Entries
	r.queue = c.Queue
	r.unhandled = c.Unhandled
	for i, s := range c.Nodes {
		if s > byte(nodeSkipped) {
			return errCarried
		}
		r.nodes[i] = nodeState(s)
		if r.nodes[i] >= nodeSucceeded {
			r.settled++
		}
	}
	for i, s := range c.Edges {
		if s > byte(edgeSkipped) {
			return errCarried
		}
		r.edges[i] = edgeState(s)
		edge := &r.plan.Edges[i]
		if r.edges[i] != edgeOpen {
			r.open[edge.To]--
		}
		if r.nodes[edge.To] >= nodeSucceeded {
			r.remaining[edge.From]--
		}
	}
	for _, e := range c.Entries {
		if e.Node < 0 || e.Node >= len(r.nodes) {
			return errCarried
		}
	}
	for _, list := range [][]int{c.Queue, c.Unhandled} {
		for _, i := range list {
			if i < 0 || i >= len(r.nodes) {
				return errCarried
			}
		}
	}
	for _, v := range c.Values {
		if v.Node < 0 || v.Node >= len(r.values) {
			return errCarried
		}
		r.values[v.Node] = v.Values
	}
	next := 0
	for i := range r.nodes {
		if r.nodes[i] != nodeFailed {
			continue
		}
		if next == len(c.Errors) {
			return errCarried
		}
		r.errors[i] = &c.Errors[next]
		next++
	}
	return nil
}
