package expr

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/checker"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/parser"
)

// environment is what expressions of one scope are compiled in. It is built
// once and shared.
type environment struct {
	cel     *cel.Env
	parser  *parser.Parser
	checker *checker.Env
}

var environments = func() (get [len(scopes)]func() (*environment, error)) {
	for s := range get {
		get[s] = sync.OnceValues(func() (*environment, error) { return newEnvironment(Scope(s)) })
	}
	return get
}()

func environmentOf(s Scope) (*environment, error) {
	if s < 0 || int(s) >= len(environments) {
		return nil, fmt.Errorf("no scope has number %d", int(s))
	}
	return environments[s]()
}

// zoned lists the functions of timestamps that take a time zone by name, whose
// results depend on the machine's time zone database.
var zoned = map[string]string{
	overloads.TimeGetFullYear:     overloads.TimestampToYearWithTz,
	overloads.TimeGetMonth:        overloads.TimestampToMonthWithTz,
	overloads.TimeGetDayOfYear:    overloads.TimestampToDayOfYearWithTz,
	overloads.TimeGetDayOfMonth:   overloads.TimestampToDayOfMonthZeroBasedWithTz,
	overloads.TimeGetDate:         overloads.TimestampToDayOfMonthOneBasedWithTz,
	overloads.TimeGetDayOfWeek:    overloads.TimestampToDayOfWeekWithTz,
	overloads.TimeGetHours:        overloads.TimestampToHoursWithTz,
	overloads.TimeGetMinutes:      overloads.TimestampToMinutesWithTz,
	overloads.TimeGetSeconds:      overloads.TimestampToSecondsWithTz,
	overloads.TimeGetMilliseconds: overloads.TimestampToMillisecondsWithTz,
}

func newEnvironment(s Scope) (*environment, error) {
	subset := &env.LibrarySubset{DisableMacros: true}
	for name, overload := range zoned {
		subset.ExcludeFunctions = append(subset.ExcludeFunctions, &env.Function{
			Name: name, Overloads: []*env.Overload{{ID: overload}},
		})
	}
	base, err := types.NewRegistry()
	if err != nil {
		return nil, fmt.Errorf("build expression environment: %w", err)
	}
	opts := []cel.EnvOption{
		cel.CustomTypeAdapter(adapter{base}),
		cel.CustomTypeProvider(base),
		cel.StdLib(cel.StdLibSubset(subset)),
		// Pinned, since the meaning of expressions must not depend on the version of
		// cel-go.
		cel.OptionalTypes(cel.OptionalTypesVersion(4)),
		cel.Macros(macros()...),
	}
	opts = append(opts, functions()...)
	for _, name := range s.Names() {
		opts = append(opts, cel.Variable(name, cel.DynType))
	}
	e := &environment{}
	if e.cel, err = cel.NewCustomEnv(opts...); err != nil {
		return nil, fmt.Errorf("build expression environment: %w", err)
	}
	// The environment's own parser is eight times slower than this one, and
	// never releases its caches.
	e.parser, err = newParser(e.cel.Macros())
	if err != nil {
		return nil, fmt.Errorf("build expression parser: %w", err)
	}
	e.checker, err = checker.NewEnv(e.cel.Container, e.cel.CELTypeProvider(), checker.CrossTypeNumericComparisons(true))
	if err != nil {
		return nil, fmt.Errorf("build expression checker: %w", err)
	}
	if err := e.checker.AddIdents(e.cel.Variables()...); err != nil {
		return nil, fmt.Errorf("build expression checker: %w", err)
	}
	for _, fn := range e.cel.Functions() {
		if fn.IsDeclarationDisabled() {
			continue
		}
		if err := e.checker.AddFunctions(fn); err != nil {
			return nil, fmt.Errorf("build expression checker: %w", err)
		}
	}
	return e, nil
}

func newParser(macros []cel.Macro, more ...parser.Option) (*parser.Parser, error) {
	return parser.NewParser(append([]parser.Option{
		parser.EnablePrattParser(true),
		parser.EnableOptionalSyntax(true),
		parser.Macros(macros...),
		parser.MaxRecursionDepth(MaxNesting),
		parser.ExpressionSizeCodePointLimit(MaxSource),
		parser.MaxExpressionNodeCount(maxNodes),
		parser.ErrorReportingLimit(4),
	}, more...)...)
}

// macros are the standard ones, with a guard around the list they iterate over.
func macros() []cel.Macro {
	guard := func(expand cel.MacroFactory) cel.MacroFactory {
		return func(f cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
			return expand(f, f.NewCall(functionList, target), args)
		}
	}
	return []cel.Macro{
		cel.HasMacro,
		cel.ReceiverMacro("all", 2, guard(parser.MakeAll)),
		cel.ReceiverMacro("exists", 2, guard(parser.MakeExists)),
		cel.ReceiverMacro("exists_one", 2, guard(parser.MakeExistsOne)),
		cel.ReceiverMacro("map", 2, guard(parser.MakeMap)),
		cel.ReceiverMacro("map", 3, guard(parser.MakeMap)),
		cel.ReceiverMacro("filter", 2, guard(parser.MakeFilter)),
	}
}

// The library marks an error with the place where it comes up, its two shared
// error values too, in whichever evaluation meets them first. Marked beforehand,
// they stay as they are and are safe to share between evaluations that run at
// once.
func init() {
	types.LabelErrNode(noPlace, types.NoSuchOverloadErr())
	types.LabelErrNode(noPlace, types.Int(math.MaxInt64).ConvertToType(types.TimestampType))
}

// noPlace is not the number of any node.
const noPlace = -1

// Functions lists the names of all functions and macros, sorted.
var Functions = sync.OnceValue(func() []string {
	env, err := environmentOf(Transform)
	if err != nil {
		return nil
	}
	var names []string
	for _, fn := range env.cel.Functions() {
		if !fn.IsDeclarationDisabled() && !strings.ContainsAny(fn.Name(), "_@!") && fn.Name() != "in" {
			names = append(names, fn.Name())
		}
	}
	for _, m := range env.cel.Macros() {
		names = append(names, m.Function())
	}
	slices.Sort(names)
	return slices.Compact(names)
})
