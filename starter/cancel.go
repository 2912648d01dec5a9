package main

import (
	"context"
	"flag"

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
		described, err := conn.DescribeWorkflowExecution(bounded, id, "")
		if err != nil {
			return conn.refused("run "+id, err)
		}
		info := described.GetWorkflowExecutionInfo()
		if name := info.GetType().GetName(); name != contract.WorkflowType {
			return negative("%s is a workflow of type %s, not a run of a plan", id, name)
		}
		if info.GetCloseTime() != nil {
			return negative("the run %s has ended already: it is %s", id, stateOf(info))
		}
		if err := conn.CancelWorkflow(bounded, id, info.GetExecution().GetRunId()); err != nil {
			return conn.refused("cancelling "+id, err)
		}
		if p.json() {
			return p.document(struct {
				Run       string `json:"run"`
				RunID     string `json:"run_id"`
				Requested bool   `json:"cancel_requested"`
			}{id, info.GetExecution().GetRunId(), true})
		}
		p.printf("%s\n", id)
		p.say("asked to end; %s shows how it ends", p.command("status", id))
		return nil
	}
}
