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
		{ID: "c", Op: Note, Does: OK, Rescues: "b"},
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

// TestJudge: a run that is right is found to be, and each that is not is found not to be.
func TestJudge(t *testing.T) {
	p, s := told()
	require.Empty(t, Judge(p, s))
	without := func(process string) func(s *Seen) {
		return func(s *Seen) {
			lines := strings.SplitAfter(s.Journal, "\n")
			s.Journal = strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.HasSuffix(l, " "+process+"\n") }), "")
		}
	}
	instead := func(old, new string) func(s *Seen) {
		return func(s *Seen) { s.Journal = strings.Replace(s.Journal, old, new, 1) }
	}
	for name, fault := range map[string]func(s *Seen){
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
	} {
		t.Run(name, func(t *testing.T) {
			p, s := told()
			fault(s)
			findings := Judge(p, s)
			require.NotEmpty(t, findings)
			t.Log(findings)
		})
	}
}
