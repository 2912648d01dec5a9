package typing

import (
	"fmt"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/schemas"
)

// constantFits validates a constant against the port that it fills.
func (check *checker) constantFits(n *Node, name string, t *embedded.Template, at diag.Range, edge string) bool {
	s := check.wants(n, name)
	if s == nil {
		return true
	}
	value := t.Fixed()
	err := s.Validate(value)
	if list, ok := value.([]any); err == nil && ok && n.splits(name) && n.most() >= 0 && len(list) > n.most() {
		err = fmt.Errorf("it has %d elements, and for_each takes at most %d", len(list), n.most())
	}
	if err == nil {
		return true
	}
	check.Report(diag.Diagnostic{
		Code: diag.TypeNotContained, Summary: fmt.Sprintf("the constant does not fit the port %s of %s", fields.Quote(name), fields.Quote(n.ID)),
		Detail: fields.Sentence(err.Error()), Subject: at, Node: n.ID, Edge: edge, Witness: shown(value),
	})
	return false
}

// fitsItems proves that the list at a port of a node is no longer than for_each
// allows, or adds to d why not, and reports it. whose says of the list where it
// comes from, bound in whose schema its author can bound it.
func (check *checker) fitsItems(n *Node, port string, list *schemas.Schema, whose, bound string, d diag.Diagnostic) bool {
	most := n.most()
	if !n.splits(port) || most < 0 || check.prover.Holds(list, check.prover.List(check.prover.Whole, most)) {
		return true
	}
	d.Code, d.Node = diag.TypeNotContained, n.ID
	d.Summary = fmt.Sprintf("the list %s may be longer than `for_each` of %s allows", whose, fields.Quote(n.ID))
	d.Detail = fmt.Sprintf("A list of more than %d elements fails the node. Bound it in the schema of %s.", most, bound)
	d.Suggestion = fmt.Sprintf("maxItems: %d", most)
	check.Report(d)
	return false
}

// refused reports whether a schema refuses a value.
func refused(v any, s *schemas.Schema) bool {
	_, is := causeOf(v, s)
	return is
}

// fitsWhole proves that the results of a template fit a schema. As for a transform,
// a counterexample counts only if values are found that produce it.
func (check *checker) fitsWhole(q *search, result *schemas.Schema, at diag.Range, name, node string) {
	r := check.prover.Within(result, q.target)
	if q.template.Constant() {
		r = containment.Result{Verdict: containment.Proved}
		if v := q.template.Fixed(); refused(v, q.target) {
			r = containment.Result{Verdict: containment.Refuted, Witness: v}
		}
	}
	if r.Verdict == containment.Proved {
		return
	}
	d := diag.Diagnostic{
		Code: diag.TypeUnknown, Summary: "it is not proved that what the template gives fits " + name,
		Detail: stopped(r), Subject: at, Node: node,
	}
	if r.Verdict == containment.Refuted {
		d.Detail = fmt.Sprintf("The template is known to give %s, which would allow %s. %s ",
			describe(result), fields.Quote(shown(r.Witness)), refusal(r.Witness, q.target, name))
		before, after, found := any(nil), r.Witness, q.template.Constant()
		if !found {
			before, after, found = check.searchWhole(q, r.Witness)
			d.Before = shown(before)
		}
		if found {
			d.Code, d.Summary = diag.TypeNotContained, "what the template gives does not fit "+name
			d.Detail, d.Witness = refusal(after, q.target, name), shown(after)
		} else {
			d.Before = ""
			d.Detail += check.unfound("value")
		}
	}
	check.Report(d)
}
