package activities

import (
	"context"

	"chimera.ai/engine/contract"
)

// Close is provisional.
func (e *Engine) Close(ctx context.Context, request contract.CloseRequest) (contract.Closed, error) {
	if request.Plan != "" {
		err := e.write(ctx, &contract.JournalRequest{Run: request.Run, Plan: request.Plan, Input: request.Input, Entries: request.Entries, End: &request.End})
		if err != nil {
			return contract.Closed{}, fail(ctx, 0, journaling, err)
		}
	}
	return contract.Closed{Root: request.Run.Root, End: request.End, Output: request.Output}, nil
}
