package containment_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/schemas"
)

// disjoint asks about common values, and checks what must hold of the answer.
func disjoint(t fails, a, b grown) containment.Result {
	t.Helper()
	res := containment.Disjoint(a.compiled, b.compiled, containment.Options{})
	if res.Verdict == containment.Refuted {
		for _, s := range []grown{a, b} {
			_, err := s.compiled.ValidateJSON(res.JSON)
			require.NoError(t, err, "%s is no value of both: %s, %s", res.JSON, text(a.doc), text(b.doc))
		}
	}
	return res
}

// vacant asks if there is no value, and checks what must hold of the answer.
func vacant(t fails, a grown) containment.Result {
	t.Helper()
	res := containment.Empty(a.compiled, containment.Options{})
	if res.Verdict == containment.Refuted {
		_, err := a.compiled.ValidateJSON(res.JSON)
		require.NoError(t, err, "%s is no value of %s", res.JSON, text(a.doc))
	}
	return res
}

// TestDisjoint: no value of both is found where there is none, the order does
// not matter, and the answers agree with those about containment.
func TestDisjoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rolled(t)
		draft, l, ok := d.related(2)
		if !ok {
			return
		}
		a, b := l[0], l[1]
		if d.one(2) {
			// Near to disjoint: one of them and what it excludes.
			if b, ok = d.compiled(object{"$schema": drafts[draft].uri, "not": b.doc}); !ok {
				return
			}
		}
		res := disjoint(t, a, b)
		other := disjoint(t, b, a)
		require.NotEqual(t, containment.Proved+containment.Refuted, res.Verdict+other.Verdict, "%s and %s", text(a.doc), text(b.doc))
		none := vacant(t, a)
		inside := asked(t, a, b)
		if res.Verdict == containment.Proved {
			s, o := d.sampler(a.doc, b.doc), d.sampler(b.doc, a.doc)
			for i := range 30 {
				v := s.next()
				if i%2 == 1 {
					v = o.next()
				}
				both := a.compiled.Validate(v) == nil && b.compiled.Validate(v) == nil
				require.False(t, both, "disjoint, but %s is in both: %s, %s", text(v), text(a.doc), text(b.doc))
			}
			if inside.Verdict == containment.Proved {
				require.NotEqual(t, containment.Refuted, none.Verdict, "%s in and disjoint from %s", text(a.doc), text(b.doc))
			}
		}
		if none.Verdict == containment.Proved {
			require.NotEqual(t, containment.Refuted, res.Verdict)
			require.NotEqual(t, containment.Refuted, inside.Verdict)
			s := d.sampler(a.doc)
			for range 20 {
				v := s.next()
				require.Error(t, a.compiled.Validate(v), "empty, but %s is a value of %s", text(v), text(a.doc))
			}
		}
	})
}

// held checks that what stands in v, a value of a, is of the schemas of its parts.
func held(t fails, a grown, v any, o containment.Options) (parts int) {
	t.Helper()
	check := func(part *schemas.Schema, e any, where any) {
		require.NotNil(t, part)
		require.NoError(t, part.Validate(e), "%s stands at %v in a value of %s (%d steps)", text(e), where, text(a.doc), o.Steps)
		parts++
	}
	switch v := v.(type) {
	case object:
		for k, e := range v {
			check(containment.Property(a.compiled, k, o), e, k)
		}
	case []any:
		for i, e := range v {
			check(containment.Element(a.compiled, i, o), e, i)
			check(containment.Element(a.compiled, -1, o), e, "any place")
		}
	}
	return parts
}

// TestParts: each part of a value satisfies the schema that Property and Element
// return for its place, with many steps and with few.
func TestParts(t *testing.T) {
	parts, refused := 0, 0
	for seed := range times(500, 10_000) {
		d := shuffle(seed)
		draft := d(len(drafts))
		a, ok := d.compiled(d.document(draft))
		if d.one(2) {
			// An object or list at the root has more parts to look at.
			g := &grower{dice: d, year: drafts[draft].year}
			doc := object{"$schema": drafts[draft].uri}
			kind := pick(d, []string{"object", "array"})
			for range 1 + d(4) {
				g.keyword(doc, kind, 2)
			}
			g.combine(doc, 2)
			a, ok = d.compiled(doc)
		}
		if !ok {
			continue
		}
		s := d.sampler(a.doc)
		for range 16 {
			v := s.next()
			if a.compiled.Validate(v) == nil {
				parts += held(t, a, v, containment.Options{Steps: d(2) * (1 + d(300))})
			}
		}
		// A place that no value can have is skipped. References would lead elsewhere from
		// inside another schema.
		for _, k := range growNames {
			p := containment.Property(a.compiled, k, containment.Options{})
			if refers(a.doc) || containment.Empty(p, containment.Options{}).Verdict != containment.Proved {
				continue
			}
			with, ok := d.compiled(object{"$schema": drafts[draft].uri, "type": "object", "required": []any{k}, "allOf": []any{a.doc}})
			if ok {
				refused++
				require.NotEqual(t, containment.Refuted, vacant(t, with).Verdict, "%s cannot stand in %s", k, text(a.doc))
			}
		}
	}
	t.Logf("%d parts, %d places of none", parts, refused)
	require.Greater(t, parts, 1000)
}

// refers reports whether a document holds a reference.
func refers(doc any) bool {
	for _, s := range slots(doc, func(any) {}, 0) {
		if m, ok := s.schema.(object); ok && m["$ref"] != nil {
			return true
		}
	}
	return false
}
