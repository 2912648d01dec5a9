package activities

import (
	"context"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/plan"
)

// Children looks up the child workflows that make calls for runs.
type Children interface {
	// Child reports whether a child still runs, or what it has returned: nil if
	// it was ended from outside or is not known. Child waits for one that says
	// it has ended.
	Child(ctx context.Context, child contract.Child, ended bool) (running bool, report *contract.Report, err error)
}

// Child implements the activity engine/child: it finds the result of a child
// workflow whose report has not arrived.
func (e *Engine) Child(ctx context.Context, request contract.ChildRequest) (contract.ChildResult, error) {
	result := contract.ChildResult{Request: request.Request}
	var err error
	result.Running, result.Report, err = e.Children.Child(ctx, request.Child, request.Ended)
	if err != nil {
		err = contract.Errorf(contract.Transport, "ask Temporal about %s: %w", excerpt.Bytes(request.Child.Workflow, 200), err)
	}
	return result, asked{request: request.Request, retry: asking}.failed(ctx, err)
}

// asking lists the kinds of failure after which Temporal is asked again.
var asking = &plan.Retry{On: []contract.Kind{contract.Transport}}
