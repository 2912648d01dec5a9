package siege

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
)

// Fault is what a client does to a run.
type Fault string

// The faults.
const (
	None   Fault = "nothing"
	Cancel Fault = "cancel"
	// CancelLast cancels where the run seems to end.
	CancelLast Fault = "cancel last"
	Flood      Fault = "flood"
	Queries    Fault = "queries"
	Reset      Fault = "reset"
)

// floodSize is how many signals a flood has.
const floodSize = 2000

// draw returns the faults of a run. A run that would last forever is cancelled.
func draw(r *rand.Rand, m *Model) []Fault {
	var faults []Fault
	switch r.IntN(12) {
	case 0, 1:
		faults = append(faults, Cancel)
	case 2:
		faults = append(faults, Flood)
	case 7, 8:
		faults = append(faults, CancelLast)
	case 3:
		faults = append(faults, Queries)
	case 4, 5:
		faults = append(faults, Reset)
	case 6:
		faults = append(faults, Flood, Cancel, Queries)
	}
	lasts := !m.Complete && (m.Plan.DeadlineMS == 0 || m.Plan.DeadlineMS > Late)
	for _, f := range faults {
		lasts = lasts && f != Cancel // the last moment of a run that lasts never comes
	}
	if lasts {
		faults = append(faults, Cancel)
	}
	return faults
}

// meddle injects one fault into a run. It returns when that is done or ctx ends.
func (r *siegedRun) meddle(ctx context.Context, c client.Client, f Fault, after time.Duration) {
	select {
	case <-time.After(after):
	case <-ctx.Done():
		return
	}
	var err error
	switch f {
	case Cancel:
		r.note(func() { r.cancelled = true })
		err = c.CancelWorkflow(ctx, r.id, "")
	case CancelLast:
		r.last(ctx, c)
		r.note(func() { r.cancelled = true })
		err = c.CancelWorkflow(ctx, r.id, "")
	case Flood:
		r.note(func() { r.flooded = true })
		for i := 0; i < floodSize && err == nil; i++ {
			err = c.SignalWorkflow(ctx, r.id, "", "x", i)
		}
	case Queries:
		for i := 0; i < 200 && ctx.Err() == nil; i++ {
			_, _ = c.QueryWorkflow(ctx, r.id, "", contract.QueryState)
		}
	case Reset:
		err = r.reset(ctx, c)
	case None:
	}
	if err != nil {
		// It has ended before, or the server refuses: what matters is how it ends.
		r.note(func() { r.said = append(r.said, fmt.Sprintf("%s: %.100s", f, err)) })
	}
}

// last waits until a run is in a workflow task and has no activities, or has ended.
func (r *siegedRun) last(ctx context.Context, c client.Client) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ; ctx.Err() == nil; <-tick.C {
		about, err := c.DescribeWorkflowExecution(ctx, r.id, "")
		if err != nil {
			continue
		}
		info := about.GetWorkflowExecutionInfo()
		if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING ||
			info.GetHistoryLength() > 6 && len(about.GetPendingActivities()) == 0 && about.GetPendingWorkflowTask() != nil {
			return
		}
	}
}

// tasks lists the workflow tasks that an execution has completed.
func tasks(ctx context.Context, c client.Client, id, run string) (events []int64, err error) {
	it := c.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		event, err := it.Next()
		if err != nil {
			return nil, err
		}
		if event.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			events = append(events, event.GetEventId())
		}
	}
	return events, nil
}

// reset goes back to some workflow task of the execution that is there, as soon as
// it has completed one.
func (r *siegedRun) reset(ctx context.Context, c client.Client) error {
	var run string
	var completed []int64
	for len(completed) == 0 {
		about, err := c.DescribeWorkflowExecution(ctx, r.id, "")
		if err != nil {
			return err
		}
		run = about.GetWorkflowExecutionInfo().GetExecution().GetRunId()
		if completed, err = tasks(ctx, c, r.id, run); err != nil {
			return err
		}
	}
	at := completed[int(r.seed%uint64(len(completed)))]
	answer, err := c.ResetWorkflowExecution(ctx, &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: client.DefaultNamespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: r.id, RunId: run},
		Reason: "siege", WorkflowTaskFinishEventId: at, RequestId: fmt.Sprintf("%s-reset", r.id),
	})
	if err != nil {
		return err
	}
	r.note(func() {
		r.firsts = append(r.firsts, answer.GetRunId())
		r.said = append(r.said, fmt.Sprintf("reset of %s to event %d", run, at))
	})
	return nil
}
