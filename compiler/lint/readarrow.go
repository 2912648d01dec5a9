package lint

import (
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

const arrowForms = "The short form is `a.x -> b.y` for a value, `a -> b` for order, `[a, b] -> c` for order after several, and `{edge: \"a.x -> b.y\", when: …}` with further fields."

// readArrowMap reads an edge whose ends are an arrow, with other fields.
func (l *linter) readArrowMap(v *syntax.Value) []*Edge {
	r := l.Read(v, arrowFields, "")
	arrow := r.Get("edge")
	if arrow == nil {
		return nil
	}
	template := &Edge{At: v, Form: FormMap, From: -1, To: -1, Shaped: r.Complete}
	if x := r.Get("edge_type"); x != nil {
		template.kindAt = x.Range()
		template.Kind = plan.EdgeType(l.Word(x, "edge_type", edgeTypes))
		template.Shaped = template.Shaped && template.Kind != ""
	} else if r.Has("edge_type") {
		template.Shaped = false
	}
	l.readEdgeOptions(template, r)
	if x := r.Get("required"); x != nil {
		template.Required, template.RequiredAt = x.Text == "true", x.Range()
	} else if r.Has("required") {
		template.Shaped = false
	}
	return l.readArrow(arrow, template)
}

// readEdgeOptions reads what both notations of a map have.
func (l *linter) readEdgeOptions(e *Edge, r *fields.Record) {
	e.Transform = r.Get("transform")
	if e.When = r.Get("when"); e.When != nil && e.When.Text == "otherwise" {
		e.Otherwise, e.When = true, nil
	}
	if e.Check = r.Get("check"); e.Check != nil && e.Check.Text != "runtime" {
		l.Word(e.Check, "check", []string{"runtime"})
	}
	for _, f := range []string{"when", "transform", "check"} {
		if r.Has(f) && r.Get(f) == nil {
			e.Shaped = false
		}
	}
}

// end is one end of an arrow: the bytes of its node and port, and where they stand. A port that is
// not there is empty.
type end struct {
	nodeStart, nodeEnd, portStart, portEnd int
	node, port                             diag.Range
}

func (e end) whole() bool { return e.portStart == e.portEnd }

// maxArrow bounds the text of an edge, in bytes.
const maxArrow = 64 << 10

// readArrow reads the ends of an edge, and completes the edge by what follows from them. It
// returns nil if they are malformed. A list of nodes at one end makes several edges.
func (l *linter) readArrow(v *syntax.Value, template *Edge) []*Edge {
	bad := func(start, end int, summary, detail, suggestion string) []*Edge {
		at := v.Range()
		if end > start {
			at = v.Sub(start, end)
		}
		d := diag.Diagnostic{Code: diag.PlanSchema, Summary: summary, Detail: detail, Subject: at, Suggestion: suggestion}
		if suggestion != "" && !strings.Contains(suggestion, "…") {
			d.Edits, d.Applicability = l.Replace(v.Range(), suggestion), diag.Certain
		}
		l.Report(d)
		return nil
	}
	if len(v.Text) > maxArrow {
		l.Report(diag.Diagnostic{Code: diag.PlanLimits, Summary: fmt.Sprintf("the edge has %d bytes", len(v.Text)), Detail: fmt.Sprintf("It has at most %d.", maxArrow), Subject: v.Range()})
		return nil
	}
	arrow := strings.Index(v.Text, "->")
	if arrow < 0 {
		suggestion := ""
		for _, wrong := range []string{"=>", "→", ">>", ">"} {
			if strings.Count(v.Text, wrong) == 1 {
				suggestion = strings.Join(strings.Fields(strings.Replace(v.Text, wrong, " -> ", 1)), " ")
				break
			}
		}
		return bad(0, 0, "the edge has no arrow", arrowForms, suggestion)
	}
	if again := strings.Index(v.Text[arrow+2:], "->"); again >= 0 {
		at := arrow + 2 + again
		return bad(at, at+2, "the edge has a second arrow", "Write one edge for each arrow.", "")
	}
	var one [2][1]end // most arrows have one node at each end
	ends := [2][]end{one[0][:0], one[1][:0]}
	for i, span := range [2][2]int{{0, arrow}, {arrow + 2, len(v.Text)}} {
		a, b := trimmed(v.Text, span[0], span[1])
		if a == b {
			return bad(arrow, arrow+2, "the arrow has nothing on one side", arrowForms, "")
		}
		for _, part := range listed(v.Text, a, b) {
			e, summary, detail := readEnd(v.Text, part[0], part[1])
			if summary != "" {
				return bad(max(part[0], e.portStart), part[1], summary, detail, "")
			}
			e.node, e.port = v.Sub(e.nodeStart, e.nodeEnd), v.Sub(e.portStart, e.portEnd)
			ends[i] = append(ends[i], e)
		}
	}
	if many := len(ends[0]) + len(ends[1]); many > 2 {
		for _, e := range append(slices.Clone(ends[0]), ends[1]...) {
			if !e.whole() {
				return bad(e.nodeStart, e.portEnd, "a list of nodes stands for order, so its edges have no ports", "Write an edge for each value.", "")
			}
		}
	}
	if len(ends[0]) > MaxEdges/len(ends[1]) {
		l.Report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("the lists stand for more than %d edges", MaxEdges), Subject: v.Range(),
		})
		return nil
	}
	out := make([]*Edge, 0, len(ends[0])*len(ends[1]))
	for _, from := range ends[0] {
		for _, to := range ends[1] {
			e := template
			if cap(out) > 1 {
				other := *template
				e = &other
			}
			if !l.connectEnds(e, v, from, to) {
				return nil
			}
			out = append(out, e)
		}
	}
	return out
}

// trimmed narrows a range of bytes to what is not blank.
func trimmed(text string, a, b int) (start, end int) {
	for a < b && (text[a] == ' ' || text[a] == '\t') {
		a++
	}
	for a < b && (text[b-1] == ' ' || text[b-1] == '\t') {
		b--
	}
	return a, b
}

// listed splits a list of nodes, with brackets or without.
func listed(text string, a, b int) (parts [][2]int) {
	switch {
	case text[a] == '[' && text[b-1] == ']':
		a, b = a+1, b-1
	case strings.Contains(text[a:b], "."):
		return [][2]int{{a, b}} // a port may have a comma in its name
	}
	for start := a; start <= b; {
		stop := b
		if i := strings.IndexByte(text[start:b], ','); i >= 0 {
			stop = start + i
		}
		from, to := trimmed(text, start, stop)
		parts = append(parts, [2]int{from, to})
		start = stop + 1
	}
	return parts
}

// readEnd reads one end of an arrow, or says what is wrong with it.
func readEnd(text string, a, b int) (e end, summary, detail string) {
	part := text[a:b]
	if part == "" {
		return e, "a name is missing in the list", arrowForms
	}
	if strings.ContainsAny(part, " \t\r\n") {
		return e, fmt.Sprintf("%s is not `node.port`", fields.Quote(part)), arrowForms + " For a port with blanks in its name use the six fields of the long form."
	}
	dot := strings.IndexByte(part, '.')
	if dot < 0 {
		return end{nodeStart: a, nodeEnd: b, portStart: b, portEnd: b}, "", ""
	}
	port := part[dot+1:]
	switch {
	case dot == 0 || port == "":
		return e, fmt.Sprintf("%s is not `node.port`", fields.Quote(part)), arrowForms
	case strings.Contains(port, "."):
		return end{portStart: a + dot + 1}, fmt.Sprintf("%s is not the name of one port", fields.Quote(port)),
			"A member of a port's value is taken by a transform such as `${value.member}`; a port with a dot in its name needs the long form."
	}
	return end{nodeStart: a, nodeEnd: a + dot, portStart: a + dot + 1, portEnd: b}, "", ""
}

// connectEnds sets the ends of an edge, and what follows from them: its type, and whether it is
// required.
func (l *linter) connectEnds(e *Edge, v *syntax.Value, from, to end) bool {
	e.FromNode, e.fromNodeAt = v.Text[from.nodeStart:from.nodeEnd], from.node
	e.ToNode, e.toNodeAt = v.Text[to.nodeStart:to.nodeEnd], to.node
	if e.FromPort, e.FromPortAt = plan.DonePort, e.fromNodeAt; !from.whole() {
		e.FromPort, e.FromPortAt = v.Text[from.portStart:from.portEnd], from.port
	}
	if e.ToPort, e.ToPortAt = plan.StartPort, e.toNodeAt; !to.whole() {
		e.ToPort, e.ToPortAt = v.Text[to.portStart:to.portEnd], to.port
	}
	if e.Kind == "" && !e.kindAt.IsValid() {
		e.Kind = e.Follows()
		e.kindAt = v.Range()
	}
	if from.whole() != to.whole() && e.Kind != plan.Error && (e.Kind != plan.Conditional || from.whole()) {
		summary, detail := "the edge names a port on one side only", arrowForms+" The whole output and input are the port `$`."
		l.Report(diag.Diagnostic{Code: diag.PlanSchema, Summary: summary, Detail: detail, Subject: v.Range()})
		return false
	}
	if !e.RequiredAt.IsValid() {
		e.Required = e.Kind != plan.Error
	}
	return true
}

// Follows is the type of an edge that does not say it.
func (e *Edge) Follows() plan.EdgeType {
	switch {
	case e.FromPort == plan.ErrorPort || e.FromPort == plan.CompensatePort:
		return plan.Error
	case e.When != nil || e.Otherwise:
		return plan.Conditional
	case e.FromPort == plan.DonePort && e.ToPort == plan.StartPort:
		return plan.Control
	}
	return plan.Data
}
