package expr

import (
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"

	"chimera.ai/engine/schemas"
)

// inspector walks a checked expression, to find which names it reads, how many
// steps it may take, and what it must not do.
type inspector struct {
	ast   *ast.AST
	src   string
	names []string
	reads []string
	// patterns: matches is called.
	patterns bool
	bad      *Error
}

// bound is the list of names that comprehensions declare around a place.
type bound struct {
	name  string
	outer *bound
}

func (b *bound) has(name string) bool {
	for ; b != nil; b = b.outer {
		if b.name == name {
			return true
		}
	}
	return false
}

func (i *inspector) fail(id int64, format string, args ...any) {
	if i.bad == nil {
		i.bad = errorf(place(i.ast, i.src, id), format, args...)
	}
}

// walk visits e and gives the estimate of its steps.
func (i *inspector) walk(e ast.Expr, b *bound) float64 {
	steps := 1.0
	switch e.Kind() {
	case ast.IdentKind:
		i.read(e.AsIdent(), b)
	case ast.SelectKind:
		steps += i.walk(e.AsSelect().Operand(), b)
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() == overloads.Matches {
			i.patterns = true
			i.pattern(call)
		}
		if name := call.FunctionName(); (name == operators.Index || name == operators.OptIndex) && call.Args()[1].Kind() == ast.LiteralKind {
			i.index(call.Args()[1])
		}
		if call.IsMemberFunction() {
			steps += i.walk(call.Target(), b)
		}
		for _, arg := range call.Args() {
			steps += i.walk(arg, b)
		}
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			steps += i.walk(item, b)
		}
	case ast.MapKind:
		written := map[types.String]bool{}
		for _, entry := range e.AsMap().Entries() {
			if key := entry.AsMapEntry().Key(); key.Kind() == ast.LiteralKind {
				if name, ok := key.AsLiteral().(types.String); ok {
					if written[name] {
						i.fail(key.ID(), "the key %q stands twice in one map", string(name))
					}
					written[name] = true
				}
			}
			i.key(entry.AsMapEntry().Key())
			steps += i.walk(entry.AsMapEntry().Key(), b) + i.walk(entry.AsMapEntry().Value(), b)
		}
	case ast.StructKind:
		i.fail(e.ID(), "messages are not supported; write a map")
	case ast.ComprehensionKind:
		steps += i.comprehension(e, b)
	}
	return steps
}

func (i *inspector) comprehension(e ast.Expr, b *bound) float64 {
	c := e.AsComprehension()
	accu := &bound{c.AccuVar(), b}
	loop := &bound{c.IterVar(), accu}
	if c.HasIterVar2() {
		loop = &bound{c.IterVar2(), loop}
	}
	once := i.walk(c.IterRange(), b) + i.walk(c.AccuInit(), b) + i.walk(c.Result(), accu)
	each := i.walk(c.LoopCondition(), loop) + i.walk(c.LoopStep(), loop)
	steps := once + float64(each*sizeOf(c.IterRange()))
	if steps > MaxEstimate {
		i.fail(e.ID(), "the expression may take too many steps: put fewer loops into each other")
	}
	return steps
}

// sizeOf is the length of a list as far as it is known.
func sizeOf(e ast.Expr) float64 {
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == functionList {
		e = e.AsCall().Args()[0]
	}
	if e.Kind() == ast.ListKind {
		return float64(e.AsList().Size())
	}
	return assumedSize
}

func (i *inspector) read(name string, b *bound) {
	// A leading dot looks past the names that comprehensions declare.
	global, dotted := strings.CutPrefix(name, ".")
	if !dotted && b.has(name) {
		return
	}
	for _, known := range i.names {
		if global == known {
			i.reads = append(i.reads, known)
		}
	}
}

// index checks a key or index that stands in the expression itself: the library plans
// no program with any other.
func (i *inspector) index(e ast.Expr) {
	switch e.AsLiteral().(type) {
	case types.String, types.Int, types.Uint, types.Double, types.Bool:
	default:
		i.fail(e.ID(), "a key is a string and an index a whole number; this is of type %s", cel.FormatCELType(i.ast.GetType(e.ID())))
	}
}

// key checks the type of a map's key, as far as it is known.
func (i *inspector) key(e ast.Expr) {
	switch t := i.ast.GetType(e.ID()); t.Kind() {
	case types.StringKind, types.BoolKind, types.IntKind, types.UintKind, types.DynKind, types.AnyKind, types.TypeParamKind:
	default:
		i.fail(e.ID(), "a map's key must be a string; this is of type %s", cel.FormatCELType(t))
	}
}

// pattern checks the pattern of matches: it must be known now, so that its cost is.
func (i *inspector) pattern(call ast.CallExpr) {
	args := call.Args()
	if len(args) == 0 {
		return
	}
	arg := args[len(args)-1]
	if arg.Kind() != ast.LiteralKind {
		i.fail(arg.ID(), "the pattern of matches must be a string in the expression itself")
		return
	}
	pattern, ok := arg.AsLiteral().(types.String)
	if !ok {
		i.fail(arg.ID(), "the pattern of matches must be a string")
		return
	}
	n, err := schemas.PatternSize(string(pattern))
	switch {
	case err != nil:
		i.fail(arg.ID(), "%v", err)
	case n > MaxPattern:
		i.fail(arg.ID(), "the pattern's program has %d instructions, more than %d", n, MaxPattern)
	}
}
