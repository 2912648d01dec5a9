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
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/store"
)

// TestOneEnd: of all ends that are proposed for a run one stands, in the real stores
// too, and whoever asks is told of that one, with its output, small or large.
func TestOneEnd(t *testing.T) {
	sealed := sealing(t, keys(t, "a")...)
	_, catalog, err := host.Catalog(nil, nil)
	require.NoError(t, err)
	text := source("", []string{"a engine/pass 500"}, []string{"$input.x -> a.x", "a.x -> $output.x"})
	compiled, diagnostics := compiler.Compile(compiler.Source{Name: "plan", Text: []byte(text)}, catalog, nil)
	require.False(t, diagnostics.HasErrors(), "%v", diagnostics)
	for name, open := range stores(t) {
		if name == "postgres" {
			continue // as the one with blobs
		}
		t.Run(name, func(t *testing.T) {
			s, err := store.Open(t.Context(), open(t))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			plans := payload.NewPlans(s.Blobs, 0)
			digest, err := plans.Put(t.Context(), compiled)
			require.NoError(t, err)
			e := &activities.Engine{
				Plans: plans, Ledger: s.Ledger, Namespace: "default", Outputs: payload.NewOutputs(s.Blobs, sealed, "default"),
			}
			ask := func(request contract.CloseRequest) (contract.Closed, error) {
				env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
				env.RegisterActivityWithOptions(e.Close, activity.RegisterOptions{Name: contract.ActivityClose})
				var closed contract.Closed
				value, err := env.ExecuteActivity(contract.ActivityClose, request)
				if err == nil {
					err = value.Get(&closed)
				}
				return closed, err
			}
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

// letters gives so many that do not become fewer when they are compressed.
func letters(n int) string {
	noise := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	return base64.StdEncoding.EncodeToString(noise)
}
