package schemas

import (
	"math/big"
	"regexp"
	"slices"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// Keywords describes a schema that is built from others. The keywords mean what they mean
// in draft 2020-12; a zero field demands nothing, and a nil schema is [True].
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

	// MinLength and MaxLength count the code points of strings. Pattern has Go's
	// syntax, and may match anywhere in the string.
	MinLength, MaxLength *int
	Pattern              *regexp.Regexp

	Minimum, Maximum, ExclusiveMinimum, ExclusiveMaximum, MultipleOf *big.Rat
}

// Make returns the schema of keywords. It shares its parts and is cheap: the bound of
// validations is computed at the first [Schema.Validate], which refuses a schema
// beyond the bounds of [Compile] ([MaxSubschemas] is
// [MaxJoined] here). Neither the keywords nor what they hold may change later.
func Make(k Keywords) *Schema {
	s := blank()
	if len(k.Enum) > 0 {
		*s = *listing
		s.Location = madeBase
	}
	s.Types = slices.Clone(k.Types)
	s.Constant, s.Enum = k.Const, k.Enum
	j := &made{}
	s.AllOf, s.AnyOf = j.parts(k.All), j.parts(k.Any)
	if k.Not != nil {
		s.Not = j.part(k.Not)
	}
	if len(k.Properties) > 0 {
		s.Properties = make(map[string]*jsonschema.Schema, len(k.Properties))
		for name, p := range k.Properties {
			s.Properties[name] = j.part(p)
		}
	}
	s.Required = slices.Clone(k.Required)
	if k.Rest != nil {
		s.AdditionalProperties = j.part(k.Rest)
		if a := k.Rest.compiled.Always; a != nil {
			s.AdditionalProperties = *a
		}
	}
	s.PrefixItems = j.parts(k.Prefix)
	if k.Items != nil {
		s.Items2020 = j.part(k.Items)
	}
	counts(&s.MinProperties, &s.MaxProperties, k.MinProperties, k.MaxProperties)
	counts(&s.MinItems, &s.MaxItems, k.MinItems, k.MaxItems)
	counts(&s.MinLength, &s.MaxLength, k.MinLength, k.MaxLength)
	s.Pattern = k.Pattern
	s.Minimum, s.Maximum, s.MultipleOf = k.Minimum, k.Maximum, k.MultipleOf
	s.ExclusiveMinimum, s.ExclusiveMaximum = k.ExclusiveMinimum, k.ExclusiveMaximum
	return &Schema{compiled: s, made: j}
}

// counts sets a pair of counts. To the library a negative count means none, but no value
// has a negative length.
func counts(least, most, from, to *int) {
	if from != nil && *from > 0 {
		*least = *from
	}
	if to != nil {
		*most = *to
		if *to < 0 {
			*least, *most = 1, 0
		}
	}
}

// Wrap returns a part of a compiled schema, or one that was built from such parts, as a
// schema of its own. Its references work, except for dynamic ones ($dynamicRef,
// $recursiveRef): their targets depend on what is around the part, so validation by a
// part with one always fails.
func Wrap(s *jsonschema.Schema) *Schema {
	return &Schema{compiled: s, made: &made{loose: true}}
}

var (
	everything = &Schema{compiled: always(true), made: &made{}}
	nothing    = &Schema{compiled: always(false), made: &made{}}
)

// True returns the schema of every value, always the same one.
func True() *Schema { return everything }

// False returns the schema of no value, always the same one.
func False() *Schema { return nothing }

// blank returns a schema without keywords, whose place is in no text.
func blank() *jsonschema.Schema {
	return &jsonschema.Schema{
		Location: madeBase, Draft: jsonschema.Draft2020,
		MinProperties: -1, MaxProperties: -1, MinItems: -1, MaxItems: -1,
		MinContains: 1, MaxContains: -1, MinLength: -1, MaxLength: -1,
	}
}

// listing is a schema with an enum. The library keeps the message of an enum in
// a field of its own, and takes an error without a message for no error's.
var listing = jsonschema.MustCompileString(madeDocument, `{"$schema":"`+DefaultDraft+`","enum":[{}]}`)

func always(yes bool) *jsonschema.Schema {
	s := blank()
	s.Always = &yes
	return s
}

// madeBase is the location of built schemas: they are in no document, so their places
// mean nothing.
const (
	madeDocument = "chimera:///made"
	madeBase     = madeDocument + "#"
)

// made is what a built schema computes at its first validation, and what it knows about
// its parts.
type made struct {
	// plain is set if the schema is that of one text, so that places identify schemas.
	plain bool
	// anchors are what dynamic references of the parts can lead to.
	anchors []*jsonschema.Schema
	// loose is set if a part was taken out of its document.
	loose bool

	once  sync.Once
	graph *graph
	err   error
}

func (m *made) part(s *Schema) *jsonschema.Schema {
	if s == nil {
		s = everything
	}
	more := s.anchors
	if s.made != nil {
		more = s.made.anchors
		m.loose = m.loose || s.made.loose
	}
	for _, a := range more {
		if !slices.Contains(m.anchors, a) {
			m.anchors = append(m.anchors, a)
		}
	}
	return s.compiled
}

func (m *made) parts(all []*Schema) []*jsonschema.Schema {
	if len(all) == 0 {
		return nil
	}
	out := make([]*jsonschema.Schema, len(all))
	for i, s := range all {
		out[i] = m.part(s)
	}
	return out
}

// bounds returns the graph that bounds the schema's validations.
func (s *Schema) bounds() (*graph, error) {
	if s.made == nil {
		return s.graph, nil
	}
	s.made.once.Do(func() {
		if s.made.plain {
			s.made.graph, s.made.err = newGraph([]*jsonschema.Schema{s.compiled}, nil, nil)
			return
		}
		s.made.graph, s.made.err = joinedGraph(s.compiled, s.made.anchors, s.made.loose)
	})
	return s.made.graph, s.made.err
}
