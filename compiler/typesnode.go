package compiler

import (
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// typeWith checks what `with` puts into the ports of a node.
func (u *unit) typeWith(doc *typedDocument, n *typedNode) {
	s := sight{input: doc.input.usable()}
	if s.input == nil || n.input.usable() == nil {
		for i := range n.fills {
			n.fills[i].failed = true
		}
		return
	}
	for i := range n.fills {
		f := &n.fills[i]
		v := n.with.Get(f.port)
		made, result, ok := u.checkTemplate(v, f.template, s, false, n.id, "")
		f.template, f.brings = made, result
		if f.failed = !ok; f.failed {
			continue
		}
		if made.Constant() {
			f.failed = !u.constantFits(n, f.port, made, v.Range(), "")
			continue
		}
		target := u.wants(n, f.port)
		r := u.prover.Within(result, target)
		if r.Verdict == containment.Proved {
			f.failed = n.splits(f.port) && !u.fitsCount(n, f)
			continue
		}
		f.failed = true
		d := diag.Diagnostic{Subject: v.Range(), Node: n.id}
		port := fields.Quote(n.id + "." + f.port)
		if r.Verdict == containment.Refuted {
			if before, after, found := u.searchInput(f.template, s, r.Witness, target); found {
				d.Code = diag.TypeNotContained
				d.Summary = fmt.Sprintf("what `with` gives does not fit %s", port)
				d.Detail = "For some input of the plan it gives the counterexample. " + u.refusal(after, target, port)
				d.Witness, d.Before = shown(after), shown(before)
				m := mend{
					u: u, source: result, target: target, template: f.template, inputOpen: true, targetName: n.id + "." + f.port,
					targetOpen: n.input.at != nil, root: n.input.Decoded(), sight: s,
					derive: func(in *schemas.Schema) *schemas.Schema { return u.taken(n, in, f.port) },
				}
				d.Suggestion = m.propose(after)
				u.Report(d)
				continue
			}
		}
		d.Code = diag.TypeUnknown
		d.Summary = "it is not proved that what `with` gives fits " + port
		d.Detail = "What stopped the proof: " + stopped(r) + "."
		if r.Verdict == containment.Refuted {
			d.Detail = fmt.Sprintf("The expression is known to give %s, which would allow %s. %s", describe(result), fields.Quote(shown(r.Witness)), u.refusal(r.Witness, target, port))
		}
		d.Detail += " An edge from `$input` with that transform and `check: runtime` leaves it to the run."
		u.Report(d)
	}
}

func (u *unit) fitsCount(n *typedNode, f *fill) bool {
	most := n.most()
	if most < 0 || u.prover.Holds(f.brings, u.prover.List(u.prover.Whole, most)) {
		return true
	}
	v := n.with.Get(f.port)
	u.Report(diag.Diagnostic{
		Code: diag.TypeNotContained, Summary: fmt.Sprintf("the list that `with` gives may be longer than `for_each` of %s allows", fields.Quote(n.id)),
		Detail:  fmt.Sprintf("A list of more than %d elements fails the node. Bound it in the schema of the plan's input.", most),
		Subject: v.Range(), Node: n.id, Suggestion: fmt.Sprintf("maxItems: %d", most),
	})
	return false
}

// assembly is what can arrive at the ports of a node: the object that they make
// is closed, and has the ports of certain.
type assembly struct {
	ports   []string
	types   map[string]*schemas.Schema
	certain []string
	// edges are all that bring something.
	edges []*typedEdge
	// checked: an edge leaves it to the run whether its value fits.
	checked bool
	// some: at least one port has a value, though none is certain.
	some bool
	// exact: each port has one source of its own, so that any mixture of their
	// values can come together.
	exact bool
}

// assemble finds what can arrive at a node; ok is false where some of it is not
// known, or was reported.
func (u *unit) assemble(doc *typedDocument, i int) (a assembly, ok bool) {
	n := doc.nodes[i]
	a = assembly{types: map[string]*schemas.Schema{}, exact: true}
	needs := doc.needs(i)
	sources := map[int]bool{}
	others := false
	for _, at := range doc.in[i] {
		e := doc.edges[at]
		if !e.carries() {
			others = true
			continue
		}
		if e.failed {
			return a, false
		}
		a.edges = append(a.edges, e)
		a.checked = a.checked || e.check != nil
		a.exact = a.exact && !sources[e.from] && e.transform == nil
		sources[e.from] = true
		if _, there := a.types[e.toPort]; !there {
			a.ports = append(a.ports, e.toPort)
		}
		a.types[e.toPort] = u.prover.Either(a.types[e.toPort], u.each(n, e))
		if e.required && !doc.back[at] && !slices.Contains(a.certain, e.toPort) {
			a.certain = append(a.certain, e.toPort)
		}
	}
	edges := len(a.ports)
	for _, f := range n.fills {
		if f.failed {
			return a, false
		}
		a.exact = a.exact && f.template.Constant()
		_, there := a.types[f.port]
		if !there {
			a.ports = append(a.ports, f.port)
		} else if slices.Contains(a.certain, f.port) {
			continue
		}
		s := f.brings
		if n.splits(f.port) {
			s = u.prover.Element(s)
		}
		a.types[f.port] = u.prover.Either(a.types[f.port], s)
		a.certain = append(a.certain, f.port)
	}
	for _, p := range needs {
		if a.types[p] == nil {
			// Nothing fills it, which is reported elsewhere.
			return a, false
		}
		if !slices.Contains(a.certain, p) {
			a.certain = append(a.certain, p)
		}
	}
	slices.Sort(a.ports)
	slices.Sort(a.certain)
	a.some = len(a.certain) == 0 && edges > 0 && !others && n.kind == plan.KindCall
	return a, true
}

// fixed is the one object that constants make, if nothing else fills a port.
func (a *assembly) fixed(n *typedNode) (map[string]any, bool) {
	v := map[string]any{}
	if len(a.edges) > 0 || n.forEach != nil {
		return nil, false
	}
	for _, f := range n.fills {
		if !f.template.Constant() {
			return nil, false
		}
		v[f.port] = f.template.Value
	}
	return v, true
}

// each is what an edge brings to one call of the node.
func (u *unit) each(n *typedNode, e *typedEdge) *schemas.Schema {
	if n.splits(e.toPort) {
		return u.prover.Element(e.brings)
	}
	return e.brings
}

// object is the objects that can be assembled from ports of those types.
func (u *unit) object(a *assembly, types func(port string) *schemas.Schema) *schemas.Schema {
	k := schemas.Keywords{Types: []string{"object"}, Properties: map[string]*schemas.Schema{}, Required: a.certain, Rest: schemas.False()}
	for _, p := range a.ports {
		k.Properties[p] = types(p)
	}
	if a.some {
		for _, p := range a.ports {
			k.Any = append(k.Any, u.prover.Having(p))
		}
	}
	return schemas.Make(k)
}

// assembled finds whether a node's input schema follows from those of its ports.
type assembled struct {
	input   *schemas.Schema
	ports   string
	certain string
	some    bool
}

// typeInputs proves the input of every node that is sound.
func (u *unit) typeInputs(doc *typedDocument) {
	doubtful := map[int]bool{}
	for _, e := range doc.edges {
		if !e.sound && e.to >= 0 {
			doubtful[e.to] = true
		}
	}
	for i, n := range doc.nodes {
		if !u.Full && !doubtful[i] && n.kind != plan.KindInput && (n.sound || n.kind == plan.KindOutput) {
			u.typeInput(doc, i)
		}
	}
}

// typeInput proves that what a node's ports make together satisfies its input
// schema, where that says more than the ports do one by one.
func (u *unit) typeInput(doc *typedDocument, i int) {
	n := doc.nodes[i]
	in := n.input.usable()
	if in == nil || n.called {
		return
	}
	a, ok := u.assemble(doc, i)
	if !ok || slices.Contains(a.ports, plan.WholePort) {
		return
	}
	if n.input.Lists(a.ports, a.certain) {
		return
	}
	key := assembled{in, strings.Join(a.ports, "\x00"), strings.Join(a.certain, "\x00"), a.some}
	follows, known := u.inputs[key]
	if !known {
		follows = u.prover.Holds(u.object(&a, func(p string) *schemas.Schema { return u.prover.Property(in, p) }), in)
		u.inputs[key] = follows
	}
	if follows {
		return
	}
	object := u.object(&a, func(p string) *schemas.Schema { return a.types[p] })
	r := u.prover.Within(object, in)
	v, fixed := a.fixed(n)
	if fixed {
		// There is one value only, which the validator decides.
		r = containment.Result{Verdict: containment.Proved}
		if _, refused := causeOf(v, in); refused {
			r = containment.Result{Verdict: containment.Refuted, Witness: v}
		}
	}
	if r.Verdict == containment.Proved || a.checked && !u.prover.Disjoint(object, in) {
		return
	}
	var before map[string]any
	if !fixed && !a.exact {
		if r, before = u.together(doc, i, &a, in, r); r.Verdict == containment.Proved {
			return
		}
	}
	name := "the input of " + fields.Quote(n.id)
	d := diag.Diagnostic{Subject: n.key, Node: n.id}
	if n.kind == plan.KindOutput {
		name = "the output of the plan"
		d.Subject = fields.Head(doc.at)
	}
	if n.input.at != nil {
		d.Context = fields.Head(n.input.at)
		if n.kind == plan.KindOutput {
			d.Subject, d.Context = d.Context, diag.Range{}
		}
	}
	var fed []string
	for _, e := range a.edges {
		fed = append(fed, e.String())
	}
	for _, f := range n.fills {
		fed = append(fed, "with."+f.port)
	}
	from := " Nothing fills any port of it."
	if len(fed) > 0 {
		from = " " + listing("It is made by ", fed)
	}
	switch {
	case r.Verdict == containment.Refuted && a.checked:
		d.Code = diag.TypeNotContained
		d.Summary = "nothing that arrives can ever fit " + name
	case r.Verdict == containment.Refuted && a.exact:
		d.Code = diag.TypeNotContained
		d.Summary = "what arrives together does not fit " + name
	default:
		d.Code = diag.TypeUnknown
		d.Summary = "it is not proved that what arrives together fits " + name
		if len(a.edges) > 0 {
			d.Suggestion = "check: runtime"
		}
	}
	d.Detail = "Each value fits its port; the schema asks for more of all of them together."
	if r.Verdict == containment.Refuted {
		d.Witness = shown(r.Witness)
		d.Detail += " " + u.refusal(r.Witness, in, name)
		if before != nil {
			d.Before = shown(before)
			d.Detail = strings.Replace(d.Detail, "Each value fits its port;", "The counterexample is what the sources give, and what arrives of it. Each value fits its port;", 1)
		}
		if r.Reason != "" {
			d.Detail += " What stopped the proof: " + stopped(r) + "."
		}
		if d.Code == diag.TypeNotContained {
			m := mend{u: u, source: object, target: in, targetName: n.id, targetOpen: n.input.at != nil, root: n.input.Decoded()}
			d.Suggestion = m.propose(r.Witness)
		}
	} else {
		d.Detail += " What stopped the proof: " + stopped(r) + "."
	}
	d.Detail += from
	u.Report(d)
}
