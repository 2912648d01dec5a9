package compiler

import (
	"slices"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// sight is what is known of the values that an expression's names have: a
// schema for each name that is there, nil for one that is not.
type sight struct {
	value, output, input, failure, args *schemas.Schema
	// port is the port of output that value is, `$` if it is output itself, ""
	// if the two are not related.
	port string
	// split: it is one alternative of what can be, so that conditions may be known.
	split bool
}

// names are the names of expressions with where sight keeps their schemas.
var names = []struct {
	name string
	of   func(*sight) **schemas.Schema
}{
	{"value", func(s *sight) **schemas.Schema { return &s.value }},
	{"output", func(s *sight) **schemas.Schema { return &s.output }},
	{"input", func(s *sight) **schemas.Schema { return &s.input }},
	{"error", func(s *sight) **schemas.Schema { return &s.failure }},
	{"args", func(s *sight) **schemas.Schema { return &s.args }},
}

func (s sight) typing() expr.Typing {
	t := expr.Typing{Types: expr.Types{}, Port: s.port, Decide: s.split}
	for _, n := range names {
		if x := *n.of(&s); x != nil {
			t.Types[n.name] = x
		}
	}
	return t
}

// typing is what an expression may rely on, and the work that its check may be.
func (u *unit) typing(s sight) expr.Typing {
	t := s.typing()
	t.Work = &u.prover.Checks
	return t
}

func seen(t expr.Typing) sight {
	s := sight{port: t.Port, split: t.Decide}
	for _, n := range names {
		*n.of(&s) = t.Types[n.name]
	}
	return s
}

type narrowing struct {
	program *expr.Program
	sight   sight
	holds   bool
}

// narrow is what is known where a predicate was found to hold, or not to.
func (u *unit) narrow(p *expr.Program, s sight, holds bool) sight {
	key := narrowing{p, s, holds}
	n, ok := u.narrowed[key]
	if !ok {
		if u.judgement == nil || u.judged != (programAt{p, s}) {
			u.judged, u.judgement = programAt{p, s}, p.Judge(u.typing(s))
		}
		n = seen(u.judgement.Narrow(holds))
		u.narrowed[key] = n
	}
	return n
}

// errorSchema is what every error edge brings: contract.ErrorPayload.
func errorSchema() any {
	kinds := contract.Kinds()
	words := make([]any, len(kinds))
	for i, k := range kinds {
		words[i] = string(k)
	}
	text := map[string]any{"type": "string"}
	return map[string]any{
		"type": "object",
		"properties": map[string]any{
			"kind": map[string]any{"type": "string", "enum": words}, "message": text, "node": text,
			"attempts": map[string]any{"type": "integer"}, "details": true,
		},
		"required":             []any{"kind", "message", "node", "attempts", "details"},
		"additionalProperties": false,
	}
}

// failures is the schema of error payloads.
func (u *unit) failures() *schemas.Schema {
	if u.errorSchema == nil {
		u.errorSchema = u.prover.Whole
		if s, err := u.pool.Add(errorSchema()); err == nil {
			if c, err := s.Compile(); err == nil {
				u.errorSchema = c
			}
		}
	}
	return u.errorSchema
}

// most is the bound of a for_each node's list.
func (n *typedNode) most() int {
	if n.forEach == nil || n.forEach.items <= 0 {
		return -1
	}
	return int(n.forEach.items)
}

// offers is what a port of a node that succeeded brings, or nil if nothing is
// known. A node with for_each gives lists, of what each call gave.
func (u *unit) offers(n *typedNode, port string) *schemas.Schema {
	out := n.output.usable()
	if out == nil {
		return nil
	}
	s := u.prover.Property(out, port)
	if n.forEach != nil {
		return u.prover.List(s, n.most())
	}
	return s
}

// wants is what a port of a node takes, or nil if nothing is known. The port
// that for_each names takes a list; what it may hold at most is checked apart.
func (u *unit) wants(n *typedNode, port string) *schemas.Schema {
	in := n.input.usable()
	if in == nil {
		return nil
	}
	return u.taken(n, in, port)
}

// taken is wants for a node whose input schema is that one.
func (u *unit) taken(n *typedNode, in *schemas.Schema, port string) *schemas.Schema {
	s := u.prover.Property(in, port)
	if n.splits(port) {
		return u.prover.List(s, -1)
	}
	return s
}

// splits reports whether the port takes a list whose elements the node is
// called with.
func (n *typedNode) splits(port string) bool {
	return n.forEach != nil && n.forEach.port != nil && n.forEach.port.Text == port
}

// has reports whether it is proved that every output of the node has the port.
func (u *unit) has(n *typedNode, port string) bool {
	if port == plan.WholePort || port == plan.DonePort {
		return true
	}
	if n.output != nil && n.output.Ports().Certain(port) {
		return true
	}
	out := n.output.usable()
	return out == nil || !loose(out, port) && u.prover.Holds(out, u.prover.Having(port))
}

// loose reports whether a schema obviously leaves it open whether its objects
// have a port: it says nothing but what properties are, and which are required.
// A proof over each optional port of a large object would say no more.
func loose(s *schemas.Schema, port string) bool {
	c := s.Compiled()
	return c.Always == nil && len(c.Constant)+len(c.Enum)+len(c.AllOf)+len(c.AnyOf)+len(c.OneOf)+len(c.PatternProperties)+len(c.Dependencies)+
		len(c.DependentRequired)+len(c.DependentSchemas) == 0 && c.Ref == nil && c.DynamicRef == nil && c.RecursiveRef == nil && c.Not == nil && c.If == nil &&
		c.PropertyNames == nil && c.UnevaluatedProperties == nil && c.MinProperties <= 0 && !slices.Contains(c.Required, port)
}

// before is what the condition of an edge is asked about. ok is false where
// nothing can be known.
func (u *unit) before(doc *typedDocument, e *typedEdge) (s sight, ok bool) {
	from := doc.nodes[e.from]
	s.input = doc.input.usable()
	switch {
	case e.fromPort == plan.CompensatePort:
		// Nothing says what failed where the node itself did not.
		s.args, s.output = from.input.usable(), from.output.usable()
		s.failure = u.prover.Either(u.failures(), u.prover.Typed("null"))
		return s, s.input != nil && s.args != nil && s.output != nil
	case e.kind == plan.Error:
		s.failure = u.failures()
		s.value = s.failure
		return s, s.input != nil
	}
	s.output = u.offers(from, plan.WholePort)
	if s.output == nil || s.input == nil {
		return s, false
	}
	if e.fromPort != plan.DonePort {
		s.value = u.offers(from, e.fromPort)
		if e.fromPort == plan.WholePort || from.forEach == nil {
			s.port = e.fromPort
		}
	}
	return s, true
}

// maxSiblings bounds how many conditions an `otherwise` takes into account.
const maxSiblings = 16

// brought is what is known where the edge is delivered: its own condition has
// held, or, for otherwise, none of its siblings' has.
func (u *unit) brought(doc *typedDocument, e *typedEdge) (s sight, ok bool) {
	s, ok = u.before(doc, e)
	switch {
	case !ok:
	case e.otherwise:
		for i, x := range doc.siblings[e.from] {
			if i == maxSiblings {
				break
			}
			if x.sound && !x.otherwise && u.has(doc.nodes[x.from], x.fromPort) {
				s = u.refused(doc, x, s)
			}
		}
	case e.kind == plan.Conditional && e.when == nil:
		s.value = u.prover.Being(true)
	case e.predicate == nil || u.deferred(doc, e):
	case e.kind == plan.Conditional:
		s = u.narrow(e.predicate, s, true)
	case e.kind == plan.Error:
		s = u.narrow(e.predicate, s, true)
		s.value = s.failure
	}
	return s, ok
}

// deferred reports whether the condition of an edge may fail and the run finds
// out. CEL swallows an error beside what decides && or ||, so that nothing is
// known where it has held, or has not.
func (u *unit) deferred(doc *typedDocument, e *typedEdge) bool {
	if e.check == nil || e.predicate == nil {
		return false
	}
	s, ok := u.before(doc, e)
	return !ok || len(u.checkedPredicate(e.predicate, s).problems) > 0
}

// refused takes into account that the condition of x, a sibling whose port is
// always there, did not hold.
func (u *unit) refused(doc *typedDocument, x *typedEdge, s sight) sight {
	at, ok := u.before(doc, x)
	if !ok {
		return s
	}
	// What is known of the whole output so far holds for x as well.
	same := at.port != "" && at.port == s.port || at.output == at.value && s.output == s.value
	fresh := at.output == s.output
	at.output, at.input = s.output, s.input
	if same {
		at.value = s.value
	} else if at.port != "" && !fresh {
		at.value = u.prover.Property(at.output, at.port)
	}
	switch {
	case x.when != nil && (x.predicate == nil || u.deferred(doc, x)):
		return s
	case x.predicate != nil:
		at = u.narrow(x.predicate, at, false)
	case at.value != nil:
		at.value = u.prover.Both(at.value, u.prover.Being(false))
	}
	changed := at.output != s.output
	s.output, s.input = at.output, at.input
	switch {
	case same:
		s.value = at.value
	case changed && s.port != "":
		s.value = u.prover.Property(s.output, s.port)
	}
	return s
}
