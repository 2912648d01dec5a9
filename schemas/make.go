package schemas

import (
	"math/big"
	"slices"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// Keywords describe a schema that is put together from others. They mean what
// they mean in draft 2020-12; a zero field asks nothing.
type Keywords struct {
	// Types are the allowed JSON types, "integer" included.
	Types []string
	// Const holds the one allowed value as its only element, Enum the allowed
	// values: decoded JSON.
	Const, Enum []any
	// All, Any and Not are allOf, anyOf and not.
	All, Any []*Schema
	Not      *Schema

	// Properties, Required and Rest (additionalProperties) are about objects.
	Properties                   map[string]*Schema
	Required                     []string
	Rest                         *Schema
	MinProperties, MaxProperties *int

	// Prefix (prefixItems) and Items are about lists.
	Prefix             []*Schema
	Items              *Schema
	MinItems, MaxItems *int

	// MinLength and MaxLength count the code points of strings.
	MinLength, MaxLength *int

	Minimum, Maximum, ExclusiveMinimum, ExclusiveMaximum, MultipleOf *big.Rat
}

// Make gives the schema of keywords. It shares its parts and costs little: what
// bounds validation is worked out at the first [Schema.Validate], which
// refuses a schema that no text could describe within the bounds of [Compile].
func Make(k Keywords) *Schema {
	s := blank()
	s.Types = slices.Clone(k.Types)
	s.Constant, s.Enum = k.Const, k.Enum
	s.AllOf, s.AnyOf = compiled(k.All), compiled(k.Any)
	if k.Not != nil {
		s.Not = k.Not.compiled
	}
	if len(k.Properties) > 0 {
		s.Properties = make(map[string]*jsonschema.Schema, len(k.Properties))
		for name, p := range k.Properties {
			s.Properties[name] = p.compiled
		}
	}
	s.Required = slices.Clone(k.Required)
	if k.Rest != nil {
		s.AdditionalProperties = k.Rest.compiled
		if a := k.Rest.compiled.Always; a != nil {
			s.AdditionalProperties = *a
		}
	}
	s.PrefixItems = compiled(k.Prefix)
	if k.Items != nil {
		s.Items2020 = k.Items.compiled
	}
	for _, n := range []struct {
		to   *int
		from *int
	}{
		{&s.MinProperties, k.MinProperties}, {&s.MaxProperties, k.MaxProperties}, {&s.MinItems, k.MinItems},
		{&s.MaxItems, k.MaxItems}, {&s.MinLength, k.MinLength}, {&s.MaxLength, k.MaxLength},
	} {
		if n.from != nil {
			*n.to = *n.from
		}
	}
	s.Minimum, s.Maximum, s.MultipleOf = k.Minimum, k.Maximum, k.MultipleOf
	s.ExclusiveMinimum, s.ExclusiveMaximum = k.ExclusiveMinimum, k.ExclusiveMaximum
	return Wrap(s)
}

// Wrap gives a part of a compiled schema, or one that was put together from
// such parts, as a schema of its own. References of the part hold.
func Wrap(s *jsonschema.Schema) *Schema { return &Schema{compiled: s, made: &made{}} }

var (
	everything = Wrap(always(true))
	nothing    = Wrap(always(false))
)

// True is the schema of every value; it is one and the same each time.
func True() *Schema { return everything }

// False is the schema of no value; it is one and the same each time.
func False() *Schema { return nothing }

// blank is a schema without a keyword. Its place is that of no text.
func blank() *jsonschema.Schema {
	return &jsonschema.Schema{
		Location: madeBase, Draft: jsonschema.Draft2020,
		MinProperties: -1, MaxProperties: -1, MinItems: -1, MaxItems: -1,
		MinContains: 1, MaxContains: -1, MinLength: -1, MaxLength: -1,
	}
}

func always(yes bool) *jsonschema.Schema {
	s := blank()
	s.Always = &yes
	return s
}

// madeBase is where made schemas stand: as in no document, their places tell
// nothing.
const madeBase = "chimera:///made#"

func compiled(all []*Schema) []*jsonschema.Schema {
	if len(all) == 0 {
		return nil
	}
	out := make([]*jsonschema.Schema, len(all))
	for i, s := range all {
		out[i] = s.compiled
	}
	return out
}

// made is what a schema that was not compiled from a text works out late.
type made struct {
	once  sync.Once
	graph *graph
	err   error
}

// bounds gives the graph that bounds the schema's validations.
func (s *Schema) bounds() (*graph, error) {
	if s.made == nil {
		return s.graph, nil
	}
	s.made.once.Do(func() {
		s.made.graph, s.made.err = joinedGraph(s.compiled)
	})
	return s.made.graph, s.made.err
}
