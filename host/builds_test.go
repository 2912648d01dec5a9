package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/blob"
	runs "chimera.ai/engine/client"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
	"chimera.ai/engine/workflows"
)

// builds are hosts of several builds of one worker deployment, on a server of
// their own: a queue that has had a current build gives nothing to unversioned
// workers any more.
type builds struct {
	server *devserver.Server
	client client.Client
	store  string
	sealed payload.Sealing
	// gate holds the calls of test/hold until it is closed.
	gate chan struct{}
	// held has each call of test/hold that began, by the build that it began on.
	held chan string
}

func newBuilds(t *testing.T) *builds {
	server, err := devserver.Start(t.Context(), devserver.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	key, err := payload.NewKey("test")
	require.NoError(t, err)
	keys, err := payload.ParseKeys([]string{key})
	require.NoError(t, err)
	b := &builds{
		server: server, store: filepath.Join(t.TempDir(), "store"), sealed: payload.Sealing{Keys: keys, Compress: true},
		gate: make(chan struct{}), held: make(chan string, 100),
	}
	b.client = stage.DialSealed(t, server.Address, store.Options{Dir: b.store}, b.sealed)
	return b
}

// options are those of a host of one build, whose skills say where they ran.
func (b *builds) options(build string) host.Options {
	here := func() json.RawMessage { return json.RawMessage(`{"x":"` + build + `"}`) }
	return host.Options{
		Client:     client.Options{HostPort: b.server.Address},
		Store:      storeIn(b.store),
		Sealing:    b.sealed,
		Drain:      10 * time.Second,
		Deployment: host.Deployment{Name: "test", Build: build, MakeCurrent: true},
		Skills: []skills.Skill{
			skill("where", func(context.Context, json.RawMessage) (json.RawMessage, error) { return here(), nil }),
			skill("hold", func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
				b.held <- build
				select {
				case <-b.gate:
					return here(), nil
				case <-activity.GetWorkerStopChannel(ctx):
					return nil, contract.Errorf(contract.Unsent, "this worker stops")
				}
			}),
		},
	}
}

// current waits until a build takes the new runs.
func (b *builds) current(t *testing.T, build string) {
	t.Helper()
	stage.Until(t, "the build is the current one", func() bool {
		d, err := b.client.WorkerDeploymentClient().GetHandle("test").Describe(t.Context(), client.WorkerDeploymentDescribeOptions{})
		return err == nil && d.Info.RoutingConfig.CurrentVersion != nil && d.Info.RoutingConfig.CurrentVersion.BuildID == build
	})
}

// begun waits until a call of test/hold has begun, and gives the build.
func (b *builds) begun(t *testing.T) string {
	t.Helper()
	select {
	case build := <-b.held:
		return build
	case <-time.After(time.Minute):
		t.Fatal("no call began")
		return ""
	}
}

// taken gives the builds that have completed workflow tasks of all executions of
// a run, in their order, and the number of executions.
func (b *builds) taken(t *testing.T, workflowID string) (by []string, executions int) {
	t.Helper()
	described, err := b.client.DescribeWorkflowExecution(t.Context(), workflowID, "")
	require.NoError(t, err)
	for id := described.GetWorkflowExecutionInfo().GetFirstRunId(); id != ""; executions++ {
		history, err := host.History(t.Context(), b.client, workflowID, id)
		require.NoError(t, err)
		id = ""
		for _, event := range history.GetEvents() {
			if a := event.GetWorkflowTaskCompletedEventAttributes(); a != nil {
				if build := a.GetDeploymentVersion().GetBuildId(); len(by) == 0 || by[len(by)-1] != build {
					by = append(by, build)
				}
			}
			if a := event.GetWorkflowExecutionContinuedAsNewEventAttributes(); a != nil {
				id = a.GetNewExecutionRunId()
			}
		}
	}
	return by, executions
}

// waiting is a plan that says where its first and its last node ran, and waits
// between them.
func waiting() string {
	return source("", []string{
		"first test/where 5000", "wait test/hold 60000 retry_policy: {max_retries: 10, initial_ms: 1}", "last test/where 5000", "after engine/pass 500",
	}, []string{"first -> wait", "wait -> last", "last.x -> after.x", "first.x -> $output.x", "wait.x -> $output.y", "last.x -> $output.a"})
}

func where(t *testing.T, c client.Client, run client.WorkflowRun) (first, waited, last string) {
	t.Helper()
	var out struct{ X, Y, A string }
	require.NoError(t, stage.Await(t, c, run, &out))
	return out.X, out.Y, out.A
}

// TestTwoBuilds: runs that began on the old build end there, also after
// continue-as-new, while new runs go to the new one.
func TestTwoBuilds(t *testing.T) {
	lengthy.Skip(t)
	t.Parallel()
	b := newBuilds(t)
	o := b.options("a")
	o.ContinueAfter = 10
	stage.Host(t, o)
	b.current(t, "a")
	old := stage.Start(t, b.client, waiting(), `{}`)
	require.Equal(t, "a", b.begun(t))

	newer := stage.Host(t, b.options("b"))
	b.current(t, "b")
	fresh := stage.Start(t, b.client, waiting(), `{}`)
	require.Equal(t, "b", b.begun(t))
	close(b.gate)

	first, waited, last := where(t, b.client, old)
	require.Equal(t, []string{"a", "a", "a"}, []string{first, waited, last})
	by, executions := b.taken(t, old.GetID())
	require.Equal(t, []string{"a"}, by)
	require.Greater(t, executions, 1, "the run continued as new")
	first, waited, last = where(t, b.client, fresh)
	require.Equal(t, []string{"b", "b", "b"}, []string{first, waited, last})
	by, _ = b.taken(t, fresh.GetID())
	require.Equal(t, []string{"b"}, by)

	// A worker of the old build that comes back does not take new runs again.
	log := new(buffer)
	o.Logger = slog.New(slog.NewJSONHandler(log, nil))
	stage.Host(t, o)
	stage.Until(t, "the old build knows its place", func() bool { return strings.Contains(log.String(), "was replaced") })
	b.current(t, "b")
	require.NoError(t, newer.Close())
}

// TestNoCurrentBuild: the first build of a deployment takes no run until it is
// made the current one, and its worker says so.
func TestNoCurrentBuild(t *testing.T) {
	lengthy.Skip(t)
	t.Parallel()
	b := newBuilds(t)
	close(b.gate)
	log := new(buffer)
	o := b.options("a")
	o.Deployment.MakeCurrent = false
	o.Logger = slog.New(slog.NewJSONHandler(log, nil))
	stage.Host(t, o)
	run := stage.Start(t, b.client, waiting(), `{}`)
	stage.Until(t, "the worker says that no build is current", func() bool {
		return strings.Contains(log.String(), "set-current-version --deployment-name test --build-id a")
	})
	_, err := b.client.WorkerDeploymentClient().GetHandle("test").SetCurrentVersion(t.Context(), client.WorkerDeploymentSetCurrentVersionOptions{BuildID: "a"})
	require.NoError(t, err)
	_, _, last := where(t, b.client, run)
	require.Equal(t, "a", last, "a run that waited begins")
}

// reordered is a build whose interpreter makes one more request at the beginning.
func reordered(ctx workflow.Context, start json.RawMessage, loaded *plan.Loaded, carried *contract.Carried) (contract.Result, error) {
	if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
		return nil, err
	}
	return workflows.Plan(ctx, start, loaded, carried)
}

// TestMove: a run whose build has no worker left waits, and goes on under another
// build only if its history replays there.
func TestMove(t *testing.T) {
	t.Parallel()
	b := newBuilds(t)
	old := stage.Host(t, b.options("a"))
	b.current(t, "a")
	run := stage.Start(t, b.client, waiting(), `{}`)
	require.Equal(t, "a", b.begun(t))
	require.NoError(t, old.Close()) // its call is tried again, by nobody

	for len(b.held) > 0 { // it may have been tried again before
		<-b.held
	}
	stage.Host(t, host.Interpreted(b.options("c"), reordered))
	b.current(t, "c")
	fresh := stage.Start(t, b.client, waiting(), `{}`)
	require.Equal(t, "c", b.begun(t), "the run of the old build waits")

	values, err := blob.Open(filepath.Join(b.store, "blobs"))
	require.NoError(t, err)
	bad := host.NewReplayerOf(reordered, values, b.sealed)
	err = bad.Move(t.Context(), b.client, "default", run.GetID(), host.Deployment{Name: "test", Build: "c"})
	var refused *host.ReplayError
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "TMPRL1100", "the SDK's code for nondeterminism")
	require.Equal(t, "a", pinned(t, b.client, run))

	stage.Host(t, b.options("b"))
	b.current(t, "b")
	var unknown *host.UncheckedError
	_, err = host.NewReplayer(values, sealing(t, keys(t, "other")...)).Check(t.Context(), b.client, "default", run.GetID())
	require.ErrorAs(t, err, &unknown, "without the key")
	_, err = host.NewReplayer(storeAway{values}, b.sealed).Check(t.Context(), b.client, "default", run.GetID())
	require.ErrorAs(t, err, &unknown, "without the store")
	require.NotErrorAs(t, err, &refused)
	good := host.NewReplayer(values, b.sealed)
	require.NoError(t, good.Move(t.Context(), b.client, "default", run.GetID(), host.Deployment{Name: "test", Build: "b"}))
	require.Equal(t, "b", pinned(t, b.client, run))
	require.Equal(t, "b", b.begun(t), "its call is tried again by the new build")
	close(b.gate)
	first, waited, last := where(t, b.client, run)
	require.Equal(t, []string{"a", "b", "b"}, []string{first, waited, last})
	by, _ := b.taken(t, run.GetID())
	require.Equal(t, []string{"a", "b"}, by)
	first, _, _ = where(t, b.client, fresh)
	require.Equal(t, "c", first)
	require.ErrorIs(t, good.Move(t.Context(), b.client, "default", run.GetID(), host.Deployment{Name: "test", Build: "b"}), host.ErrEnded)
}

// TestMoveACall: a call in a workflow of its own stays with its build as its run does,
// and is moved as that is.
func TestMoveACall(t *testing.T) {
	lengthy.Skip(t)
	t.Parallel()
	b := newBuilds(t)
	o := b.options("a")
	o.ContinueAfter = 10
	old := stage.Host(t, o)
	b.current(t, "a")
	nodes, edges := []string{"wait test/hold 60000 retry_policy: {max_retries: 10, initial_ms: 1}"}, []string{"wait.x -> $output.x"}
	for i := range 16 {
		nodes = append(nodes, fmt.Sprintf("n%d engine/sleep 5000 with: {ms: 1}, %s", i, sleeping))
		if i > 0 {
			edges = append(edges, fmt.Sprintf("n%d -> n%d", i-1, i))
		}
	}
	run := stage.Start(t, b.client, source("", nodes, edges), `{}`)
	require.Equal(t, "a", b.begun(t))
	var call string
	stage.Until(t, "its call is a workflow", func() bool {
		listed, err := b.client.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: "default", Query: fmt.Sprintf("WorkflowType = '%s'", contract.WorkflowCall),
		})
		require.NoError(t, err)
		for _, e := range listed.GetExecutions() {
			call = e.GetExecution().GetWorkflowId()
		}
		return call != ""
	})
	stage.Until(t, "all else has ended", func() bool { return stage.State(t, b.client, run).Counts.Succeeded == 16 })
	require.NoError(t, old.Close())
	for len(b.held) > 0 {
		<-b.held
	}
	stage.Host(t, b.options("b"))
	b.current(t, "b")
	values, err := blob.Open(filepath.Join(b.store, "blobs"))
	require.NoError(t, err)
	replayer := host.NewReplayer(values, b.sealed)
	for _, id := range []string{run.GetID(), call} {
		require.NoError(t, replayer.Move(t.Context(), b.client, "default", id, host.Deployment{Name: "test", Build: "b"}))
	}
	require.Equal(t, "b", b.begun(t))
	close(b.gate)
	var out struct{ X string }
	require.NoError(t, stage.Await(t, b.client, run, &out))
	require.Equal(t, "b", out.X)
}

// storeAway is a store that is unavailable.
type storeAway struct{ blob.Store }

func (storeAway) Get(context.Context, string) ([]byte, error) { return nil, errors.New("away") }

// TestToolsOfABuild: calls of the tools role go to the tools workers of the
// run's own build, once there has been one; before, they wait for the current
// build's.
func TestToolsOfABuild(t *testing.T) {
	lengthy.Skip(t)
	t.Parallel()
	b := newBuilds(t)
	close(b.gate)
	catalog, ds := compiler.ParseCatalog(compiler.Source{Name: "catalog.yaml", Text: []byte(`
apiVersion: chimera/v1
kind: Catalog
templates:
  - {provider_type: skill, provider_name: sh, operation: where, mode: deter, effect_class: pure, input_schema: {type: object}, timeout_ms: 20000,
     output_schema: {type: object, properties: {x: {type: string}}, required: [x]}, retry_policy: {max_retries: 0}, trust_requirement: allow_auto, status: allow_auto}
`)})
	require.Empty(t, ds)
	role := func(role host.Role, build string) *host.Host {
		o := b.options(build)
		o.Roles, o.Catalog = []host.Role{role}, catalog
		o.Executables = map[string]skills.Executable{"sh": {Command: "/bin/sh", Args: []string{"-c", `cat >/dev/null; echo '{"x":"` + build + `"}'`}}}
		o.Deployment.MakeCurrent = role == host.RoleEngine
		return stage.Host(t, o)
	}
	calling := `{apiVersion: chimera/v1, kind: Plan, name: tools, version: "1", agent: tester, input_schema: {type: object},
  output_schema: {type: object, properties: {x: {type: string}}}, nodes: [{id: a, template: sh/where, timeout_ms: 20000}], edges: [a.x -> $output.x]}`
	answer := func(run client.WorkflowRun) string {
		var out struct{ X string }
		require.NoError(t, stage.Await(t, b.client, run, &out))
		return out.X
	}
	role(host.RoleEngine, "a")
	b.current(t, "a")
	early := stage.Start(t, b.client, calling, `{}`) // before any tools worker
	tools := role(host.RoleTools, "a")
	require.Equal(t, "a", answer(early))
	require.NoError(t, tools.Close())
	old := stage.Start(t, b.client, calling, `{}`)
	stage.Until(t, "the old run's call is scheduled", func() bool {
		return count(t, b.client, old, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED) == 1
	})

	role(host.RoleTools, "b")
	role(host.RoleEngine, "b")
	b.current(t, "b")
	require.Equal(t, "b", answer(stage.Start(t, b.client, calling, `{}`)))
	require.Zero(t, count(t, b.client, old, enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED), "tools of another build do not answer")
	role(host.RoleTools, "a")
	require.Equal(t, "a", answer(old))
}

// count counts the events of a type in a run's present execution.
func count(t *testing.T, c client.Client, run client.WorkflowRun, kind enumspb.EventType) (n int) {
	t.Helper()
	history, err := host.History(t.Context(), c, run.GetID(), run.GetRunID())
	require.NoError(t, err)
	for _, event := range history.GetEvents() {
		if event.GetEventType() == kind {
			n++
		}
	}
	return n
}

// pinned is the build that a run is pinned to.
func pinned(t *testing.T, c client.Client, run client.WorkflowRun) string {
	t.Helper()
	described, err := c.DescribeWorkflowExecution(t.Context(), run.GetID(), "")
	require.NoError(t, err)
	return runs.BuildOf(described.GetWorkflowExecutionInfo()).ID
}

// TestUnversionedRuns: a run that began before there were builds goes to the
// current one. So does a run that is reset to its first task, since it begins anew;
// one that is reset to a later task goes on under the build that it was of.
func TestUnversionedRuns(t *testing.T) {
	lengthy.Skip(t)
	t.Parallel()
	b := newBuilds(t)
	o := b.options("none")
	o.Deployment = host.Deployment{}
	before := stage.Host(t, o)
	run := stage.Start(t, b.client, waiting(), `{}`)
	require.Equal(t, "none", b.begun(t))
	stage.Host(t, b.options("a"))
	b.current(t, "a")
	require.NoError(t, before.Close())
	close(b.gate)
	first, _, last := where(t, b.client, run)
	require.Equal(t, []string{"none", "a"}, []string{first, last})

	of := stage.Start(t, b.client, waiting(), `{}`)
	where(t, b.client, of)
	stage.Host(t, b.options("b"))
	b.current(t, "b")
	root := of.GetRunID()
	history, err := host.History(t.Context(), b.client, of.GetID(), root)
	require.NoError(t, err)
	var tasks []int64
	for _, event := range history.GetEvents() {
		if event.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			tasks = append(tasks, event.GetEventId())
		}
	}
	for i, task := range tasks[:2] {
		reset, err := b.client.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
			Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: of.GetID(), RunId: root},
			Reason: "a test", WorkflowTaskFinishEventId: task, RequestId: fmt.Sprint(task),
		})
		require.NoError(t, err)
		again := b.client.GetWorkflow(t.Context(), of.GetID(), reset.GetRunId())
		_, _, last = where(t, b.client, again)
		require.Equal(t, []string{"b", "a"}[i], last)
	}
}
