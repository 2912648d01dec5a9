package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
)

// stores gives the options of a new, migrated store of each sort.
func stores(t *testing.T) map[string]func(t *testing.T) store.Options {
	return map[string]func(t *testing.T) store.Options{
		"sqlite": func(t *testing.T) store.Options { return store.Options{Dir: filepath.Join(t.TempDir(), "store")} },
		"postgres": func(t *testing.T) store.Options {
			return migrated(t, store.Options{Dir: filepath.Join(t.TempDir(), "store"), URL: pgtest.URL(t)})
		},
		"postgres, as the engine's role": func(t *testing.T) store.Options {
			o := migrated(t, store.Options{InDatabase: true, URL: pgtest.URL(t)})
			require.NoError(t, store.Grant(t.Context(), o))
			o.URL += "&options=-c%20role%3Dchimera_engine"
			return o
		},
		"postgres, with blobs": func(t *testing.T) store.Options {
			return migrated(t, store.Options{InDatabase: true, URL: pgtest.URL(t)})
		},
	}
}

func migrated(t *testing.T, o store.Options) store.Options {
	o.Driver, o.Subjects = store.Postgres, filepath.Join(t.TempDir(), "subjects")
	var err error
	o.Key, _, err = ledger.NewKey("test.example.com/log")
	require.NoError(t, err)
	_, err = store.Open(t.Context(), o)
	require.ErrorContains(t, err, "run chimera migrate")
	n, err := store.Migrate(t.Context(), o)
	require.NoError(t, err)
	require.Positive(t, n)
	require.NoError(t, store.NewSubjectKeys(t.Context(), o))
	return o
}

const several = `apiVersion: chimera/v1
kind: Plan
name: several
version: 1.0.0
agent: tester
input_schema: {type: object, required: [x], properties: {x: {type: string}}}
output_schema: {type: object, required: [x], properties: {x: {type: string}}}
defs:
  X: {type: object, required: [x], properties: {x: {type: string}}}
nodes:
  - {id: local, template: engine/pass, timeout_ms: 500, input_schema: {$ref: "#/defs/X"}, output_schema: {$ref: "#/defs/X"}}
  - {id: ordinary, template: engine/pass, timeout_ms: 2000, input_schema: {$ref: "#/defs/X"}, output_schema: {$ref: "#/defs/X"}}
  - {id: breaks, template: engine/fail, timeout_ms: 500, with: {message: broken}}
  - {id: rescue, template: engine/pass, timeout_ms: 2000}
  - {id: never, template: engine/pass, timeout_ms: 500}
edges:
  - $input.x -> local.x
  - local.x -> ordinary.x
  - ordinary.x -> $output.x
  - {from_node: breaks, from_port: $error, to_node: rescue, to_port: $start, edge_type: error, required: true, when: error.kind == "tool_error"}
  - {from_node: breaks, from_port: $error, to_node: never, to_port: $start, edge_type: error, required: true, when: error.kind == "timeout"}
`

// TestTheLedgerKnowsARun: the outcomes of runs and nodes, local or not, are in the
// log, and its key has signed the log.
func TestTheLedgerKnowsARun(t *testing.T) {
	t.Parallel()
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			if name != "postgres, as the engine's role" {
				lengthy.Skip(t)
			}
			stage.Parallel(t)
			h := stage.Host(t, host.Options{Store: open(t)})
			run := stage.Start(t, h.Client(), several, `{"x":"hello"}`)
			require.NoError(t, stage.Await(t, h.Client(), run, nil))
			r := told(t, h.Store(), run)
			require.Equal(t, ledger.RunSucceeded, r.State)
			require.Equal(t, run.GetRunID(), r.Root)
			require.Equal(t, r.Root, r.Origin)
			require.Equal(t, "several@1.0.0", r.PlanName+"@"+r.PlanVersion)
			require.Equal(t, "tester", r.Agent)
			x := plan.DigestOf([]byte(`{"x":"hello"}`))
			require.Equal(t, []string{x, x}, []string{r.InputDigest, r.OutputDigest})
			seen := map[string]ledger.Outcome{}
			for _, o := range r.Outcomes {
				seen[o.Node] = o
			}
			require.Len(t, seen, 5)
			require.Equal(t, ledger.Outcome{Node: "local", Visit: 1, Kind: ledger.NodeSucceeded, Activity: "engine/pass", Attempts: 1, InputDigest: x, OutputDigest: x}, seen["local"])
			require.Equal(t, ledger.Outcome{Node: "ordinary", Visit: 1, Kind: ledger.NodeSucceeded, Activity: "engine/pass", Attempts: 1, InputDigest: x, OutputDigest: x}, seen["ordinary"])
			require.Equal(t, ledger.NodeFailed, seen["breaks"].Kind)
			require.Contains(t, string(seen["breaks"].Error), `"kind":"tool_error"`)
			require.Equal(t, ledger.NodeSucceeded, seen["rescue"].Kind)
			require.Equal(t, ledger.Outcome{Node: "never", Visit: 1, Kind: ledger.NodeSkipped, Activity: "engine/pass"}, seen["never"])
		})
	}
}

// TestAResetRunIsToldWhole: what nodes came to before the point of a reset, and the
// ledger has of the run before, it has of the new run, too, also where that continues
// as new.
func TestAResetRunIsToldWhole(t *testing.T) {
	lengthy.Skip(t)
	t.Parallel()
	const before, after = 210, 30 // the first 200 are written before the reset
	var nodes, edges []string
	for i := range before + 1 + after {
		operation, timeout := "engine/pass", 500
		switch {
		case i == before:
			operation, timeout = "test/later", 2000
		case i > before:
			timeout = 2000
		}
		nodes = append(nodes, fmt.Sprintf("n%d %s %d", i, operation, timeout))
		if i > 0 {
			edges = append(edges, fmt.Sprintf("n%d.x -> n%d.x", i-1, i))
		}
	}
	text := source("", nodes, append(edges, "$input.x -> n0.x", fmt.Sprintf("n%d.x -> $output.x", before+after)))
	for name, bound := range map[string]int{"in one execution": 0, "continued as new": 300} {
		t.Run(name, func(t *testing.T) {
			stage.Parallel(t)
			var calls atomic.Int64
			h := stage.Host(t, host.Options{ContinueAfter: bound, Skills: []skills.Skill{
				skill("later", func(context.Context, json.RawMessage) (json.RawMessage, error) {
					if calls.Add(1) == 1 {
						return nil, errors.New("not yet")
					}
					return json.RawMessage(`{"x":1}`), nil
				}),
			}})
			c := h.Client()
			run := stage.Start(t, c, text, `{"x":1}`)
			root := run.GetRunID()
			require.Error(t, stage.Await(t, c, run, nil))
			for base, i := root, 0; i < 2; i++ {
				tasks := events(t, c, c.GetWorkflow(t.Context(), run.GetID(), base), enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
				reset, err := c.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
					Namespace: stage.Temporal(t).Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: run.GetID(), RunId: base},
					Reason: "n210 is there now", WorkflowTaskFinishEventId: tasks[len(tasks)-2].GetEventId(), RequestId: "reset of " + base,
				})
				require.NoError(t, err)
				again := c.GetWorkflow(t.Context(), run.GetID(), reset.GetRunId())
				require.NoError(t, stage.Await(t, c, again, nil))
				require.Equal(t, bound > 0, again.GetRunID() != reset.GetRunId(), "it continued as new")
				state, _ := replayed(t, h.Store())
				require.Len(t, state.Runs[ledger.RunChain(run.GetID(), root)].Outcomes, len(nodes))
				base = reset.GetRunId()
				next := state.Runs[ledger.RunChain(run.GetID(), base)]
				require.Equal(t, ledger.RunSucceeded, next.State)
				require.Equal(t, root, next.Origin)
				require.Len(t, next.Outcomes, len(nodes))
				for _, o := range next.Outcomes {
					require.Equal(t, ledger.NodeSucceeded, o.Kind)
				}
			}
		})
	}
}

// TestManyOutcomes: batches are written while nodes run and are carried over
// continue-as-new, and each outcome is recorded exactly once.
func TestManyOutcomes(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	h := stage.Host(t, host.Options{ContinueAfter: 300})
	var nodes, edges []string
	for i := range 1200 {
		nodes = append(nodes, fmt.Sprintf("n%d engine/pass %d", i, []int{500, 500, 2000}[i%3]))
		edges = append(edges, fmt.Sprintf("$input.x -> n%d.x", i))
	}
	run := stage.Start(t, h.Client(), source("", nodes, edges), `{"x":1}`)
	first := run.GetRunID()
	require.NoError(t, stage.Await(t, h.Client(), run, nil))
	require.NotEqual(t, first, run.GetRunID(), "it has continued as new")
	r := told(t, h.Store(), run)
	require.Equal(t, first, r.Root)
	require.Equal(t, ledger.RunSucceeded, r.State)
	require.Len(t, r.Outcomes, 1200)
}

// TestTheStoreIsAway: a run whose database is killed waits, and goes on when it is
// back; nothing is lost.
func TestTheStoreIsAway(t *testing.T) {
	stage.Parallel(t)
	cluster, err := pgtest.Start(t.Context(), t.TempDir())
	require.NoError(t, err)
	defer cluster.Kill()
	for _, inDatabase := range []bool{false, true} {
		t.Run(fmt.Sprintf("blobs in the database %v", inDatabase), func(t *testing.T) {
			if !inDatabase {
				lengthy.Skip(t)
			}
			name := fmt.Sprintf("away_%v", inDatabase)
			pgtest.Create(t, cluster.URL("postgres"), name)
			o := migrated(t, store.Options{Dir: filepath.Join(t.TempDir(), "store"), URL: cluster.URL(name), InDatabase: inDatabase})
			log := new(lines)
			gate := make(chan struct{})
			h := stage.Host(t, host.Options{
				Store: o, Logger: slog.New(slog.NewTextHandler(log, nil)),
				Skills: []skills.Skill{skill("gate", func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
					select {
					case <-gate:
						return json.RawMessage(`{"x":1}`), nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				})},
			})
			run := stage.Start(t, h.Client(), source("", []string{"a engine/pass 500", "b test/gate 60000", "c engine/pass 500"},
				[]string{"$input.x -> a.x", "a -> b", "b.x -> c.x", "c.x -> $output.x"}), `{"x":1}`)
			stage.Until(t, "b runs", func() bool { return stage.State(t, h.Client(), run).Counts.Running == 1 })
			cluster.Kill()
			close(gate)
			stage.Until(t, "the end waits for the ledger", func() bool { return strings.Contains(log.String(), "the end of the run was not written") })
			require.Equal(t, contract.RunRunning, stage.State(t, h.Client(), run).State)
			require.NoError(t, cluster.Restart(t.Context()))
			require.NoError(t, stage.Await(t, h.Client(), run, nil))
			r := told(t, h.Store(), run)
			require.Equal(t, ledger.RunSucceeded, r.State)
			require.Len(t, r.Outcomes, 3)
		})
	}
}

// TestConnectionsAreLost: a run goes on though every connection to its database is
// cut again and again, and nothing is lost or recorded twice.
func TestConnectionsAreLost(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	o := migrated(t, store.Options{Dir: filepath.Join(t.TempDir(), "store"), URL: pgtest.URL(t)})
	h := stage.Host(t, host.Options{Store: o, ContinueAfter: 200, Logger: slog.New(slog.DiscardHandler)})
	conn, err := pgx.Connect(t.Context(), o.URL)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	const many = 300
	var nodes, edges []string
	for i := range many {
		nodes = append(nodes, fmt.Sprintf("n%d engine/pass %d", i, []int{500, 2000}[i%2]))
		from := "$input"
		if i >= 10 {
			from = fmt.Sprint("n", i-10)
		}
		edges = append(edges, fmt.Sprintf("%s.x -> n%d.x", from, i))
	}
	run := stage.Start(t, h.Client(), source("", nodes, edges), `{"x":1}`)
	ended := make(chan error, 1)
	go func() { ended <- run.Get(t.Context(), nil) }()
	cut, rounds := 0, 0
	for seen, open := 0, true; open; rounds++ {
		var n int
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&n))
		cut += n
		stage.Until(t, "the run gets on", func() bool {
			select {
			case err := <-ended:
				require.NoError(t, err)
				open = false
				return true
			default:
				// Only now and then, so that the run ends soon.
				now := settled(t, h.Client(), run)
				if now < seen+20 {
					return false
				}
				seen = now
				return true
			}
		})
	}
	require.Greater(t, cut, 3, "connections were cut")
	t.Logf("%d connections were cut in %d rounds", cut, rounds)
	r := told(t, h.Store(), run)
	require.Equal(t, ledger.RunSucceeded, r.State)
	require.Len(t, r.Outcomes, many)
}

// What rehearsals use, too.
var (
	told      = stage.Told
	replayed  = stage.Replayed
	published = stage.Publish
)

type lines = stage.Log

// TestTheLogGoesOn: another host on the same store continues the same log, and one
// with another key refuses it.
func TestTheLogGoesOn(t *testing.T) {
	stage.Parallel(t)
	o := store.Options{Dir: filepath.Join(t.TempDir(), "store")}
	text := source("", []string{"a engine/pass 500"}, []string{"$input.x -> a.x"})
	var size int64
	for range 2 {
		h := stage.Host(t, host.Options{Store: o})
		require.NoError(t, stage.Await(t, h.Client(), stage.Start(t, h.Client(), text, `{"x":1}`), nil))
		require.NoError(t, h.Close())
		s, err := store.Open(t.Context(), o)
		require.NoError(t, err)
		pending, err := s.Ledger.Pending(t.Context(), 1)
		require.NoError(t, err)
		require.Empty(t, pending, "a host that ends leaves nothing unplaced")
		_, now := replayed(t, s)
		require.Greater(t, now.Size, size)
		size = now.Size
		require.NoError(t, s.Close())
	}
	s, err := store.Open(t.Context(), o)
	require.NoError(t, err)
	origin := s.Key.Name()
	require.NoError(t, s.Close())
	o.Key, _, err = ledger.NewKey(origin)
	require.NoError(t, err)
	server := stage.Temporal(t)
	h, err := host.New(t.Context(), host.Options{
		Client: client.Options{HostPort: server.Address}, Store: o, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	require.ErrorContains(t, h.Run(t.Context()), "the ledger is not what its key has signed")
	require.NoError(t, h.Close())

	o.Key, _, err = ledger.NewKey("another.example.com")
	require.NoError(t, err)
	_, err = store.Open(t.Context(), o)
	require.ErrorContains(t, err, "the database has the log")
}
