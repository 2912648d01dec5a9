package siege

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// small plans whose ends are known from the pages of the language.
func known() map[string]struct {
	plan  func(b *builder)
	fates map[string]Fate
	fatal []string
	lasts bool
} {
	type fates = map[string]Fate
	x := map[string]any{"x": "1"}
	fail := map[string]any{"message": "broken"}
	above := func(limit int64) func(Facts) bool {
		return func(f Facts) bool { return integer(f.Value) > limit }
	}
	return map[string]struct {
		plan  func(b *builder)
		fates map[string]Fate
		fatal []string
		lasts bool
	}{
		"a diamond": {plan: func(b *builder) {
			b.add("split", Pass, 500, map[string]any{"n": whole(11)})
			b.add("large", Pass, 500, x)
			b.add("small", Pass, 500, x)
			b.add("merge", Pass, 500, nil)
			b.edge(Edge{From: "split", FromPort: "n", To: "large", ToPort: "$start", Type: "conditional", Required: true, When: "value > 10", Holds: above(10)})
			b.edge(Edge{From: "split", FromPort: "$done", To: "small", ToPort: "$start", Type: "conditional", Required: true, When: Otherwise})
			b.edge(Edge{From: "large", FromPort: "x", To: "merge", ToPort: "x", Type: "data"})
			b.edge(Edge{From: "small", FromPort: "x", To: "merge", ToPort: "x", Type: "data"})
		}, fates: fates{"split": Succeeds, "large": Succeeds, "small": Skipped, "merge": Succeeds}},
		"a failure that is handled": {plan: func(b *builder) {
			b.add("a", Fail, 500, fail)
			b.add("after", Pass, 500, nil)
			b.add("rescue", Pass, 500, x)
			b.after("a", "after")
			b.rescue("a", "rescue", "", nil)
		}, fates: fates{"a": Fails, "after": Skipped, "rescue": Succeeds}},
		"a rescuer that is skipped handles nothing": {plan: func(b *builder) {
			b.add("a", Fail, 500, fail)
			b.add("helper", Pass, 500, x)
			b.add("rescue", Pass, 500, x)
			b.edge(Edge{From: input, FromPort: "n", To: "helper", ToPort: "$start", Type: "conditional", Required: true, When: "value > 900", Holds: above(900)})
			b.after("helper", "rescue")
			b.rescue("a", "rescue", "", nil)
		}, fates: fates{"a": Fails, "helper": Skipped, "rescue": Skipped}, fatal: []string{"a"}},
		"the first fatal failure hides those after it": {plan: func(b *builder) {
			b.add("a", Fail, 500, fail)
			b.add("other", Fail, 500, fail)
			b.add("join", Pass, 500, x)
			b.add("late", Fail, 500, fail)
			b.add("ok", Pass, 500, x)
			b.edge(Edge{From: "a", FromPort: "$done", To: "join", ToPort: "$start", Type: "control"})
			b.edge(Edge{From: "ok", FromPort: "$done", To: "join", ToPort: "$start", Type: "control"})
			b.after("join", "late")
		}, fates: fates{"a": Fails, "other": Fails, "join": Succeeds, "late": Fails, "ok": Succeeds}, fatal: []string{"a", "other"}},
		"a required edge that is not delivered": {plan: func(b *builder) {
			b.add("a", Pass, 500, x)
			b.add("b", Pass, 500, x)
			b.edge(Edge{From: "a", FromPort: "y", To: "b", ToPort: "y", Type: "data"})
		}, fates: fates{"a": Succeeds, "b": Skipped}},
		"a port that nothing fills in the end": {plan: func(b *builder) {
			b.add("a", Pass, 500, x)
			b.add("b", Pass, 500, nil)
			b.edge(Edge{From: "a", FromPort: "y", To: "b", ToPort: "x", Type: "data"})
			b.edge(Edge{From: "a", FromPort: "$done", To: "b", ToPort: "$start", Type: "control"})
		}, fates: fates{"a": Succeeds, "b": Skipped}},
		"a narrow output": {plan: func(b *builder) {
			b.add("a", Pass, 500, map[string]any{"x": "longer than eight"}).Longest = 8
		}, fates: fates{"a": Fails}, fatal: []string{"a"}},
		"a call without end": {plan: func(b *builder) {
			b.add("a", Wait, 500, map[string]any{"key": "k"}).Never = true
			b.add("b", Pass, 500, x)
			b.after("a", "b")
			b.add("c", Fail, 500, fail)
			b.rescue("c", "b", "", nil)
		}, fates: fates{"a": Lasts, "b": Lasts, "c": Fails}, lasts: true},
		"a timeout": {plan: func(b *builder) {
			b.add("a", Sleep, 20, map[string]any{"ms": whole(5000)})
		}, fates: fates{"a": Fails}, fatal: []string{"a"}},
	}
}

func TestForesee(t *testing.T) {
	for name, c := range known() {
		t.Run(name, func(t *testing.T) {
			b := newBuilder(1)
			c.plan(b)
			m, err := Foresee(b.p)
			require.NoError(t, err)
			got := map[string]Fate{}
			for id, d := range m.Nodes {
				got[id] = d.Fate
			}
			require.Equal(t, c.fates, got)
			require.ElementsMatch(t, c.fatal, slices.Collect(maps.Keys(m.Fatal)))
			require.Equal(t, c.lasts, !m.Complete)
		})
	}
}

// right is what is observed of a run that went as the model says.
func right(m *Model) *Seen {
	end := End{State: "succeeded", Digest: m.Digest}
	s := &Seen{Ledger: end, Client: end, Temporal: End{State: end.State}, Query: End{State: end.State}, Counts: map[string]int{}}
	for _, n := range m.Plan.Nodes {
		d := m.Nodes[n.ID]
		o := Outcome{Node: n.ID, Fate: d.Fate, In: d.In, Out: d.Out}
		if d.Failure != nil {
			o = Outcome{Node: n.ID, Fate: d.Fate, Kind: d.Failure.Kind, Message: d.Failure.Message, Attempts: d.Failure.Attempts}
		}
		s.Outcomes = append(s.Outcomes, o)
		s.Counts[string(d.Fate)]++
	}
	return s
}

// TestJudge: a run that went right passes, and nothing that is wrong with it does.
func TestJudge(t *testing.T) {
	b := newBuilder(1)
	b.chain(3, b.local)
	b.p.Nodes[1].Op = Pass
	b.add("f", Fail, 500, map[string]any{"message": "broken"})
	b.add("r", Pass, 500, map[string]any{"x": "rescued"})
	b.rescue("f", "r", "", nil)
	m, err := Foresee(b.p)
	require.NoError(t, err)
	require.Empty(t, m.Judge(right(m)))

	cancelled := right(m)
	cancelled.Cancelled = true
	end := End{State: "cancelled", Kind: "cancelled"}
	cancelled.Ledger, cancelled.Client, cancelled.Temporal, cancelled.Query = end, end, end, end
	cancelled.Outcomes = cancelled.Outcomes[:1]
	cancelled.Counts = map[string]int{"succeeded": 1, "dropped": 4}
	require.Empty(t, m.Judge(cancelled))

	for name, spoil := range map[string]func(s *Seen){
		"the ledger says another end":   func(s *Seen) { s.Ledger.State = "running" },
		"Temporal says another end":     func(s *Seen) { s.Temporal.State = "failed" },
		"the query says another end":    func(s *Seen) { s.Query.State = "running" },
		"the ledger has another output": func(s *Seen) { s.Ledger.Digest = "sha256:0" },
		"all have another output":       func(s *Seen) { s.Ledger.Digest, s.Client.Digest = "sha256:0", "sha256:0" },
		"nobody cancelled it": func(s *Seen) {
			end := End{State: "cancelled", Kind: "cancelled"}
			s.Ledger, s.Client, s.Temporal, s.Query = end, end, end, end
		},
		"its deadline is far": func(s *Seen) {
			end := End{State: "failed", Kind: "deadline"}
			s.Ledger, s.Client, s.Temporal, s.Query = end, end, end, end
		},
		"a failure that was handled ends it": func(s *Seen) {
			end := End{State: "failed", Kind: "tool_error", Node: "f"}
			s.Ledger, s.Client, s.Temporal, s.Query = end, end, end, end
		},
		"an outcome is missing":     func(s *Seen) { s.Outcomes = s.Outcomes[1:] },
		"an outcome is there twice": func(s *Seen) { s.Outcomes = append(s.Outcomes, s.Outcomes[0]) },
		"another fate":              func(s *Seen) { s.Outcomes[0].Fate = Skipped },
		"another output of a node":  func(s *Seen) { s.Outcomes[1].Out = "sha256:0" },
		"another kind":              func(s *Seen) { s.Outcomes[3].Kind = "timeout" },
		"another message":           func(s *Seen) { s.Outcomes[3].Message = "fine" },
		"more attempts":             func(s *Seen) { s.Outcomes[3].Attempts = 2 },
		"other counts":              func(s *Seen) { s.Counts["succeeded"]++ },
		"a node of no plan":         func(s *Seen) { s.Outcomes = append(s.Outcomes, Outcome{Node: "z", Fate: Succeeds}) },
	} {
		t.Run(name, func(t *testing.T) {
			s := right(m)
			spoil(s)
			require.NotEmpty(t, m.Judge(s))
		})
	}
}
