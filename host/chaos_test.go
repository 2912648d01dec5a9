package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/store"
)

// Variables by which this test binary becomes a worker process.
const (
	envAddress = "CHIMERA_TEST_WORKER_ADDRESS"
	envStore   = "CHIMERA_TEST_WORKER_STORE"
	envNoCache = "CHIMERA_TEST_WORKER_NO_CACHE"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(envAddress); address != "" {
		if err := work(address, os.Getenv(envStore)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if file := os.Getenv(envActing); file != "" {
		if err := workActing(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	stage.Main(m)
}

func work(address, store string) error {
	if os.Getenv(envNoCache) != "" {
		worker.SetStickyWorkflowCacheSize(0)
	}
	return serve(host.Options{Client: client.Options{HostPort: address}, Store: storeIn(store), ContinueAfter: 60})
}

// serve runs a host until the process is interrupted.
func serve(o host.Options) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	h, err := host.New(ctx, o)
	if err != nil {
		return err
	}
	defer h.Close()
	return h.Run(ctx)
}

// storeIn returns the options of a store in a folder.
func storeIn(dir string) store.Options { return store.Options{Dir: dir} }

// spawn starts a worker in a process of its own.
func spawn(t *testing.T, address, store string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), envAddress+"="+address, envStore+"="+store), env...)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { kill(cmd) })
	return cmd
}

func kill(cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// slow is a plan of steps that take a while, local and ordinary ones, in two
// chains that meet in the output.
func slow(n int) string {
	var nodes, edges []string
	for c := range 2 {
		for i := range n {
			timeout := []int{900, 5000}[(i+c)%2]
			nodes = append(nodes, fmt.Sprintf("c%dn%d engine/sleep %d with: {ms: 60}, %s", c, i, timeout, sleeping))
			if i > 0 {
				edges = append(edges, fmt.Sprintf("c%dn%d -> c%dn%d", c, i-1, c, i))
			}
		}
		edges = append(edges, fmt.Sprintf("c%dn%d.slept_ms -> $output.%s", c, n-1, []string{"a", "b"}[c]))
	}
	return source("", nodes, edges)
}

const slowResult = `{"a":60,"b":60}`

func settled(t *testing.T, c client.Client, run client.WorkflowRun) int {
	value, err := c.QueryWorkflow(t.Context(), run.GetID(), "", "chimera.state")
	if err != nil {
		return 0 // while nobody works, nobody answers
	}
	var state struct{ Counts struct{ Succeeded int } }
	require.NoError(t, value.Get(&state))
	return state.Counts.Succeeded
}

func TestAKilledWorkerLosesNothing(t *testing.T) {
	stage.Parallel(t)
	server := stage.Temporal(t)
	store := filepath.Join(t.TempDir(), "store")
	c := stage.Dial(t, server.Address, store)
	process := spawn(t, server.Address, store)
	run := stage.Start(t, c, slow(40), `{}`)
	after := []int{5, 30}
	if testing.Short() {
		after = after[:1]
	}
	for _, after := range after {
		stage.Until(t, "the run gets on", func() bool { return settled(t, c, run) >= after })
		require.NoError(t, process.Process.Kill())
		_ = process.Wait()
		process = spawn(t, server.Address, store)
	}
	var result json.RawMessage
	require.NoError(t, stage.Await(t, c, run, &result))
	require.JSONEq(t, slowResult, string(result))
}

func TestAKilledServerLosesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := devserver.Options{DB: filepath.Join(dir, "temporal.db")}
	server, err := devserver.Start(t.Context(), o)
	require.NoError(t, err)
	o.Port = portOf(t, server)
	defer func() { require.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) }()
	store := filepath.Join(dir, "store")
	c := stage.Dial(t, server.Address, store)
	spawn(t, server.Address, store)
	run := stage.Start(t, c, slow(30), `{}`)
	stage.Until(t, "the run gets on", func() bool { return settled(t, c, run) >= 10 })
	require.NoError(t, server.Kill())
	<-server.Done()
	server, err = devserver.Start(t.Context(), o)
	require.NoError(t, err)
	var result json.RawMessage
	require.NoError(t, stage.Await(t, c, c.GetWorkflow(t.Context(), run.GetID(), ""), &result))
	require.JSONEq(t, slowResult, string(result))
}

// A worker that forgets every run between two workflow tasks replays the whole
// history each time: whatever is not deterministic shows.
func TestAWorkerWithoutMemoryReplaysEveryTask(t *testing.T) {
	stage.Parallel(t)
	server := stage.Temporal(t)
	store := filepath.Join(t.TempDir(), "store")
	c := stage.Dial(t, server.Address, store)
	spawn(t, server.Address, store, envNoCache+"=1")
	var nodes, edges []string
	for i := range 90 {
		nodes = append(nodes, fmt.Sprintf("n%d engine/%s %d", i, []string{"pass", "pass", "fail"}[i%3], []int{500, 2000}[i%2]))
		edges = append(edges, fmt.Sprintf("{from_node: $input, from_port: x, to_node: n%d, to_port: %s, edge_type: data, required: true}", i, []string{"x", "x", "message"}[i%3]))
		from, kind := "x", "data"
		if i%3 == 2 {
			from, kind = "$error", "error"
			nodes[i] += " " + failing
			edges = append(edges, fmt.Sprintf(`{from_node: n%d, from_port: $error, to_node: join, to_port: y, edge_type: error, required: false, when: "error.node != ''"}`, i))
			continue
		}
		edges = append(edges, fmt.Sprintf("{from_node: n%d, from_port: %s, to_node: join, to_port: x, edge_type: %s, required: false}", i, from, kind))
	}
	nodes = append(nodes, "join engine/pass 500")
	edges = append(edges, "{from_node: join, from_port: x, to_node: $output, to_port: x, edge_type: data, required: false}")
	run := stage.Start(t, c, given(source("limits: {max_parallel: 7}\n", nodes, edges), "{type: string, minLength: 1, maxLength: 100}"), `{"x":"same"}`)
	var result json.RawMessage
	require.NoError(t, stage.Await(t, c, run, &result))
	require.JSONEq(t, `{"x":"same"}`, string(result))
	require.Empty(t, events(t, c, run, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED))
}

// portOf is where clients of a server look for the next one.
func portOf(t *testing.T, s *devserver.Server) int {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Address)
	require.NoError(t, err)
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	return n
}
