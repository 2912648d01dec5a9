package containment_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/containment"
)

// A small world: schemas about a handful of values, all of which can be tried.
var (
	smallLeaves = []any{json.Number("0"), json.Number("1"), "a", "ab", true}
	smallNames  = []string{"a", "b", "ab"}
	smallTexts  = []string{"a", "^a", "b$", "^a$", "^.$", "^(a|b)*$"}
)

// smallWorld are the leaves, the lists of at most three of four of them, and the
// objects with three names and three of them.
func smallWorld() []any {
	world := append([]any{}, smallLeaves...)
	lists := [][]any{{}}
	for i := 0; i < len(lists); i++ {
		world = append(world, lists[i])
		if len(lists[i]) < 3 {
			for _, e := range smallLeaves[:4] {
				lists = append(lists, append(lists[i][:len(lists[i]):len(lists[i])], e))
			}
		}
	}
	objects := []object{{}}
	for _, k := range smallNames {
		for _, o := range objects[:len(objects):len(objects)] {
			for _, e := range smallLeaves[:3] {
				with := object{k: e}
				for n, v := range o {
					with[n] = v
				}
				objects = append(objects, with)
			}
		}
	}
	for _, o := range objects {
		world = append(world, o)
	}
	return world
}

// small grows a schema of the small world: kind is "array" or "object".
func (d dice) small(kind string, depth int) object {
	s := object{}
	leaf := func() any {
		return pick(d, []any{true, false, object{"const": pick(d, smallLeaves)}, object{"type": "integer"}, object{"type": "string"},
			object{"enum": []any{json.Number("0"), "a"}}, object{"not": object{"const": pick(d, smallLeaves)}},
			object{"maximum": 0}, object{"minLength": 2}, object{"enum": []any{json.Number("0"), json.Number("1.0")}}})
	}
	for range 1 + d(3) {
		if kind == "array" {
			switch d(9) {
			case 0:
				s["minItems"] = d(4)
			case 1:
				s["maxItems"] = d(4)
			case 2:
				s["uniqueItems"] = true
			case 3:
				s["items"] = leaf()
			case 4:
				s["prefixItems"] = []any{leaf(), leaf()}[:1+d(2)]
			case 5, 6:
				s["contains"] = leaf()
			case 7:
				s["minContains"], s["maxContains"] = d(3), 1+d(3)
			case 8:
				s["unevaluatedItems"] = leaf()
			}
			continue
		}
		switch d(12) {
		case 0:
			s["minProperties"] = d(4)
		case 1:
			s["maxProperties"] = d(4)
		case 2:
			s["required"] = []any{pick(d, smallNames)}
		case 3, 4:
			s["properties"] = object{pick(d, smallNames): leaf(), "a": leaf()}
		case 5:
			s["patternProperties"] = object{pick(d, smallTexts): leaf()}
		case 6:
			s["additionalProperties"] = leaf()
		case 7:
			s["propertyNames"] = pick(d, []any{object{"pattern": pick(d, smallTexts)}, object{"minLength": 2}, object{"const": "a"}, object{"enum": []any{"a", "b"}}})
		case 8:
			s["dependentRequired"] = object{pick(d, smallNames): []any{pick(d, smallNames)}}
		case 9:
			s["dependentSchemas"] = object{pick(d, smallNames): d.small(kind, 0)}
		case 10:
			s["unevaluatedProperties"] = leaf()
		case 11:
			s["additionalProperties"] = false
		}
	}
	if depth == 0 {
		return s
	}
	switch d(8) {
	case 0:
		s["allOf"] = []any{d.small(kind, depth-1), d.small(kind, depth-1)}
	case 1:
		s["anyOf"] = []any{d.small(kind, depth-1), d.small(kind, depth-1)}
	case 2:
		s["oneOf"] = []any{d.small(kind, depth-1), d.small(kind, depth-1)}
	case 3:
		s["not"] = d.small(kind, depth-1)
	case 4:
		s["if"], s["then"], s["else"] = d.small(kind, depth-1), d.small(kind, depth-1), d.small(kind, depth-1)
	}
	return s
}

// smallPair grows two schemas of the small world that have much in common.
func (d dice) smallPair() (a, b grown, ok bool) {
	kind := pick(d, []string{"array", "object"})
	l := d.small(kind, d(3))
	r := copied(l).(object)
	for k, v := range d.small(kind, 1+d(2)) {
		if !d.one(3) {
			r[k] = v
		}
	}
	if d.one(2) {
		r = object{"anyOf": []any{r, d.small(kind, 1)}}
	}
	if d.one(4) {
		l = object{"allOf": []any{l, d.small(kind, 1)}}
	}
	if d.one(2) {
		l["type"] = kind
	}
	if d.one(3) {
		l, r = r, l
	}
	if a, ok = d.compiled(l); !ok {
		return a, b, false
	}
	b, ok = d.compiled(r)
	return a, b, ok
}

// TestSmallWorld: over every value of a small world, a proved pair holds, two
// disjoint schemas share none, and what stands in a value is of its part's schema.
func TestSmallWorld(t *testing.T) {
	world := smallWorld()
	verdicts := map[containment.Verdict]int{}
	for seed := range uint64(400) {
		d := shuffle(seed)
		a, b, ok := d.smallPair()
		if !ok {
			continue
		}
		res := asked(t, a, b)
		verdicts[res.Verdict]++
		apart := disjoint(t, a, b)
		for _, v := range world {
			if a.compiled.Validate(v) != nil {
				continue
			}
			right := b.compiled.Validate(v) == nil
			require.False(t, res.Verdict == containment.Proved && !right, "proved, but %s: %s in %s", text(v), text(a.doc), text(b.doc))
			require.False(t, apart.Verdict == containment.Proved && right, "disjoint, but %s: %s and %s", text(v), text(a.doc), text(b.doc))
			if seed%10 == 0 {
				held(t, a, v, containment.Options{Steps: d(200)})
			}
		}
	}
	t.Log(verdicts)
}
