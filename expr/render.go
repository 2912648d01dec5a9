package expr

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/schemas"
)

// maxRender is the length of an expression in a message, in bytes.
const maxRender = 80

// render writes an expression for a message: shortened, but such that what is
// short can be copied from it.
func render(e ast.Expr) string {
	r := renderer{left: 40}
	return excerpt.Clip(r.text(e, 0), maxRender)
}

type renderer struct{ left int }

// binary are operators with their precedence.
var binary = map[string]struct {
	sign  string
	level int
}{
	operators.LogicalOr: {"||", 1}, operators.LogicalAnd: {"&&", 2},
	operators.Less: {"<", 3}, operators.LessEquals: {"<=", 3}, operators.Greater: {">", 3}, operators.GreaterEquals: {">=", 3},
	operators.Equals: {"==", 3}, operators.NotEquals: {"!=", 3}, operators.In: {"in", 3},
	operators.Add: {"+", 4}, operators.Subtract: {"-", 4},
	operators.Multiply: {"*", 5}, operators.Divide: {"/", 5}, operators.Modulo: {"%", 5},
}

func (r *renderer) text(e ast.Expr, level int) string {
	if r.left--; r.left < 0 {
		return "…"
	}
	switch e.Kind() {
	case ast.LiteralKind:
		switch v := e.AsLiteral().(type) {
		case types.String:
			return strconv.Quote(excerpt.Clip(string(v), 40))
		case types.Null:
			return "null"
		default:
			return fmt.Sprint(v.Value())
		}
	case ast.IdentKind:
		return strings.TrimPrefix(e.AsIdent(), ".")
	case ast.SelectKind:
		s := e.AsSelect()
		text := r.text(s.Operand(), 7)
		if selectable(s.FieldName()) {
			text += "." + s.FieldName()
		} else {
			text += "[" + strconv.Quote(s.FieldName()) + "]"
		}
		if s.IsTestOnly() {
			return "has(" + text + ")"
		}
		return text
	case ast.CallKind:
		return r.call(e.AsCall(), level)
	case ast.ListKind:
		return "[…]"
	case ast.MapKind:
		return "{…}"
	case ast.ComprehensionKind:
		l, ok := macroOf(e.AsComprehension())
		if !ok || l.macro == macroBind {
			return "…"
		}
		return r.text(l.over, 7) + "." + l.macro + "(" + l.name + ", …)"
	}
	return "…"
}

func (r *renderer) call(c ast.CallExpr, level int) string {
	args := c.Args()
	if op, ok := binary[c.FunctionName()]; ok && len(args) == 2 {
		text := r.text(args[0], op.level) + " " + op.sign + " " + r.text(args[1], op.level+1)
		if op.level < level {
			return "(" + text + ")"
		}
		return text
	}
	switch c.FunctionName() {
	case functionList:
		return r.text(args[0], level)
	case operators.LogicalNot:
		return "!" + r.text(args[0], 6)
	case operators.Negate:
		return "-" + r.text(args[0], 6)
	case operators.Conditional:
		text := r.text(args[0], 1) + " ? " + r.text(args[1], 1) + " : " + r.text(args[2], 0)
		if level > 0 {
			return "(" + text + ")"
		}
		return text
	case operators.Index:
		return r.text(args[0], 7) + "[" + r.text(args[1], 0) + "]"
	case operators.OptIndex:
		return r.text(args[0], 7) + "[?" + r.text(args[1], 0) + "]"
	case operators.OptSelect:
		if args[1].Kind() == ast.LiteralKind {
			if key, ok := args[1].AsLiteral().(types.String); ok {
				return r.text(args[0], 7) + ".?" + string(key)
			}
		}
	}
	texts := make([]string, len(args))
	for i, a := range args {
		texts[i] = r.text(a, 0)
	}
	text := c.FunctionName() + "(" + strings.Join(texts, ", ") + ")"
	if c.IsMemberFunction() {
		text = r.text(c.Target(), 7) + "." + text
	}
	return text
}

// keysOf lists names of keys that s speaks of.
func keysOf(s *schemas.Schema) []string {
	left := fuel
	var keys []string
	var walk func(s *schemas.Schema)
	walk = func(s *schemas.Schema) {
		if left--; left < 0 {
			return
		}
		c := s.Compiled()
		for key := range c.Properties {
			keys = append(keys, key)
		}
		if c.Ref != nil {
			walk(schemas.Wrap(c.Ref))
		}
		for _, a := range slices.Concat(c.AllOf, c.AnyOf, c.OneOf) {
			walk(schemas.Wrap(a))
		}
	}
	walk(s)
	slices.Sort(keys)
	return slices.Compact(keys)
}

// nearest returns the name most similar to the one written, or "".
func nearest(name string, of []string) string {
	best, least := "", max(1, len(name)/3)+1
	for _, other := range of {
		if len(other) > 64 || len(name) > 64 {
			continue
		}
		if d := distance(name, other); d < least {
			best, least = other, d
		}
	}
	return best
}

// distance counts the letters to insert, delete or change (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for i := range row {
		row[i] = i
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for k := range len(b) {
			change := diagonal
			if a[i] != b[k] {
				change++
			}
			diagonal = row[k+1]
			row[k+1] = min(change, row[k]+1, row[k+1]+1)
		}
	}
	return row[len(b)]
}
