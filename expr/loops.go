package expr

import (
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"chimera.ai/engine/schemas"
)

// loop is a macro, recovered from its comprehension.
type loop struct {
	macro string
	// over is what is walked, or what is bound to the variable of a macro "bind".
	over ast.Expr
	name string
	// test and result are the macro's conditions and results; one may be missing.
	test, result ast.Expr
}

// Macros are recognized by the shape of their comprehension.
const (
	macroAll     = "all"
	macroExists  = "exists"
	macroOne     = "exists_one"
	macroCollect = "map"
	// macroBind gives a name to a value; optMap and optFlatMap become it.
	macroBind = "bind"
)

// macroOf recovers the macro of a comprehension.
func macroOf(c ast.ComprehensionExpr) (loop, bool) {
	l := loop{over: c.IterRange(), name: c.IterVar()}
	step := c.LoopStep()
	accu := func(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == c.AccuVar() }
	if r := c.IterRange(); r.Kind() == ast.ListKind && r.AsList().Size() == 0 && accu(step) && c.LoopCondition().Kind() == ast.LiteralKind {
		return loop{macro: macroBind, over: c.AccuInit(), name: c.AccuVar(), result: c.Result()}, c.LoopCondition().AsLiteral() == types.False
	}
	if c.HasIterVar2() || step.Kind() != ast.CallKind {
		return loop{}, false
	}
	// extended reads accu + [x].
	extended := func(e ast.Expr) (ast.Expr, bool) {
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.Add {
			return nil, false
		}
		args := e.AsCall().Args()
		if !accu(args[0]) || args[1].Kind() != ast.ListKind || args[1].AsList().Size() != 1 {
			return nil, false
		}
		return args[1].AsList().Elements()[0], true
	}
	args := step.AsCall().Args()
	switch step.AsCall().FunctionName() {
	case operators.LogicalAnd:
		l.macro, l.test = macroAll, args[1]
		return l, accu(args[0]) && accu(c.Result())
	case operators.LogicalOr:
		l.macro, l.test = macroExists, args[1]
		return l, accu(args[0]) && accu(c.Result())
	case operators.Add:
		item, ok := extended(step)
		l.macro, l.result = macroCollect, item
		return l, ok && accu(c.Result())
	case operators.Conditional:
		l.test = args[0]
		if item, ok := extended(args[1]); ok {
			l.macro, l.result = macroCollect, item
			return l, accu(args[2]) && accu(c.Result())
		}
		l.macro = macroOne
		return l, accu(args[2]) && c.AccuInit().Kind() == ast.LiteralKind && c.AccuInit().AsLiteral() == types.Int(0)
	}
	return loop{}, false
}

// comprehension judges a macro over a list.
func (j *judge) comprehension(e ast.Expr, n names) known {
	l, ok := macroOf(e.AsComprehension())
	if !ok {
		j.report(Problem{Kind: Wrong, Offset: j.offset(e), Message: "this form of loop is not supported"})
		return broken()
	}
	over := j.expr(l.over, n)
	if l.macro == macroBind {
		return j.bind(l, over, n)
	}
	if over.broken {
		return broken()
	}
	size := interval{lo: zero}
	item := known{form: formMixed, schema: anything}
	if over.form == formList {
		if len(over.items) > 0 {
			item = over.items[0]
			for _, other := range over.items[1:] {
				item = union(item, other)
			}
		}
		size = between(0, int64(len(over.items)))
	} else {
		item = known{schema: j.element(over.schema, everywhere), notation: inside(over.notation)}
		size = j.lengths(over.schema, isList)
	}
	item.from = over.at.index(0)
	inner := n.with(l.name, item)
	if size.empty || size.hi != nil && size.hi.Sign() == 0 {
		// The body is never reached.
		inner = n.with(l.name, known{schema: nothing})
		size = between(0, 0)
	}
	var yes, no facts
	certain := true
	if l.test != nil {
		test := operand{l.test, j.truth(j.expr(l.test, inner))}
		if !j.condition(test, l.macro+" takes a condition") {
			certain = false
		}
		yes, no = test.known.yes, test.known.no
		size.lo = zero
	}
	switch l.macro {
	case macroCollect:
		v := j.expr(l.result, inner.learn(j, yes))
		if v.broken || !certain {
			return broken()
		}
		if v.form != formJSON {
			return known{form: formMixed, schema: anything}
		}
		out := known{notation: inside(v.notation), schema: listOf(v.schema, size)}
		if v.notation != byValue {
			out.notation = anyNotation
		}
		if l.result.Kind() == ast.IdentKind && l.result.AsIdent() == l.name {
			out.notation = over.notation
		}
		return out
	}
	out := boolean()
	out.broken = !certain
	at := over.at
	if at == nil || over.form != formJSON {
		return out
	}
	one := 1
	every := func(f facts) facts {
		if s := f[l.name]; s != nil {
			return fact(at, schemas.Make(schemas.Keywords{Types: []string{"array"}, Items: s}))
		}
		return nil
	}
	some := fact(at, schemas.Make(schemas.Keywords{Types: []string{"array"}, MinItems: &one}))
	switch l.macro {
	case macroAll:
		out.yes, out.no = every(yes), some
	case macroExists:
		out.yes, out.no = some, every(no)
	case macroOne:
		out.yes = some
	}
	return out
}

// bind judges an expression in which a value has a name.
func (j *judge) bind(l loop, v known, n names) known {
	inner := n.with(l.name, v)
	if v.at != nil && v.form == formJSON {
		// Facts about the value stay with the name.
		inner.set(l.name, known{schema: v.schema, notation: v.notation, at: &location{name: l.name}, local: true, from: v.at})
	}
	if v.form != formJSON {
		v.local = true
		inner.set(l.name, v)
	}
	out := j.expr(l.result, inner)
	out.yes, out.no = out.yes.without(l.name), out.no.without(l.name)
	if out.at != nil && out.at.name == l.name {
		out.at = nil
	}
	return out
}
