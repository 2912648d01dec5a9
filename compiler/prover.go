package compiler

import (
	"chimera.ai/engine/containment"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// prover keeps what was proved and made in one compilation. Schemas are known
// by their pointer, so what is derived is derived once.
type prover struct {
	*budget
	questions map[proofKey]containment.Result
	pairs     map[[2]*schemas.Schema]containment.Result
	distinct  map[[2]*schemas.Schema]containment.Result
	parts     map[part]*schemas.Schema
	made      map[made]*schemas.Schema
	whole     *schemas.Schema
}

// part is a property of an object, or with no name an element of a list.
type part struct {
	of      *schemas.Schema
	name    string
	element bool
}

// made is a schema that was put together from others.
type made struct {
	form string
	a, b *schemas.Schema
	n    int
}

func newProver(b *budget) *prover {
	return &prover{
		budget: b, questions: map[proofKey]containment.Result{},
		pairs: map[[2]*schemas.Schema]containment.Result{}, distinct: map[[2]*schemas.Schema]containment.Result{},
		parts: map[part]*schemas.Schema{}, made: map[made]*schemas.Schema{}, whole: schemas.True(),
	}
}

// within decides whether every value of left is one of right.
func (p *prover) within(left, right *schemas.Schema) containment.Result {
	if left == right {
		return containment.Result{Verdict: containment.Proved}
	}
	key := [2]*schemas.Schema{left, right}
	r, ok := p.pairs[key]
	if !ok {
		r = p.proof(func(o containment.Options) containment.Result { return containment.Prove(left, right, o) })
		p.pairs[key] = r
	}
	return r
}

// holds reports whether it is proved that every value of left is one of right.
func (p *prover) holds(left, right *schemas.Schema) bool {
	return p.within(left, right).Verdict == containment.Proved
}

// anything reports whether it is proved that a schema takes every value.
func (p *prover) anything(s *schemas.Schema) bool {
	if c := s.Compiled(); len(c.Constant) > 0 || len(c.Types) == 1 {
		return false
	}
	return p.holds(p.whole, s)
}

// disjoint reports whether it is proved that no value is in both.
func (p *prover) disjoint(a, b *schemas.Schema) bool {
	key := [2]*schemas.Schema{a, b}
	r, ok := p.distinct[key]
	if !ok {
		r = p.proof(func(o containment.Options) containment.Result { return containment.Disjoint(a, b, o) })
		p.distinct[key] = r
	}
	return r.Verdict == containment.Proved
}

// sample is a value of s, if one is found.
func (p *prover) sample(s *schemas.Schema) (any, bool) {
	r := p.proof(func(o containment.Options) containment.Result { return containment.Empty(s, o) })
	return r.Witness, r.Verdict == containment.Refuted
}

// property is a schema of what stands at a port of an object of s; `$` is s.
func (p *prover) property(s *schemas.Schema, port string) *schemas.Schema {
	if port == plan.WholePort {
		return s
	}
	key := part{of: s, name: port}
	x, ok := p.parts[key]
	if !ok {
		p.proof(func(o containment.Options) containment.Result {
			steps := 0
			o.Spent = &steps
			x = containment.Property(s, port, o)
			return containment.Result{Steps: steps}
		})
		if x == nil {
			x = p.whole
		}
		p.parts[key] = x
	}
	return x
}

// element is a schema of what can stand in a list of s.
func (p *prover) element(s *schemas.Schema) *schemas.Schema {
	key := part{of: s, element: true}
	x, ok := p.parts[key]
	if !ok {
		p.proof(func(o containment.Options) containment.Result {
			steps := 0
			o.Spent = &steps
			x = containment.Element(s, -1, o)
			return containment.Result{Steps: steps}
		})
		if x == nil {
			x = p.whole
		}
		p.parts[key] = x
	}
	return x
}

// make puts a schema together once.
func (p *prover) make(key made, k func() schemas.Keywords) *schemas.Schema {
	s, ok := p.made[key]
	if !ok {
		s = schemas.Make(k())
		p.made[key] = s
	}
	return s
}

// list is the lists of items of s, of at most n of them if n ≥ 0.
func (p *prover) list(s *schemas.Schema, n int) *schemas.Schema {
	return p.make(made{form: "list", a: s, n: n}, func() schemas.Keywords {
		k := schemas.Keywords{Types: []string{"array"}, Items: s}
		if n >= 0 {
			k.MaxItems = &n
		}
		return k
	})
}

// either is the values of a or b.
func (p *prover) either(a, b *schemas.Schema) *schemas.Schema {
	switch {
	case a == nil || a == b:
		return b
	case b == nil:
		return a
	}
	return p.make(made{form: "either", a: a, b: b}, func() schemas.Keywords {
		return schemas.Keywords{Any: []*schemas.Schema{a, b}}
	})
}

// both is the values of a that are values of b.
func (p *prover) both(a, b *schemas.Schema) *schemas.Schema {
	if a == b {
		return a
	}
	return p.make(made{form: "both", a: a, b: b}, func() schemas.Keywords {
		return schemas.Keywords{All: []*schemas.Schema{a, b}}
	})
}

// typed is the values of one JSON type.
func (p *prover) typed(name string) *schemas.Schema {
	return p.make(made{form: "type " + name}, func() schemas.Keywords {
		return schemas.Keywords{Types: []string{name}}
	})
}

// having is the objects that have a property.
func (p *prover) having(name string) *schemas.Schema {
	return p.make(made{form: "having " + name}, func() schemas.Keywords {
		return schemas.Keywords{Types: []string{"object"}, Required: []string{name}}
	})
}

// being is the one value true or false.
func (p *prover) being(b bool) *schemas.Schema {
	form := "false"
	if b {
		form = "true"
	}
	return p.make(made{form: form}, func() schemas.Keywords { return constant(b) })
}

func constant(v any) schemas.Keywords { return schemas.Keywords{Const: []any{v}} }
