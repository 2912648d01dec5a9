package workflows

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/plan"
)

// TestManyWaitForOne: all but the last of a thousand wait at a barrier, and the run looks at
// them several times while others arrive elsewhere. That costs it little; with time that
// grows with the cube of their number the workflow task was taken for deadlocked.
func TestManyWaitForOne(t *testing.T) {
	const members, rounds = 1000, 5
	inRun(t, plan.Retry{MaxAttempts: 1}, func(r *run) {
		p := &plan.Plan{Nodes: make([]plan.Node, members+2), Barriers: []plan.Barrier{{ID: "all"}}}
		p.Nodes[0].Kind, p.Nodes[members+1].Kind = plan.KindInput, plan.KindOutput
		for i := 1; i <= members; i++ {
			p.Nodes[i] = plan.Node{ID: fmt.Sprintf("n%d", i), Kind: plan.KindCall, Commit: &plan.Commit{Barrier: 0}}
			p.Barriers[0].Members = append(p.Barriers[0].Members, i)
		}
		p.Index()
		r.scope = newScope(p)
		for i := 1; i < members; i++ {
			r.parked = append(r.parked, &wait{kind: waitBarrier, node: i})
		}
		for range rounds {
			r.gather()
			require.Empty(t, r.barriers)
		}
	})
}
