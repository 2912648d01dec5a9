package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
)

// standing is a ledger that already has an end of every run, from a workflow task
// that Temporal discarded.
type standing struct {
	activities.Ledger
	end      ledger.Run
	outcomes []ledger.Outcome
}

func (standing) OpenRun(context.Context, ledger.Run) error                       { return nil }
func (standing) RecordOrder(context.Context, string, string, ledger.Order) error { return nil }

func (standing) RecordOutcomes(context.Context, string, string, []ledger.Outcome) error {
	return ledger.ErrConflict
}
func (s standing) Run(_ context.Context, workflow, root string) (ledger.Run, error) {
	s.end.Workflow, s.end.Root = workflow, root
	return s.end, nil
}
func (s standing) CloseRun(ctx context.Context, r ledger.Run, _ []ledger.Outcome) (ledger.Run, bool, error) {
	have, err := s.Run(ctx, r.Workflow, r.Root)
	return have, true, err
}
func (s standing) Outcomes(context.Context, string, string, ledger.Page) ([]ledger.Outcome, error) {
	return s.outcomes, nil
}

// TestAnEndThatStood: the query reports the outcomes of nodes that the ledger has,
// whatever they were here.
func TestAnEndThatStood(t *testing.T) {
	failure := json.RawMessage(`{"kind":"timeout","node":"large","message":"late","compensated":[],"not_compensated":[]}`)
	of := func(node string, kind ledger.Kind) ledger.Outcome {
		return ledger.Outcome{Node: node, Visit: 1, Kind: kind}
	}
	graphs := map[string]stage.Graph{}
	for _, g := range stage.Graphs() {
		graphs[g.Plan+" "+g.Input] = g
	}
	for _, c := range []struct {
		name, graph string
		ledger      standing
		state       contract.RunState
		nodes       map[string]contract.NodeState
		counts      contract.Counts
		settled     string
	}{
		{
			"less", `diamond {"n":11}`, standing{end: ledger.Run{State: ledger.RunFailed, Failure: failure}, outcomes: []ledger.Outcome{
				of("split", ledger.NodeSucceeded), of("large", ledger.NodeFailed),
			}}, contract.RunFailed,
			map[string]contract.NodeState{"split": contract.Succeeded, "large": contract.Failed, "small": contract.Dropped, "merge": contract.Dropped},
			contract.Counts{Succeeded: 1, Failed: 1, Dropped: 2}, "2 of 4",
		},
		{
			"failed here", `error_into_skipped {"help":false}`, standing{end: ledger.Run{State: ledger.RunCancelled, Failure: failure}}, contract.RunCancelled,
			map[string]contract.NodeState{"broken": contract.Dropped, "helper": contract.Dropped, "rescue": contract.Dropped},
			contract.Counts{Dropped: 3}, "0 of 3",
		},
		{
			"more", `error_into_skipped {"help":false}`, standing{end: ledger.Run{State: ledger.RunFailed, Failure: failure}, outcomes: []ledger.Outcome{
				of("broken", ledger.NodeSucceeded), of("helper", ledger.NodeSkipped), of("rescue", ledger.NodeSucceeded),
			}}, contract.RunFailed,
			map[string]contract.NodeState{"broken": contract.Succeeded, "helper": contract.Skipped, "rescue": contract.Succeeded},
			contract.Counts{Succeeded: 2, Skipped: 1}, "3 of 3",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := graphs[c.graph]
			env := environment(t, c.ledger)
			env.ExecuteWorkflow(contract.WorkflowType, contract.Start{Source: g.Source(t), Input: json.RawMessage(g.Input)})
			require.Error(t, env.GetWorkflowError())
			value, err := env.QueryWorkflow(contract.QueryState)
			require.NoError(t, err)
			var state contract.State
			require.NoError(t, value.Get(&state))
			require.Equal(t, c.state, state.State)
			require.Equal(t, c.counts, state.Counts)
			nodes := map[string]contract.NodeState{}
			for _, n := range state.Nodes {
				nodes[n.ID] = n.State
				if n.State != contract.Failed {
					require.Nil(t, n.Error)
				}
				if n.State == contract.Dropped {
					require.Empty(t, n.EndedAt)
				}
			}
			require.Equal(t, c.nodes, nodes)
			value, err = env.QueryWorkflow("__temporal_workflow_metadata")
			require.NoError(t, err)
			var shown sdkpb.WorkflowMetadata
			require.NoError(t, value.Get(&shown))
			require.Contains(t, shown.GetCurrentDetails(), c.settled+" nodes settled")
		})
	}
}

// TestManyOutcomesAtTheEnd: ordinary activities send them before the end, and if an
// end is already recorded, the run ends with that, and not as refused.
func TestManyOutcomesAtTheEnd(t *testing.T) {
	const skipped = 2600
	var nodes, edges strings.Builder
	for i := range skipped {
		fmt.Fprintf(&nodes, "  - {id: n%d, template: engine/pass, timeout_ms: 500, %s}\n", i, passing)
		fmt.Fprintf(&edges, "  - {from_node: $input, from_port: x, to_node: n%d, to_port: x, edge_type: conditional, required: true, when: value == 'never'}\n", i)
	}
	edges.WriteString("  - $input.x -> $output.x\n")
	source := document("", nodes.String(), edges.String())
	failure := json.RawMessage(`{"kind":"timeout","node":"n1","message":"late","compensated":[],"not_compensated":[]}`)
	for name, l := range map[string]activities.Ledger{
		"none stands": noLedger{},
		"one stands":  standing{end: ledger.Run{State: ledger.RunFailed, Failure: failure}},
	} {
		t.Run(name, func(t *testing.T) {
			env := environment(t, l)
			env.SetOnLocalActivityStartedListener(func(info *activity.Info, _ context.Context, _ []any) {
				if info.ActivityType.Name == contract.ActivityJournal {
					t.Error("what is told may be forgotten")
				}
			})
			env.ExecuteWorkflow(contract.WorkflowType, contract.Start{Source: source, Input: json.RawMessage(`{"x":"y"}`)})
			err := env.GetWorkflowError()
			value, queried := env.QueryWorkflow(contract.QueryState)
			require.NoError(t, queried)
			var state contract.State
			require.NoError(t, value.Get(&state))
			if name == "none stands" {
				require.NoError(t, err)
				require.Equal(t, contract.Counts{Skipped: skipped}, state.Counts)
				return
			}
			require.Error(t, err)
			require.Equal(t, contract.Timeout, state.Failure.Kind)
			require.Equal(t, contract.Counts{Dropped: skipped}, state.Counts)
		})
	}
}

// TestWhoClosesWithGarbage: a run asks again after an invalid answer, each time
// later; it does not wait long once a store that was unavailable for hours is back.
func TestWhoClosesWithGarbage(t *testing.T) {
	for name, c := range map[string]struct {
		takes       time.Duration
		err         error
		asked       int
		after, late time.Duration
	}{
		"garbage": {0, nil, 150, 24 * time.Hour, 48 * time.Hour},
		"away":    {time.Hour, temporal.NewNonRetryableApplicationError("away", string(contract.StoreUnavailable), nil), 20, 20 * time.Hour, 20*time.Hour + time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			env := environment(t, noLedger{})
			env.OnActivity(contract.ActivityClose, mock.Anything, mock.Anything).Return(func(_ context.Context, request contract.CloseRequest) (contract.Closed, error) {
				return contract.Closed{Root: "another", End: request.End}, c.err
			}).After(c.takes).Times(c.asked)
			env.OnActivity(contract.ActivityClose, mock.Anything, mock.Anything).Return(func(_ context.Context, request contract.CloseRequest) (contract.Closed, error) {
				return contract.Closed{Root: request.Run.Root, End: request.End, Output: request.Output}, nil
			}).Once()
			began := env.Now()
			env.ExecuteWorkflow(contract.WorkflowType, contract.Start{Source: chain(1), Input: json.RawMessage(`{"x":"y"}`)})
			require.NoError(t, env.GetWorkflowError())
			env.AssertExpectations(t)
			took := env.Now().Sub(began)
			require.Greater(t, took, c.after)
			require.Less(t, took, c.late)
		})
	}
}

// TestAnotherRunsEnd: nothing is taken from an answer to the run before a reset,
// not even what the right answer lacks.
func TestAnotherRunsEnd(t *testing.T) {
	env := environment(t, noLedger{})
	failure := contract.Failure{Kind: contract.Timeout, Node: "n0", Message: "late", Compensated: []string{}, NotCompensated: []string{}}
	another := failure
	another.Diagnostics = json.RawMessage(`[{"code":"x"}]`)
	env.OnActivity(contract.ActivityClose, mock.Anything, mock.Anything).Return(contract.Closed{
		Root: "another", End: contract.RunEnd{State: contract.RunFailed, Failure: &another, Output: "another's"},
		Output: json.RawMessage(`1`), Nodes: contract.Letters([]contract.NodeState{contract.Failed}),
	}, nil).Once()
	env.OnActivity(contract.ActivityClose, mock.Anything, mock.Anything).Return(func(_ context.Context, request contract.CloseRequest) (contract.Closed, error) {
		return contract.Closed{Root: request.Run.Root, End: contract.RunEnd{State: contract.RunFailed, Failure: &failure}}, nil
	}).Once()
	env.ExecuteWorkflow(contract.WorkflowType, contract.Start{Source: chain(1), Input: json.RawMessage(`{"x":"y"}`)})
	var application *temporal.ApplicationError
	require.ErrorAs(t, env.GetWorkflowError(), &application)
	var got contract.Failure
	require.NoError(t, application.Details(&got))
	require.Equal(t, failure, got)
	value, err := env.QueryWorkflow(contract.QueryState)
	require.NoError(t, err)
	var state contract.State
	require.NoError(t, value.Get(&state))
	require.Equal(t, contract.Counts{Succeeded: 1}, state.Counts)
}

// slow is a ledger that accepts no end until it is back.
type slow struct {
	standing
	back *atomic.Bool
}

func (slow) RecordOutcomes(context.Context, string, string, []ledger.Outcome) error { return nil }
func (s slow) CloseRun(ctx context.Context, r ledger.Run, last []ledger.Outcome) (ledger.Run, bool, error) {
	if !s.back.Load() {
		return ledger.Run{}, false, errors.New("the ledger is away")
	}
	return s.standing.CloseRun(ctx, r, last)
}

// TestARunThatClosesSaysWhatItWaitsFor: the ledger is away when a run ends.
func TestARunThatClosesSaysWhatItWaitsFor(t *testing.T) {
	var g stage.Graph
	for _, of := range stage.Graphs() {
		if of.Plan == "error_into_skipped" {
			g = of
		}
	}
	var back atomic.Bool
	env := environment(t, slow{standing{end: ledger.Run{State: ledger.RunCancelled}}, &back})
	var waiting []contract.Wait
	env.RegisterDelayedCallback(func() {
		defer back.Store(true)
		value, err := env.QueryWorkflow(contract.QueryState)
		require.NoError(t, err)
		var state contract.State
		require.NoError(t, value.Get(&state))
		require.Equal(t, contract.RunRunning, state.State)
		waiting = state.Waiting
	}, 10*time.Second)
	env.ExecuteWorkflow(contract.WorkflowType, contract.Start{Source: g.Source(t), Input: json.RawMessage(g.Input)})
	require.True(t, env.IsWorkflowCompleted())
	require.Len(t, waiting, 1)
	require.Equal(t, contract.WaitJournal, waiting[0].Kind)
	require.NotEmpty(t, waiting[0].Since)
	require.Contains(t, waiting[0].Detail, "the run's end")
}
