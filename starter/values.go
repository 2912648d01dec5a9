package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
)

// exchanges is the JSON answer of status --values: what a node got and gave.
type exchanges struct {
	Run       string `json:"run"`
	RunID     string `json:"run_id"`
	Plan      string `json:"plan"`
	Node      string `json:"node"`
	Operation string `json:"operation"`
	// Partial: the first executions of the run, or workflows that made calls for it,
	// are not retained any more.
	Partial bool       `json:"partial,omitempty"`
	Calls   []exchange `json:"calls"`
}

// exchange is one request to run the node, and its answer.
type exchange struct {
	// Execution is the run id of the execution that asked.
	Execution string `json:"execution"`
	// Local: the request is not recorded, just the answer.
	Local     bool       `json:"local,omitempty"`
	StartTime *time.Time `json:"start_time,omitempty"`
	EndTime   *time.Time `json:"end_time,omitempty"`
	// Attempts counts the calls made, where it is known.
	Attempts int `json:"attempts,omitempty"`
	// Got is what the edges brought, and Input the plan's input where the node
	// reads it.
	Got   []brought       `json:"got,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
	// Gave has the output ports that something reads, and the digests are those of
	// the whole input and output in the ledger.
	Gave         map[string]json.RawMessage `json:"gave,omitempty"`
	InputDigest  string                     `json:"input_digest,omitempty"`
	OutputDigest string                     `json:"output_digest,omitempty"`
	Failure      *contract.ErrorPayload     `json:"failure,omitempty"`
}

// brought is a value that an edge has delivered, before its transform.
type brought struct {
	Edge   string                 `json:"edge"`
	Value  json.RawMessage        `json:"value,omitempty"`
	Output json.RawMessage        `json:"output,omitempty"`
	Error  *contract.ErrorPayload `json:"error,omitempty"`
}

// values shows what a node of a run got and gave, from the run's history and the
// deployment's store.
func (p *Program) values(ctx context.Context, conn *connection, id, node string) error {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	described, err := conn.describe(bounded, id)
	if err != nil {
		return err
	}
	info := described.GetWorkflowExecutionInfo()
	if name := info.GetType().GetName(); name != contract.WorkflowType {
		return negative("%s is a workflow of type %s, not a run of a plan", id, name)
	}
	s := &search{
		conn: conn, reader: payload.NewReader(conn.blobs, conn.sealing.Keys), id: id, node: node,
		values: payload.NewValues(conn.blobs, conn.sealing, conn.namespace),
		found:  exchanges{Run: id, RunID: info.GetExecution().GetRunId(), Node: node, Calls: []exchange{}},
	}
	if err := s.all(ctx); err != nil {
		return err
	}
	switch node {
	case plan.InputNode:
		err = s.given(ctx)
	case plan.OutputNode:
		err = s.result(ctx, info)
	}
	if err != nil {
		return err
	}
	if s.plan == nil {
		return negative("the plan of the run %s is not known (yet): no node has been called", id)
	}
	if p.json() {
		return p.document(s.found)
	}
	p.exchanged(&s.found)
	return nil
}

// exchanged writes the values for people.
func (p *Program) exchanged(all *exchanges) {
	p.printf("node  %s  %s\n", printable(all.Node), printable(all.Operation))
	if all.Partial {
		p.say("a part of this run's histories is not retained any more: calls may be missing")
	}
	if len(all.Calls) == 0 {
		p.say("nothing is recorded of it: it has not been called, or its calls have not ended")
	}
	for i, c := range all.Calls {
		p.printf("\ncall %d", i+1)
		if c.StartTime != nil {
			p.printf("  %s", c.StartTime.Local().Format(time.DateTime))
		}
		if c.Attempts > 1 {
			p.printf("  %s", plural(c.Attempts, "attempt"))
		}
		p.printf("\n")
		line := func(name string, value []byte) {
			if len(value) > 0 {
				p.printf("    %s: %s\n", printable(name), printable(string(value)))
			}
		}
		switch {
		case c.Local && c.InputDigest != "":
			p.printf("  got: not recorded of a local node, but for the digest %s\n", c.InputDigest)
		case c.Local:
			p.printf("  got: not recorded of a local node\n")
		case all.Operation == "": // $input and $output
		default:
			p.printf("  got\n")
		}
		for _, g := range c.Got {
			line(g.Edge, g.Value)
			line(g.Edge+" (the whole output)", g.Output)
			if g.Error != nil {
				line(g.Edge, []byte(string(g.Error.Kind)+": "+g.Error.Message))
			}
		}
		line("the plan's input", c.Input)
		switch {
		case c.Failure != nil:
			p.printf("  failed (%s): %s\n", c.Failure.Kind, printable(c.Failure.Message))
			line("details", c.Failure.Details)
		case c.EndTime == nil:
			p.printf("  and has not answered yet\n")
		default:
			p.printf("  gave")
			if c.OutputDigest != "" {
				p.printf("  (the whole has the digest %s)", c.OutputDigest)
			}
			p.printf("\n")
			for _, port := range slices.Sorted(maps.Keys(c.Gave)) {
				line(port, c.Gave[port])
			}
		}
	}
}
