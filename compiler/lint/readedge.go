package lint

import (
	"fmt"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// readEdge reads one edge in either form. It returns nil if it is neither.
func (l *linter) readEdge(v *syntax.Value) *Edge {
	if v.Kind == syntax.String {
		return l.readShort(v)
	}
	if v.Kind != syntax.Map {
		l.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: "an edge is a map or a short form such as `a.x -> b.y`, not " + fields.KindOf(v),
			Subject: v.Range(),
		})
		return nil
	}
	r := l.Read(v, edgeFields, "")
	e := &Edge{At: v, From: -1, To: -1, Shaped: r.Complete}
	text := func(name string, into *string, at *diag.Range) {
		if x := r.Get(name); x != nil {
			*into, *at = x.Text, x.Range()
		}
	}
	text("from_node", &e.FromNode, &e.fromNodeAt)
	text("from_port", &e.FromPort, &e.FromPortAt)
	text("to_node", &e.ToNode, &e.toNodeAt)
	text("to_port", &e.ToPort, &e.ToPortAt)
	if x := r.Get("edge_type"); x != nil {
		e.kindAt = x.Range()
		e.Kind = plan.EdgeType(l.Word(x, "edge_type", edgeTypes))
		e.Shaped = e.Shaped && e.Kind != ""
	}
	if x := r.Get("required"); x != nil {
		e.Required, e.RequiredAt = x.Text == "true", x.Range()
	}
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
	return e
}

// readShort reads `a.x -> b.y` (a required data edge) or `a -> b` (a required
// control edge).
func (l *linter) readShort(v *syntax.Value) *Edge {
	bad := func(start, end int, summary, detail, suggestion string) *Edge {
		at := v.Range()
		if end > start {
			at = v.Sub(start, end)
		}
		l.Report(diag.Diagnostic{Code: diag.PlanSchema, Summary: summary, Detail: detail, Subject: at, Suggestion: suggestion})
		return nil
	}
	const forms = "The short form is `a.x -> b.y` for a required data edge and `a -> b` for a required control edge."
	arrow := strings.Index(v.Text, "->")
	if arrow < 0 {
		suggestion := ""
		for _, wrong := range []string{"=>", "→", ">>", ">"} {
			if strings.Count(v.Text, wrong) == 1 {
				suggestion = strings.Join(strings.Fields(strings.Replace(v.Text, wrong, " -> ", 1)), " ")
				break
			}
		}
		return bad(0, 0, "the edge has no arrow", forms, suggestion)
	}
	if again := strings.Index(v.Text[arrow+2:], "->"); again >= 0 {
		at := arrow + 2 + again
		return bad(at, at+2, "the edge has a second arrow", "Write one edge for each arrow.", "")
	}
	type end struct{ nodeStart, nodeEnd, portStart, portEnd int }
	ends := [2]end{}
	for i, span := range [2][2]int{{0, arrow}, {arrow + 2, len(v.Text)}} {
		a, b := span[0], span[1]
		for a < b && (v.Text[a] == ' ' || v.Text[a] == '\t') {
			a++
		}
		for a < b && (v.Text[b-1] == ' ' || v.Text[b-1] == '\t') {
			b--
		}
		part := v.Text[a:b]
		if part == "" {
			return bad(arrow, arrow+2, "the arrow has nothing on one side", forms, "")
		}
		if strings.ContainsAny(part, " \t\r\n") {
			return bad(a, b, fmt.Sprintf("%s is not `node.port`", fields.Quote(part)), forms+" For a port with blanks in its name use the long form.", "")
		}
		dot := strings.IndexByte(part, '.')
		if dot < 0 {
			ends[i] = end{a, b, b, b}
			continue
		}
		port := part[dot+1:]
		switch {
		case dot == 0 || port == "":
			return bad(a, b, fmt.Sprintf("%s is not `node.port`", fields.Quote(part)), forms, "")
		case strings.Contains(port, "."):
			return bad(a+dot+1, b, fmt.Sprintf("%s is not the name of one port", fields.Quote(port)),
				"A member of a port's value is taken by a transform such as `${value.member}`; a port with a dot in its name needs the long form.", "")
		}
		ends[i] = end{a, a + dot, a + dot + 1, b}
	}
	from, to := ends[0], ends[1]
	if (from.portStart == from.portEnd) != (to.portStart == to.portEnd) {
		return bad(0, len(v.Text), "the edge names a port on one side only", forms+" The whole output and input are the port `$`.", "")
	}
	e := &Edge{At: v, From: -1, To: -1, Required: true, Shaped: true, Kind: plan.Data}
	e.FromNode, e.fromNodeAt = v.Text[from.nodeStart:from.nodeEnd], v.Sub(from.nodeStart, from.nodeEnd)
	e.ToNode, e.toNodeAt = v.Text[to.nodeStart:to.nodeEnd], v.Sub(to.nodeStart, to.nodeEnd)
	if from.portStart == from.portEnd {
		e.Kind, e.FromPort, e.ToPort = plan.Control, plan.DonePort, plan.StartPort
		return e
	}
	e.FromPort, e.FromPortAt = v.Text[from.portStart:from.portEnd], v.Sub(from.portStart, from.portEnd)
	e.ToPort, e.ToPortAt = v.Text[to.portStart:to.portEnd], v.Sub(to.portStart, to.portEnd)
	if e.FromPort == plan.ErrorPort || e.FromPort == plan.CompensatePort {
		return bad(from.portStart, from.portEnd, "the short form cannot write an error edge",
			"Use the long form with `edge_type: error`.", "")
	}
	return e
}
