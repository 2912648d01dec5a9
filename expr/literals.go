package expr

import (
	"slices"

	"cel.dev/cel-go/common/ast"

	"chimera.ai/engine/schemas"
)

// list judges a list literal.
func (j *judge) list(e ast.Expr, n names) known {
	l := e.AsList()
	optional := map[int32]bool{}
	for _, i := range l.OptionalIndices() {
		optional[i] = true
	}
	out := known{notation: byValue}
	k := schemas.Keywords{Types: []string{"array"}}
	least, most := 0, 0
	alien := false
	var items []known
	exact := len(optional) == 0 && l.Size() <= maxPrefix
	var any *schemas.Schema
	for i, item := range l.Elements() {
		v := j.expr(item, n)
		if optional[int32(i)] {
			if v.form != formOptional {
				j.report(Problem{Kind: Wrong, Offset: j.offset(item), Message: "what stands after ? in a list must be an optional value"})
				return broken()
			}
			if v.none || v.inner == nil {
				continue
			}
			least--
			v = *v.inner
		}
		least, most = least+1, most+1
		items = append(items, v)
		if v.broken {
			out.broken = true
			continue
		}
		if v.form != formJSON {
			alien = true
			continue
		}
		if v.notation != byValue {
			out.notation = anyNotation
		}
		if any == nil {
			any = v.schema
		} else if !exact {
			any = either(any, v.schema)
		}
		k.Prefix = append(k.Prefix, v.schema)
	}
	if out.broken {
		return broken()
	}
	if alien {
		return known{form: formList, schema: anything, items: items}
	}
	k.MinItems, k.MaxItems = &least, &most
	if !exact {
		k.Prefix, k.Items = nil, any
	}
	if v, ok := constants(items); ok && exact {
		out.schema = exactly(v)
		return out
	}
	out.schema = schemas.Make(k)
	return out
}

// constants gives the list of the values, if each is known.
func constants(items []known) ([]any, bool) {
	out := make([]any, 0, len(items))
	for _, k := range items {
		v, ok := k.value()
		if !ok {
			return nil, false
		}
		out = append(out, v)
	}
	return out, true
}

// object judges a map literal.
func (j *judge) object(e ast.Expr, n names) known {
	k := schemas.Keywords{Types: []string{"object"}, Properties: map[string]*schemas.Schema{}, Rest: nothing}
	out := known{}
	var rest *schemas.Schema
	for _, entry := range e.AsMap().Entries() {
		m := entry.AsMapEntry()
		key, v := j.expr(m.Key(), n), j.expr(m.Value(), n)
		if key.broken || v.broken {
			out.broken = true
			continue
		}
		if !j.demand(operand{m.Key(), key}, isText, "the keys of an object are strings") {
			out.broken = true
			continue
		}
		if m.IsOptional() {
			if v.form != formOptional {
				j.report(Problem{Kind: Wrong, Offset: j.offset(m.Value()), Message: "what stands at ? in an object must be an optional value"})
				out.broken = true
				continue
			}
			if v.none || v.inner == nil {
				continue
			}
			full := v.full
			v = *v.inner
			if name, ok := key.text(); ok && full && !slices.Contains(k.Required, name) {
				k.Required = append(k.Required, name)
			}
		} else if name, ok := key.text(); ok && !slices.Contains(k.Required, name) {
			k.Required = append(k.Required, name)
		}
		if v.form != formJSON {
			j.report(Problem{Kind: Wrong, Offset: j.offset(m.Value()), Message: "an object cannot hold " + j.describe(v)})
			out.broken = true
			continue
		}
		if v.notation != byValue {
			out.notation = anyNotation
		}
		name, fixed := key.text()
		switch {
		case !fixed && rest == nil:
			rest = v.schema
		case !fixed:
			rest = either(rest, v.schema)
		case k.Properties[name] != nil:
			k.Properties[name] = either(k.Properties[name], v.schema)
		default:
			k.Properties[name] = v.schema
		}
	}
	if out.broken {
		return broken()
	}
	if rest != nil {
		// A key that is computed may be one of the others.
		k.Rest = rest
		for name, s := range k.Properties {
			k.Properties[name] = either(s, rest)
		}
	}
	out.schema = schemas.Make(k)
	return out
}
