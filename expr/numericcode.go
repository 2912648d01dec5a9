package expr

import (
	"math"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"chimera.ai/engine/internal/elementary"
)

// The parts of a calculation, by what they give. An error is made when the calculation is compiled, so
// that evaluation does not allocate.
type (
	arithmeticOf func(numbers []float64, categories []int) (float64, *Error)
	truthOf      func(numbers []float64, categories []int) (bool, *Error)
)

// outcome compiles the whole calculation.
func (c *numericCompiler) outcome() arithmeticOf {
	e := c.ast.Expr()
	switch t := c.ast.GetType(e.ID()); {
	case len(c.result) > 0 && t.IsExactType(types.StringType):
		return c.choice(e)
	case len(c.result) > 0:
		c.fail(e, "the result is one of %q; this is of type %s", c.result, cel.FormatCELType(t))
	case !t.IsExactType(types.DoubleType):
		c.fail(e, "the result is a number; this is of type %s", cel.FormatCELType(t))
	default:
		return c.number(e)
	}
	return nil
}

// choice compiles what gives a category of the result, as its index.
func (c *numericCompiler) choice(e ast.Expr) arithmeticOf {
	switch e.Kind() {
	case ast.LiteralKind:
		v := float64(c.category(e, "the result", c.result))
		return func([]float64, []int) (float64, *Error) { return v, nil }
	case ast.IdentKind:
		at := slices.Index(c.choices, e.AsIdent())
		var of []float64
		for _, category := range c.categories[e.AsIdent()] {
			i := slices.Index(c.result, category)
			if i < 0 {
				c.fail(e, "%s may be %q, which is no category of the result", e.AsIdent(), category)
			}
			of = append(of, float64(i))
		}
		return func(_ []float64, categories []int) (float64, *Error) { return of[categories[at]], nil }
	case ast.CallKind:
		if args := e.AsCall().Args(); e.AsCall().FunctionName() == operators.Conditional {
			return conditional(c.truth(args[0]), c.choice(args[1]), c.choice(args[2]))
		}
	}
	c.fail(e, "a category is written as text, as a name, or by ?:")
	return nil
}

// category gives the index of a text among categories.
func (c *numericCompiler) category(e ast.Expr, name string, of []string) int {
	text, ok := e.AsLiteral().(types.String)
	if !ok {
		c.fail(e, "a category is text")
		return 0
	}
	i := slices.Index(of, string(text))
	if i < 0 {
		c.fail(e, "%q is no category of %s%s", string(text), name, meant(string(text), of))
	}
	return i
}

func conditional(test truthOf, then, otherwise arithmeticOf) arithmeticOf {
	return func(n []float64, c []int) (float64, *Error) {
		yes, bad := test(n, c)
		switch {
		case bad != nil:
			return 0, bad
		case yes:
			return then(n, c)
		}
		return otherwise(n, c)
	}
}

// number compiles what gives a number.
func (c *numericCompiler) number(e ast.Expr) arithmeticOf {
	switch e.Kind() {
	case ast.LiteralKind:
		d, _ := e.AsLiteral().(types.Double)
		v := float64(d)
		return func([]float64, []int) (float64, *Error) { return v, nil }
	case ast.IdentKind:
		at := slices.Index(c.numbers, e.AsIdent())
		return func(n []float64, _ []int) (float64, *Error) { return n[at], nil }
	case ast.CallKind:
		return c.operation(e)
	}
	c.fail(e, "a calculation has no fields, maps and loops")
	return nil
}

// operation compiles an operator or function that gives a number.
func (c *numericCompiler) operation(e ast.Expr) arithmeticOf {
	call := e.AsCall()
	name, args := call.FunctionName(), call.Args()
	if name == operators.Conditional {
		return conditional(c.truth(args[0]), c.number(args[1]), c.number(args[2]))
	}
	a := c.number(args[0])
	if f := ones[name]; f != nil {
		bad := errorf(place(c.ast, c.src, e.ID()), "%s gives no finite number", signOf(name))
		return func(n []float64, cs []int) (float64, *Error) {
			x, err := a(n, cs)
			if err != nil {
				return 0, err
			}
			if x = f(x); !isFinite(x) {
				return 0, bad
			}
			return x, nil
		}
	}
	f := twos[name]
	if f == nil || len(args) != 2 {
		c.fail(e, "a calculation has no function %s", name)
		return nil
	}
	b := c.number(args[1])
	bad, zero := errorf(place(c.ast, c.src, e.ID()), "%s gives no finite number", signOf(name)), (*Error)(nil)
	if name == operators.Divide {
		zero = errorf(bad.Offset, "division by zero")
	}
	return func(n []float64, cs []int) (float64, *Error) {
		x, err := a(n, cs)
		if err != nil {
			return 0, err
		}
		y, err := b(n, cs)
		switch {
		case err != nil:
			return 0, err
		case zero != nil && y == 0:
			return 0, zero
		}
		if x = f(x, y); !isFinite(x) {
			return 0, bad
		}
		return x, nil
	}
}

// isFinite reports whether a number is neither infinite nor none.
func isFinite(x float64) bool { return x-x == 0 }

func signOf(name string) string {
	if sign := signs[name]; sign != "" {
		return "the operator " + sign
	}
	return name + "(…)"
}

// ones and twos are the functions of one and of two numbers. A result that is not finite is an error.
var (
	ones = map[string]func(x float64) float64{
		operators.Negate: func(x float64) float64 { return -x },
		"abs":            math.Abs,
		"floor":          math.Floor,
		"sqrt":           math.Sqrt,
		"exp":            elementary.Exp,
		"log":            elementary.Log,
	}
	twos = map[string]func(x, y float64) float64{
		operators.Add:      func(x, y float64) float64 { return x + y },
		operators.Subtract: func(x, y float64) float64 { return x - y },
		operators.Multiply: func(x, y float64) float64 { return float64(x * y) },
		operators.Divide:   func(x, y float64) float64 { return x / y },
		"min": func(x, y float64) float64 {
			if y < x {
				return y
			}
			return x
		},
		"max": func(x, y float64) float64 {
			if y > x {
				return y
			}
			return x
		},
	}
)
