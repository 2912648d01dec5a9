// Package stage sets up what integration tests and benchmarks run on: a real
// Temporal server, one for each test binary and one for each test that runs beside
// others, and hosts on it.
package stage

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/store"
)

// servers are the Temporal servers of the test binary.
var servers struct {
	sync.Mutex
	// shared is that of all tests which run one after the other.
	shared *devserver.Server
	// lent are those of tests that run beside others, by name, and free those that
	// such tests have given back.
	lent map[string]*devserver.Server
	free []*devserver.Server
}

// beside is how many tests run at one time, if -parallel does not say: they wait
// more than they compute.
const beside = "6"

// Main runs the tests of a package and then ends the servers that they shared.
// TestMain calls it.
func Main(m *testing.M) {
	if err := flag.Set("test.parallel", beside); err != nil {
		panic(err)
	}
	code := pgtest.Main(m)
	for _, server := range append(servers.free, servers.shared) {
		if server == nil {
			continue
		}
		if err := server.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "stop the Temporal server:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Parallel lets a test run in parallel with others, on a Temporal server of its own,
// since hosts share their queues.
func Parallel(t *testing.T) {
	t.Helper()
	t.Parallel()
	servers.Lock()
	var server *devserver.Server
	if n := len(servers.free); n > 0 {
		server, servers.free = servers.free[n-1], servers.free[:n-1]
	}
	servers.Unlock()
	if server == nil {
		server = start(t)
	}
	servers.Lock()
	defer servers.Unlock()
	if servers.lent == nil {
		servers.lent = map[string]*devserver.Server{}
	}
	servers.lent[t.Name()] = server
	t.Cleanup(func() {
		servers.Lock()
		defer servers.Unlock()
		delete(servers.lent, t.Name())
		servers.free = append(servers.free, server)
	})
}

func start(t testing.TB) *devserver.Server {
	t.Helper()
	server, err := devserver.Start(context.Background(), devserver.Options{})
	require.NoError(t, err, "a real Temporal server is needed")
	return server
}

// Temporal returns the in-memory server of a test: after [Parallel], that of the test or
// of its parent, and otherwise the shared one, which is started at first use.
func Temporal(t testing.TB) *devserver.Server {
	t.Helper()
	servers.Lock()
	defer servers.Unlock()
	for name := t.Name(); name != "."; name = path.Dir(name) {
		if server := servers.lent[name]; server != nil {
			return server
		}
	}
	if servers.shared == nil {
		servers.shared = start(t)
	}
	return servers.shared
}

// Dial connects a client to a server, with large values in a folder.
func Dial(t testing.TB, address, dir string) client.Client {
	t.Helper()
	return DialSealed(t, address, store.Options{Dir: dir}, payload.Sealing{})
}

// DialSealed connects a client to a server of a deployment that may seal its payloads, with large
// values in its store.
func DialSealed(t testing.TB, address string, of store.Options, sealing payload.Sealing) client.Client {
	t.Helper()
	blobs, done, err := store.OpenBlobs(t.Context(), of)
	require.NoError(t, err)
	c, err := host.Dial(t.Context(), client.Options{HostPort: address}, blobs, sealing, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Close()
		require.NoError(t, done())
	})
	return c
}

// Host starts a host on the shared server, unless options name another, and
// ends it with the test. Hosts share their queues: a test has one at a time. One without payload
// keys is of development.
func Host(t testing.TB, o host.Options) *host.Host {
	t.Helper()
	if o.Client.HostPort == "" {
		server := Temporal(t)
		o.Client.HostPort, o.Client.Namespace = server.Address, server.Namespace
	}
	if o.Store == (store.Options{}) {
		o.Store = store.Options{Dir: filepath.Join(t.TempDir(), "store")}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	o.Dev = o.Dev || o.Sealing.Keys == nil
	h, err := host.New(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	require.NoError(t, h.Start())
	return h
}

var runs struct {
	sync.Mutex
	n int
}

// Start starts a run of source with input and returns it.
func Start(t testing.TB, c client.Client, source, input string) client.WorkflowRun {
	t.Helper()
	runs.Lock()
	runs.n++
	id := fmt.Sprintf("run-%d-%d", os.Getpid(), runs.n)
	runs.Unlock()
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: contract.QueueEngine},
		contract.WorkflowType, contract.Start{Source: source, Input: json.RawMessage(input)})
	require.NoError(t, err)
	return run
}

// patience is how long a test waits for a run.
const patience = 5 * time.Minute

// Await waits for the end of a run and reads its result, which may be nil. A
// run that does not end fails the test, with what it was doing.
func Await(t testing.TB, c client.Client, run client.WorkflowRun, result any) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := run.Get(ctx, result)
	if ctx.Err() == nil {
		return err
	}
	description, described := c.DescribeWorkflowExecution(t.Context(), run.GetID(), "")
	require.NoError(t, described)
	t.Logf("pending workflow task: %v", description.GetPendingWorkflowTask())
	for _, activity := range description.GetPendingActivities() {
		t.Logf("pending activity: %v", activity)
	}
	require.NoError(t, err, "the run %s did not end", run.GetID())
	return err
}

// State asks a run for its state.
func State(t testing.TB, c client.Client, run client.WorkflowRun) contract.State {
	t.Helper()
	value, err := c.QueryWorkflow(t.Context(), run.GetID(), "", contract.QueryState)
	require.NoError(t, err)
	var state contract.State
	require.NoError(t, value.Get(&state))
	return state
}

// Until waits until a condition holds, and fails the test after five minutes.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, patience, 20*time.Millisecond, what)
}
