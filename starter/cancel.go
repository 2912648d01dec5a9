package main

import (
	"context"
	"flag"

	"go.temporal.io/api/workflowservice/v1"

	"chimera.ai/engine/contract"
)

func cancelCommand(p *Program, _ *flag.FlagSet) action {
	return func(ctx context.Context, operands []string) error {
		conn, err := p.connect(ctx)
		if err != nil {
			return err
		}
		id := operands[0]
		bounded, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		described, err := conn.going(bounded, id)
		if err != nil {
			return err
		}
		info := described.GetWorkflowExecutionInfo()
		if err := conn.CancelWorkflow(bounded, id, info.GetExecution().GetRunId()); err != nil {
			return conn.refused("cancelling "+id, err)
		}
		held, err := p.examine(ctx, conn, described, false)
		if err != nil {
			p.say("whether the run goes on is not known: %s", err)
		}
		if p.json() {
			return p.document(struct {
				Run       string `json:"run"`
				RunID     string `json:"run_id"`
				Requested bool   `json:"cancel_requested"`
				// Stuck is why it has no effect yet.
				Stuck *stuck `json:"stuck,omitempty"`
			}{id, info.GetExecution().GetRunId(), true, held})
		}
		p.printf("%s\n", id)
		if held != nil {
			p.say("asked to end, and that has no effect yet: %s", printable(held.line()))
			return nil
		}
		p.say("asked to end; %s shows how it ends", p.command("status", id))
		return nil
	}
}

// going describes a run that has not ended, and refuses all else.
func (c *connection) going(ctx context.Context, id string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	described, err := c.describe(ctx, id)
	if err != nil {
		return nil, err
	}
	info := described.GetWorkflowExecutionInfo()
	if name := info.GetType().GetName(); name != contract.WorkflowType {
		return nil, negative("%s is a workflow of type %s, not a run of a plan", id, name)
	}
	if info.GetCloseTime() != nil {
		return nil, negative("the run %s %s already", id, verb(contract.RunState(stateOf(info))))
	}
	return described, nil
}
