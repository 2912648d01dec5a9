package siege

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/store"
)

// Options say how long a siege is, and how hard.
type Options struct {
	// Plans from Seed on are run.
	Plans int
	Seed  uint64
	// Small plans run within seconds.
	Small bool
	// Calm: nothing befalls runs.
	Calm bool
	// Patience is how long a run may take, once nothing befalls it any more.
	Patience time.Duration
}

// Run besieges the engine. It goes round by round; each has a new store and new
// workers, and its first seed decides everything in it.
func Run(t *testing.T, o Options) {
	var report Report
	for seed := o.Seed; seed < o.Seed+uint64(o.Plans); {
		r := rand.New(rand.NewPCG(seed, 0x524f554e44))
		n := 1 + r.IntN(4)
		if o.Small {
			n = 3
		}
		n = min(n, int(o.Seed+uint64(o.Plans)-seed))
		t.Run(fmt.Sprintf("seed %d, %d plans", seed, n), func(t *testing.T) { round(t, o, r, seed, n, &report) })
		seed += uint64(n)
	}
	t.Log(report.String())
}

// siegedRun is one run.
type siegedRun struct {
	model  *Model
	seed   uint64
	id     string
	faults []Fault

	mu                 sync.Mutex
	cancelled, flooded bool
	// firsts are the first executions of its chains: its own, and those that resets
	// have begun.
	firsts []string
	// said is what clients were told, and findings what is wrong.
	said, findings []string
	// fallen reports whether a worker has ended by itself; nil where none can.
	fallen    func() bool
	pending   string
	attempts  int32
	took      time.Duration
	histories histories
	end       End
}

func (r *siegedRun) note(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *siegedRun) find(format string, args ...any) {
	r.note(func() { r.findings = append(r.findings, fmt.Sprintf(format, args...)) })
}

// keep draws the store of a round.
func keep(t *testing.T, r *rand.Rand, small bool) *Keep {
	switch r.IntN(4) {
	case 0:
		return Folder(t)
	case 1:
		if k := Disk(t); k != nil && !small {
			return k
		}
		return Folder(t)
	case 2:
		return Database(t, false)
	}
	return Database(t, true)
}

func round(t *testing.T, o Options, r *rand.Rand, seed uint64, n int, report *Report) {
	server := stage.Temporal(t)
	k := keep(t, r, o.Small)
	var sealing payload.Sealing
	secret := ""
	// A store on PostgreSQL is production, which does not start unsealed.
	if r.IntN(2) == 0 || k.Options.Driver == store.Postgres {
		secret = "siege:" + strings.Repeat("0123456789abcdef", 4)
		keys, err := payload.ParseKeys([]string{secret})
		require.NoError(t, err)
		sealing.Keys = keys
		k.Name += ", sealed"
	}
	shared := t.TempDir()
	g := newGarrison(t, server.Address, k, secret, shared, false)
	if r.IntN(3) == 0 {
		g.second = newGarrison(t, server.Address, k, secret, shared, r.IntN(2) == 0)
		k.Name += ", two workers"
	}
	opened, err := store.Open(t.Context(), k.Options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	c, err := host.Dial(t.Context(), client.Options{HostPort: server.Address, Logger: silent{}}, opened.Blobs, sealing, nil)
	require.NoError(t, err)
	t.Cleanup(c.Close)

	var runs []*siegedRun
	for i := range n {
		run := begin(t, c, o, seed+uint64(i))
		run.histories.failures = failures(opened, sealing, run.id)
		run.fallen = g.fallen
		runs = append(runs, run)
	}
	var outages times
	ctx, over := context.WithCancel(t.Context())
	var faults, ends sync.WaitGroup
	if !o.Calm {
		span := 4 * time.Second
		if !o.Small {
			span = 15 * time.Second
		}
		for _, run := range runs {
			run.faults = draw(r, run.model)
			for _, f := range run.faults {
				after := time.Duration(r.Float64() * r.Float64() * float64(span))
				faults.Go(func() { run.meddle(ctx, c, f, after) })
			}
		}
		besiege(ctx, t, &faults, r, k, g, &outages, span)
	}
	quiet := make(chan struct{})
	go func() {
		faults.Wait()
		close(quiet)
	}()
	for _, run := range runs {
		ends.Go(func() { run.watch(t.Context(), c, &outages, quiet, o.Patience) })
	}
	ends.Wait()
	over()
	<-quiet
	if g.fallen() {
		for w := g; w != nil; w = w.second {
			t.Errorf("a worker has ended by itself, this one or its second: %s", w.said(4000))
		}
	}
	again := "" // that many small plans are run without -plans
	if !o.Small {
		again = fmt.Sprintf(" -plans %d", n)
	}
	for _, run := range runs {
		run.verdict(t, c, opened, &outages)
		report.add(run, &outages)
		run.tell(t, k, &outages, seed, again)
	}
	if t.Failed() {
		keepLog(t, g, seed)
	}
}

// failures opens the failures of a workflow.
func failures(s *store.Opened, sealing payload.Sealing, id string) converter.FailureConverter {
	c := payload.NewFailureConverter(payload.NewConverter(payload.NewPlans(s.Blobs, 0), sealing))
	if of, ok := c.(converter.FailureConverterWithSerializationContext); ok {
		return of.WithSerializationContext(converter.WorkflowSerializationContext{Namespace: client.DefaultNamespace, WorkflowID: id})
	}
	return c
}

// begin starts the run of one plan.
func begin(t *testing.T, c client.Client, o Options, seed uint64) *siegedRun {
	tools, err := Tools()
	require.NoError(t, err)
	_, catalog, err := host.Catalog(tools.Catalog, Skills(""))
	require.NoError(t, err)
	p, err := Draw(seed, o.Small, catalog)
	require.NoError(t, err)
	m, err := Foresee(p)
	require.NoError(t, err)
	source, err := p.Source()
	require.NoError(t, err)
	in, err := json.Marshal(p.Input)
	require.NoError(t, err)
	r := &siegedRun{model: m, seed: seed, id: fmt.Sprintf("siege-%d-%d", os.Getpid(), seed)}
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: r.id, TaskQueue: contract.QueueEngine},
		contract.WorkflowType, contract.Start{Source: source, Input: in})
	require.NoError(t, err)
	r.firsts = append(r.firsts, run.GetRunID())
	return r
}

// besiege kills workers and takes the store away, at random moments of a while.
func besiege(ctx context.Context, t *testing.T, done *sync.WaitGroup, r *rand.Rand, k *Keep, g *garrison, o *times, span time.Duration) {
	random := func() time.Duration { return time.Duration(r.Float64() * float64(span)) }
	wait := func(d time.Duration) bool {
		select {
		case <-time.After(d):
			return true
		case <-ctx.Done():
			return false
		}
	}
	var kills []time.Duration
	if r.IntN(2) == 0 {
		for range 1 + r.IntN(2) {
			kills = append(kills, random()/2)
		}
	}
	away := ""
	if r.IntN(2) == 0 {
		names := []string{}
		for name := range k.Outages {
			names = append(names, name)
		}
		slices.Sort(names)
		away = names[r.IntN(len(names))]
	}
	at, long := random()/2, random()+time.Second
	if r.IntN(6) == 0 {
		long *= 4
	}
	var mu sync.Mutex // a worker does not start while the store is away
	if len(kills) > 0 {
		done.Go(func() {
			for _, d := range kills {
				if !wait(d) {
					return
				}
				end := o.begin("kill")
				g.kill()
				mu.Lock()
				if err := g.start(); err != nil {
					t.Errorf("start the worker: %v", err)
				}
				mu.Unlock()
				end()
			}
		})
	}
	if away != "" {
		done.Go(func() {
			if !wait(at) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			end := o.begin("store")
			defer end()
			o.begin(away + " store")()
			back, err := k.Outages[away]()
			if err != nil {
				t.Errorf("take the store away: %v", err)
				return
			}
			wait(long)
			back()
		})
	}
}

// watch waits for the end of a run, and watches its workflow tasks meanwhile.
func (r *siegedRun) watch(ctx context.Context, c client.Client, o *times, quiet <-chan struct{}, patience time.Duration) {
	began, answered := time.Now(), time.Now()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	var since time.Time // when it was left alone
	var felt int32      // the attempt that an outage or a burst of answers explains
	var events int64    // the length of its history
	for range tick.C {
		if since.IsZero() {
			select {
			case <-quiet: // a reset that has been done shows from now on
				since = time.Now()
			default:
			}
		}
		about, err := c.DescribeWorkflowExecution(ctx, r.id, "")
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			if time.Since(answered) > patience {
				r.find("the server does not answer: %v", err)
				r.pending, r.took = "unknown", time.Since(began)
				return
			}
			continue
		}
		answered = time.Now()
		status := about.GetWorkflowExecutionInfo().GetStatus()
		running := status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || status == enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW
		if !running && !(slices.Contains(r.faults, Reset) && since.IsZero()) {
			r.took = time.Since(began)
			return
		}
		attempt := about.GetPendingWorkflowTask().GetAttempt()
		grown := about.GetWorkflowExecutionInfo().GetHistoryLength() > events
		events = about.GetWorkflowExecutionInfo().GetHistoryLength()
		if o.bad() || grown {
			// An attempt that a burst of answers discards leaves them in the history. One
			// that fails by itself leaves nothing.
			felt = max(attempt, maxAttempts)
		} else if attempt <= 1 {
			felt = maxAttempts
		}
		r.attempts = max(r.attempts, attempt)
		if r.fallen != nil && r.fallen() {
			r.find("its worker has ended by itself")
			r.pending, r.took = pending(about), time.Since(began)
			return
		}
		stuck := running && attempt > max(felt, maxAttempts)
		late := !since.IsZero() && !o.bad() && time.Since(since) > patience
		if stuck || late {
			r.pending = pending(about)
			r.took = time.Since(began)
			if stuck {
				r.find("its workflow task fails again and again: %s", r.pending)
			} else {
				r.find("it did not end: %s", r.pending)
			}
			_ = c.TerminateWorkflow(ctx, r.id, "", "siege: it does not end")
			return
		}
	}
}

// tell reports what is wrong with a run, and how to see it again.
func (r *siegedRun) tell(t *testing.T, k *Keep, o *times, seed uint64, again string) {
	if len(r.findings) == 0 {
		return
	}
	source, err := r.model.Plan.Source()
	require.NoError(t, err)
	file := filepath.Join(os.TempDir(), fmt.Sprintf("siege-%d.json", r.seed))
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	p := r.model.Plan
	t.Errorf("seed %d (round %d): plan %s, %d nodes, max_parallel %d, deadline %d ms; store %s; befell: %s; clients: %v %v; %d executions, %d events, attempts %d, took %s; the plan is in %s",
		r.seed, seed, p.Name, len(p.Nodes), p.Parallel, p.DeadlineMS, k.Name, o, r.faults, r.said, r.histories.executions, r.histories.events, r.attempts, r.took.Round(time.Millisecond), file)
	for _, f := range r.findings {
		t.Errorf("seed %d: %s", r.seed, f)
	}
	t.Logf("this round again: go test ./internal/siege -count=1 -v -run NoPlanWedges -seed %d%s", seed, again)
}

func keepLog(t *testing.T, g *garrison, seed uint64) {
	for n := 1; g != nil; n, g = n+1, g.second {
		file := filepath.Join(os.TempDir(), fmt.Sprintf("siege-worker-%d-%d-%d.log", os.Getpid(), seed, n))
		if err := os.WriteFile(file, []byte(g.said(4<<20)), 0o600); err == nil {
			t.Logf("the end of what the workers said is in %s", file)
		}
	}
}

// silent is a logger for clients whose troubles are the point.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}
