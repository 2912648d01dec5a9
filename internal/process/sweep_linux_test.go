package process

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSweepLeavesOut: what was there before a child is none of its making, and is
// not even looked at, until its number may have been given away.
func TestSweepLeavesOut(t *testing.T) {
	const mark = markName + "=TestSweepLeavesOut"
	start := func() (*exec.Cmd, <-chan error) {
		cmd := exec.Command("/bin/sleep", "600")
		cmd.Env = []string{mark}
		require.NoError(t, cmd.Start())
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd, done
	}
	old, oldDone := start()
	before := listOthers()
	require.True(t, before.pids[old.Process.Pid])
	young, youngDone := start()
	// A process that has just begun its program has no environment yet.
	require.Eventually(t, func() bool {
		return slices.Equal([]int{young.Process.Pid}, marked(mark, before.pids))
	}, 5*time.Minute, time.Millisecond)

	sweep(young.Process.Pid-1, mark, before)
	require.Error(t, <-youngDone)
	require.Equal(t, []int{old.Process.Pid}, marked(mark, nil), "it still runs")

	before.at = time.Now().Add(-2 * othersLast)
	sweep(young.Process.Pid-1, mark, before)
	require.Error(t, <-oldDone)
}

// TestNewest: a child has left nobody if it was the last to begin, and not else.
func TestNewest(t *testing.T) {
	start := func() int {
		p, err := Start(Spec{Command: "cat"})
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, p.Stop(time.Second))
			p.closePipes()
		})
		return p.PID
	}
	first := start()
	start()
	require.False(t, newest(first))
	for tries := 1; !newest(start()); tries++ {
		require.Less(t, tries, 100) // others begin at any time
	}
}
