package typing

import (
	"chimera.ai/engine/expr"
	"chimera.ai/engine/plan"
)

// before returns the scope of an edge's condition. ok is false if nothing is known
// about it.
func (check *checker) before(doc *Document, e *Edge) (s scope, ok bool) {
	from := doc.Nodes[e.From]
	s.input = doc.input.Usable()
	switch {
	case e.FromPort == plan.CompensatePort:
		// The node itself may not have failed.
		s.args, s.output = from.Input.Usable(), from.Output.Usable()
		s.failure = check.prover.Either(check.failures(), check.prover.Typed("null"))
		return s, s.input != nil && s.args != nil && s.output != nil
	case e.Kind == plan.Error:
		s.failure = check.handled(doc, e.From)
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

// brought returns the scope once the edge is delivered: its own condition held, or
// for otherwise none of its siblings' did.
func (check *checker) brought(doc *Document, e *Edge) (s scope, ok bool) {
	s, ok = check.before(doc, e)
	switch {
	case !ok:
	case e.Otherwise:
		siblings := doc.Siblings[e.From]
		for _, x := range siblings[:min(len(siblings), maxSiblings)] {
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

// deferred reports whether the condition of an edge may fail at run time. CEL
// ignores an error beside an operand that decides && or ||, so nothing follows from
// the result.
func (check *checker) deferred(doc *Document, e *Edge) bool {
	if e.Check == nil || e.Predicate == nil {
		return false
	}
	s, ok := check.before(doc, e)
	return !ok || len(check.checkedPredicate(e.Predicate, s).problems) > 0
}

// refused narrows s by the fact that the condition of x did not hold. x is a
// sibling whose port is always present.
func (check *checker) refused(doc *Document, x *Edge, s scope) scope {
	at, ok := check.before(doc, x)
	if !ok {
		return s
	}
	// What is known about the whole output so far holds for x as well.
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

// maxSiblings bounds how many conditions narrow an `otherwise`.
const maxSiblings = 16

// readyPredicate returns the condition of an edge as a run evaluates it.
func (check *checker) readyPredicate(doc *Document, e *Edge) *expr.Program {
	before, ok := check.before(doc, e)
	if !ok || e.Predicate == nil {
		return e.Predicate
	}
	key := programAt{e.Predicate, before}
	p, ok := check.readiedPredicates[key]
	if !ok {
		p = e.Predicate
		c := check.checkedPredicate(p, before)
		scope, _ := e.scopes()
		if !c.strict && c.source != e.When.Text {
			if x, err := expr.CompilePredicate(c.source, scope); err == nil {
				p = x
			}
		}
		check.readiedPredicates[key] = p
	}
	return p
}
