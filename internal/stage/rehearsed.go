package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
)

// updated is the outcome of an update.
type updated struct {
	id        string
	accepted  atomic.Bool
	done      chan struct{}
	converter converter.DataConverter
	value     any
	err       error
}

// Accept implements testsuite.UpdateCallbacks.
func (u *updated) Accept() { u.accepted.Store(true) }

// Reject implements testsuite.UpdateCallbacks.
func (u *updated) Reject(err error) { u.Complete(nil, err) }

// Complete implements testsuite.UpdateCallbacks.
func (u *updated) Complete(value any, err error) {
	u.value, u.err = value, err
	close(u.done)
}

// WorkflowID implements client.WorkflowUpdateHandle.
func (u *updated) WorkflowID() string { return u.id }

// RunID implements client.WorkflowUpdateHandle.
func (u *updated) RunID() string { return "" }

// UpdateID implements client.WorkflowUpdateHandle.
func (u *updated) UpdateID() string { return "" }

// Get implements client.WorkflowUpdateHandle.
func (u *updated) Get(ctx context.Context, into any) error {
	select {
	case <-u.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if u.err != nil || into == nil {
		return u.err
	}
	p, err := u.converter.ToPayload(u.value)
	if err != nil {
		return err
	}
	return u.converter.FromPayload(p, into)
}

// rehearsed is a run in Temporal's test environment.
type rehearsed struct {
	scene *scene
	id    string
	// root is the run's id, and origin that of the run which it continues after a reset, or its
	// own.
	root, origin string
	options      client.StartWorkflowOptions
	kind         any
	args         []any
	// free is closed when timers need not wait any more, and pass gets how long they need not.
	free chan struct{}
	pass chan time.Duration

	mu sync.Mutex
	// now is the execution that goes on, or the last one.
	now *execution
	// past is how many events the executions before had.
	past int

	// done is closed when the run has ended, with err.
	done chan struct{}
	err  error
}

// execution is one of those as which a run continues.
type execution struct {
	env *testsuite.TestWorkflowEnvironment
	// started is closed when its workflow has begun, and ended when it takes no callback any
	// more.
	started, ended chan struct{}
	// length is that of its history, and timers of those that it has started.
	length, timers atomic.Int64
}

// holding is an activity that lasts for as long as time is to be real: while one is under
// way, the test environment does not skip time.
const holding = "stage/real-time"

// execute makes an execution, which continues one or not.
func (r *rehearsed) execute(continued bool) *execution {
	x := &execution{started: make(chan struct{}), ended: make(chan struct{})}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	x.env = suite.NewTestWorkflowEnvironment()
	x.env.SetStartTime(time.Now())
	x.env.SetTestTimeout(patience)
	x.env.SetStartWorkflowOptions(r.options)
	x.env.SetWorkerOptions(worker.Options{
		DeadlockDetectionTimeout: time.Minute,
		Interceptors:             []interceptor.WorkerInterceptor{&realTime{run: r, started: x.started}},
	})
	if continued {
		x.env.SetContinuedExecutionRunID(r.root)
	}
	r.scene.register(x.env)
	if reflect.TypeOf(r.kind).Kind() == reflect.Func {
		x.env.RegisterWorkflow(r.kind) // one of the test, in place of the interpreter
	}
	x.counts()
	x.env.RegisterActivityWithOptions(func(ctx context.Context) (passes time.Duration, err error) {
		select {
		case <-r.free:
		case passes = <-r.pass:
		case <-x.ended:
		}
		return passes, nil
	}, activity.RegisterOptions{Name: holding})
	return x
}

// counts keeps the length of the history that a server would have, about: a run goes by it
// when it continues as new.
func (x *execution) counts() {
	x.add(3)
	x.env.SetOnActivityStartedListener(func(*activity.Info, context.Context, converter.EncodedValues) { x.add(6) })
	x.env.SetOnLocalActivityStartedListener(func(*activity.Info, context.Context, []any) { x.add(1) })
	x.env.SetOnTimerScheduledListener(func(string, time.Duration) {
		x.timers.Add(1)
		x.add(2)
	})
}

func (x *execution) add(events int64) { x.env.SetCurrentHistoryLength(int(x.length.Add(events))) }

// play executes the run, and those as which it continues.
func (r *rehearsed) play(args []any) {
	for x := r.now; ; {
		err := x.play(r.kind, args)
		var again *workflow.ContinueAsNewError
		if !errors.As(err, &again) {
			r.err = err
			close(r.done)
			close(x.ended)
			return
		}
		args = nil
		for _, p := range again.Input.GetPayloads() {
			args = append(args, converter.NewRawValue(p))
		}
		last := x
		x = r.execute(true)
		r.mu.Lock()
		r.past += int(last.length.Load())
		r.now = x
		r.mu.Unlock()
		close(last.ended)
	}
}

func (x *execution) play(kind any, args []any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the run stands still: %v", p)
		}
	}()
	x.env.ExecuteWorkflow(kind, args...)
	return x.env.GetWorkflowError()
}

// do does something in the loop of the execution that goes on, and returns that, or nil if the
// run has ended.
func (r *rehearsed) do(f func(*execution)) *execution {
	for !r.over() {
		r.mu.Lock()
		x := r.now
		r.mu.Unlock()
		select {
		case <-x.started:
		case <-x.ended:
			continue
		}
		done := make(chan struct{})
		x.env.RegisterDelayedCallback(func() {
			defer close(done)
			f(x)
		}, 0)
		select {
		case <-done:
			return x
		case <-x.ended:
		}
		select {
		case <-done:
			return x
		default:
		}
	}
	return nil
}

func (r *rehearsed) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// GetID implements client.WorkflowRun.
func (r *rehearsed) GetID() string { return r.id }

// GetFirstExecutionRunID implements client.WorkflowRun.
func (r *rehearsed) GetFirstExecutionRunID() string { return r.root }

// GetRunID implements client.WorkflowRun.
func (r *rehearsed) GetRunID() string { return r.root }

// Get implements client.WorkflowRun.
func (r *rehearsed) Get(ctx context.Context, into any) error {
	select {
	case <-r.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if r.err != nil {
		var failed *temporal.WorkflowExecutionError
		if errors.As(r.err, &failed) {
			return failed.Unwrap()
		}
		return r.err
	}
	if into == nil {
		return nil
	}
	return r.now.env.GetWorkflowResult(into)
}

// GetWithOptions implements client.WorkflowRun.
func (r *rehearsed) GetWithOptions(ctx context.Context, into any, _ client.WorkflowRunGetOptions) error {
	return r.Get(ctx, into)
}

// realTime starts an activity beside each run for which time is real, and gives the run an
// id of its own.
type realTime struct {
	interceptor.WorkerInterceptorBase
	run     *rehearsed
	started chan struct{}
}

// InterceptWorkflow implements interceptor.WorkerInterceptor.
func (i *realTime) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &inbound{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}, realTime: i}
}

type inbound struct {
	interceptor.WorkflowInboundInterceptorBase
	*realTime
}

// ExecuteWorkflow implements interceptor.WorkflowInboundInterceptor.
func (i *inbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	if info := workflow.GetInfo(ctx); info.ParentWorkflowExecution == nil {
		info.WorkflowExecution.RunID, info.FirstRunID, info.OriginalRunID = i.run.root, i.run.origin, i.run.origin
		beside, _ := workflow.NewDisconnectedContext(ctx)
		beside = workflow.WithActivityOptions(beside, workflow.ActivityOptions{
			TaskQueue: contract.QueueEngine, StartToCloseTimeout: 365 * 24 * time.Hour,
		})
		hold := func() workflow.Future { return workflow.ExecuteActivity(beside, holding) }
		held := hold()
		workflow.Go(beside, func(ctx workflow.Context) {
			for {
				var passes time.Duration
				if held.Get(ctx, &passes) != nil || passes == 0 || workflow.Sleep(ctx, passes) != nil {
					return
				}
				held = hold()
			}
		})
		close(i.started)
	}
	return i.Next.ExecuteWorkflow(ctx, in)
}
