package siege

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
)

// TestAStoreThatIsAwayFillsNoHistory: while the store is away, a run with hundreds
// of calls that end is one record with one probe. In the long form it has as many as
// a run may.
func TestAStoreThatIsAwayFillsNoHistory(t *testing.T) {
	lengthy.Skip(t)
	calls, keeps := 150, map[string]func(testing.TB) *Keep{"full": Disk}
	if *plans > 0 {
		calls, keeps["refusing"] = 1000, Folder
	}
	for name, keep := range keeps {
		t.Run(name, func(t *testing.T) {
			if *plans == 0 {
				stage.Parallel(t)
			}
			k := keep(t)
			if k == nil {
				t.Fatal("a small disk cannot be mounted here; run this as root")
			}
			gate, begun := make(chan struct{}), atomic.Int64{}
			f := camp(t, host.Options{Store: k.Options, MaxActivities: calls}, replaced("grow",
				func(ctx context.Context, in request) (string, error) {
					begun.Add(1)
					select {
					case <-gate:
						return grow(ctx, in)
					case <-ctx.Done():
						return "", ctx.Err()
					}
				}))
			b := newBuilder(8)
			b.p.Parallel = calls
			at := b.part("away")
			for i := range calls {
				id := fmt.Sprintf("%sg%d", at, i)
				b.add(id, Grow, day, map[string]any{"size": whole(20_000 + i)})
				b.edge(Edge{From: id, FromPort: "x", To: at + "meet", ToPort: "x", Type: "data"})
			}
			b.add(at+"meet", Pass, 1000, nil)
			r := f.send(t, b.p)
			events := func() int64 {
				var h histories
				require.NoError(t, h.read(t.Context(), f.Client(), r.id, r.firsts[0]))
				return h.events
			}
			stage.Until(t, "calls are in flight", func() bool { return begun.Load() >= int64(calls)*9/10 })
			end := f.outages.begin("store")
			back, err := k.Outages[name]()
			require.NoError(t, err)
			close(gate)
			before, began := events(), time.Now()
			stage.Until(t, "the run has felt it", func() bool {
				if n := events(); n != before {
					before, began = n, time.Now()
				}
				return time.Since(began) > 10*time.Second && waitsForStore(t, f, r)
			})
			stage.Until(t, "the store is away for a while", func() bool { return time.Since(began) > 40*time.Second })
			// 960 an hour: a workflow task more now and then does not matter.
			after, while := events(), time.Since(began)
			if n := after - before; n > int64(while.Hours()*960) {
				t.Errorf("%d events in %s, after %d", n, while, before)
			} else {
				t.Logf("%d events in %s, after %d", n, while, before)
			}
			back()
			end()
			f.wins(t, r)
		})
	}
}

// waitsForStore reports whether a run says that it waits for the store.
func waitsForStore(t *testing.T, f *field, r *siegedRun) bool {
	state := stage.State(t, f.Client(), f.Client().GetWorkflow(t.Context(), r.id, ""))
	return len(state.Waiting) > 0 && state.Waiting[0].Kind == contract.WaitStore
}

// TestAChildCallMeetsAnOutage: the store is away when a call ends that a child
// workflow has made, and the run continues as new after that.
func TestAChildCallMeetsAnOutage(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	k := Folder(t)
	var calls atomic.Int32
	back := make(chan func(), 1)
	f := camp(t, host.Options{Store: k.Options, ContinueAfter: 10},
		replaced("grow", func(ctx context.Context, in request) (string, error) {
			if calls.Add(1) == 1 {
				restore, err := k.Outages["refusing"]()
				if err != nil {
					return "", err
				}
				back <- restore
			}
			return grow(ctx, in)
		}))
	b := newBuilder(13)
	at := b.part("child")
	for i := range 12 {
		id := fmt.Sprintf("%slong%d", at, i)
		b.add(id, Grow, day, map[string]any{"size": whole(20_000 + i)})
		b.result(id, "x")
	}
	b.chain(60, b.local)
	end := f.outages.begin("store")
	r := f.send(t, b.p)
	restore := <-back
	stage.Until(t, "the run waits for the store", func() bool { return waitsForStore(t, f, r) })
	restore()
	end()
	f.wins(t, r)
	if r.histories.executions < 2 {
		t.Errorf("the run has %d executions", r.histories.executions)
	}
}

// TestALongCallIsNoProbe: the call that proves that the store is back is a short
// one, so that the others can go on soon.
func TestALongCallIsNoProbe(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	k := Folder(t)
	gate := make(chan struct{})
	var calls atomic.Int32
	back := make(chan func(), 1)
	f := camp(t, host.Options{Store: k.Options},
		replaced("grow", func(ctx context.Context, in request) (string, error) {
			if calls.Add(1) == 1 {
				restore, err := k.Outages["refusing"]()
				if err != nil {
					return "", err
				}
				back <- restore
				return grow(ctx, in)
			}
			select {
			case <-gate:
				return grow(ctx, in)
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}),
		replaced("open", func(_ context.Context, in request) (string, error) {
			close(gate)
			return in.Key, nil
		}))
	b := newBuilder(12)
	at := b.part("probe")
	b.add(at+"long", Grow, day, map[string]any{"size": whole(20_000)})
	b.result(at+"long", "x")
	b.add(at+"wait", Sleep, 60_000, map[string]any{"ms": whole(4000)})
	b.add(at+"open", Open, 1000, map[string]any{"key": at})
	b.after(at+"wait", at+"open")
	end := f.outages.begin("store")
	r := f.send(t, b.p)
	restore := <-back
	stage.Until(t, "the run waits for the store alone", func() bool {
		state := stage.State(t, f.Client(), f.Client().GetWorkflow(t.Context(), r.id, ""))
		return state.Counts.Succeeded == 1 && len(state.Waiting) > 0 && state.Waiting[0].Kind == contract.WaitStore
	})
	restore()
	end()
	f.wins(t, r)
}

// TestAValueThatIsGone: a run says which value it waits for, goes on once that is back,
// and hurts no other run; one that nobody brings back can be cancelled.
func TestAValueThatIsGone(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	k := Folder(t)
	gate := make(chan struct{})
	f := camp(t, host.Options{Store: k.Options}, gated(gate))
	send := func() *siegedRun {
		b := newBuilder(14)
		at := b.part("gone")
		b.add(at+"large", Grow, 1000, map[string]any{"size": whole(20_000)})
		b.add(at+"wait", Wait, day, map[string]any{"key": at})
		b.add(at+"reads", Pass, 5000, nil).Longest = 30_000
		b.after(at+"large", at+"wait")
		b.after(at+"wait", at+"reads")
		b.flow(at+"large", at+"reads")
		b.result(at+"reads", "x")
		return f.send(t, b.p)
	}
	// values are the files of the store but for the plan, which all runs share.
	values := func() []string {
		files, err := filepath.Glob(filepath.Join(k.Options.Dir, "blobs", "*", "*"))
		require.NoError(t, err)
		return slices.DeleteFunc(files, func(file string) bool {
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			return b[0] == '{'
		})
	}
	waits := func(r *siegedRun) {
		stage.Until(t, "the large value is there", func() bool { return f.done(t, r) == 1 })
	}
	back, never := send(), send()
	waits(back)
	waits(never)
	gone := values()
	require.Len(t, gone, 2, "one of each run")
	other := send()
	waits(other)
	end := f.outages.begin("store")
	for _, file := range gone {
		require.NoError(t, os.Rename(file, file+".gone"))
	}
	close(gate)
	f.wins(t, other)
	for _, r := range []*siegedRun{back, never} {
		stage.Until(t, "the run says what it waits for", func() bool {
			state := stage.State(t, f.Client(), f.Client().GetWorkflow(t.Context(), r.id, ""))
			return len(state.Waiting) > 0 && state.Waiting[0].Kind == contract.WaitStore && slices.ContainsFunc(gone, func(file string) bool {
				return strings.Contains(state.Waiting[0].Detail, filepath.Base(file))
			})
		})
	}
	require.NoError(t, f.Client().CancelWorkflow(t.Context(), never.id, ""))
	never.cancelled = true
	f.wins(t, never)
	for _, file := range gone {
		require.NoError(t, os.Rename(file+".gone", file))
	}
	end()
	f.wins(t, back)
}
