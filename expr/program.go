package expr

import (
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// Program is a compiled predicate. It is safe for concurrent use.
type Program struct{ c *compiled }

// compiled is one CEL expression, ready to be evaluated.
type compiled struct {
	program cel.Program
	reads   map[string]bool
	boolean bool
}

// zoned are the functions of CEL's standard library that read a time zone, or
// the host's.
var zoned = []string{
	"getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear",
	"getHours", "getMilliseconds", "getMinutes", "getMonth", "getSeconds",
}

// environments are made once: making one costs more than compiling an expression.
var environments = sync.OnceValues(func() (map[Scope]*cel.Env, error) {
	subset := env.NewLibrarySubset()
	for _, name := range zoned {
		subset.ExcludeFunctions = append(subset.ExcludeFunctions, &env.Function{Name: name})
	}
	base, err := cel.NewCustomEnv(
		cel.StdLib(cel.StdLibSubset(subset)),
		cel.OptionalTypes(),
		cel.CustomTypeAdapter(adapter{}),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserRecursionLimit(MaxNesting*4),
		cel.ParserExpressionSizeLimit(MaxSource),
		cel.ExpressionNodeLimit(MaxNodes),
		cel.ExpressionNestingDepthLimit(MaxNesting),
		cel.RegexProgramSizeLimit(maxRegexp),
	)
	if err != nil {
		return nil, fmt.Errorf("make the environment of expressions: %w", err)
	}
	all := map[Scope]*cel.Env{}
	for s := When; s <= Compensate; s++ {
		var names []cel.EnvOption
		for _, name := range s.Names() {
			names = append(names, cel.Variable(name, cel.DynType))
		}
		if all[s], err = base.Extend(names...); err != nil {
			return nil, fmt.Errorf("make the environment of expressions: %w", err)
		}
	}
	return all, nil
})

// CompilePredicate compiles a CEL expression that must give a bool. Its error
// is an *[Error].
func CompilePredicate(src string, scope Scope) (*Program, error) {
	c, err := compile(src, scope)
	if err != nil {
		return nil, err
	}
	if !c.boolean {
		return nil, &Error{Message: "a predicate must give true or false"}
	}
	return &Program{c}, nil
}

// Reads reports whether the expression reads that name.
func (p *Program) Reads(name string) bool { return p.c.reads[name] }

// EvalBool evaluates the predicate.
func (p *Program) EvalBool(vars Vars) (bool, error) {
	v, err := p.c.eval(vars)
	if err != nil {
		return false, err
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, fmt.Errorf("the predicate gave %s, not true or false", v.Type().TypeName())
	}
	return bool(b), nil
}

func compile(src string, scope Scope) (c *compiled, err error) {
	defer func() {
		if p := recover(); p != nil {
			c, err = nil, &Error{Message: fmt.Sprintf("the expression cannot be compiled: %v", p)}
		}
	}()
	switch {
	case strings.TrimSpace(src) == "":
		return nil, &Error{Message: "the expression is empty"}
	case len(src) > MaxSource:
		return nil, &Error{Offset: MaxSource, Message: fmt.Sprintf("the expression is longer than %d bytes", MaxSource)}
	case !utf8.ValidString(src):
		return nil, &Error{Message: "the expression is not UTF-8"}
	}
	all, err := environments()
	if err != nil {
		return nil, &Error{Message: err.Error()}
	}
	e, ok := all[scope]
	if !ok {
		return nil, &Error{Message: "there is no such scope"}
	}
	tree, issues := e.Compile(src)
	if issues.Err() != nil {
		return nil, problem(src, issues)
	}
	program, err := e.Program(tree,
		cel.EvalOptions(cel.OptOptimize),
		cel.CostLimit(MaxCost),
		cel.MemoryLimit(MaxElements),
		cel.CustomDecoratorV2(order),
	)
	if err != nil {
		return nil, &Error{Message: strings.TrimSpace(err.Error())}
	}
	out := tree.OutputType()
	return &compiled{
		program: program,
		reads:   reads(tree.NativeRep(), scope),
		boolean: out.IsExactType(cel.BoolType) || out.IsExactType(cel.DynType),
	}, nil
}

// problem gives the first of CEL's findings, which name lines and columns, as
// an offset.
func problem(src string, issues *cel.Issues) *Error {
	first := issues.Errors()[0]
	offset, line := 0, 1
	for line < first.Location.Line() {
		at := strings.IndexByte(src[offset:], '\n')
		if at < 0 {
			break
		}
		offset += at + 1
		line++
	}
	for column := first.Location.Column(); column > 0 && offset < len(src); column-- {
		_, size := utf8.DecodeRuneInString(src[offset:])
		offset += size
	}
	return &Error{Offset: offset, Message: first.Message}
}

// reads finds the names of the scope that the expression refers to.
func reads(tree *celast.AST, scope Scope) map[string]bool {
	found := map[string]bool{}
	names := scope.Names()
	for _, id := range celast.MatchDescendants(celast.NavigateAST(tree), celast.KindMatcher(celast.IdentKind)) {
		for _, name := range names {
			if strings.TrimPrefix(id.AsIdent(), ".") == name {
				found[name] = true
			}
		}
	}
	return found
}

// eval evaluates the expression. An error of the expression has no position:
// CEL does not say where it came from.
func (c *compiled) eval(vars Vars) (v ref.Val, err error) {
	defer func() {
		if p := recover(); p != nil {
			v, err = nil, fmt.Errorf("the expression cannot be evaluated: %v", p)
		}
	}()
	v, _, err = c.program.Eval(map[string]any(vars))
	return v, err
}

// order makes every map literal iterate in the order of its keys.
func order(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	literal, ok := node.(interpreter.InterpretableConstructor)
	if !ok || literal.Type() != types.MapType {
		return node, nil
	}
	return ordering{literal}, nil
}

type ordering struct {
	interpreter.InterpretableConstructor
}

func (o ordering) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return ordered(o.InterpretableConstructor.Exec(frame))
}

func (o ordering) Eval(vars interpreter.Activation) ref.Val {
	return ordered(o.InterpretableConstructor.Eval(vars))
}

func ordered(v ref.Val) ref.Val {
	if m, ok := v.(traits.Mapper); ok {
		return sortedMap{m}
	}
	return v
}
