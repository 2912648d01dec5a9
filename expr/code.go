package expr

import (
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/checker"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
)

// code is one compiled expression. It is immutable.
type code struct {
	src   string
	scope Scope
	// reads are the names that the expression reads, sorted.
	reads []string
	// path is set where the expression only selects: a name, then keys (string)
	// and indexes (int64).
	path []step
	// ast and program are nil where path is set. The program is made when it is
	// first evaluated: compilers only look.
	ast     *ast.AST
	program func() (cel.Program, error)
}

// step is one selection, and where its text starts.
type step struct {
	key    string
	index  int64
	isKey  bool
	offset int
}

// compile compiles one expression.
func compile(src string, scope Scope) (c *code, bad *Error) {
	defer func() {
		// No case is known, but foreign source must not end the process.
		if r := recover(); r != nil {
			c, bad = nil, errorf(0, "the expression cannot be compiled: %v", r)
		}
	}()
	if len(src) > MaxSource {
		return nil, errorf(0, "the expression has %d bytes, more than %d", len(src), MaxSource)
	}
	if !utf8.ValidString(src) {
		return nil, errorf(0, "the expression is not UTF-8")
	}
	if strings.TrimSpace(src) == "" {
		return nil, errorf(0, "the expression is empty")
	}
	if path := parsePath(src, scope); path != nil {
		return &code{src: src, scope: scope, reads: []string{path[0].key}, path: path}, nil
	}
	env, err := environmentOf(scope)
	if err != nil {
		return nil, errorf(0, "%v", err)
	}
	source := common.NewTextSource(src)
	parsed, errs := env.parser.Parse(source)
	if bad := first(src, errs, scope); bad != nil {
		return nil, bad
	}
	checked, errs := checker.Check(parsed, source, env.checker)
	if bad := first(src, errs, scope); bad != nil {
		return nil, bad
	}
	i := &inspector{ast: checked, src: src, names: scope.Names()}
	i.walk(checked.Expr(), nil)
	if i.bad != nil {
		return nil, i.bad
	}
	slices.Sort(i.reads)
	program := sync.OnceValues(func() (cel.Program, error) {
		return env.cel.PlanProgram(checked, cel.CustomDecoratorV2(decorate), cel.CostTracking(prices{}), cel.CostLimit(MaxCost))
	})
	if i.patterns {
		// The parts of a program have been checked, except for constant patterns.
		if _, err := program(); err != nil {
			return nil, errorf(0, "%v", err)
		}
	}
	return &code{src: src, scope: scope, reads: slices.Compact(i.reads), ast: checked, program: program}, nil
}

// output is the type of the expression's result as far as it is known.
func (c *code) output() *types.Type {
	if c.ast == nil {
		return types.DynType
	}
	return c.ast.GetType(c.ast.Expr().ID())
}

// first returns the first of cel-go's errors, by place, reworded.
func first(src string, errs *common.Errors, scope Scope) *Error {
	if errs == nil || len(errs.GetErrors()) == 0 {
		return nil
	}
	var bad *Error
	for _, e := range errs.GetErrors() {
		at := 0
		if e.Location != nil {
			at = offsetOf(src, e.Location.Line(), e.Location.Column())
		}
		if bad != nil && at >= bad.Offset {
			continue
		}
		if name, ok := undeclared(e.Message); ok {
			bad = unknown(src, at, name, scope)
			continue
		}
		bad = errorf(at, "%s", reword(e.Message))
	}
	return bad
}

// undeclared is the name or function that an error of cel-go calls undeclared.
func undeclared(message string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(message, "undeclared reference to '")
	name, _, _ = strings.Cut(rest, "'")
	return name, ok
}

// unknown is the error about a name or function that does not exist. The place of a
// call in cel-go is that of its parenthesis.
func unknown(src string, at int, name string, scope Scope) *Error {
	before := strings.TrimRight(src[:at], " \t\r\n")
	if !strings.HasPrefix(src[at:], "(") || !strings.HasSuffix(before, name) {
		bad := errorf(at, "undeclared reference to '%s'; the names here are %s", name, scope.list())
		bad.Unknown = name
		return bad
	}
	bad := errorf(len(before)-len(name), "undeclared reference to the function '%s'", name)
	bad.Unknown, bad.Call = name, true
	return bad
}

func reword(message string) string {
	if rest, ok := strings.CutPrefix(message, "found no matching overload for '"+functionList+"' applied to "); ok {
		return "only lists can be walked, for the order of a map's keys is not fixed; this is of type " + strings.TrimSuffix(strings.TrimPrefix(rest, "'("), ")'")
	}
	if rest, ok := strings.CutPrefix(message, "found no matching overload for '_?_:_' applied to '("); ok {
		if parts := strings.SplitN(strings.TrimSuffix(rest, ")'"), ", ", 2); len(parts) == 2 && (parts[0] == "dyn" || parts[0] == "bool") {
			return "the two sides of ?: are of different types, " + parts[1] + "; write dyn(…) around one of them if that is meant"
		}
	}
	if strings.HasPrefix(message, "Syntax error: mismatched input '<EOF>'") {
		return "Syntax error: the expression is not complete"
	}
	return message
}

// offsetOf gives the byte offset of a place that counts lines from 1 and columns
// in code points from 0.
func offsetOf(src string, line, column int) int {
	at := 0
	for ; line > 1; line-- {
		n := strings.IndexByte(src[at:], '\n')
		if n < 0 {
			return len(src)
		}
		at += n + 1
	}
	return byteOffset(src[at:], column) + at
}

// byteOffset gives the byte offset of code point number n.
func byteOffset(s string, n int) int {
	if n <= 0 {
		return 0
	}
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

// place gives the byte offset of an expression node, or 0.
func place(a *ast.AST, src string, id int64) int {
	r, ok := a.SourceInfo().GetOffsetRange(id)
	if !ok {
		return 0
	}
	return byteOffset(src, int(r.Start))
}
