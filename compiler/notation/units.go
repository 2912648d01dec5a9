package notation

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// Places of the short forms within a node.
const (
	rankAfter = iota
	rankWhen
	rankOtherwise
	rankWith
	rankRollback
)

// propose finds what each edge of the list could become part of.
func (s *shortener) propose() {
	into := map[string][]*lint.Edge{}
	out := map[string][]*lint.Edge{}
	for _, e := range s.doc.Edges {
		into[e.ToNode] = append(into[e.ToNode], e)
		out[e.FromNode] = append(out[e.FromNode], e)
	}
	for i, n := range s.doc.Nodes {
		switch {
		case n.Kind == plan.KindInput || n.Kind == plan.KindCall && !n.Written() || s.doc.Index[n.ID] != i:
			continue
		case n.Kind == plan.KindCall:
			s.afters(i, n, into[n.ID])
			s.condition(i, n, into[n.ID], out)
			s.undoing(n, out[n.ID])
		case n.Kind == plan.KindOutput && s.doc.At.Get("output") != nil && s.doc.At.Get("output").Kind != syntax.Map:
			continue
		}
		s.values(i, n, into[n.ID])
	}
}

func (s *shortener) add(u *unit) {
	for _, e := range u.edges {
		s.units[e] = u
	}
}

// free reports whether an edge stands in the list and has nothing but what a form needs.
func free(e *lint.Edge) bool { return e.Form <= lint.FormArrow && e.Shaped && e.Check == nil }

func (s *shortener) afters(i int, n *lint.Node, edges []*lint.Edge) {
	if n.AfterAt != nil {
		return
	}
	for _, e := range edges {
		if free(e) && e.Kind == plan.Control && e.Required && e.FromPort == plan.DonePort && e.ToPort == plan.StartPort && e.When == nil && !e.Otherwise && e.Transform == nil {
			s.add(&unit{edges: []*lint.Edge{e}, at: i, rank: rankAfter, apply: func(a *additions) { a.after = append(a.after, e.FromNode) }})
		}
	}
}

// condition proposes `when` or `otherwise_of`.
func (s *shortener) condition(i int, n *lint.Node, edges []*lint.Edge, out map[string][]*lint.Edge) {
	if n.WhenAt != nil || n.OtherwiseAt != nil {
		return
	}
	var found []*lint.Edge
	for _, e := range edges {
		if e.Kind == plan.Conditional && e.ToPort == plan.StartPort {
			found = append(found, e)
		}
	}
	if len(found) != 1 || !free(found[0]) || !found[0].Required || found[0].Transform != nil {
		return
	}
	e := found[0]
	if e.Otherwise {
		s.otherwise(i, e, out[e.FromNode])
		return
	}
	text, ok := condition(e)
	if ok {
		s.add(&unit{edges: []*lint.Edge{e}, at: i, rank: rankWhen, apply: func(a *additions) { a.when = text }})
	}
}

// otherwise proposes `otherwise_of`: it names all nodes that the other conditional edges of the
// source start.
func (s *shortener) otherwise(i int, e *lint.Edge, siblings []*lint.Edge) {
	var names []string
	for _, x := range siblings {
		if x.Kind != plan.Conditional || x.Otherwise {
			continue
		}
		if x.ToPort != plan.StartPort || x.ToNode == plan.OutputNode || slices.Contains(names, x.ToNode) {
			return
		}
		if len(names) == 0 && x.FromPort != e.FromPort {
			return
		}
		names = append(names, x.ToNode)
	}
	if len(names) > 0 {
		s.add(&unit{edges: []*lint.Edge{e}, at: i, rank: rankOtherwise, apply: func(a *additions) { a.otherwise = names }})
	}
}

// condition returns the condition of an edge as one over nodes.
func condition(e *lint.Edge) (text string, ok bool) {
	ref := reference(e.FromNode, e.FromPort)
	switch {
	case e.FromPort == plan.DonePort && e.FromNode == plan.InputNode && e.When != nil:
		return e.When.Text, len(expr.Free(e.When.Text, "output", "nodes")) == 0
	case e.FromNode == plan.InputNode:
		return "", false
	case e.FromPort == plan.DonePort:
		if e.When == nil {
			return "", false
		}
		return over(e, "output", reference(e.FromNode, plan.WholePort), "value", "nodes")
	case ref == "":
		return "", false
	case e.When == nil:
		return ref, true
	}
	return over(e, "value", ref, "output", "nodes")
}

// over returns the condition of an edge with another text for the name that it reads, if it reads
// that, and none of others.
func over(e *lint.Edge, name, ref string, others ...string) (text string, ok bool) {
	if ref == "" || expr.Binds(e.When.Text, name) || len(expr.Free(e.When.Text, others...)) > 0 || len(expr.Free(e.When.Text, name)) == 0 {
		return "", false
	}
	text = expr.Replaced(e.When.Text, map[string]string{name: ref})
	refs := expr.References(text, "nodes")
	port, several := portOf(refs)
	if several {
		return text, e.FromPort == plan.DonePort
	}
	return text, port == e.FromPort
}

// portOf returns the port that references to one node read. It is the whole output if they read
// several.
func portOf(refs []expr.Reference) (port string, several bool) {
	for i, r := range refs {
		p := cmp.Or(r.Second, plan.WholePort)
		if i > 0 && p != port {
			return plan.WholePort, true
		}
		port = p
	}
	return port, false
}

// references lists what the expressions of a template read of nodes.
func references(v *syntax.Value) (out []expr.Reference) {
	for _, item := range v.Items {
		out = append(out, references(item)...)
	}
	for _, f := range v.Fields {
		out = append(out, references(f.Value)...)
	}
	if v.Kind != syntax.String {
		return out
	}
	segments, _ := expr.Segments(v.Text)
	for _, s := range segments {
		if s.Expression {
			out = append(out, expr.References(v.Text[s.Start:s.End], "nodes")...)
		}
	}
	return out
}

var simple = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// reference returns the reference to a port of a node, or "".
func reference(node, port string) string {
	ref := "nodes." + node
	switch {
	case node == plan.InputNode && !simple.MatchString(port):
		return ""
	case node == plan.InputNode:
		return "input." + port
	case strings.HasPrefix(node, "$"):
		return ""
	case port == plan.WholePort:
		return ref
	case strings.HasPrefix(port, "$") || strings.ContainsAny(port, "'\\\n"):
		return ""
	}
	return ref + lint.Member(port)
}

// undoing proposes `rollback`.
func (s *shortener) undoing(n *lint.Node, edges []*lint.Edge) {
	if n.Commit == nil || n.Commit.Undo != nil || n.At.Get("commit_policy") == nil || n.At.Get("commit_policy").Get("rollback") != nil {
		return
	}
	u := &unit{rank: rankRollback}
	var with []syntax.Field
	seen := map[string]bool{}
	for _, e := range edges {
		if e.FromPort != plan.CompensatePort {
			continue
		}
		if !free(e) || e.Kind != plan.Error || !e.Required || e.When != nil || e.Otherwise || e.Transform == nil || strings.HasPrefix(e.ToNode, "$") || seen[e.ToPort] || len(u.edges) > 0 && u.edges[0].ToNode != e.ToNode ||
			embedded.Bare(e.Transform) {
			return
		}
		if len(u.edges) > 0 && e.ToPort < u.edges[len(u.edges)-1].ToPort {
			return
		}
		seen[e.ToPort] = true
		u.edges = append(u.edges, e)
		with = append(with, entry(n.At, e.ToPort, e.Transform))
	}
	if len(u.edges) == 0 {
		return
	}
	u.at = s.target(u.edges[0])
	by := u.edges[0].ToNode
	u.apply = func(a *additions) { a.undo, a.by = with, by }
	s.add(u)
}

// values proposes entries of `with`, or of the plan's output.
func (s *shortener) values(i int, n *lint.Node, edges []*lint.Edge) {
	byPort := map[string][]*lint.Edge{}
	for _, e := range edges {
		if e.Carries() {
			byPort[e.ToPort] = append(byPort[e.ToPort], e)
		}
	}
	var given *syntax.Value
	if n.Kind == plan.KindOutput {
		given = s.doc.At.Get("output")
	} else if given = n.At.Get("with"); given != nil && given.Kind != syntax.Map {
		return
	}
	var defaulted *unit
	for _, e := range edges {
		list := byPort[e.ToPort]
		if !e.Carries() || list[0] != e {
			continue
		}
		text, v, ok := s.entry(n, e.ToPort, list, given)
		if !ok {
			continue
		}
		if v == nil {
			v = e.At.TextAs(text)
		}
		f := entry(e.At, e.ToPort, v)
		u := &unit{edges: list, at: i, rank: rankWith, port: e.ToPort, apply: func(a *additions) { a.with = append(a.with, f) }}
		s.add(u)
		if given.Get(e.ToPort) != nil {
			defaulted = u
		}
	}
	if start := alone(edges); start != nil && defaulted != nil {
		defaulted.edges = append(slices.Clone(defaulted.edges), start)
		s.add(defaulted)
	}
}

// alone returns the control edge from `$input` that lets a node run whatever of its alternatives
// arrives: the only required one into it. It is nil if there is none.
func alone(edges []*lint.Edge) *lint.Edge {
	var start *lint.Edge
	for _, e := range edges {
		if !e.Required {
			continue
		}
		if start != nil || !free(e) || e.Kind != plan.Control || e.FromNode != plan.InputNode || e.When != nil || e.Otherwise {
			return nil
		}
		start = e
	}
	return start
}

// entry returns the entry that the edges into a port become: a text, or a template.
func (s *shortener) entry(n *lint.Node, port string, edges []*lint.Edge, given *syntax.Value) (text string, v *syntax.Value, ok bool) {
	for _, e := range edges {
		if !free(e) || e.Kind != plan.Data {
			return "", nil, false
		}
	}
	standing := given.Get(port)
	if e := edges[0]; len(edges) == 1 && e.Required == (n.Kind != plan.KindOutput || s.doc.Output == nil || port == plan.WholePort || s.doc.Output.Ports().Requires(port)) {
		if standing != nil {
			return "", nil, false
		}
		if e.FromNode == plan.InputNode {
			return s.fromInput(n, e)
		}
		v, ok := template(e)
		return "", v, ok
	}
	last := edges[len(edges)-1]
	if n.Kind == plan.KindOutput && standing == nil && last.FromNode == plan.InputNode && last.FromPort == plan.WholePort && last.Transform != nil && !last.Required {
		edges, standing = edges[:len(edges)-1], last.Transform
		if len(edges) == 0 {
			return "", nil, false
		}
	}
	var parts []string
	var around [2]string
	for i, e := range edges {
		part, text, ok := part(e)
		if e.Required || !ok || i > 0 && text != around {
			return "", nil, false
		}
		around = text
		parts = append(parts, part)
	}
	if standing != nil {
		fallback, ok := fallback(standing, around)
		if !ok {
			return "", nil, false
		}
		parts = append(parts, fallback)
	}
	if len(parts) < 2 || edges[len(edges)-1].FromNode == plan.InputNode {
		return "", nil, false // what reads the input only is no edge
	}
	return around[0] + "${" + strings.Join(parts, " ?? ") + "}" + around[1], nil, true
}

// fromInput returns the entry of `output` that an edge from the plan's input becomes.
func (s *shortener) fromInput(n *lint.Node, e *lint.Edge) (text string, v *syntax.Value, ok bool) {
	switch {
	case n.Kind != plan.KindOutput:
	case e.Transform == nil && e.FromPort == plan.WholePort:
		return "${input}", nil, true
	case e.Transform == nil && simple.MatchString(e.FromPort):
		return "${input." + e.FromPort + "}", nil, true
	case e.FromPort == plan.WholePort && e.Transform != nil && !embedded.Bare(e.Transform) && !reads(e.Transform, "value", "output", "nodes"):
		return "", e.Transform, true
	}
	return "", nil, false
}

// template returns the template over nodes that an edge with its transform becomes.
func template(e *lint.Edge) (*syntax.Value, bool) {
	ref := reference(e.FromNode, e.FromPort)
	switch {
	case ref == "":
		return nil, false
	case e.Transform == nil:
		return e.At.TextAs("${" + ref + "}"), true
	case embedded.Bare(e.Transform) || reads(e.Transform, "output", "nodes") || !reads(e.Transform, "value") || binds(e.Transform, "value"):
		return nil, false
	}
	v := renamed(e.Transform, map[string]string{"value": ref})
	port, _ := portOf(references(v))
	return v, e.FromNode == plan.InputNode || port == e.FromPort
}

// part returns an alternative of `??` that an edge becomes, and the text around it.
func part(e *lint.Edge) (inner string, around [2]string, ok bool) {
	v, ok := template(e)
	if !ok || v.Kind != syntax.String {
		return "", around, false
	}
	segments, _ := expr.Segments(v.Text)
	at := -1
	for i, s := range segments {
		if !s.Expression || len(expr.References(v.Text[s.Start:s.End], "nodes")) == 0 && e.FromNode != plan.InputNode {
			continue
		}
		if at >= 0 {
			return "", around, false
		}
		at = i
	}
	if at < 0 {
		return "", around, false
	}
	s := segments[at]
	around = [2]string{v.Text[:s.Start-len("${")], v.Text[s.End+len("}"):]}
	return strings.TrimSpace(v.Text[s.Start:s.End]), around, true
}

// fallback returns the last alternative of `??` for the entry that edges leave as a default.
func fallback(v *syntax.Value, around [2]string) (string, bool) {
	if around == [2]string{} {
		return literal(v)
	}
	inner, ok := strings.CutPrefix(v.Text, around[0]+"${")
	if ok {
		inner, ok = strings.CutSuffix(inner, "}"+around[1])
	}
	return strings.TrimSpace(inner), ok && v.Kind == syntax.String
}

// literal returns a constant, or an expression over the input, as the last alternative of `??`.
func literal(v *syntax.Value) (string, bool) {
	switch v.Kind {
	case syntax.String:
		if !strings.ContainsAny(v.Text, "'\\\n$") {
			return "'" + v.Text + "'", true
		}
		if segments, ok := expr.Segments(v.Text); ok && len(segments) == 1 && segments[0].Expression {
			return strings.TrimSpace(v.Text[segments[0].Start:segments[0].End]), true
		}
	case syntax.Number, syntax.Bool:
		return v.Text, true
	case syntax.Null, syntax.List, syntax.Map:
	}
	return "", false
}

// reads reports whether an expression of a template reads one of some names.
func reads(v *syntax.Value, names ...string) bool {
	for _, item := range v.Items {
		if reads(item, names...) {
			return true
		}
	}
	for _, f := range v.Fields {
		if reads(f.Value, names...) {
			return true
		}
	}
	if v.Kind != syntax.String {
		return false
	}
	segments, _ := expr.Segments(v.Text)
	return slices.ContainsFunc(segments, func(s expr.Segment) bool {
		return s.Expression && len(expr.Free(v.Text[s.Start:s.End], names...)) > 0
	})
}

// binds reports whether an expression of a template binds a name.
func binds(v *syntax.Value, name string) bool {
	return slices.ContainsFunc(v.Items, func(item *syntax.Value) bool { return binds(item, name) }) ||
		slices.ContainsFunc(v.Fields, func(f syntax.Field) bool { return binds(f.Value, name) }) ||
		v.Kind == syntax.String && expr.Binds(v.Text, name)
}

// renamed returns a template with other names in its expressions.
func renamed(v *syntax.Value, names map[string]string) *syntax.Value {
	switch v.Kind {
	case syntax.List:
		items := make([]*syntax.Value, len(v.Items))
		for i, item := range v.Items {
			items[i] = renamed(item, names)
		}
		return v.ListAs(items)
	case syntax.Map:
		entries := make([]syntax.Field, len(v.Fields))
		for i, f := range v.Fields {
			entries[i] = syntax.Field{Key: f.Key, Value: renamed(f.Value, names)}
		}
		return v.MapAs(entries)
	case syntax.String:
		segments, _ := expr.Segments(v.Text)
		var b strings.Builder
		done := 0
		for _, s := range segments {
			if s.Expression {
				b.WriteString(v.Text[done:s.Start] + expr.Replaced(v.Text[s.Start:s.End], names))
				done = s.End
			}
		}
		return v.TextAs(b.String() + v.Text[done:])
	case syntax.Null, syntax.Bool, syntax.Number:
	}
	return v
}

// shortEdge returns an edge as an arrow, with a map for what does not follow.
func shortEdge(e *lint.Edge) *syntax.Value {
	ends, ok := arrow(e)
	if e.Form != lint.FormLong || !e.Shaped || !ok {
		return e.At
	}
	at := e.At
	var more []syntax.Field
	if e.Kind != e.Follows() {
		more = append(more, entry(at, "edge_type", at.TextAs(string(e.Kind))))
	}
	if e.Required != (e.Kind != plan.Error) {
		more = append(more, entry(at, "required", at.Get("required")))
	}
	for _, name := range []string{"when", "transform", "check"} {
		if v := at.Get(name); v != nil {
			more = append(more, entry(at, name, v))
		}
	}
	if len(more) == 0 {
		return at.TextAs(ends)
	}
	return at.MapAs(append([]syntax.Field{entry(at, "edge", at.TextAs(ends))}, more...))
}

// arrow returns the ends of an edge, and whether they can be written so.
func arrow(e *lint.Edge) (string, bool) {
	from, to := e.FromNode, e.ToNode
	whole := e.FromPort == plan.DonePort
	if !whole {
		from += "." + e.FromPort
	}
	open := e.ToPort == plan.StartPort && (whole || e.Kind == plan.Error || e.Kind == plan.Conditional)
	if !open {
		to += "." + e.ToPort
	}
	ok := open || !whole
	for _, name := range []string{e.FromNode, e.FromPort, e.ToNode, e.ToPort} {
		ok = ok && name != "" && !strings.ContainsAny(name, " \t\r\n.,[]>")
	}
	return from + " -> " + to, ok && !strings.Contains(from+to, "->")
}
