package notation

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// Shorten returns the plans of a file in their short notation. follow reports that schemas which
// the file leaves out follow from the plan, rather than being those of the template. The text is
// nil if the file cannot be read, and the diagnostics say why; they warn where comments are lost.
func Shorten(src diag.Source, cat *catalog.Catalog, follow bool) ([]byte, diag.Diagnostics, error) {
	g, ds := read(src, cat, follow)
	if g == nil {
		return nil, ds, nil
	}
	generic := explicit(g)
	want := meaning(longs(g))
	// What is left undone on each try: first nothing, then schemas, then references.
	for _, keep := range []keeping{{unlike: unlike(src, cat, g, generic)}, {schemas: true}, {schemas: true, references: true}} {
		keep.generic = generic
		edited, docs := shorts(src, g, keep)
		if text, ds := rewritten(src, g, cat, want, edited, docs); text != nil {
			return text, ds, nil
		}
	}
	return nil, nil, errUnlike
}

// keeping says what is not shortened.
type keeping struct {
	schemas, references bool
	// unlike are the nodes whose schemas would be others if they were left out, and generic those
	// that have the schemas of the template and do not say so.
	unlike, generic map[nodeOf]bool
}

// explicit finds the nodes whose schemas are those of the template, and has their long notation
// say so: in a plan with short forms others would follow.
func explicit(g *lint.Graph) map[nodeOf]bool {
	generic := map[nodeOf]bool{}
	for i, doc := range g.Documents {
		for _, n := range doc.Nodes {
			if !n.Followed && n.Passes() && (n.At.Get("input_schema") == nil || n.At.Get("output_schema") == nil) {
				n.Followed = true
				generic[nodeOf{i, n.ID}] = true
			}
		}
	}
	return generic
}

// shorts returns the plans in the notation of keep, and their text by edits, or nil.
func shorts(src diag.Source, g *lint.Graph, keep keeping) (edited []byte, docs []*syntax.Value) {
	e := &editor{text: src.Text}
	for i, doc := range g.Documents {
		s := newShortener(doc, keep, i)
		docs = append(docs, s.document())
		e.shorten(doc, s)
	}
	return e.result(), docs
}

// unlike finds the nodes whose schemas do not follow from a plan that leaves them out. Those that
// differ only since others do are found by leaving these out no more.
func unlike(src diag.Source, cat *catalog.Catalog, g *lint.Graph, generic map[nodeOf]bool) map[nodeOf]bool {
	const rounds = 4
	out := map[nodeOf]bool{}
	for round := range rounds {
		found := differing(src, cat, g, keeping{unlike: out, generic: generic})
		for name, because := range found {
			if round == rounds-1 || !because {
				out[name] = true
			}
		}
		if len(found) == 0 {
			break
		}
	}
	return out
}

// differing lists the nodes whose schemas are others in the short notation, and whether one that
// differs as well comes right before them.
func differing(src diag.Source, cat *catalog.Catalog, g *lint.Graph, keep keeping) map[nodeOf]bool {
	out := map[nodeOf]bool{}
	var docs []*syntax.Value
	for i, doc := range g.Documents {
		docs = append(docs, newShortener(doc, keep, i).document())
	}
	other, _ := read(diag.Source{Name: src.Name, Text: emit(docs, nil)}, cat, false)
	if other == nil || len(other.Documents) != len(g.Documents) {
		return out
	}
	for i, doc := range g.Documents {
		for _, n := range doc.Nodes {
			at, known := other.Documents[i].Index[n.ID]
			if n.Kind == plan.KindCall && (!known || !sameSchemas(n, other.Documents[i].Nodes[at])) {
				out[nodeOf{i, n.ID}] = false
			}
		}
		for _, e := range doc.Edges {
			_, source := out[nodeOf{i, e.FromNode}]
			if _, target := out[nodeOf{i, e.ToNode}]; source && target && e.FromNode != e.ToNode {
				out[nodeOf{i, e.ToNode}] = true
			}
		}
	}
	return out
}

// nodeOf names a node of a file: by the index of its document, and its id.
type nodeOf struct {
	doc int
	id  string
}

func sameSchemas(a, b *lint.Node) bool {
	same := func(a, b *lint.Schema) bool {
		if a == nil || b == nil {
			return a == b
		}
		return bytes.Equal(a.Raw, b.Raw)
	}
	return same(a.Input, b.Input) && same(a.Output, b.Output)
}

// shortener writes a plan in its short notation.
type shortener struct {
	doc   *lint.Document
	keep  keeping
	index int
	// units are what edges become part of, by edge.
	units map[*lint.Edge]*unit
	// nodes are what is added to each node, by its id.
	nodes map[string]*additions
	// left are the edges that stay in the list, in their order.
	left []*lint.Edge
}

// additions are the short forms of a node.
type additions struct {
	after     []string
	when      string
	otherwise []string
	// with holds the entries that are added or changed, in order.
	with []syntax.Field
	undo []syntax.Field
	by   string
}

// unit is a set of edges that one short form stands for.
type unit struct {
	edges []*lint.Edge
	// at is where the short form stands among those of the plan: the index of the node that its
	// edges enter, its place in that, and the port.
	at, rank int
	port     string
	apply    func(a *additions)
	out      bool
}

func newShortener(doc *lint.Document, keep keeping, index int) *shortener {
	s := &shortener{doc: doc, keep: keep, index: index, units: map[*lint.Edge]*unit{}, nodes: map[string]*additions{}}
	if !keep.references {
		s.propose()
		s.order()
	}
	applied := map[*unit]bool{}
	for _, e := range doc.Edges {
		u := s.units[e]
		if u == nil {
			if e.Form <= lint.FormArrow {
				s.left = append(s.left, e)
			}
			continue
		}
		if !applied[u] {
			applied[u] = true
			id := e.ToNode
			if e.FromPort == plan.CompensatePort {
				id = e.FromNode
			}
			if s.nodes[id] == nil {
				s.nodes[id] = &additions{}
			}
			u.apply(s.nodes[id])
		}
	}
	return s
}

// order takes back the units whose edges would stand elsewhere than they do.
func (s *shortener) order() {
	for s.disorderly() {
		// Each time it has taken back at least one.
	}
}

// disorderly takes back the units that are out of order, and reports whether there are any.
func (s *shortener) disorderly() bool {
	var list []*lint.Edge
	for _, e := range s.doc.Edges {
		if s.listed(e) {
			list = append(list, e)
		}
	}
	places := s.doc.Places(list)
	found := false
	last, seen := unit{at: -1}, 0
	open := map[*unit]int{}
	var previous *unit
	for _, e := range s.doc.Edges {
		if s.listed(e) {
			seen++
			last, previous = unit{at: -1}, nil
			continue
		}
		u := s.units[e]
		if u == nil { // a short form that the file has
			last, previous = unit{at: s.target(e), rank: rankRollback + 1}, nil
			continue
		}
		torn := u != previous && open[u] > 0
		if places[u.at] != seen || torn || u.precedes(&last) {
			u.out, found = true, true
		} else {
			last = *u
		}
		open[u]++
		previous = u
	}
	for e, u := range s.units {
		if u.out {
			delete(s.units, e)
		}
	}
	return found
}

// precedes reports whether a unit stands before another.
func (u *unit) precedes(other *unit) bool {
	return cmp.Or(cmp.Compare(u.at, other.at), cmp.Compare(u.rank, other.rank), strings.Compare(u.port, other.port)) < 0
}

// listed reports whether an edge stays in the list.
func (s *shortener) listed(e *lint.Edge) bool { return s.units[e] == nil && e.Form <= lint.FormArrow }

func (s *shortener) target(e *lint.Edge) int {
	if i, ok := s.doc.Index[e.ToNode]; ok {
		return i
	}
	return -1
}

// document returns the plan in its short notation.
func (s *shortener) document() *syntax.Value {
	doc := s.doc
	var out []syntax.Field
	edges := make([]*syntax.Value, len(s.left))
	for i, e := range s.left {
		edges[i] = shortEdge(e)
	}
	edges = slices.Compact(edges) // an entry that stands for several edges
	returned := s.returns()
	for _, f := range doc.At.Fields {
		switch f.Key.Text {
		case "nodes":
			var nodes []*syntax.Value
			for _, n := range doc.Nodes {
				if n.Kind == plan.KindCall && n.Written() {
					nodes = append(nodes, s.node(n))
				}
			}
			f.Value = f.Value.ListAs(nodes)
		case "output":
			if returned != nil {
				f.Value = returned
			}
		case "edges":
			if returned != nil && doc.At.Get("output") == nil {
				out = append(out, entry(doc.At, "output", returned))
			}
			if len(edges) == 0 && len(f.Value.Items) > 0 {
				continue
			}
			f.Value = f.Value.ListAs(edges)
		}
		out = append(out, f)
	}
	return doc.At.MapAs(out)
}

// returns is the plan's `output` with what is added to it, or nil if nothing is.
func (s *shortener) returns() *syntax.Value {
	a := s.nodes[plan.OutputNode]
	if a == nil || len(a.with) == 0 {
		return nil
	}
	old := s.doc.At.Get("output")
	if old == nil || old.Kind != syntax.Map {
		return whole(s.doc.At, a.with)
	}
	return old.MapAs(append(slices.Clone(old.Fields), a.with...))
}

// whole returns entries as a map, or the entry of the whole value alone.
func whole(at *syntax.Value, entries []syntax.Field) *syntax.Value {
	if len(entries) == 1 && entries[0].Key.Text == plan.WholePort && entries[0].Value.Kind == syntax.String && strings.Contains(entries[0].Value.Text, "${") {
		return entries[0].Value
	}
	return at.MapAs(entries)
}

// node returns a node with its short forms.
func (s *shortener) node(n *lint.Node) *syntax.Value {
	a := s.nodes[n.ID]
	if a == nil {
		a = &additions{}
	}
	at := n.At
	var out []syntax.Field
	for _, f := range at.Fields {
		switch name := f.Key.Text; {
		case (name == "input_schema" || name == "output_schema") && s.follows(n, name):
			continue
		case name == "with" && len(a.with) > 0:
			f.Value = joined(at, f.Value, a.with)
		case name == "commit_policy" && len(a.undo) > 0:
			undo := at.MapAs([]syntax.Field{entry(at, "node", at.TextAs(a.by)), entry(at, "with", whole(at, a.undo))})
			f.Value = f.Value.MapAs(append(slices.Clone(f.Value.Fields), entry(at, "rollback", undo)))
		}
		out = append(out, f)
	}
	names := func(list []string) *syntax.Value {
		if len(list) == 1 {
			return at.TextAs(list[0])
		}
		items := make([]*syntax.Value, len(list))
		for i, name := range list {
			items[i] = at.TextAs(name)
		}
		return at.ListAs(items)
	}
	if len(a.after) > 0 {
		out = append(out, entry(at, "after", names(a.after)))
	}
	if a.when != "" {
		out = append(out, entry(at, "when", at.TextAs(a.when)))
	}
	if len(a.otherwise) > 0 {
		out = append(out, entry(at, "otherwise_of", names(a.otherwise)))
	}
	if at.Get("with") == nil && len(a.with) > 0 {
		out = append(out, entry(at, "with", whole(at, a.with)))
	}
	if s.keep.generic[nodeOf{s.index, n.ID}] {
		out = append(out, schemasOf(n)...)
	}
	return at.MapAs(out)
}

// follows reports whether a schema may be left out since it follows from the plan.
func (s *shortener) follows(n *lint.Node, name string) bool {
	if s.keep.schemas || s.keep.unlike[nodeOf{s.index, n.ID}] || !n.Passes() || n.Input == nil || n.Output == nil || !bytes.Equal(n.Input.Raw, n.Output.Raw) {
		return false
	}
	return true
}

// joined adds entries to those of `with`; one with a key that is there takes its place.
func joined(at, old *syntax.Value, more []syntax.Field) *syntax.Value {
	var out []syntax.Field
	for _, f := range old.Fields {
		if !slices.ContainsFunc(more, func(m syntax.Field) bool { return m.Key.Text == f.Key.Text }) {
			out = append(out, f)
		}
	}
	return at.MapAs(append(out, more...))
}
