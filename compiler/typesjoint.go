package compiler

import (
	"fmt"
	"slices"

	"chimera.ai/engine/compiler/internal/proof"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// Bounds of proving ports together: the alternatives of one source that are told
// apart, and how many combinations of those of all sources are looked at.
const (
	maxWays   = 64
	maxJoints = 128
	maxNames  = 32
)

// The ports of a node are proved one by one, and then as an object of which any
// mixture of values can arrive. Where several of them come from one value, as
// the ports of one node's output do, fewer mixtures can: that value is one of
// the alternatives of its schema, and all these ports are of this one. So the
// object is put together once for each alternative, which together hold all that
// can arrive, and each of these objects is proved.

// supplier is a node whose output fills several ports of another one, in one
// call of both.
type supplier struct {
	node int
	// output is what is known of its output where all its required edges were
	// delivered.
	output *schemas.Schema
	// ran: its output is there whenever the target runs.
	ran bool
	// edges bring a port each, alone but for what `with` gives; fills are entries
	// of `with` that read the plan's input.
	edges []*typedEdge
	fills []*fill
	// names are the ports that are told apart, ways the alternatives of these.
	names []string
	ways  []*schemas.Schema
}

// jointly proves the input of a node for each combination of the alternatives
// of its sources. Where that fails it gives the verdict for the first one that
// does not fit, with why there is no more to say.
func (u *unit) jointly(doc *typedDocument, i int, a *assembly, in *schemas.Schema) (r containment.Result, ok bool) {
	all, bounded := u.suppliers(doc, i, a)
	if len(all) == 0 {
		if bounded {
			r.Reason = fmt.Sprintf("what comes from one node has more than %d alternatives, or they take more than %d steps to find", maxWays, containment.DefaultSteps)
		}
		return r, bounded
	}
	at := make([]int, len(all))
	for {
		object := u.combined(doc, i, a, all, at)
		r = u.prover.Within(object, in)
		if r.Verdict != containment.Proved {
			return r, true
		}
		k := 0
		for ; k < len(at); k++ {
			if at[k]++; at[k] < len(all[k].ways) {
				break
			}
			at[k] = 0
		}
		if k == len(at) {
			return r, true
		}
	}
}

// together proves, or refutes, what r leaves open: the ports of a node as they
// come out of whole values of their sources.
func (u *unit) together(doc *typedDocument, i int, a *assembly, in *schemas.Schema, r containment.Result) (containment.Result, map[string]any) {
	hints := []containment.Result{r}
	if j, asked := u.jointly(doc, i, a, in); asked {
		if j.Verdict == containment.Proved {
			return j, nil
		}
		if j.Verdict == containment.Refuted || r.Verdict != containment.Refuted {
			r = j
		} else {
			r.Reason = j.Reason
		}
		hints = []containment.Result{j, hints[0]}
	}
	for _, h := range hints {
		if h.Verdict != containment.Refuted {
			continue
		}
		if before, after, found := u.happens(doc, i, a, in, h.Witness); found {
			a.exact = true
			return containment.Result{Verdict: containment.Refuted, Witness: after}, before
		}
	}
	return r, nil
}

// suppliers finds the nodes whose output fills more than one port, or one that
// may be absent. bounded reports that one was left out since it has too many
// alternatives.
func (u *unit) suppliers(doc *typedDocument, i int, a *assembly) (out []*supplier, bounded bool) {
	combinations := 1
	for _, s := range u.gathered(doc, i, a) {
		if s.output == nil {
			continue
		}
		u.prover.Derive(func(o containment.Options) { s.ways = containment.Project(s.output, s.names, maxWays, o) })
		switch {
		case s.ways == nil || combinations*len(s.ways) > maxJoints:
			bounded = true
		case len(s.ways) > 0:
			combinations *= len(s.ways)
			out = append(out, s)
		}
	}
	return out, bounded
}

// gathered lists the sources of a node's ports, in the order of their first edge.
func (u *unit) gathered(doc *typedDocument, i int, a *assembly) []*supplier {
	n := doc.nodes[i]
	var all []*supplier
	known := map[int]*supplier{}
	of := func(node int) *supplier {
		if s := known[node]; s != nil {
			return s
		}
		s := &supplier{node: node, output: u.offers(doc.nodes[node], plan.WholePort), ran: u.ranBefore(doc, i, node)}
		all = append(all, s)
		known[node] = s
		return s
	}
	feeding := map[string]int{}
	for _, e := range a.edges {
		feeding[e.toPort]++
	}
	for _, at := range doc.in[i] {
		e := doc.edges[at]
		if !e.carries() || doc.back[at] || e.kind == plan.Error || doc.nodes[e.from].forEach != nil || feeding[e.toPort] > 1 {
			continue
		}
		s := of(e.from)
		s.edges = append(s.edges, e)
		s.name(doc, e.fromPort)
		if e.template != nil && (e.fromPort == plan.WholePort || e.template.Reads("output")) {
			s.all(doc)
		}
		if brought, known := u.brought(doc, e); e.required && known && s.output != nil && brought.output != nil {
			s.output = u.prover.Both(s.output, brought.output)
		}
	}
	for k := range n.fills {
		f := &n.fills[k]
		if feeding[f.port] == 0 && f.template.Reads("input") {
			s := of(0)
			s.fills = append(s.fills, f)
			s.all(doc)
		}
	}
	return slices.DeleteFunc(all, func(s *supplier) bool {
		return len(s.edges)+len(s.fills) < 2 && !slices.ContainsFunc(s.edges, func(e *typedEdge) bool { return !e.required })
	})
}

// name notes a port that is told apart.
func (s *supplier) name(doc *typedDocument, port string) {
	if port != plan.WholePort && port != plan.DonePort && !slices.Contains(s.names, port) && len(s.names) < maxNames {
		s.names = append(s.names, port)
	}
}

// all notes every port that the schema of the source lists.
func (s *supplier) all(doc *typedDocument) {
	if out := doc.nodes[s.node].output; out != nil {
		for _, port := range out.Ports().Names {
			s.name(doc, port)
		}
	}
}

// ranBefore reports whether a node has succeeded whenever the target runs: it is
// the plan's input, a required edge of its success enters the target, or nothing
// else lets that run.
func (u *unit) ranBefore(doc *typedDocument, i, node int) bool {
	if node == 0 {
		return true
	}
	only := doc.nodes[i].kind == plan.KindCall
	for _, at := range doc.in[i] {
		e := doc.edges[at]
		if doc.back[at] {
			only = false
			continue
		}
		if e.from == node && e.required && e.kind != plan.Error {
			return true
		}
		only = only && e.from == node && e.kind != plan.Error
	}
	return only
}

// combined is the object that arrives where each source gives that alternative.
func (u *unit) combined(doc *typedDocument, i int, a *assembly, all []*supplier, at []int) *schemas.Schema {
	n := doc.nodes[i]
	types := make(map[string]*schemas.Schema, len(a.types))
	for port, s := range a.types {
		types[port] = s
	}
	b := *a
	b.certain = slices.Clone(a.certain)
	for k, s := range all {
		way := s.ways[at[k]]
		whole := u.open(s, way)
		for _, e := range s.edges {
			value := u.arriving(doc, e, way, whole)
			if n.splits(e.toPort) {
				value = u.prover.Element(value)
			}
			there := e.required || e.kind == plan.Data && s.ran && (e.fromPort == plan.WholePort || slices.Contains(way.Compiled().Required, e.fromPort))
			given := n.fill(e.toPort)
			switch {
			case given != nil && !there:
				value = u.prover.Either(value, u.filled(n, given))
			case there && !slices.Contains(b.certain, e.toPort):
				b.certain = append(b.certain, e.toPort)
			}
			types[e.toPort] = value
		}
		for _, f := range s.fills {
			if c := u.checked(f.template, sight{input: whole, split: true}); len(c.problems) == 0 {
				types[f.port] = u.prover.Both(c.result, f.brings)
				if n.splits(f.port) {
					types[f.port] = u.prover.Element(types[f.port])
				}
			}
		}
	}
	slices.Sort(b.certain)
	object := u.object(&b, func(p string) *schemas.Schema { return types[p] })
	if len(all) == 1 && u.relayed(n, a, all[0]) {
		return u.prover.Both(object, all[0].output)
	}
	return object
}

// relayed reports whether what arrives is the very output of a source: each of
// its ports, as it is and where it is there, under its own name, and nothing else.
func (u *unit) relayed(n *typedNode, a *assembly, s *supplier) bool {
	if !s.ran || n.forEach != nil || len(s.edges) != len(a.ports) || len(n.fills) > 0 {
		return false
	}
	for _, e := range s.edges {
		if e.fromPort != e.toPort || e.kind != plan.Data || e.template != nil {
			return false
		}
	}
	k := schemas.Keywords{Types: []string{"object"}, Properties: map[string]*schemas.Schema{}, Rest: schemas.False()}
	for _, port := range a.ports {
		k.Properties[port] = schemas.True()
	}
	return u.prover.Holds(s.output, schemas.Make(k))
}

// open is the outputs of a source that have that alternative's ports.
func (u *unit) open(s *supplier, way *schemas.Schema) *schemas.Schema {
	c := way.Compiled()
	k := schemas.Keywords{Types: []string{"object"}, Required: c.Required, Properties: map[string]*schemas.Schema{}}
	for _, name := range s.names {
		k.Properties[name] = u.prover.Property(way, name)
	}
	return u.prover.Both(s.output, schemas.Make(k))
}

// arriving is what an edge brings of one alternative of its source.
func (u *unit) arriving(doc *typedDocument, e *typedEdge, way, whole *schemas.Schema) *schemas.Schema {
	value := whole
	if e.fromPort != plan.WholePort {
		value = u.prover.Property(way, e.fromPort)
	}
	if e.template == nil {
		if e.kind == plan.Conditional {
			// Its condition says more of the value.
			value = u.prover.Both(value, e.brings)
		}
		return value
	}
	s := sight{value: value, output: whole, input: doc.input.usable(), port: e.fromPort, split: true}
	if c := u.checked(e.template, s); len(c.problems) == 0 {
		return u.prover.Both(c.result, e.brings)
	}
	return e.brings
}

// fill is what `with` gives a port, or nil.
func (n *typedNode) fill(port string) *fill {
	for k := range n.fills {
		if n.fills[k].port == port {
			return &n.fills[k]
		}
	}
	return nil
}

// filled is what `with` gives one call of a node.
func (u *unit) filled(n *typedNode, f *fill) *schemas.Schema {
	if n.splits(f.port) {
		return u.prover.Element(f.brings)
	}
	return f.brings
}

// happens looks for outputs of all sources that really make what a schema
// refuses. hint is a value of their object that it refuses. It gives the outputs,
// by node, and what arrives.
func (u *unit) happens(doc *typedDocument, i int, a *assembly, in *schemas.Schema, hint any) (before map[string]any, after any, found bool) {
	n := doc.nodes[i]
	object, ok := hint.(map[string]any)
	if !ok || n.forEach != nil {
		return nil, nil, false
	}
	sources := map[int][]*typedEdge{0: nil}
	order := []int{0}
	for _, at := range doc.in[i] {
		e := doc.edges[at]
		if e.kind == plan.Error || doc.back[at] || doc.nodes[e.from].forEach != nil {
			return nil, nil, false
		}
		if _, there := sources[e.from]; !there {
			order = append(order, e.from)
		}
		sources[e.from] = append(sources[e.from], e)
	}
	outputs := map[int]any{}
	for _, node := range order {
		if outputs[node], ok = u.output(doc, node, sources[node], object); !ok {
			return nil, nil, false
		}
	}
	return u.arrives(doc, i, a, in, outputs)
}

// output is an output of a node of which its edges bring what object has.
func (u *unit) output(doc *typedDocument, node int, edges []*typedEdge, object map[string]any) (any, bool) {
	s := u.offers(doc.nodes[node], plan.WholePort)
	if s == nil {
		return nil, false
	}
	k := schemas.Keywords{All: []*schemas.Schema{s}, Properties: map[string]*schemas.Schema{}}
	var absent []*schemas.Schema
	for _, e := range edges {
		if brought, known := u.brought(doc, e); e.required && known && brought.output != nil && brought.output != s {
			k.All = append(k.All, brought.output)
		}
		if e.required && e.template != nil && e.fromPort != plan.WholePort {
			k.Required = append(k.Required, e.fromPort)
		}
		if !e.carries() {
			continue
		}
		if e.template != nil {
			if v, there := object[e.toPort]; there {
				u.turned(doc, e, v, &k)
			}
			continue
		}
		v, there := object[e.toPort]
		one := schemas.Make(proof.Constant(v))
		switch {
		case there && e.fromPort == plan.WholePort:
			k.All = append(k.All, one)
		case there:
			k.Properties[e.fromPort] = one
			k.Required = append(k.Required, e.fromPort)
		case e.kind == plan.Data && !e.required:
			absent = append(absent, u.prover.Having(e.fromPort))
		}
	}
	if len(absent) > 0 {
		k.Not = schemas.Make(schemas.Keywords{Any: absent})
	}
	return u.prover.Sample(schemas.Make(k))
}

// turned asks of the output of an edge's source what its transform turns into v,
// if that is found.
func (u *unit) turned(doc *typedDocument, e *typedEdge, v any, k *schemas.Keywords) {
	s, ok := u.brought(doc, e)
	if !ok || e.template.Constant() || e.template.Reads("input") {
		return
	}
	other := schemas.Make(schemas.Keywords{Not: schemas.Make(proof.Constant(v))})
	from, _, found := u.search(doc, e, s, v, other)
	switch {
	case !found:
	case e.template.Reads("output"):
		if !e.template.Reads("value") {
			k.All = append(k.All, schemas.Make(proof.Constant(from)))
		}
	case e.fromPort == plan.WholePort:
		k.All = append(k.All, schemas.Make(proof.Constant(from)))
	case k.Properties[e.fromPort] == nil:
		k.Properties[e.fromPort] = schemas.Make(proof.Constant(from))
		k.Required = append(k.Required, e.fromPort)
	}
}

// arrives puts together what a node gets of outputs, as a run does, and reports
// whether a schema refuses it.
func (u *unit) arrives(doc *typedDocument, i int, a *assembly, in *schemas.Schema, outputs map[int]any) (before map[string]any, after any, found bool) {
	n := doc.nodes[i]
	got := map[string]any{}
	before = map[string]any{}
	some := false
	for _, at := range doc.in[i] {
		e := doc.edges[at]
		vars := expr.Vars{"output": outputs[e.from], "input": outputs[0]}
		value, there := pick(outputs[e.from], e.fromPort)
		if there && e.kind == plan.Conditional {
			vars["value"] = value
			holds := fails
			if !e.otherwise {
				holds = u.delivers(doc, e, value, vars)
			}
			if holds == fails {
				return nil, nil, false
			}
			there = holds == yes
		}
		if !there {
			if e.required {
				return nil, nil, false
			}
			continue
		}
		some = true
		if !e.carries() {
			continue
		}
		if e.template != nil {
			vars["value"] = value
			made, err := u.ready(e.template).Eval(vars)
			if err != nil {
				return nil, nil, false
			}
			value = made
		}
		if _, filled := got[e.toPort]; !filled {
			got[e.toPort] = value
			before[doc.nodes[e.from].id] = outputs[e.from]
		}
	}
	for _, f := range n.fills {
		if _, filled := got[f.port]; filled {
			continue
		}
		v, err := u.ready(f.template).Eval(expr.Vars{"input": outputs[0]})
		if err != nil {
			return nil, nil, false
		}
		got[f.port] = v
		if f.template.Reads("input") {
			before[doc.nodes[0].id] = outputs[0]
		}
	}
	for _, p := range doc.needs(i) {
		if _, filled := got[p]; !filled {
			return nil, nil, false // it does not run
		}
	}
	if n.kind == plan.KindCall && len(doc.in[i]) > 0 && !some {
		return nil, nil, false
	}
	_, refused := causeOf(got, in)
	return before, got, refused
}
