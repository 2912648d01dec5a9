package sagas

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// told is a plan of two effects and a failure, and what a right run of it looks like.
func told() (*Plan, *Seen) {
	p := &Plan{Seed: 1, CancelAt: -1, CancelAgain: -1, Nodes: []*Node{
		{ID: "a", Op: Write, Does: OK, Verify: Truth, Undo: []*Node{
			{ID: "a1", Op: Erase, Does: OK, Reads: true}, {ID: "a2", Op: Note, Does: OK, Needs: []string{"a1"}},
		}},
		{ID: "b", Op: Write, Does: Tear, Needs: []string{"a"}, Page: "a", Undo: []*Node{{ID: "b1", Op: Erase, Does: OK, Reads: true}}},
		{ID: "c", Op: Note, Does: OK, Rescues: "b", From: toolError},
		{ID: "d", Op: Write, Does: OK, Needs: []string{"c"}, Undo: []*Node{{ID: "d1", Op: Erase, Does: Refuse}}},
		{ID: "e", Op: Fail, Needs: []string{"d"}},
	}}
	return p, &Seen{
		Journal: `begin write a - - 1
did write a - - 1
ok write a - - 1
begin write b - 7 2
did write b - 7 2
error write b - 7 2
begin note c - - 3
did note c - - 3
ok note c - - 3
begin write d - - 4
did write d - - 4
ok write d - - 4
begin erase d d1 - 5
error erase d d1 - 5
begin erase b b1 - 6
did erase b b1 - 6
ok erase b b1 - 6
begin erase a a1 7 7
did erase a a1 7 7
ok erase a a1 7 7
begin note a a2 - 8
did note a a2 - 8
ok note a a2 - 8
begin look a - - 9
gone look a - - 9
`, State: "failed", Kind: "tool_error", Node: "e",
		Compensated: []string{"b", "a"}, NotCompensated: []string{"d"}, Armed: []string{"a", "b", "d"},
	}
}

// toldUnknown is a plan of two effects, of which nobody knows the second, which is undone
// before its failure is handled, and what a right run of it looks like that succeeds.
func toldUnknown() (*Plan, *Seen) {
	p := &Plan{Seed: 1, CancelAt: -1, CancelAgain: -1, Nodes: []*Node{
		{ID: "a", Op: Write, Does: OK, Undo: []*Node{{ID: "a1", Op: Erase, Does: OK}}},
		{ID: "b", Op: Write, Does: Lose, Needs: []string{"a"}, Undo: []*Node{{ID: "b1", Op: Erase, Does: OK}}},
		{ID: "c", Op: Write, Does: OK, Rescues: "b", From: outcomeUnknown},
	}}
	return p, &Seen{
		Journal: `begin write a - - 1
did write a - - 1
ok write a - - 1
begin write b - - 2
did write b - - 2
begin erase b b1 - 3
did erase b b1 - 3
ok erase b b1 - 3
begin write c - - 4
did write c - - 4
ok write c - - 4
`, State: "succeeded", Compensated: []string{}, NotCompensated: []string{}, Armed: []string{"a", "b", "c"},
	}
}

// without leaves out what a process has written down, and instead has another text for one.
func without(process string) func(s *Seen) {
	return func(s *Seen) {
		lines := strings.SplitAfter(s.Journal, "\n")
		s.Journal = strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.HasSuffix(l, " "+process+"\n") }), "")
	}
}

func instead(old, new string) func(s *Seen) {
	return func(s *Seen) { s.Journal = strings.Replace(s.Journal, old, new, 1) }
}

// findsEach: a run that is right is found to be, and each that is not is found not to be.
func findsEach(t *testing.T, told func() (*Plan, *Seen), faults map[string]func(s *Seen)) {
	p, s := told()
	require.Empty(t, Judge(p, s))
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			p, s := told()
			fault(s)
			findings := Judge(p, s)
			require.NotEmpty(t, findings)
			t.Log(findings)
		})
	}
}

func TestJudge(t *testing.T) {
	findsEach(t, told, map[string]func(s *Seen){
		"an effect happens twice": func(s *Seen) { s.Journal = "begin write a - - 0\ndid write a - - 0\nok write a - - 0\n" + s.Journal },
		"one is undone twice":     func(s *Seen) { s.Journal += "begin erase b b1 - 10\ndid erase b b1 - 10\nok erase b b1 - 10\n" },
		"one is not undone":       without("6"),
		"one is not undone, nor reported": func(s *Seen) {
			without("6")(s)
			s.Compensated = []string{"a"}
		},
		"one is undone, and not reported":           func(s *Seen) { s.Compensated = []string{"a"} },
		"one is reported in both lists":             func(s *Seen) { s.NotCompensated = []string{"d", "b"} },
		"what could not be undone is called undone": func(s *Seen) { s.Compensated, s.NotCompensated = []string{"d", "b", "a"}, []string{} },
		"what was undone is called not undone":      func(s *Seen) { s.Compensated, s.NotCompensated = []string{"a"}, []string{"d", "b"} },
		"the list is in another order":              func(s *Seen) { s.Compensated = []string{"a", "b"} },
		"what was never called is undone":           without("4"),
		"what is armed last is not undone first":    func(s *Seen) { s.Armed = []string{"d", "a", "b"} },
		"a page that nobody knows is handed on":     instead("begin erase b b1 - 6\ndid erase b b1 - 6\nok erase b b1 - 6", "begin erase b b1 7 6\ndid erase b b1 7 6\nok erase b b1 7 6"),
		"a page that is known is not handed on":     instead("begin erase a a1 7 7\ndid erase a a1 7 7\nok erase a a1 7 7", "begin erase a a1 - 7\ndid erase a a1 - 7\nok erase a a1 - 7"),
		"the block does not come to its end":        without("8"),
		"nobody looks whether it still stands":      without("9"),
		"it still stands":                           instead("did erase a a1 7 7\n", ""),
		"the run succeeds":                          func(s *Seen) { s.State, s.Kind, s.Node = "succeeded", "", "" },
		"the run fails somewhere else":              func(s *Seen) { s.Node = "d" },
		"a failure that is handled ends the run":    func(s *Seen) { s.Node = "b" },
		"the run is late without a deadline":        func(s *Seen) { s.Kind, s.Node = "deadline", "" },
		"nobody has cancelled it":                   func(s *Seen) { s.State, s.Kind, s.Node = "cancelled", "cancelled", "" },
		"a node begins before what it needs":        instead("ok note c - - 3\nbegin write d - - 4\n", "begin write d - - 4\nok note c - - 3\n"),
		"a node begins without what it needs":       without("1"),
		"the rescue does not run":                   without("3"),
		"an effect is called while others are undone": func(s *Seen) {
			s.Journal = strings.Replace(s.Journal, "begin write d - - 4\ndid write d - - 4\nok write d - - 4\nbegin erase d d1 - 5\nerror erase d d1 - 5\n", "begin erase d d1 - 5\nerror erase d d1 - 5\nbegin write d - - 4\ndid write d - - 4\nok write d - - 4\n", 1)
		},
		"two are undone at one time": instead("ok erase a a1 7 7\nbegin note", "ok erase a a1 7 7\nbegin erase b b1 - 11\nerror erase b b1 - 11\nbegin note"),
		"a stranger is called":       func(s *Seen) { s.Journal += "begin write z - - 12\nerror write z - - 12\n" },
	})
}

func TestJudgeOfUnknown(t *testing.T) {
	fails := func(s *Seen) { s.State, s.Kind, s.Node = "failed", "outcome_unknown", "b" }
	findsEach(t, toldUnknown, map[string]func(s *Seen){
		"it is not undone":               without("3"),
		"it is handled, then undone":     instead("ok erase b b1 - 3\nbegin write c - - 4\n", "begin write c - - 4\nok erase b b1 - 3\n"),
		"it is not handled":              without("4"),
		"it stands, and is handled":      instead("did erase b b1 - 3\nok", "error"),
		"another one is undone":          func(s *Seen) { s.Journal += "begin erase a a1 - 5\ndid erase a a1 - 5\nok erase a a1 - 5\n" },
		"what ends the run is handled":   func(s *Seen) { fails(s); s.Compensated = []string{"b", "a"} },
		"it is undone, and not reported": func(s *Seen) { s.State = "cancelled"; s.Cancelled = true },
		"the other one is not reported":  func(s *Seen) { fails(s); s.NotCompensated = []string{"b"} },
	})
	t.Run("it fails later", func(t *testing.T) {
		findsEach(t, func() (*Plan, *Seen) {
			p, s := toldUnknown()
			p.Nodes = append(p.Nodes, &Node{ID: "e", Op: Fail, Needs: []string{"c"}})
			s.State, s.Kind, s.Node, s.Compensated = "failed", "tool_error", "e", []string{"b", "a"}
			s.Journal += "begin erase a a1 - 5\ndid erase a a1 - 5\nok erase a a1 - 5\n"
			return p, s
		}, map[string]func(s *Seen){
			"the other one is not undone": without("5"),
			"it is undone again":          func(s *Seen) { s.Journal += "begin erase b b1 - 6\ndid erase b b1 - 6\nok erase b b1 - 6\n" },
		})
	})
}

// TestJudgeOfKilled: that a worker was killed excuses no call where an effect is said to be
// undone.
func TestJudgeOfKilled(t *testing.T) {
	killed := func() (*Plan, *Seen) {
		p, s := told()
		s.Killed = true
		return p, s
	}
	findsEach(t, killed, map[string]func(s *Seen){
		"one is not undone":                         without("6"),
		"the block does not come to its end":        without("8"),
		"what could not be undone is called undone": func(s *Seen) { s.Compensated, s.NotCompensated = []string{"d", "b", "a"}, []string{} },
	})
	// A call that a verification says never happened needs no undoing, and one that nobody has
	// made is not undone.
	one := func(verify Verify) (*Plan, *Seen) {
		return &Plan{Seed: 1, CancelAt: -1, CancelAgain: -1, Nodes: []*Node{
				{ID: "n1", Op: Write, Does: OK, Verify: verify, Undo: []*Node{{ID: "u1", Op: Erase, Does: OK}}},
				{ID: "n2", Op: Fail, Needs: []string{"n1"}},
			}}, &Seen{
				Journal: "begin write n1 - - 1\ndid write n1 - - 1\nok write n1 - - 1\n",
				State:   "failed", Kind: "tool_error", Node: "n2", Compensated: []string{"n1"}, NotCompensated: []string{}, Armed: []string{"n1"}, Killed: true,
			}
	}
	p, s := one(Never)
	require.Equal(t, []string{
		"n1, compensated true, not compensated false: if it is settled: n1/u1 was not called; if it is unknown: n1/u1 was not called",
	}, Judge(p, s))
	s.Compensated, s.NotCompensated = s.NotCompensated, s.Compensated
	require.Empty(t, Judge(p, s), "the worker may have died when it was to be undone")
	p, s = one(Truth)
	s.Journal, s.Kind, s.Node, s.Compensated = "begin write n1 - - 1\nbegin look n1 - - 2\ngone look n1 - - 2\n", "unsent", "n1", []string{}
	require.Empty(t, Judge(p, s), "there was nothing to undo")
}
