package expr

import (
	"encoding/json"
	"slices"
	"strings"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/schemas"
)

// kinds is a set of kinds of JSON values.
type kinds uint8

const (
	isNull kinds = 1 << iota
	isBool
	// isWhole are numbers whose value is whole, isFraction all others.
	isWhole
	isFraction
	isText
	isList
	isMap

	isNumber = isWhole | isFraction
	isAny    = isNull | isBool | isNumber | isText | isList | isMap
)

var (
	anything = schemas.True()
	nothing  = schemas.False()
	// ofKind are the schemas of all sets of kinds.
	ofKind = func() (all [isAny + 1]*schemas.Schema) {
		for k := range all {
			all[k] = makeKinds(kinds(k))
		}
		return all
	}()
)

func makeKinds(k kinds) *schemas.Schema {
	switch k {
	case 0:
		return nothing
	case isAny:
		return anything
	}
	var names []string
	for _, t := range []struct {
		kind kinds
		name string
	}{{isNull, "null"}, {isBool, "boolean"}, {isText, "string"}, {isList, "array"}, {isMap, "object"}} {
		if k&t.kind != 0 {
			names = append(names, t.name)
		}
	}
	switch k & isNumber {
	case isNumber:
		names = append(names, "number")
	case isWhole:
		names = append(names, "integer")
	case isFraction:
		return schemas.Make(schemas.Keywords{
			Types: append(names, "number"),
			Not:   schemas.Make(schemas.Keywords{Types: []string{"integer"}}),
		})
	}
	return schemas.Make(schemas.Keywords{Types: names})
}

// notKinds is the schema of what is of none of the kinds.
func notKinds(k kinds) *schemas.Schema { return ofKind[isAny&^k] }

// kindOfValue is the kind of a decoded value.
func kindOfValue(v any) kinds {
	switch v := v.(type) {
	case nil:
		return isNull
	case bool:
		return isBool
	case string:
		return isText
	case []any:
		return isList
	case map[string]any:
		return isMap
	case json.Number:
		if r, ok := rational(v); ok && r.IsInt() {
			return isWhole
		}
		return isFraction
	}
	return isAny
}

// kindOfName is what the keyword "type" means by a name.
func kindOfName(name string) kinds {
	switch name {
	case "null":
		return isNull
	case "boolean":
		return isBool
	case "integer":
		return isWhole
	case "number":
		return isNumber
	case "string":
		return isText
	case "array":
		return isList
	case "object":
		return isMap
	}
	return isAny
}

// fuel bounds a walk over a schema.
const fuel = 300

// kinds gives kinds of which all values of s are, as far as its text shows
// without a proof.
func (j *judge) kinds(s *schemas.Schema) kinds {
	left := fuel
	return kindsOf(s, &left)
}

func kindsOf(s *schemas.Schema, left *int) kinds {
	if *left--; *left < 0 {
		return isAny
	}
	c := s.Compiled()
	if c.Always != nil {
		if *c.Always {
			return isAny
		}
		return 0
	}
	all := isAny
	if len(c.Types) > 0 {
		all = 0
		for _, name := range c.Types {
			all |= kindOfName(name)
		}
	}
	if all&isFraction != 0 && c.MultipleOf != nil && c.MultipleOf.IsInt() {
		all &^= isFraction
	}
	for _, values := range [][]any{c.Constant, c.Enum} {
		if len(values) == 0 {
			continue
		}
		some := kinds(0)
		for _, v := range values {
			some |= kindOfValue(v)
		}
		all &= some
	}
	if c.Ref != nil {
		all &= kindsOf(schemas.Wrap(c.Ref), left)
	}
	for _, a := range c.AllOf {
		if all == 0 {
			return 0
		}
		all &= kindsOf(schemas.Wrap(a), left)
	}
	some := kinds(0)
	for _, a := range c.AnyOf {
		some |= kindsOf(schemas.Wrap(a), left)
	}
	if len(c.AnyOf) > 0 {
		all &= some
	}
	some = 0
	for _, a := range c.OneOf {
		some |= kindsOf(schemas.Wrap(a), left)
	}
	if len(c.OneOf) > 0 {
		all &= some
	}
	return all
}

// only reports whether each value of s is proved to be of one of the kinds.
func (j *judge) only(s *schemas.Schema, want kinds) bool {
	have := j.kinds(s)
	if have&^want == 0 {
		return true
	}
	return compound(s) && j.proves(s, ofKind[want])
}

// refined gives the kinds of s as far as they can be proved.
func (j *judge) refined(s *schemas.Schema) kinds {
	have := j.kinds(s)
	if !compound(s) {
		return have
	}
	for k := isNull; k <= isMap; k <<= 1 {
		if have&k != 0 && j.disjoint(s, ofKind[k]) {
			have &^= k
		}
	}
	return have
}

// compound reports whether a proof can show more of the kinds of s than its text.
func compound(s *schemas.Schema) bool {
	c := s.Compiled()
	return c.Always == nil && (c.Ref != nil || c.Not != nil || c.If != nil || len(c.AllOf)+len(c.AnyOf)+len(c.OneOf) > 0)
}

// proves asks whether each value of a is one of b.
func (j *judge) proves(a, b *schemas.Schema) bool {
	o, ok := j.options()
	if !ok {
		return false
	}
	r := containment.Prove(a, b, o)
	j.charge(r.Steps)
	return r.Verdict == containment.Proved
}

func (j *judge) disjoint(a, b *schemas.Schema) bool {
	o, ok := j.options()
	if !ok {
		return false
	}
	r := containment.Disjoint(a, b, o)
	j.charge(r.Steps)
	return r.Verdict == containment.Proved
}

// some gives a value of s, if one is found.
func (j *judge) some(s *schemas.Schema) (any, bool) {
	o, ok := j.options()
	if !ok {
		return nil, false
	}
	r := containment.Empty(s, o)
	j.charge(r.Steps)
	return r.Witness, r.Verdict == containment.Refuted
}

// never reports whether s is proved to have no value.
func (j *judge) never(s *schemas.Schema) bool {
	if c := s.Compiled(); c.Always != nil {
		return !*c.Always
	}
	if !compound(s) && len(s.Compiled().Properties) == 0 {
		return false
	}
	o, ok := j.options()
	if !ok {
		return false
	}
	r := containment.Empty(s, o)
	j.charge(r.Steps)
	return r.Verdict == containment.Proved
}

// part names a part of a schema: a property, or an element where key is "" and
// list is set.
type part struct {
	of    *schemas.Schema
	key   string
	index int
	list  bool
}

// property gives a schema of what can stand at a key of an object of s.
func (j *judge) property(s *schemas.Schema, key string) *schemas.Schema {
	return j.part(part{of: s, key: key})
}

// element does so for a place of a list, -1 for any.
func (j *judge) element(s *schemas.Schema, index int) *schemas.Schema {
	return j.part(part{of: s, index: index, list: true})
}

func (j *judge) part(p part) *schemas.Schema {
	if s, ok := j.parts[p]; ok {
		return s
	}
	c := p.of.Compiled()
	if len(c.Constant) > 0 {
		return partOf(c.Constant[0], p)
	}
	if onlyAll(p.of, 4) {
		s := anything
		for _, a := range c.AllOf {
			s = both(s, j.part(part{of: schemas.Wrap(a), key: p.key, index: p.index, list: p.list}))
		}
		return s
	}
	o, ok := j.options()
	if !ok {
		return anything
	}
	if compound(p.of) {
		o.Steps = min(o.Steps, maxPart)
	}
	spent := 0
	o.Spent = &spent
	defer func() { j.charge(spent) }()
	var s *schemas.Schema
	if p.list {
		s = containment.Element(p.of, p.index, o)
	} else {
		s = containment.Property(p.of, p.key, o)
	}
	if j.parts == nil && compound(p.of) {
		j.parts = map[part]*schemas.Schema{}
	}
	if j.parts != nil {
		j.parts[p] = s
	}
	return s
}

// onlyAll reports whether s is a conjunction of schemas without alternatives, so
// that its parts are the conjunctions of theirs.
func onlyAll(s *schemas.Schema, depth int) bool {
	c := s.Compiled()
	if len(c.AllOf) == 0 || depth == 0 || c.Ref != nil || c.Not != nil || c.If != nil || len(c.AnyOf)+len(c.OneOf)+len(c.Enum) > 0 ||
		c.Properties != nil || c.PatternProperties != nil || c.AdditionalProperties != nil || c.PrefixItems != nil || c.Items2020 != nil || c.Items != nil {
		return false
	}
	for _, a := range c.AllOf {
		if w := schemas.Wrap(a); compound(w) && !onlyAll(w, depth-1) {
			return false
		}
	}
	return true
}

// partOf is the part of one value.
func partOf(v any, p part) *schemas.Schema {
	switch v := v.(type) {
	case map[string]any:
		if one, ok := v[p.key]; ok && !p.list {
			return exactly(one)
		}
	case []any:
		switch {
		case !p.list:
		case p.index == everywhere && len(v) > 0 && len(v) <= maxEnum:
			return schemas.Make(schemas.Keywords{Enum: v})
		case p.index >= 0 && p.index < len(v):
			return exactly(v[p.index])
		case p.index == everywhere && len(v) > 0:
			return anything
		}
	}
	return nothing
}

// orKinds writes a set of kinds for a message.
func orKinds(k kinds) string {
	var names []string
	for _, t := range []struct {
		kind kinds
		name string
	}{
		{isNull, "null"}, {isBool, "a boolean"}, {isNumber, "a number"}, {isWhole, "a whole number"}, {isFraction, "a number that is not whole"},
		{isText, "a string"}, {isList, "a list"}, {isMap, "an object"},
	} {
		if k&t.kind == t.kind {
			names = append(names, t.name)
			k &^= t.kind
		}
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(slices.Concat(names[:last-1], []string{names[last-1] + " or " + names[last]}), ", ")
}
