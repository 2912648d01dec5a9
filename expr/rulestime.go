package expr

import (
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"

	"chimera.ai/engine/schemas"
)

// momentRule is for methods of timestamps, and of durations, which know no bound.
func momentRule(result *schemas.Schema) rule {
	return func(j *judge, e ast.Expr, s []operand) known {
		switch s[0].known.form {
		case formTimestamp:
			return ofSchema(result)
		case formDuration:
			if ofDuration(called(e)) {
				return ofSchema(int64s.schema(true))
			}
		}
		j.report(Problem{Kind: Wrong, Offset: j.offset(e), Message: called(e) + " is for timestamps and durations; " + render(s[0].expr) + " is " + j.describe(s[0].known),
			Hint: "timestamp(" + render(s[0].expr) + ")." + called(e) + "()"})
		return broken()
	}
}

// ofDuration reports whether durations have the method too.
func ofDuration(name string) bool {
	switch name {
	case overloads.TimeGetHours, overloads.TimeGetMinutes, overloads.TimeGetSeconds, overloads.TimeGetMilliseconds:
		return true
	}
	return false
}

// instants judges operators on timestamps, durations and bytes, whose ranges are
// not followed.
func (j *judge) instants(e ast.Expr, op string, s []operand) known {
	if len(s) == 2 {
		a, b := s[0].known.form, s[1].known.form
		if op == operators.Add && a == formBytes && b == formBytes {
			return known{form: formBytes, schema: anything}
		}
		out := formMixed
		switch {
		case a == formDuration && b == formDuration:
			out = formDuration
		case a == formTimestamp && b == formDuration, op == operators.Add && a == formDuration && b == formTimestamp:
			out = formTimestamp
		case op == operators.Subtract && a == formTimestamp && b == formTimestamp:
			out = formDuration
		}
		if out != formMixed && (op == operators.Add || op == operators.Subtract) {
			j.report(Problem{Kind: MayFail, Offset: j.offset(e), Message: "times are not followed: the result may be out of range"})
			return known{form: out, schema: anything}
		}
	}
	text := j.describe(s[0].known)
	if len(s) == 2 {
		text += " and " + j.describe(s[1].known)
	}
	j.report(Problem{Kind: Wrong, Offset: j.offset(e), Message: "the operator " + signs[op] + " is not for " + text})
	return broken()
}
