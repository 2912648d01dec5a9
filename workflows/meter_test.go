package workflows

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// TestTheWindowFollowsTheTimeOfLocalActivities: few are in flight if they end at
// once, and as many as the plan allows if they take long.
func TestTheWindowFollowsTheTimeOfLocalActivities(t *testing.T) {
	m := meter{window: maxWindow}
	land := func(n int, took time.Duration) {
		for range n {
			m.reserve()
			m.landed(100, took)
		}
	}
	land(maxWindow, time.Millisecond)
	require.Equal(t, minWindow, m.window)
	land(2, 900*time.Millisecond)
	require.Equal(t, 4*minWindow, m.window)
	land(20, time.Minute)
	require.Equal(t, maxWindow, m.window)
	require.Zero(t, m.flying)
}

// TestQuoted: a text as JSON is never longer than measured, nor much shorter.
func TestQuoted(t *testing.T) {
	for _, text := range []string{"", "abc", "<&>", "\x00\x1f\n", `"\`, "ü€😀", "\u2028\u2029", "\xff\xfe", "\x7f"} {
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		require.NoError(t, encoder.Encode(text))
		require.GreaterOrEqual(t, quoted(text), b.Len()-1, "%q", text)
		require.LessOrEqual(t, quoted(text), b.Len()+3*len(text), "%q", text)
	}
}

// TestATaskHoldsWhatItsLocalActivitiesBring: whether they succeed or fail, and
// whatever they say, all that are in flight fit into the completion of a workflow
// task, which Temporal refuses from 4 MiB.
func TestATaskHoldsWhatItsLocalActivitiesBring(t *testing.T) {
	inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
		r.meter.begin(r)
		n := 0
		for ; !r.meter.full(r, &wait{node: 1}); n++ {
			r.meter.reserve()
		}
		for range n {
			r.meter.landed(brought(errOther, 0), time.Millisecond)
		}
		require.True(t, r.meter.full(r, &wait{node: r.last()}))
		require.Equal(t, n*(failureBytes+overhead), r.meter.bytes)
		require.Less(t, r.meter.bytes, 3<<20)
	})
}

// TestTheOutputNeedsNoTaskOfItsOwn: a run of as many nodes as a workflow task holds
// ends in that task.
func TestTheOutputNeedsNoTaskOfItsOwn(t *testing.T) {
	inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
		r.meter.begin(r)
		r.meter.nodes = taskNodes
		require.True(t, r.meter.full(r, &wait{node: 1}))
		require.False(t, r.meter.full(r, &wait{node: r.last()}))
		r.meter.nodes++
		require.True(t, r.meter.full(r, &wait{node: r.last()}))
	})
}

// TestARunThatHoldsMuchAsksForLess: values that nodes have yet to read must fit
// into what a run carries.
func TestARunThatHoldsMuchAsksForLess(t *testing.T) {
	inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
		w := &wait{node: 1}
		r.hold(1, []contract.Value{make(contract.Value, maxHeld)})
		require.False(t, r.request(w).Lean)
		r.hold(0, []contract.Value{nil, make(contract.Value, 1)})
		require.True(t, r.request(w).Lean)
		r.remaining[1] = 1
		r.consume(1)
		require.False(t, r.request(w).Lean)
		require.Equal(t, 1, r.held)
	})
}
