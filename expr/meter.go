package expr

import (
	"fmt"

	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// The library counts the cost of a call after it was made, and not at all where
// values share parts: "+" of lists is a tree whose size takes exponential time
// to ask for, and a list that holds another twice, that again, compares in
// exponential time. So calls that can do much at once are replaced by these,
// which pay as they go.

// operation is the implementation of a metered function.
type operation func(m meter, args []ref.Val) ref.Val

// metered are the functions that are replaced, by name.
var metered = map[string]operation{
	operators.Negate: negate,
	functionList:     walkable,
	"hasValue":       hasValue,
	"lowerAscii":     lowerASCII,
	"upperAscii":     upperASCII,
	"trim":           trim,
	"split":          split,
	"join":           join,
	"replace":        replace,
	"substring":      substring,
	"indexOf":        indexOf,
	functionDecimal:  moved,
	"int":            convert("int"),
	"uint":           convert("uint"),
	"double":         convert("double"),
	"string":         convert("string"),
}

// infix is the implementation of a metered operator between two values.
type infix func(m meter, a, b ref.Val) ref.Val

// infixes are the operators that are replaced, by name.
var infixes = map[string]infix{
	operators.Equals:        equals,
	operators.NotEquals:     notEquals,
	operators.In:            in,
	operators.Less:          less,
	operators.LessEquals:    lessEquals,
	operators.Greater:       greater,
	operators.GreaterEquals: greaterEquals,
	operators.Add:           add,
	operators.Subtract:      subtract,
	operators.Multiply:      multiply,
	operators.Divide:        divide,
	operators.Modulo:        modulo,
}

// decorate replaces metered functions when a program is planned.
func decorate(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok {
		return keyed(i), nil
	}
	if op := infixes[call.Function()]; op != nil && len(call.Args()) == 2 {
		return &infixCall{InterpretableCall: call, op: op, left: call.Args()[0], right: call.Args()[1]}, nil
	}
	op := metered[call.Function()]
	if call.Function() == overloads.Matches {
		var err error
		if op, err = matches(call); err != nil {
			return nil, err
		}
	}
	if op == nil {
		return i, nil
	}
	return &meteredCall{InterpretableCall: call, op: op}, nil
}

type meteredCall struct {
	interpreter.InterpretableCall
	op operation
}

// Exec implements [interpreter.InterpretableV2].
func (c *meteredCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	nodes := c.Args()
	args := make([]ref.Val, len(nodes))
	for i, n := range nodes {
		args[i] = n.Exec(frame)
		if types.IsUnknownOrError(args[i]) {
			return args[i]
		}
	}
	m := meter{frame}
	m.charge(1)
	return types.LabelErrNode(c.ID(), c.op(m, args))
}

// Eval implements [interpreter.Interpretable].
func (c *meteredCall) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, c.Exec)
}

type infixCall struct {
	interpreter.InterpretableCall
	op          infix
	left, right interpreter.InterpretableV2
}

// Exec implements [interpreter.InterpretableV2].
func (c *infixCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	a := c.left.Exec(frame)
	if types.IsUnknownOrError(a) {
		return a
	}
	b := c.right.Exec(frame)
	if types.IsUnknownOrError(b) {
		return b
	}
	m := meter{frame}
	m.charge(1)
	return types.LabelErrNode(c.ID(), c.op(m, a, b))
}

// Eval implements [interpreter.Interpretable].
func (c *infixCall) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, c.Exec)
}

// meter charges work to the evaluation that a frame belongs to.
type meter struct{ frame *interpreter.ExecutionFrame }

// charge counts n steps. Past the limit it panics with a value from which cel-go's
// evaluation recovers.
func (m meter) charge(n int) {
	if t := m.frame.CostTracker(); t != nil {
		t.EvalZeroArity(nil, 0, work{}, types.Int(n))
	}
}

// text counts the steps of going through n bytes.
func (m meter) text(n int) { m.charge(n / bytesPerStep) }

const bytesPerStep = 16

// work is the pretended call by which a meter charges; its result is the cost.
type work struct{}

func (work) Function() string   { return "@work" }
func (work) OverloadID() string { return "@work" }

// prices gives the cost of all other calls: a step, and their text.
type prices struct{}

// CallCost implements the library's cost estimator.
func (prices) CallCost(_, overload string, args []ref.Val, result ref.Val) *uint64 {
	n := uint64(1)
	if overload == "@work" {
		n = uint64(result.(types.Int))
		return &n
	}
	for _, arg := range args {
		switch v := arg.(type) {
		case types.String:
			n += uint64(len(v) / bytesPerStep)
		case types.Bytes:
			n += uint64(len(v) / bytesPerStep)
		case traits.Lister:
			if overload == "optional_unwrap" || overload == "optional_unwrapOpt" {
				size, _ := v.Size().(types.Int)
				n += uint64(size)
			}
		}
	}
	return &n
}

// mismatch is the error of a call with arguments of wrong types.
func mismatch(name string, args ...ref.Val) ref.Val {
	list := ""
	for i, arg := range args {
		if i > 0 {
			list += ", "
		}
		list += typeName(arg)
	}
	return types.NewErr("no such overload: %s(%s)", name, list)
}

// walkable returns lists, and refuses other operands of a comprehension.
func walkable(_ meter, args []ref.Val) ref.Val {
	switch args[0].(type) {
	case traits.Lister:
		return args[0]
	case traits.Mapper:
		return types.NewErr("a map cannot be walked, for the order of its keys is not fixed")
	}
	return types.NewErr("a %s cannot be walked; only lists can", typeName(args[0]))
}

func tooLong(what string, n int) ref.Val {
	return types.WrapErr(fmt.Errorf("%s is longer than %d", what, n))
}
