package schemas

import (
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"chimera.ai/engine/internal/excerpt"
)

// Bounds of what [Schema.Describe] says.
const (
	maxDescription = 320
	maxDescribed   = 5
	maxListed      = 8
)

// Describe returns a short text of the schema for messages, in the flow style of
// YAML: {type: integer, maximum: 11}. It follows references. What is too long, too
// deep or refers to itself becomes "…", so the text is not a schema. It is
// deterministic.
func (s *Schema) Describe() string {
	d := describer{open: map[*jsonschema.Schema]bool{}}
	d.schema(s.compiled, 0)
	return excerpt.Clip(d.sb.String(), maxDescription)
}

type describer struct {
	sb   strings.Builder
	open map[*jsonschema.Schema]bool
}

func (d *describer) full() bool { return d.sb.Len() > maxDescription }

func (d *describer) schema(s *jsonschema.Schema, depth int) {
	for range MaxChain {
		if s.Ref == nil || len(fields(s)) > 1 {
			break
		}
		s = s.Ref
	}
	if s.Always != nil {
		d.sb.WriteString(strconv.FormatBool(*s.Always))
		return
	}
	if depth >= maxDescribed || d.open[s] || d.full() {
		d.sb.WriteString("…")
		return
	}
	d.open[s] = true
	defer delete(d.open, s)
	d.sb.WriteByte('{')
	for i, f := range fields(s) {
		if i > 0 {
			d.sb.WriteString(", ")
		}
		if d.full() {
			d.sb.WriteString("…")
			break
		}
		d.sb.WriteString(f.name + ": ")
		d.value(f.value, depth)
	}
	d.sb.WriteByte('}')
}

func (d *describer) value(v any, depth int) {
	switch v := v.(type) {
	case string:
		d.sb.WriteString(v)
	case *jsonschema.Schema:
		d.schema(v, depth+1)
	case []*jsonschema.Schema:
		d.list(len(v), func(i int) { d.schema(v[i], depth+1) })
	case []string:
		d.list(len(v), func(i int) { d.sb.WriteString(bareword(v[i])) })
	case []any:
		d.list(len(v), func(i int) { d.sb.WriteString(literal(v[i])) })
	case map[string]*jsonschema.Schema:
		names := slices.Sorted(maps.Keys(v))
		d.sb.WriteByte('{')
		for i, name := range names {
			if i > 0 {
				d.sb.WriteString(", ")
			}
			if i == maxListed || d.full() {
				d.sb.WriteString("…")
				break
			}
			d.sb.WriteString(bareword(name) + ": ")
			d.schema(v[name], depth+1)
		}
		d.sb.WriteByte('}')
	}
}

func (d *describer) list(n int, item func(i int)) {
	d.sb.WriteByte('[')
	for i := range n {
		if i > 0 {
			d.sb.WriteString(", ")
		}
		if i == maxListed || d.full() {
			d.sb.WriteString("…")
			break
		}
		item(i)
	}
	d.sb.WriteByte(']')
}

type field struct {
	name  string
	value any
}

// fields returns the asserting keywords of a schema in a fixed order. Their values are
// those that value writes; a string is written as it is.
func fields(s *jsonschema.Schema) []field {
	var out []field
	add := func(is bool, name string, v any) {
		if is {
			out = append(out, field{name, v})
		}
	}
	count := func(name string, n, none int) { add(n >= 0 && n != none, name, strconv.Itoa(n)) }
	number := func(name string, r *big.Rat) {
		if r != nil {
			add(true, name, excerpt.Clip(decimal(r), 60))
		}
	}
	one := func(name string, v any) {
		switch v := v.(type) {
		case bool:
			add(true, name, strconv.FormatBool(v))
		case *jsonschema.Schema:
			add(v != nil, name, v)
		case []*jsonschema.Schema:
			add(v != nil, name, v)
		}
	}
	one("$ref", s.Ref)
	one("$dynamicRef", s.DynamicRef)
	one("$recursiveRef", s.RecursiveRef)
	if len(s.Types) == 1 {
		add(true, "type", s.Types[0])
	} else {
		add(len(s.Types) > 0, "type", s.Types)
	}
	if len(s.Constant) > 0 {
		add(true, "const", literal(s.Constant[0]))
	}
	add(len(s.Enum) > 0, "enum", s.Enum)
	number("minimum", s.Minimum)
	number("exclusiveMinimum", s.ExclusiveMinimum)
	number("maximum", s.Maximum)
	number("exclusiveMaximum", s.ExclusiveMaximum)
	number("multipleOf", s.MultipleOf)
	count("minLength", s.MinLength, 0)
	count("maxLength", s.MaxLength, -1)
	if s.Pattern != nil {
		add(true, "pattern", excerpt.Clip(show(authored(s)), 60))
	}
	add(len(s.Properties) > 0, "properties", s.Properties)
	add(len(s.Required) > 0, "required", s.Required)
	matching := map[string]*jsonschema.Schema{}
	for re, c := range s.PatternProperties {
		matching[authoredKey(re, c)] = c
	}
	add(len(matching) > 0, "patternProperties", matching)
	one("additionalProperties", s.AdditionalProperties)
	one("unevaluatedProperties", s.UnevaluatedProperties)
	one("propertyNames", s.PropertyNames)
	count("minProperties", s.MinProperties, 0)
	count("maxProperties", s.MaxProperties, -1)
	for _, name := range slices.Sorted(maps.Keys(s.Dependencies)) {
		dependent(add, name, s.Dependencies[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.DependentRequired)) {
		dependent(add, name, s.DependentRequired[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.DependentSchemas)) {
		dependent(add, name, s.DependentSchemas[name])
	}
	one("prefixItems", s.PrefixItems)
	one("items", s.Items)
	one("items", s.Items2020)
	one("additionalItems", s.AdditionalItems)
	one("unevaluatedItems", s.UnevaluatedItems)
	count("minItems", s.MinItems, 0)
	count("maxItems", s.MaxItems, -1)
	add(s.UniqueItems, "uniqueItems", "true")
	if s.Contains != nil {
		one("contains", s.Contains)
		count("minContains", s.MinContains, 1)
		count("maxContains", s.MaxContains, -1)
	}
	one("allOf", s.AllOf)
	one("anyOf", s.AnyOf)
	one("oneOf", s.OneOf)
	one("not", s.Not)
	one("if", s.If)
	one("then", s.Then)
	one("else", s.Else)
	return out
}

// dependent adds what a property demands, each demand on its own.
func dependent(add func(bool, string, any), name string, v any) {
	add(true, "with "+bareword(name), v)
}

var bare = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$-]{0,60}$`)

// bareword returns a name without quotes if that is unambiguous.
func bareword(name string) string {
	if bare.MatchString(name) {
		return name
	}
	return excerpt.Clip(show(name), 60)
}

func literal(v any) string { return excerpt.Clip(show(v), 60) }
