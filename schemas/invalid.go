package schemas

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"chimera.ai/engine/internal/excerpt"
)

// Bounds of what [Invalid] says.
const (
	maxCauses  = 32
	maxPointer = 256
	maxMessage = 320
)

// Invalid says why a value does not satisfy a schema. It is deterministic for a schema and
// a value.
type Invalid struct {
	// Causes is sorted by instance, keyword and message, without duplicates, and
	// holds at most 32.
	Causes []Cause
	// More is the number of causes left out.
	More int
}

// Cause is one reason why a value is invalid.
type Cause struct {
	// Instance is a JSON pointer (RFC 6901) to the part of the value; "" is the whole.
	Instance string
	// Keyword is a JSON pointer to what that part breaks in the schema's document.
	Keyword string
	Message string
}

func (e *Invalid) Error() string {
	var sb strings.Builder
	for i, c := range e.Causes {
		if i == 5 || sb.Len() > 1000 {
			fmt.Fprintf(&sb, "; and %d more", len(e.Causes)-i+e.More)
			return sb.String()
		}
		if i > 0 {
			sb.WriteString("; ")
		}
		if c.Instance != "" {
			sb.WriteString(c.Instance + ": ")
		}
		sb.WriteString(c.Message)
	}
	if e.More > 0 {
		fmt.Fprintf(&sb, "; and %d more", e.More)
	}
	return sb.String()
}

// flatten turns the library's tree of errors into a list. The order of the tree, and of
// names in some messages, varies with Go's maps; the list does not vary. at maps
// locations to schemas, and s is the schema; without them, messages remain those of the
// library.
func flatten(ve *jsonschema.ValidationError, at map[string]*jsonschema.Schema, s *jsonschema.Schema, v any) *Invalid {
	f := flattener{at: at, schema: s, root: v, seen: map[Cause]bool{}}
	f.walk(ve)
	slices.SortFunc(f.causes, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Keyword, b.Keyword), cmp.Compare(a.Message, b.Message))
	})
	inv := &Invalid{Causes: f.causes}
	if len(inv.Causes) > maxCauses {
		inv.More = len(inv.Causes) - maxCauses
		inv.Causes = slices.Clone(inv.Causes[:maxCauses])
	}
	for i := range inv.Causes {
		c := &inv.Causes[i]
		c.Instance, c.Keyword, c.Message = excerpt.Clip(c.Instance, maxPointer), excerpt.Clip(c.Keyword, maxPointer), excerpt.Clip(c.Message, maxMessage)
	}
	return inv
}

type flattener struct {
	at     map[string]*jsonschema.Schema
	schema *jsonschema.Schema
	root   any
	seen   map[Cause]bool
	causes []Cause
}

func (f *flattener) walk(ve *jsonschema.ValidationError) {
	_, keyword := f.owner(ve)
	choice := keyword == "anyOf" || keyword == "oneOf" || keyword == "minContains"
	if len(ve.Causes) == 0 || choice {
		c := Cause{Instance: pointer(ve.InstanceLocation), Keyword: location(ve.AbsoluteKeywordLocation), Message: f.message(ve)}
		if !f.seen[c] {
			f.seen[c] = true
			f.causes = append(f.causes, c)
		}
		if keyword == "minContains" {
			return
		}
	}
	for _, c := range ve.Causes {
		f.walk(c)
	}
}

// owner finds the schema that an error is about, and the keyword in it.
func (f *flattener) owner(ve *jsonschema.ValidationError) (*jsonschema.Schema, string) {
	at, keyword := ve.AbsoluteKeywordLocation, ""
	if f.at == nil && f.schema != nil {
		return follow(f.schema, ve.KeywordLocation)
	}
	if f.at == nil {
		if i := strings.LastIndexByte(at, '/'); i >= 0 && strings.HasSuffix(ve.Message, " failed") {
			return nil, at[i+1:]
		}
		return nil, ""
	}
	for range 4 {
		if s := f.at[at]; s != nil {
			return s, keyword
		}
		i := strings.LastIndexByte(at, '/')
		if i < 0 {
			break
		}
		if keyword != "" {
			keyword = "/" + keyword
		}
		at, keyword = at[:i], at[i+1:]+keyword
	}
	return nil, ""
}

// follow finds the schema that an error is about, and the keyword in it, by the
// path that validation took from the root.
func follow(s *jsonschema.Schema, path string) (*jsonschema.Schema, string) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for len(parts) > 0 && parts[0] != "" {
		next, n := step(s, parts)
		if next == nil {
			return s, strings.Join(parts, "/")
		}
		if s.DynamicRef == next || s.RecursiveRef == next {
			// It may have led to another schema.
			return nil, ""
		}
		s, parts = next, parts[n:]
	}
	return s, ""
}

// step finds the subschema that the first parts of a path lead to, and how many
// they are; it returns none where they name a keyword that only asserts.
func step(s *jsonschema.Schema, parts []string) (*jsonschema.Schema, int) {
	one := func(v any) (*jsonschema.Schema, int) {
		c, _ := v.(*jsonschema.Schema)
		return c, 1
	}
	name := ""
	if len(parts) > 1 {
		name = Unescape(pointer(parts[1]))
	}
	item := func(all []*jsonschema.Schema) (*jsonschema.Schema, int) {
		if i, err := strconv.Atoi(name); err == nil && 0 <= i && i < len(all) {
			return all[i], 2
		}
		return nil, 0
	}
	switch parts[0] {
	case "$ref":
		return one(s.Ref)
	case "$dynamicRef":
		return one(s.DynamicRef)
	case "$recursiveRef":
		return one(s.RecursiveRef)
	case "not":
		return one(s.Not)
	case "if":
		return one(s.If)
	case "then":
		return one(s.Then)
	case "else":
		return one(s.Else)
	case "allOf":
		return item(s.AllOf)
	case "anyOf":
		return item(s.AnyOf)
	case "oneOf":
		return item(s.OneOf)
	case "properties":
		return s.Properties[name], 2
	case "patternProperties":
		for re, c := range s.PatternProperties {
			if re.String() == name {
				return c, 2
			}
		}
	case "additionalProperties":
		return one(s.AdditionalProperties)
	case "propertyNames":
		return one(s.PropertyNames)
	case "unevaluatedProperties":
		return one(s.UnevaluatedProperties)
	case "dependencies":
		c, _ := s.Dependencies[name].(*jsonschema.Schema)
		return c, 2
	case "dependentSchemas":
		return s.DependentSchemas[name], 2
	case "items":
		switch items := s.Items.(type) {
		case *jsonschema.Schema:
			return items, 1
		case []*jsonschema.Schema:
			return item(items)
		}
		return one(s.Items2020)
	case "additionalItems":
		return one(s.AdditionalItems)
	case "prefixItems":
		return item(s.PrefixItems)
	case "contains":
		return one(s.Contains)
	case "unevaluatedItems":
		return one(s.UnevaluatedItems)
	}
	return nil, 0
}

// message says what is wrong. It uses the library's message unless that is unclear or
// varies.
func (f *flattener) message(ve *jsonschema.ValidationError) string {
	if ve.Message == "not failed" {
		// Its location is also that of the schema under "not".
		return "matches what it must not match"
	}
	s, keyword := f.owner(ve)
	switch keyword {
	case "anyOf", "oneOf":
		if strings.HasSuffix(ve.Message, " failed") {
			return "matches none of the alternatives"
		}
		return strings.Replace(ve.Message, "valid against schemas at indexes", "matches more than one alternative: numbers", 1)
	case "minContains", "maxContains":
		return strings.Replace(ve.Message, "valid must be", "the number of matching items must be", 1)
	}
	if s == nil && strings.HasPrefix(ve.Message, "additionalProperties ") {
		return "has properties that are not allowed"
	}
	if s == nil {
		return ve.Message
	}
	switch keyword {
	case "":
		if s.Always != nil {
			return "no value is allowed here"
		}
	case "const":
		return "must be " + excerpt.Clip(show(s.Constant[0]), 200)
	case "enum":
		return "must be one of " + listed(s.Enum)
	case "additionalProperties":
		if object, ok := f.instance(ve).(map[string]any); ok {
			return extra(s, object)
		}
	case "pattern":
		if s.Comment != "" {
			return "does not match pattern " + apostrophes(s.Comment)
		}
	case "minimum":
		return f.limit(ve, ">=", s.Minimum)
	case "exclusiveMinimum":
		return f.limit(ve, ">", s.ExclusiveMinimum)
	case "maximum":
		return f.limit(ve, "<=", s.Maximum)
	case "exclusiveMaximum":
		return f.limit(ve, "<", s.ExclusiveMaximum)
	case "multipleOf":
		return f.limit(ve, "a multiple of", s.MultipleOf)
	}
	return ve.Message
}

// limit writes bounds exactly; the library shows them as floats.
func (f *flattener) limit(ve *jsonschema.ValidationError, word string, bound *big.Rat) string {
	if bound == nil {
		return ve.Message
	}
	return fmt.Sprintf("must be %s %s, but is %s", word, excerpt.Clip(decimal(bound), 80), excerpt.Clip(show(f.instance(ve)), 80))
}

func (f *flattener) instance(ve *jsonschema.ValidationError) any {
	v := f.root
	for _, part := range strings.Split(pointer(ve.InstanceLocation), "/")[1:] {
		switch at := v.(type) {
		case map[string]any:
			v = at[Unescape(part)]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(at) {
				return nil
			}
			v = at[i]
		}
	}
	return v
}

// apostrophes quotes as the library does.
func apostrophes(s string) string {
	s = strings.ReplaceAll(strconv.Quote(s), `\"`, `"`)
	return "'" + strings.ReplaceAll(s[1:len(s)-1], "'", `\'`) + "'"
}

func extra(s *jsonschema.Schema, object map[string]any) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		_, known := s.Properties[name]
		for p := range s.PatternProperties {
			known = known || p.MatchString(name)
		}
		if !known {
			names = append(names, excerpt.Quote(name, 60))
		}
	}
	if len(names) == 1 {
		return "the property " + names[0] + " is not allowed"
	}
	return "the properties " + joined(names) + " are not allowed"
}

func listed(values []any) string {
	names := make([]string, 0, min(len(values), 12))
	for _, v := range values[:min(len(values), 12)] {
		names = append(names, excerpt.Clip(show(v), 60))
	}
	if n := len(values) - len(names); n > 0 {
		return strings.Join(names, ", ") + fmt.Sprintf(" or %d more", n)
	}
	return strings.Join(names, ", ")
}

func joined(names []string) string {
	if n := len(names); n > 5 {
		return strings.Join(names[:5], ", ") + fmt.Sprintf(" and %d more", n-5)
	}
	return strings.Join(names, ", ")
}

// location returns the plain JSON pointer of an absolute location.
func location(absolute string) string {
	_, f, _ := strings.Cut(absolute, "#")
	return pointer(f)
}

// pointer undoes the percent encoding that the library adds to JSON pointers.
func pointer(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}
