package host

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/workflows"
)

// worker makes a worker of a queue, which the host starts.
func (h *Host) worker(queue string, o worker.Options) Registrar {
	if h.registrar != nil {
		return h.registrar(queue)
	}
	w := worker.New(h.client, queue, h.bounded(queue, o))
	h.workers = append(h.workers, w)
	return w
}

// The journal's pollers and slots, whatever the others have: a write takes
// milliseconds, and all wait for one store.
const (
	journalPollers = 4
	journalSlots   = 64
)

// bounded returns the options that all workers share. What ends one of them ends
// [Host.Run], since a worker that no longer polls does nothing, unnoticed.
func (h *Host) bounded(queue string, o worker.Options) worker.Options {
	o.MaxConcurrentActivityTaskPollers = h.options.ActivityPollers
	o.MaxConcurrentActivityExecutionSize = h.options.MaxActivities
	if queue == contract.QueueJournal {
		o.MaxConcurrentActivityTaskPollers = journalPollers
		o.MaxConcurrentActivityExecutionSize = journalSlots
	}
	o.WorkerStopTimeout = h.options.Drain
	o.Interceptors = append(o.Interceptors, &payload.Answering{})
	o.DeploymentOptions = h.options.Deployment.options()
	eager := EagerActivities
	o.MaxEagerActivityReservationsPerWorkflowTask = &eager
	o.OnFatalError = func(err error) {
		select {
		case h.refused <- fmt.Errorf("the worker of the queue %s has stopped: %w", queue, err):
		default: // one reason is enough
		}
	}
	return o
}

func (h *Host) engine(e *activities.Engine) {
	w := h.worker(contract.QueueEngine, worker.Options{
		MaxConcurrentWorkflowTaskPollers:       h.options.WorkflowPollers,
		MaxConcurrentWorkflowTaskExecutionSize: h.options.MaxWorkflows,
		DeadlockDetectionTimeout:               deadlockTimeout,
	})
	w.RegisterWorkflowWithOptions(h.options.interpreter, workflow.RegisterOptions{Name: contract.WorkflowType})
	w.RegisterWorkflowWithOptions(workflows.Call, workflow.RegisterOptions{Name: contract.WorkflowCall})
	own(w, e)
	dynamic(w, e.Node)
	own(h.worker(contract.QueueJournal, worker.Options{DisableWorkflowWorker: true}), e)
}

// own registers the engine's own activities. On its queue they are registered as
// local ones; others are requested on a queue of their own, since long calls can
// fill every other one.
func own(w Registrar, e *activities.Engine) {
	w.RegisterActivityWithOptions(e.Load, activity.RegisterOptions{Name: contract.ActivityLoad})
	w.RegisterActivityWithOptions(e.Local, activity.RegisterOptions{Name: contract.ActivityLocal})
	w.RegisterActivityWithOptions(e.Route, activity.RegisterOptions{Name: contract.ActivityRoute})
	w.RegisterActivityWithOptions(e.Write, activity.RegisterOptions{Name: contract.ActivityJournal})
	w.RegisterActivityWithOptions(e.Close, activity.RegisterOptions{Name: contract.ActivityClose})
	w.RegisterActivityWithOptions(e.Steer, activity.RegisterOptions{Name: contract.ActivitySteer})
	w.RegisterActivityWithOptions(e.Child, activity.RegisterOptions{Name: contract.ActivityChild})
}

func (h *Host) tools(t *activities.Tools) {
	dynamic(h.worker(contract.QueueTools, worker.Options{DisableWorkflowWorker: true}), t.Node)
}

// dynamic registers one function for every activity type "provider/operation".
func dynamic(w Registrar, node func(context.Context, contract.Call) (contract.Outcome, error)) {
	w.RegisterDynamicActivity(activities.Dynamic(node), activity.DynamicRegisterOptions{})
}
