package compiler

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

var (
	minusOne = big.NewRat(-1, 1)
	million  = big.NewRat(1_000_000, 1)
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// mend finds the smallest edit of the plan after which a value would fit, from
// the keyword that refuses the counterexample.
type mend struct {
	prover         *prover
	source, target *schemas.Schema
	// The ends as messages name them.
	sourceName, targetName string
	// open: the schema stands in the plan, so that its author can change it.
	sourceOpen, targetOpen bool
	// template makes the value, if there is one.
	template *template
	// inputOpen: the plan's input has its schema in the plan, as it always has.
	inputOpen bool
	// root is the document that keywords of the target point into.
	root any
}

// propose gives the edit for a value that the target refuses, or "".
func (m mend) propose(v any) string {
	c, ok := causeOf(v, m.target)
	if !ok {
		return ""
	}
	part := at(v, c.Instance)
	want, _ := resolve(m.root, "#"+c.Keyword)
	switch keyword := keywordOf(c); keyword {
	case "type":
		return m.retype(c.Instance, part, want)
	case "required":
		return m.require(c, part, want)
	case "additionalProperties", "unevaluatedProperties":
		return m.narrow(c.Instance, "additionalProperties: false")
	case "enum", "const":
		if part == nil {
			return m.retype(c.Instance, part, want)
		}
		return m.narrow(c.Instance, keyword+": "+text(want))
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
		"minLength", "maxLength", "pattern",
		"minItems", "maxItems", "uniqueItems",
		"minProperties", "maxProperties":
		return m.narrow(c.Instance, keyword+": "+text(want))
	}
	return ""
}

// retype: the value is of a type that the target does not take.
func (m mend) retype(instance string, part, want any) string {
	have := typeName(part)
	switch types, _ := words(want); {
	case part == nil && m.targetOpen:
		return "add `null` to the type of " + m.name(m.targetName, instance)
	case part == nil && m.template == nil && instance == "":
		return fmt.Sprintf("transform: \"${value == null ? %s : value}\"", blank(types))
	case have == "integer" && slices.Contains(types, "string") && m.template == nil && instance == "", have == "number" && slices.Contains(types, "string") && m.template == nil && instance == "",
		have == "boolean" && slices.Contains(types, "string") && m.template == nil && instance == "":
		if m.only(have) {
			return "transform: \"${string(value)}\""
		}
		return m.narrow(instance, "type: "+text(want))
	case have == "number" && slices.Contains(types, "integer"):
		return m.narrow(instance, "type: integer")
	}
	return m.narrow(instance, "type: "+text(want))
}

// only reports whether it is proved that the source gives values of one type.
func (m mend) only(name string) bool {
	if name == "integer" {
		name = "number"
	}
	return m.prover.holds(m.source, m.prover.typed(name))
}

// require: the value lacks what the target requires.
func (m mend) require(c schemas.Cause, part, want any) string {
	object, _ := part.(map[string]any)
	listed, _ := words(want)
	var missing []string
	for _, name := range listed {
		if _, there := object[name]; !there {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	names := "`" + strings.Join(missing, "`, `") + "`"
	switch {
	case m.template != nil, m.sourceName == "":
		return fmt.Sprintf("give %s a value, for instance ${value.?%s.orValue(…)}", names, missing[0])
	case m.sourceOpen:
		return fmt.Sprintf("add %s to `required` of %s", names, m.name(m.sourceName, c.Instance))
	case m.targetOpen:
		return fmt.Sprintf("take %s out of `required` of %s", names, m.name(m.targetName, c.Instance))
	case c.Instance == "":
		return fmt.Sprintf("transform: {%s: \"${value.?%s.orValue(…)}\"}", missing[0], missing[0])
	}
	return ""
}

// narrow says what the source should promise, or else what the target should
// not ask.
func (m mend) narrow(instance, keyword string) string {
	if m.template != nil {
		return m.narrowSelected(instance, keyword)
	}
	switch {
	case m.sourceName == "":
		return ""
	case m.sourceOpen:
		return fmt.Sprintf("`%s` in the schema of %s", keyword, m.name(m.sourceName, instance))
	case m.targetOpen:
		word, _, _ := strings.Cut(keyword, ":")
		return fmt.Sprintf("widen `%s` of %s", word, m.name(m.targetName, instance))
	}
	return "check: runtime"
}

// narrowSelected says what the source should promise where the template only
// selects the value.
func (m mend) narrowSelected(instance, keyword string) string {
	text, ok := at(m.template.value, instance).(string)
	if !ok {
		return ""
	}
	found := plain.FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	name, path, _ := strings.Cut(found[1], ".")
	if path != "" {
		path = "/" + strings.ReplaceAll(path, ".", "/")
	}
	switch {
	case name == "input" && m.inputOpen:
		return fmt.Sprintf("`%s` in the schema of %s", keyword, m.name(plan.InputNode, path))
	case name == "value" && m.sourceOpen:
		return fmt.Sprintf("`%s` in the schema of %s", keyword, m.name(m.sourceName, path))
	}
	return ""
}

// name is an end with the place in its value.
func (m mend) name(end, instance string) string {
	if instance != "" {
		return fmt.Sprintf("`%s` of `%s`", instance, end)
	}
	return "`" + end + "`"
}

// blank is a value of the first of some types, as an expression.
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

// text writes a keyword's value as a plan would.
func text(v any) string {
	if v == nil {
		return "…"
	}
	return clip(inline(v), 120)
}

// at follows a JSON pointer in a value as far as it leads.
func at(v any, pointer string) any {
	found, ok := resolve(v, "#"+pointer)
	if !ok {
		return nil
	}
	return found
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
