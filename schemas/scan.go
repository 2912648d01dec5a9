package schemas

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"chimera.ai/engine/internal/excerpt"
)

// position says where in a keyword's value subschemas are.
type position int

const (
	self position = 1 << iota
	items
	members
)

// keywords lists the keywords that hold subschemas in any draft. Examining a place that is
// not a schema in some draft does no harm.
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
	// pointers is the length of the places of all subschemas.
	pointers int
	// external holds the references that are not pointers into the document.
	external []string
	// named is set if the document or a part of it has an identifier, so that references
	// resolve against more than one base.
	named bool
	// anchors are the places of $dynamicAnchor.
	anchors []string
	// dynamic is set if there is a $dynamicRef or $recursiveRef.
	dynamic bool
	// patterns is the size of all patterns.
	patterns int
	// places are the places of anchors, by resource and name.
	places map[[2]string]string
	// aliases holds the pointers that are not spelled as the library spells them, and
	// extra is the number of values that they lead to: the library compiles a part once
	// for each spelling of its place.
	aliases map[string]bool
	extra   int
	// rewrites holds the patterns that the library does not understand.
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
	// resource is the place of the schema around whose identifier anchors are
	// relative to.
	resource string
}

// scanSchema examines all subschemas of a decoded schema that keywords or pointers lead to,
// in a deterministic order.
func scanSchema(root any) (*scan, error) {
	s := &scan{root: root, seen: map[string]bool{}, places: map[[2]string]string{}, aliases: map[string]bool{}}
	if err := s.bound(root); err != nil {
		return nil, err
	}
	if err := s.push("", root, ""); err != nil {
		return nil, err
	}
	for len(s.queue) > 0 {
		p := s.queue[0]
		s.queue = s.queue[1:]
		if err := s.visit(p); err != nil {
			return nil, &PlaceError{Pointer: p.pointer, Err: err}
		}
		if len(s.seen)+s.extra > MaxSubschemas {
			return nil, at(p.pointer, tooLarge("more than %d subschemas", MaxSubschemas))
		}
	}
	if len(s.external) > 0 && !s.named {
		return nil, externalError(s.external)
	}
	return s, nil
}

func externalError(refs []string) error {
	return &ReferenceError{Reference: slices.Min(refs), Outside: true}
}

// at is an error about a bound with the place where it is exceeded, unless that is the whole schema.
func at(pointer string, err error) error {
	if pointer == "" {
		return err
	}
	return &PlaceError{Pointer: pointer, Err: err}
}

// bound checks the size of whatever could be compiled as a pattern, wherever it is:
// references can turn any part of the document into a schema. The place of an error is
// put together on the way back only, since keys may be long and values many.
func (s *scan) bound(v any) error {
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			if err := s.bound(e); err != nil {
				return under(strconv.Itoa(i), err)
			}
		}
	case map[string]any:
		if p, ok := v["pattern"].(string); ok {
			if err := s.count(p); err != nil {
				return err
			}
		}
		if ps, ok := v["patternProperties"].(map[string]any); ok {
			for _, p := range slices.Sorted(maps.Keys(ps)) {
				if err := s.count(p); err != nil {
					return err
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := s.bound(v[name]); err != nil {
				return under(token(name), err)
			}
		}
	}
	return nil
}

// under puts the token of the value that an error is about before its place.
func under(token string, err error) error {
	if p, ok := err.(*PlaceError); ok {
		p.Pointer = "/" + token + p.Pointer
		return p
	}
	return &PlaceError{Pointer: "/" + token, Err: err}
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

// maxPointers bounds the length of the places of all subschemas, in bytes: the library keeps
// each, and a long key is in the places of all that it holds.
const maxPointers = MaxBytes

func (s *scan) push(pointer string, schema any, resource string) error {
	if s.seen[pointer] {
		return nil
	}
	if s.pointers += len(pointer); s.pointers > maxPointers {
		return tooLarge("subschemas whose places have more than %d bytes together", maxPointers)
	}
	s.seen[pointer] = true
	s.queue = append(s.queue, place{pointer, schema, resource})
	return nil
}

func (s *scan) visit(p place) error {
	m, ok := p.schema.(map[string]any)
	if !ok {
		if _, ok := p.schema.(bool); ok || p.pointer != "" {
			return nil
		}
		return errors.New("a schema is an object or a boolean")
	}
	if err := s.identify(&p, m); err != nil {
		return err
	}
	for _, key := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		if ref, ok := m[key].(string); ok {
			if key == "$ref" && draftOf(ref) != "" {
				continue // a meta-schema, which is built in
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
				if err := s.push(p.pointer+"/"+key, v, p.resource); err != nil {
					return err
				}
			}
			if pos&members != 0 {
				for _, name := range slices.Sorted(maps.Keys(v)) {
					if err := s.push(p.pointer+"/"+key+"/"+token(name), v[name], p.resource); err != nil {
						return err
					}
				}
			}
		case []any:
			if pos&items != 0 {
				for i, e := range v {
					if err := s.push(p.pointer+"/"+key+"/"+strconv.Itoa(i), e, p.resource); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// expressions examines the patterns of a schema.
func (s *scan) expressions(pointer string, m map[string]any) error {
	if p, ok := m["pattern"].(string); ok {
		translated, _, err := translate(p)
		if err != nil {
			return err
		}
		if _, err := PatternSize(p); err != nil {
			// The library must get the translation. A schema here may be a value
			// elsewhere, which stays as it is.
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

// identify examines the keywords that identify a schema.
func (s *scan) identify(p *place, m map[string]any) error {
	pointer := p.pointer
	if v, ok := m["$schema"]; ok {
		draft := draftOf(v)
		switch {
		case draft == "":
			return fmt.Errorf("$schema is %s, none of the drafts 4, 6, 7, 2019-09 and 2020-12", excerpt.Clip(show(v), 120))
		case pointer == "":
			s.draft = draft
		case draft != s.draft && !agree(m, draft, s.draft):
			return errors.New("$schema names another draft than the document's, and this part does not mean the same in both")
		}
	}
	if pointer == "" && s.draft == "" {
		s.draft = DefaultDraft
	}
	if _, ok := m["$vocabulary"]; ok && age(s.draft) >= draft2019 {
		return errors.New("$vocabulary is for meta-schemas, which are not supported")
	}
	if err := s.names(p, m); err != nil {
		return err
	}
	if _, ok := m["$dynamicAnchor"].(string); ok {
		s.anchors = append(s.anchors, pointer)
	}
	return nil
}

// names examines the names that a schema gives itself.
func (s *scan) names(p *place, m map[string]any) error {
	for _, key := range []string{"$id", "id"} {
		id, ok := m[key].(string)
		if !ok {
			continue
		}
		name, anchor := strings.CutPrefix(id, "#")
		s.named = s.named || !anchor
		if !s.identifies(key, m) {
			continue
		}
		if !anchor {
			p.resource = p.pointer
		} else if err := s.anchor(*p, name); err != nil {
			return err
		}
	}
	for _, key := range []string{"$anchor", "$dynamicAnchor"} {
		if name, ok := m[key].(string); ok {
			if err := s.anchor(*p, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// identifies reports whether a keyword is an identifier in the draft of the
// document. Up to draft 7 it is not one beside $ref.
func (s *scan) identifies(key string, m map[string]any) bool {
	_, ref := m["$ref"]
	switch s.draft {
	case drafts[0], drafts[1]:
		return key == "$id"
	case drafts[4]:
		return key == "id" && !ref
	}
	return key == "$id" && !ref
}

// anchor records an anchor. If several have the same name, the library takes any of them,
// which is an error here.
func (s *scan) anchor(p place, name string) error {
	key := [2]string{p.resource, name}
	if other, ok := s.places[key]; ok && other != p.pointer {
		return fmt.Errorf("the anchor %s stands twice in one resource", excerpt.Quote(name, 80))
	}
	s.places[key] = p.pointer
	return nil
}

// alias counts what the library compiles once more for a fragment, if that is not spelled
// as the library spells it.
func (s *scan) alias(f string, v any) {
	plain, err := unescapeFragment(f)
	if err != nil || f == fragment(plain) || s.aliases[f] {
		return
	}
	s.aliases[f] = true
	s.extra += nodes(v, MaxSubschemas)
}

// nodes counts the values in v up to a limit.
func nodes(v any, most int) int {
	n := 1
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if n > most {
				break
			}
			n += nodes(e, most-n)
		}
	case map[string]any:
		for _, e := range v {
			if n > most {
				break
			}
			n += nodes(e, most-n)
		}
	}
	return n
}

// follow examines the target of a reference. If the document has identifiers, the library
// resolves it, and loads nothing.
func (s *scan) follow(ref string) error {
	fragment, local := strings.CutPrefix(ref, "#")
	if !local {
		s.external = append(s.external, ref)
		if _, fragment, ok := strings.Cut(ref, "#"); ok {
			s.alias(fragment, s.root)
		}
		return nil
	}
	if fragment == "" || fragment == "/" || fragment[0] != '/' {
		return nil
	}
	v, pointer, resource, ok := s.resolve(fragment)
	if !ok {
		if s.named {
			s.alias(fragment, s.root)
			return nil
		}
		return &ReferenceError{Reference: ref}
	}
	if s.named {
		// It may be relative to another part of the document.
		s.alias(fragment, s.root)
	} else {
		s.alias(fragment, v)
	}
	return s.push(pointer, v, resource)
}

// resolve follows a JSON pointer in URI fragment form, and returns the value, the
// pointer in plain form, and the resource that the value is in.
func (s *scan) resolve(fragment string) (v any, pointer, resource string, ok bool) {
	v = s.root
	for _, part := range strings.Split(fragment, "/")[1:] {
		part, err := unescapeFragment(part)
		if err != nil {
			return nil, "", "", false
		}
		switch at := v.(type) {
		case map[string]any:
			for _, key := range []string{"$id", "id"} {
				if id, ok := at[key].(string); ok && !strings.HasPrefix(id, "#") && s.identifies(key, at) {
					resource = pointer
				}
			}
			next, ok := at[Unescape(part)]
			if !ok {
				return nil, "", "", false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(at) {
				return nil, "", "", false
			}
			v = at[i]
		default:
			return nil, "", "", false
		}
		pointer += "/" + part
	}
	return v, pointer, resource, true
}
