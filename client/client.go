// Package client is what a caller of runs does over a Temporal client: grant and
// start a run, follow it to its end, ask for its status and its values, cancel and
// terminate it, and list all runs. The command line uses it, and so can any other Go
// program that runs plans:
//
//	temporal, err := sdk.Dial(sdk.Options{}) // go.temporal.io/sdk/client
//	…
//	runs := client.New(temporal, client.Options{})
//	run, err := runs.Start(ctx, client.Request{ID: "greet-1", Start: contract.Start{Plan: "greet@1"}})
//	…
//	ending, err := runs.Follow(ctx, run, nil)
//
// The package opens no store and holds no keys. A Temporal client with the default
// data converter starts runs and reads their results, failures and states, except those
// too large for a history; one with the deployment's converter reads all of them.
//
// Each call to Temporal takes at most ten seconds, whatever its context allows. Errors
// of Temporal are wrapped in a [CallError]; the other error types are the package's own.
package client

import (
	"cmp"
	"context"
	"strings"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	sdk "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"chimera.ai/engine/contract"
)

// callTimeout bounds a call.
const callTimeout = 10 * time.Second

// Options configure a [Client]. The zero value works for the namespace default.
type Options struct {
	// Namespace is that of the Temporal client; "" means default.
	Namespace string
	// Identity is recorded in the histories of terminated runs.
	Identity string
	// Codec opens sealed messages of failures. Nil leaves them sealed.
	Codec converter.PayloadCodec
	// Command formats a command line for hints, such as from the words terminate and a
	// run id. Nil puts "chimera" before the words.
	Command func(words ...string) string
}

// Client starts, follows, inspects and ends runs. It is safe for concurrent use.
type Client struct {
	temporal sdk.Client
	options  Options
}

// New returns a client of runs over a Temporal client, which the caller closes.
func New(temporal sdk.Client, o Options) *Client {
	o.Namespace = cmp.Or(o.Namespace, sdk.DefaultNamespace)
	if o.Command == nil {
		o.Command = func(words ...string) string { return "chimera " + strings.Join(words, " ") }
	}
	return &Client{temporal, o}
}

// Run identifies a run.
type Run struct {
	// ID is its workflow id.
	ID string
	// RunID is the run id of one of its executions, since a long run continues as new. ""
	// means the latest.
	RunID string
}

// described describes a run's workflow.
func (c *Client) described(ctx context.Context, id string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	d, err := c.temporal.DescribeWorkflowExecution(ctx, id, "")
	if isGone(err) {
		return nil, &NotFoundError{Run: id, Namespace: c.options.Namespace}
	}
	if err != nil {
		return nil, &CallError{"run " + id, err}
	}
	if name := d.GetWorkflowExecutionInfo().GetType().GetName(); name != contract.WorkflowType {
		return nil, &TypeError{Workflow: id, Type: name}
	}
	return d, nil
}
