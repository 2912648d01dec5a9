package expr

import (
	"cel.dev/cel-go/common/ast"
)

// chain goes on with what an optional value holds, if it is one: what is
// selected from it is optional too.
func (j *judge) chain(of known, next func(inner known) known) known {
	if of.broken {
		return broken()
	}
	if of.form != formOptional {
		return next(of)
	}
	if of.none || of.inner == nil {
		return of
	}
	out := next(*of.inner)
	out.full = out.full && of.full
	return out
}

// optionalKey judges value.?key.
func (j *judge) optionalKey(of known, key string, e ast.Expr) known {
	if !j.notList(of, key, j.offset(e)) {
		return broken()
	}
	inner := known{schema: j.property(of.schema, key), notation: inside(of.notation), at: of.at.key(key)}
	out := optional(inner, j.holdsKey(of.schema, key))
	return out
}

// optionalIndex judges value[?i].
func (j *judge) optionalIndex(e ast.Expr, of, i operand) known {
	if of.known.broken || i.known.broken {
		return broken()
	}
	if of.known.form != formJSON || i.known.form != formJSON {
		return j.index(e, of, i)
	}
	if key, ok := i.known.text(); ok {
		return j.optionalKey(of.known, key, e)
	}
	have := j.refined(of.known.schema)
	want, why := isWhole|isText, "what is looked up is a whole number or a string"
	if have&isList != 0 {
		want, why = isWhole, "an index of a list is a whole number"
	}
	if !j.demand(i, want, why) {
		return broken()
	}
	item := known{schema: nothing, notation: inside(of.known.notation)}
	if have&isList != 0 {
		item.schema = j.element(of.known.schema, everywhere)
		if v, ok := i.known.value(); ok {
			if n, ok := smallIndex(v); ok {
				item.schema, item.at = j.element(of.known.schema, n), of.known.at.index(n)
			}
		}
	}
	if have&isMap != 0 && !j.only(i.known.schema, isAny&^isText) {
		item.schema = anything
		item.at = nil
	}
	return optional(item, false)
}

// hasValue judges optional.hasValue().
func (j *judge) hasValue(s operand) known {
	out, of := boolean(), s.known
	if s.expr.Kind() == ast.IdentKind {
		out.filled = s.expr.AsIdent()
	}
	switch {
	case of.none:
		return constant(false)
	case of.full:
		return constant(true)
	}
	if of.inner != nil && of.inner.at != nil {
		out.yes = fact(of.inner.at, anything)
	}
	return out
}

// orValue judges optional.orValue(other).
func (j *judge) orValue(of, other known) known {
	switch {
	case of.none || of.inner == nil:
		return other
	case of.full:
		return *of.inner
	}
	return union(*of.inner, other)
}

// unwrap judges what is left of a list of optional values.
func (j *judge) unwrap(e ast.Expr, s operand) known {
	if v, ok := s.known.value(); ok {
		if all, ok := v.([]any); ok && len(all) == 0 {
			return s.known
		}
	}
	if s.known.form != formList {
		j.report(Problem{Kind: Wrong, Offset: j.offset(e), Message: "unwrap takes a list of optional values; this is " + j.describe(s.known)})
		return broken()
	}
	out := known{notation: byValue}
	item, least, most := nothing, 0, 0
	for _, o := range s.known.items {
		if o.form != formOptional {
			j.report(Problem{Kind: Wrong, Offset: j.offset(e), Message: "unwrap takes a list of optional values; one of them is " + j.describe(o)})
			return broken()
		}
		if o.none || o.inner == nil {
			continue
		}
		if o.inner.form != formJSON {
			return known{form: formMixed, schema: anything}
		}
		if o.inner.notation != byValue {
			out.notation = anyNotation
		}
		item = either(item, o.inner.schema)
		most++
		if o.full {
			least++
		}
	}
	out.schema = listOf(item, between(int64(least), int64(most)))
	return out
}
