package host_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/store"
)

// TestOneEnd: of all ends that are proposed for a run one stands, in the real stores
// too, and whoever asks is told of that one, with its output, small or large.
func TestOneEnd(t *testing.T) {
	sealed := sealing(t, keys(t, "a")...)
	compiled := compiledPass(t)
	for name, open := range stores(t) {
		if name == "postgres" {
			continue // as the one with blobs
		}
		t.Run(name, func(t *testing.T) {
			if name != "postgres, as the engine's role" {
				lengthy.Skip(t)
			}
			s, err := store.Open(t.Context(), open(t))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			plans := payload.NewPlans(s.Blobs, 0)
			digest, err := plans.Put(t.Context(), compiled)
			require.NoError(t, err)
			e := &activities.Engine{
				Plans: plans, Ledger: s.Ledger, Namespace: "default",
				Outputs: payload.NewOutputs(s.Blobs, sealed, "default", false), Values: payload.NewValues(s.Blobs, sealed, "default"),
			}
			ask := func(request contract.CloseRequest) (contract.Closed, error) { return closes(e, request) }
			for i, size := range []int{10, 100_000, 10, 100_000} {
				id := contract.Identity{Workflow: "ends", Root: fmt.Sprintf("r%d", i), Origin: "r0"} // as resets of the first
				output := json.RawMessage(fmt.Sprintf(`{"x":%q}`, letters(size)))
				request := contract.CloseRequest{Run: id, Plan: digest, Input: plan.DigestOf([]byte("in")), Entries: []contract.JournalEntry{{Node: 1, Visit: 1, State: contract.Succeeded}}}
				succeeds, cancelled := request, request
				succeeds.End, succeeds.Output = contract.RunEnd{State: contract.RunSucceeded, Output: plan.DigestOf(output)}, output
				cancelled.End = contract.RunEnd{State: contract.RunCancelled, Failure: &contract.Failure{Kind: contract.Cancelled, Message: "enough"}}
				answers := make([]contract.Closed, 8)
				if i%2 == 0 {
					answers[0], err = ask(succeeds)
					require.NoError(t, err)
				}
				var all sync.WaitGroup
				for j := range answers {
					proposal := succeeds
					if j%2 == 1 {
						proposal = cancelled
					}
					all.Go(func() {
						var err error
						if answers[j], err = ask(proposal); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				if t.Failed() {
					return
				}
				first := 0
				for j, a := range answers {
					if a.Nodes == "" {
						first++
					} else {
						require.Equal(t, contract.Succeeded, a.Nodes.State(1))
					}
					answers[j].Nodes = ""
					require.Equal(t, answers[0], answers[j])
				}
				require.Equal(t, 1-(i+1)%2, first, "for one it did not stand yet")
				require.Equal(t, id.Root, answers[0].Root)
				stands, err := s.Ledger.Run(t.Context(), id.Workflow, id.Root)
				require.NoError(t, err)
				require.Equal(t, string(stands.State), string(answers[0].End.State))
				require.NotContains(t, string(stands.Value), string(output))
				require.LessOrEqual(t, len(stands.Value), payload.Threshold)
				if stands.State == ledger.RunSucceeded {
					require.JSONEq(t, string(output), string(answers[0].Output))
				}
				if i%2 == 0 {
					require.Equal(t, contract.RunSucceeded, answers[0].End.State)
				}
			}
		})
	}
}

// compiledPass is a plan of one node.
func compiledPass(t *testing.T) *plan.Plan {
	_, catalog, err := host.Catalog(nil, nil)
	require.NoError(t, err)
	text := source("", []string{"a engine/pass 900"}, []string{"$input.x -> a.x", "a.x -> $output.x"})
	compiled, diagnostics := compiler.Compile(compiler.Source{Name: "plan", Text: []byte(text)}, catalog, nil)
	require.False(t, diagnostics.HasErrors(), "%v", diagnostics)
	return compiled
}

// closes asks for engine/close.
func closes(e *activities.Engine, request contract.CloseRequest) (closed contract.Closed, err error) {
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.RegisterActivityWithOptions(e.Close, activity.RegisterOptions{Name: contract.ActivityClose})
	value, err := env.ExecuteActivity(contract.ActivityClose, request)
	if err == nil {
		err = value.Get(&closed)
	}
	return closed, err
}

// TestAnEndWithManyOutcomes: what a run that was reset has to tell again may be more
// than the stores take at once.
func TestAnEndWithManyOutcomes(t *testing.T) {
	lengthy.Skip(t)
	const many = 5000
	compiled := compiledPass(t)
	for name, open := range stores(t) {
		if name == "postgres" || name == "postgres, with blobs" {
			continue // as the one with the engine's role
		}
		t.Run(name, func(t *testing.T) {
			s, err := store.Open(t.Context(), open(t))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			e := &activities.Engine{
				Plans: payload.NewPlans(s.Blobs, 0), Ledger: s.Ledger,
				Outputs: payload.NewOutputs(s.Blobs, payload.Sealing{}, "default", false), Values: payload.NewValues(s.Blobs, payload.Sealing{}, "default"),
			}
			digest, err := e.Plans.Put(t.Context(), compiled)
			require.NoError(t, err)
			request := contract.CloseRequest{
				Run: contract.Identity{Workflow: "w", Root: "again", Origin: "first"}, Plan: digest, Input: plan.DigestOf([]byte("in")),
				End: contract.RunEnd{State: contract.RunCancelled, Failure: &contract.Failure{Kind: contract.Cancelled, Message: "enough"}},
			}
			for i := range many {
				request.Entries = append(request.Entries, contract.JournalEntry{Node: 1, Visit: i + 1, State: contract.Succeeded})
			}
			for range 2 {
				closed, err := closes(e, request)
				require.NoError(t, err)
				require.Equal(t, contract.RunCancelled, closed.End.State)
				all, err := s.Ledger.Outcomes(t.Context(), "w", "again", ledger.Page{Limit: 2 * many})
				require.NoError(t, err)
				require.Len(t, all, many)
				request.Entries = append(request.Entries, contract.JournalEntry{Node: 1, Visit: many + 1, State: contract.Succeeded})
			}
		})
	}
}

// letters returns n letters that do not compress.
func letters(n int) string {
	noise := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	return base64.StdEncoding.EncodeToString(noise)
}
