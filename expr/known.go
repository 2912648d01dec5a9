package expr

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"

	"chimera.ai/engine/schemas"
)

// form is the kind of CEL value that is known. Only formJSON has a schema.
type form int

const (
	formJSON form = iota
	formOptional
	formTimestamp
	formDuration
	formBytes
	formType
	// formList is a list of what is not JSON, such as optional values.
	formList
	// formMixed can have several forms, and supports no operations.
	formMixed
)

// notation says how the numbers in a JSON value are held.
type notation int

const (
	// byValue: whole numbers are ints, all others doubles.
	byValue notation = iota
	// asDouble: the value itself, where it is a number, is a double.
	asDouble
	// asUint: the value itself, where it is a number, is an unsigned int.
	asUint
	// anyNotation: whole numbers in it can be ints, doubles or unsigned ints.
	anyNotation
)

// known is what is known about the value of an expression.
type known struct {
	form     form
	schema   *schemas.Schema
	notation notation
	// inner is the contents of an optional value; full and none report that it
	// certainly has contents, or certainly not.
	inner      *known
	full, none bool
	// items are those of a formList; whole lists have them all.
	items []known
	// at is the place that the value is selected from, if it is.
	at *location
	// yes and no are the facts known if the value is true, or false.
	yes, no facts
	// filled is the name that surely holds an optional value where this is true.
	filled string
	// local marks a name that the expression declares, and from is the place of
	// which it is the value, or one of the values.
	local bool
	from  *location
	// broken reports that a problem with it has been reported, so that further
	// ones are suppressed.
	broken bool
}

// broken is what is known after a problem beyond which nothing is.
func broken() known { return known{schema: anything, notation: anyNotation, broken: true} }

func ofSchema(s *schemas.Schema) known { return known{schema: s} }

// boolean is a boolean result.
func boolean() known { return known{schema: ofKind[isBool]} }

// constant is a known value.
func constant(v any) known { return known{schema: exactly(v)} }

// exactly is the schema of one value.
func exactly(v any) *schemas.Schema { return schemas.Make(schemas.Keywords{Const: []any{v}}) }

// value gives the only value of s, if its text says that there is but one.
func (k known) value() (any, bool) {
	if k.form != formJSON {
		return nil, false
	}
	c := k.schema.Compiled()
	if len(c.Constant) > 0 {
		return c.Constant[0], true
	}
	if len(c.Enum) == 1 {
		return c.Enum[0], true
	}
	return nil, false
}

// text gives the only value if it is a string.
func (k known) text() (string, bool) {
	v, _ := k.value()
	s, ok := v.(string)
	return s, ok
}

// union returns what is known about a value that is one of two.
func union(a, b known) known {
	if a.broken || b.broken {
		return broken()
	}
	if a.form != b.form {
		return known{form: formMixed, schema: anything}
	}
	switch a.form {
	case formJSON:
		out := known{schema: either(a.schema, b.schema), notation: a.notation}
		if a.notation != b.notation {
			out.notation = anyNotation
		}
		return out
	case formOptional:
		out := known{form: formOptional, schema: anything, full: a.full && b.full, none: a.none && b.none, inner: a.inner}
		switch {
		case a.none || a.inner == nil:
			out.inner = b.inner
		case !b.none && b.inner != nil:
			inner := union(*a.inner, *b.inner)
			out.inner = &inner
		}
		return out
	case formList:
		return known{form: formMixed, schema: anything}
	}
	return known{form: a.form, schema: anything}
}

// optional is an optional value that holds inner, or perhaps not.
func optional(inner known, full bool) known {
	inner.yes, inner.no = nil, nil
	return known{form: formOptional, schema: anything, inner: &inner, full: full, broken: inner.broken}
}

// either is the schema of values of a or b.
func either(a, b *schemas.Schema) *schemas.Schema {
	x, y := a.Compiled(), b.Compiled()
	switch {
	case x == y || x.Always != nil && *x.Always || y.Always != nil && !*y.Always:
		return a
	case y.Always != nil && *y.Always || x.Always != nil && !*x.Always:
		return b
	}
	return schemas.Make(schemas.Keywords{Any: []*schemas.Schema{a, b}})
}

// both is the schema of values of a and b.
func both(a, b *schemas.Schema) *schemas.Schema {
	x, y := a.Compiled(), b.Compiled()
	switch {
	case x == y || y.Always != nil && *y.Always || x.Always != nil && !*x.Always:
		return a
	case x.Always != nil && *x.Always || y.Always != nil && !*y.Always:
		return b
	}
	return schemas.Make(schemas.Keywords{All: []*schemas.Schema{a, b}})
}

// not is the schema of values that are none of s.
func not(s *schemas.Schema) *schemas.Schema {
	if c := s.Compiled(); c.Always != nil {
		if *c.Always {
			return nothing
		}
		return anything
	}
	return schemas.Make(schemas.Keywords{Not: s})
}

// location is where a value is: a name, then keys and indexes. An index of
// everywhere is any place of a list.
type location struct {
	name  string
	outer *location
	step  step
}

const everywhere = -1

// maxPrefix is the number of a list's first items that are described individually.
const maxPrefix = 32

func (p *location) key(key string) *location {
	if p == nil {
		return nil
	}
	return &location{name: p.name, outer: p, step: step{key: key, isKey: true}}
}

func (p *location) index(i int) *location {
	if p == nil {
		return nil
	}
	return &location{name: p.name, outer: p, step: step{index: int64(i)}}
}

// String writes the place as an expression.
func (p *location) String() string {
	if p.outer == nil {
		return p.name
	}
	var sb strings.Builder
	sb.WriteString(p.outer.String())
	switch {
	case !p.step.isKey:
		sb.WriteString("[" + strconv.FormatInt(p.step.index, 10) + "]")
	case selectable(p.step.key):
		sb.WriteString("." + p.step.key)
	default:
		sb.WriteString("[" + strconv.Quote(p.step.key) + "]")
	}
	return sb.String()
}

// selectable reports whether ".key" can be written.
func selectable(key string) bool {
	return key != "" && identifier(key) == len(key) && key != "in" && key != "true" && key != "false" && key != "null"
}

// of gives the schema of the name's value where the place holds a value of s.
func (p *location) of(s *schemas.Schema) *schemas.Schema {
	for ; p.outer != nil; p = p.outer {
		k := schemas.Keywords{}
		switch {
		case p.step.isKey:
			k.Types = []string{"object"}
			k.Properties = map[string]*schemas.Schema{p.step.key: s}
			k.Required = []string{p.step.key}
		case p.step.index == everywhere:
			k.Types = []string{"array"}
			k.Items = s
		default:
			k.Types = []string{"array"}
			n := int(p.step.index) + 1
			k.MinItems = &n
			if n <= maxPrefix {
				for range n - 1 {
					k.Prefix = append(k.Prefix, anything)
				}
				k.Prefix = append(k.Prefix, s)
			}
		}
		s = schemas.Make(k)
	}
	return s
}

// within records which values of the name cause a problem: those that have one of
// bad at the place.
func (p *location) within(j *judge, bad *schemas.Schema, problem *Problem) {
	for range maxLift {
		name, _ := j.here.of(p.name)
		bad = p.of(bad)
		if name.local && name.from != nil {
			p = name.from
			continue
		}
		if !name.local && name.schema != nil {
			if v, ok := j.some(both(name.schema, bad)); ok {
				problem.Name, problem.Witness = p.name, v
			}
		}
		return
	}
}

// maxLift is the number of loops through which a witness is searched.
const maxLift = 8

// literalOf writes a rational number that has a finite decimal form.
func literalOf(r *big.Rat) (json.Number, bool) {
	if r == nil {
		return "", false
	}
	n, exact := r.FloatPrec()
	if !exact || n > 1100 {
		return "", false
	}
	return json.Number(r.FloatString(n)), true
}
