package containment_test

import (
	"encoding/json"
	"maps"
	"math/big"
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

// smallWorld returns the values that the schemas of a kind are tried on.
func smallWorld(kind string) (world []any) {
	switch kind {
	case "array":
		return lists(3, append([]any{}, smallLeaves[:4]...))
	case "object":
		return objects(smallLeaves[:3])
	case "string":
		for _, l := range lists(4, []any{"a", "b", "A", "\n", "é"}) {
			var s string
			for _, e := range l.([]any) {
				s += e.(string)
			}
			world = append(world, s)
		}
	case "number":
		for n := -30; n <= 30; n++ {
			r := big.NewRat(int64(n), 6)
			if prec, exact := r.FloatPrec(); exact {
				world = append(world, json.Number(r.FloatString(prec)))
			}
		}
		world = append(world, json.Number("1e1"), json.Number("0.1"), json.Number("-0.3"), json.Number("12"))
	case "tree":
		world = append(world, smallLeaves[:3]...)
		world = append(world, objects(append(lists(1, smallLeaves[:1]), smallLeaves[0]))...)
		world = append(world, objects([]any{smallLeaves[0], object{}, object{"a": smallLeaves[0]}, object{"b": object{"a": object{}}}})...)
		world = append(world, lists(2, []any{smallLeaves[0], []any{}, []any{smallLeaves[2]}, object{"a": []any{}}})...)
	}
	return append(world, smallLeaves...)
}

// lists are those of at most n of the elements.
func lists(n int, elements []any) []any {
	all := [][]any{{}}
	for i := 0; i < len(all); i++ {
		if len(all[i]) < n {
			for _, e := range elements {
				all = append(all, append(all[i][:len(all[i]):len(all[i])], e))
			}
		}
	}
	var out []any
	for _, l := range all {
		out = append(out, l)
	}
	return out
}

// objects are those with the small names and the members.
func objects(members []any) []any {
	all := []object{{}}
	for _, k := range smallNames {
		for _, o := range all[:len(all):len(all)] {
			for _, e := range members {
				with := maps.Clone(o)
				with[k] = e
				all = append(all, with)
			}
		}
	}
	var out []any
	for _, o := range all {
		out = append(out, o)
	}
	return out
}

// smallKinds are what the schemas of the small world are about.
var smallKinds = []string{"array", "object", "string", "number", "tree"}

// small grows a schema of the small world.
func (d dice) small(kind string, depth int) object {
	s := object{}
	leaf := func() any {
		return pick(d, []any{true, false, object{"const": pick(d, smallLeaves)}, object{"type": "integer"}, object{"type": "string"},
			object{"enum": []any{json.Number("0"), "a"}}, object{"not": object{"const": pick(d, smallLeaves)}},
			object{"maximum": 0}, object{"minLength": 2}, object{"enum": []any{json.Number("0"), json.Number("1.0")}}})
	}
	for range 1 + d(3) {
		switch kind {
		case "string":
			switch d(6) {
			case 0:
				s["minLength"] = d(4)
			case 1:
				s["maxLength"] = d(5)
			case 2:
				s["enum"] = []any{"a", "ab", pick(d, []any{"b", "\n", json.Number("0")})}
			default:
				s["pattern"] = d.pattern(2)
			}
			continue
		case "number":
			half := []json.Number{"0", "1", "-1", "0.5", "1.5", "3", "-2.5", "4.0", "0.1"}
			switch d(7) {
			case 0, 1:
				s[pick(d, []string{"minimum", "exclusiveMinimum"})] = pick(d, half)
			case 2, 3:
				s[pick(d, []string{"maximum", "exclusiveMaximum"})] = pick(d, half)
			case 4:
				s["multipleOf"] = pick(d, []json.Number{"1", "2", "3", "0.5", "1.5", "2.5", "0.1"})
			case 5:
				s["type"] = "integer"
			case 6:
				s["enum"] = []any{pick(d, half)}
			}
			continue
		case "tree":
			self := func() any { return object{"$ref": pick(d, []string{"#/$defs/T", "#/$defs/U"})} }
			switch d(9) {
			case 0, 1:
				s["properties"] = object{pick(d, smallNames): self()}
			case 2:
				s["additionalProperties"] = self()
			case 3:
				s["items"] = self()
			case 4:
				s["required"] = []any{pick(d, smallNames)}
			case 5:
				s["type"] = pick(d, []any{"object", "array", []any{"object", "integer"}, []any{"array", "object"}})
			case 6:
				s["contains"] = self()
			case 7:
				s["properties"] = object{pick(d, smallNames): self(), pick(d, smallNames): leaf()}
			case 8:
				s["unevaluatedProperties"] = self()
			}
			continue
		case "array":
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
func (d dice) smallPair(kind string) (a, b grown, ok bool) {
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
	if d.one(2) && kind != "tree" {
		l["type"] = kind
	}
	if kind == "tree" {
		defs := object{"T": d.small(kind, 1), "U": d.small(kind, 1)}
		l["$defs"], r["$defs"] = defs, defs
		if d.one(2) {
			r["$defs"] = object{"T": d.small(kind, 1), "U": defs["U"]}
		}
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
	for _, kind := range smallKinds {
		t.Run(kind, func(t *testing.T) { small(t, kind) })
	}
}

func small(t *testing.T, kind string) {
	world := smallWorld(kind)
	verdicts := map[containment.Verdict]int{}
	for seed := range times(20, 60) {
		d := shuffle(seed)
		a, b, ok := d.smallPair(kind)
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
