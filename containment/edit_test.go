package containment_test

import (
	"encoding/json"
	"maps"
	"slices"
)

func copied(v any) any {
	switch v := v.(type) {
	case object:
		m := make(object, len(v))
		for k, e := range v {
			m[k] = copied(e)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = copied(e)
		}
		return list
	}
	return v
}

// slot is a place where a schema stands.
type slot struct {
	schema any
	put    func(any)
	depth  int
}

// slots are the places of the schemas in s, itself first, in a fixed order.
func slots(s any, put func(any), depth int) []slot {
	all := []slot{{s, put, depth}}
	m, ok := s.(object)
	if !ok {
		return all
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		switch k {
		case "not", "if", "then", "else", "items", "additionalItems", "additionalProperties", "contains", "propertyNames",
			"unevaluatedItems", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "prefixItems":
			if list, ok := m[k].([]any); ok {
				for i, e := range list {
					all = append(all, slots(e, func(v any) { list[i] = v }, depth+1)...)
				}
				continue
			}
			all = append(all, slots(m[k], func(v any) { m[k] = v }, depth+1)...)
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
			named, _ := m[k].(object)
			for _, n := range slices.Sorted(maps.Keys(named)) {
				if _, list := named[n].([]any); list {
					continue
				}
				all = append(all, slots(named[n], func(v any) { named[n] = v }, depth+1)...)
			}
		}
	}
	return all
}

// fixed are keywords of a document that an edit does not touch.
var fixed = []string{"$schema", "$defs", "definitions"}

// edited returns a copy of a document with one change somewhere.
func (d dice) edited(doc any, draft int) any {
	root := copied(doc)
	places := slots(root, func(v any) { root = v }, 0)
	at := pick(d, places)
	g := &grower{dice: d, year: drafts[draft].year}
	m, ok := at.schema.(object)
	if !ok {
		at.put(g.schema(1))
		return d.sealed(root, doc)
	}
	var keys []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(fixed, k) {
			keys = append(keys, k)
		}
	}
	switch n := d(8); {
	case n == 0 && len(keys) > 0:
		delete(m, pick(d, keys))
	case n <= 2:
		g.keyword(m, pick(d, growTypes), 1)
	case n == 3 && at.depth > 0:
		at.put(g.schema(1))
	case n == 4 && at.depth > 0:
		at.put(object{pick(d, []string{"anyOf", "oneOf", "allOf"}): []any{m, g.schema(1)}})
	case n == 5 && at.depth > 0:
		at.put(object{"not": m})
	case len(keys) > 0:
		d.nudge(m, pick(d, keys))
	}
	return d.sealed(root, doc)
}

// sealed gives root the draft of doc again.
func (d dice) sealed(root, doc any) any {
	r, ok := root.(object)
	from, too := doc.(object)
	if ok && too {
		for _, k := range fixed {
			if v, there := from[k]; there && r[k] == nil {
				r[k] = v
			}
		}
	}
	return root
}

// nudge changes what a keyword says by a little.
func (d dice) nudge(m object, k string) {
	switch v := m[k].(type) {
	case int:
		m[k] = max(0, v+1-2*d(2))
	case json.Number:
		m[k] = pick(d, growSteps)
	case bool:
		m[k] = !v
	case string:
		switch k {
		case "type":
			m[k] = pick(d, growTypes)
		case "pattern":
			m[k] = v + pick(d, []string{"", "a", ".", "b*", "$"})
		}
	case []any:
		if i := d(len(v) + 1); i < len(v) && len(v) > 1 {
			m[k] = slices.Delete(slices.Clone(v), i, i+1)
		} else if k == "enum" {
			m[k] = append(slices.Clone(v), object{"new": true})
		}
	case object:
		if keys := slices.Sorted(maps.Keys(v)); len(keys) > 0 {
			v = maps.Clone(v)
			delete(v, pick(d, keys))
			m[k] = v
		}
	}
}

// disguised returns a document that means the same in other words.
func (d dice) disguised(doc any, draft int) any {
	root := copied(doc)
	places := slots(root, func(v any) { root = v }, 0)
	at := pick(d, places)
	m, ok := at.schema.(object)
	if !ok || at.depth == 0 {
		return root
	}
	never := any(object{"not": object{}})
	switch d(7) {
	case 0:
		at.put(object{"allOf": []any{m, object{}}})
	case 1:
		at.put(object{"anyOf": []any{m, m}})
	case 2:
		at.put(object{"not": object{"not": m}})
	case 3:
		at.put(object{"oneOf": []any{m, never}})
	case 4:
		at.put(object{"anyOf": []any{never, object{"allOf": []any{m}}}})
	case 5:
		if drafts[draft].year >= 7 {
			at.put(object{"if": object{}, "then": m, "else": never})
		}
	case 6:
		var ways []any
		for _, t := range growTypes {
			if t != "integer" {
				ways = append(ways, object{"allOf": []any{object{"type": t}, m}})
			}
		}
		at.put(object{"oneOf": ways})
	}
	return root
}

// annotates reports whether a document says somewhere that what was evaluated
// matters, so that words around a part may change the meaning of the whole.
func annotates(doc any) bool {
	return slices.ContainsFunc(slots(doc, func(any) {}, 0), func(s slot) bool {
		m, ok := s.schema.(object)
		return ok && (m["unevaluatedItems"] != nil || m["unevaluatedProperties"] != nil)
	})
}
