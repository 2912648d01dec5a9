package main

import (
	"context"
	"flag"
	"fmt"
	"text/tabwriter"
	"time"

	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"chimera.ai/engine/contract"
)

// maxRuns bounds a list.
const maxRuns = 10_000

// listed is one run in the JSON answer of runs.
type listed struct {
	Run   string `json:"run"`
	RunID string `json:"run_id"`
	Plan  string `json:"plan"`
	State string `json:"state"`
	// StartTime is when the run's first execution started.
	StartTime time.Time  `json:"start_time"`
	CloseTime *time.Time `json:"close_time,omitempty"`
}

func runsCommand(p *Program, fs *flag.FlagSet) action {
	limit := fs.Int("limit", 50, "`N` runs at most")
	return func(ctx context.Context, _ []string) error {
		if *limit < 1 || *limit > maxRuns {
			return misuse("--limit is between 1 and %d", maxRuns)
		}
		conn, err := p.connect(ctx)
		if err != nil {
			return err
		}
		runs, err := list(ctx, conn, *limit)
		if err != nil {
			return err
		}
		if err := fromTheStart(ctx, conn, runs); err != nil {
			return conn.refused("looking for the first executions", err)
		}
		if p.json() {
			return p.document(struct {
				Runs []listed `json:"runs"`
			}{runs})
		}
		if len(runs) == 0 {
			p.say("there are no runs in namespace %s at %s", conn.namespace, conn.address)
			return nil
		}
		table := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(table, "RUN\tPLAN\tSTATE\tSTARTED\tTOOK")
		for _, r := range runs {
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", printable(r.Run), printable(r.Plan), r.State, r.StartTime.Local().Format(time.DateTime), r.took())
		}
		return table.Flush()
	}
}

// took is the duration of a run that has ended, or "".
func (r listed) took() string {
	if r.CloseTime == nil {
		return ""
	}
	return r.CloseTime.Sub(r.StartTime).Round(time.Millisecond).String()
}

// list asks for the latest runs. Continued runs are one run: their last part.
func list(ctx context.Context, conn *connection, limit int) ([]listed, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	runs := []listed{}
	var page []byte
	for {
		answer, err := conn.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace:     conn.namespace,
			PageSize:      int32(min(limit, 1000)),
			NextPageToken: page,
			Query:         fmt.Sprintf(`WorkflowType = '%s' AND ExecutionStatus != 'ContinuedAsNew'`, contract.WorkflowType),
		})
		if err != nil {
			return nil, conn.refused("listing runs", err)
		}
		for _, info := range answer.GetExecutions() {
			if len(runs) == limit {
				return runs, nil
			}
			runs = append(runs, entryOf(info))
		}
		if page = answer.GetNextPageToken(); len(page) == 0 {
			return runs, nil
		}
	}
}

func entryOf(info *workflow.WorkflowExecutionInfo) listed {
	r := listed{
		Run: info.GetExecution().GetWorkflowId(), RunID: info.GetExecution().GetRunId(),
		Plan: attribute(info, contract.AttributePlan), State: stateOf(info), StartTime: info.GetStartTime().AsTime(),
	}
	if t := info.GetCloseTime(); t != nil {
		closed := t.AsTime()
		r.CloseTime = &closed
	} else if state := attribute(info, contract.AttributeState); state != "" {
		r.State = state
	}
	return r
}

// attribute reads a search attribute of a run, or "".
func attribute(info *workflow.WorkflowExecutionInfo, name string) string {
	var text string
	if payload := info.GetSearchAttributes().GetIndexedFields()[name]; payload != nil {
		if err := converter.GetDefaultDataConverter().FromPayload(payload, &text); err != nil {
			return ""
		}
	}
	return text
}
