package host_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// TestStartGrants: a start grant opens the one run that it names, and nothing
// else, on a real server with each store.
func TestStartGrants(t *testing.T) {
	t.Parallel()
	all := stores(t)
	for _, name := range []string{"sqlite", "postgres, as the engine's role"} {
		t.Run(name, func(t *testing.T) {
			stage.Parallel(t)
			o := all[name](t)
			d := deploy(t, &o)
			h := stage.Host(t, host.Options{Store: o, Trust: d.bootstrap})
			store := people(t, h, o)
			d.state(t, store, d.publisher(), &trust.AddAgent{AgentID: "tester", Owner: "ada", Keys: []string{d.starts.Public()}})
			row := d.row(t, store, versioned("1"), nil)
			_, err := store.PublishPlan(t.Context(), row)
			require.NoError(t, err)

			id := func(name string) string { return "grant-" + strings.ReplaceAll(t.Name(), " ", "") + "-" + name }
			now := time.Now()
			grant := func(key *trust.Key, name string, change func(*trust.Grant)) json.RawMessage {
				g := trust.Grant{
					Deployment: "test", Audience: trust.Prod, Namespace: "default", WorkflowID: id(name), Plan: row.Digest,
					Input: plan.DigestOf([]byte(`{"x":2}`)), Agent: "tester", Requester: "rae", Nonce: fmt.Sprintf("%032x", len(name)),
					Issued: ledger.At(now), Expires: ledger.At(now.Add(time.Hour)),
				}
				if change != nil {
					change(&g)
				}
				raw, err := trust.SignGrant(key, g)
				require.NoError(t, err)
				return raw
			}
			start := func(name, input string, g json.RawMessage) client.WorkflowRun {
				run, err := h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id(name), TaskQueue: contract.QueueEngine},
					contract.WorkflowType, contract.Start{Plan: "signed@1", Input: json.RawMessage(input), Grant: g})
				require.NoError(t, err)
				return run
			}
			refused := func(kind contract.Kind, why string, run client.WorkflowRun) {
				t.Helper()
				f := failureOf(t, stage.Await(t, h.Client(), run, nil))
				require.Equal(t, kind, f.Kind, f.Message)
				require.Contains(t, f.Message, why)
			}

			good := grant(d.starts, "one", nil)
			first := start("one", `{ "x": 2 }`, good)
			require.NoError(t, stage.Await(t, h.Client(), first, nil))
			r := told(t, h.Store(), first)
			digest, err := trust.GrantDigest(good)
			require.NoError(t, err)
			require.Equal(t, "rae", r.Requester)
			require.Equal(t, digest, r.GrantDigest)
			s, err := trust.Read(t.Context(), store, d.bootstrap)
			require.NoError(t, err)
			_, err = trust.VerifyGrant(s, r.Grant, trust.Grant{
				Namespace: "default", WorkflowID: id("one"), Plan: row.Digest, Input: r.InputDigest, Agent: "tester",
			}, now)
			require.NoError(t, err, "the record verifies without the engine")

			// Replays.
			refused(contract.Conflict, "the start grant has opened the run "+first.GetRunID(), start("one", `{"x":2}`, good))
			refused(contract.Blocked, "the grant is for the workflow", start("two", `{"x":2}`, good))
			refused(contract.Blocked, "the grant is for the input", start("one", `{"x":3}`, good))
			again := start("one", `{"x":2}`, grant(d.starts, "one", func(g *trust.Grant) { g.Nonce = strings.Repeat("f", 32) }))
			require.NoError(t, stage.Await(t, h.Client(), again, nil), "a new grant is no replay")
			source, err := h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id("one"), TaskQueue: contract.QueueEngine},
				contract.WorkflowType, contract.Start{Source: versioned("2"), Input: json.RawMessage(`{"x":2}`), Grant: good})
			require.NoError(t, err)
			refused(contract.Blocked, "the grant is for the plan", source)

			// Wrong ones.
			refused(contract.Blocked, "the grant has expired", start("old", `{"x":2}`, grant(d.starts, "old", func(g *trust.Grant) {
				g.Issued, g.Expires = ledger.At(now.Add(-2*time.Hour)), ledger.At(now.Add(-time.Hour))
			})))
			refused(contract.Blocked, `the grant is for the audience "dev", not "prod"`, start("dev", `{"x":2}`, grant(d.starts, "dev", func(g *trust.Grant) { g.Audience = trust.Dev })))
			refused(contract.Blocked, `the grant is for the namespace "other"`, start("ns", `{"x":2}`, grant(d.starts, "ns", func(g *trust.Grant) { g.Namespace = "other" })))
			refused(contract.Blocked, "no key that may act for tester", start("who", `{"x":2}`, grant(newKey(t), "who", nil)))
			refused(contract.Blocked, "no key that may act for tester", start("author", `{"x":2}`, grant(d.author, "author", nil)))

			// A reset goes on with the run that was granted; so does its record.
			long := start("reset", `{"x":2}`, grant(d.starts, "reset", nil))
			require.NoError(t, stage.Await(t, h.Client(), long, nil))
			tasks := events(t, h.Client(), long, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
			reset, err := h.Client().ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
				Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: long.GetID(), RunId: long.GetRunID()},
				Reason: "once more", WorkflowTaskFinishEventId: tasks[0].GetEventId(), RequestId: "once",
			})
			require.NoError(t, err)
			require.NoError(t, stage.Await(t, h.Client(), h.Client().GetWorkflow(t.Context(), long.GetID(), reset.GetRunId()), nil))
			second, err := store.Run(t.Context(), long.GetID(), reset.GetRunId())
			require.NoError(t, err)
			require.Equal(t, "rae", second.Requester)
			require.Equal(t, long.GetRunID(), second.Origin)
			require.NotEmpty(t, second.GrantDigest)

			// The key is no longer the agent's.
			d.state(t, store, &trust.SetAgentKeys{AgentID: "tester", Keys: []string{newKey(t).Public()}})
			refused(contract.Blocked, "no key that may act for tester", start("late", `{"x":2}`, grant(d.starts, "late", nil)))
			run := start("late", `{"x":2}`, nil)
			require.NoError(t, stage.Await(t, h.Client(), run, nil), "pure nodes need no grant")
			require.Empty(t, told(t, h.Store(), run).GrantDigest)
		})
	}
	t.Run("no root of trust", func(t *testing.T) {
		h := stage.Host(t, host.Options{})
		run, err := h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: contract.QueueEngine},
			contract.WorkflowType, contract.Start{Source: versioned("1"), Input: json.RawMessage(`{"x":2}`), Grant: json.RawMessage(`{"payload":"x"}`)})
		require.NoError(t, err)
		f := failureOf(t, stage.Await(t, h.Client(), run, nil))
		require.Equal(t, contract.Blocked, f.Kind)
		require.Contains(t, f.Message, "trust.bootstrap")
	})
}
