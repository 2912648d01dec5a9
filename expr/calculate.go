package expr

import (
	"math"

	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// Arithmetic is cel-go's, except for numbers that it cannot hold: a whole number
// beyond 64 bits is an error, and so is a double that is infinite or not a number,
// where it occurs.

func subtract(m meter, a, b ref.Val) ref.Val {
	return m.calculate(operators.Subtract, a, b, func(a, b ref.Val) ref.Val {
		if a, ok := a.(traits.Subtractor); ok {
			return a.Subtract(b)
		}
		return nil
	})
}

func multiply(m meter, a, b ref.Val) ref.Val {
	return m.calculate(operators.Multiply, a, b, func(a, b ref.Val) ref.Val {
		if a, ok := a.(traits.Multiplier); ok {
			return a.Multiply(b)
		}
		return nil
	})
}

func divide(m meter, a, b ref.Val) ref.Val {
	return m.calculate(operators.Divide, a, b, func(a, b ref.Val) ref.Val {
		if d, ok := b.(types.Double); ok && d == 0 {
			return types.NewErr("division by zero")
		}
		if a, ok := a.(traits.Divider); ok {
			return a.Divide(b)
		}
		return nil
	})
}

func modulo(m meter, a, b ref.Val) ref.Val {
	return m.calculate(operators.Modulo, a, b, func(a, b ref.Val) ref.Val {
		if a, ok := a.(traits.Modder); ok {
			return a.Modulo(b)
		}
		return nil
	})
}

func sum(m meter, a, b ref.Val) ref.Val {
	return m.calculate(operators.Add, a, b, func(a, b ref.Val) ref.Val {
		if a, ok := a.(traits.Adder); ok {
			return a.Add(b)
		}
		return nil
	})
}

func negate(m meter, args []ref.Val) ref.Val {
	a := m.operand(args[0])
	if types.IsError(a) {
		return a
	}
	if a, ok := a.(traits.Negater); ok {
		return a.Negate()
	}
	return mismatch("-", args[0])
}

// calculate applies a binary operator, which returns nil if it does not apply to
// its operands.
func (m meter) calculate(operator string, a, b ref.Val, apply func(a, b ref.Val) ref.Val) ref.Val {
	x, y := m.operand(a), m.operand(b)
	if types.IsError(x) {
		return x
	}
	if types.IsError(y) {
		return y
	}
	result := apply(x, y)
	if result == nil {
		symbol, _ := operators.FindReverse(operator)
		return mismatch(symbol, a, b)
	}
	return finite(result)
}

// operand returns the value to calculate with.
func (m meter) operand(v ref.Val) ref.Val {
	e, ok := v.(*exact)
	switch {
	case !ok:
		return v
	case e.whole():
		return e.tooLarge()
	}
	m.charge(len(e.digits))
	return e.ConvertToType(types.DoubleType)
}

// finite returns any value but a double that is infinite or not a number.
func finite(v ref.Val) ref.Val {
	if d, ok := v.(types.Double); ok && (math.IsInf(float64(d), 0) || math.IsNaN(float64(d))) {
		return types.NewErr("double overflow")
	}
	return v
}

// conversions maps the name of a conversion, which is its result type, to the types
// it accepts.
var conversions = map[string]struct {
	to    ref.Type
	takes []ref.Type
}{
	"int":    {types.IntType, []ref.Type{types.IntType, types.UintType, types.DoubleType, types.StringType, types.TimestampType, types.DurationType}},
	"uint":   {types.UintType, []ref.Type{types.IntType, types.UintType, types.DoubleType, types.StringType}},
	"double": {types.DoubleType, []ref.Type{types.IntType, types.UintType, types.DoubleType, types.StringType}},
	"string": {types.StringType, []ref.Type{
		types.BoolType, types.IntType, types.UintType, types.DoubleType, types.StringType, types.BytesType, types.TimestampType, types.DurationType,
	}},
}

// convert is a conversion; text counts by its length.
func convert(name string) operation {
	c := conversions[name]
	return func(m meter, args []ref.Val) ref.Val {
		if len(args) != 1 {
			return mismatch(name, args...)
		}
		switch v := args[0].(type) {
		case *exact:
			m.charge(len(v.digits))
		case types.String:
			m.text(len(v))
		case types.Bytes:
			m.text(len(v))
		}
		for _, t := range c.takes {
			if args[0].Type() == t {
				return finite(args[0].ConvertToType(c.to))
			}
		}
		return mismatch(name, args[0])
	}
}

func less(m meter, a, b ref.Val) ref.Val {
	return m.ordered("<", a, b, func(c types.Int) bool { return c < 0 })
}

func lessEquals(m meter, a, b ref.Val) ref.Val {
	return m.ordered("<=", a, b, func(c types.Int) bool { return c <= 0 })
}

func greater(m meter, a, b ref.Val) ref.Val {
	return m.ordered(">", a, b, func(c types.Int) bool { return c > 0 })
}

func greaterEquals(m meter, a, b ref.Val) ref.Val {
	return m.ordered(">=", a, b, func(c types.Int) bool { return c >= 0 })
}

// ordered compares numbers by value, and other ordered values with those of their
// type.
func (m meter) ordered(symbol string, a, b ref.Val, holds func(types.Int) bool) ref.Val {
	m.number(a, b)
	if c, ok := compareNumbers(a, b); ok {
		return types.Bool(holds(types.Int(c)))
	}
	switch a := a.(type) {
	case types.String:
		m.text(len(a))
	case types.Bytes:
		m.text(len(a))
	}
	if x, ok := a.(traits.Comparer); ok {
		switch c := x.Compare(b).(type) {
		case types.Int:
			return types.Bool(holds(c))
		case *types.Err:
			return mismatch(symbol, a, b)
		}
	}
	return mismatch(symbol, a, b)
}

// number charges for the digits of exact numbers.
func (m meter) number(of ...ref.Val) {
	for _, v := range of {
		if e, ok := v.(*exact); ok {
			m.text(len(e.digits))
		}
	}
}
