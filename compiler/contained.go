package compiler

import (
	"encoding/json"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"
)

// maxContainedSteps bounds the comparison of two schemas.
const maxContainedSteps = 2_000

// annotations are the keywords that never refuse a value. format is one of
// them: the validator does not assert it.
var annotations = map[string]bool{
	"title": true, "description": true, "default": true, "examples": true, "$comment": true,
	"deprecated": true, "readOnly": true, "writeOnly": true, "format": true,
	"$defs": true, "definitions": true, "defs": true, "$schema": true,
}

// unconstrained reports whether a schema obviously takes every value.
func unconstrained(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return v == true
	}
	for k := range m {
		if !annotations[k] {
			return false
		}
	}
	return true
}

// contained reports whether every value of left obviously satisfies right. True
// is a proof; false only says that it is not obvious.
func (u *unit) contained(left, right *schema) bool {
	if left == right {
		return true
	}
	key := [2]*schema{left, right}
	yes, known := u.proofs[key]
	if !known {
		yes = draftOf(left.value) == "" && draftOf(right.value) == ""
		if yes {
			p := comparison{left: left.value, right: right.value, steps: maxContainedSteps}
			yes = p.within(left.value, right.value, 32) && p.steps > 0
		}
		u.proofs[key] = yes
	}
	return yes
}

// draftOf is what a schema says that its draft is, or "".
func draftOf(v any) string {
	m, _ := v.(map[string]any)
	s, ok := m["$schema"].(string)
	if !ok || strings.TrimSuffix(s, "#") == "https://json-schema.org/draft/2020-12/schema" {
		return ""
	}
	return s
}

// comparison compares parts of two schemas of draft 2020-12. It knows the
// keywords that state one thing on their own, and gives up on every other.
type comparison struct {
	left, right any
	steps       int
}

// unfold replaces a reference that stands alone by its target.
func unfold(root, v any) (any, bool) {
	for range 16 {
		m, ok := v.(map[string]any)
		if !ok {
			return v, true
		}
		ref, has := m["$ref"].(string)
		if !has {
			return v, true
		}
		for k := range m {
			if k != "$ref" && !annotations[k] {
				return nil, false
			}
		}
		if v, ok = resolve(root, ref); !ok {
			return nil, false
		}
	}
	return nil, false
}

func (p *comparison) within(l, r any, depth int) bool {
	if p.steps--; p.steps < 0 || depth == 0 {
		return false
	}
	if unconstrained(r) || l == false {
		return true
	}
	l, lok := unfold(p.left, l)
	r, rok := unfold(p.right, r)
	if !lok || !rok {
		return false
	}
	if unconstrained(r) || l == false {
		return true
	}
	lm, lok := l.(map[string]any)
	rm, rok := r.(map[string]any)
	if !lok || !rok {
		return false
	}
	for _, m := range []map[string]any{lm, rm} {
		for k := range m {
			switch k {
			case "$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "unevaluatedProperties", "unevaluatedItems":
				return false
			}
		}
	}
	direct := true
	// In a fixed order, so that the budget is spent alike every time.
	for _, k := range slices.Sorted(maps.Keys(rm)) {
		if !annotations[k] && !p.implied(k, lm, rm, depth-1) {
			direct = false
			break
		}
	}
	if direct {
		return true
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if branches, ok := lm[key].([]any); ok && len(branches) > 0 && !slices.ContainsFunc(branches, func(b any) bool { return !p.within(b, r, depth-1) }) {
			return true
		}
	}
	if all, ok := lm["allOf"].([]any); ok {
		return slices.ContainsFunc(all, func(b any) bool { return p.within(b, r, depth-1) })
	}
	return false
}

// implied reports whether l obviously guarantees what keyword k of r asks.
func (p *comparison) implied(k string, l, r map[string]any, depth int) bool {
	switch k {
	case "type":
		return typesWithin(l, r)
	case "required":
		return subset(r[k], l[k])
	case "properties":
		return p.properties(l, r, depth)
	case "additionalProperties":
		return p.others(l, r, depth)
	case "items":
		if l["prefixItems"] != nil || r["prefixItems"] != nil || l["items"] == nil {
			return false
		}
		return p.within(l["items"], r["items"], depth)
	case "allOf":
		all, ok := r[k].([]any)
		return ok && !slices.ContainsFunc(all, func(b any) bool { return !p.within(l, b, depth) })
	case "anyOf":
		some, ok := r[k].([]any)
		return ok && slices.ContainsFunc(some, func(b any) bool { return p.within(l, b, depth) })
	case "minimum", "minLength", "minItems", "minProperties":
		return ordered(r[k], l[k])
	case "maximum", "maxLength", "maxItems", "maxProperties":
		return ordered(l[k], r[k])
	case "enum", "const":
		return choices(l, r)
	case "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern", "uniqueItems":
		// Each states one thing by itself, so the same words state the same.
		have, ok := l[k]
		return ok && reflect.DeepEqual(have, r[k])
	}
	return false
}

// properties: each property that r speaks of is within, or cannot be there.
func (p *comparison) properties(l, r map[string]any, depth int) bool {
	theirs, ok := r["properties"].(map[string]any)
	if !ok {
		return false
	}
	ours, _ := l["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		want := theirs[name]
		have, has := ours[name]
		switch {
		case has:
			if !p.within(have, want, depth) {
				return false
			}
		case unconstrained(want):
		case l["additionalProperties"] == false && l["patternProperties"] == nil:
		default:
			return false
		}
	}
	return true
}

// others: what l allows beside the properties that r names fits what r asks of
// further properties.
func (p *comparison) others(l, r map[string]any, depth int) bool {
	want := r["additionalProperties"]
	if unconstrained(want) {
		return true
	}
	// Which properties count as further depends on the patterns of each side.
	if l["patternProperties"] != nil || r["patternProperties"] != nil {
		return false
	}
	rest, stated := l["additionalProperties"]
	if !stated || !p.within(rest, want, depth) {
		return false
	}
	theirs, _ := r["properties"].(map[string]any)
	ours, _ := l["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if _, named := theirs[name]; !named && !p.within(ours[name], want, depth) {
			return false
		}
	}
	return true
}

// words gives a keyword that is a string or a list of strings.
func words(v any) ([]string, bool) {
	switch x := v.(type) {
	case string:
		return []string{x}, true
	case []any:
		out := make([]string, 0, len(x))
		for _, e := range x {
			s, ok := e.(string)
			if !ok {
				return nil, false
			}
			out = append(out, s)
		}
		return out, true
	}
	return nil, false
}

func typesWithin(l, r map[string]any) bool {
	want, ok := words(r["type"])
	if !ok {
		return false
	}
	have, ok := words(l["type"])
	if !ok {
		values, listed := listedValues(l)
		if !listed {
			return false
		}
		for _, v := range values {
			name := typeName(v)
			if name == "" {
				return false
			}
			have = append(have, name)
		}
	}
	for _, t := range have {
		if !slices.Contains(want, t) && (t != "integer" || !slices.Contains(want, "number")) {
			return false
		}
	}
	return true
}

// typeName is the JSON Schema type of a decoded value; a number whose literal
// is not plainly an integer is "number".
func typeName(v any) string {
	switch x := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		if strings.ContainsAny(x.String(), ".eE") {
			return "number"
		}
		return "integer"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return ""
}

func listedValues(m map[string]any) ([]any, bool) {
	if c, ok := m["const"]; ok {
		return []any{c}, true
	}
	values, ok := m["enum"].([]any)
	return values, ok
}

// choices: every value that l lists is among those that r lists.
func choices(l, r map[string]any) bool {
	have, ok := listedValues(l)
	if !ok || len(have) > 256 {
		return false
	}
	for _, key := range []string{"const", "enum"} {
		if _, has := r[key]; !has {
			continue
		}
		want, _ := listedValues(map[string]any{key: r[key]})
		for _, v := range have {
			if !slices.ContainsFunc(want, func(w any) bool { return reflect.DeepEqual(v, w) }) {
				return false
			}
		}
	}
	return true
}

func subset(small, large any) bool {
	s, ok := words(small)
	if !ok || len(s) == 0 {
		return ok
	}
	l, ok := words(large)
	return ok && !slices.ContainsFunc(s, func(x string) bool { return !slices.Contains(l, x) })
}

// ordered reports whether both are numbers and a ≤ b.
func ordered(a, b any) bool {
	x, ok := rational(a)
	if !ok {
		return false
	}
	y, ok := rational(b)
	return ok && x.Cmp(y) <= 0
}

func rational(v any) (*big.Rat, bool) {
	n, ok := v.(json.Number)
	if !ok || len(n) > 64 {
		return nil, false
	}
	if i := strings.IndexAny(n.String(), "eE"); i >= 0 && len(n)-i > 4 {
		return nil, false
	}
	return new(big.Rat).SetString(n.String())
}
