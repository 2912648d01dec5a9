package main

import (
	"context"
	"encoding/json"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/host"
)

const (
	handQueue = "bench-hand"
	handChain = "bench.Chain"
	handFan   = "bench.Fan"
	handEcho  = "bench.Echo"
	// handTools is handChain with handTool, which calls the executable of echoProgram.
	handTools = "bench.Tools"
	handTool  = "bench.Tool"
)

// handWorker is a worker for the hand-written side.
func handWorker(c client.Client) worker.Worker {
	eager := host.EagerActivities
	w := worker.New(c, handQueue, worker.Options{
		MaxConcurrentWorkflowTaskPollers: 8, MaxConcurrentActivityTaskPollers: pollers,
		MaxEagerActivityReservationsPerWorkflowTask: &eager,
	})
	w.RegisterWorkflowWithOptions(chainOf(handEcho), workflow.RegisterOptions{Name: handChain})
	w.RegisterWorkflowWithOptions(chainOf(handTool), workflow.RegisterOptions{Name: handTools})
	w.RegisterWorkflowWithOptions(fanWorkflow, workflow.RegisterOptions{Name: handFan})
	w.RegisterActivityWithOptions(echo, activity.RegisterOptions{Name: handEcho})
	w.RegisterActivityWithOptions(callTool, activity.RegisterOptions{Name: handTool})
	return w
}

func echo(_ context.Context, in json.RawMessage) (json.RawMessage, error) { return in, nil }

func callTool(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
	program := echoProgram["bench"]
	return program.Call(ctx, "stdin", in)
}

func handOptions(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		// As long as the engine gives a node of these plans. What a busy server loses
		// is tried again on both sides.
		StartToCloseTimeout: ordinary*time.Millisecond + 10*time.Second,
	})
}

// chainOf is what one writes by hand for a chain of n activities.
func chainOf(activity string) func(ctx workflow.Context, n int, value json.RawMessage) (json.RawMessage, error) {
	return func(ctx workflow.Context, n int, value json.RawMessage) (json.RawMessage, error) {
		ctx = handOptions(ctx)
		for range n {
			if err := workflow.ExecuteActivity(ctx, activity, value).Get(ctx, &value); err != nil {
				return nil, err
			}
		}
		return value, nil
	}
}

// fanWorkflow is what one writes by hand for n activities, width at a time.
func fanWorkflow(ctx workflow.Context, n, width int, value json.RawMessage) (json.RawMessage, error) {
	ctx = handOptions(ctx)
	group := workflow.NewWaitGroup(ctx)
	permits := workflow.NewSemaphore(ctx, int64(width))
	var failed error
	for range n {
		if err := permits.Acquire(ctx, 1); err != nil {
			return nil, err
		}
		group.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer group.Done()
			defer permits.Release(1)
			var out json.RawMessage
			if err := workflow.ExecuteActivity(ctx, handEcho, value).Get(ctx, &out); err != nil {
				failed = err
			}
		})
	}
	group.Wait(ctx)
	return value, failed
}
