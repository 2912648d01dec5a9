package expr

import (
	"testing"

	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/debug"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"github.com/stretchr/testify/require"
)

// converted notes a conversion of every operand of every arithmetic operator.
func converted(j *judge, e ast.Expr, nodes map[int64]bool) {
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		switch args := e.AsCall().Args(); e.AsCall().FunctionName() {
		case operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo, operators.Negate:
			// What a macro wrote has no place in the source.
			if _, ok := j.code.ast.SourceInfo().GetOffsetRange(e.ID()); !ok || tokenize(j.code.src).at(j.offset(e)) != signs[e.AsCall().FunctionName()] {
				return
			}
			for i, a := range args {
				nodes[a.ID()] = true
				j.convert(e, i, len(args), a)
			}
		}
	}))
}

func (t *tokens) at(offset int) string {
	for _, one := range *t {
		if one.start == offset {
			return one.text
		}
	}
	return ""
}

// unwrapped takes double(…) away again.
func unwrapped(e ast.Expr) {
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == overloads.TypeConvertDouble && !e.AsCall().IsMemberFunction() {
			e.SetKindCase(e.AsCall().Args()[0])
		}
	}))
}

// The conversions that are written into a source stand around whole operands:
// without them it is what it was.
func FuzzConversions(f *testing.F) {
	for _, s := range []string{
		"a + b * c", "-a - -b", "(a + b) * c[d + 1]", "f(a, b + 1)", "a ? b + 1 : c * 2", "x.map(y, y + 1).filter(z, z % 2 == 0)", "'+' + r'\\' + \"a//b\" + '''q'q'''",
		"a.?b.orValue(1) + 2", "[a + 1, ?b, -c]", "{'k': a + 1, ?'l': b}", "1e-3 + .5 * 0x1F - 2u", "a // comment + 1\n + b", "a[?0] + a[-1]", "!(a + b > c) && d in [e * f]",
		"a.`b-c` + 1", "value.total * 2 - size(value.items) / 3 % 7", "((a)) + ((b + c))", "a - b - c", "a / b / c", "a in b + c", "- - a", "--a + 1", "-1 + 2", "-(1) + -x.y(z)",
	} {
		f.Add(s)
	}
	env, err := environmentOf(Transform)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, src string) {
		if len(src) > 300 {
			return
		}
		parsed, errs := env.parser.Parse(common.NewTextSource(src))
		if len(errs.GetErrors()) > 0 {
			return
		}
		j := &judge{allowance: newAllowance(Typing{}, maxCheck), code: &code{src: src, ast: parsed}}
		converted(j, parsed.Expr(), map[int64]bool{})
		if len(j.problems) > 0 {
			t.Fatalf("%q: %v", src, j.problems)
		}
		after := rewrite(src, j.edits)
		again, errs := env.parser.Parse(common.NewTextSource(after))
		if len(errs.GetErrors()) > 0 {
			if len(after) > len(src)*3 {
				return // nested too deeply, or too large
			}
			t.Fatalf("%q becomes %q, which does not parse: %v", src, after, errs.GetErrors()[0].Message)
		}
		unwrapped(again.Expr())
		unwrapped(parsed.Expr())
		if a, b := debug.ToDebugString(parsed.Expr()), debug.ToDebugString(again.Expr()); a != b {
			t.Fatalf("%q becomes %q, which is read as\n%s\nand not as\n%s", src, after, b, a)
		}
	})
}
