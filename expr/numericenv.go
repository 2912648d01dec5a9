package expr

import (
	"fmt"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/checker"
	"cel.dev/cel-go/common/containers"
	"cel.dev/cel-go/common/decls"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/parser"
)

// numericFunctions are the functions of calculations, sorted.
var numericFunctions = []string{"abs", "exp", "floor", "log", "max", "min", "sqrt"}

// numericOperators are the operators of calculations.
var numericOperators = map[string]bool{
	operators.Add: true, operators.Subtract: true, operators.Multiply: true, operators.Divide: true, operators.Negate: true,
	operators.Less: true, operators.LessEquals: true, operators.Greater: true, operators.GreaterEquals: true,
	operators.Equals: true, operators.NotEquals: true, operators.In: true,
	operators.LogicalAnd: true, operators.LogicalOr: true, operators.LogicalNot: true, operators.Conditional: true,
}

// numericEnvironment is what calculations are compiled in.
type numericEnvironment struct {
	parser    *parser.Parser
	provider  *types.Registry
	functions []*decls.FunctionDecl
}

var numericEnvironmentOf = sync.OnceValues(func() (*numericEnvironment, error) {
	e := &numericEnvironment{}
	var err error
	if e.parser, err = newParser(nil); err != nil {
		return nil, fmt.Errorf("build expression parser: %w", err)
	}
	if e.provider, err = types.NewRegistry(); err != nil {
		return nil, fmt.Errorf("build expression checker: %w", err)
	}
	number, truth, text, any := types.DoubleType, types.BoolType, types.StringType, types.NewTypeParamType("A")
	declare := func(name string, result *types.Type, args ...*types.Type) {
		if err != nil {
			return
		}
		var fn *decls.FunctionDecl
		if fn, err = decls.NewFunction(name, decls.Overload("numeric_"+name, args, result)); err == nil {
			e.functions = append(e.functions, fn)
		}
	}
	for _, op := range []string{operators.Add, operators.Subtract, operators.Multiply, operators.Divide, "min", "max"} {
		declare(op, number, number, number)
	}
	for _, op := range []string{operators.Negate, "abs", "exp", "floor", "log", "sqrt"} {
		declare(op, number, number)
	}
	for _, op := range []string{operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals} {
		declare(op, truth, number, number)
	}
	declare(operators.Equals, truth, any, any)
	declare(operators.NotEquals, truth, any, any)
	declare(operators.In, truth, text, types.NewListType(text))
	declare(operators.LogicalAnd, truth, truth, truth)
	declare(operators.LogicalOr, truth, truth, truth)
	declare(operators.LogicalNot, truth, truth)
	declare(operators.Conditional, any, truth, any, any)
	return e, err
})

// typing returns a checker for names of numbers and of categories.
func (e *numericEnvironment) typing(numbers, choices []string) (*checker.Env, error) {
	env, err := checker.NewEnv(containers.DefaultContainer, e.provider)
	if err != nil {
		return nil, fmt.Errorf("build expression checker: %w", err)
	}
	for _, name := range numbers {
		if err := env.AddIdents(decls.NewVariable(name, cel.DoubleType)); err != nil {
			return nil, fmt.Errorf("build expression checker: %w", err)
		}
	}
	for _, name := range choices {
		if err := env.AddIdents(decls.NewVariable(name, cel.StringType)); err != nil {
			return nil, fmt.Errorf("build expression checker: %w", err)
		}
	}
	if err := env.AddFunctions(e.functions...); err != nil {
		return nil, fmt.Errorf("build expression checker: %w", err)
	}
	return env, nil
}
