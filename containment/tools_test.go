package containment_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/schemas"
)

// tool is a schema that a tool of a server publishes.
type tool struct {
	name   string
	schema object
}

// tools reads the schemas of real tools, or a few of our own where those are not
// at hand.
func tools(t *testing.T) []tool {
	raw, err := os.ReadFile("../../shared/data/mcp-tools.json")
	if errors.Is(err, os.ErrNotExist) {
		raw, err = os.ReadFile("testdata/tools.json")
	}
	require.NoError(t, err)
	var list []struct {
		Server, Name              string
		InputSchema, OutputSchema json.RawMessage
	}
	require.NoError(t, json.Unmarshal(raw, &list))
	var all []tool
	for _, l := range list {
		for side, raw := range map[string]json.RawMessage{"input": l.InputSchema, "output": l.OutputSchema} {
			if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
				continue
			}
			v, err := schemas.Decode(raw)
			require.NoError(t, err)
			all = append(all, tool{l.Server + "/" + l.Name + " " + side, v.(object)})
		}
	}
	slices.SortFunc(all, func(a, b tool) int { return strings.Compare(a.name, b.name) })
	return all
}

// shuffle rolls fair dice from a seed.
func shuffle(seed uint64) dice {
	r := rand.New(rand.NewPCG(seed, 1+*firstSeed))
	return func(n int) int { return r.IntN(n) }
}

func must(t *testing.T, d dice, doc any) grown {
	c, err := schemas.Compile(d.write(doc))
	require.NoError(t, err, "%s", text(doc))
	return grown{doc, c}
}

// renamed returns a document whose definitions have other names.
func renamed(doc object) object {
	out := copied(doc).(object)
	for _, key := range []string{"$defs", "definitions"} {
		if defs, ok := out[key].(object); ok {
			other := object{}
			for k, v := range defs {
				other["other "+k] = v
			}
			out[key] = other
		}
	}
	for _, s := range slots(out, func(any) {}, 0) {
		if m, ok := s.schema.(object); ok {
			if ref, ok := m["$ref"].(string); ok {
				for _, head := range []string{"#/$defs/", "#/definitions/"} {
					if name, under := strings.CutPrefix(ref, head); under {
						m["$ref"] = head + "other%20" + name
					}
				}
			}
		}
	}
	return out
}

// inlined puts definitions in place of references, as deep as n.
func inlined(s any, root object, n int) any {
	switch v := s.(type) {
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = inlined(e, root, n)
		}
		return list
	case object:
		if ref, ok := v["$ref"].(string); ok && n > 0 {
			at := (&sampler{root: root}).resolve(ref)
			return inlined(at, root, n-1)
		}
		m := object{}
		for k, e := range v {
			m[k] = e
			if k != "const" && k != "enum" && k != "default" && !slices.Contains(fixed, k) {
				m[k] = inlined(e, root, n)
			}
		}
		return m
	}
	return s
}

// TestToolsReflexive: what a real tool publishes is contained in itself, from
// whatever text it was compiled, and under other names of its definitions or none.
func TestToolsReflexive(t *testing.T) {
	list := tools(t)
	for i, tool := range list {
		d := shuffle(uint64(i))
		own := must(t, d, tool.schema)
		others := map[string]any{"itself": tool.schema}
		if *soak || i%4 == 0 {
			others["renamed"], others["inlined"] = renamed(tool.schema), inlined(tool.schema, tool.schema, 4)
		}
		for how, other := range others {
			c := must(t, d, other)
			for _, pair := range [][2]grown{{own, c}, {c, own}} {
				res := asked(t, pair[0], pair[1])
				require.Equal(t, containment.Proved, res.Verdict, "%s, %s: %s %s", tool.name, how, res.Reason, res.JSON)
			}
		}
	}
	t.Logf("%d schemas", len(list))
}

// tighten returns the ways to say a little more at s. Each of them rejects a value
// that s takes, if nothing else in the document does.
func tighten(s any) []any {
	m, ok := s.(object)
	if !ok {
		if s == true {
			return []any{object{"not": object{"const": "more"}}}
		}
		return nil
	}
	with := func(more object) any {
		out := maps.Clone(m)
		for k, v := range more {
			if list, ok := out[k].([]any); ok && k == "required" {
				v = append(slices.Clone(list), v.([]any)...)
			}
			out[k] = v
		}
		return out
	}
	// also adds beside what is there, except where older drafts read nothing beside.
	also := func(more object) any {
		if m["$ref"] != nil {
			return object{"allOf": []any{m, more}}
		}
		out := maps.Clone(m)
		list, _ := m["allOf"].([]any)
		out["allOf"] = append(slices.Clone(list), more)
		return out
	}
	if list, ok := m["enum"].([]any); ok {
		if len(list) > 1 {
			return []any{with(object{"enum": list[1:]}), with(object{"const": list[len(list)-1]})}
		}
		return []any{also(object{"type": "array"})}
	}
	if _, ok := m["const"]; ok {
		return []any{also(object{"const": "something else"})}
	}
	out := []any{also(object{"const": "something else"})}
	switch m["type"] {
	case "object":
		out = append(out, with(object{"required": []any{"a name that is new"}}), also(object{"type": "array"}))
		closed := m["additionalProperties"] == false
		if !closed && m["propertyNames"] == nil {
			out = append(out, with(object{"additionalProperties": false}))
		}
		required, _ := m["required"].([]any)
		props, _ := m["properties"].(object)
		for _, k := range slices.Sorted(maps.Keys(props)) {
			if !slices.Contains(required, any(k)) {
				out = append(out, with(object{"required": []any{k}}))
				break
			}
		}
	case "array":
		least, _ := m["minItems"].(json.Number)
		n, _ := least.Int64()
		out = append(out, with(object{"maxItems": n}), with(object{"minItems": n + 1}), also(object{"type": "string"}))
	case "string":
		least, _ := m["minLength"].(json.Number)
		n, _ := least.Int64()
		out = append(out, with(object{"maxLength": n}), with(object{"minLength": n + 1}), also(object{"pattern": "^b"}))
	case "integer", "number":
		for _, key := range []string{"minimum", "maximum"} {
			edge, ok := m[key].(json.Number)
			if m["exclusive"+strings.ToUpper(key[:1])+key[1:]] != nil {
				continue
			}
			r := big.NewRat(7, 1)
			if ok {
				r.SetString(edge.String())
			}
			by := big.NewRat(1, 1)
			if key == "maximum" {
				by.Neg(by)
			}
			if other, both := m["maximum"].(json.Number); !ok && both && key == "minimum" {
				r.SetString(other.String())
				by.SetInt64(0)
			}
			if other, both := m["minimum"].(json.Number); !ok && both && key == "maximum" {
				r.SetString(other.String())
				by.SetInt64(0)
			}
			out = append(out, with(object{key: json.Number(new(big.Rat).Add(r, by).RatString())}))
		}
		out = append(out, also(object{"multipleOf": 1000}))
	}
	return out
}

// reachable are the places of a document that a value surely comes to: through
// properties, items and additionalProperties.
func reachable(s any, put func(any)) []slot {
	all := []slot{{schema: s, put: put}}
	m, ok := s.(object)
	if !ok || m["$ref"] != nil || m["enum"] != nil || m["anyOf"] != nil || m["oneOf"] != nil || m["allOf"] != nil {
		return all
	}
	if props, ok := m["properties"].(object); ok {
		for _, k := range slices.Sorted(maps.Keys(props)) {
			all = append(all, reachable(props[k], func(v any) { props[k] = v })...)
		}
	}
	for _, k := range []string{"items", "additionalProperties"} {
		if _, ok := m[k].(object); ok {
			all = append(all, reachable(m[k], func(v any) { m[k] = v })...)
		}
	}
	return all
}

// TestToolsTightened: with one constraint more, at whatever depth, the schema of
// a real tool is no longer contained, and the counterexample is confirmed. Each
// tool has its turn at one place or more; a soak goes through all places.
func TestToolsTightened(t *testing.T) {
	list := tools(t)
	pairs := 0
	for i, tool := range list {
		d := shuffle(uint64(i))
		own := must(t, d, tool.schema)
		for at := range reachable(tool.schema, func(any) {}) {
			if !*soak && at%8 != 0 {
				continue
			}
			root := copied(tool.schema)
			place := reachable(root, func(v any) { root = v })[at]
			ways := tighten(place.schema)
			if len(ways) == 0 {
				continue
			}
			place.put(pick(d, ways))
			c := must(t, d, root)
			res := asked(t, own, c)
			require.Equal(t, containment.Refuted, res.Verdict, "%s: %s %s in %s", tool.name, res.Reason, text(tool.schema), text(root))
			require.Equal(t, containment.Proved, asked(t, c, own).Verdict, "%s: %s in %s", tool.name, text(root), text(tool.schema))
			pairs++
		}
	}
	t.Logf("%d schemas, %d tightened", len(list), pairs)
}
