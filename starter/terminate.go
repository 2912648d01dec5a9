package main

import (
	"context"
	"flag"
	"strings"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
)

func terminateCommand(p *Program, fs *flag.FlagSet) action {
	reason := fs.String("reason", "", "`TEXT` that the run's history keeps: why it may not end by itself")
	return func(ctx context.Context, operands []string) error {
		switch {
		case strings.TrimSpace(*reason) == "":
			return misuse("chimera terminate needs --reason TEXT, which the run's history keeps").
				withHint("%s asks a run to end by itself; try that first.", p.command("cancel", operands[0]))
		case len(*reason) > maxReason:
			return misuse("the reason has more than %d bytes", maxReason)
		}
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
		ask := &workflowservice.TerminateWorkflowExecutionRequest{
			Namespace: conn.namespace, Reason: *reason, Identity: p.Name,
			// Its latest execution, also where it has continued as new meanwhile; but not
			// that of another run which was started under its id.
			WorkflowExecution: &common.WorkflowExecution{WorkflowId: id}, FirstExecutionRunId: info.GetFirstRunId(),
		}
		if ask.FirstExecutionRunId == "" {
			ask.WorkflowExecution.RunId = info.GetExecution().GetRunId()
		}
		if _, err := conn.WorkflowService().TerminateWorkflowExecution(bounded, ask); err != nil {
			return conn.refused("terminating "+id, err)
		}
		if p.json() {
			return p.document(struct {
				Run       string `json:"run"`
				RunID     string `json:"run_id"`
				Requested bool   `json:"terminate_requested"`
			}{id, info.GetExecution().GetRunId(), true})
		}
		p.printf("%s\n", id)
		p.say("terminated: nothing is compensated, and calls in flight end by themselves. The ledger says so within a minute, if a worker runs")
		return nil
	}
}
