package activities_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// drawer stores outputs as they are, under the name of their workflow.
type drawer struct{ err error }

func (d drawer) Keep(_ context.Context, workflow string, output json.RawMessage) ([]byte, error) {
	return append([]byte(workflow+":"), output...), d.err
}

func (d drawer) Give(_ context.Context, workflow string, kept []byte) (json.RawMessage, error) {
	output, ok := bytes.CutPrefix(kept, []byte(workflow+":"))
	if d.err == nil && !ok {
		return nil, contract.Errorf(contract.WorkerLost, "it is another's")
	}
	return output, d.err
}

// counted counts what is stored, as a store of sealed values sees it: no two are
// alike.
type counted struct {
	drawer
	kept *int
}

func (c counted) Keep(ctx context.Context, workflow string, output json.RawMessage) ([]byte, error) {
	*c.kept++
	return c.drawer.Keep(ctx, workflow, append(output, bytes.Repeat([]byte(" "), *c.kept)...))
}

// TestAnOutputIsStoredOnce: a run whose ledger is away does not fill the store of large
// values, however often it is tried to end it. Another run has an output of its own.
func TestAnOutputIsStoredOnce(t *testing.T) {
	b, kept := &recordingLedger{err: errors.New("away")}, 0
	e := environ(t, shape{}.plan(t))
	engine := &activities.Engine{Plans: e.store, Values: inline{}, Ledger: b, Outputs: counted{kept: &kept}}
	e.env.RegisterActivityWithOptions(engine.Close, activity.RegisterOptions{Name: contract.ActivityClose})
	request := contract.CloseRequest{Run: identity, Plan: e.digest, Input: plan.DigestOf([]byte("in"))}
	asSucceeded(&request)
	for range 3 {
		_, err := e.env.ExecuteActivity(contract.ActivityClose, request)
		require.Equal(t, contract.StoreUnavailable, read(t, err).kind)
		require.Equal(t, 1, kept)
	}
	b.err = nil
	_, err := e.env.ExecuteActivity(contract.ActivityClose, request)
	require.NoError(t, err)
	require.Equal(t, 1, kept)
	require.Equal(t, `w:{"x":1} `, string(b.closed[0].Value))
	request.Run.Root = "another"
	_, err = e.env.ExecuteActivity(contract.ActivityClose, request)
	require.NoError(t, err)
	require.Equal(t, 2, kept)
}

// closing asks an engine over a recording ledger to close a run of a plan.
func closing(t *testing.T, b *recordingLedger, d drawer, change func(r *contract.CloseRequest)) (contract.Closed, *failure) {
	t.Helper()
	e := environ(t, shape{}.plan(t))
	engine := &activities.Engine{Plans: e.store, Values: inline{}, Ledger: b, Outputs: d}
	e.env.RegisterActivityWithOptions(engine.Close, activity.RegisterOptions{Name: contract.ActivityClose})
	request := contract.CloseRequest{Run: identity, Plan: e.digest, Input: plan.DigestOf([]byte("in"))}
	change(&request)
	value, err := e.env.ExecuteActivity(contract.ActivityClose, request)
	if err != nil {
		return contract.Closed{}, read(t, err)
	}
	var closed contract.Closed
	require.NoError(t, value.Get(&closed))
	return closed, nil
}

var (
	late        = &contract.Failure{Kind: contract.Timeout, Node: "target", Message: "late", Compensated: []string{}, NotCompensated: []string{}}
	output      = json.RawMessage(`{"x":1}`)
	asSucceeded = func(r *contract.CloseRequest) {
		r.End, r.Output = contract.RunEnd{State: contract.RunSucceeded, Output: plan.DigestOf(output)}, output
	}
	asFailed = func(r *contract.CloseRequest) {
		r.End = contract.RunEnd{State: contract.RunFailed, Failure: late}
	}
	asCancelled = func(r *contract.CloseRequest) {
		r.End = contract.RunEnd{State: contract.RunCancelled, Failure: &contract.Failure{Kind: contract.Cancelled}}
	}
	unloaded = func(propose func(*contract.CloseRequest)) func(*contract.CloseRequest) {
		return func(r *contract.CloseRequest) { propose(r); r.Plan, r.Input = "", "" }
	}
)

// TestClose: the first end that is proposed is recorded, with what came with it,
// and everyone who asks gets that one.
func TestClose(t *testing.T) {
	b := &recordingLedger{}
	closed, f := closing(t, b, drawer{}, func(r *contract.CloseRequest) {
		asSucceeded(r)
		r.Entries = []contract.JournalEntry{{Node: target, Visit: 1, State: contract.Succeeded}}
	})
	require.Nil(t, f)
	want := contract.Closed{Root: "r", End: contract.RunEnd{State: contract.RunSucceeded, Output: plan.DigestOf(output)}, Output: output}
	require.Equal(t, want, closed)
	require.Len(t, b.open, 1, "it was not open")
	require.Equal(t, "o", b.open[0].Origin)
	require.Equal(t, []ledger.Outcome{{Node: "target", Visit: 1, Kind: ledger.NodeSucceeded, Activity: "test/target"}}, b.outcomes)
	require.Equal(t, `w:{"x":1}`, string(b.closed[0].Value))

	for name, propose := range map[string]func(*contract.CloseRequest){
		"again": asSucceeded, "failed": asFailed, "cancelled": asCancelled, "of a plan that was not loaded": unloaded(asCancelled),
	} {
		t.Run(name, func(t *testing.T) {
			closed, f := closing(t, b, drawer{}, propose)
			require.Nil(t, f)
			want := want
			if name != "of a plan that was not loaded" {
				want.Nodes = closed.Nodes
				require.Equal(t, contract.Succeeded, closed.Nodes.State(target), "as it was stated before")
				require.Equal(t, contract.Dropped, closed.Nodes.State(0))
			}
			require.Equal(t, want, closed)
		})
	}

	b = &recordingLedger{}
	closed, f = closing(t, b, drawer{}, asFailed)
	require.Nil(t, f)
	want = contract.Closed{Root: "r", End: contract.RunEnd{State: contract.RunFailed, Failure: late}}
	require.Equal(t, want, closed)
	require.Empty(t, b.closed[0].Value)
	closed, f = closing(t, b, drawer{}, asSucceeded)
	require.Nil(t, f)
	require.NotEmpty(t, closed.Nodes)
	want.Nodes = closed.Nodes
	require.Equal(t, want, closed)

	b = &recordingLedger{}
	_, f = closing(t, b, drawer{}, asCancelled)
	require.Nil(t, f)
	closed, f = closing(t, b, drawer{}, asSucceeded)
	require.Nil(t, f)
	require.Equal(t, contract.RunCancelled, closed.End.State)
	require.Equal(t, contract.Cancelled, closed.End.Failure.Kind)
}

// TestCloseUnloaded: a run whose plan was not loaded is closed where it was opened
// all the same, and else ends as it proposes.
func TestCloseUnloaded(t *testing.T) {
	b := &recordingLedger{}
	closed, f := closing(t, b, drawer{}, unloaded(asFailed))
	require.Nil(t, f)
	require.Equal(t, contract.Closed{Root: "r", End: contract.RunEnd{State: contract.RunFailed, Failure: late}}, closed)
	require.Empty(t, b.open)
	require.Empty(t, b.closed)

	b.open = []ledger.Run{{Workflow: "w", Root: "r", Origin: "o"}}
	closed, f = closing(t, b, drawer{}, unloaded(asCancelled))
	require.Nil(t, f)
	require.Equal(t, contract.RunCancelled, closed.End.State)
	require.Len(t, b.closed, 1)
	require.Equal(t, ledger.RunCancelled, b.closed[0].State)
}

// TestCloseErased: an end of which the ledger only has the state still ends the
// run.
func TestCloseErased(t *testing.T) {
	for _, c := range []struct {
		name    string
		stands  ledger.Run
		propose func(*contract.CloseRequest)
		state   contract.RunState
		output  string
		kind    contract.Kind
	}{
		{"as proposed", ledger.Run{State: ledger.RunSucceeded}, asSucceeded, contract.RunSucceeded, string(output), ""},
		{"otherwise", ledger.Run{State: ledger.RunSucceeded}, asCancelled, contract.RunSucceeded, "", ""},
		{"failed", ledger.Run{State: ledger.RunFailed}, asSucceeded, contract.RunFailed, "", contract.FailedKind},
		{"cancelled", ledger.Run{State: ledger.RunCancelled}, asSucceeded, contract.RunCancelled, "", contract.Cancelled},
		{"a value that does not open", ledger.Run{State: ledger.RunSucceeded, OutputDigest: plan.DigestOf(output), Value: []byte("x")}, asCancelled, contract.RunSucceeded, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.stands.Workflow, c.stands.Root = "w", "r"
			closed, f := closing(t, &recordingLedger{closed: []ledger.Run{c.stands}}, drawer{}, c.propose)
			require.Nil(t, f)
			require.Equal(t, c.state, closed.End.State)
			require.Equal(t, c.output, string(closed.Output))
			if c.kind == "" {
				require.Nil(t, closed.End.Failure)
			} else {
				require.Equal(t, c.kind, closed.End.Failure.Kind)
			}
		})
	}
}

// TestCloseRefusals: what the store cannot do now is retried; what can never
// succeed is not.
func TestCloseRefusals(t *testing.T) {
	stands := func(s ledger.RunState, value string) *recordingLedger {
		return &recordingLedger{closed: []ledger.Run{{Workflow: "w", Root: "r", State: s, OutputDigest: plan.DigestOf(output), Value: []byte(value)}}}
	}
	away := drawer{contract.Errorf(contract.StoreUnavailable, "away")}
	for _, c := range []struct {
		name    string
		b       *recordingLedger
		d       drawer
		propose func(*contract.CloseRequest)
		kind    contract.Kind
		retried bool
	}{
		{"something new", &recordingLedger{err: errors.New("something new")}, drawer{}, asFailed, contract.StoreUnavailable, true},
		{"the ledger is away", &recordingLedger{err: fmt.Errorf("x: %w", ledger.ErrUnavailable)}, drawer{}, asFailed, contract.StoreUnavailable, true},
		{"and no plan was loaded", &recordingLedger{err: fmt.Errorf("x: %w", ledger.ErrUnavailable)}, drawer{}, unloaded(asFailed), contract.StoreUnavailable, true},
		{"opened for another plan", &recordingLedger{err: fmt.Errorf("x: %w", ledger.ErrConflict)}, drawer{}, asFailed, contract.Conflict, false},
		{"not to be stored", &recordingLedger{err: fmt.Errorf("x: %w", ledger.ErrInvalid)}, drawer{}, asFailed, contract.Contract, false},
		{"the output cannot be kept now", &recordingLedger{}, away, asSucceeded, contract.StoreUnavailable, true},
		{"the output cannot be read now", stands(ledger.RunSucceeded, "w:1"), away, asFailed, contract.StoreUnavailable, true},
		{"the outcomes cannot be read now", &recordingLedger{closed: []ledger.Run{{Workflow: "w", Root: "r", State: ledger.RunFailed}}, unread: ledger.ErrUnavailable}, drawer{}, asFailed, contract.StoreUnavailable, true},
		{"terminated", stands(ledger.RunTerminated, ""), drawer{}, asFailed, contract.Conflict, false},
		{"timed out", stands(ledger.RunTimedOut, ""), drawer{}, asFailed, contract.Conflict, false},
		{"no such plan", &recordingLedger{}, drawer{}, func(r *contract.CloseRequest) { asFailed(r); r.Plan = plan.DigestOf([]byte("none")) }, contract.StoreUnavailable, true},
		{"no end", &recordingLedger{}, drawer{}, func(r *contract.CloseRequest) { r.End.State = contract.RunRunning }, contract.Contract, false},
		{"a strange end", &recordingLedger{}, drawer{}, func(r *contract.CloseRequest) { r.End.State = "x" }, contract.Contract, false},
		{"no such node", &recordingLedger{}, drawer{}, func(r *contract.CloseRequest) {
			asFailed(r)
			r.Entries = []contract.JournalEntry{{Node: 99, State: contract.Succeeded}}
		}, contract.Contract, false},
		{"outcomes of no plan", &recordingLedger{}, drawer{}, func(r *contract.CloseRequest) {
			unloaded(asFailed)(r)
			r.Entries = []contract.JournalEntry{{Node: target, State: contract.Succeeded}}
		}, contract.Contract, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(c.b.closed)
			_, f := closing(t, c.b, c.d, c.propose)
			require.NotNil(t, f)
			require.Equal(t, c.kind, f.kind)
			require.Equal(t, c.retried, f.retried)
			require.Len(t, c.b.closed, before)
		})
	}
}

// TestTheLastOutcomesGoWithTheEnd: of more outcomes than go with an end, the first are
// stated before. The history of a run may not have the last ones yet.
func TestTheLastOutcomesGoWithTheEnd(t *testing.T) {
	for _, many := range []int{1000, 1001, 2500} {
		b := &recordingLedger{}
		_, f := closing(t, b, drawer{}, func(r *contract.CloseRequest) {
			asSucceeded(r)
			for i := range many {
				r.Entries = append(r.Entries, contract.JournalEntry{Node: target, Visit: i + 1, State: contract.Succeeded})
			}
		})
		require.Nil(t, f)
		require.Len(t, b.outcomes, many)
		require.Equal(t, 1000, b.last)
		for i, o := range b.outcomes {
			require.Equal(t, i+1, o.Visit)
		}
	}
}
