package schemas

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"chimera.ai/engine/internal/excerpt"
)

// settle turns each dynamic reference ($dynamicRef) that leads to the same schema however
// it is reached into an ordinary one, so that its meaning is known even in a part of the
// document alone.
//
// The library takes, of the schemas that a validation has entered, the outermost
// that has a dynamic anchor of that name at or below its place, other than the
// one that the reference leads to at first. That is the document's root, which
// every validation enters first and below which all anchors are. So if at most one
// other anchor has the name, there is nothing to choose; of several it takes any,
// which is refused. Two things could change that, and settle does nothing if it
// finds one: the library forgets what was entered before a then or else, and an
// anchor may be where it does not look for anchors.
//
// roots are the compiled document and, behind it, all schemas with a dynamic
// anchor.
func settle(roots []*jsonschema.Schema, found *scan) error {
	sure := len(roots)-1 == len(found.anchors) && countAnchors(found.root) == len(found.anchors) && !slices.ContainsFunc(found.anchors, hidden)
	own, _, _ := strings.Cut(roots[0].Location, "#")
	seen := map[*jsonschema.Schema]bool{}
	var all []*jsonschema.Schema
	add := func(s *jsonschema.Schema, _ bool) {
		// The library's meta-schemas are shared, and never lead back.
		if doc, _, _ := strings.Cut(s.Location, "#"); doc == own && !seen[s] {
			seen[s] = true
			all = append(all, s)
		}
	}
	for _, s := range roots {
		add(s, false)
	}
	for i := 0; i < len(all) && len(all) <= 2*MaxSubschemas; i++ {
		sure = sure && (all[i].If == nil || all[i].Then == nil && all[i].Else == nil)
		each(all[i], add)
	}
	if !sure {
		return nil
	}
	// The library ranges over maps, so which of several comes first varies.
	slices.SortFunc(all, func(a, b *jsonschema.Schema) int { return strings.Compare(a.Location, b.Location) })
	for _, s := range all {
		target, err := settled(s, roots[1:], found.root)
		if err != nil {
			return err
		}
		if target != nil {
			s.DynamicRef = nil
			if s.Ref == nil {
				s.Ref = target
			} else {
				s.AllOf = append(slices.Clip(s.AllOf), target)
			}
		}
	}
	return nil
}

// settled is what the dynamic reference of a schema always leads to, or nil.
func settled(s *jsonschema.Schema, anchors []*jsonschema.Schema, root any) (*jsonschema.Schema, error) {
	first := s.DynamicRef
	if first == nil {
		return nil, nil
	}
	var others []*jsonschema.Schema
	for _, a := range anchors {
		if first.DynamicAnchor != "" && a.DynamicAnchor == first.DynamicAnchor && a != first && !slices.Contains(others, a) {
			others = append(others, a)
		}
	}
	if len(others) == 0 {
		return first, nil
	}
	// A pointer, and a plain anchor of another name, are never replaced.
	m, _ := valueAt(root, s.Location).(map[string]any)
	ref, ok := m["$dynamicRef"].(string)
	if !ok {
		return nil, nil
	}
	_, fragment, _ := strings.Cut(ref, "#")
	name, err := unescapeFragment(fragment)
	switch {
	case err != nil || name != fragment:
		return nil, nil
	case name != first.DynamicAnchor:
		return first, nil
	case len(others) > 1:
		return nil, &PlaceError{
			Pointer: pointerOf(s),
			Err:     fmt.Errorf("the $dynamicRef could lead to any of %d dynamic anchors %s", len(others), excerpt.Quote(name, 120)),
		}
	}
	return others[0], nil
}

// pointerOf returns the place of a schema as a plain JSON pointer.
func pointerOf(s *jsonschema.Schema) string {
	_, place, _ := strings.Cut(s.Location, "#")
	if pointer, err := unescapeFragment(place); err == nil {
		return pointer
	}
	return place
}

// valueAt returns the value of a document that a location of the library names, or nil.
func valueAt(v any, location string) any {
	_, pointer, _ := strings.Cut(location, "#")
	if pointer == "" {
		return v
	}
	for _, part := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		name, err := unescapeFragment(part)
		if err != nil {
			return nil
		}
		name = Unescape(name)
		switch x := v.(type) {
		case map[string]any:
			v = x[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

// hidden reports whether a pointer leads through something that holds no schemas in draft
// 2020-12, where the library does not look for anchors.
func hidden(pointer string) bool {
	if pointer == "" {
		return false
	}
	parts := strings.Split(pointer[1:], "/")
	for i := 0; i < len(parts); i++ {
		switch parts[i] {
		case "definitions", "dependencies", "additionalItems":
			return true
		}
		switch keywords[parts[i]] {
		case self:
		case items, members:
			i++
		case self | items:
			if i+1 < len(parts) && strings.Trim(parts[i+1], "0123456789") == "" {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// countAnchors counts the keys $dynamicAnchor of a document, wherever they are.
func countAnchors(v any) (n int) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			n += countAnchors(e)
		}
	case map[string]any:
		if _, ok := v["$dynamicAnchor"]; ok {
			n++
		}
		for _, e := range v {
			n += countAnchors(e)
		}
	}
	return n
}
