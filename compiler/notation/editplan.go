package notation

import (
	"regexp"
	"strings"

	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// nodes changes the nodes of a plan to those of the other notation.
func (e *editor) nodes(doc *lint.Document, other *syntax.Value) {
	list := doc.At.Get("nodes")
	if list == nil || len(list.Items) == 0 || e.flow(list) {
		e.failed = true
		return
	}
	items := other.Get("nodes").Items
	var before []string
	for _, n := range doc.Nodes {
		switch {
		case n.Kind != plan.KindCall:
		case n.Made:
			before = append(before, inline(items[0]))
			items = items[1:]
		case n.Written():
			e.insert(e.lineStart(e.dash(n.At)), e.dash(n.At), before, "gathers what "+n.ID+" reads", true)
			before = nil
			e.change(n.At, differences(n, items[0]))
			items = items[1:]
		}
	}
	last := list.Items[len(list.Items)-1]
	e.insert(e.lineEnd(end(last)), e.dash(last), before, "gathers what `output` reads", false)
}

// insert adds entries to a block list, at an offset; dash is the place of a dash of the list.
func (e *editor) insert(at, dash int, items []string, comment string, above bool) {
	if e.failed {
		return
	}
	indent := strings.Repeat(" ", dash-e.lineStart(dash))
	for _, item := range items {
		text := indent + "# " + comment + "\n" + indent + "- " + item
		if above {
			text += "\n"
		} else {
			text = "\n" + text
		}
		e.replace(at, at, text)
	}
}

// remove takes a field of a plan out of the text.
func (e *editor) remove(doc *lint.Document, name string) {
	if doc.At.Get(name) != nil {
		e.change(doc.At, []field{{name: name}})
	}
}

// expand writes a plan in its long notation.
func (e *editor) expand(doc *lint.Document, other *syntax.Value) {
	if e.failed = e.failed || e.flow(doc.At); e.failed {
		return
	}
	e.nodes(doc, other)
	if doc.At.Get("edges") != nil {
		e.remove(doc, "output")
	}
	var left []line
	edges := doc.Edges
	for i, edge := range edges {
		l := line{at: edge.At, listed: edge.Form <= lint.FormArrow, text: inline(longEdge(edge))}
		if edge.Form == lint.FormLong {
			l.text = ""
		}
		if l.listed && i > 0 && edges[i-1].At == edge.At {
			l.at = nil
		}
		if !l.listed && (i == 0 || edges[i-1].Form != edge.Form || edges[i-1].ToNode != edge.ToNode || edges[i-1].At != edge.At) {
			l.comment = origin(edge)
		}
		left = append(left, l)
	}
	e.edges(doc, left)
}

// origin says of which short form an edge is part.
func origin(e *lint.Edge) string {
	what := ""
	switch e.Form {
	case lint.FormLong, lint.FormMap, lint.FormArrow:
	case lint.FormAfter:
		what = "`after` of " + e.ToNode
	case lint.FormWhen:
		what = "`when` of " + e.ToNode
	case lint.FormOtherwise:
		what = "`otherwise_of` of " + e.ToNode
	case lint.FormWith:
		what = "`with." + e.ToPort + "` of " + e.ToNode
	case lint.FormDefault:
		what = e.ToNode + " runs in any case, since it has a default"
	case lint.FormGather:
		what = "what " + e.ToNode + " gathers"
	case lint.FormOutput:
		what = "`output." + e.ToPort + "`"
	case lint.FormRollback:
		what = "`rollback` of " + e.FromNode
	}
	return what
}

// generated matches the comments that origin writes.
var generated = regexp.MustCompile("^\\s*# (?:`(?:after|when|otherwise_of|rollback)` of [0-9A-Za-z_-]+|`with\\.[^`]*` of [0-9A-Za-z_-]+|`output\\.[^`]*`|what [0-9A-Za-z_-]+ gathers|[0-9A-Za-z_-]+ runs in any case, since it has a default)\\s*$")

// ungenerated returns lines without the comments that origin writes.
func ungenerated(lines string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		if !generated.MatchString(line) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// line is an edge of the list that is written.
type line struct {
	// at is the entry of the list in the file, whose comments are kept, or nil. listed reports
	// that it is one.
	at     *syntax.Value
	listed bool
	// text is the edge; "" if it stays as it is.
	text    string
	comment string
}

// edges writes the list of edges.
func (e *editor) edges(doc *lint.Document, lines []line) {
	list := doc.At.Get("edges")
	indent := "  "
	flow := list != nil && len(list.Items) > 0 && e.flow(list)
	if list != nil && len(list.Items) > 0 && !flow {
		dash := e.dash(list.Items[0])
		indent = strings.Repeat(" ", dash-e.lineStart(dash))
	}
	before := map[*syntax.Value]int{}
	if list != nil {
		at := end(keyOf(doc.At, "edges"))
		for _, item := range list.Items {
			before[item] = at
			at = end(item)
		}
	}
	var b strings.Builder
	for _, l := range lines {
		own := l.at != nil && l.listed && !flow // a line of its own
		if own {
			b.WriteString(ungenerated(e.leading(before[l.at], l.at)))
		}
		if l.comment != "" {
			b.WriteString(indent + "# " + l.comment + "\n")
		}
		text := l.text
		if text == "" {
			text = e.slice(l.at, l.at)
		}
		b.WriteString(indent + "- " + text)
		if own {
			b.WriteString(string(e.text[end(l.at):e.lineEnd(end(l.at))]))
		}
		b.WriteByte('\n')
	}
	body := strings.TrimSuffix(b.String(), "\n")
	switch {
	case list != nil && len(lines) == 0:
		e.remove(doc, "edges")
	case list != nil:
		key := keyOf(doc.At, "edges")
		stop := e.lineEnd(end(list))
		if flow {
			stop = end(list)
		} else if len(list.Items) > 0 {
			stop = e.lineEnd(end(list.Items[len(list.Items)-1]))
		}
		e.replace(start(key), stop, "edges:\n"+body)
	case doc.At.Get("output") != nil: // which becomes edges
		key := keyOf(doc.At, "output")
		e.replace(start(key), e.lineEnd(end(doc.At.Get("output"))), "edges:\n"+body)
	case len(lines) > 0:
		at := e.lineEnd(end(doc.At.Fields[len(doc.At.Fields)-1].Value))
		e.replace(at, at, "\nedges:\n"+body)
	}
}

func keyOf(m *syntax.Value, name string) *syntax.Value {
	for _, f := range m.Fields {
		if f.Key.Text == name {
			return f.Key
		}
	}
	return m
}

// leading is what stands between an entry of a list and what ends before it: whole lines of
// comments, and empty ones.
func (e *editor) leading(from int, at *syntax.Value) string {
	from = e.nextLine(from)
	to := e.lineStart(e.dash(at))
	if from >= to {
		return ""
	}
	return string(e.text[from:to])
}

// shorten writes a plan in its short notation.
func (e *editor) shorten(doc *lint.Document, s *shortener) {
	if e.failed = e.failed || e.flow(doc.At); e.failed {
		return
	}
	list := doc.At.Get("nodes")
	if list == nil || len(list.Items) == 0 || e.flow(list) {
		e.failed = true
		return
	}
	comments := e.moved(doc, s)
	for _, n := range doc.Nodes {
		if n.Kind == plan.KindCall && n.Written() {
			dash := e.dash(n.At)
			indent := strings.Repeat(" ", dash-e.lineStart(dash))
			for _, c := range comments[n.ID] {
				e.replace(e.lineStart(dash), e.lineStart(dash), indent+c+"\n")
			}
			e.change(n.At, differences(n, s.node(n)))
		}
	}
	var left []line
	for _, edge := range s.left {
		v := shortEdge(edge)
		l := line{at: edge.At, listed: true}
		if v != edge.At {
			l.text = inlineItem(v)
		}
		if len(left) > 0 && left[len(left)-1].at == edge.At {
			continue // an entry that stands for several edges stays as it is
		}
		left = append(left, l)
	}
	returned := s.returns()
	had := doc.At.Get("edges") != nil && len(doc.At.Get("edges").Items) > 0
	switch {
	case returned != nil && doc.At.Get("output") != nil:
		e.change(doc.At, []field{changeTo("output", returned)})
	case returned != nil && had && len(left) > 0:
		at := e.lineStart(start(keyOf(doc.At, "edges")))
		e.replace(at, at, above(comments[plan.OutputNode])+lines("", "output", returned)+"\n")
	case returned != nil && had:
		key := keyOf(doc.At, "edges")
		e.replace(start(key), e.lineEnd(end(doc.At.Get("edges"))), above(comments[plan.OutputNode])+lines("", "output", returned))
		return
	}
	if had {
		e.edges(doc, left)
	}
}

// above are comments as lines.
func above(comments []string) string {
	if len(comments) == 0 {
		return ""
	}
	return strings.Join(comments, "\n") + "\n"
}

// moved lists the comments of the edges that become part of nodes, by the node where they then
// stand.
func (e *editor) moved(doc *lint.Document, s *shortener) map[string][]string {
	list := doc.At.Get("edges")
	if list == nil || e.flow(list) {
		return nil
	}
	out := map[string][]string{}
	from := map[*syntax.Value]int{}
	at := end(keyOf(doc.At, "edges"))
	for _, item := range list.Items {
		from[item] = at
		at = end(item)
	}
	for _, edge := range doc.Edges {
		u := s.units[edge]
		if u == nil {
			continue
		}
		owner := edge.ToNode
		if edge.FromPort == plan.CompensatePort {
			owner = edge.FromNode
		}
		text := e.leading(from[edge.At], edge.At) + string(e.text[end(edge.At):e.lineEnd(end(edge.At))])
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") && !generated.MatchString(line) {
				out[owner] = append(out[owner], line)
			}
		}
	}
	return out
}

// inlineItem writes an entry of the list of edges.
func inlineItem(v *syntax.Value) string {
	if v.Kind == syntax.String && plainArrow.MatchString(v.Text) {
		return v.Text
	}
	return inline(v)
}

// plainArrow matches an arrow that YAML reads as itself without quotes.
var plainArrow = regexp.MustCompile(`^[$A-Za-z0-9_][$A-Za-z0-9_.-]* -> [$A-Za-z0-9_.-]+$`)
