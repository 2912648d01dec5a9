package schemas

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// maxExported bounds the subschemas that [Schema.Export] writes.
const maxExported = 5_000

// Export returns a JSON Schema of the default draft, as decoded JSON, that accepts what s does.
// named returns the reference to write in the place of a subschema with that JSON pointer in its
// document, or "" to write it out. Export reports false if s is too large, refers to itself
// other than by such references, or has a keyword that means something else elsewhere. What
// asserts nothing is left out. The result shares the values of s, which must not be changed.
func (s *Schema) Export(named func(pointer string) string) (value any, ok bool) {
	x := exporter{named: named, open: map[*jsonschema.Schema]bool{}, left: maxExported, ok: true}
	value = x.schema(s.compiled)
	return value, x.ok
}

type exporter struct {
	named func(pointer string) string
	open  map[*jsonschema.Schema]bool
	left  int
	ok    bool
}

func (x *exporter) fail() any {
	x.ok = false
	return true
}

// schema writes one schema.
func (x *exporter) schema(s *jsonschema.Schema) any {
	if x.left--; x.left < 0 || !x.ok || x.open[s] {
		return x.fail()
	}
	if s.Always != nil {
		return *s.Always
	}
	if s.Location != madeBase && x.named != nil {
		if ref := x.named(location(s.Location)); ref != "" {
			return map[string]any{"$ref": ref}
		}
	}
	x.open[s] = true
	defer delete(x.open, s)
	if s.RecursiveRef != nil || s.DynamicRef != nil || len(s.Dependencies) > 0 || s.AdditionalItems != nil || s.RegexProperties ||
		s.UnevaluatedItems != nil || s.UnevaluatedProperties != nil {
		return x.fail()
	}
	m := map[string]any{}
	x.any(m, s)
	x.numbers(m, s)
	x.texts(m, s)
	x.objects(m, s)
	x.lists(m, s)
	if s.Ref != nil {
		ref := x.schema(s.Ref)
		if len(m) == 0 {
			return ref
		}
		if ref != true {
			all, _ := m["allOf"].([]any)
			m["allOf"] = append([]any{ref}, all...)
		}
	}
	if all, is := m["allOf"].([]any); is && len(m) == 1 && len(all) == 1 {
		return all[0]
	}
	if len(m) == 0 {
		return true
	}
	return m
}

// any writes the keywords that apply to values of all types.
func (x *exporter) any(m map[string]any, s *jsonschema.Schema) {
	switch len(s.Types) {
	case 0:
	case 1:
		m["type"] = s.Types[0]
	default:
		m["type"] = texts(s.Types)
	}
	if len(s.Constant) > 0 {
		m["const"] = s.Constant[0]
	}
	if len(s.Enum) > 0 {
		m["enum"] = s.Enum
	}
	if s.Format != "" {
		m["format"] = s.Format
	}
	x.several(m, "allOf", s.AllOf)
	x.several(m, "anyOf", s.AnyOf)
	x.several(m, "oneOf", s.OneOf)
	x.one(m, "not", s.Not)
	if s.If != nil {
		x.one(m, "if", s.If)
		x.one(m, "then", s.Then)
		x.one(m, "else", s.Else)
	}
}

func (x *exporter) numbers(m map[string]any, s *jsonschema.Schema) {
	for _, k := range []struct {
		name string
		r    *big.Rat
	}{{"minimum", s.Minimum}, {"exclusiveMinimum", s.ExclusiveMinimum}, {"maximum", s.Maximum}, {"exclusiveMaximum", s.ExclusiveMaximum}, {"multipleOf", s.MultipleOf}} {
		if k.r == nil {
			continue
		}
		text := decimal(k.r)
		if strings.Contains(text, "/") || len(text) > 64 {
			x.fail()
			return
		}
		m[k.name] = json.Number(text)
	}
}

func (x *exporter) texts(m map[string]any, s *jsonschema.Schema) {
	count(m, "minLength", s.MinLength, 0)
	count(m, "maxLength", s.MaxLength, -1)
	if s.Pattern != nil {
		m["pattern"] = authored(s)
	}
}

func (x *exporter) objects(m map[string]any, s *jsonschema.Schema) {
	x.byName(m, "properties", s.Properties)
	if len(s.Required) > 0 {
		m["required"] = texts(s.Required)
	}
	if len(s.PatternProperties) > 0 {
		matching := map[string]*jsonschema.Schema{}
		for re, c := range s.PatternProperties {
			matching[authoredKey(re, c)] = c
		}
		x.byName(m, "patternProperties", matching)
	}
	switch rest := s.AdditionalProperties.(type) {
	case bool:
		m["additionalProperties"] = rest
	case *jsonschema.Schema:
		x.one(m, "additionalProperties", rest)
	}
	x.one(m, "propertyNames", s.PropertyNames)
	count(m, "minProperties", s.MinProperties, 0)
	count(m, "maxProperties", s.MaxProperties, -1)
	if len(s.DependentRequired) > 0 {
		lists := map[string]any{}
		for name, list := range s.DependentRequired {
			lists[name] = texts(list)
		}
		m["dependentRequired"] = lists
	}
	x.byName(m, "dependentSchemas", s.DependentSchemas)
}

func (x *exporter) lists(m map[string]any, s *jsonschema.Schema) {
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		x.one(m, "items", items)
	case []*jsonschema.Schema:
		x.several(m, "prefixItems", items)
	}
	x.several(m, "prefixItems", s.PrefixItems)
	x.one(m, "items", s.Items2020)
	count(m, "minItems", s.MinItems, 0)
	count(m, "maxItems", s.MaxItems, -1)
	if s.UniqueItems {
		m["uniqueItems"] = true
	}
	if s.Contains != nil {
		x.one(m, "contains", s.Contains)
		count(m, "minContains", s.MinContains, 1)
		count(m, "maxContains", s.MaxContains, -1)
	}
}

func (x *exporter) one(m map[string]any, name string, s *jsonschema.Schema) {
	if s != nil {
		m[name] = x.schema(s)
	}
}

func (x *exporter) several(m map[string]any, name string, list []*jsonschema.Schema) {
	if len(list) == 0 {
		return
	}
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = x.schema(s)
	}
	m[name] = out
}

func (x *exporter) byName(m map[string]any, name string, of map[string]*jsonschema.Schema) {
	if len(of) == 0 {
		return
	}
	out := make(map[string]any, len(of))
	for _, key := range slices.Sorted(maps.Keys(of)) {
		out[key] = x.schema(of[key])
	}
	m[name] = out
}

func count(m map[string]any, name string, n, none int) {
	if n >= 0 && n != none {
		m[name] = json.Number(big.NewInt(int64(n)).String())
	}
}

func texts(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}
