package containment

import (
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

func ordered[V any](m map[string]V) []string {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}

// made is the location of schemas that no user wrote.
const made = "chimera:///made#"

func blank() *schema {
	return &schema{Location: made, Draft: jsonschema.Draft2020, MinProperties: -1, MaxProperties: -1, MinItems: -1, MaxItems: -1, MinContains: 1, MaxContains: -1, MinLength: -1, MaxLength: -1}
}

var nothing = func() *schema { s := blank(); no := false; s.Always = &no; return s }()

// constant returns the schema of one value. Equal values have the same schema.
func (p *prover) constant(v any) *schema {
	p.charge(1 + bulk(v, p.left*64)/64)
	k := canonical(v)
	if s, ok := p.consts[k]; ok {
		return s
	}
	if p.consts == nil {
		p.consts = map[string]*schema{}
	}
	s := blank()
	s.Constant = []any{v}
	p.consts[k] = s
	return s
}

// canonical returns a text that two values share if and only if JSON Schema considers
// them equal.
func canonical(v any) string {
	var b strings.Builder
	write(&b, v)
	return b.String()
}

func write(b *strings.Builder, v any) {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case string:
		b.WriteString(strconv.Quote(v))
	case json.Number:
		s := v.String()
		if strings.ContainsAny(s, ".eE") || s == "-0" {
			if r, ok := new(big.Rat).SetString(s); ok {
				s = r.RatString()
			}
		}
		b.WriteString(s)
	case []any:
		b.WriteByte('[')
		for _, e := range v {
			write(b, e)
			b.WriteByte(',')
		}
		b.WriteByte(']')
	case map[string]any:
		b.WriteByte('{')
		for _, k := range ordered(v) {
			b.WriteString(strconv.Quote(k))
			b.WriteByte(':')
			write(b, v[k])
			b.WriteByte(',')
		}
		b.WriteByte('}')
	}
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

// values is what an enum lists.
type values struct{ has map[string]bool }

// listed reports whether the enum or const of s lists v.
func (p *prover) listed(s *schema, v any) bool {
	set, ok := p.enums[s]
	if !ok {
		if p.enums == nil {
			p.enums = map[*schema]*values{}
		}
		set = &values{has: map[string]bool{}}
		all := s.Enum
		if len(s.Constant) > 0 {
			all = s.Constant[:1]
		}
		for _, e := range all {
			p.charge(1 + bulk(e, p.left*64)/64)
			k := canonical(e)
			set.has[k] = true
		}
		p.enums[s] = set
	}
	p.charge(1 + bulk(v, p.left*64)/64)
	k := canonical(v)
	return set.has[k]
}

// bare reports whether s lists values and demands nothing else.
func bare(s *schema) bool {
	return (len(s.Enum) > 0) != (len(s.Constant) > 0) && free(s) && inplaceFree(s) && s.UnevaluatedProperties == nil &&
		s.UnevaluatedItems == nil && len(s.Extensions) == 0
}

// free reports whether s itself demands nothing of any type. It ignores schemas that
// apply to the same value, listed values and unevaluated parts.
func free(s *schema) bool {
	return s.Always == nil && len(s.Types) == 0 && s.MinProperties < 0 && s.MaxProperties < 0 && s.Required == nil && s.Properties == nil &&
		s.PropertyNames == nil && s.PatternProperties == nil && s.AdditionalProperties == nil && s.DependentRequired == nil &&
		s.MinItems < 0 && s.MaxItems < 0 && !s.UniqueItems && s.Items == nil && s.PrefixItems == nil && s.Items2020 == nil &&
		s.Contains == nil && s.MinLength < 0 && s.MaxLength < 0 && s.Pattern == nil && s.Minimum == nil && s.Maximum == nil &&
		s.ExclusiveMinimum == nil && s.ExclusiveMaximum == nil && s.MultipleOf == nil && !s.RegexProperties
}

// inplaceFree reports whether s applies no other schema to the same value.
func inplaceFree(s *schema) bool {
	return s.Ref == nil && s.RecursiveRef == nil && s.DynamicRef == nil && s.Not == nil && s.AllOf == nil && s.AnyOf == nil &&
		s.OneOf == nil && s.If == nil && s.Dependencies == nil && s.DependentSchemas == nil
}

// only reports whether s, a copy without one keyword, demands nothing.
func only(s *schema) bool {
	return free(s) && inplaceFree(s) && len(s.Enum)+len(s.Constant)+len(s.Extensions) == 0 && s.UnevaluatedProperties == nil &&
		s.UnevaluatedItems == nil
}

// onlyRef reports whether s is a reference and demands nothing else.
func onlyRef(s *schema) bool {
	if s.Ref == nil {
		return false
	}
	rest := *s
	rest.Ref = nil
	return only(&rest)
}

// onlyNot reports whether s is a negation and demands nothing else.
func onlyNot(s *schema) bool {
	if s.Not == nil {
		return false
	}
	rest := *s
	rest.Not = nil
	return only(&rest)
}

// test reports whether the validator accepts v. sure is false if it was not asked or
// gave up.
func (p *prover) test(l lit, v any) (yes, sure bool) {
	for range 8 {
		switch s := l.s; {
		case s.Always != nil || !free(s) || len(s.Enum)+len(s.Constant) > 0:
		case onlyRef(s):
			l.s = s.Ref
			continue
		case onlyNot(s):
			l = lit{s.Not, !l.neg}
			continue
		}
		break
	}
	s := l.s
	switch {
	case s.Always != nil:
		return *s.Always != l.neg, true
	case p.wild[s] && p.depth > 1:
		// Its meaning depends on how it was reached.
		return false, false
	case bare(s):
		return p.listed(s, v) != l.neg, true
	}
	p.weigh(s, v)
	err := s.Validate(v)
	var ve *jsonschema.ValidationError
	if err != nil && !errors.As(err, &ve) {
		return false, false
	}
	return (err == nil) != l.neg, true
}
