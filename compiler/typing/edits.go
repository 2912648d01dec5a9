package typing

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"chimera.ai/engine/compiler/internal/pool"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

var (
	minusOne = big.NewRat(-1, 1)
	million  = big.NewRat(1_000_000, 1)
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// proposal finds the smallest edits of the plan after which every value fits. It
// starts from the keyword that refuses the counterexample, and proves that the
// edits suffice.
type proposal struct {
	check          *checker
	source, target *schemas.Schema
	// Names of both ends in messages.
	sourceName, targetName string
	// Whether the schema of an end is in the plan, where its author can change
	// it.
	sourceOpen, targetOpen bool
	// narrows asks for edits that restrict the source only.
	narrows bool
	// template makes the value from what is in scope, if it is not nil.
	template *embedded.Template
	scope    scope
	// adapter reports that the target is the input of an adapter, which no
	// transform can precede.
	adapter bool
	// reference reports that the value is all that a short form gives, with no place for a
	// transform.
	reference bool
	// inputOpen reports that the schema of the plan's input is in the plan,
	// which it always is.
	inputOpen bool
	// root is the document that keywords of the target point into. derive finds
	// the target in it after a change; it is nil if root is the target.
	root   any
	derive func(root *schemas.Schema) *schemas.Schema
}

// edit is one change of the plan.
type edit struct {
	text string
	// keyword and place are parts of the text of an edit that adds a keyword.
	keyword, place string
	// transform is the one that the edit adds to an edge, or "".
	transform string
	// value is that of keyword where the edit adds it to the schema of the source.
	value any
	// apply makes the change in the proposal, and reports whether it could. It
	// is nil if a person has to complete the edit.
	apply func(p *proposal) bool
}

// edit finds an edit for the first thing in v that the target refuses.
func (p proposal) edit(v any) (edit, bool) {
	c, ok := causeOf(v, p.target)
	if !ok {
		return edit{}, false
	}
	part := at(v, c.Instance)
	want, _ := pool.Resolve(p.root, "#"+c.Keyword)
	keyword := keywordOf(c)
	switch keyword {
	case "type":
		return p.retype(c, part, want)
	case "required":
		return p.require(c, part, want)
	case "additionalProperties", "unevaluatedProperties":
		return p.narrow(c, "additionalProperties", false)
	case "enum", "const":
		if part == nil {
			return p.retype(c, part, want)
		}
		return p.narrow(c, keyword, want)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
		"minLength", "maxLength", "pattern",
		"minItems", "maxItems", "uniqueItems",
		"minProperties", "maxProperties":
		return p.narrow(c, keyword, want)
	}
	return edit{}, false
}

// retype finds an edit for a value of a type that the target refuses.
func (p proposal) retype(c schemas.Cause, part, want any) (edit, bool) {
	have, types := typeName(part), []string(nil)
	if keywordOf(c) == "type" {
		types, _ = pool.Words(want)
	}
	whole := p.template == nil && !p.adapter && c.Instance == ""
	switch {
	case p.narrows:
		return p.narrow(c, keywordOf(c), want)
	case part == nil && p.targetOpen:
		return edit{text: "add `null` to the type of " + p.name(p.targetName, c.Instance), apply: func(p *proposal) bool {
			return len(types) > 0 && p.change(c, func(v any) any {
				list := []any{}
				for _, name := range types {
					list = append(list, name)
				}
				return append(list, "null")
			})
		}}, true
	case part == nil && whole:
		return transformed(fmt.Sprintf("${value == null ? %s : value}", blank(types))), true
	case whole && slices.Contains(types, "string") && (have == "integer" || have == "number" || have == "boolean") && p.only(have):
		return transformed("${string(value)}"), true
	case have == "number" && slices.Contains(types, "integer"):
		return p.narrow(c, "type", "integer")
	}
	return p.narrow(c, keywordOf(c), want)
}

// transformed is the edit that adds a transform to an edge.
func transformed(text string) edit {
	e := edit{text: fmt.Sprintf("transform: %q", text), transform: text}
	if strings.Contains(text, "…") {
		return e
	}
	e.apply = func(p *proposal) bool {
		if p.scope.value == nil {
			return false
		}
		t, errs := expr.CompileTemplate(text, expr.Transform)
		if len(errs) > 0 {
			return false
		}
		p.template = &embedded.Template{Template: t, Value: text}
		return p.remake()
	}
	return e
}

// only reports whether it is proved that all values of the source have one type.
func (p proposal) only(name string) bool {
	if name == "integer" {
		name = "number"
	}
	return p.check.prover.Holds(p.source, p.check.prover.Typed(name))
}

// require finds an edit for a value that lacks what the target requires.
func (p proposal) require(c schemas.Cause, part, want any) (edit, bool) {
	object, _ := part.(map[string]any)
	listed, _ := pool.Words(want)
	var missing []string
	for _, name := range listed {
		if _, there := object[name]; !there {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return edit{}, false
	}
	names := "`" + strings.Join(missing, "`, `") + "`"
	switch {
	case p.template != nil, p.sourceName == "":
		return edit{text: fmt.Sprintf("give %s a value, for instance ${value.?%s.orValue(…)}", names, missing[0])}, true
	case p.sourceOpen:
		return edit{text: fmt.Sprintf("add %s to `required` of %s", names, p.name(p.sourceName, c.Instance)), apply: func(p *proposal) bool {
			return p.restrict(c.Instance, schemas.Make(schemas.Keywords{Required: missing}))
		}}, true
	case p.targetOpen:
		return edit{text: fmt.Sprintf("take %s out of `required` of %s", names, p.name(p.targetName, c.Instance)), apply: func(p *proposal) bool {
			return p.change(c, func(any) any {
				left := []any{}
				for _, name := range listed {
					if !slices.Contains(missing, name) {
						left = append(left, name)
					}
				}
				return left
			})
		}}, true
	case c.Instance == "" && !p.adapter && !p.reference:
		return edit{text: fmt.Sprintf("transform: {%s: \"${value.?%s.orValue(…)}\"}", missing[0], missing[0])}, true
	}
	return edit{}, false
}

// narrow finds an edit that restricts the source, or else one that relaxes the
// target.
func (p proposal) narrow(c schemas.Cause, keyword string, want any) (edit, bool) {
	e := edit{keyword: keyword + ": " + text(want)}
	if p.template != nil {
		return p.narrowSelected(c, e, want)
	}
	switch {
	case p.sourceName == "":
		return edit{}, false
	case p.sourceOpen:
		e.place = p.name(p.sourceName, c.Instance)
		e.text = "`" + e.keyword + "`" + e.where()
		if c.Instance == "" {
			e.value = want
		}
		e.apply = func(p *proposal) bool {
			s := p.keyword(keyword, want)
			return s != nil && p.restrict(c.Instance, s)
		}
		return e, true
	case p.targetOpen:
		return edit{text: fmt.Sprintf("widen `%s` of %s", keyword, p.name(p.targetName, c.Instance)), apply: func(p *proposal) bool {
			return p.change(c, func(any) any { return nil })
		}}, true
	}
	if p.adapter || p.check.prover.Disjoint(p.source, p.target) {
		return edit{}, false
	}
	return edit{text: "check: runtime", apply: func(p *proposal) bool { return false }}, true
}

// narrowSelected finds an edit that restricts the source of a template that only
// selects the value.
func (p proposal) narrowSelected(c schemas.Cause, e edit, want any) (edit, bool) {
	text, ok := at(p.template.Value, c.Instance).(string)
	if !ok {
		return edit{}, false
	}
	found := plain.FindStringSubmatch(text)
	if found == nil {
		return edit{}, false
	}
	name, path, _ := strings.Cut(found[1], ".")
	if path != "" {
		path = "/" + strings.ReplaceAll(path, ".", "/")
	}
	switch {
	case name == "input" && p.inputOpen:
		e.place = p.name(plan.InputNode, path)
	case name == "value" && p.sourceOpen:
		e.place = p.name(p.sourceName, path)
	default:
		return edit{}, false
	}
	e.text = "`" + e.keyword + "`" + e.where()
	keyword, _, _ := strings.Cut(e.keyword, ":")
	e.apply = func(p *proposal) bool {
		s := p.keyword(keyword, want)
		return s != nil && p.promise(name, path, s) && p.remake()
	}
	return e, true
}

// name formats an end and a place in its value.
func (p proposal) name(end, instance string) string {
	if instance != "" {
		return fmt.Sprintf("`%s` of `%s`", instance, end)
	}
	return "`" + end + "`"
}

// blank is an expression for an empty value of the first of some types.
func blank(types []string) string {
	if len(types) > 0 {
		switch types[0] {
		case "string":
			return "''"
		case "integer":
			return "0"
		case "number":
			return "0.0"
		case "boolean":
			return "false"
		case "array":
			return "[]"
		case "object":
			return "{}"
		}
	}
	return "…"
}

// text formats a keyword's value as in a plan.
func text(v any) string {
	if v == nil {
		return "…"
	}
	return excerpt.Bytes(fields.Inline(v), 120)
}

// at returns the part of a value that a JSON pointer leads to, or nil.
func at(v any, pointer string) any {
	found, ok := pool.Resolve(v, "#"+pointer)
	if !ok {
		return nil
	}
	return found
}

// typeName is the JSON Schema type of a decoded value; a number whose value is
// whole is an integer.
func typeName(v any) string {
	switch x := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		if len(x) > 64 || strings.ContainsAny(x.String(), "eE") {
			return "number"
		}
		if r, ok := new(big.Rat).SetString(x.String()); ok && r.IsInt() {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return ""
}

func (e edit) where() string { return " in the schema of " + e.place }
