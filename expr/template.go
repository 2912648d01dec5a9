package expr

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"chimera.ai/engine/internal/excerpt"
)

// Template is a compiled JSON template. It does not change and is safe for
// concurrent use.
type Template struct {
	root  node
	reads []string
}

type nodeKind int

const (
	// constantNode is a part without expressions.
	constantNode nodeKind = iota
	// leafNode is a string that is exactly one expression.
	leafNode
	// textNode is a string with expressions in it.
	textNode
	listNode
	mapNode
)

// node is one part of a template.
type node struct {
	kind     nodeKind
	constant any
	// pieces of a leaf or text.
	pieces []piece
	// keys of a map, sorted; children has a node for each of them, or for each
	// item of a list.
	keys     []string
	children []node
	// path leads to this part; it is there for leaves and texts.
	path []any
	// source is the string of a leaf or text as it was written.
	source string
}

// piece is a part of a string: text, or an expression that starts at offset.
type piece struct {
	text   string
	code   *code
	offset int
}

// CompileTemplate compiles decoded JSON (as schemas.Decode yields it) whose
// strings may hold "${…}". It reports everything that it finds, in the order of
// sorted keys and of indexes. v is not kept.
func CompileTemplate(v any, scope Scope) (*Template, []TemplateError) {
	c := templateCompiler{scope: scope}
	root := c.node(v, nil)
	if len(c.bad) > 0 {
		return nil, c.bad
	}
	slices.Sort(c.reads)
	return &Template{root: root, reads: slices.Compact(c.reads)}, nil
}

// Reads reports whether any expression of the template reads that name.
func (t *Template) Reads(name string) bool { return slices.Contains(t.reads, name) }

// Constant reports whether the template holds no expression, so that its value
// is always the same.
func (t *Template) Constant() bool { return t.root.kind == constantNode }

// Eval gives decoded JSON. The value may share parts with the template and with
// vars, so it must not be changed. Its error is a [TemplateError].
func (t *Template) Eval(vars Vars) (any, error) {
	v, bad := t.root.eval(vars, newBudget(), 0)
	if bad != nil {
		return nil, *bad
	}
	return v, nil
}

type templateCompiler struct {
	scope Scope
	reads []string
	bad   []TemplateError
}

func (c *templateCompiler) fail(path []any, offset int, format string, args ...any) node {
	c.bad = append(c.bad, TemplateError{
		Path: slices.Clone(path), Offset: offset, Message: excerpt.Clip(fmt.Sprintf(format, args...), maxMessage),
	})
	return node{}
}

func (c *templateCompiler) node(v any, path []any) node {
	if len(path) > maxDepth {
		return c.fail(path, 0, "the template nests deeper than %d", maxDepth)
	}
	switch v := v.(type) {
	case nil, bool, json.Number:
		return node{constant: v}
	case string:
		return c.text(v, path)
	case []any:
		children := make([]node, len(v))
		for i, e := range v {
			children[i] = c.node(e, append(path, i))
		}
		return folded(node{kind: listNode, children: children})
	case map[string]any:
		n := node{kind: mapNode, keys: slices.Sorted(maps.Keys(v)), children: make([]node, len(v))}
		for i, key := range n.keys {
			if strings.Contains(key, "${") {
				c.fail(append(path, key), 0, "a key cannot hold an expression")
			}
			n.children[i] = c.node(v[key], append(path, key))
		}
		return folded(n)
	}
	return c.fail(path, 0, "a value of Go type %T is not decoded JSON", v)
}

// folded makes a constant of a list or map whose children are constants.
func folded(n node) node {
	for i := range n.children {
		if n.children[i].kind != constantNode {
			return n
		}
	}
	if n.kind == listNode {
		list := make([]any, len(n.children))
		for i := range n.children {
			list[i] = n.children[i].constant
		}
		return node{constant: list}
	}
	object := make(map[string]any, len(n.keys))
	for i, key := range n.keys {
		object[key] = n.children[i].constant
	}
	return node{constant: object}
}

// text compiles one string.
func (c *templateCompiler) text(s string, path []any) node {
	pieces, bad := scan(s)
	if bad != nil {
		return c.fail(path, bad.Offset, "%s", bad.Message)
	}
	if len(pieces) == 0 || len(pieces) == 1 && !pieces[0].expr {
		whole := ""
		if len(pieces) == 1 {
			whole = pieces[0].text
		}
		return node{constant: whole}
	}
	n := node{kind: textNode, path: slices.Clone(path), source: s}
	if len(pieces) == 1 {
		n.kind = leafNode
	}
	for _, p := range pieces {
		if !p.expr {
			n.pieces = append(n.pieces, piece{text: p.text})
			continue
		}
		code, bad := compile(p.text, c.scope)
		if bad == nil {
			bad = misfit(code, n.kind == leafNode)
		}
		if bad != nil {
			c.fail(path, p.offset+bad.Offset, "%s", bad.Message)
			last := &c.bad[len(c.bad)-1]
			last.Unknown, last.Call = bad.Unknown, bad.Call
			continue
		}
		c.reads = append(c.reads, code.reads...)
		n.pieces = append(n.pieces, piece{code: code, offset: p.offset})
	}
	return n
}

// misfit refuses expressions whose type is known to have no place in JSON, or in
// a string.
func misfit(c *code, alone bool) *Error {
	t := c.output()
	if t.Kind() == types.OpaqueKind && t.TypeName() == types.OptionalType.TypeName() {
		return errorf(0, "the result is an optional value; say what stands for a missing one with .orValue(…)")
	}
	switch t.Kind() {
	case types.BytesKind, types.DurationKind, types.TimestampKind:
		return errorf(0, "the result is of type %s, which JSON does not have; make it a string with string(…)", cel.FormatCELType(t))
	case types.TypeKind:
		return errorf(0, "the result is a type, which JSON does not have")
	case types.ListKind, types.MapKind, types.NullTypeKind:
		if !alone {
			return errorf(0, "only strings, numbers and booleans can stand inside a string; this is of type %s", cel.FormatCELType(t))
		}
	}
	return nil
}

func (n *node) eval(vars Vars, b *budget, depth int) (any, *TemplateError) {
	switch n.kind {
	case constantNode:
		if err := b.pass(n.constant, depth); err != nil {
			return nil, &TemplateError{Path: n.path, Message: err.Error()}
		}
		return n.constant, nil
	case leafNode:
		v, bad := n.pieces[0].code.eval(vars, b, depth)
		if bad != nil {
			return nil, n.fail(&n.pieces[0], bad)
		}
		return v, nil
	case textNode:
		return n.join(vars, b, depth)
	}
	if err := b.item(depth); err != nil {
		return nil, &TemplateError{Message: err.Error()}
	}
	if n.kind == listNode {
		list := make([]any, len(n.children))
		for i := range n.children {
			v, bad := n.children[i].eval(vars, b, depth+1)
			if bad != nil {
				return nil, bad
			}
			list[i] = v
		}
		return list, nil
	}
	object := make(map[string]any, len(n.keys))
	for i, key := range n.keys {
		v, bad := n.children[i].eval(vars, b, depth+1)
		if bad != nil {
			return nil, bad
		}
		object[key] = v
	}
	return object, nil
}

// join evaluates a string with expressions in it.
func (n *node) join(vars Vars, b *budget, depth int) (any, *TemplateError) {
	if err := b.item(depth); err != nil {
		return nil, &TemplateError{Path: n.path, Message: err.Error()}
	}
	var sb strings.Builder
	for i := range n.pieces {
		p := &n.pieces[i]
		if p.code == nil {
			if err := b.take(len(p.text)); err != nil {
				return nil, &TemplateError{Path: n.path, Message: err.Error()}
			}
			sb.WriteString(p.text)
			continue
		}
		v, bad := p.code.eval(vars, b, depth)
		if bad != nil {
			return nil, n.fail(p, bad)
		}
		switch v := v.(type) {
		case string:
			sb.WriteString(v)
		case bool:
			fmt.Fprint(&sb, v)
		case json.Number:
			sb.WriteString(v.String())
		default:
			return nil, n.fail(p, errorf(0, "only strings, numbers and booleans can stand inside a string; this is %s", kindOf(v)))
		}
	}
	return sb.String(), nil
}

func (n *node) fail(p *piece, bad *Error) *TemplateError {
	return &TemplateError{Path: n.path, Offset: p.offset + bad.Offset, Message: bad.Message}
}
