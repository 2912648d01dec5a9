package activities

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// Local implements the activity engine/local: one in-process node, or $output.
func (e *Engine) Local(ctx context.Context, call contract.Call) (contract.Outcome, error) {
	return run(ctx, e.Plans, e.Values, inProcess(e.Skills), &call)
}

// Node implements the activity types "provider/operation" on the engine's queue:
// nodes of in-process skills and, if this process may call them, of tools.
func (e *Engine) Node(ctx context.Context, call contract.Call) (contract.Outcome, error) {
	defer beat(ctx, &call)()
	return run(ctx, e.Plans, e.Values, either(e.Skills, e.Tools), &call)
}

// Node implements the activity types "provider/operation" on the queue of tools.
func (t *Tools) Node(ctx context.Context, call contract.Call) (contract.Outcome, error) {
	defer beat(ctx, &call)()
	return run(ctx, t.Plans, t.Values, outside(t.Caller), &call)
}

// Dynamic returns the function that Temporal calls for every activity type that is
// a node's "provider/operation".
func Dynamic(node func(context.Context, contract.Call) (contract.Outcome, error)) func(context.Context, converter.EncodedValues) (contract.Outcome, error) {
	return func(ctx context.Context, args converter.EncodedValues) (contract.Outcome, error) {
		var call contract.Call
		if err := args.Get(&call); err != nil {
			// The request is not known, so it counts as lost.
			kind := contract.WorkerLost
			if known := new(contract.Error); errors.As(err, &known) && known.Kind == contract.StoreUnavailable {
				kind = known.Kind // this worker lacks the key; another one may have it
			}
			return contract.Outcome{}, fail(ctx, nil, contract.Errorf(kind, "read the activity's argument: %w", err))
		}
		return node(ctx, call)
	}
}

// beatEvery is well below the interpreter's heartbeat timeout. The SDK sends fewer:
// one in 80 % of that timeout.
const beatEvery = 3 * time.Second

// beat heartbeats until the returned function is called, if the interpreter asks
// for heartbeats. A heartbeat also cancels the call's context when the call is
// cancelled or the run has ended. A call with a permit goes on then if it may have been sent, and
// heartbeats, too: without them nobody would hear what it did.
func beat(ctx context.Context, call *contract.Call) (stop func()) {
	info := activity.GetInfo(ctx)
	beat := contract.Beat{Spent: call.Spent + int(info.Attempt) - 1, Request: call.Request}
	if beat.Spent > 0 {
		activity.RecordHeartbeat(ctx, beat)
	}
	if info.HeartbeatTimeout == 0 {
		return func() {}
	}
	done, over := make(chan struct{}), ctx.Done()
	if call.Permit != nil {
		ctx, over = context.WithoutCancel(ctx), nil
	}
	go func() {
		ticker := time.NewTicker(beatEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				activity.RecordHeartbeat(ctx, beat)
			case <-done:
				return
			case <-over:
				return
			}
		}
	}()
	return func() { close(done) }
}

// find returns a prepared node.
func find(ctx context.Context, plans Plans, digest string, i int) (*node, error) {
	q, err := preparedPlan(ctx, plans, digest)
	if err != nil {
		return nil, err
	}
	if i < 0 || i >= len(q.plan.Nodes) {
		return nil, contract.Errorf(contract.Contract, "plan %s has no node %d", digest, i)
	}
	return q.node(i), nil
}

// waited reports why the store is still unavailable, for a patient request.
func waited(ctx context.Context, plans Plans, patient bool) error {
	if !patient {
		return nil
	}
	if err := plans.Check(ctx); err != nil {
		return contract.Errorf(contract.StoreUnavailable, "the store is away: %w", err)
	}
	return nil
}

// run runs one node: it assembles, validates, calls, validates and routes. The
// answer names the request, as does a failure.
func run(ctx context.Context, plans Plans, values Values, choose choice, call *contract.Call) (contract.Outcome, error) {
	store, stop := storing(ctx, 0)
	defer stop()
	if err := waited(store, plans, call.Patient); err != nil {
		return contract.Outcome{}, of(call, nil).failed(ctx, err)
	}
	n, err := find(store, plans, call.Plan, call.Node)
	if err != nil {
		return contract.Outcome{}, of(call, nil).failed(ctx, err)
	}
	caller, err := choose(n.spec)
	if err != nil {
		return contract.Outcome{}, of(call, nil).failed(ctx, err)
	}
	if call.Probe {
		return contract.Outcome{Request: call.Request, Probed: true}, nil
	}
	var out contract.Outcome
	err = recovered("node "+n.spec.ID, func() (err error) {
		before, stop := storing(ctx, time.Duration(n.spec.TimeoutMS)*time.Millisecond)
		defer stop()
		if err = values.Give(before, call.Run.Workflow, call.Values()...); err != nil {
			return err
		}
		if out, err = n.run(ctx, caller, call); err != nil {
			return err
		}
		return values.Keep(store, call.Run.Workflow, out.Values, call.Lean)
	})
	if attempts := of(call, nil).attempts(ctx); attempts > 1 {
		out.Attempts = attempts
	}
	out.Request = call.Request
	return out, of(call, &n.spec.Retry).failed(ctx, err)
}

func (n *node) run(ctx context.Context, caller Caller, call *contract.Call) (contract.Outcome, error) {
	raw, err := n.assemble(call)
	if err != nil {
		return contract.Outcome{}, err
	}
	if n.spec.Kind == plan.KindOutput {
		return contract.Outcome{Values: []contract.Value{raw}, Output: plan.DigestOf(raw)}, nil
	}
	if n.spec.Guarded() {
		return contract.Outcome{}, contract.Errorf(contract.Blocked, "%s is %s (%s), and only the role effects calls what needs a permit", n.spec.Activity(), n.spec.Effect, n.spec.Trust)
	}
	answer, err := invoke(ctx, caller, n.request(raw, call.Run.Origin))
	if err != nil {
		return contract.Outcome{}, err
	}
	output, err := n.accept(answer.Forms)
	if err != nil {
		return contract.Outcome{}, looked(ctx, err, answer.Snapshots)
	}
	var input any
	if n.spec.RoutesOnInput {
		if input, err = decode(call.Input, "the plan's input"); err != nil {
			return contract.Outcome{}, err
		}
	}
	out, err := n.outcome(output, input)
	if err != nil {
		return contract.Outcome{}, err
	}
	whole, err := plan.Canonical(output)
	if err != nil {
		return contract.Outcome{}, contract.Errorf(contract.InvalidOutput, "the output of %s: %w", n.spec.ID, err)
	}
	out.Input, out.Output, out.Snapshots = plan.DigestOf(raw), plan.DigestOf(whole), answer.Snapshots
	if m := charged(n.spec, output, raw); m != nil {
		out.Spent = m.Amount()
	}
	return out, nil
}

// request asks for a call of the node on behalf of the plan's agent. run is the run's origin.
func (n *node) request(input json.RawMessage, run string) Request {
	return Request{Node: n.spec, Input: input, Agent: n.plan.Agent, Run: run}
}

// accept returns the first form of the output that matches the node's output
// schema. An error is about the best form.
func (n *node) accept(forms []json.RawMessage) (any, error) {
	first := error(contract.Errorf(contract.InvalidOutput, "%s returned nothing", n.spec.ID))
	if n.spec.Structured {
		first = contract.Errorf(contract.InvalidOutput, "%s returned no structuredContent, and the tool declares what that is", n.spec.ID)
	}
	for i, raw := range forms {
		output, err := n.check(n.output, raw, contract.InvalidOutput, "the output of "+n.spec.ID)
		if err == nil {
			return output, nil
		}
		if i == 0 {
			first = err
		}
	}
	return nil, first
}

// invoke calls the operation within the node's own timeout. Whether the deadline
// passed is decided by the context, whatever the call returns.
func invoke(ctx context.Context, caller Caller, r Request) (Answer, error) {
	timeout := time.Duration(r.Node.TimeoutMS) * time.Millisecond
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errNodeTimeout)
	defer cancel()
	if r.Wanted != nil && r.Wanted.Err() != nil {
		return Answer{}, contract.Errorf(contract.Unsent, "%s was not called: nobody wants the call any more", r.Node.Activity())
	}
	answer, err := within(ctx, caller, r)
	if err != nil && errors.Is(context.Cause(ctx), errNodeTimeout) && kindOf(ctx, err).Kind != contract.Unsent {
		late := contract.Errorf(contract.Timeout, "%s did not answer within %s", r.Node.Activity(), timeout)
		return Answer{}, looked(ctx, late, kindOf(ctx, err).Snapshots)
	}
	return answer, err
}

// looked is the failure of a call with its snapshots, which may be nil.
func looked(ctx context.Context, err error, s *contract.Snapshots) error {
	if s == nil {
		return err
	}
	e := *kindOf(ctx, err)
	e.Snapshots = s
	return &e
}

// result is that of a caller.
type result struct {
	answer Answer
	err    error
}

// overtime is how long a call may continue after its context has ended. A call that
// does not return by then is abandoned.
const overtime = 500 * time.Millisecond

// within calls the operation, and waits no longer than its context allows, even for
// code that ignores it.
func within(ctx context.Context, caller Caller, r Request) (Answer, error) {
	done := make(chan result, 1)
	go func() {
		var got result
		got.err = recovered("node "+r.Node.ID, func() (err error) {
			got.answer, err = caller.Call(ctx, r)
			return err
		})
		done <- got
	}()
	select {
	case got := <-done:
		return got.answer, got.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(overtime)
	defer timer.Stop()
	select {
	case got := <-done:
		return got.answer, got.err
	case <-timer.C:
		return Answer{}, ctx.Err()
	}
}

var errNodeTimeout = errors.New("the node's timeout has passed")
