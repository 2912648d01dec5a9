package stage

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/timestamppb"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/store"
)

// Rehearse starts a host with the real interpreter, roles and store, and ends it with the
// test. Its runs go in Temporal's test environment: they need no server, have no history,
// and are reset to their first task alone. Time is real, so a test that is about a long wait calls [Skip] or [Pass].
// Hosts of one test, one after the other or with different roles, serve the same runs.
func Rehearse(t testing.TB, o host.Options) *host.Host {
	t.Helper()
	if o.Store == (store.Options{}) {
		o.Store = store.Options{Dir: filepath.Join(t.TempDir(), "store")}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	o.Dev = o.Dev || o.Sealing.Keys == nil
	s := sceneOf(t)
	h, err := host.Rehearse(t.Context(), s, func(queue string) host.Registrar { return part{s, queue} }, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		s.close()
		require.NoError(t, h.Close())
	})
	s.mu.Lock()
	s.converter = payload.NewConverter(payload.NewPlans(h.Store().Blobs, 0), o.Sealing)
	s.mu.Unlock()
	require.NoError(t, h.Start())
	return h
}

// Skip lets the timers of a run that [Rehearse] serves fire at once from now on, whenever
// nothing of the run is under way.
func Skip(run client.WorkflowRun) { close(run.(*rehearsed).free) }

// Pass lets so much time of a rehearsed run pass at once. The ledger's clock does not follow.
func Pass(run client.WorkflowRun, d time.Duration) { run.(*rehearsed).pass <- d }

// Length is about how many events the history of a rehearsed run would have, over all of its
// executions.
func Length(run client.WorkflowRun) int {
	r := run.(*rehearsed)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.past + int(r.now.length.Load())
}

// Timers is how many timers the last execution of a rehearsed run has started.
func Timers(run client.WorkflowRun) int {
	r := run.(*rehearsed)
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(r.now.timers.Load())
}

// Reset begins a rehearsed run anew, as a reset to its first workflow task does: as another
// run of the same origin, which meets the rows that the ledger has.
func Reset(t testing.TB, c client.Client, run client.WorkflowRun) client.WorkflowRun {
	t.Helper()
	last := run.(*rehearsed)
	again := last.scene.begin(last.options, last.kind, last.args, last.origin)
	require.NotNil(t, again, "the run has not ended")
	return again
}

// scenes are those of tests under way, by name.
var scenes struct {
	sync.Mutex
	all map[string]*scene
}

// sceneOf returns the scene of a test, or of its parent that has one, and else makes it.
func sceneOf(t testing.TB) *scene {
	scenes.Lock()
	defer scenes.Unlock()
	for name := t.Name(); name != "."; name = path.Dir(name) {
		if s := scenes.all[name]; s != nil {
			return s
		}
	}
	s := &scene{
		t: t, runs: map[string]*rehearsed{}, workflows: map[string]any{}, activities: map[string]any{}, nodes: map[string]nodes{},
		instead: map[string]Stand{},
	}
	if scenes.all == nil {
		scenes.all = map[string]*scene{}
	}
	scenes.all[t.Name()] = s
	t.Cleanup(func() {
		scenes.Lock()
		defer scenes.Unlock()
		delete(scenes.all, t.Name())
	})
	return s
}

// nodes is the activity of all nodes that are called on one queue.
type nodes func(context.Context, converter.EncodedValues) (contract.Outcome, error)

// scene is the client of hosts without a server, as far as tests need one, and has what
// their workers would run.
type scene struct {
	client.Client
	t testing.TB

	mu        sync.Mutex
	converter converter.DataConverter
	runs      map[string]*rehearsed
	// workflows and activities are those of the hosts that began last, by name, and nodes by
	// queue.
	workflows, activities map[string]any
	nodes                 map[string]nodes
	// instead are what [Instead] has set, by activity or queue.
	instead map[string]Stand
}

// part is what the worker of one queue runs.
type part struct {
	*scene
	queue string
}

// RegisterWorkflowWithOptions implements host.Registrar.
func (p part) RegisterWorkflowWithOptions(w any, o workflow.RegisterOptions) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.workflows[o.Name] = w
}

// RegisterActivityWithOptions implements host.Registrar.
func (p part) RegisterActivityWithOptions(a any, o activity.RegisterOptions) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.activities[o.Name] = a
}

// RegisterDynamicActivity implements host.Registrar.
func (p part) RegisterDynamicActivity(a any, _ activity.DynamicRegisterOptions) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodes[p.queue] = a.(func(context.Context, converter.EncodedValues) (contract.Outcome, error))
}

// register registers all of the scene with an environment. What is called is that of the
// host which began last.
func (s *scene) register(env *testsuite.TestWorkflowEnvironment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	env.SetDataConverter(s.converter)
	for name, w := range s.workflows {
		env.RegisterWorkflowWithOptions(w, workflow.RegisterOptions{Name: name})
	}
	for name := range s.activities {
		env.RegisterActivityWithOptions(s.activity(name), activity.RegisterOptions{Name: name})
	}
	env.RegisterDynamicActivity(func(ctx context.Context, args converter.EncodedValues) (contract.Outcome, error) {
		return s.node(ctx, activity.GetInfo(ctx).TaskQueue, args)
	}, activity.DynamicRegisterOptions{})
}

// activity is what is called of that name: the activity of the host which began last, or what
// stands in its place.
func (s *scene) activity(name string) any {
	a := reflect.TypeOf(s.activities[name])
	return reflect.MakeFunc(a, func(args []reflect.Value) []reflect.Value {
		s.mu.Lock()
		now, stand := s.activities[name], s.instead[name]
		s.mu.Unlock()
		if stand != nil {
			answer, err := stand(args[0].Interface().(context.Context), args[1].Interface())
			if answer != nil || err != nil {
				out := []reflect.Value{reflect.Zero(a.Out(0)), reflect.Zero(reflect.TypeFor[error]())}
				if answer != nil {
					out[0] = reflect.ValueOf(answer)
				}
				if err != nil {
					out[1] = reflect.ValueOf(err)
				}
				return out
			}
		}
		return reflect.ValueOf(now).Call(args)
	}).Interface()
}

// node calls a node on a queue.
func (s *scene) node(ctx context.Context, queue string, args converter.EncodedValues) (contract.Outcome, error) {
	s.mu.Lock()
	call, stand := s.nodes[queue], s.instead[queue]
	s.mu.Unlock()
	if stand != nil {
		var c contract.Call
		if err := args.Get(&c); err != nil {
			return contract.Outcome{}, err
		}
		answer, err := stand(ctx, c)
		if err != nil {
			return contract.Outcome{}, err
		}
		if answer != nil {
			return answer.(contract.Outcome), nil
		}
	}
	if call == nil {
		return contract.Outcome{}, fmt.Errorf("no host serves the queue %s", queue)
	}
	return call(ctx, args)
}

// GetWorkflowHistory implements client.Client: it fails the test.
func (s *scene) GetWorkflowHistory(context.Context, string, string, bool, enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	s.t.Fatal("a rehearsed run has no history")
	return nil
}

// Close implements client.Client.
func (s *scene) Close() {}

// close cancels the runs that have not ended, and gives them some time.
func (s *scene) close() {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.runs))
	s.mu.Unlock()
	late := time.After(closing)
	for _, r := range all {
		go r.do(func(x *execution) { x.env.CancelWorkflow() })
	}
	for _, r := range all {
		select {
		case <-r.done:
		case <-late:
			return
		}
	}
}

// closing is how long runs that a test has left have to end.
const closing = 5 * time.Second

// run returns the last run of a workflow id.
func (s *scene) run(id string) (*rehearsed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[id]; r != nil {
		return r, nil
	}
	return nil, serviceerror.NewNotFound("there is no run " + id)
}

// ExecuteWorkflow implements client.Client.
func (s *scene) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, kind any, args ...any) (client.WorkflowRun, error) {
	if o.ID == "" {
		o.ID = uuid.NewString()
	}
	if r := s.begin(o, kind, args, ""); r != nil {
		return r, nil
	}
	return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("it is running", "", "")
}

// begin begins a run, which continues one after a reset if it has an origin. It returns nil
// if another run of the id goes on.
func (s *scene) begin(o client.StartWorkflowOptions, kind any, args []any, origin string) *rehearsed {
	r := &rehearsed{
		scene: s, id: o.ID, root: uuid.NewString(), origin: origin, options: o, kind: kind, args: args,
		free: make(chan struct{}), pass: make(chan time.Duration), done: make(chan struct{}),
	}
	if origin == "" {
		r.origin = r.root
	}
	r.now = r.execute(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.runs[o.ID]; last != nil && !last.over() {
		return nil
	}
	s.runs[o.ID] = r
	go r.play(args)
	return r
}

// GetWorkflow implements client.Client.
func (s *scene) GetWorkflow(_ context.Context, id, _ string) client.WorkflowRun {
	r, err := s.run(id)
	if err != nil {
		r = &rehearsed{scene: s, id: id, done: make(chan struct{}), err: err}
		close(r.done)
	}
	return r
}

// SignalWorkflow implements client.Client.
func (s *scene) SignalWorkflow(_ context.Context, id, _, name string, arg any) error {
	return s.with(id, func(x *execution) {
		x.add(4)
		x.env.SignalWorkflow(name, arg)
	})
}

// CancelWorkflow implements client.Client.
func (s *scene) CancelWorkflow(_ context.Context, id, _ string) error {
	return s.with(id, func(x *execution) { x.env.CancelWorkflow() })
}

// with does something in the loop of a run that has not ended.
func (s *scene) with(id string, do func(*execution)) error {
	r, err := s.run(id)
	if err != nil {
		return err
	}
	if r.do(do) == nil {
		return serviceerror.NewNotFound("the run has ended")
	}
	return nil
}

// QueryWorkflow implements client.Client.
func (s *scene) QueryWorkflow(_ context.Context, id, _, query string, args ...any) (value converter.EncodedValue, err error) {
	r, err := s.run(id)
	if err != nil {
		return nil, err
	}
	if r.do(func(x *execution) { value, err = x.env.QueryWorkflow(query, args...) }) == nil {
		value, err = r.now.env.QueryWorkflow(query, args...) // it has ended, and changes no more
	}
	return value, err
}

// UpdateWorkflow implements client.Client.
func (s *scene) UpdateWorkflow(ctx context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	r, err := s.run(o.WorkflowID)
	if err != nil {
		return nil, err
	}
	u := &updated{id: o.WorkflowID, done: make(chan struct{}), converter: s.converter}
	for {
		x := r.do(func(x *execution) {
			x.env.UpdateWorkflow(o.UpdateName, o.UpdateID, u, o.Args...)
		})
		switch {
		case x == nil:
			return nil, serviceerror.NewNotFound("the run has ended")
		case o.WaitForStage == client.WorkflowUpdateStageAccepted:
			return u, nil
		}
		select {
		case <-u.done:
			return u, nil
		case <-x.ended:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		select {
		case <-u.done:
			return u, nil
		default:
		}
		if u.accepted.Load() {
			return nil, serviceerror.NewNotFound("the run has ended")
		}
		// It came too late for that execution, and goes to the next.
	}
}

// DescribeWorkflowExecution implements client.Client.
func (s *scene) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	r, err := s.run(id)
	if err != nil {
		return nil, err
	}
	info := &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: r.root}, FirstRunId: r.origin,
		Type: &commonpb.WorkflowType{Name: contract.WorkflowType}, Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
	}
	if r.over() {
		info.CloseTime, info.Status = timestamppb.Now(), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
		if r.err != nil {
			info.Status = enumspb.WORKFLOW_EXECUTION_STATUS_FAILED
		}
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info}, nil
}
