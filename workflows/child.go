package workflows

import (
	"slices"
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
)

// Call makes one call for a run that may continue as new meanwhile; it is
// registered as [contract.WorkflowCall]. It reports its result by a signal to the
// current execution of the run, and returns it for later queries. A run that has
// ended needs no report.
func Call(ctx workflow.Context, request contract.ChildCall) (contract.Report, error) {
	info := workflow.GetInfo(ctx)
	report := contract.Report{
		Request: request.Call.Request,
		Child:   contract.Child{Workflow: info.WorkflowExecution.ID, Run: info.WorkflowExecution.RunID},
		// The run accepts only what is sealed as it requested.
		SealedWith: request.SealedWith,
	}
	if info.ParentWorkflowExecution == nil {
		return report, temporal.NewNonRetryableApplicationError("a call is made by a run", string(contract.Contract), nil)
	}
	millis := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	ctx = sealedWith(ctx, request.SealedWith)
	var out contract.Outcome
	err := makeCall(ctx, request, workflow.ActivityOptions{
		TaskQueue: request.Queue, ActivityID: request.ActivityID, Summary: request.Summary,
		ScheduleToCloseTimeout: lasting(request.Attempts, millis(request.StartMS), millis(request.TimeoutMS)),
		ScheduleToStartTimeout: millis(request.StartMS), StartToCloseTimeout: millis(request.TimeoutMS), HeartbeatTimeout: millis(request.HeartbeatMS),
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: millis(request.InitialMS), BackoffCoefficient: float64(request.MultiplierMilli) / 1000,
			MaximumInterval: millis(request.MaxMS), MaximumAttempts: request.Attempts, NonRetryableErrorTypes: request.NonRetryable,
		},
	}, &out)
	if err == nil && out.Request != report.Request {
		err = errOther
	}
	switch {
	case err == nil:
		report.Outcome = &out
	case ctx.Err() != nil && temporal.IsCanceledError(err):
		// It was not a run that waits for the call: that recalls it, if anything.
		f := failed(contract.WorkerLost, "the child workflow that made the call was cancelled")
		report.Failure = &contract.CallFailure{Error: f.ErrorPayload}
	default:
		f := readFailure(err, &wait{request: report.Request, key: request.SealedWith, permit: request.Call.Permit})
		report.Failure = &contract.CallFailure{
			Error: f.ErrorPayload, Spent: f.spent, WaitMS: f.wait.Milliseconds(), Unstarted: f.unstarted, WrongQueue: f.wrongQueue,
			Snapshots: f.snapshots, Listed: f.listed,
		}
	}
	steady, _ := workflow.NewDisconnectedContext(ctx)
	told := report
	if bulk(&report) >= byReference/8 {
		// A signal stored by reference is not read, since anybody may send one.
		told.Outcome, told.Failure = nil, nil
	}
	if err := workflow.SignalExternalWorkflow(steady, info.ParentWorkflowExecution.ID, "", contract.SignalReport, told).Get(steady, nil); err != nil {
		workflow.GetLogger(ctx).Info("the run that this call was made for takes no report", "error", err)
	}
	return report, nil
}

// recallChange is what a run and the children that call its effects do since there is
// [contract.SignalRecall].
const recallChange = "engine/recall"

// makeCall makes the call of a child. That of an effect is awaited when it is cancelled, or recalled, unless the
// child was by then in an earlier build: then a cancellation ends the child at once, as it did there.
func makeCall(ctx workflow.Context, request contract.ChildCall, options workflow.ActivityOptions, out *contract.Outcome) error {
	if request.Call.Permit == nil {
		return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), request.Activity, request.Call).Get(ctx, out)
	}
	steady, _ := workflow.NewDisconnectedContext(ctx)
	wanted, recall := workflow.WithCancel(steady)
	recalled := workflow.GetSignalChannel(ctx, contract.SignalRecall)
	left := false
	// It is started before the activity, so that the cancellation of that is requested before the report.
	workflow.Go(steady, func(steady workflow.Context) {
		// Neither can be cancelled, nor fails in another way.
		_ = workflow.Await(steady, func() bool { return ctx.Err() != nil || recalled.Len() > 0 })
		var nothing any
		recalled.ReceiveAsync(&nothing)
		if workflow.GetVersion(steady, recallChange, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
			_ = workflow.Await(steady, func() bool { return ctx.Err() != nil })
			left = true
		}
		recall()
	})
	options.WaitForCancellation = true
	answer := workflow.ExecuteActivity(workflow.WithActivityOptions(wanted, options), request.Activity, request.Call)
	_ = workflow.Await(steady, func() bool { return left || answer.IsReady() })
	if !answer.IsReady() {
		return temporal.NewCanceledError()
	}
	return answer.Get(steady, out)
}

// bulk is how many bytes of foreign values a report has.
func bulk(report *contract.Report) int {
	if report.Outcome != nil {
		return bytesOf(report.Outcome)
	}
	return quoted(report.Failure.Error.Message) + len(report.Failure.Error.Details) + len(report.Failure.Listed)
}

// askEvery is how long a run may fail to notice that a child is lost: terminated,
// reset, or ended for a run that has been reset since.
const askEvery = 15 * time.Minute

// maxWorkflowID is how long an id of a workflow may be where Temporal keeps them in
// columns of 255 characters.
const maxWorkflowID = 255

// adopt waits for a child that an earlier execution has started.
func (r *run) adopt(w *wait) bool {
	if w.child == nil || w.child.Run == "" {
		return false
	}
	w.request = r.requestOf(w)
	if w.due.IsZero() {
		w.due = w.since // it was being asked about
	}
	r.flights = append(r.flights, w)
	return true
}

// reported reports whether a child has reported.
func (r *run) reported() bool { return r.reports.Len() > 0 }

// takeReports receives the reports of children. Reports that nobody waits for any
// longer, or that come from others, are dropped.
func (r *run) takeReports() {
	var report contract.Report
	for r.reports.ReceiveAsync(&report) {
		r.unopened(&report)
		i := slices.IndexFunc(r.flights, func(w *wait) bool {
			return w.kind == waitChild && w.sealed(report.SealedWith) && w.request == report.Request && r.made(w, report.Child)
		})
		switch {
		case i < 0:
		case report.Outcome == nil && report.Failure == nil:
			if w := r.flights[i]; w.future == nil {
				r.inquire(w, true)
			} else {
				w.due = r.now().Add(contract.ShortWait) // it is about to end
			}
		default:
			w := r.flights[i]
			r.flights = slices.Delete(r.flights, i, i+1)
			r.takeReport(w, &report)
		}
		report = contract.Report{}
	}
}

// unopened handles a report for which this worker lacks the key. If a child may
// have sent it, the workflow task fails, and is retried until a worker has the key.
// Otherwise the report is dropped.
func (r *run) unopened(report *contract.Report) {
	if report.Err != nil && slices.ContainsFunc(r.flights, func(w *wait) bool { return w.kind == waitChild && w.sealed(report.SealedWith) }) {
		panic(report.Err)
	}
}

// made reports whether c is the child that makes the call of w.
func (r *run) made(w *wait, c contract.Child) bool {
	r.identified(w)
	return *w.child == c
}

// landChild handles the end of a child, or the answer to a query about it.
func (r *run) landChild(w *wait) {
	if w.asking {
		r.landAnswer(w)
		return
	}
	var report contract.Report
	err := w.future.Get(r.steady, &report)
	if err == nil && !w.sealed(report.SealedWith) {
		err = errOther
	}
	if err == nil && report.Err != nil {
		panic(report.Err) // as in unopened
	}
	if err != nil {
		workflow.GetLogger(r.ctx).Warn("a child workflow has ended without a report", "child", w.child.Workflow, "error", err)
		r.failedCall(w, failed(contract.WorkerLost, "the child workflow that made the call was lost"))
		return
	}
	r.takeReport(w, &report)
}

// resume asks about every child and every open barrier at the point from which a reset
// run continues, since what became of them in between may not have been reported to it. A
// marker records that point for replays.
func (r *run) resume() {
	child := func(w *wait) bool { return w.kind == waitChild && !w.asking && r.identified(w) && w.child.Run != "" }
	if r.resumed || !wasReset(r.info) || !slices.ContainsFunc(r.flights, child) && !r.asksPeople() {
		return
	}
	r.rounds++
	change := "engine/reset#" + strconv.Itoa(r.rounds)
	if workflow.GetVersion(r.steady, change, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return
	}
	r.resumed = true
	for _, w := range r.flights {
		if child(w) {
			r.inquire(w, false)
		}
	}
	r.reconsider()
}

// inquire asks Temporal about a child that should have reported, or says that it
// has ended.
func (r *run) inquire(w *wait, ended bool) {
	w.asking, w.due = true, time.Time{}
	w.future = workflow.ExecuteActivity(workflow.WithActivityOptions(r.steady, workflow.ActivityOptions{
		TaskQueue: contract.QueueJournal, ActivityID: "engine/child/" + r.name(w.node) + "#" + strconv.Itoa(w.launches), Summary: r.plan.Nodes[w.node].ID,
		StartToCloseTimeout: journalTimeout, ScheduleToCloseTimeout: tryTime, RetryPolicy: recording,
	}), contract.ActivityChild, contract.ChildRequest{Run: r.identity(), Child: *w.child, Request: w.request, Ended: ended})
}

func (r *run) landAnswer(w *wait) {
	var result contract.ChildResult
	err := w.future.Get(r.steady, &result)
	w.future, w.asking = nil, false
	switch {
	case err != nil || result.Request != w.request || result.Running:
		if w.due.IsZero() { // else it has said meanwhile that it is about to end
			w.due = r.asked(w)
		}
		r.flights = append(r.flights, w)
	case result.Report == nil || !r.made(w, result.Report.Child):
		r.failedCall(w, failed(contract.WorkerLost, "the child workflow that made the call was lost"))
	default:
		r.takeReport(w, result.Report)
	}
}

// takeReport settles a call by its child's report.
func (r *run) takeReport(w *wait, report *contract.Report) {
	switch {
	case report.Request != w.request:
		r.failedCall(w, failed(errOther.Kind, errOther.Message))
	case report.Outcome != nil:
		r.returned(w)
		if report.Outcome.Unopened {
			r.reopen(w)
			return
		}
		r.answered(w, *report.Outcome)
	case report.Failure != nil:
		r.failedCall(w, readReport(report.Failure))
	default:
		r.failedCall(w, failed(contract.WorkerLost, "the child workflow that made the call has reported nothing"))
	}
}

// readReport reads the failure of a call from its child's report. Without sealing,
// anybody may have sent it, so it is bounded like that of a worker.
func readReport(told *contract.CallFailure) failure {
	f := failed(told.Error.Kind, told.Error.Message)
	f.unstarted, f.wrongQueue = told.Unstarted, told.WrongQueue
	if !f.Kind.Valid() && !f.wrongQueue {
		f.Kind = contract.ServerError
	}
	f.Attempts, f.spent = counted(1, told.Error.Attempts), counted(0, told.Spent)
	f.wait = waits(told.WaitMS)
	f.take(told.Snapshots, told.Listed)
	if len(told.Error.Details) <= contract.MaxDetails {
		f.Details = told.Error.Details
	}
	return f
}
