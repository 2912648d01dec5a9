package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// undoablePlan is a plan with so many effects, each of which two nodes undo, one after the other.
// The first reads the output of the effect where reads is set.
func undoablePlan(reads ...bool) *plan.Plan {
	n := len(reads)
	p := &plan.Plan{Nodes: make([]plan.Node, 3*n+2)}
	p.Nodes[0].Kind, p.Nodes[3*n+1].Kind = plan.KindInput, plan.KindOutput
	for i, output := range reads {
		for step := range 3 {
			at := &p.Nodes[1+step*n+i]
			at.Kind, at.ID = plan.KindCall, fmt.Sprintf("n%d.%d", i, step)
			if step > 0 {
				at.Undoes = 1 + i
			}
		}
		p.Edges = append(p.Edges,
			plan.Edge{From: 1 + i, To: 1 + n + i, FromPort: plan.CompensatePort, ToPort: "x", Type: plan.Error, Required: true, ReadsOutput: output},
			plan.Edge{From: 1 + n + i, To: 1 + 2*n + i, FromPort: plan.DonePort, ToPort: plan.StartPort, Type: plan.Control, Required: true})
	}
	p.Index()
	return p
}

// fate is what befalls an effect when it is undone.
type fate struct {
	Unanswered, Gone, Known bool
	// Fails is the node of the block that fails, from 1, or 0.
	Fails int
	// Stays: it still stands afterwards, or nobody can say.
	Stays, Mute bool
}

func (f *fate) compensated(reads bool) bool {
	return !f.Unanswered && (f.Known || !reads) && f.Fails == 0 && !f.Stays && !f.Mute
}

// TestUndoing: each armed effect is undone once, the last first, and ends as what befalls it
// says, whenever the run continues as new.
func TestUndoing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		reads := rapid.SliceOfN(rapid.Bool(), 1, 4).Draw(t, "reads")
		p := undoablePlan(reads...)
		fates := make([]fate, len(reads))
		for i := range fates {
			fates[i] = fate{
				Unanswered: rapid.IntRange(0, 5).Draw(t, "unanswered") == 0, Gone: rapid.IntRange(0, 3).Draw(t, "gone") == 0, Known: rapid.Bool().Draw(t, "known"),
				Fails: max(0, rapid.IntRange(-4, 2).Draw(t, "fails")), Stays: rapid.IntRange(0, 5).Draw(t, "stays") == 0, Mute: rapid.IntRange(0, 5).Draw(t, "mute") == 0,
			}
		}
		s := plan.NewProgress(p)
		u := plan.NewUndoing(s)
		s.Begin(contract.Outcome{})
		for i, ok := s.Next(); ok; i, ok = s.Next() {
			s.Succeed(i, contract.Outcome{})
		}
		armed := rapid.Permutation([]int{1, 2, 3, 4}[:len(reads)]).Draw(t, "armed")
		armed = armed[:rapid.IntRange(0, len(armed)).Draw(t, "attempted")]
		for _, i := range slices.Concat(armed, armed) {
			u.Attempt(i)
		}
		u.Attempt(len(reads) + 1)
		var done, not []string
		for _, i := range slices.Backward(armed) {
			switch f := &fates[i-1]; {
			case f.Gone && !f.Unanswered:
			case f.compensated(reads[i-1]):
				done = append(done, p.Nodes[i].ID)
			default:
				not = append(not, p.Nodes[i].ID)
			}
		}
		ran := map[int]int{}
		for u.Left() {
			if rapid.IntRange(0, 2).Draw(t, "continues") == 0 {
				c := contract.Carried{Unwinding: &contract.Unwinding{}}
				s.Carry(&c)
				u.Carry(&c)
				s = plan.NewProgress(p)
				u = plan.NewUndoing(s)
				require.True(t, s.Restore(&c))
				require.True(t, u.Restore(&c))
			}
			switch step := u.Next(); step {
			case plan.UndoEnd:
				require.Zero(t, u.Node())
			case plan.UndoStop:
				_, any := s.Next()
				require.False(t, any, "nothing more of the block starts")
				u.Stopped()
			case plan.UndoWait:
				i, ok := s.Next()
				require.True(t, ok, "something runs")
				require.Equal(t, u.Node(), p.Nodes[i].Undoes)
				if ran[i]++; fates[u.Node()-1].Fails == (i-1)/len(reads) {
					s.Fail(i, nil)
				} else {
					s.Succeed(i, contract.Outcome{Held: []bool{true}})
				}
			case plan.UndoAsk:
				switch f := &fates[u.Node()-1]; {
				case u.Stage() == plan.UndoAsking && f.Unanswered, u.Stage() == plan.UndoVerifying && f.Mute:
					u.Unanswered()
				case u.Stage() == plan.UndoAsking:
					u.Stands(!f.Gone, f.Known)
				default:
					u.Verified(!f.Stays)
				}
			}
		}
		require.Equal(t, done, u.Compensated())
		require.Equal(t, not, u.NotCompensated())
		require.Equal(t, len(armed) > 0, u.Began())
		for i, n := range ran {
			require.Equal(t, 1, n, "node %d runs once", i)
		}
	})
}

// TestRecover: an effect of unknown outcome is undone while the run goes on, once, and then its
// error edges are delivered; whenever the run continues as new, and whenever its end is known.
func TestRecover(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(t, "effects")
		p := undoablePlan(make([]bool, n)...)
		// Each has a node that handles its failure, and needs something else as well.
		last := len(p.Nodes) - 1
		handlers := last
		p.Nodes = slices.Insert(p.Nodes, last, make([]plan.Node, n)...)
		for i := range n {
			p.Nodes[handlers+i] = plan.Node{Kind: plan.KindCall, ID: fmt.Sprintf("h%d", i), With: []plan.PortTemplate{{Port: "x"}}}
			p.Edges = append(p.Edges, plan.Edge{From: 1 + i, To: handlers + i, FromPort: plan.ErrorPort, ToPort: plan.StartPort, Type: plan.Error, Required: true})
		}
		p = &plan.Plan{Nodes: p.Nodes, Edges: p.Edges} // indexed anew
		p.Index()
		fates := make([]fate, n)
		for i := range fates {
			fates[i] = fate{Gone: rapid.IntRange(0, 3).Draw(t, "gone") == 0, Known: true, Fails: max(0, rapid.IntRange(-6, 2).Draw(t, "fails")), Stays: rapid.IntRange(0, 6).Draw(t, "stays") == 0}
		}
		s := plan.NewProgress(p)
		u := plan.NewUndoing(s)
		s.Begin(contract.Outcome{})
		for i, ok := s.Next(); ok; i, ok = s.Next() {
			u.Attempt(i)
		}
		require.False(t, u.Recover(1, []bool{true, false}), "no error edge is delivered")
		for i := range n {
			require.True(t, u.Recover(1+i, []bool{true, true}))
		}
		ends := rapid.IntRange(0, 40).Draw(t, "ends")
		ran := map[int]int{}
		over := false
		for step := 0; u.Recovering() || (over || len(s.Orphans()) > 0) && u.Left(); step++ {
			if over = over || step >= ends || len(s.Orphans()) > 0; over {
				u.Unwind()
				if !u.Left() {
					break
				}
			}
			if rapid.IntRange(0, 2).Draw(t, "continues") == 0 {
				var c contract.Carried
				if over {
					c.Unwinding = &contract.Unwinding{}
				}
				s.Carry(&c)
				u.Carry(&c)
				s = plan.NewProgress(p)
				u = plan.NewUndoing(s)
				require.True(t, s.Restore(&c))
				require.True(t, u.Restore(&c))
			}
			next := u.Next
			if !over {
				next = u.Proceed
			}
			was := u.Node()
			switch next() {
			case plan.UndoEnd:
				if u.Node() != 0 {
					require.NotEmpty(t, s.Orphans(), "what is left of node %d is for the end", was)
				}
			case plan.UndoStop:
				u.Stopped()
			case plan.UndoWait:
				i, ok := s.Next()
				for ok && p.Nodes[i].Undoes == 0 {
					require.GreaterOrEqual(t, i, handlers)
					ran[i]++
					s.Succeed(i, contract.Outcome{})
					i, ok = s.Next()
				}
				require.True(t, ok, "something runs")
				require.Equal(t, u.Node(), p.Nodes[i].Undoes)
				if ran[i]++; fates[u.Node()-1].Fails == (i-1)/n {
					s.Fail(i, nil)
				} else {
					s.Succeed(i, contract.Outcome{Held: []bool{true}})
				}
			case plan.UndoAsk:
				if f := &fates[u.Node()-1]; u.Stage() == plan.UndoAsking {
					u.Stands(!f.Gone, f.Known)
				} else {
					u.Verified(!f.Stays)
				}
			}
		}
		over = over || len(s.Orphans()) > 0
		for i, ok := s.Next(); ok && !over; i, ok = s.Next() {
			ran[i]++
		}
		var done, not []string
		for i := range fates {
			f, id := &fates[i], p.Nodes[1+i].ID
			switch {
			case f.Gone:
			case f.compensated(false):
				done = append(done, id)
			default:
				not = append(not, id)
				require.Zero(t, ran[handlers+i], "nothing handles what was not undone")
			}
			if !over {
				require.Equal(t, 1, ran[handlers+i], "the failure of node %d is handled", 1+i)
			}
		}
		slices.Sort(done)
		slices.Sort(not)
		require.Equal(t, done, slices.Sorted(slices.Values(u.Compensated())))
		require.Equal(t, not, slices.Sorted(slices.Values(u.NotCompensated())))
		for i, times := range ran {
			require.Equal(t, 1, times, "node %d runs once", i)
		}
	})
}

// TestRestoreUndoing: what does not fit the plan is refused.
func TestRestoreUndoing(t *testing.T) {
	for name, c := range map[string]contract.Carried{
		"no such node":     {Armed: []int{9}},
		"$input is armed":  {Armed: []int{0}},
		"undoes no node":   {Unwinding: &contract.Unwinding{Undoing: contract.Undoing{Node: -1}}},
		"undoes nothing":   {Unwinding: &contract.Unwinding{Undoing: contract.Undoing{Node: 9}}},
		"recovers none":    {Undoing: &contract.Undoing{Node: 1}},
		"recovers another": {Undoing: &contract.Undoing{Node: 1, Recoveries: []contract.Recovery{{Node: 2}}}},
		"it has not run":   {Undoing: &contract.Undoing{Recoveries: []contract.Recovery{{Node: 1}}}},
		"no such stage":    {Unwinding: &contract.Unwinding{Undoing: contract.Undoing{Node: 1, Stage: 3}}},
	} {
		require.False(t, plan.NewUndoing(plan.NewProgress(undoablePlan(true))).Restore(&c), name)
	}
}
