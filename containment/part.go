package containment

import (
	"slices"

	"chimera.ai/engine/schemas"
)

// maxWays bounds the alternatives of a schema from which parts are gathered.
const maxWays = 96

// Property returns a schema of every value that the property name can have in an
// object that is a value of s, and False if it can have none. The schema may admit
// more values, but never fewer. If s is a plain object, it is the subschema itself; if
// s has alternatives, those that contradict the rest are ignored. Property does not
// panic. If the steps run out, the schema is coarser, at worst True.
func Property(s *schemas.Schema, name string, o Options) *schemas.Schema {
	return part(s, o, member{name: name})
}

// Element returns a schema of every value that can be at index, from 0, in a list that
// is a value of s, or at any index if index is negative. It is False if there is none.
// Element is to lists what [Property] is to objects.
func Element(s *schemas.Schema, index int, o Options) *schemas.Schema {
	return part(s, o, member{list: true, index: max(index, -1)})
}

// member names a part of a value.
type member struct {
	list  bool
	name  string
	index int
}

func part(s *schemas.Schema, o Options, m member) *schemas.Schema {
	if s == nil {
		return schemas.True()
	}
	p := newProver(o.steps())
	p.part = true
	if o.Spent != nil {
		defer func() { *o.Spent += 1 + p.spent + o.steps() - max(p.left, 0) }()
	}
	root := s.Compiled()
	for depth := 0; depth < 64 && onlyRef(root); depth++ {
		root = root.Ref
	}
	if plainSchema(root) {
		if own, ok := m.own(root); ok && !p.dynamic(own...) {
			return join([][]lit{positive(own)}, nil)
		}
	}
	if ways, ok := p.gather(root, m); ok {
		return join(ways, p.wild)
	}
	return p.coarsely(root, m)
}

func positive(all []*schema) []lit {
	out := make([]lit, 0, len(all))
	for _, s := range all {
		out = append(out, lit{s, false})
	}
	return out
}

// plainSchema reports whether s holds no other schema that applies to the same
// value, and lists no values.
func plainSchema(s *schema) bool {
	return inplaceFree(s) && len(s.Enum)+len(s.Constant) == 0 && s.UnevaluatedProperties == nil && s.UnevaluatedItems == nil && len(s.Extensions) == 0
}

// own returns all that a plain schema itself demands of the part. ok is false if that
// takes a closer look.
func (m member) own(s *schema) (parts []*schema, ok bool) {
	none := []*schema{nothing}
	if m.list {
		if !admits(s, "array") || s.MaxItems == 0 || s.MaxItems > 0 && m.index >= s.MaxItems {
			return none, true
		}
		prefix, rest := elements(s)
		switch {
		case m.index >= 0 && m.index < len(prefix):
			return prefix[m.index : m.index+1], true
		case m.index < 0 && len(prefix) > 0:
			return nil, false
		case rest != nil:
			return []*schema{rest}, true
		}
		return nil, true
	}
	if !admits(s, "object") || s.MaxProperties == 0 {
		return none, true
	}
	if s.PropertyNames != nil && !always(s.PropertyNames) || s.MaxProperties > 0 {
		return nil, false
	}
	return memberOf(s, m.name), true
}

// memberOf returns all that s itself demands of the value at k.
func memberOf(s *schema, k string) (parts []*schema) {
	if c := s.Properties[k]; c != nil {
		parts = append(parts, c)
	}
	for _, re := range patternsOf(s) {
		if re.MatchString(k) {
			parts = append(parts, s.PatternProperties[re])
		}
	}
	if len(parts) > 0 {
		return parts
	}
	switch more := s.AdditionalProperties.(type) {
	case bool:
		if !more {
			return []*schema{nothing}
		}
	case *schema:
		return []*schema{more}
	}
	return nil
}

// gather finds all alternatives of s and what each demands of the part.
func (p *prover) gather(s *schema, m member) (ways [][]lit, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			ways, ok = nil, false
		}
	}()
	kind := "object"
	if m.list {
		kind = "array"
	}
	p.survey(s)
	if !admits(s, kind) {
		return nil, true
	}
	add := func(lits []lit) {
		ways = append(ways, lits)
		if len(ways) > maxWays {
			panic(exhausted{})
		}
	}
	p.depth = 1
	c := newConj(kind, []lit{{s, false}})
	c.gather = func(c *conj, values []any) {
		if values == nil {
			p.alternative(c, m, add)
			return
		}
		for _, v := range values {
			if yes, sure := p.check(c.goal, v); yes || !sure {
				for _, e := range m.of(v) {
					add([]lit{{p.constant(e), false}})
				}
			}
		}
	}
	p.expand(c)
	return ways, true
}

// of returns the values at the part of v.
func (m member) of(v any) []any {
	switch v := v.(type) {
	case map[string]any:
		if e, ok := v[m.name]; ok && !m.list {
			return []any{e}
		}
	case []any:
		switch {
		case !m.list || m.index >= len(v):
		case m.index >= 0:
			return v[m.index : m.index+1]
		default:
			return v
		}
	}
	return nil
}

// alternative adds what one alternative demands of the part, if it admits the part.
func (p *prover) alternative(c *conj, m member, add func([]lit)) {
	if !m.list {
		base := append(c.base[:len(c.base):len(c.base)], atom{op: required, key: m.name})
		if p.contradictory(base) || p.object(base).state == empty {
			return
		}
		var lits []lit
		for _, a := range c.base {
			if (a.op == every || a.op == some && a.class.named) && a.class.has(m.name) {
				lits = append(lits, a.lit)
			}
		}
		add(lits)
		return
	}
	edge := 0
	for _, a := range c.base {
		if a.op == every || a.op == some {
			if edge = max(edge, a.from); a.to < unlimited {
				edge = max(edge, a.to)
			}
		}
	}
	from, to := m.index, m.index
	if m.index < 0 {
		from, to = 0, edge
	}
	for i := from; i <= to; i++ {
		base := append(c.base[:len(c.base):len(c.base)], atom{op: minLen, n: i + 1})
		if p.list(base).state == empty {
			return // longer lists neither
		}
		var lits []lit
		for _, a := range c.base {
			if (a.op == every || a.op == some && a.to == a.from+1) && a.from <= i && i < a.to {
				lits = append(lits, a.lit)
			}
		}
		add(lits)
	}
}

// contradictory reports whether a key both must and must not be present.
func (p *prover) contradictory(base []atom) bool {
	return slices.ContainsFunc(base, func(a atom) bool {
		return a.op == absent && slices.ContainsFunc(base, func(b atom) bool { return b.op == required && b.key == a.key })
	})
}

// coarsely considers what must hold in any case, and then each alternative alone.
func (p *prover) coarsely(s *schema, m member) *schemas.Schema {
	if p.dynamic(s) {
		return schemas.True()
	}
	const most = 2000
	left := most
	defer func() { p.spent += most - max(left, 0) }()
	var conjunction func(s *schema) *schemas.Schema
	conjunction = func(s *schema) *schemas.Schema {
		if left--; left < 0 {
			return schemas.True()
		}
		if s.Always != nil && !*s.Always {
			return schemas.False()
		}
		var all []*schemas.Schema
		put := func(c *schemas.Schema) {
			if !always(c.Compiled()) && !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
		if own, ok := m.own(s); ok {
			put(join([][]lit{positive(own)}, p.wild))
		}
		refs, _ := p.references(s)
		for _, c := range slices.Concat(refs, s.AllOf) {
			put(conjunction(c))
		}
		for _, l := range [][]*schema{s.AnyOf, s.OneOf} {
			if len(l) == 0 {
				continue
			}
			var any []*schemas.Schema
			for _, c := range l {
				any = append(any, conjunction(c))
			}
			put(union(any))
		}
		switch {
		case slices.Contains(all, schemas.False()):
			return schemas.False()
		case len(all) == 0:
			return schemas.True()
		case len(all) == 1:
			return all[0]
		}
		return schemas.Make(schemas.Keywords{All: all})
	}
	return conjunction(s)
}

func union(all []*schemas.Schema) *schemas.Schema {
	var out []*schemas.Schema
	for _, s := range all {
		switch a := s.Compiled().Always; {
		case a != nil && *a:
			return schemas.True()
		case a == nil && !slices.ContainsFunc(out, func(o *schemas.Schema) bool { return o == s || o.Compiled() == s.Compiled() }):
			out = append(out, s)
		}
	}
	switch len(out) {
	case 0:
		return schemas.False()
	case 1:
		return out[0]
	}
	return schemas.Make(schemas.Keywords{Any: out})
}

// join returns the schema of alternatives, without the parts whose meaning depends on
// their place.
func join(ways [][]lit, wild map[*schema]bool) *schemas.Schema {
	var all []*schemas.Schema
	var seen [][]lit
	var values []any
	for _, lits := range ways {
		lits = slices.DeleteFunc(slices.Clone(lits), func(l lit) bool {
			return wild[l.s] || l.s.Always != nil && *l.s.Always != l.neg
		})
		for i := 1; i < len(lits); i++ {
			if slices.Contains(lits[:i], lits[i]) {
				lits = slices.Delete(lits, i, i+1)
				i--
			}
		}
		if len(lits) == 0 {
			return schemas.True()
		}
		if slices.ContainsFunc(lits, func(l lit) bool { return l.s.Always != nil }) ||
			slices.ContainsFunc(seen, func(o []lit) bool { return slices.Equal(o, lits) }) {
			continue // nothing, or what is there already
		}
		seen = append(seen, lits)
		if l := lits[0]; len(lits) == 1 && !l.neg && l.s.Location == made && len(l.s.Constant) > 0 {
			values = append(values, l.s.Constant[0])
			continue
		}
		all = append(all, conjoin(lits))
	}
	if len(values) > 0 {
		all = append(all, schemas.Make(schemas.Keywords{Enum: values}))
	}
	return union(all)
}

func conjoin(lits []lit) *schemas.Schema {
	var all []*schemas.Schema
	for _, l := range lits {
		s := schemas.Wrap(l.s)
		if l.neg {
			s = schemas.Make(schemas.Keywords{Not: s})
		}
		all = append(all, s)
	}
	if len(all) == 1 {
		return all[0]
	}
	return schemas.Make(schemas.Keywords{All: all})
}
