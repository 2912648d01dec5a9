package typing

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
func (check *checker) typing(s sight) expr.Typing {
	t := s.typing()
	t.Work = &check.prover.Checks
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
func (check *checker) narrow(p *expr.Program, s sight, holds bool) sight {
	key := narrowing{p, s, holds}
	n, ok := check.narrowed[key]
	if !ok {
		if check.judgement == nil || check.judged != (programAt{p, s}) {
			check.judged, check.judgement = programAt{p, s}, p.Judge(check.typing(s))
		}
		n = seen(check.judgement.Narrow(holds))
		check.narrowed[key] = n
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
func (check *checker) failures() *schemas.Schema {
	if check.errorSchema == nil {
		check.errorSchema = check.prover.Whole
		if s, err := check.pool.Add(errorSchema()); err == nil {
			if c, err := s.Compile(); err == nil {
				check.errorSchema = c
			}
		}
	}
	return check.errorSchema
}

// most is the bound of a for_each node's list.
func (n *Node) most() int {
	if n.ForEach == nil || n.ForEach.Items <= 0 {
		return -1
	}
	return int(n.ForEach.Items)
}

// offers is what a port of a node that succeeded brings, or nil if nothing is
// known. A node with for_each gives lists, of what each call gave.
func (check *checker) offers(n *Node, port string) *schemas.Schema {
	out := n.Output.Usable()
	if out == nil {
		return nil
	}
	s := check.prover.Property(out, port)
	if n.ForEach != nil {
		return check.prover.List(s, n.most())
	}
	return s
}

// wants is what a port of a node takes, or nil if nothing is known. The port
// that for_each names takes a list; what it may hold at most is checked apart.
func (check *checker) wants(n *Node, port string) *schemas.Schema {
	in := n.Input.Usable()
	if in == nil {
		return nil
	}
	return check.taken(n, in, port)
}

// taken is wants for a node whose input schema is that one.
func (check *checker) taken(n *Node, in *schemas.Schema, port string) *schemas.Schema {
	s := check.prover.Property(in, port)
	if n.splits(port) {
		return check.prover.List(s, -1)
	}
	return s
}

// splits reports whether the port takes a list whose elements the node is
// called with.
func (n *Node) splits(port string) bool {
	return n.ForEach != nil && n.ForEach.Port != nil && n.ForEach.Port.Text == port
}

// has reports whether it is proved that every output of the node has the port.
func (check *checker) has(n *Node, port string) bool {
	if port == plan.WholePort || port == plan.DonePort {
		return true
	}
	if n.Output != nil && n.Output.Ports().Certain(port) {
		return true
	}
	out := n.Output.Usable()
	return out == nil || !loose(out, port) && check.prover.Holds(out, check.prover.Having(port))
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
func (check *checker) before(doc *Document, e *Edge) (s sight, ok bool) {
	from := doc.Nodes[e.From]
	s.input = doc.input.Usable()
	switch {
	case e.FromPort == plan.CompensatePort:
		// Nothing says what failed where the node itself did not.
		s.args, s.output = from.Input.Usable(), from.Output.Usable()
		s.failure = check.prover.Either(check.failures(), check.prover.Typed("null"))
		return s, s.input != nil && s.args != nil && s.output != nil
	case e.Kind == plan.Error:
		s.failure = check.failures()
		s.value = s.failure
		return s, s.input != nil
	}
	s.output = check.offers(from, plan.WholePort)
	if s.output == nil || s.input == nil {
		return s, false
	}
	if e.FromPort != plan.DonePort {
		s.value = check.offers(from, e.FromPort)
		if e.FromPort == plan.WholePort || from.ForEach == nil {
			s.port = e.FromPort
		}
	}
	return s, true
}

// maxSiblings bounds how many conditions an `otherwise` takes into account.
const maxSiblings = 16

// brought is what is known where the edge is delivered: its own condition has
// held, or, for otherwise, none of its siblings' has.
func (check *checker) brought(doc *Document, e *Edge) (s sight, ok bool) {
	s, ok = check.before(doc, e)
	switch {
	case !ok:
	case e.Otherwise:
		for i, x := range doc.Siblings[e.From] {
			if i == maxSiblings {
				break
			}
			if x.Sound && !x.Otherwise && check.has(doc.Nodes[x.From], x.FromPort) {
				s = check.refused(doc, x, s)
			}
		}
	case e.Kind == plan.Conditional && e.When == nil:
		s.value = check.prover.Being(true)
	case e.Predicate == nil || check.deferred(doc, e):
	case e.Kind == plan.Conditional:
		s = check.narrow(e.Predicate, s, true)
	case e.Kind == plan.Error:
		s = check.narrow(e.Predicate, s, true)
		s.value = s.failure
	}
	return s, ok
}

// deferred reports whether the condition of an edge may fail and the run finds
// out. CEL swallows an error beside what decides && or ||, so that nothing is
// known where it has held, or has not.
func (check *checker) deferred(doc *Document, e *Edge) bool {
	if e.Check == nil || e.Predicate == nil {
		return false
	}
	s, ok := check.before(doc, e)
	return !ok || len(check.checkedPredicate(e.Predicate, s).problems) > 0
}

// refused takes into account that the condition of x, a sibling whose port is
// always there, did not hold.
func (check *checker) refused(doc *Document, x *Edge, s sight) sight {
	at, ok := check.before(doc, x)
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
		at.value = check.prover.Property(at.output, at.port)
	}
	switch {
	case x.When != nil && (x.Predicate == nil || check.deferred(doc, x)):
		return s
	case x.Predicate != nil:
		at = check.narrow(x.Predicate, at, false)
	case at.value != nil:
		at.value = check.prover.Both(at.value, check.prover.Being(false))
	}
	changed := at.output != s.output
	s.output, s.input = at.output, at.input
	switch {
	case same:
		s.value = at.value
	case changed && s.port != "":
		s.value = check.prover.Property(s.output, s.port)
	}
	return s
}
