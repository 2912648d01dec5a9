package siege

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/skills"
)

// field is a host in this process, on which runs of known plans are watched.
type field struct {
	*host.Host
	dir     string
	outages times
	quiet   chan struct{}
	// patience is how long the end of a run is waited for.
	patience time.Duration
}

// camp starts one. Skills of the name replace those of the siege.
func camp(t *testing.T, o host.Options, own ...skills.Skill) *field {
	f := &field{dir: t.TempDir(), quiet: make(chan struct{}), patience: 5 * time.Minute}
	close(f.quiet)
	o.Skills = own
	for _, s := range Skills(f.dir) {
		taken := false
		for _, mine := range own {
			taken = taken || mine.Operation == s.Operation
		}
		if !taken {
			o.Skills = append(o.Skills, s)
		}
	}
	o.Logger = slog.New(slog.DiscardHandler)
	f.Host = stage.Host(t, o)
	return f
}

// send starts a run of a plan.
func (f *field) send(t *testing.T, p *Plan) *siegedRun {
	t.Helper()
	m, err := Foresee(p)
	require.NoError(t, err)
	source, err := p.Source()
	require.NoError(t, err)
	in, err := json.Marshal(p.Input)
	require.NoError(t, err)
	run := stage.Start(t, f.Client(), source, string(in))
	return &siegedRun{model: m, id: run.GetID(), seed: p.Seed, firsts: []string{run.GetRunID()}}
}

// wins waits for the end of a run, and checks it against the model.
func (f *field) wins(t *testing.T, r *siegedRun) {
	t.Helper()
	r.watch(t.Context(), f.Client(), &f.outages, f.quiet, f.patience)
	r.verdict(t, f.Client(), f.Store(), &f.outages)
	for _, finding := range r.findings {
		t.Errorf("%s: %s", r.model.Plan.Name, finding)
	}
}

// follow looks at a run now and then, until it has seen enough, or has no more patience.
func (f *field) follow(t *testing.T, r *siegedRun, enough func(*workflowservice.DescribeWorkflowExecutionResponse) bool) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(f.patience); time.Now().Before(until); <-tick.C {
		about, err := f.Client().DescribeWorkflowExecution(t.Context(), r.id, "")
		require.NoError(t, err)
		if enough(about) {
			return
		}
	}
}

// done counts the nodes of a run that have ended.
func (f *field) done(t *testing.T, r *siegedRun) int {
	value, err := f.Client().QueryWorkflow(t.Context(), r.id, "", contract.QueryState)
	if err != nil {
		return 0
	}
	var state contract.State
	require.NoError(t, value.Get(&state))
	return state.Counts.Succeeded + state.Counts.Failed
}

// replaced is a skill of the siege with other code.
func replaced(operation string, run func(context.Context, request) (string, error)) skills.Skill {
	for _, s := range Skills("") {
		if s.Operation == operation {
			return skill(operation, string(s.InputSchema), s.OutputSchema, run)
		}
	}
	panic("siege: no skill " + operation)
}

// gated is siege/wait with a gate in this process.
func gated(gate <-chan struct{}) skills.Skill {
	return replaced("wait",
		func(ctx context.Context, in request) (string, error) {
			select {
			case <-gate:
				return in.Key, nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		})
}

const day = 24 * 60 * 60 * 1000

// TestANodeMayHaveAnyName: nodes with the names of the engine's own activities are
// in flight while local chains are cut.
func TestANodeMayHaveAnyName(t *testing.T) {
	stage.Parallel(t)
	gate := make(chan struct{})
	f := camp(t, host.Options{}, gated(gate))
	b := newBuilder(1)
	for _, id := range []string{"journal", "journal-1", "engine", "node", "close", "load", "local", "route", "probe", "deadline"} {
		b.add(id, Wait, day, map[string]any{"key": id})
	}
	b.chain(450, func() int64 { return 1000 })
	r := f.send(t, b.p)
	f.follow(t, r, func(about *workflowservice.DescribeWorkflowExecutionResponse) bool {
		return about.GetPendingWorkflowTask().GetAttempt() > 1 || f.done(t, r) >= 450
	})
	close(gate)
	f.wins(t, r)
}

// TestMaxParallelMayBeAnything: more calls may run at one time than the engine asks
// Temporal for, and are held to that. In the long form they are more than Temporal
// allows.
func TestMaxParallelMayBeAnything(t *testing.T) {
	lengthy.Skip(t)
	const most = 1000
	calls := 1050
	if *plans > 0 {
		calls = 2300 // also more than Temporal allows
	}
	gate := make(chan struct{})
	f := camp(t, host.Options{MaxActivities: 2300}, gated(gate))
	b := newBuilder(2)
	b.p.Parallel = 2300
	at := b.part("parallel")
	for i := range calls {
		b.add(fmt.Sprintf("%sw%d", at, i), Wait, day, map[string]any{"key": at})
	}
	r := f.send(t, b.p)
	begun := 0
	f.follow(t, r, func(about *workflowservice.DescribeWorkflowExecutionResponse) bool {
		// A workflow task that has ended has asked for all that it will.
		begun = len(about.GetPendingActivities())
		return begun >= most && about.GetPendingWorkflowTask() == nil
	})
	if begun != most {
		t.Errorf("%d calls are in flight", begun)
	}
	close(gate)
	f.wins(t, r)
}

// TestLocalNodesOfAnySize: what a workflow task emits is bounded before it is
// emitted.
func TestLocalNodesOfAnySize(t *testing.T) {
	lengthy.Skip(t)
	nodes := 160
	if *plans > 0 {
		nodes = 320
	}
	f := camp(t, host.Options{})
	b := newBuilder(3)
	b.p.Parallel = 400
	b.wide(nodes, 15_000, true, func() int64 { return 1000 })
	f.wins(t, f.send(t, b.p))
}

// TestRequestsOfAnySize: so are requests, whatever their values are made of.
func TestRequestsOfAnySize(t *testing.T) {
	lengthy.Skip(t)
	f := camp(t, host.Options{})
	b := newBuilder(12)
	b.p.Parallel = 1000
	b.add("source", Pass, 1000, map[string]any{"x": text(2500)})
	b.result("source", "x")
	for i := range 400 {
		id := fmt.Sprintf("n%d", i)
		b.add(id, Pass, 5000, nil)
		b.flow("source", id)
	}
	f.wins(t, f.send(t, b.p))
}

// TestValuesOfAnySize: what a run has to read and write does not grow with its values,
// however many are large. In the long form they are more than a workflow task could
// read in its time.
func TestValuesOfAnySize(t *testing.T) {
	lengthy.Skip(t)
	f := camp(t, host.Options{})
	calls := 8
	if *plans > 0 {
		calls = 400
		f.patience = 10 * time.Minute
	}
	b := newBuilder(14)
	b.p.Parallel = 1000
	b.add("source", Grow, 60_000, map[string]any{"size": whole(MaxSize)})
	for i := range calls {
		id := fmt.Sprintf("n%d", i)
		b.add(id, Pass, 60_000, nil)
		b.flow("source", id)
	}
	r := f.send(t, b.p)
	f.wins(t, r)
	// A result over the threshold would lie in the store, and be read at each replay.
	for i := f.Client().GetWorkflowHistory(t.Context(), r.id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); i.HasNext(); {
		e, err := i.Next()
		require.NoError(t, err)
		for _, p := range e.GetActivityTaskCompletedEventAttributes().GetResult().GetPayloads() {
			require.Empty(t, p.GetExternalPayloads())
			require.NotContains(t, string(p.GetMetadata()["messageType"]), "ExternalStorageReference")
		}
	}
}

// TestManyLocalNodesAtOnce: thousands of local nodes that are ready at one time take
// no more work each than a few do.
func TestManyLocalNodesAtOnce(t *testing.T) {
	lengthy.Skip(t)
	nodes := 2000
	if *plans > 0 {
		nodes = 5000
	}
	f := camp(t, host.Options{})
	b := newBuilder(11)
	b.p.Parallel = 10_000
	b.fanin(nodes, func() int64 { return 1000 })
	f.wins(t, f.send(t, b.p))
}

// TestFailuresOfAnySize: so are failures, with messages and details at their
// bounds.
func TestFailuresOfAnySize(t *testing.T) {
	lengthy.Skip(t)
	most := 200 // twice what a workflow task may emit
	if *plans > 0 {
		most = 400
	}
	f := camp(t, host.Options{})
	for _, add := range []func(*builder){
		func(b *builder) { b.storm(most) },
		func(b *builder) { b.payloads(most * 3 / 4) },
	} {
		b := newBuilder(4)
		b.p.Parallel = 10_000
		add(b)
		f.wins(t, f.send(t, b.p))
	}
}

// TestAFatalFailureEndsARunOnce: calls end while the end of the run is written.
func TestAFatalFailureEndsARunOnce(t *testing.T) {
	stage.Parallel(t)
	f := camp(t, host.Options{})
	times := 3
	if testing.Short() {
		times = 1
	}
	for range times {
		var runs []*siegedRun
		for i := range 4 {
			b := newBuilder(uint64(i))
			b.fatal(31, 300)
			runs = append(runs, f.send(t, b.p))
		}
		for _, r := range runs {
			f.wins(t, r)
		}
		if t.Failed() {
			return
		}
	}
}

// atTheEnd runs a plan whose store hangs from its last call on, until what then
// comes to the run has come.
func atTheEnd(t *testing.T, deadline int64, comes func(f *field, r *siegedRun)) {
	k := Database(t, true)
	var back func()
	var hang atomic.Bool
	f := camp(t, host.Options{Store: k.Options}, replaced("wait",
		func(_ context.Context, in request) (string, error) {
			var err error
			if hang.CompareAndSwap(false, true) {
				back, err = k.Outages["hanging"]()
			}
			return in.Key, err
		}))
	b := newBuilder(5)
	b.p.DeadlineMS = deadline
	at := b.part("end")
	b.add(at+"w", Wait, day, map[string]any{"key": at})
	b.result(at+"w", "x")
	r := f.send(t, b.p)
	stage.Until(t, "the end is being written", func() bool {
		about, err := f.Client().DescribeWorkflowExecution(t.Context(), r.id, "")
		return err == nil && hang.Load() && len(about.GetPendingActivities()) == 0 &&
			about.GetPendingWorkflowTask().GetState() == enumspb.PENDING_WORKFLOW_TASK_STATE_STARTED
	})
	f.outages.begin("store")()
	comes(f, r)
	back()
	f.wins(t, r)
}

// TestACancelWhileTheEndIsWritten: the run ends once, as it was written.
func TestACancelWhileTheEndIsWritten(t *testing.T) {
	stage.Parallel(t)
	atTheEnd(t, 0, func(f *field, r *siegedRun) {
		r.cancelled = true
		require.NoError(t, f.Client().CancelWorkflow(t.Context(), r.id, ""))
	})
}

// TestADeadlineWhileTheEndIsWritten is the same for the deadline.
func TestADeadlineWhileTheEndIsWritten(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	const deadline = 60_000
	atTheEnd(t, deadline, func(f *field, r *siegedRun) {
		about, err := f.Client().DescribeWorkflowExecution(t.Context(), r.id, "")
		require.NoError(t, err)
		passed := about.GetWorkflowExecutionInfo().GetStartTime().AsTime().Add((deadline + 1000) * time.Millisecond)
		stage.Until(t, "the deadline passes", func() bool { return time.Now().After(passed) })
	})
}

// TestAnswersWhileTheEndIsWritten: hundreds of calls end while a store that hangs is
// told how the run has ended. The server discards no workflow task for that.
func TestAnswersWhileTheEndIsWritten(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	const calls = 200
	k := Database(t, true)
	gate := make(chan struct{})
	var back func()
	var hang atomic.Bool
	f := camp(t, host.Options{Store: k.Options, MaxActivities: calls + 10},
		gated(gate),
		replaced("open", func(_ context.Context, in request) (string, error) {
			var err error
			if hang.CompareAndSwap(false, true) {
				back, err = k.Outages["hanging"]()
			}
			return in.Key, errors.Join(err, errors.New("this run has failed"))
		}))
	b := newBuilder(9)
	b.p.Parallel = 400
	at := b.part("crowd")
	for i := range calls {
		b.add(fmt.Sprintf("%sw%d", at, i), Wait, 9000, map[string]any{"key": at})
	}
	b.add(at+"first", Sleep, 60_000, map[string]any{"ms": whole(1500)})
	b.add(at+"last", Open, 60_000, map[string]any{"key": at})
	b.after(at+"first", at+"last")
	id := f.send(t, b.p).id
	stage.Until(t, "the end is being written", func() bool {
		about, err := f.Client().DescribeWorkflowExecution(t.Context(), id, "")
		require.NoError(t, err)
		return hang.Load() && closing(about)
	})
	// One after the other: hundreds at once are too many for any workflow task. A call whose
	// time is over has answered, too.
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range calls {
		<-tick.C
		select {
		case gate <- struct{}{}:
		default:
		}
	}
	back()
	require.ErrorContains(t, f.Client().GetWorkflow(t.Context(), id, "").Get(t.Context(), nil), "this run has failed")
	for events := f.Client().GetWorkflowHistory(t.Context(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
		e, err := events.Next()
		require.NoError(t, err)
		if failed := e.GetWorkflowTaskFailedEventAttributes(); failed != nil {
			require.Equal(t, enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND, failed.GetCause())
		}
	}
}

// closing tells whether a run is being closed: by an activity, or by a local one, for
// which its workflow task lasts.
func closing(about *workflowservice.DescribeWorkflowExecutionResponse) bool {
	task := about.GetPendingWorkflowTask()
	return task.GetState() == enumspb.PENDING_WORKFLOW_TASK_STATE_STARTED && time.Since(task.GetStartedTime().AsTime()) > time.Second ||
		slices.ContainsFunc(about.GetPendingActivities(), func(a *workflowpb.PendingActivityInfo) bool {
			return a.GetActivityType().GetName() == contract.ActivityClose && a.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED
		})
}

// TestAStoreThatHangsFailsNoNode: local nodes give large values while the store
// hangs for longer than they may take.
func TestAStoreThatHangsFailsNoNode(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	k := Database(t, true)
	var back func()
	var hang atomic.Bool
	f := camp(t, host.Options{Store: k.Options}, replaced("grow", func(ctx context.Context, in request) (string, error) {
		if hang.CompareAndSwap(false, true) {
			var err error
			if back, err = k.Outages["hanging"](); err != nil {
				return "", err
			}
		}
		return grow(ctx, in)
	}))
	b := newBuilder(10)
	b.values(20_000)
	b.p.Nodes[0].TimeoutMS, b.p.Nodes[1].TimeoutMS = 1000, 1000
	b.chain(10, func() int64 { return 1000 })
	r := f.send(t, b.p)
	stage.Until(t, "the store hangs", hang.Load)
	end := f.outages.begin("store")
	began := time.Now()
	stage.Until(t, "it hangs for long", func() bool { return time.Since(began) > 20*time.Second })
	back()
	end()
	f.wins(t, r)
}

// TestALongNodeHoldsUpNobody: a long call does not stop the others when the run
// would continue as new, or when the server suggests it (from 4,096 events on).
func TestALongNodeHoldsUpNobody(t *testing.T) {
	t.Parallel()
	type form struct {
		after, nodes int
		timeout      int64
	}
	forms := map[string]form{"local nodes": {400, 1500, 1000}, "ordinary nodes": {0, 750, 5000}}
	if testing.Short() {
		forms = map[string]form{"local nodes": {40, 150, 1000}}
	}
	for name, c := range forms {
		t.Run(name, func(t *testing.T) {
			stage.Parallel(t)
			gate := make(chan struct{})
			f := camp(t, host.Options{ContinueAfter: c.after}, gated(gate))
			b := newBuilder(6)
			b.add("long", Wait, day, map[string]any{"key": "long"})
			b.chain(c.nodes, func() int64 { return c.timeout })
			r := f.send(t, b.p)
			n := 0
			f.follow(t, r, func(about *workflowservice.DescribeWorkflowExecutionResponse) bool {
				n = f.done(t, r)
				return n >= c.nodes || about.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_FAILED
			})
			if n < c.nodes {
				t.Errorf("%d of %d nodes have ended beside a long one", n, c.nodes)
			}
			close(gate)
			f.wins(t, r)
		})
	}
}

// TestManyLongNodesHoldUpNobody: as many long calls are ready as a run may have no
// children for, and the others go on.
func TestManyLongNodesHoldUpNobody(t *testing.T) {
	if !*huge {
		t.Skip("it takes a minute: -huge runs it")
	}
	const children, nodes = 500, 100
	gate := make(chan struct{})
	f := camp(t, host.Options{MaxActivities: children + 20, ContinueAfter: 20}, gated(gate))
	b := newBuilder(8)
	b.p.Parallel = 1000
	for i := range children + 10 {
		b.add(fmt.Sprintf("long%d", i), Wait, day, map[string]any{"key": "long"})
	}
	b.chain(nodes, func() int64 { return 5000 })
	r := f.send(t, b.p)
	n := 0
	f.follow(t, r, func(about *workflowservice.DescribeWorkflowExecutionResponse) bool {
		n = f.done(t, r)
		return n >= nodes
	})
	if n < nodes {
		t.Errorf("%d of %d nodes have ended beside many long ones", n, nodes)
	}
	close(gate)
	f.wins(t, r)
}

// TestAnswersDuringLocalNodes: many calls end while local nodes run.
func TestAnswersDuringLocalNodes(t *testing.T) {
	lengthy.Skip(t)
	const calls = 300
	gate, opened := make(chan struct{}), atomic.Bool{}
	var c client.Client
	var id atomic.Value
	f := camp(t, host.Options{MaxActivities: calls + 10}, gated(gate),
		// Local nodes that take as long as they may, or until all calls have ended.
		replaced("open",
			func(ctx context.Context, in request) (string, error) {
				if opened.CompareAndSwap(false, true) {
					close(gate)
				}
				for ctx.Err() == nil {
					deadline, _ := ctx.Deadline()
					about, err := c.DescribeWorkflowExecution(ctx, id.Load().(string), "")
					if err == nil && len(about.GetPendingActivities()) == 0 || time.Until(deadline) < 300*time.Millisecond {
						break
					}
				}
				return in.Key, nil
			}))
	c = f.Client()
	b := newBuilder(7)
	b.p.Parallel = 400
	at := b.part("answers")
	for i := range calls {
		b.add(fmt.Sprintf("%sw%d", at, i), Wait, day, map[string]any{"key": at})
	}
	b.add(at+"first", Sleep, 60_000, map[string]any{"ms": whole(1500)})
	last := at + "first"
	for i := range 3 {
		next := fmt.Sprintf("%so%d", at, i)
		b.add(next, Open, 1000, map[string]any{"key": at})
		b.after(last, next)
		last = next
	}
	id.Store("")
	r := f.send(t, b.p)
	id.Store(r.id)
	f.wins(t, r)
	if r.histories.executions > 3 {
		t.Errorf("the run has %d executions", r.histories.executions)
	}
}
