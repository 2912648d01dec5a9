// Package client is what a caller of runs does over a Temporal client: grant and
// start a run, follow it to its end, ask for its status and its values, cancel and
// terminate it, list all of them. The command line is made of it, and so is any
// other Go program that runs plans:
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
// Each call to Temporal is bounded, beside its context, to ten seconds. Errors of
// Temporal are wrapped in a [CallError]; the other types of errors say what the
// package found out by itself.
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

// Options say how a [Client] works. The zero value is good for namespace default.
type Options struct {
	// Namespace is that of the Temporal client; "" is default.
	Namespace string
	// Identity is who terminates runs, as their histories name it.
	Identity string
	// Codec opens the messages of failures that are sealed. Nil leaves them sealed.
	Codec converter.PayloadCodec
	// Command writes a command line for hints, of the words of a command: terminate
	// and a run. Nil writes them after "chimera".
	Command func(words ...string) string
}

// Client does what callers of runs ask for. Its methods may be called by several
// goroutines at once.
type Client struct {
	temporal sdk.Client
	options  Options
}

// New makes a client of runs of a Temporal client, which the caller closes.
func New(temporal sdk.Client, o Options) *Client {
	o.Namespace = cmp.Or(o.Namespace, sdk.DefaultNamespace)
	if o.Command == nil {
		o.Command = func(words ...string) string { return "chimera " + strings.Join(words, " ") }
	}
	return &Client{temporal, o}
}

// Run names a run.
type Run struct {
	// ID is its workflow id.
	ID string
	// RunID is the run id of one of its executions: a long run continues as new. ""
	// is the latest.
	RunID string
}

// described asks for a run's workflow.
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
