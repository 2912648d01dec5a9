package expr

import (
	"maps"
	"slices"

	"chimera.ai/engine/schemas"
)

// facts maps names to schemas that their values satisfy in addition. A name without
// an entry can be anything.
type facts map[string]*schemas.Schema

// fact returns the fact that the value at a place is one of s.
func fact(at *location, s *schemas.Schema) facts {
	if at == nil {
		return nil
	}
	return facts{at.name: at.of(s)}
}

// and returns the facts known if both hold.
func (f facts) and(g facts) facts {
	switch {
	case len(f) == 0:
		return g
	case len(g) == 0:
		return f
	}
	out := maps.Clone(f)
	for name, s := range g {
		if own, ok := out[name]; ok {
			s = both(own, s)
		}
		out[name] = s
	}
	return out
}

// or returns the facts known if one of them holds.
func (f facts) or(g facts) facts {
	out := facts{}
	for name, s := range f {
		if other, ok := g[name]; ok {
			out[name] = either(s, other)
		}
	}
	return out
}

// without forgets a name.
func (f facts) without(name string) facts {
	if _, ok := f[name]; !ok {
		return f
	}
	out := maps.Clone(f)
	delete(out, name)
	return out
}

// names holds what is known about each name at a place of an expression. They are
// few, so a list is smaller than a map.
type names []named

type named struct {
	name string
	known
}

// of returns what is known about a name, or false if it does not exist.
func (n names) of(name string) (known, bool) {
	for i := range n {
		if n[i].name == name {
			return n[i].known, true
		}
	}
	return known{}, false
}

// set changes what is known about a name, or adds one. Like append, it returns the
// list.
func (n names) set(name string, v known) names {
	for i := range n {
		if n[i].name == name {
			n[i].known = v
			return n
		}
	}
	return append(n, named{name, v})
}

// with declares a name.
func (n names) with(name string, v known) names {
	v.local, v.at = true, &location{name: name}
	v.yes, v.no = nil, nil
	return slices.Clone(n).set(name, v)
}

// fill records that the optional value of a name holds a value.
func (n names) fill(name string) names {
	v, ok := n.of(name)
	if !ok || v.form != formOptional {
		return n
	}
	v.full = !v.none && v.inner != nil
	return slices.Clone(n).set(name, v)
}

// learn adds facts.
func (n names) learn(j *judge, f facts) names {
	if len(f) == 0 {
		return n
	}
	out := slices.Clone(n)
	for i := range out {
		if s, ok := f[out[i].name]; ok && out[i].form == formJSON {
			out[i].schema = both(out[i].schema, s)
		}
	}
	out.relate(j, f)
	return out
}

// impossible reports whether it is proved that no values satisfy the facts.
func (n names) impossible(j *judge, f facts) bool {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if v, ok := n.of(name); ok && v.form == formJSON && j.never(v.schema) {
			return true
		}
	}
	return false
}

// relate propagates facts between value and the output of which it is a port.
func (n names) relate(j *judge, f facts) {
	value, hasValue := n.of(nameValue)
	output, hasOutput := n.of(nameOutput)
	if j.port == "" || !hasValue || !hasOutput || value.local || output.local {
		return
	}
	of, whole := f[nameValue], f[nameOutput]
	if j.port == portWhole {
		if of != nil {
			output.schema = both(output.schema, of)
		}
		if whole != nil {
			value.schema = both(value.schema, whole)
		}
	} else {
		if of != nil {
			output.schema = both(output.schema, (&location{name: nameOutput}).key(j.port).of(of))
		}
		if whole != nil {
			value.schema = both(value.schema, j.property(output.schema, j.port))
		}
	}
	n.set(nameValue, value).set(nameOutput, output)
}
