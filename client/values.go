package client

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// Reader reads the values in histories. It has the deployment's store and, if payloads
// are sealed, its keys. A [chimera.ai/engine/payload.Reader] and a
// [chimera.ai/engine/payload.Values] together implement it.
type Reader interface {
	// Read decodes a payload, sealed or large, into target.
	Read(ctx context.Context, p *commonpb.Payload, target any) error
	// Plan returns the compiled plan with a digest.
	Plan(ctx context.Context, digest string) (*plan.Plan, error)
	// Give replaces references to large values of a workflow with the values.
	Give(ctx context.Context, workflow string, values ...*contract.Value) error
}

// UnreadableError reports that values of a run cannot be read.
type UnreadableError struct {
	Run string
	Err error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("the values of the run %s cannot be read here: %s", e.Run, e.Err)
}

// Unwrap returns the error of the [Reader].
func (e *UnreadableError) Unwrap() error { return e.Err }

// NodeError reports that a plan has no node with an id.
type NodeError struct {
	// Plan is its name@version, and Nodes the ids of its nodes.
	Plan, Node string
	Nodes      []string
}

func (e *NodeError) Error() string { return fmt.Sprintf("the plan %s has no node %s", e.Plan, e.Node) }

// UncalledError reports that the plan of a run is not known, since none of its nodes has
// been called yet.
type UncalledError struct{ Run string }

func (e *UncalledError) Error() string {
	return fmt.Sprintf("the plan of the run %s is not known (yet): no node has been called", e.Run)
}

// Exchanges holds the inputs and outputs of a node.
type Exchanges struct {
	Run       string `json:"run"`
	RunID     string `json:"run_id"`
	Plan      string `json:"plan"`
	Node      string `json:"node"`
	Operation string `json:"operation"`
	// Partial reports that the first executions of the run, or workflows that made calls
	// for it, are no longer retained.
	Partial bool       `json:"partial,omitempty"`
	Calls   []Exchange `json:"calls"`
}

// Exchange is one request to run the node, and its answer.
type Exchange struct {
	// Execution is the run id of the execution that made the request.
	Execution string `json:"execution"`
	// Local reports that only the answer is recorded, not the request.
	Local     bool       `json:"local,omitempty"`
	StartTime *time.Time `json:"start_time,omitempty"`
	EndTime   *time.Time `json:"end_time,omitempty"`
	// Attempts counts the calls made, if known.
	Attempts int `json:"attempts,omitempty"`
	// Got holds what the edges delivered, and Input the plan's input if the node reads it.
	Got   []Brought       `json:"got,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
	// Gave holds the output ports that something reads. The digests are those of the whole
	// input and output, as in the ledger.
	Gave         map[string]json.RawMessage `json:"gave,omitempty"`
	InputDigest  string                     `json:"input_digest,omitempty"`
	OutputDigest string                     `json:"output_digest,omitempty"`
	Failure      *contract.ErrorPayload     `json:"failure,omitempty"`
}

// Brought is a value that an edge has delivered, before its transform.
type Brought struct {
	Edge   string                 `json:"edge"`
	Value  json.RawMessage        `json:"value,omitempty"`
	Output json.RawMessage        `json:"output,omitempty"`
	Error  *contract.ErrorPayload `json:"error,omitempty"`
}

// Values returns the inputs and outputs of a node of a run, from the run's histories,
// using from to read them. The node may be $input or $output.
func (c *Client) Values(ctx context.Context, id, node string, from Reader) (*Exchanges, error) {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d, err := c.described(bounded, id)
	if err != nil {
		return nil, err
	}
	info := d.GetWorkflowExecutionInfo()
	s := &search{
		client: c, from: from, id: id, node: node,
		found: Exchanges{Run: id, RunID: info.GetExecution().GetRunId(), Node: node, Calls: []Exchange{}},
	}
	if err := s.all(ctx); err != nil {
		return nil, err
	}
	switch node {
	case plan.InputNode:
		err = s.given(ctx)
	case plan.OutputNode:
		err = s.result(ctx, info)
	}
	if err != nil {
		return nil, err
	}
	if s.plan == nil {
		return nil, &UncalledError{id}
	}
	return &s.found, nil
}
