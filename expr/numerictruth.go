package expr

import (
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// truth compiles a condition.
func (c *numericCompiler) truth(e ast.Expr) truthOf {
	switch e.Kind() {
	case ast.LiteralKind:
		yes := e.AsLiteral() == types.True
		return func([]float64, []int) (bool, *Error) { return yes, nil }
	case ast.CallKind:
	default:
		c.fail(e, "a condition must be true or false")
		return nil
	}
	name, args := e.AsCall().FunctionName(), e.AsCall().Args()
	switch name {
	case operators.LogicalNot:
		a := c.truth(args[0])
		return func(n []float64, cs []int) (bool, *Error) {
			yes, bad := a(n, cs)
			return !yes, bad
		}
	case operators.LogicalAnd, operators.LogicalOr:
		a, b, and := c.truth(args[0]), c.truth(args[1]), name == operators.LogicalAnd
		return func(n []float64, cs []int) (bool, *Error) {
			if yes, bad := a(n, cs); bad != nil || yes != and {
				return yes, bad
			}
			return b(n, cs)
		}
	case operators.Conditional:
		test, then, otherwise := c.truth(args[0]), c.truth(args[1]), c.truth(args[2])
		return func(n []float64, cs []int) (bool, *Error) {
			yes, bad := test(n, cs)
			switch {
			case bad != nil:
				return false, bad
			case yes:
				return then(n, cs)
			}
			return otherwise(n, cs)
		}
	case operators.In:
		return c.among(args[0], args[1])
	case operators.Equals, operators.NotEquals:
		equal := name == operators.Equals
		switch t := c.ast.GetType(args[0].ID()); {
		case t.IsExactType(types.StringType):
			return c.same(e, args[0], args[1], equal)
		case t.IsExactType(types.BoolType):
			a, b := c.truth(args[0]), c.truth(args[1])
			return func(n []float64, cs []int) (bool, *Error) {
				x, bad := a(n, cs)
				if bad != nil {
					return false, bad
				}
				y, bad := b(n, cs)
				return x == y == equal, bad
			}
		case !t.IsExactType(types.DoubleType):
			c.fail(e, "lists are not compared")
			return nil
		}
	}
	f := compares[name]
	if f == nil {
		c.fail(e, "a condition must be true or false")
		return nil
	}
	a, b := c.number(args[0]), c.number(args[1])
	return func(n []float64, cs []int) (bool, *Error) {
		x, bad := a(n, cs)
		if bad != nil {
			return false, bad
		}
		y, bad := b(n, cs)
		return f(x, y), bad
	}
}

var compares = map[string]func(x, y float64) bool{
	operators.Less:          func(x, y float64) bool { return x < y },
	operators.LessEquals:    func(x, y float64) bool { return x <= y },
	operators.Greater:       func(x, y float64) bool { return x > y },
	operators.GreaterEquals: func(x, y float64) bool { return x >= y },
	operators.Equals:        func(x, y float64) bool { return x == y },
	operators.NotEquals:     func(x, y float64) bool { return x != y },
}

// same compiles the comparison of two categories.
func (c *numericCompiler) same(e, left, right ast.Expr, equal bool) truthOf {
	if left.Kind() == ast.LiteralKind {
		left, right = right, left
	}
	if left.Kind() != ast.IdentKind || right.Kind() != ast.IdentKind && right.Kind() != ast.LiteralKind {
		c.fail(e, "compare the name of categories with text or with another such name")
		return nil
	}
	name := left.AsIdent()
	if right.Kind() == ast.LiteralKind {
		return c.oneOf(name, []int{c.category(right, name, c.categories[name])}, equal)
	}
	at, other := slices.Index(c.choices, name), slices.Index(c.choices, right.AsIdent())
	// The categories of one name are looked up among those of the other.
	var of []int
	for _, category := range c.categories[name] {
		of = append(of, slices.Index(c.categories[right.AsIdent()], category))
	}
	return func(_ []float64, categories []int) (bool, *Error) {
		return of[categories[at]] == categories[other] == equal, nil
	}
}

// among compiles "in" for the name of categories and a list of texts.
func (c *numericCompiler) among(left, right ast.Expr) truthOf {
	if left.Kind() != ast.IdentKind || right.Kind() != ast.ListKind {
		c.fail(left, "in stands between the name of categories and a list of texts")
		return nil
	}
	name := left.AsIdent()
	var of []int
	for _, item := range right.AsList().Elements() {
		if item.Kind() != ast.LiteralKind {
			c.fail(item, "in stands between the name of categories and a list of texts")
			return nil
		}
		of = append(of, c.category(item, name, c.categories[name]))
	}
	return c.oneOf(name, of, true)
}

// oneOf compiles the question whether a name has one of some categories.
func (c *numericCompiler) oneOf(name string, of []int, yes bool) truthOf {
	at := slices.Index(c.choices, name)
	is := make([]bool, len(c.categories[name]))
	for i := range is {
		is[i] = slices.Contains(of, i) == yes
	}
	return func(_ []float64, categories []int) (bool, *Error) { return is[categories[at]], nil }
}
