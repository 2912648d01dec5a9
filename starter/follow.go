package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
)

const (
	// refresh is how often a run is asked for its state while it is followed.
	refresh = 250 * time.Millisecond
	// patience is how long a run may not answer before its queue is looked at.
	patience = 3 * time.Second
	// silence is how long a server may be gone while a run is followed: it may be
	// starting again.
	silence = time.Minute
)

// ending is how a run ended.
type ending struct {
	State   contract.RunState `json:"state"`
	Output  json.RawMessage   `json:"output,omitempty"`
	Failure *contract.Failure `json:"failure,omitempty"`
}

// final is the JSON answer for a run that was followed to its end.
type final struct {
	ticket
	ending
}

// follow shows a run until it ends, and prints its output. If ctx ends before,
// the run goes on.
func (p *Program) follow(ctx context.Context, conn *connection, t ticket, run client.WorkflowRun) error {
	if !p.json() {
		p.say("run %s", t.Run)
		if t.UI != "" {
			p.say("%s", t.UI)
		}
	}
	watched, stop := context.WithCancelCause(ctx)
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		if err := p.watch(watched, conn, t.Run); err != nil {
			stop(err)
		}
	}()
	e, err := wait(watched, conn, run)
	stop(nil)
	<-shown
	if err != nil {
		var lost *failure
		switch {
		case ctx.Err() != nil:
			return unanswered("detached; the run %s goes on", t.Run).withHint("%s", p.ways(t.Run))
		case errors.As(context.Cause(watched), &lost):
			return lost.withHint("%s", p.ways(t.Run))
		}
		return err
	}
	return p.finish(t, e)
}

// finish prints how a run ended.
func (p *Program) finish(t ticket, e ending) error {
	if p.json() {
		if err := p.document(final{t, e}); err != nil {
			return err
		}
	} else {
		p.output(e.Output)
	}
	if e.State == contract.RunSucceeded {
		return nil
	}
	if p.json() {
		return &failure{code: exitNegative}
	}
	return negative("the run %s %s%s", t.Run, verb(e.State), because(e.Failure))
}

// output prints a run's output.
func (p *Program) output(output json.RawMessage) {
	if len(output) == 0 {
		return
	}
	var pretty json.RawMessage = output
	if indented, err := json.MarshalIndent(output, "", "  "); err == nil {
		pretty = indented
	}
	text := string(pretty)
	if _, ok := terminal(p.Stdout); ok {
		text = printable(text)
	}
	p.printf("%s\n", text)
}

func verb(s contract.RunState) string {
	switch s {
	case contract.RunSucceeded:
		return "has succeeded"
	case contract.RunCancelled:
		return "was cancelled"
	case contract.RunFailed:
		return "has failed"
	case contract.RunLoading, contract.RunRunning:
		return "is running"
	case stateTerminated:
		return "was terminated"
	case stateTimedOut:
		return "has timed out"
	}
	return "is " + string(s)
}

func because(f *contract.Failure) string {
	if f == nil {
		return ""
	}
	text := ""
	if f.Node != "" {
		text += " at " + f.Node
	}
	if f.Kind != "" {
		text += " (" + string(f.Kind) + ")"
	}
	if f.Message != "" {
		text += ": " + f.Message
	}
	return text
}

// wait waits for a run's end.
func wait(ctx context.Context, conn *connection, run client.WorkflowRun) (ending, error) {
	var output json.RawMessage
	err := run.Get(ctx, &output)
	if err == nil {
		return ending{State: contract.RunSucceeded, Output: output}, nil
	}
	var ended *temporal.WorkflowExecutionError
	if !errors.As(err, &ended) {
		return ending{}, conn.refused("waiting for the run", err)
	}
	return failed(err), nil
}

// failed reads how a run that did not succeed ended.
func failed(err error) ending {
	e := ending{State: contract.RunFailed, Failure: &contract.Failure{
		Kind: contract.FailedKind, Message: err.Error(), Compensated: []string{}, NotCompensated: []string{},
	}}
	var application *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	var terminated *temporal.TerminatedError
	var timeout *temporal.TimeoutError
	var details interface {
		HasDetails() bool
		Details(...any) error
	}
	switch {
	case errors.As(err, &cancelled):
		e.State = contract.RunCancelled
		e.Failure.Kind, e.Failure.Message = contract.Cancelled, "the run was cancelled"
		details = cancelled
	case errors.As(err, &application):
		e.Failure.Message = application.Message()
		details = application
	case errors.As(err, &terminated):
		e.Failure.Message = "the run was terminated from outside; nothing was compensated"
	case errors.As(err, &timeout):
		e.Failure.Kind, e.Failure.Message = contract.Deadline, "Temporal ended the run at its timeout"
	}
	if details != nil && details.HasDetails() {
		var f contract.Failure
		if details.Details(&f) == nil && f.Kind != "" {
			e.Failure = &f
		}
	}
	return e
}

// watch shows a run's state until ctx ends, on a terminal as a list that moves,
// elsewhere as a line for each change, and for programs not at all. Whatever
// keeps the run from going on is told to all. It fails when the server has been silent for too long.
func (p *Program) watch(ctx context.Context, conn *connection, run string) error {
	screen := newScreen(p.Stderr)
	screen.quiet = p.json()
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	begun := time.Now()
	// When the run answered last, and when anybody did.
	answered, server := begun, begun
	var looked time.Time
	away := false
	for {
		state, err := query(ctx, conn, run)
		switch {
		case err == nil:
			answered, server = time.Now(), time.Now()
			screen.show(state, time.Since(begun))
			i := slices.IndexFunc(state.Waiting, func(w contract.Wait) bool { return w.Kind == contract.WaitStore })
			if i >= 0 && !away {
				screen.note(printable("the run waits for the workers' store, and goes on by itself once that is back: " + state.Waiting[i].Detail))
			}
			away = i >= 0
		case ctx.Err() == nil && time.Since(answered) > patience:
			if time.Since(looked) > patience {
				looked = time.Now()
				if held, err := p.hindered(ctx, conn, run); err == nil {
					server = time.Now()
					if held != nil {
						screen.note(printable(held.line()))
					}
				} else if ctx.Err() == nil {
					screen.note("Temporal does not answer at " + conn.address + "; still trying")
				}
			}
			if time.Since(server) > silence {
				return unanswered("Temporal has not answered at %s for %s; whether the run %s goes on is not known", conn.address, silence, run)
			}
		}
		select {
		case <-ctx.Done():
			// The last state shows what the last moment has changed.
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			defer cancel()
			if state, err := query(last, conn, run); err == nil {
				screen.show(state, time.Since(begun))
			}
			return nil
		case <-tick.C:
		}
	}
}

// hindered asks why a run does not answer.
func (p *Program) hindered(ctx context.Context, conn *connection, run string) (*stuck, error) {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	described, err := conn.DescribeWorkflowExecution(bounded, run, "")
	if err != nil {
		return nil, err
	}
	return p.examine(bounded, conn, described, false)
}

// query asks a run for its state.
func query(ctx context.Context, conn *connection, run string) (contract.State, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var state contract.State
	value, err := conn.QueryWorkflow(ctx, run, "", contract.QueryState)
	if err != nil {
		return state, err
	}
	return state, value.Get(&state)
}

// pollers counts the workers that have polled a queue lately.
func pollers(ctx context.Context, conn *connection, queue string, kind enums.TaskQueueType) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d, err := conn.DescribeTaskQueue(ctx, queue, kind)
	if err != nil {
		return 0, err
	}
	return len(d.GetPollers()), nil
}
