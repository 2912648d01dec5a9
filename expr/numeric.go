package expr

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/checker"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// Numeric is a compiled calculation: a number, or one of some categories, of numbers and categories. It
// does not change and is safe for concurrent use.
//
// Its source is CEL of another kind than that of the other scopes: every number is a double, and an int in
// the source stands for the double of the same value. There are
//
//   - + - * / and unary -, of numbers
//   - abs(x), floor(x), sqrt(x), exp(x), log(x), min(x, y) and max(x, y)
//   - < <= > >= == and != of numbers, && || ! and ?:, of which only what decides is evaluated
//   - == and != of the name of categories with a text or another such name, and `name in ["a", "b"]`
//
// Each operation is rounded by itself, and exp and log are our own, so that the result has the same bits
// on every machine. Division by zero, the square root of a negative number, the logarithm of one that is
// not positive, and each result that is not finite are errors.
type Numeric struct {
	names   []string
	numbers int
	// sizes has for each name of categories how many there are.
	sizes []int
	reads []string
	steps int
	eval  arithmeticOf
}

// CompileNumeric compiles a calculation over the names of numbers, and over names with their categories. The
// result is a number or, where result has any, one of those categories. Its error is an [*Error].
func CompileNumeric(src string, numbers []string, categories map[string][]string, result []string) (*Numeric, error) {
	n, bad := compileNumeric(src, numbers, categories, result)
	if bad != nil {
		return nil, bad
	}
	return n, nil
}

// Reads reports whether the calculation reads that name.
func (n *Numeric) Reads(name string) bool { return slices.Contains(n.reads, name) }

// Steps bounds the work of one evaluation: it counts the operations, names and literals.
func (n *Numeric) Steps() int { return n.steps }

// Eval evaluates the calculation. Numbers are in the order of their sorted names, and so are categories, each
// as its index. The result is a number, or the index of a category of the result. Its error is an
// [*Error]. Eval does not allocate.
func (n *Numeric) Eval(numbers []float64, categories []int) (float64, error) {
	if len(numbers) != n.numbers || len(categories) != len(n.sizes) {
		return 0, errorf(0, "%d numbers and %d categories are given for %d and %d names", len(numbers), len(categories), n.numbers, len(n.sizes))
	}
	for i, x := range numbers {
		if !isFinite(x) {
			return 0, errorf(0, "%s is not finite", n.names[i])
		}
	}
	for i, c := range categories {
		if c < 0 || c >= n.sizes[i] {
			return 0, errorf(0, "%s has no category %d", n.names[n.numbers+i], c)
		}
	}
	v, bad := n.eval(numbers, categories)
	if bad != nil {
		return 0, bad
	}
	return v, nil
}

func compileNumeric(src string, numbers []string, categories map[string][]string, result []string) (n *Numeric, bad *Error) {
	defer func() {
		// No case is known, but foreign source must not end the process.
		if r := recover(); r != nil {
			n, bad = nil, errorf(0, "the expression cannot be compiled: %v", r)
		}
	}()
	switch {
	case len(src) > MaxSource:
		return nil, errorf(0, "the expression has %d bytes, more than %d", len(src), MaxSource)
	case !utf8.ValidString(src):
		return nil, errorf(0, "the expression is not UTF-8")
	case strings.TrimSpace(src) == "":
		return nil, errorf(0, "the expression is empty")
	}
	c := &numericCompiler{src: src, numbers: slices.Sorted(slices.Values(numbers)), categories: categories, result: result}
	c.choices = slices.Sorted(maps.Keys(categories))
	n = &Numeric{names: slices.Concat(c.numbers, c.choices), numbers: len(c.numbers)}
	for i, name := range n.names {
		if name == "" || identifier(name) != len(name) || slices.Contains(n.names[:i], name) {
			return nil, errorf(0, "%.60q is no name of a value, or stands twice", name)
		}
	}
	for _, name := range c.choices {
		n.sizes = append(n.sizes, len(categories[name]))
	}
	if bad := c.check(); bad != nil {
		return nil, bad
	}
	n.eval = c.outcome()
	if c.bad != nil {
		return nil, c.bad
	}
	slices.Sort(c.reads)
	n.reads, n.steps = slices.Compact(c.reads), c.steps
	return n, nil
}

// numericCompiler compiles one calculation.
type numericCompiler struct {
	src              string
	numbers, choices []string
	categories       map[string][]string
	result           []string
	ast              *ast.AST
	reads            []string
	steps            int
	bad              *Error
}

func (c *numericCompiler) fail(e ast.Expr, format string, args ...any) {
	if c.bad == nil {
		c.bad = errorf(place(c.ast, c.src, e.ID()), format, args...)
	}
}

// check parses the source, and types it.
func (c *numericCompiler) check() *Error {
	env, err := numericEnvironmentOf()
	if err != nil {
		return errorf(0, "%v", err)
	}
	source := common.NewTextSource(c.src)
	parsed, errs := env.parser.Parse(source)
	if bad := first(c.src, errs, Price); bad != nil {
		return bad
	}
	c.ast = parsed
	ast.PreOrderVisit(parsed.Expr(), ast.NewExprVisitor(c.prepare))
	if c.bad != nil {
		return c.bad
	}
	typing, err := env.typing(c.numbers, c.choices)
	if err != nil {
		return errorf(0, "%v", err)
	}
	checked, errs := checker.Check(parsed, source, typing)
	if bad := first(c.src, errs, Price); bad != nil {
		return bad
	}
	c.ast = checked
	return nil
}

// prepare counts a node, makes a double of an int, and refuses what is not there.
func (c *numericCompiler) prepare(e ast.Expr) {
	c.steps++
	switch e.Kind() {
	case ast.LiteralKind:
		switch v := e.AsLiteral().(type) {
		case types.Int:
			if v < -1<<53 || v > 1<<53 {
				c.fail(e, "the number has more digits than a double holds")
			}
			e.SetKindCase(ast.NewExprFactory().NewLiteral(e.ID(), types.Double(v)))
		case types.Double, types.Bool, types.String:
		default:
			c.fail(e, "a literal is a number, true, false, or the text of a category")
		}
	case ast.IdentKind:
		name := e.AsIdent()
		if !slices.Contains(c.numbers, name) && !slices.Contains(c.choices, name) {
			c.fail(e, "undeclared reference to '%s'%s; the names here are %s", name, meant(name, slices.Concat(c.numbers, c.choices)),
				strings.Join(slices.Concat(c.numbers, c.choices), ", "))
			c.bad.Unknown = name
			return
		}
		c.reads = append(c.reads, name)
	case ast.CallKind:
		name := e.AsCall().FunctionName()
		if numericOperators[name] {
			return
		}
		known := slices.Contains(numericFunctions, name)
		switch sign := signs[name]; {
		case known && !e.AsCall().IsMemberFunction():
		case known:
			c.fail(e, "write %s(…): functions of numbers do not stand behind a value", name)
		case name == operators.Modulo || strings.ContainsAny(name, "_@["):
			c.fail(e, "a calculation has no operator %s", sign)
		default:
			c.fail(e, "undeclared reference to the function '%s'%s; the functions here are %s", name, meant(name, numericFunctions), strings.Join(numericFunctions, ", "))
			c.bad.Unknown, c.bad.Call = name, true
			if before := strings.TrimRight(c.src[:c.bad.Offset], " \t\r\n"); strings.HasSuffix(before, name) {
				c.bad.Offset = len(before) - len(name)
			}
		}
	case ast.ListKind, ast.UnspecifiedExprKind:
	case ast.SelectKind, ast.MapKind, ast.StructKind, ast.ComprehensionKind:
		c.fail(e, "a calculation has no fields, maps and loops")
	}
}

// meant writes which name was most probably meant.
func meant(name string, of []string) string {
	if near := nearest(name, of); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}
