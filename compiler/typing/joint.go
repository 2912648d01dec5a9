package typing

import (
	"fmt"
	"maps"
	"slices"

	"chimera.ai/engine/compiler/internal/proof"
	"chimera.ai/engine/containment"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// Bounds of proving ports together: the alternatives of one source, the
// combinations of alternatives of all sources, and the ports by which alternatives
// differ.
const (
	maxWays   = 64
	maxJoints = 128
	maxNames  = 32
)

// source is a node whose output fills several ports of another node. It belongs to
// one alternative of its schema, and so do the values at all those ports.
type source struct {
	node int
	// output is the schema of its output once all its required edges are
	// delivered.
	output *schemas.Schema
	// ran reports that it has succeeded whenever the target runs.
	ran bool
	// edges each fill a port that no other edge fills; fills are entries of
	// `with` that read the plan's input.
	edges []*Edge
	fills []*fill
	// names are the ports by which alternatives differ, and ways the
	// alternatives.
	names []string
	ways  []*schemas.Schema
}

// jointly proves the input of a node for each combination of the alternatives of
// its sources. It returns the verdict for the first combination that is not proved.
// ok is false if no source has alternatives.
func (check *checker) jointly(doc *Document, i int, a *assembly, in *schemas.Schema) (r containment.Result, ok bool) {
	all, bounded := check.sources(doc, i, a)
	if len(all) == 0 {
		if bounded {
			r.Reason = fmt.Sprintf("what comes from one node has more than %d alternatives, or they take more than %d steps to find", maxWays, containment.DefaultSteps)
		}
		return r, bounded
	}
	combinations := 1
	for _, s := range all {
		combinations *= len(s.ways)
	}
	at := make([]int, len(all))
	for rest := range combinations {
		for k, s := range all {
			at[k] = rest % len(s.ways)
			rest /= len(s.ways)
		}
		r = check.prover.Within(check.combined(doc, i, a, all, at), in)
		if r.Verdict != containment.Proved {
			break
		}
	}
	return r, true
}

// together decides what r leaves open by looking at whole values of the sources. It
// also returns the outputs of the sources that make up a counterexample.
func (check *checker) together(doc *Document, i int, a *assembly, in *schemas.Schema, r containment.Result) (containment.Result, map[string]any) {
	hints := []containment.Result{r}
	if j, asked := check.jointly(doc, i, a, in); asked {
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
		if before, after, found := check.happens(doc, i, a, in, h.Witness); found {
			a.exact = true
			return containment.Result{Verdict: containment.Refuted, Witness: after}, before
		}
	}
	return r, nil
}

// sources returns the nodes whose output fills more than one port, or one that may
// be absent. bounded reports that one was left out because it has too many
// alternatives.
func (check *checker) sources(doc *Document, i int, a *assembly) (out []*source, bounded bool) {
	combinations := 1
	for _, s := range check.gathered(doc, i, a) {
		if s.output == nil {
			continue
		}
		check.prover.Derive(func(o containment.Options) { s.ways = containment.Project(s.output, s.names, maxWays, o) })
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

// gathered lists the sources of a node's ports in the order of their first edges.
func (check *checker) gathered(doc *Document, i int, a *assembly) []*source {
	n := doc.Nodes[i]
	var all []*source
	known := map[int]*source{}
	of := func(node int) *source {
		if s := known[node]; s != nil {
			return s
		}
		s := &source{node: node, output: check.offers(doc.Nodes[node], plan.WholePort), ran: check.ranBefore(doc, i, node)}
		all = append(all, s)
		known[node] = s
		return s
	}
	feeding := map[string]int{}
	for _, e := range a.edges {
		feeding[e.ToPort]++
	}
	for _, at := range doc.In[i] {
		e := doc.Edges[at]
		if !e.Carries() || doc.Back[at] || e.Kind == plan.Error || doc.Nodes[e.From].ForEach != nil || feeding[e.ToPort] > 1 {
			continue
		}
		s := of(e.From)
		s.edges = append(s.edges, e)
		s.name(doc, e.FromPort)
		if e.Template != nil && (e.FromPort == plan.WholePort || e.Template.Reads("output")) {
			s.all(doc)
		}
		if brought, known := check.brought(doc, e); e.Required && known && s.output != nil && brought.output != nil {
			s.output = check.prover.Both(s.output, brought.output)
		}
	}
	for k := range n.Fills {
		f := &n.Fills[k]
		if feeding[f.Port] == 0 && f.Template.Reads("input") {
			s := of(0)
			s.fills = append(s.fills, f)
			s.all(doc)
		}
	}
	return slices.DeleteFunc(all, func(s *source) bool {
		return len(s.edges)+len(s.fills) < 2 && !slices.ContainsFunc(s.edges, func(e *Edge) bool { return !e.Required })
	})
}

// name adds a port by which alternatives differ.
func (s *source) name(doc *Document, port string) {
	if port != plan.WholePort && port != plan.DonePort && !slices.Contains(s.names, port) && len(s.names) < maxNames {
		s.names = append(s.names, port)
	}
}

// all adds every port that the schema of the source lists.
func (s *source) all(doc *Document) {
	if out := doc.Nodes[s.node].Output; out != nil {
		for _, port := range out.Ports().Names {
			s.name(doc, port)
		}
	}
}

// ranBefore reports whether a node has succeeded whenever the target runs: it is
// $input, a required edge leads from its success to the target, or no other node's
// edge does.
func (check *checker) ranBefore(doc *Document, i, node int) bool {
	if node == 0 {
		return true
	}
	only := doc.Nodes[i].Kind == plan.KindCall
	for _, at := range doc.In[i] {
		e := doc.Edges[at]
		if doc.Back[at] {
			only = false
			continue
		}
		if e.From == node && e.Required && e.Kind != plan.Error {
			return true
		}
		only = only && e.From == node && e.Kind != plan.Error
	}
	return only
}

// combined is the schema of the object that arrives if each source has the
// alternative in at.
func (check *checker) combined(doc *Document, i int, a *assembly, all []*source, at []int) *schemas.Schema {
	n := doc.Nodes[i]
	types := maps.Clone(a.types)
	b := *a
	b.certain = slices.Clone(a.certain)
	for k, s := range all {
		way := s.ways[at[k]]
		whole := check.open(s, way)
		for _, e := range s.edges {
			value := check.perCall(n, e.ToPort, check.arriving(doc, e, way, whole))
			there := e.Required || e.Kind == plan.Data && s.ran && (e.FromPort == plan.WholePort || slices.Contains(way.Compiled().Required, e.FromPort))
			given := n.fill(e.ToPort)
			switch {
			case given != nil && !there:
				value = check.prover.Either(value, check.perCall(n, given.Port, given.brings))
			case there && !slices.Contains(b.certain, e.ToPort):
				b.certain = append(b.certain, e.ToPort)
			}
			types[e.ToPort] = value
		}
		for _, f := range s.fills {
			if c := check.checked(f.Template, scope{input: whole, split: true}); len(c.problems) == 0 {
				types[f.Port] = check.perCall(n, f.Port, check.prover.Both(c.result, f.brings))
			}
		}
	}
	slices.Sort(b.certain)
	object := check.object(&b, types)
	if len(all) == 1 && check.relayed(n, a, all[0]) {
		return check.prover.Both(object, all[0].output)
	}
	return object
}

// relayed reports whether the object that arrives is the output of a source: all of
// its ports, unchanged and under their own names, and nothing else.
func (check *checker) relayed(n *Node, a *assembly, s *source) bool {
	if !s.ran || n.ForEach != nil || len(s.edges) != len(a.ports) || len(n.Fills) > 0 {
		return false
	}
	for _, e := range s.edges {
		if e.FromPort != e.ToPort || e.Kind != plan.Data || e.Template != nil {
			return false
		}
	}
	k := schemas.Keywords{Types: []string{"object"}, Properties: map[string]*schemas.Schema{}, Rest: schemas.False()}
	for _, port := range a.ports {
		k.Properties[port] = schemas.True()
	}
	return check.prover.Holds(s.output, schemas.Make(k))
}

// open is the schema of the outputs of a source that have the ports of an
// alternative.
func (check *checker) open(s *source, way *schemas.Schema) *schemas.Schema {
	c := way.Compiled()
	k := schemas.Keywords{Types: []string{"object"}, Required: c.Required, Properties: map[string]*schemas.Schema{}}
	for _, name := range s.names {
		k.Properties[name] = check.prover.Property(way, name)
	}
	return check.prover.Both(s.output, schemas.Make(k))
}

// arriving is the schema of what an edge brings of one alternative of its source.
func (check *checker) arriving(doc *Document, e *Edge, way, whole *schemas.Schema) *schemas.Schema {
	value := whole
	if e.FromPort != plan.WholePort {
		value = check.prover.Property(way, e.FromPort)
	}
	if e.Template == nil {
		if e.Kind == plan.Conditional {
			// The condition says more about the value.
			value = check.prover.Both(value, e.brings)
		}
		return value
	}
	s := scope{value: value, output: whole, input: doc.input.Usable(), port: e.FromPort, split: true}
	if c := check.checked(e.Template, s); len(c.problems) == 0 {
		return check.prover.Both(c.result, e.brings)
	}
	return e.brings
}

// fill returns the entry of `with` for a port, or nil.
func (n *Node) fill(port string) *fill {
	for k := range n.Fills {
		if n.Fills[k].Port == port {
			return &n.Fills[k]
		}
	}
	return nil
}

// happens searches for outputs of all sources that together make a value that in
// refuses. hint is such a value. It returns the outputs by node, and the value.
func (check *checker) happens(doc *Document, i int, a *assembly, in *schemas.Schema, hint any) (before map[string]any, after any, found bool) {
	n := doc.Nodes[i]
	object, ok := hint.(map[string]any)
	if !ok || n.ForEach != nil {
		return nil, nil, false
	}
	sources := map[int][]*Edge{0: nil}
	order := []int{0}
	for _, at := range doc.In[i] {
		e := doc.Edges[at]
		if e.Kind == plan.Error || doc.Back[at] || doc.Nodes[e.From].ForEach != nil {
			return nil, nil, false
		}
		if _, there := sources[e.From]; !there {
			order = append(order, e.From)
		}
		sources[e.From] = append(sources[e.From], e)
	}
	outputs := map[int]any{}
	for _, node := range order {
		if outputs[node], ok = check.output(doc, node, sources[node], object); !ok {
			return nil, nil, false
		}
	}
	return check.arrives(doc, i, a, in, outputs)
}

// output returns an output of a node from which its edges bring the ports of
// object.
func (check *checker) output(doc *Document, node int, edges []*Edge, object map[string]any) (any, bool) {
	s := check.offers(doc.Nodes[node], plan.WholePort)
	if s == nil {
		return nil, false
	}
	k := schemas.Keywords{All: []*schemas.Schema{s}, Properties: map[string]*schemas.Schema{}}
	var absent []*schemas.Schema
	for _, e := range edges {
		if brought, known := check.brought(doc, e); e.Required && known && brought.output != nil && brought.output != s {
			k.All = append(k.All, brought.output)
		}
		if e.Required && e.Template != nil && e.FromPort != plan.WholePort {
			k.Required = append(k.Required, e.FromPort)
		}
		v, there := object[e.ToPort]
		switch {
		case !e.Carries():
		case e.Template != nil:
			if there {
				check.turned(doc, e, v, &k)
			}
		case there && e.FromPort == plan.WholePort:
			k.All = append(k.All, schemas.Make(proof.Constant(v)))
		case there:
			k.Properties[e.FromPort] = schemas.Make(proof.Constant(v))
			k.Required = append(k.Required, e.FromPort)
		case e.Kind == plan.Data && !e.Required:
			absent = append(absent, check.prover.Having(e.FromPort))
		}
	}
	if len(absent) > 0 {
		k.Not = schemas.Make(schemas.Keywords{Any: absent})
	}
	return check.prover.Sample(schemas.Make(k))
}

// turned adds to k that the output contains a value that the edge's transform turns
// into v, if one is found.
func (check *checker) turned(doc *Document, e *Edge, v any, k *schemas.Keywords) {
	s, ok := check.brought(doc, e)
	if !ok || e.Template.Constant() || e.Template.Reads("input") {
		return
	}
	other := schemas.Make(schemas.Keywords{Not: schemas.Make(proof.Constant(v))})
	from, _, found := check.search(doc, e, s, v, other)
	reads := e.Template.Reads("output")
	switch {
	case !found || reads && e.Template.Reads("value"):
	case reads || e.FromPort == plan.WholePort:
		k.All = append(k.All, schemas.Make(proof.Constant(from)))
	case k.Properties[e.FromPort] == nil:
		k.Properties[e.FromPort] = schemas.Make(proof.Constant(from))
		k.Required = append(k.Required, e.FromPort)
	}
}

// arrives assembles a node's input from outputs as a run does, and reports whether
// in refuses it.
func (check *checker) arrives(doc *Document, i int, a *assembly, in *schemas.Schema, outputs map[int]any) (before map[string]any, after any, found bool) {
	n := doc.Nodes[i]
	got := map[string]any{}
	before = map[string]any{}
	some := false
	for _, at := range doc.In[i] {
		e := doc.Edges[at]
		vars := expr.Vars{"output": outputs[e.From], "input": outputs[0]}
		value, there := plan.PortValue(outputs[e.From], e.FromPort)
		if there && e.Kind == plan.Conditional {
			vars["value"] = value
			holds := fails
			if !e.Otherwise {
				holds = check.delivers(doc, e, value, vars)
			}
			if holds == fails {
				return nil, nil, false
			}
			there = holds == yes
		}
		if !there {
			if e.Required {
				return nil, nil, false
			}
			continue
		}
		some = true
		if !e.Carries() {
			continue
		}
		if e.Template != nil {
			vars["value"] = value
			var err error
			if value, err = check.ready(e.Template).Eval(vars); err != nil {
				return nil, nil, false
			}
		}
		if _, filled := got[e.ToPort]; !filled {
			got[e.ToPort] = value
			before[doc.Nodes[e.From].ID] = outputs[e.From]
		}
	}
	for _, f := range n.Fills {
		if _, filled := got[f.Port]; filled {
			continue
		}
		v, err := check.ready(f.Template).Eval(expr.Vars{"input": outputs[0]})
		if err != nil {
			return nil, nil, false
		}
		got[f.Port] = v
		if f.Template.Reads("input") {
			before[doc.Nodes[0].ID] = outputs[0]
		}
	}
	if p := n.KeyPort(); p != "" {
		got[p] = aKey
	}
	for _, p := range doc.Needs(i) {
		if _, filled := got[p]; !filled {
			return nil, nil, false // it does not run
		}
	}
	if n.Kind == plan.KindCall && len(doc.In[i]) > 0 && !some {
		return nil, nil, false
	}
	_, refused := causeOf(got, in)
	return before, got, refused
}
