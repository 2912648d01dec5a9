package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// expander writes the short forms of nodes and of the plan's output as edges.
//
// The edges into one node follow in this order: those of the list `edges`, then those of
// `after`, of `when` or `otherwise_of`, and of `with` by the names of its ports, then those of
// `rollback` of other nodes. They stand behind the last edge of the list into that node, or, if
// there is none, before the first one into a later node.
type expander struct {
	*linter
	doc *Document
	// made are the edges of short forms by the index of the node that they enter.
	made map[int][]*Edge
	// undoing are those of `rollback`, which follow all others into their node.
	undoing map[int][]*Edge
	// gathers are the nodes that bring together what one entry reads of several nodes, by the
	// index of the node before which they stand, and gathered the edges into them.
	gathers  map[int][]*Node
	gathered map[int][]*Edge
	// required reports the nodes that a required edge enters.
	required map[string]bool
	// decided lists the conditional edges into `$start` by the node that they enter, and
	// deciding all of them by the one that they leave.
	decided, deciding map[string][]*Edge
	taken             map[string]bool
}

// expand writes the short forms of a document out.
func (l *linter) expand(doc *Document) {
	x := &expander{
		linter: l, doc: doc, made: map[int][]*Edge{}, undoing: map[int][]*Edge{}, gathers: map[int][]*Node{}, gathered: map[int][]*Edge{},
		required: map[string]bool{}, decided: map[string][]*Edge{}, deciding: map[string][]*Edge{},
	}
	for _, e := range doc.Edges {
		x.note(e)
	}
	last := len(doc.Nodes) - 1
	for i, n := range doc.Nodes {
		if n.Kind != plan.KindCall || n.ID == "" {
			continue
		}
		x.after(i, n)
		x.when(i, n)
	}
	for i, n := range doc.Nodes {
		switch {
		case n.Kind == plan.KindCall && n.ID == "":
		case n.Kind == plan.KindCall:
			x.otherwise(i, n)
			x.with(i, n)
			x.rollback(n)
		case i == last:
			x.output(i, n)
		}
	}
	if len(x.made)+len(x.undoing) > 0 { // gathered edges come with those that leave the node
		doc.Short = true
	}
	if doc.Short || len(doc.Edges) > MaxEdges {
		x.merge()
		x.insert()
	}
}

// note records what other short forms need to know of an edge.
func (x *expander) note(e *Edge) {
	if e.Required {
		x.required[e.ToNode] = true
	}
	if e.Kind != plan.Conditional {
		return
	}
	x.deciding[e.FromNode] = append(x.deciding[e.FromNode], e)
	if e.ToPort == plan.StartPort {
		x.decided[e.ToNode] = append(x.decided[e.ToNode], e)
	}
}

// add adds an edge into node i.
func (x *expander) add(i int, e *Edge) {
	e.From, e.To, e.Shaped = -1, -1, true
	x.note(e)
	x.made[i] = append(x.made[i], e)
}

// bad reports a short form that stands for nothing.
func (x *expander) bad(d diag.Diagnostic) {
	d.Code = cmp.Or(d.Code, diag.PlanSchema)
	x.Report(d)
	x.doc.Broken = true
	x.doc.doubt(d.Node)
}

// names returns the entries of a field that is a name or a list of names.
func (x *expander) names(v *syntax.Value, field string) []*syntax.Value {
	switch {
	case v == nil:
		return nil
	case v.Kind == syntax.String:
		return []*syntax.Value{v}
	}
	names := x.Texts(v, field)
	if len(v.Items) == 0 {
		x.bad(diag.Diagnostic{Summary: fmt.Sprintf("`%s` names no node", field), Subject: v.Range()})
	}
	return names
}

// after writes `after` as control edges.
func (x *expander) after(i int, n *Node) {
	for _, v := range x.names(n.AfterAt, "after") {
		x.add(i, &Edge{
			At: v, Form: FormAfter, FromNode: v.Text, fromNodeAt: v.Range(), FromPort: plan.DonePort, FromPortAt: v.Range(),
			ToNode: n.ID, toNodeAt: v.Range(), ToPort: plan.StartPort, ToPortAt: v.Range(), Kind: plan.Control, kindAt: v.Range(), Required: true,
		})
	}
}

// when writes `when` as a conditional edge into `$start`.
func (x *expander) when(i int, n *Node) {
	v := n.WhenAt
	if v == nil {
		return
	}
	text := strings.TrimSpace(v.Text)
	switch {
	case text == "":
		x.bad(diag.Diagnostic{Code: diag.PlanSyntax, Summary: "the condition is empty", Subject: v.Range(), Node: n.ID, Detail: "Give a CEL predicate over `nodes` and `input`, or leave `when` out."})
		return
	case text == "otherwise" || text == "else":
		x.bad(diag.Diagnostic{
			Summary: "a node that runs where another does not names it", Subject: v.Range(), Node: n.ID, Suggestion: "otherwise_of: " + x.conditioned(n.ID),
			Detail: "`otherwise_of: ID` is the opposite of the `when` of another node.",
		})
		return
	}
	if !x.quoted(v, n.ID) {
		return
	}
	if bare := unmarked(text); bare != text {
		if other, found, _ := x.rewrite(bare); found {
			bare = other
		}
		x.bad(diag.Diagnostic{
			Code: diag.TypeExpr, Summary: "a condition is an expression as it is, without `${` and `}`", Subject: v.Range(), Node: n.ID,
			Suggestion: fmt.Sprintf("when: %q", bare), Edits: x.Replace(v.Range(), bare), Applicability: diag.Certain,
		})
		return
	}
	if x.foreign(v, n.ID, "when") {
		return
	}
	r := readPredicate(v)
	if !x.readable(r, v, n.ID, "when") {
		return
	}
	if r.alternatives {
		x.bad(diag.Diagnostic{
			Code: diag.TypeExpr, Summary: "`??` stands in an entry of `with` or `output` only", Subject: v.Range(), Node: n.ID,
			Detail: "A condition reads what arrives. Where a port may be absent, ask for it: `nodes.ID.?PORT.hasValue()`.",
		})
		return
	}
	e := &Edge{
		At: v, Form: FormWhen, ToNode: n.ID, toNodeAt: v.Range(), ToPort: plan.StartPort, ToPortAt: v.Range(),
		Kind: plan.Conditional, kindAt: v.Range(), Required: true,
	}
	sources := r.sources()
	switch {
	case len(sources) == 0:
		e.FromNode, e.FromPort, e.fromNodeAt, e.FromPortAt, e.When = plan.InputNode, plan.DonePort, v.Range(), v.Range(), v
	case len(sources) == 1:
		s := sources[0]
		x.leave(e, s)
		if e.When = r.predicate(v, map[port]string{s.port: "value"}); e.When.Text == "value" {
			e.When = nil // the value itself
		}
	case oneNode(sources):
		x.leave(e, sources[0])
		e.FromPort, e.FromPortAt = plan.DonePort, sources[0].nodeAt
		e.When = r.predicate(v, under("output", sources))
	default:
		g := x.gather(i, n.ID+"-when", v, sources)
		e.Hidden = true
		e.FromNode, e.FromPort, e.fromNodeAt, e.FromPortAt = g.ID, plan.WholePort, v.Range(), v.Range()
		e.When = r.predicate(v, g.names)
	}
	x.add(i, e)
}

// conditioned returns the only other node with a condition, or "…".
func (x *expander) conditioned(id string) string {
	found := "…"
	for _, n := range x.doc.Nodes {
		if n.WhenAt != nil && n.ID != id && n.WhenAt.Text != "otherwise" {
			if found != "…" {
				return "…"
			}
			found = n.ID
		}
	}
	return found
}

// leave sets the source of an edge.
func (x *expander) leave(e *Edge, s source) {
	e.FromNode, e.FromPort, e.fromNodeAt, e.FromPortAt, e.Reference = s.node, s.name, s.nodeAt, s.portAt, s.text
}

// otherwise writes `otherwise_of` as a conditional edge.
func (x *expander) otherwise(i int, n *Node) {
	v := n.OtherwiseAt
	if v == nil {
		return
	}
	names := x.names(v, "otherwise_of")
	if len(names) == 0 {
		return
	}
	if n.WhenAt != nil {
		x.bad(diag.Diagnostic{
			Summary: "a node has `when` or `otherwise_of`, not both", Subject: fields.KeyOf(n.At, "otherwise_of"), Context: fields.KeyOf(n.At, "when"), Node: n.ID,
		})
		return
	}
	var from *Edge
	of := map[string]bool{}
	for _, name := range names {
		of[name.Text] = true
		at, known := x.doc.Index[name.Text]
		d := diag.Diagnostic{Subject: name.Range(), Node: n.ID}
		switch decisions := slices.DeleteFunc(slices.Clone(x.decided[name.Text]), func(e *Edge) bool { return e.Otherwise }); {
		case !known:
			d.Code, d.Summary = diag.PlanUnknownNode, fmt.Sprintf("there is no node %s", fields.Quote(name.Text))
			d.Suggestion = x.Near(name.Text, x.doc.ids)
			d.Edits = x.Replace(name.Range(), d.Suggestion)
		case len(decisions) == 0:
			if x.doc.Broken && x.doc.Nodes[at].WhenAt != nil {
				return // its condition was refused
			}
			d.Summary = fmt.Sprintf("%s has no condition to be the opposite of", fields.Quote(name.Text))
			d.Detail = "`otherwise_of` names a node with `when`: where that does not hold, this node runs."
		case len(decisions) > 1 || from != nil && decisions[0].FromNode != from.FromNode:
			d.Summary = "`otherwise_of` depends on more than one node"
			d.Detail = fmt.Sprintf("The opposite is decided by one node: that whose output `when` of %s reads.", fields.Quote(name.Text))
		default:
			if from == nil {
				from = decisions[0]
			}
			continue
		}
		x.bad(d)
		return
	}
	edge := &Edge{
		At: v, Form: FormOtherwise, FromNode: from.FromNode, FromPort: from.FromPort, fromNodeAt: v.Range(), FromPortAt: v.Range(),
		ToNode: n.ID, toNodeAt: v.Range(), ToPort: plan.StartPort, ToPortAt: v.Range(), Kind: plan.Conditional, kindAt: v.Range(), Required: true, Otherwise: true,
	}
	if e := x.undecided(from.FromNode, of); e != nil {
		if len(names) > 1 {
			x.leftOut(n, e, names)
			return
		}
		edge.Otherwise, edge.When = false, v.TextAs(opposite(from)) // other conditions on the node do not matter
	}
	x.add(i, edge)
}

// undecided returns a conditional edge from a node that decides something else than whether some
// nodes start, or nil.
func (x *expander) undecided(from string, of map[string]bool) *Edge {
	for _, e := range x.deciding[from] {
		if !e.Otherwise && (!of[e.ToNode] || e.ToPort != plan.StartPort) {
			return e
		}
	}
	return nil
}

// opposite is the opposite of the condition of an edge.
func opposite(e *Edge) string {
	if e.When == nil {
		return "!value"
	}
	return "!(" + e.When.Text + ")"
}

// leftOut reports that an `otherwise_of` of several nodes leaves out one that the same node decides.
func (x *expander) leftOut(n *Node, e *Edge, names []*syntax.Value) {
	v := n.OtherwiseAt
	d := diag.Diagnostic{
		Summary: fmt.Sprintf("%s decides more than which of these nodes start", fields.Quote(e.FromNode)), Subject: v.Range(), Context: e.Place(), Node: n.ID,
		Detail: "The opposite of several conditions holds where none of the conditional edges from that node does, and one of them brings a value. Give the node a `when` of its own.",
	}
	if e.ToPort == plan.StartPort {
		var all []string
		for _, name := range names {
			all = append(all, name.Text)
		}
		all = append(all, e.ToNode)
		d.Summary = fmt.Sprintf("`otherwise_of` leaves out %s, which %s decides too", fields.Quote(e.ToNode), fields.Quote(e.FromNode))
		d.Detail = "The opposite of several conditions holds where none of the conditions on that node does, so it names all of them."
		d.Suggestion, d.Edits = fmt.Sprintf("otherwise_of: [%s]", strings.Join(all, ", ")), x.Set(n.At, "otherwise_of", anys(all))
	}
	x.bad(d)
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

// with writes the entries of `with` that read other nodes as edges, and leaves the others.
func (x *expander) with(i int, n *Node) {
	v := n.With
	if v == nil {
		return
	}
	entries := entriesOf(v)
	x.doc.Short = x.doc.Short || v.Kind == syntax.String
	kept := make([]syntax.Field, 0, len(entries))
	p := &ports{x: x, to: i, node: n, form: FormWith, before: len(x.made[i])}
	for _, f := range byKey(entries) {
		if p.plain(f.Key, f.Value) {
			continue
		}
		if x.foreign(f.Value, n.ID, f.Key.Text) {
			continue
		}
		r := readTemplate(f.Value)
		if len(r.refs) == 0 && !r.alternatives {
			kept = append(kept, f)
			continue
		}
		if rest := p.entry(f.Key, f.Value, r); rest != nil {
			kept = append(kept, syntax.Field{Key: f.Key, Value: rest})
		}
	}
	p.finish()
	if len(kept) == len(entries) && v.Kind == syntax.Map && !p.changed {
		return
	}
	n.With = nil
	if len(kept) > 0 {
		n.With = v.MapAs(kept)
	}
}

// entriesOf returns the entries of `with` or `output`; a text is the whole value.
func entriesOf(v *syntax.Value) []syntax.Field {
	if v.Kind == syntax.String {
		return []syntax.Field{{Key: v.TextAs(plan.WholePort), Value: v}}
	}
	return v.Fields
}

// byKey returns the entries of a map in the order of their keys: the order in the file means
// nothing.
func byKey(entries []syntax.Field) []syntax.Field {
	sorted := func(a, b syntax.Field) int { return strings.Compare(a.Key.Text, b.Key.Text) }
	if slices.IsSortedFunc(entries, sorted) {
		return entries
	}
	return slices.SortedFunc(slices.Values(entries), sorted)
}

// output writes the plan's `output` as edges into `$output`.
func (x *expander) output(i int, n *Node) {
	v := x.doc.Returns
	if v == nil {
		return
	}
	p := &ports{x: x, to: i, node: n, form: FormOutput, before: len(x.made[i])}
	for _, f := range byKey(entriesOf(v)) {
		if p.plain(f.Key, f.Value) {
			continue
		}
		if x.foreign(f.Value, n.ID, f.Key.Text) {
			continue
		}
		r := readTemplate(f.Value)
		if len(r.refs) > 0 || r.alternatives {
			if rest := p.entry(f.Key, f.Value, r); rest != nil {
				p.fromInput(f.Key, rest, false)
			}
			continue
		}
		p.fromInput(f.Key, f.Value, true)
	}
	p.finish()
}

// rollback writes the `rollback` of a commit policy that names a node as compensate edges.
func (x *expander) rollback(n *Node) {
	if n.Commit == nil || n.Commit.Undo == nil {
		return
	}
	u := n.Commit.Undo
	to, known := x.doc.Index[u.Node.Text]
	if !known {
		meant := x.Near(u.Node.Text, x.doc.ids)
		x.doc.doubt(meant)
		x.bad(diag.Diagnostic{
			Code: diag.PlanUnknownNode, Summary: fmt.Sprintf("there is no node %s", fields.Quote(u.Node.Text)), Subject: u.Node.Range(), Node: n.ID,
			Detail: "`rollback` names the node that undoes this effect.", Suggestion: meant, Edits: x.Replace(u.Node.Range(), meant),
		})
		return
	}
	entries := u.With.Fields
	if u.With.Kind == syntax.String {
		entries = []syntax.Field{{Key: u.With.TextAs(plan.WholePort), Value: u.With}}
	}
	for _, f := range byKey(entries) {
		if m := bareRead.FindStringSubmatch(f.Value.Text); m != nil && m[1] != nodesName && f.Value.Kind == syntax.String {
			x.textRead(f.Value, n.ID)
		}
		e := &Edge{
			At: f.Value, Form: FormRollback, FromNode: n.ID, FromPort: plan.CompensatePort, fromNodeAt: u.Node.Range(), FromPortAt: u.Node.Range(),
			ToNode: u.Node.Text, toNodeAt: u.Node.Range(), ToPort: f.Key.Text, ToPortAt: f.Key.Range(), Kind: plan.Error, kindAt: f.Key.Range(),
			Required: true, Transform: constantTransform(f.Value), From: -1, To: -1, Shaped: true,
		}
		if u.With.Kind == syntax.String {
			e.ToPortAt = f.Value.Range()
		}
		x.undoing[to] = append(x.undoing[to], e)
	}
}

// constantTransform returns a template as a transform: a string without expressions would be
// the id of an adapter.
func constantTransform(v *syntax.Value) *syntax.Value {
	if !embedded.Bare(v) {
		return v
	}
	w := writer{v: v}
	w.put(embedded.ConstantText(v.Text), 0, len(v.Text))
	return w.value(false)
}

// merge puts the edges of short forms among those of the list.
func (x *expander) merge() {
	list := x.doc.Edges
	places := x.doc.Places(list)
	total := len(list)
	behind := make([][]*Edge, len(list)+1) // the edges that stand behind so many of the list
	for i, at := range places {
		for _, edges := range [][]*Edge{x.gathered[i], x.made[i], x.undoing[i]} {
			behind[at] = append(behind[at], edges...)
			total += len(edges)
		}
	}
	out := make([]*Edge, 0, total)
	for at := range behind {
		out = append(out, behind[at]...)
		if at < len(list) {
			out = append(out, list[at])
		}
	}
	if len(out) > MaxEdges {
		x.bad(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("the plan has %d edges, with those of its short forms", len(out)),
			Detail: fmt.Sprintf("A plan has at most %d edges.", MaxEdges), Subject: out[MaxEdges].Place(),
		})
		out = out[:MaxEdges]
	}
	x.doc.Edges = out
}

// Places returns for each node behind how many edges of a list those of its short forms stand:
// behind the last edge into the node, or, if there is none, before the first into a later node.
func (d *Document) Places(list []*Edge) []int {
	places := make([]int, len(d.Nodes))
	latest := make([]int, len(list)) // the latest node that an edge up to this one enters
	high := -1
	for i, e := range list {
		if to, ok := d.Index[e.ToNode]; ok {
			places[to] = i + 1
			high = max(high, to)
		}
		latest[i] = high
	}
	for i := range places {
		if places[i] == 0 {
			places[i], _ = slices.BinarySearch(latest, i+1)
		}
	}
	return places
}

// insert puts the nodes that gather before those that they gather for.
func (x *expander) insert() {
	if len(x.gathers) == 0 {
		return
	}
	old := x.doc.Nodes
	x.doc.Nodes, x.doc.Index, x.doc.ids, x.doc.ends = make([]*Node, 0, len(old)+len(x.gathers)), map[string]int{}, nil, nil
	for i, n := range old {
		for _, g := range x.gathers[i] {
			x.doc.addNode(g)
		}
		x.doc.addNode(n)
	}
	if n := len(x.doc.Nodes) - 2; n > MaxNodes {
		x.bad(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("the plan has %d nodes, with those that its short forms stand for", n),
			Detail: fmt.Sprintf("A plan has at most %d nodes; use sub-plans.", MaxNodes), Subject: x.doc.Nodes[MaxNodes+1].Key,
		})
	}
}

// gathering is a node that brings together what one entry reads of several nodes.
type gathering struct {
	*Node
	// names are what its ports are called in an expression over its whole output.
	names map[port]string
}

// gather adds a node that brings together the ports of several nodes.
func (x *expander) gather(before int, id string, at *syntax.Value, sources []source) *gathering {
	if x.taken == nil {
		x.taken = map[string]bool{}
		for name := range x.doc.Index {
			x.taken[name] = true
		}
	}
	g := &gathering{names: map[port]string{}}
	id = unused(strings.TrimPrefix(id, "$"), func(id string) bool { return x.taken[id] })
	x.taken[id] = true
	name := at.TextAs(catalog.OperationName(catalog.EngineProvider, "pass"))
	g.Node = &Node{
		Kind: plan.KindCall, At: at.MapAs(nil), ID: id, Key: fields.Head(at), Sound: true, TemplateAt: name, Made: true,
	}
	taken := map[string]bool{}
	for _, s := range sources {
		to := unused(portName(s), func(p string) bool { return taken[p] })
		taken[to] = true
		g.names[s.port] = "value" + Member(to)
		e := &Edge{
			At: at, Form: FormGather, reader: x.doc.Nodes[before].ID, ToNode: id, toNodeAt: s.nodeAt, ToPort: to, ToPortAt: s.portAt, Kind: plan.Data, kindAt: s.portAt, Required: true,
		}
		x.leave(e, s)
		e.From, e.To, e.Shaped = -1, -1, true
		x.required[id] = true
		x.gathered[before] = append(x.gathered[before], e)
	}
	own := x.gathered[before][len(x.gathered[before])-len(sources):]
	slices.SortStableFunc(own, func(a, b *Edge) int { return strings.Compare(a.ToPort, b.ToPort) })
	x.gathers[before] = append(x.gathers[before], g.Node)
	return g
}

// portName is the name of a port that takes what a source gives, as expressions select it.
func portName(s source) string {
	text := s.node
	if s.name != plan.WholePort {
		text += "_" + s.name
	}
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' && b.Len() > 0 {
			b.WriteByte(c)
		} else {
			b.WriteByte('_')
		}
	}
	return b.String()
}
