package expr

import (
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// OneOf returns the texts of which the value at path (a name, then keys) must be one
// for the predicate to be true: with any other text there it is false, and does not
// fail. ok is false if the predicate does not say so. The texts are sorted.
func (p *Program) OneOf(path ...string) (texts []string, ok bool) {
	if p.code.ast == nil {
		return nil, false
	}
	texts, ok = among(p.code.ast.Expr(), path)
	slices.Sort(texts)
	return slices.Compact(texts), ok
}

func among(e ast.Expr, path []string) ([]string, bool) {
	if e.Kind() != ast.CallKind || len(e.AsCall().Args()) != 2 {
		return nil, false
	}
	left, right := e.AsCall().Args()[0], e.AsCall().Args()[1]
	switch e.AsCall().FunctionName() {
	case operators.Equals:
		if !selects(left, path) {
			left, right = right, left
		}
		text, ok := literalText(right)
		return []string{text}, ok && selects(left, path)
	case operators.In:
		if right.Kind() != ast.ListKind || !selects(left, path) {
			return nil, false
		}
		var all []string
		for _, item := range right.AsList().Elements() {
			text, ok := literalText(item)
			if !ok {
				return nil, false
			}
			all = append(all, text)
		}
		return all, true
	case operators.LogicalAnd:
		// One side that is false makes the whole false, even if the other fails.
		a, okA := among(left, path)
		b, okB := among(right, path)
		if okA && okB {
			a = slices.DeleteFunc(a, func(s string) bool { return !slices.Contains(b, s) })
		} else if okB {
			a = b
		}
		return a, okA || okB
	case operators.LogicalOr:
		a, okA := among(left, path)
		b, okB := among(right, path)
		return append(a, b...), okA && okB
	}
	return nil, false
}

// selects reports whether e is the name and the keys of path.
func selects(e ast.Expr, path []string) bool {
	for _, key := range slices.Backward(path[1:]) {
		if e.Kind() != ast.SelectKind || e.AsSelect().IsTestOnly() || e.AsSelect().FieldName() != key {
			return false
		}
		e = e.AsSelect().Operand()
	}
	return e.Kind() == ast.IdentKind && e.AsIdent() == path[0]
}

func literalText(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok := e.AsLiteral().(types.String)
	return string(text), ok
}
