package containment_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/schemas"
)

// rolled returns dice that rapid rolls.
func rolled(t *rapid.T) dice {
	return func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "") }
}

// fails is what a check reports to: *testing.T, *rapid.T.
type fails interface {
	require.TestingT
	Helper()
}

// grown is a schema as text and compiled.
type grown struct {
	doc      any
	compiled *schemas.Schema
}

// compiled compiles a document whose keys stand in the order of the dice. It is
// false where the document is no schema: one that refers to itself in a loop,
// or has chains of references that are too long.
func (d dice) compiled(doc any) (grown, bool) {
	s, err := schemas.Compile(d.write(doc))
	return grown{doc, s}, err == nil
}

// related grows a list of n schemas, each a change of the one before, so that
// many of them contain another.
func (d dice) related(n int) (draft int, list []grown, ok bool) {
	draft = d(len(drafts))
	doc := d.document(draft)
	for i := range n {
		if i > 0 {
			switch d(8) {
			case 0:
				doc = d.document(draft)
			case 1:
				doc = d.document(d(len(drafts)))
			case 2:
				doc = d.disguised(doc, draft)
			default:
				doc = d.edited(doc, draft)
			}
		}
		g, fine := d.compiled(doc)
		if !fine {
			return draft, nil, false
		}
		list = append(list, g)
	}
	return draft, list, true
}

// asked proves, and checks everything that must hold of every result.
func asked(t fails, a, b grown) containment.Result {
	t.Helper()
	res := containment.Prove(a.compiled, b.compiled, containment.Options{})
	require.LessOrEqual(t, res.Steps, containment.DefaultSteps+1)
	switch res.Verdict {
	case containment.Refuted:
		v, err := a.compiled.ValidateJSON(res.JSON)
		require.NoError(t, err, "the left rejects the witness %s: %s in %s", res.JSON, text(a.doc), text(b.doc))
		require.Equal(t, v, res.Witness)
		var invalid *schemas.Invalid
		require.ErrorAs(t, b.compiled.Validate(v), &invalid, "the right takes the witness %s: %s in %s", res.JSON, text(a.doc), text(b.doc))
		require.Empty(t, res.Reason)
	case containment.Proved:
		require.Nil(t, res.Witness)
		require.Empty(t, res.JSON)
		require.Empty(t, res.Reason)
	case containment.Unknown:
		require.NotEmpty(t, res.Reason, "%s in %s", text(a.doc), text(b.doc))
	}
	return res
}

// hold checks that no value of a that is tried is rejected by b.
func (d dice) hold(t fails, a, b grown, tries int) {
	t.Helper()
	s, o := d.sampler(a.doc, b.doc), d.sampler(b.doc, a.doc)
	for i := range tries {
		v := s.next()
		if i%4 == 3 {
			v = o.next()
		}
		if a.compiled.Validate(v) == nil {
			require.NoError(t, b.compiled.Validate(v), "proved, but %s is no value of the right: %s in %s", text(v), text(a.doc), text(b.doc))
		}
	}
}

// TestSound: the right of a proved pair accepts whatever the left accepts, and
// every counterexample is one.
func TestSound(t *testing.T) {
	verdicts := map[containment.Verdict]int{}
	rapid.Check(t, func(t *rapid.T) {
		d := rolled(t)
		_, list, ok := d.related(2)
		if !ok {
			return
		}
		res := asked(t, list[0], list[1])
		verdicts[res.Verdict]++
		if res.Verdict == containment.Proved {
			d.hold(t, list[0], list[1], 40)
		}
	})
	t.Log(verdicts)
	require.NotZero(t, verdicts[containment.Proved])
	require.NotZero(t, verdicts[containment.Refuted])
}

// TestSoundMany is TestSound over many more pairs, the same each time.
func TestSoundMany(t *testing.T) {
	verdicts := map[containment.Verdict]int{}
	for seed := range times(1000, 20_000) {
		d := shuffle(seed)
		_, list, ok := d.related(2)
		if !ok {
			continue
		}
		res := asked(t, list[0], list[1])
		verdicts[res.Verdict]++
		if res.Verdict == containment.Proved {
			d.hold(t, list[0], list[1], 12)
		}
	}
	t.Log(verdicts)
}

// TestReflexive: a schema is contained in itself, compiled again from a text
// whose keys stand in another order. What is not proved has a dynamic reference
// or one into a meta-schema; grown schemas have neither.
func TestReflexive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rolled(t)
		a, ok := d.compiled(d.document(d(len(drafts))))
		if !ok {
			return
		}
		b, ok := d.compiled(a.doc)
		require.True(t, ok)
		require.Equal(t, containment.Proved, asked(t, a, b).Verdict, "%s", text(a.doc))
		require.Equal(t, containment.Proved, asked(t, a, a).Verdict, "%s", text(a.doc))
	})
}

// TestSameMeaning: another way to write the same schema is never refuted.
func TestSameMeaning(t *testing.T) {
	decided, undecided := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		d := rolled(t)
		draft := d(len(drafts))
		a, ok := d.compiled(d.document(draft))
		if !ok || annotates(a.doc) {
			return
		}
		b, ok := d.compiled(d.disguised(a.doc, draft))
		if !ok {
			return
		}
		for _, pair := range [][2]grown{{a, b}, {b, a}} {
			res := asked(t, pair[0], pair[1])
			require.NotEqual(t, containment.Refuted, res.Verdict, "%s: %s in %s", res.JSON, text(pair[0].doc), text(pair[1].doc))
			if res.Verdict == containment.Proved {
				decided++
			} else {
				undecided++
			}
		}
	})
	t.Logf("proved %d, undecided %d", decided, undecided)
	require.Greater(t, decided, 4*undecided)
}

// TestTransitive: what is contained in what is contained in a third is
// contained in it, or not decided.
func TestTransitive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rolled(t)
		_, l, ok := d.related(3)
		if !ok || asked(t, l[0], l[1]).Verdict != containment.Proved || asked(t, l[1], l[2]).Verdict != containment.Proved {
			return
		}
		require.NotEqual(t, containment.Refuted, asked(t, l[0], l[2]).Verdict, "%s in %s in %s", text(l[0].doc), text(l[1].doc), text(l[2].doc))
	})
}

// TestUnions: containment is monotone in unions, and false is contained in all.
// References would lead elsewhere from inside a union, so these schemas have none.
func TestUnions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rolled(t)
		draft := d(len(drafts))
		g := &grower{dice: d, year: drafts[draft].year}
		doc := g.schema(2)
		var docs []any
		var l []grown
		for range 3 {
			docs = append(docs, doc)
			doc = d.edited(doc, draft)
		}
		of := func(s ...any) grown {
			doc := any(object{"$schema": drafts[draft].uri, "anyOf": s})
			if len(s) == 0 {
				doc = object{"$schema": drafts[draft].uri, "not": object{}}
			}
			c, ok := d.compiled(doc)
			require.True(t, ok, "%s", text(doc))
			return c
		}
		for _, doc := range docs {
			c, ok := d.compiled(object{"$schema": drafts[draft].uri, "anyOf": []any{doc}})
			if !ok {
				return
			}
			l = append(l, c)
		}
		proved := func(a, b grown) bool { return asked(t, a, b).Verdict == containment.Proved }
		refuted := func(a, b grown) bool { return asked(t, a, b).Verdict == containment.Refuted }
		require.True(t, proved(of(), l[0]))
		if proved(l[0], l[1]) {
			require.False(t, refuted(l[0], of(docs[2], docs[1])))
			if proved(l[1], of()) {
				require.False(t, refuted(l[0], of()), "%s in %s, which is empty", text(docs[0]), text(docs[1]))
			}
			if refuted(l[0], of()) {
				require.False(t, proved(l[1], of()), "%s in %s", text(docs[0]), text(docs[1]))
			}
		}
		if proved(l[0], l[2]) && proved(l[1], l[2]) {
			require.False(t, refuted(of(docs[0], docs[1]), l[2]))
		}
	})
}

// TestDeterministic: verdict, counterexample, reason and steps are the same
// each time, and do not depend on the order in which keys are written.
func TestDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rolled(t)
		_, l, ok := d.related(2)
		if !ok {
			return
		}
		first := asked(t, l[0], l[1])
		require.Equal(t, first, asked(t, l[0], l[1]))
		a, ok := d.compiled(l[0].doc)
		require.True(t, ok)
		b, ok := d.compiled(l[1].doc)
		require.True(t, ok)
		require.Equal(t, first, asked(t, a, b), "%s in %s", text(a.doc), text(b.doc))
	})
}
