package typing

import (
	"cmp"
	"slices"

	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// scope is what is known about the names of an expression: the schema of each, or
// nil for a name that is not in scope.
type scope struct {
	value, output, input, failure, args *schemas.Schema
	// port is the port of output that holds value: `$` if value is output
	// itself, "" if the two are not related.
	port string
	// split reports that the scope is one alternative among several, so that
	// conditions may be decided in it.
	split bool
}

// names lists the names of expressions and the fields for their schemas.
var names = []struct {
	name string
	of   func(*scope) **schemas.Schema
}{
	{"value", func(s *scope) **schemas.Schema { return &s.value }},
	{"output", func(s *scope) **schemas.Schema { return &s.output }},
	{"input", func(s *scope) **schemas.Schema { return &s.input }},
	{"error", func(s *scope) **schemas.Schema { return &s.failure }},
	{"args", func(s *scope) **schemas.Schema { return &s.args }},
}

// typing returns what an expression may rely on, and the work that checking it may
// take.
func (check *checker) typing(s scope) expr.Typing {
	t := expr.Typing{Types: expr.Types{}, Port: s.port, Decide: s.split, Work: &check.prover.Checks}
	for _, n := range names {
		if x := *n.of(&s); x != nil {
			t.Types[n.name] = x
		}
	}
	return t
}

// seen returns the scope of which typing has made t.
func seen(t expr.Typing) scope {
	s := scope{port: t.Port, split: t.Decide}
	for _, n := range names {
		*n.of(&s) = t.Types[n.name]
	}
	return s
}

// narrowing is a predicate that holds in a scope, or does not.
type narrowing struct {
	programAt
	holds bool
}

// narrow returns the scope in which a predicate holds, or does not.
func (check *checker) narrow(p *expr.Program, s scope, holds bool) scope {
	key := narrowing{programAt{p, s}, holds}
	n, ok := check.narrowed[key]
	if !ok {
		if check.judgement == nil || check.judged != key.programAt {
			check.judged, check.judgement = key.programAt, p.Judge(check.typing(s))
		}
		n = seen(check.judgement.Narrow(holds))
		check.narrowed[key] = n
	}
	return n
}

// failures returns the compiled schema of error payloads.
func (check *checker) failures() *schemas.Schema {
	if check.everyFailure == nil {
		check.everyFailure = cmp.Or(check.pool.Compiled(lint.ErrorSchema(contract.Kinds())), check.prover.Whole)
	}
	return check.everyFailure
}

// handled returns the compiled schema of the error payloads that the error edges of node i
// bring. One of unknown outcome they bring only once its effect has been undone.
func (check *checker) handled(doc *Document, i int) *schemas.Schema {
	if doc.Nodes[i].Undoable && doc.BlockOf[i] < 0 {
		return check.failures()
	}
	if check.knownFailure == nil {
		kinds := slices.DeleteFunc(contract.Kinds(), func(k contract.Kind) bool { return k == contract.OutcomeUnknown })
		check.knownFailure = cmp.Or(check.pool.Compiled(lint.ErrorSchema(kinds)), check.prover.Whole)
	}
	return check.knownFailure
}

// most is the bound of a for_each node's list, or -1.
func (n *Node) most() int {
	if n.ForEach == nil || n.ForEach.Items <= 0 {
		return -1
	}
	return int(n.ForEach.Items)
}

// offers returns the schema of a port of a node that succeeded, or nil if nothing
// is known. The ports of a node with for_each are lists of what each call returned.
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

// wants returns the schema of what a port of a node accepts, or nil if nothing is
// known. The port that for_each names accepts a list; its length is checked apart.
func (check *checker) wants(n *Node, port string) *schemas.Schema {
	in := n.Input.Usable()
	if in == nil {
		return nil
	}
	return check.taken(n, in, port)
}

// taken is wants for a node whose input schema is in.
func (check *checker) taken(n *Node, in *schemas.Schema, port string) *schemas.Schema {
	s := check.prover.Property(in, port)
	if n.splits(port) {
		return check.prover.List(s, -1)
	}
	return s
}

// splits reports whether the node is called with each element of the list in the
// port.
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

// loose reports whether a schema obviously leaves a port optional: it only says
// what properties are and which are required. That spares a proof for each optional
// port of a large object.
func loose(s *schemas.Schema, port string) bool {
	c := s.Compiled()
	return c.Always == nil && len(c.Constant)+len(c.Enum)+len(c.AllOf)+len(c.AnyOf)+len(c.OneOf)+len(c.PatternProperties)+len(c.Dependencies)+
		len(c.DependentRequired)+len(c.DependentSchemas) == 0 && c.Ref == nil && c.DynamicRef == nil && c.RecursiveRef == nil && c.Not == nil && c.If == nil &&
		c.PropertyNames == nil && c.UnevaluatedProperties == nil && c.MinProperties <= 0 && !slices.Contains(c.Required, port)
}
