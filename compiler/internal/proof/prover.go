// Package proof answers the compiler's questions about schemas: whether one lies
// within another, what stands at a port, what two have in common. Each is answered
// once, within the budget of the file.
package proof

import (
	"chimera.ai/engine/containment"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// Prover answers the questions of one compilation, and caches the answers. It tells
// schemas apart by their pointers.
type Prover struct {
	Budget
	answers map[question]containment.Result
	parts   map[part]*schemas.Schema
	made    map[made]*schemas.Schema
	// Whole is the schema that accepts every value.
	Whole *schemas.Schema
}

// question asks whether every value of left is one of right, or whether no value is
// one of both. A brief one may take only FewSteps.
type question struct {
	disjoint, brief bool
	left, right     *schemas.Schema
}

// part is a property of an object, or an element of a list.
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

// New returns a prover with the budget of an empty file. rep counts the errors of
// the file.
func New(rep *fields.Reader) *Prover {
	return &Prover{
		Budget: Budget{rep: rep, Limit: MinSteps, Checks: MinSteps}, answers: map[question]containment.Result{}, parts: map[part]*schemas.Schema{}, made: map[made]*schemas.Schema{}, Whole: schemas.True(),
	}
}

// ask answers a question, once.
func (p *Prover) ask(q question) containment.Result {
	if q.left == q.right && !q.disjoint {
		return containment.Result{Verdict: containment.Proved}
	}
	r, known := p.answers[q]
	if !known {
		decide := containment.Prove
		if q.disjoint {
			decide = containment.Disjoint
		}
		run := func(o containment.Options) containment.Result { return decide(q.left, q.right, o) }
		if q.brief {
			r = p.spend(FewSteps, run)
		} else {
			r = p.Run(run)
		}
		p.answers[q] = r
	}
	return r
}

// Within decides whether every value of left is one of right.
func (p *Prover) Within(left, right *schemas.Schema) containment.Result {
	return p.ask(question{left: left, right: right})
}

// WithinBriefly is Within for few steps.
func (p *Prover) WithinBriefly(left, right *schemas.Schema) containment.Result {
	return p.ask(question{brief: true, left: left, right: right})
}

// Holds reports whether it is proved that every value of left is one of right.
func (p *Prover) Holds(left, right *schemas.Schema) bool {
	return p.Within(left, right).Verdict == containment.Proved
}

// Anything reports whether it is proved that a schema takes every value.
func (p *Prover) Anything(s *schemas.Schema) bool {
	if c := s.Compiled(); len(c.Constant) > 0 || len(c.Types) == 1 {
		return false
	}
	return p.Holds(p.Whole, s)
}

// Disjoint reports whether it is proved that no value is in both.
func (p *Prover) Disjoint(a, b *schemas.Schema) bool {
	return p.ask(question{disjoint: true, left: a, right: b}).Verdict == containment.Proved
}

// DisjointBriefly is Disjoint for few steps.
func (p *Prover) DisjointBriefly(a, b *schemas.Schema) bool {
	return p.ask(question{disjoint: true, brief: true, left: a, right: b}).Verdict == containment.Proved
}

// Sample returns a value of s, if one is found.
func (p *Prover) Sample(s *schemas.Schema) (any, bool) {
	r := p.Run(func(o containment.Options) containment.Result { return containment.Empty(s, o) })
	return r.Witness, r.Verdict == containment.Refuted
}

// Derive computes something from schemas within the budget.
func (p *Prover) Derive(do func(containment.Options)) {
	p.Run(func(o containment.Options) containment.Result {
		steps := 0
		o.Spent = &steps
		do(o)
		return containment.Result{Steps: steps}
	})
}

// Property returns a schema of the values at a port of s; for `$` that is s.
func (p *Prover) Property(s *schemas.Schema, port string) *schemas.Schema {
	if port == plan.WholePort {
		return s
	}
	return p.part(part{of: s, name: port}, func(o containment.Options) *schemas.Schema { return containment.Property(s, port, o) })
}

// Element returns a schema of the elements of lists in s.
func (p *Prover) Element(s *schemas.Schema) *schemas.Schema {
	return p.part(part{of: s, element: true}, func(o containment.Options) *schemas.Schema { return containment.Element(s, -1, o) })
}

func (p *Prover) part(key part, derive func(containment.Options) *schemas.Schema) *schemas.Schema {
	x, known := p.parts[key]
	if !known {
		p.Derive(func(o containment.Options) { x = derive(o) })
		if x == nil {
			x = p.Whole
		}
		p.parts[key] = x
	}
	return x
}

// Make returns the schema with the keywords of k, made once for each form.
func (p *Prover) Make(form string, k func() schemas.Keywords) *schemas.Schema {
	return p.once(made{form: form}, k)
}

func (p *Prover) once(key made, k func() schemas.Keywords) *schemas.Schema {
	s, ok := p.made[key]
	if !ok {
		s = schemas.Make(k())
		p.made[key] = s
	}
	return s
}

// List returns the schema of lists of s, of at most n elements if n ≥ 0.
func (p *Prover) List(s *schemas.Schema, n int) *schemas.Schema {
	return p.once(made{form: "list", a: s, n: n}, func() schemas.Keywords {
		k := schemas.Keywords{Types: []string{"array"}, Items: s}
		if n >= 0 {
			k.MaxItems = &n
		}
		return k
	})
}

// Either returns the schema of values of a or b. A nil schema has none.
func (p *Prover) Either(a, b *schemas.Schema) *schemas.Schema {
	switch {
	case a == nil || a == b:
		return b
	case b == nil:
		return a
	}
	return p.once(made{form: "either", a: a, b: b}, func() schemas.Keywords {
		return schemas.Keywords{Any: []*schemas.Schema{a, b}}
	})
}

// Both returns the schema of values of a that are also values of b.
func (p *Prover) Both(a, b *schemas.Schema) *schemas.Schema {
	if a == b {
		return a
	}
	return p.once(made{form: "both", a: a, b: b}, func() schemas.Keywords {
		return schemas.Keywords{All: []*schemas.Schema{a, b}}
	})
}

// Typed returns the schema of the values of one JSON type.
func (p *Prover) Typed(name string) *schemas.Schema {
	return p.Make("type "+name, func() schemas.Keywords {
		return schemas.Keywords{Types: []string{name}}
	})
}

// Having returns the schema of objects that have a property.
func (p *Prover) Having(name string) *schemas.Schema {
	return p.Make("having "+name, func() schemas.Keywords {
		return schemas.Keywords{Types: []string{"object"}, Required: []string{name}}
	})
}

// Being returns the schema of one boolean.
func (p *Prover) Being(b bool) *schemas.Schema {
	form := "false"
	if b {
		form = "true"
	}
	return p.Make(form, func() schemas.Keywords { return Constant(b) })
}

// Constant returns the keywords for one value.
func Constant(v any) schemas.Keywords { return schemas.Keywords{Const: []any{v}} }
