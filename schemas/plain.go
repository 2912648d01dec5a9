package schemas

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// Most schemas are plain: of the default draft, without identifiers, and with
// references to named definitions only. The library looks up each subschema by its URI and
// validates it against the draft's meta-schema, which costs far more than building it. So
// a plain schema is built here, under the rules of the meta-schema, and equals the
// library's own, field by field. Whatever is not certainly valid is not plain: the
// library decides about it.

// Schemas that the library has compiled, for what it stores about the draft and about an
// enum in unexported fields.
var (
	plainRoot    = jsonschema.MustCompileString(base, `{"$schema":"`+DefaultDraft+`"}`)
	plainListing = jsonschema.MustCompileString(base, `{"$schema":"`+DefaultDraft+`","enum":[{}]}`)
	plainEnum    = jsonschema.MustCompileString(base, `{"$schema":"`+DefaultDraft+`","not":{"enum":[{}]}}`).Not
)

// plainBlank is a schema without keywords, plainBool one that is true or false.
var plainBlank, plainBool = func() (*jsonschema.Schema, *jsonschema.Schema) {
	s := blank()
	s.ContainsEval = plainRoot.ContainsEval
	return s, blank()
}()

// maxPlainChain bounds the chain of schemas of a plain one that apply to one value;
// MaxChain bounds all.
const maxPlainChain = MaxChain / 2

// Plain returns the compiled schema of a decoded text of at most [MaxSchemaBytes],
// as [Compile] does, if that is plain: of the default draft, without identifiers
// and the rarer keywords, and with references to named definitions only. It returns
// nil for any other, valid or not, for which Compile takes much longer. The schema
// takes ownership of the value.
func Plain(v any) *Schema {
	s, patterns := plainSchema(v)
	if s == nil {
		return nil
	}
	return &Schema{compiled: s, made: &made{plain: true}, patterns: patterns}
}

// plainSchema returns the library's schema of a decoded one, or nil if that is not
// plain, and the size of its patterns.
func plainSchema(root any) (*jsonschema.Schema, int) {
	m, ok := root.(map[string]any)
	if !ok {
		return nil, 0
	}
	s := new(jsonschema.Schema)
	*s = *plainRoot
	if _, ok := m["enum"]; ok {
		*s = *plainListing
	}
	p := plainer{root: m}
	if !p.keywords(s, m, 0) || !p.definitions() || !p.chains(s) {
		return nil, 0
	}
	return s, p.patterns
}

// plainer builds a plain schema.
type plainer struct {
	root map[string]any
	// schemas counts subschemas, and patterns the size of the patterns.
	schemas, patterns int
	// defined holds the definitions that are referred to, by their places.
	defined map[string]*jsonschema.Schema
	// heights holds the length of the longest chain of schemas, from a schema on, that
	// apply to one value; -1 while it is being computed.
	heights map[*jsonschema.Schema]int
}

// reference returns the definition that a reference names: in `$defs`, or in
// `defs`, where plans have them.
func (p *plainer) reference(v any) *jsonschema.Schema {
	ref, _ := v.(string)
	for _, key := range []string{"defs", "$defs"} {
		name, ok := strings.CutPrefix(ref, "#/"+key+"/")
		if !ok || !plainName(name) {
			continue
		}
		return p.definition(key, name)
	}
	return nil
}

func (p *plainer) definition(key, name string) *jsonschema.Schema {
	place := base + "#/" + key + "/" + name
	if s, ok := p.defined[place]; ok {
		return s
	}
	all, _ := p.root[key].(map[string]any)
	v, ok := all[name]
	if !ok {
		return nil
	}
	if p.defined == nil {
		p.defined = map[string]*jsonschema.Schema{}
	}
	s := new(jsonschema.Schema)
	p.defined[place] = s
	if !p.fill(s, v, place, 0) {
		return nil
	}
	return s
}

// definitions checks the definitions that nothing refers to: the library compiles all of
// `$defs`, but of `defs` only what a reference leads to.
func (p *plainer) definitions() bool {
	for _, key := range []string{"defs", "$defs"} {
		v, there := p.root[key]
		all, ok := v.(map[string]any)
		if there && !ok {
			return false
		}
		for name := range all {
			_, known := p.defined[base+"#/"+key+"/"+name]
			if !known && (key == "defs" || !plainName(name) || p.definition(key, name) == nil) {
				return false
			}
		}
	}
	return true
}

// chains reports whether the schemas that apply to the same value form no loop and no long
// chain.
func (p *plainer) chains(root *jsonschema.Schema) bool {
	if len(p.defined) == 0 {
		return true
	}
	p.heights = make(map[*jsonschema.Schema]int, p.schemas)
	if p.height(root) < 0 {
		return false
	}
	for _, s := range p.defined {
		if p.height(s) < 0 {
			return false
		}
	}
	return true
}

// height returns the length of the longest chain of schemas that apply to a value of s, or
// -1 if it is too long. It also checks what applies to parts of the value.
func (p *plainer) height(s *jsonschema.Schema) int {
	if h, ok := p.heights[s]; ok {
		return h
	}
	p.heights[s] = -1
	h, ok := 0, true
	each(s, func(c *jsonschema.Schema, inplace bool) {
		if !ok || !inplace {
			return
		}
		below := p.height(c)
		ok = below >= 0 && below < maxPlainChain
		h = max(h, below+1)
	})
	if !ok {
		return -1
	}
	p.heights[s] = h
	each(s, func(c *jsonschema.Schema, inplace bool) {
		ok = ok && (inplace || p.height(c) >= 0 || c == s)
	})
	if !ok {
		return -1
	}
	return h
}

// schema returns the schema at a place inside the document, or nil if v is not plain. chain
// is the number of schemas around it that apply to the same value.
func (p *plainer) schema(v any, place string, chain int) *jsonschema.Schema {
	s := new(jsonschema.Schema)
	if !p.fill(s, v, place, chain) {
		return nil
	}
	return s
}

func (p *plainer) fill(s *jsonschema.Schema, v any, place string, chain int) bool {
	switch v := v.(type) {
	case bool:
		if p.schemas++; p.schemas > MaxSubschemas {
			return false
		}
		*s = *plainBool
		s.Location, s.Always = place, &v
		return true
	case map[string]any:
		*s = *plainBlank
		if _, ok := v["enum"]; ok {
			*s = *plainEnum
		}
		s.Location = place
		return p.keywords(s, v, chain)
	}
	return false
}

// keywords sets the keywords of a schema, and reports whether it is plain.
func (p *plainer) keywords(s *jsonschema.Schema, m map[string]any, chain int) bool {
	if p.schemas++; p.schemas > MaxSubschemas || chain > maxPlainChain {
		return false
	}
	for key, v := range m {
		if !p.keyword(s, key, v, chain) {
			return false
		}
	}
	return true
}

func (p *plainer) keyword(s *jsonschema.Schema, key string, v any, chain int) (ok bool) {
	switch key {
	case "$schema":
		return v == DefaultDraft && s.Location == plainRoot.Location
	case "defs", "$defs":
		return s.Location == plainRoot.Location
	case "$ref":
		s.Ref = p.reference(v)
		ok = s.Ref != nil
	case "pattern":
		ok = p.pattern(s, v)
	case "title", "description", "$comment":
		_, ok = v.(string)
	case "format":
		s.Format, ok = v.(string)
	case "deprecated", "readOnly", "writeOnly":
		_, ok = v.(bool)
	case "default":
		ok = inert(v)
	case "examples":
		_, ok = v.([]any)
		ok = ok && inert(v)
	case "type":
		s.Types, ok = plainTypes(v)
	case "const":
		s.Constant, ok = []any{v}, inert(v)
	case "enum":
		s.Enum, ok = v.([]any)
		// An empty enum needs special care.
		ok = ok && len(s.Enum) > 0 && inert(v)
	case "minimum":
		s.Minimum, ok = plainNumber(v)
	case "maximum":
		s.Maximum, ok = plainNumber(v)
	case "exclusiveMinimum":
		s.ExclusiveMinimum, ok = plainNumber(v)
	case "exclusiveMaximum":
		s.ExclusiveMaximum, ok = plainNumber(v)
	case "multipleOf":
		s.MultipleOf, ok = plainNumber(v)
		ok = ok && s.MultipleOf.Sign() > 0
	case "minLength":
		s.MinLength, ok = plainCount(v)
	case "maxLength":
		s.MaxLength, ok = plainCount(v)
	case "minItems":
		s.MinItems, ok = plainCount(v)
	case "maxItems":
		s.MaxItems, ok = plainCount(v)
	case "minProperties":
		s.MinProperties, ok = plainCount(v)
	case "maxProperties":
		s.MaxProperties, ok = plainCount(v)
	case "uniqueItems":
		s.UniqueItems, ok = v.(bool)
	case "required":
		s.Required, ok = plainNames(v)
	case "additionalProperties":
		if yes, is := v.(bool); is {
			s.AdditionalProperties = yes
			return true
		}
		rest := p.schema(v, s.Location+"/additionalProperties", 0)
		s.AdditionalProperties, ok = rest, rest != nil
	case "properties":
		ok = p.properties(s, v)
	case "items":
		s.Items2020 = p.schema(v, s.Location+"/items", 0)
		ok = s.Items2020 != nil
	case "not":
		s.Not = p.schema(v, s.Location+"/not", chain+1)
		ok = s.Not != nil
	case "prefixItems":
		s.PrefixItems, ok = p.list(v, s.Location+"/prefixItems/", 0)
	case "allOf":
		s.AllOf, ok = p.list(v, s.Location+"/allOf/", chain+1)
	case "anyOf":
		s.AnyOf, ok = p.list(v, s.Location+"/anyOf/", chain+1)
	case "oneOf":
		s.OneOf, ok = p.list(v, s.Location+"/oneOf/", chain+1)
	}
	return ok
}

func (p *plainer) list(v any, place string, chain int) ([]*jsonschema.Schema, bool) {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, false
	}
	out := make([]*jsonschema.Schema, len(list))
	for i, v := range list {
		if out[i] = p.schema(v, place+strconv.Itoa(i), chain); out[i] == nil {
			return nil, false
		}
	}
	return out, true
}

func (p *plainer) properties(s *jsonschema.Schema, v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return false
	}
	s.Properties = make(map[string]*jsonschema.Schema, len(m))
	for name, v := range m {
		if !plainName(name) {
			return false
		}
		c := p.schema(v, s.Location+"/properties/"+name, 0)
		if c == nil {
			return false
		}
		s.Properties[name] = c
	}
	return true
}

// pattern sets the pattern that a schema has at run time.
func (p *plainer) pattern(s *jsonschema.Schema, v any) bool {
	author, ok := v.(string)
	if !ok {
		return false
	}
	translated, n, err := translate(author)
	if err != nil {
		return false
	}
	own, err := PatternSize(author)
	if p.patterns += max(n, own); err != nil || p.patterns > MaxPatternTotal {
		return false
	}
	if s.Pattern, err = regexp.Compile(translated); err != nil {
		return false
	}
	if translated != author {
		s.Comment = author
	}
	return true
}

// plainName reports whether a name appears unchanged in a place. Whatever is called
// patternProperties is examined before a schema is understood.
func plainName(name string) bool {
	if name == "" || name == "patternProperties" {
		return false
	}
	for _, c := range []byte(name) {
		if c != '_' && c != '-' && c != '.' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// plainOne maps each JSON type to the list of it alone, which schemas share.
var plainOne = map[string][]string{
	"array": {"array"}, "boolean": {"boolean"}, "integer": {"integer"}, "null": {"null"},
	"number": {"number"}, "object": {"object"}, "string": {"string"},
}

func plainTypes(v any) ([]string, bool) {
	if name, ok := v.(string); ok {
		one, ok := plainOne[name]
		return one, ok
	}
	names, ok := plainNames(v)
	if !ok || len(names) == 0 {
		return nil, false
	}
	for _, name := range names {
		if plainOne[name] == nil {
			return nil, false
		}
	}
	return names, true
}

// plainNames reads a list of distinct strings.
func plainNames(v any) ([]string, bool) {
	const few = 16
	list, ok := v.([]any)
	if !ok {
		return nil, false
	}
	out := make([]string, len(list))
	var seen map[string]bool
	if len(list) > few {
		seen = make(map[string]bool, len(list))
	}
	for i, v := range list {
		if out[i], ok = v.(string); !ok {
			return nil, false
		}
		if seen != nil {
			if seen[out[i]] {
				return nil, false
			}
			seen[out[i]] = true
			continue
		}
		for _, other := range out[:i] {
			if other == out[i] {
				return nil, false
			}
		}
	}
	return out, true
}

func plainNumber(v any) (*big.Rat, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return nil, false
	}
	if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return new(big.Rat).SetInt64(i), true
	}
	return new(big.Rat).SetString(string(n))
}

// plainCount reads a count that consists of digits and is far below MaxCount.
func plainCount(v any) (int, bool) {
	n, ok := v.(json.Number)
	if !ok || len(n) > 15 {
		return 0, false
	}
	i, err := strconv.ParseUint(string(n), 10, 63)
	return int(i), err == nil
}

// inert reports whether nothing in a value could be mistaken for a pattern, which is
// bounded wherever it is.
func inert(v any) bool {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if !inert(e) {
				return false
			}
		}
	case map[string]any:
		for name, e := range v {
			if name == "pattern" || name == "patternProperties" || !inert(e) {
				return false
			}
		}
	}
	return true
}
