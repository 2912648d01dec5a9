package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

const (
	// graceTimeout is what an activity has beyond the node's own timeout, to
	// notice that timeout and to report it.
	graceTimeout = 10 * time.Second
	// heartbeatTimeout is how long a worker may be silent before it counts as
	// lost. A node whose own timeout is no longer needs no heartbeats: its
	// activity ends as soon. Each one that has them costs the server a timer.
	heartbeatTimeout = 10 * time.Second
	// localGrace is the same as graceTimeout for local activities, which need
	// no round trip to report.
	localGrace = time.Second
)

// trouble counts what befell a node outside its contract.
type trouble struct {
	// lost counts workers that were lost with it, waits the times that it was
	// scheduled again.
	lost, waits int
	// spent counts the contract's attempts that were used up before.
	spent int
}

// launch starts node i.
func (r *run) launch(i int, t trouble) {
	n := &r.plan.Nodes[i]
	call := r.request(i, t.spent)
	f := &flight{local: n.Local}
	if n.Local {
		f.future = workflow.ExecuteLocalActivity(r.localOptions(i), contract.ActivityLocal, call)
	} else {
		r.meter.emit(size(&call))
		f.future = workflow.ExecuteActivity(r.options(i, t.spent), n.Activity(), call)
	}
	f.land = func(future workflow.Future) { r.land(i, t, future) }
	r.flights = append(r.flights, f)
}

// request assembles what the activity of node i needs: the delivered edges that
// fill its ports, and the plan's input where an expression reads it.
func (r *run) request(i, spent int) contract.Call {
	call := contract.Call{Run: r.identity(), Plan: r.head.Digest, Node: i, Visit: 1, Spent: spent}
	if n := &r.plan.Nodes[i]; n.ReadsInput || n.RoutesOnInput {
		call.Input = r.head.Whole
	}
	for _, e := range r.deliveries(i) {
		edge := &r.plan.Edges[e]
		d := contract.Delivery{Edge: e}
		if edge.Type == plan.Error {
			d.Error = r.errors[edge.From]
		} else {
			values := r.values[edge.From]
			d.Value = at(values, r.plan.ValueAt(e))
			d.Output = at(values, r.plan.OutputAt(e))
		}
		call.Deliveries = append(call.Deliveries, d)
	}
	return call
}

func at(values []contract.Value, i int) contract.Value {
	if i < 0 || i >= len(values) {
		return nil
	}
	return values[i]
}

func (r *run) identity() contract.Identity {
	return contract.Identity{Workflow: r.info.WorkflowExecution.ID, Root: r.root, Origin: r.origin}
}

// size is about how many bytes a request adds to the workflow task: what is
// large goes by reference.
func size(call *contract.Call) int {
	n := len(call.Input)
	for _, d := range call.Deliveries {
		n += len(d.Value) + len(d.Output)
		if d.Error != nil {
			n += len(d.Error.Message) + len(d.Error.Details)
		}
	}
	return emitted(n)
}

// options are the activity options of node i, from its contract. The retry
// policy counts the contract's failures only: a lost worker (Temporal's own
// timeouts) and a store that is away come back at once, and the run reschedules
// the node.
func (r *run) options(i, spent int) workflow.Context {
	n := &r.plan.Nodes[i]
	queue := contract.QueueTools
	if n.InProcess {
		queue = contract.QueueEngine
	}
	timeout := time.Duration(n.TimeoutMS) * time.Millisecond
	heartbeat := heartbeatTimeout
	if timeout <= heartbeatTimeout {
		heartbeat = 0
	}
	policy := retryPolicy(&n.Retry, spent)
	policy.NonRetryableErrorTypes = []string{"TemporalTimeout:StartToClose", "TemporalTimeout:Heartbeat", string(contract.StoreUnavailable)}
	return workflow.WithActivityOptions(r.ctx, workflow.ActivityOptions{
		TaskQueue:           queue,
		ActivityID:          n.ID + "#1",
		Summary:             n.ID,
		StartToCloseTimeout: timeout + graceTimeout,
		HeartbeatTimeout:    heartbeat,
		RetryPolicy:         policy,
	})
}

// localOptions are the options of a node that runs as a local activity, and of
// $output. What a local activity can use up in all is bounded by its attempts.
func (r *run) localOptions(i int) workflow.Context {
	n := &r.plan.Nodes[i]
	timeout := time.Duration(n.TimeoutMS)*time.Millisecond + localGrace
	retry := n.Retry
	if n.Kind == plan.KindOutput {
		timeout = graceTimeout
		retry = plan.Retry{MaxAttempts: 1, MultiplierMilli: 1000}
	}
	return workflow.WithLocalActivityOptions(r.ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout:    timeout,
		ScheduleToCloseTimeout: time.Duration(r.plan.Limits.DeadlineMS) * time.Millisecond,
		Summary:                n.ID,
		RetryPolicy:            retryPolicy(&retry, 0),
	})
}

func retryPolicy(retry *plan.Retry, spent int) *temporal.RetryPolicy {
	return &temporal.RetryPolicy{
		InitialInterval:    time.Duration(max(retry.InitialMS, 1)) * time.Millisecond,
		BackoffCoefficient: float64(retry.MultiplierMilli) / 1000,
		MaximumInterval:    time.Duration(max(retry.MaxMS, retry.InitialMS, 1)) * time.Millisecond,
		MaximumAttempts:    int32(max(retry.MaxAttempts-spent, 1)),
	}
}

// route asks which error edges of failed node i hold, where one has a predicate.
// It is asked again while the store cannot be reached.
func (r *run) route(i int, t trouble) {
	n := &r.plan.Nodes[i]
	request := contract.RouteRequest{Run: r.identity(), Plan: r.head.Digest, Node: i, Error: *r.errors[i]}
	if n.RoutesOnInput {
		request.Input = r.head.Whole
	}
	ctx := workflow.WithLocalActivityOptions(r.ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: graceTimeout,
		Summary:             n.ID,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	r.flights = append(r.flights, &flight{
		local:  true,
		future: workflow.ExecuteLocalActivity(ctx, contract.ActivityRoute, request),
		land: func(future workflow.Future) {
			var result contract.RouteResult
			if err := future.Get(r.ctx, &result); err != nil {
				failure := readFailure(err, true)
				if failure.Kind == contract.StoreUnavailable {
					r.later(i, t, func(t trouble) { r.route(i, t) })
					return
				}
				r.errors[i].Message = "a predicate of its error edges failed: " + failure.Message + "; the failure was: " + r.errors[i].Message
				r.fail(i, nil)
				return
			}
			r.fail(i, result.Held)
		},
	})
}
