package expr

import (
	"errors"
	"runtime"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// keyed guards the keys of a map that an expression builds: they are strings,
// booleans and ints with or without sign, as CEL says. The library takes any
// value, compares some by where they stand in memory, and panics over others.
func keyed(i interpreter.InterpretableV2) interpreter.InterpretableV2 {
	c, ok := i.(interpreter.InterpretableConstructor)
	if !ok || c.Type() != types.MapType {
		return i
	}
	return &mapping{c}
}

type mapping struct {
	interpreter.InterpretableConstructor
}

// Exec implements [interpreter.InterpretableV2].
func (c *mapping) Exec(frame *interpreter.ExecutionFrame) (v ref.Val) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		// This is a value without a hash; other values are not handled here.
		err, _ := r.(error)
		var of runtime.Error
		if !errors.As(err, &of) {
			panic(r)
		}
		v = types.NewErrWithNodeID(c.ID(), "a map's key must be a string")
	}()
	v = c.InterpretableConstructor.Exec(frame)
	built, ok := v.(traits.Mapper)
	if !ok {
		return v
	}
	for it := built.Iterator(); it.HasNext() == types.True; {
		switch key := it.Next().(type) {
		case types.String, types.Bool, types.Int, types.Uint:
		default:
			return types.NewErrWithNodeID(c.ID(), "a map's key must be a string; this is of type %s", typeName(key))
		}
	}
	return v
}

// Eval implements [interpreter.Interpretable].
func (c *mapping) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, c.Exec)
}
