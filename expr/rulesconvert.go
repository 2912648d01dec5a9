package expr

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"

	"chimera.ai/engine/schemas"
)

// Strings that conversions accept for certain.
var (
	wholeText     = texts(`^[+-]?[0-9]{1,18}$`)
	naturalText   = texts(`^[0-9]{1,18}$`)
	decimalText   = texts(`^[+-]?[0-9]{1,300}(\.[0-9]{1,300})?$`)
	timestampText = texts(`^[1-8][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`)
	durationText  = texts(`^[0-9]{1,6}(h|m|s|ms)$`)
	boolText      = schemas.Make(schemas.Keywords{Enum: []any{"1", "t", "true", "TRUE", "True", "0", "f", "false", "FALSE", "False"}})
)

// texts is the schema of strings that a pattern finds. It is nil where patterns
// of schemas do not mean what patterns of expressions do.
func texts(pattern string) *schemas.Schema {
	known := strings.NewReplacer(`\\`, "", `\.`, "").Replace(pattern)
	if strings.Contains(known, ".") || strings.Contains(known, `\s`) || strings.Contains(known, `\S`) || strings.Contains(known, "(?") {
		return nil
	}
	text, err := json.Marshal(map[string]any{"type": "string", "pattern": pattern})
	if err != nil {
		return nil
	}
	s, err := schemas.Compile(text)
	if err != nil {
		return nil
	}
	return s
}

// parses judges a conversion of a string, which is done beforehand if it is known.
func (j *judge) parses(e ast.Expr, s operand, sure *schemas.Schema, to *types.Type, out known) known {
	if text, ok := s.known.text(); ok {
		v := types.String(text).ConvertToType(to)
		if n, ok := v.(types.Int); ok && out.form == formJSON {
			out.schema = exactly(json.Number(strconv.FormatInt(int64(n), 10)))
		}
		if !types.IsError(v) {
			return out
		}
		j.report(Problem{Kind: Wrong, Offset: j.offset(e), Message: render(s.expr) + " is no " + called(e)})
		out.broken = true
		return out
	}
	if j.proves(s.known.schema, sure) {
		return out
	}
	p := Problem{Kind: MayFail, Offset: j.offset(e), Message: render(s.expr) + " is not proved to be text of " + article(called(e))}
	if pattern := sure.Compiled().Pattern; pattern != nil {
		p.Hint = render(s.expr) + ".matches(r\"" + pattern.String() + "\") ? " + render(e) + " : …"
	}
	if at := s.known.at; at != nil {
		at.within(j, both(ofKind[isText], not(sure)), &p)
	}
	j.report(p)
	out.broken = true
	return out
}

func article(name string) string {
	if strings.HasPrefix(name, "int") {
		return "an " + name
	}
	return "a " + name
}

// conversion judges what a conversion takes: text, or numbers of a range.
func (j *judge) conversion(e ast.Expr, s operand, sure *schemas.Schema, to *types.Type, in interval, out func(interval) known) known {
	if s.known.form != formJSON {
		j.report(Problem{Kind: Wrong, Offset: j.offset(e), Message: called(e) + " cannot convert " + j.describe(s.known)})
		return broken()
	}
	if !j.takes(called(e), []operand{s}, isText|isNumber) {
		return broken()
	}
	have := j.refined(s.known.schema)
	result := known{schema: nothing}
	if have&isText != 0 {
		result = out(in)
		if have&isNumber != 0 {
			text := s
			text.known.schema = both(s.known.schema, ofKind[isText])
			result = j.parses(e, text, sure, to, result)
		} else {
			result = j.parses(e, s, sure, to, result)
		}
	}
	if have&isNumber != 0 && !result.broken {
		n := j.numbers(s.known.schema)
		if !n.inside(in) {
			j.beyond(e, []operand{s}, []interval{n}, in, render(s.expr)+" can be "+n.String())
			result := out(in)
			result.broken = true
			return result
		}
		if have&isText == 0 {
			return out(n)
		}
	}
	return result
}

func intRule(j *judge, e ast.Expr, s []operand) known {
	switch s[0].known.form {
	case formTimestamp, formDuration:
		return ofSchema(int64s.schema(true))
	}
	// The ends are excluded: the double next to 2^63 is not below it.
	safe := interval{lo: minInt64, hi: maxInt64}
	if !j.only(s[0].known.schema, isWhole|isText) || s[0].known.notation != byValue {
		safe = between(-1<<62, 1<<62)
	}
	return j.conversion(e, s[0], wholeText, types.IntType, safe, func(n interval) known {
		return ofSchema(truncated(n).schema(true))
	})
}

// truncated holds the whole numbers next to those of n.
func truncated(n interval) interval {
	if n.empty || n.lo == nil || n.hi == nil {
		return n
	}
	up := floor(neg(n.hi))
	return interval{lo: new(big.Rat).SetInt(floor(n.lo)), hi: new(big.Rat).SetInt(up.Neg(up))}
}

func uintRule(j *judge, e ast.Expr, s []operand) known {
	safe := interval{lo: zero, hi: maxInt64}
	if !j.only(s[0].known.schema, isWhole|isText) || s[0].known.notation == asDouble || s[0].known.notation == anyNotation {
		safe = between(0, 1<<62)
	}
	return j.conversion(e, s[0], naturalText, types.UintType, safe, func(n interval) known {
		return known{schema: truncated(n).schema(true), notation: asUint}
	})
}

func doubleRule(j *judge, e ast.Expr, s []operand) known {
	j.double(e)
	return j.conversion(e, s[0], decimalText, types.DoubleType, doubles, func(n interval) known {
		return known{schema: n.rounded().schema(false), notation: asDouble}
	})
}

func stringRule(j *judge, e ast.Expr, s []operand) known {
	switch s[0].known.form {
	case formTimestamp, formDuration:
		return ofSchema(ofKind[isText])
	case formBytes:
		j.report(Problem{Kind: MayFail, Offset: j.offset(e), Message: render(s[0].expr) + " may not be UTF-8, so that it cannot be a string"})
		return broken()
	}
	if !j.takes("string", s, isText|isNumber|isBool) {
		return known{schema: ofKind[isText], broken: true}
	}
	if v, ok := s[0].known.value(); ok {
		switch v := v.(type) {
		case string:
			return constant(v)
		case bool:
			if v {
				return constant("true")
			}
			return constant("false")
		}
	}
	if j.only(s[0].known.schema, isText) {
		return ofSchema(s[0].known.schema)
	}
	n := 1
	if have := j.refined(s[0].known.schema); have&isText != 0 {
		return ofSchema(ofKind[isText])
	}
	return ofSchema(schemas.Make(schemas.Keywords{Types: []string{"string"}, MinLength: &n}))
}

func boolRule(j *judge, e ast.Expr, s []operand) known {
	if !j.takes("bool", s, isText|isBool) {
		return known{schema: ofKind[isBool], broken: true}
	}
	have := j.refined(s[0].known.schema)
	if have == isBool {
		return s[0].known
	}
	text := s[0]
	if have != isText {
		text.known.schema = both(text.known.schema, ofKind[isText])
	}
	return j.parses(e, text, boolText, types.BoolType, boolean())
}

func bytesRule(j *judge, e ast.Expr, s []operand) known {
	out := known{form: formBytes, schema: anything}
	if s[0].known.form != formBytes {
		out.broken = !j.takes("bytes", s, isText)
	}
	return out
}

func timestampRule(j *judge, e ast.Expr, s []operand) known {
	out := known{form: formTimestamp, schema: anything}
	if s[0].known.form == formTimestamp {
		return out
	}
	return j.conversion(e, s[0], timestampText, types.TimestampType, between(-62135596800, 253402300799), func(interval) known { return out })
}

func durationRule(j *judge, e ast.Expr, s []operand) known {
	out := known{form: formDuration, schema: anything}
	if s[0].known.form == formDuration {
		return out
	}
	if !j.takes("duration", s, isText) {
		return broken()
	}
	return j.parses(e, s[0], durationText, types.DurationType, out)
}

// decimalRule judges decimal(n, places).
func decimalRule(j *judge, e ast.Expr, s []operand) known {
	if !j.takes(functionDecimal, s, isWhole) {
		return known{schema: ofKind[isNumber], broken: true}
	}
	in := [2]interval{}
	for i, limit := range []interval{int64s, between(0, maxPlaces)} {
		if s[i].known.notation != byValue {
			j.report(Problem{Kind: MayFail, Offset: j.offset(s[i].expr), Message: "decimal takes ints; " + render(s[i].expr) + " is a double or has no sign",
				Hint: "int(" + render(s[i].expr) + ")"})
			return known{schema: ofKind[isNumber], broken: true}
		}
		if in[i] = j.numbers(s[i].known.schema).whole(); in[i].empty {
			return ofSchema(nothing)
		}
		if !in[i].inside(limit) {
			j.beyond(e, s[i:i+1], in[i:i+1], limit, render(s[i].expr)+" can be "+in[i].String()+", and decimal takes "+limit.String())
			return known{schema: ofKind[isNumber], broken: true}
		}
	}
	out := interval{empty: true}
	for _, places := range []*big.Rat{in[1].lo, in[1].hi} {
		tenth := new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Exp(big.NewInt(10), places.Num(), nil))
		out = out.hull(interval{lo: new(big.Rat).Mul(in[0].lo, tenth), hi: new(big.Rat).Mul(in[0].hi, tenth)})
	}
	return ofSchema(out.schema(false))
}
