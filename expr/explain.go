package expr

import (
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/parser"
)

// Part is a part of an expression, and what it gives by itself.
type Part struct {
	// Text is the part as CEL writes it.
	Text string
	// Depth is 0 for the whole expression, and one more for each part that a part is
	// in.
	Depth int
	// Value is decoded JSON, and nil if Err is not.
	Value any
	// Err says why the part by itself has no value. The whole may have one all the
	// same: && and || do not need both sides.
	Err error
}

// maxParts bounds the parts that Explain gives.
const maxParts = 200

// Explain evaluates the predicate, and by itself each call and selection in it, from
// the whole to its parts. What stands inside a loop over a list depends on the
// element, and is left out.
func (p *Program) Explain(vars Vars) []Part {
	x := explainer{scope: p.code.scope, vars: vars}
	root, info := x.parse(p.code.src)
	if root == nil {
		x.evaluate(p.code.src, 0)
		return x.parts
	}
	x.walk(root, info, 0)
	return x.parts
}

type explainer struct {
	scope Scope
	vars  Vars
	parts []Part
}

// parse parses a compiled expression again, with what its macros were written as.
func (x *explainer) parse(src string) (ast.Expr, *ast.SourceInfo) {
	env, err := environmentOf(x.scope)
	if err != nil {
		return nil, nil
	}
	tracking, err := newParser(env.cel.Macros(), parser.PopulateMacroCalls(true))
	if err != nil {
		return nil, nil
	}
	parsed, errs := tracking.Parse(common.NewTextSource(src))
	if len(errs.GetErrors()) > 0 {
		return nil, nil
	}
	return parsed.Expr(), parsed.SourceInfo()
}

func (x *explainer) walk(e ast.Expr, info *ast.SourceInfo, depth int) {
	if len(x.parts) >= maxParts {
		return
	}
	switch e.Kind() {
	case ast.CallKind, ast.SelectKind, ast.ComprehensionKind:
		text, err := parser.Unparse(e, info)
		if err != nil {
			return
		}
		x.evaluate(text, depth)
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			x.walk(item, info, depth)
		}
		return
	default:
		return
	}
	switch e.Kind() {
	case ast.CallKind:
		if e.AsCall().IsMemberFunction() {
			x.walk(e.AsCall().Target(), info, depth+1)
		}
		for _, arg := range e.AsCall().Args() {
			x.walk(arg, info, depth+1)
		}
	case ast.SelectKind:
		// A chain of selections is one part.
		of := e.AsSelect().Operand()
		for of.Kind() == ast.SelectKind && !of.AsSelect().IsTestOnly() {
			of = of.AsSelect().Operand()
		}
		x.walk(of, info, depth+1)
	case ast.ComprehensionKind:
		over := e.AsComprehension().IterRange()
		if over.Kind() == ast.CallKind && over.AsCall().FunctionName() == functionList {
			over = over.AsCall().Args()[0]
		}
		x.walk(over, info, depth+1)
	}
}

func (x *explainer) evaluate(text string, depth int) {
	part := Part{Text: text, Depth: depth}
	c, bad := compile(text, x.scope)
	if bad == nil {
		part.Value, bad = c.eval(x.vars, newBudget(), 0)
	}
	if bad != nil {
		part.Err = bad
	}
	x.parts = append(x.parts, part)
}
