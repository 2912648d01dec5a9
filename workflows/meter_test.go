package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/plan"
)

// TestTheWindowFollowsTheTimeOfLocalActivities: few are in flight where they end at
// once, as many as the plan allows where they take long.
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
	land(4, 900*time.Millisecond)
	require.Equal(t, 16*minWindow, m.window)
	land(20, time.Minute)
	require.Equal(t, maxPending, m.window)
	require.Zero(t, m.flying)
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
