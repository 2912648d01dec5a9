package schemas

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// position says where in a keyword's value subschemas stand.
type position int

const (
	self position = 1 << iota
	items
	members
)

// keywords are those that hold subschemas in any draft. To look at a place that
// is no schema in one draft does no harm.
var keywords = map[string]position{
	"not": self, "if": self, "then": self, "else": self, "contains": self,
	"propertyNames": self, "additionalItems": self, "additionalProperties": self,
	"unevaluatedItems": self, "unevaluatedProperties": self, "contentSchema": self,
	"items": self | items,
	"allOf": items, "anyOf": items, "oneOf": items, "prefixItems": items,
	"properties": members, "patternProperties": members, "definitions": members,
	"$defs": members, "dependencies": members, "dependentSchemas": members,
}

// scan is what is found in a schema's source before the library sees it.
type scan struct {
	root  any
	draft string
	seen  map[string]bool
	queue []place
	// external are references that are no pointer into the document.
	external []string
	// named: the document gives itself or a part of it an identifier, so that
	// references resolve against more than one base.
	named bool
	// anchors are the places of $dynamicAnchor.
	anchors []string
	// dynamic: there is a $dynamicRef or $recursiveRef.
	dynamic bool
	// patterns is the size of all patterns.
	patterns int
	// rewrites are the patterns that the library does not understand.
	rewrites []rewrite
}

type rewrite struct {
	pointer            string
	schema             map[string]any
	pattern, translate string
}

type place struct {
	pointer string
	schema  any
}

// scanSchema looks at all subschemas of a decoded schema that keywords or
// pointers lead to, in an order that is the same each time.
func scanSchema(root any) (*scan, error) {
	s := &scan{root: root, seen: map[string]bool{}}
	if err := s.bound(root); err != nil {
		return nil, err
	}
	s.push("", root)
	for len(s.queue) > 0 {
		p := s.queue[0]
		s.queue = s.queue[1:]
		if err := s.visit(p); err != nil {
			return nil, fmt.Errorf("at %q: %w", clip(p.pointer, 200), err)
		}
		if len(s.seen) > MaxSubschemas {
			return nil, tooLarge("more than %d subschemas", MaxSubschemas)
		}
	}
	if len(s.external) > 0 && !s.named {
		return nil, externalError(s.external)
	}
	return s, nil
}

func externalError(refs []string) error {
	slices.Sort(refs)
	return fmt.Errorf("the reference %s leaves the document, and nothing is ever loaded", clip(quote(refs[0]), 200))
}

// bound checks the size of whatever could be compiled as a pattern, wherever it
// stands: references can make a schema of any part of the document.
func (s *scan) bound(v any) error {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := s.bound(e); err != nil {
				return err
			}
		}
	case map[string]any:
		if p, ok := v["pattern"].(string); ok {
			if err := s.count(p); err != nil {
				return err
			}
		}
		if ps, ok := v["patternProperties"].(map[string]any); ok {
			for p := range ps {
				if err := s.count(p); err != nil {
					return err
				}
			}
		}
		for _, e := range v {
			if err := s.bound(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *scan) count(pattern string) error {
	_, n, err := translate(pattern)
	if errors.Is(err, ErrTooLarge) {
		return err
	}
	// The library compiles the author's text before it is replaced.
	own, err := sizeOf(pattern)
	if errors.Is(err, ErrTooLarge) {
		return err
	}
	if s.patterns += max(n, own); s.patterns > MaxPatternTotal {
		return tooLarge("patterns whose programs have more than %d instructions together", MaxPatternTotal)
	}
	return nil
}

func (s *scan) push(pointer string, schema any) {
	if !s.seen[pointer] {
		s.seen[pointer] = true
		s.queue = append(s.queue, place{pointer, schema})
	}
}

func (s *scan) visit(p place) error {
	m, ok := p.schema.(map[string]any)
	if !ok {
		if _, ok := p.schema.(bool); ok || p.pointer != "" {
			return nil
		}
		return errors.New("a schema is an object or a boolean")
	}
	if err := s.identify(p.pointer, m); err != nil {
		return err
	}
	for _, key := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		if ref, ok := m[key].(string); ok {
			if key == "$ref" && draftOf(ref) != "" {
				continue // A meta-schema, which is at hand.
			}
			s.dynamic = s.dynamic || key != "$ref"
			if err := s.follow(ref); err != nil {
				return err
			}
		}
	}
	if err := s.expressions(p.pointer, m); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		pos := keywords[key]
		switch v := m[key].(type) {
		case map[string]any:
			if pos&self != 0 {
				s.push(p.pointer+"/"+key, v)
			}
			if pos&members != 0 {
				for _, name := range slices.Sorted(maps.Keys(v)) {
					s.push(p.pointer+"/"+key+"/"+token(name), v[name])
				}
			}
		case []any:
			if pos&items != 0 {
				for i, e := range v {
					s.push(p.pointer+"/"+key+"/"+strconv.Itoa(i), e)
				}
			}
		}
	}
	return nil
}

// expressions looks at the patterns of a schema.
func (s *scan) expressions(pointer string, m map[string]any) error {
	if p, ok := m["pattern"].(string); ok {
		translated, _, err := translate(p)
		if err != nil {
			return err
		}
		if _, err := PatternSize(p); err != nil {
			// The library must be given the translation. What is a schema here may
			// be a value elsewhere, which stays as it is.
			for _, part := range strings.Split(pointer, "/") {
				if part == "const" || part == "enum" {
					return err
				}
			}
			s.rewrites = append(s.rewrites, rewrite{pointer, m, p, translated})
		}
	}
	ps, _ := m["patternProperties"].(map[string]any)
	for _, p := range slices.Sorted(maps.Keys(ps)) {
		if _, _, err := translate(p); err != nil {
			return err
		}
		// The names of members stay: references can go through them.
		if _, err := PatternSize(p); err != nil {
			return err
		}
	}
	return nil
}

// identify looks at the keywords that say what a schema is.
func (s *scan) identify(pointer string, m map[string]any) error {
	if v, ok := m["$schema"]; ok {
		draft := draftOf(v)
		switch {
		case draft == "":
			return fmt.Errorf("$schema is %s, none of the drafts 4, 6, 7, 2019-09 and 2020-12", clip(show(v), 120))
		case pointer == "":
			s.draft = draft
		case draft != s.draft:
			return errors.New("$schema names another draft than the document's")
		}
	}
	if pointer == "" && s.draft == "" {
		s.draft = DefaultDraft
	}
	if _, ok := m["$vocabulary"]; ok {
		return errors.New("$vocabulary is for meta-schemas, which are not supported")
	}
	for _, key := range []string{"$id", "id"} {
		id, ok := m[key].(string)
		if !ok {
			continue
		}
		if !strings.HasPrefix(id, "#") {
			s.named = true
		}
	}
	if _, ok := m["$dynamicAnchor"].(string); ok {
		s.anchors = append(s.anchors, pointer)
	}
	return nil
}

// follow looks at where a reference leads. Where the document has identifiers,
// the library resolves, and loads nothing.
func (s *scan) follow(ref string) error {
	fragment, local := strings.CutPrefix(ref, "#")
	if !local {
		s.external = append(s.external, ref)
		return nil
	}
	if fragment == "" || fragment == "/" || fragment[0] != '/' {
		return nil
	}
	v, pointer, ok := resolve(s.root, fragment)
	if !ok {
		if s.named {
			return nil
		}
		return fmt.Errorf("the reference %s leads nowhere", clip(quote(ref), 200))
	}
	s.push(pointer, v)
	return nil
}

// resolve follows a JSON pointer in URI fragment form, and gives the value and
// the pointer in plain form.
func resolve(v any, fragment string) (any, string, bool) {
	var plain strings.Builder
	for _, part := range strings.Split(fragment, "/")[1:] {
		part, err := unescapeFragment(part)
		if err != nil {
			return nil, "", false
		}
		switch at := v.(type) {
		case map[string]any:
			next, ok := at[untoken(part)]
			if !ok {
				return nil, "", false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(at) {
				return nil, "", false
			}
			v = at[i]
		default:
			return nil, "", false
		}
		plain.WriteByte('/')
		plain.WriteString(part)
	}
	return v, plain.String(), true
}
