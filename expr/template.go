package expr

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/common/types/ref"
)

// Template is a compiled JSON template. It is safe for concurrent use.
type Template struct {
	root  part
	reads map[string]bool
	// constant is the template's value where it holds no expression.
	constant bool
}

// TemplateError is what is wrong with one string of a template.
type TemplateError struct {
	// Path holds map keys (string) and list indexes (int) that lead to the string.
	Path []any
	// Offset counts bytes in that string.
	Offset  int
	Message string
}

func (e TemplateError) Error() string { return e.Message }

// part is a piece of a template: fixed, an object, a list, one expression, or
// text with expressions in it.
type part interface {
	eval(vars Vars, room *int) (any, error)
}

type (
	fixed  struct{ value any }
	fields []field
	items  []part
	leaf   struct{ c *compiled }
	text   []piece
)

type field struct {
	key  string
	part part
}

// piece is literal text followed by the value of an expression, if any.
type piece struct {
	literal string
	c       *compiled
}

// CompileTemplate compiles decoded JSON whose strings may hold ${…}. A string
// that is one ${…} keeps the type of its value; in any other, values are put in
// as text. "$${" stands for "${". It reports every string that does not compile.
func CompileTemplate(v any, scope Scope) (*Template, []TemplateError) {
	t := &Template{reads: map[string]bool{}}
	b := builder{scope: scope, reads: t.reads}
	t.root = b.build(v, nil)
	if len(b.errs) > 0 {
		return nil, b.errs
	}
	_, t.constant = t.root.(fixed)
	return t, nil
}

// Reads reports whether any expression of the template reads that name.
func (t *Template) Reads(name string) bool { return t.reads[name] }

// Constant reports whether the template holds no expression.
func (t *Template) Constant() bool { return t.constant }

// Eval gives the template's value: decoded JSON with json.Number.
func (t *Template) Eval(vars Vars) (any, error) {
	room := MaxResult
	return t.root.eval(vars, &room)
}

type builder struct {
	scope Scope
	reads map[string]bool
	errs  []TemplateError
}

func (b *builder) build(v any, path []any) part {
	switch v := v.(type) {
	case string:
		return b.text(v, path)
	case []any:
		list := make(items, 0, len(v))
		for i, e := range v {
			list = append(list, b.build(e, append(path, i)))
		}
		if !slices.ContainsFunc(list, open) {
			return fixed{plain(list)}
		}
		return list
	case map[string]any:
		object := make(fields, 0, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			object = append(object, field{k, b.build(v[k], append(path, k))})
		}
		if !slices.ContainsFunc(object, func(f field) bool { return open(f.part) }) {
			return fixed{plainObject(object)}
		}
		return object
	}
	return fixed{v}
}

func open(p part) bool {
	_, ok := p.(fixed)
	return !ok
}

func plain(list items) any {
	out := make([]any, len(list))
	for i, p := range list {
		out[i] = p.(fixed).value
	}
	return out
}

func plainObject(object fields) any {
	out := make(map[string]any, len(object))
	for _, f := range object {
		out[f.key] = f.part.(fixed).value
	}
	return out
}

func (b *builder) fail(path []any, offset int, message string) part {
	b.errs = append(b.errs, TemplateError{Path: slices.Clone(path), Offset: offset, Message: message})
	return fixed{}
}

// text compiles one string.
func (b *builder) text(s string, path []any) part {
	var parts text
	var literal strings.Builder
	for at := 0; at < len(s); {
		switch {
		case strings.HasPrefix(s[at:], "$${"):
			literal.WriteString("${")
			at += 3
		case strings.HasPrefix(s[at:], "${"):
			end := closing(s, at+2)
			if end < 0 {
				return b.fail(path, at, "this ${ has no closing }; write $${ for the text ${")
			}
			c, err := compile(s[at+2:end], b.scope)
			if err != nil {
				e := err.(*Error)
				return b.fail(path, at+2+e.Offset, e.Message)
			}
			for _, name := range b.scope.Names() {
				b.reads[name] = b.reads[name] || c.reads[name]
			}
			parts = append(parts, piece{literal.String(), c})
			literal.Reset()
			at = end + 1
		default:
			literal.WriteByte(s[at])
			at++
		}
	}
	switch {
	case len(parts) == 0:
		return fixed{literal.String()}
	case len(parts) == 1 && parts[0].literal == "" && literal.Len() == 0:
		return leaf{parts[0].c}
	}
	return append(parts, piece{literal: literal.String()})
}

// closing finds the brace that ends an expression: braces nest, and those in
// CEL's strings and comments do not count.
func closing(s string, at int) int {
	for depth := 0; at < len(s); at++ {
		switch s[at] {
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return at
			}
			depth--
		case '"', '\'':
			at = quoted(s, at)
		case '/':
			if strings.HasPrefix(s[at:], "//") {
				line := strings.IndexByte(s[at:], '\n')
				if line < 0 {
					return -1
				}
				at += line
			}
		}
		if at < 0 {
			return -1
		}
	}
	return -1
}

// quoted finds the last byte of the CEL string that begins at the quote s[at].
func quoted(s string, at int) int {
	raw := at > 0 && (s[at-1] == 'r' || s[at-1] == 'R') && !word(s, at-2) ||
		at > 1 && (s[at-1] == 'b' || s[at-1] == 'B') && (s[at-2] == 'r' || s[at-2] == 'R') && !word(s, at-3) ||
		at > 1 && (s[at-1] == 'r' || s[at-1] == 'R') && (s[at-2] == 'b' || s[at-2] == 'B') && !word(s, at-3)
	mark := s[at : at+1]
	if strings.HasPrefix(s[at:], strings.Repeat(mark, 3)) {
		mark = strings.Repeat(mark, 3)
	}
	for i := at + len(mark); i < len(s); i++ {
		if s[i] == '\\' && !raw {
			i++
			continue
		}
		if strings.HasPrefix(s[i:], mark) {
			return i + len(mark) - 1
		}
	}
	return -1
}

// word reports whether s[i] continues an identifier.
func word(s string, i int) bool {
	return i >= 0 && (s[i] == '_' || s[i] >= '0' && s[i] <= '9' || s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z')
}

func (f fixed) eval(_ Vars, room *int) (any, error) { return f.value, spend(f.value, room) }

func (l leaf) eval(vars Vars, room *int) (any, error) {
	v, err := l.c.eval(vars)
	if err != nil {
		return nil, err
	}
	return result(v, room, 0)
}

func (l items) eval(vars Vars, room *int) (any, error) {
	out := make([]any, 0, len(l))
	for _, p := range l {
		v, err := p.eval(vars, room)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (f fields) eval(vars Vars, room *int) (any, error) {
	out := make(map[string]any, len(f))
	for _, e := range f {
		v, err := e.part.eval(vars, room)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.key, err)
		}
		out[e.key] = v
	}
	return out, nil
}

func (t text) eval(vars Vars, room *int) (any, error) {
	var b strings.Builder
	for _, p := range t {
		b.WriteString(p.literal)
		if p.c == nil {
			continue
		}
		v, err := p.c.eval(vars)
		if err != nil {
			return nil, err
		}
		if err := write(&b, v); err != nil {
			return nil, err
		}
		if b.Len() > *room {
			return nil, errResult
		}
	}
	*room -= b.Len()
	return b.String(), nil
}

// write puts a value into text: strings as they are, numbers and booleans as
// JSON writes them. What has no obvious text is refused.
func write(b *strings.Builder, v ref.Val) error {
	room := MaxResult
	r, err := result(v, &room, 0)
	if err != nil {
		return err
	}
	switch r := r.(type) {
	case string:
		b.WriteString(r)
	case json.Number:
		b.WriteString(r.String())
	case bool:
		fmt.Fprintf(b, "%t", r)
	default:
		return fmt.Errorf("a value of type %s cannot stand inside text", v.Type().TypeName())
	}
	return nil
}
