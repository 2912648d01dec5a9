package activities

import (
	"context"

	"chimera.ai/engine/contract"
)

// Route implements the activity engine/route: which error edges of a failed
// node are delivered.
func (e *Engine) Route(ctx context.Context, request contract.RouteRequest) (contract.RouteResult, error) {
	result := contract.RouteResult{Request: request.Request}
	var n *node
	store, stop := storing(ctx, 0)
	defer stop()
	err := waited(store, e.Plans, request.Patient)
	if err == nil {
		n, err = find(store, e.Plans, request.Plan, request.Node)
	}
	if err == nil {
		err = e.Values.Give(store, request.Run.Workflow, &request.Input)
	}
	if err == nil {
		err = recovered("a predicate", func() (err error) {
			result.Held, err = n.routeError(&request)
			return err
		})
	}
	return result, asked{request: request.Request, patient: request.Patient}.failed(ctx, err)
}
