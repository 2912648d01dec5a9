package lint

import (
	"fmt"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// lintEdges resolves the ends of every edge and checks the rules of its type.
func (l *linter) lintEdges(doc *Document) {
	for _, e := range doc.Edges {
		if !e.Shaped {
			// The ends that are given are still resolved, so that a second mistake shows.
			l.findEnds(doc, e)
			continue
		}
		found := l.findEnds(doc, e)
		errs := l.Errors
		l.rules(e)
		ruled := l.Errors == errs
		if !found || !ruled {
			continue
		}
		e.Sound = l.findPorts(doc, e)
	}
	doc.Conditional = map[int][]int{}
	for i, e := range doc.Edges {
		if e.Kind == plan.Conditional && e.From >= 0 {
			doc.Conditional[e.From] = append(doc.Conditional[e.From], i)
		}
	}
	for _, e := range doc.Edges {
		if e.Sound && e.Otherwise {
			l.otherwise(doc, e)
		}
	}
	l.duplicates(doc)
}

// findEnds resolves the nodes of both ends.
func (l *linter) findEnds(doc *Document, e *Edge) bool {
	look := func(name string, at diag.Range) int {
		if name == "" && !at.IsValid() {
			return -1
		}
		i, ok := doc.Index[name]
		if ok {
			return i
		}
		d := diag.Diagnostic{
			Code: diag.PlanUnknownNode, Summary: fmt.Sprintf("there is no node %s", fields.Quote(name)),
			Subject: at, Edge: e.String(), Suggestion: l.Near(name, doc.endNames()),
		}
		if name == "input" || name == "output" {
			d.Suggestion = "$" + name
		}
		if e.Form == FormLong || fields.NodeIDs.Re.MatchString(strings.TrimPrefix(d.Suggestion, "$")) {
			d.Edits = l.Replace(at, d.Suggestion)
		}
		doc.doubt(d.Suggestion)
		if d.Suggestion == "" && len(doc.ids) > 0 {
			d.Detail = Listing("The plan has ", doc.ids)
		}
		l.Report(d)
		return -1
	}
	e.From = look(e.FromNode, e.fromNodeAt)
	e.To = look(e.ToNode, e.toNodeAt)
	ok := e.From >= 0 && e.To >= 0
	if e.From >= 0 && doc.Nodes[e.From].Kind == plan.KindOutput {
		l.Report(diag.Diagnostic{
			Code: diag.PlanUnknownPort, Summary: "no edge leaves `$output`",
			Detail:  "`$output` is what the plan returns; it has input ports only.",
			Subject: e.FromRange(), Edge: e.String(),
		})
		ok = false
	}
	if e.To == 0 {
		l.Report(diag.Diagnostic{
			Code: diag.PlanUnknownPort, Summary: "no edge enters `$input`",
			Detail:  "`$input` is what the plan was started with; it has output ports only.",
			Subject: e.ToRange(), Edge: e.String(),
		})
		ok = false
	}
	return ok
}

// rules checks an edge by itself against the rules of its type.
func (l *linter) rules(e *Edge) {
	bad := func(code diag.Code, at diag.Range, suggestion, summary, detail string) {
		var edits []diag.Edit
		if field, value, is := strings.Cut(suggestion, ": "); is {
			suggestion, edits = e.Option(l.Reader, field, value)
		} else {
			edits = l.Replace(at, suggestion)
		}
		if !at.IsValid() {
			at = e.At.Range()
		}
		l.Report(diag.Diagnostic{Code: code, Summary: summary, Detail: detail, Subject: at, Edge: e.String(), Suggestion: suggestion, Edits: edits})
	}
	switch e.FromPort {
	case plan.StartPort:
		bad(diag.PlanUnknownPort, e.FromPortAt, plan.DonePort, "`$start` is a target, not a source", "A node offers `$done`, which tells that it succeeded.")
	case plan.ErrorPort, plan.CompensatePort:
		if e.Kind != plan.Error {
			bad(diag.PlanErrorEdge, e.FromPortAt, "edge_type: error", fmt.Sprintf("only an error edge leaves `%s`", e.FromPort), "")
		}
	case plan.DonePort:
		if e.Kind == plan.Data {
			meant := "edge_type: control"
			if e.ToPort != plan.StartPort {
				meant = plan.WholePort
			}
			bad(diag.PlanUnknownPort, e.FromPortAt, meant, "`$done` has no value, so no data edge leaves it", "A data edge moves a value. Use a control edge, or the port `$` for the whole output.")
		}
	}
	switch e.ToPort {
	case plan.DonePort, plan.ErrorPort, plan.CompensatePort:
		bad(diag.PlanUnknownPort, e.ToPortAt, plan.StartPort, fmt.Sprintf("`%s` is a source, not a target", e.ToPort), "An edge that brings no value enters `$start`.")
	}
	switch e.Kind {
	case plan.Data:
		if e.ToPort == plan.StartPort {
			bad(diag.PlanUnknownPort, e.ToPortAt, "edge_type: control", "`$start` takes no value, so no data edge enters it", "A data edge moves a value. Use a control edge, or a conditional one.")
		}
	case plan.Control:
		if e.FromPort != plan.DonePort {
			bad(diag.PlanUnknownPort, e.FromPortAt, plan.DonePort, "a control edge leaves `$done`", "It brings order, not a value.")
		}
		if e.ToPort != plan.StartPort {
			bad(diag.PlanUnknownPort, e.ToPortAt, plan.StartPort, "a control edge enters `$start`", "It brings order, not a value.")
		}
	case plan.Conditional:
		if e.FromPort == plan.DonePort && e.ToPort != plan.StartPort {
			bad(diag.PlanUnknownPort, e.ToPortAt, plan.StartPort, "a conditional edge from `$done` brings no value, so it enters `$start`", "To send the whole output, leave from the port `$`.")
		}
		if e.FromPort == plan.DonePort && e.When == nil && !e.Otherwise {
			bad(diag.PlanSchema, e.kindAt, "", "a conditional edge from `$done` needs `when`", "Without `when` the value itself is the condition, and `$done` has none.")
		}
	case plan.Error:
		l.errorRules(e, bad)
	}
	if (e.When != nil || e.Otherwise) && e.Kind != plan.Conditional && e.Kind != plan.Error {
		bad(diag.PlanSchema, fields.KeyOf(e.At, "when"), "edge_type: conditional", fmt.Sprintf("a %s edge has no condition", e.Kind), "`when` belongs to conditional and error edges.")
	}
	valued := e.Carries() || e.Kind == plan.Data
	if !valued && e.Transform != nil {
		bad(diag.PlanSchema, fields.KeyOf(e.At, "transform"), "", "an edge that brings no value has nothing to transform", "")
	}
	decides := e.When != nil && (e.Kind == plan.Conditional || e.Kind == plan.Error)
	if !valued && !decides && e.Check != nil {
		bad(diag.PlanSchema, fields.KeyOf(e.At, "check"), "", "an edge that brings no value has nothing to check", "")
	}
	if e.When != nil && strings.TrimSpace(e.When.Text) == "" {
		bad(diag.PlanSyntax, e.When.Range(), "", "the condition is empty", "Give a CEL predicate, or leave `when` out.")
	}
}

func (l *linter) errorRules(e *Edge, bad func(code diag.Code, at diag.Range, suggestion, summary, detail string)) {
	if e.FromPort != plan.ErrorPort && e.FromPort != plan.CompensatePort {
		bad(diag.PlanErrorEdge, e.FromPortAt, plan.ErrorPort, "an error edge leaves `$error` or `$compensate`", "`$error` handles a failure, `$compensate` undoes an effect.")
	}
	if e.From == 0 {
		bad(diag.PlanErrorEdge, e.FromRange(), "", "`$input` cannot fail", "An input that breaks the plan's schema is refused before the run starts.")
	}
	if e.Otherwise {
		bad(diag.PlanErrorEdge, fields.KeyOf(e.At, "when"), "", "an error edge has no `otherwise`", "Write the condition out, over `error`.")
	}
	if e.FromPort == plan.CompensatePort {
		if e.Transform == nil {
			bad(diag.PlanCompensation, e.FromPortAt, "", "a compensation needs a transform", "It builds the arguments of the undoing call from `args`, `output` and `error` of the node.")
		}
		if e.ToPort == plan.StartPort {
			bad(diag.PlanCompensation, e.ToPortAt, "", "a compensation brings a value, so it does not enter `$start`", "")
		}
		if e.When != nil {
			bad(diag.PlanCompensation, fields.KeyOf(e.At, "when"), "", "a compensation has no condition", "It is delivered when the effect has to be undone.")
		}
	}
}

// findPorts checks that both ports exist.
func (l *linter) findPorts(doc *Document, e *Edge) bool {
	from, to := doc.Nodes[e.From], doc.Nodes[e.To]
	ok := true
	switch e.FromPort {
	case plan.WholePort, plan.DonePort, plan.ErrorPort, plan.CompensatePort:
	default:
		switch {
		case from.Output == nil:
			ok = false
		case !from.Output.Takes(e.FromPort):
			l.unknownPort(from, e.FromPort, e.FromPortAt, false, e)
			ok = false
		}
	}
	if e.ToPort != plan.WholePort && e.ToPort != plan.StartPort {
		switch {
		case to.Input == nil:
			ok = false
		case !to.Input.Takes(e.ToPort):
			l.unknownPort(to, e.ToPort, e.ToPortAt, true, e)
			ok = false
		}
	}
	return ok
}

// otherwise checks that the node has another conditional edge.
func (l *linter) otherwise(doc *Document, e *Edge) {
	for _, at := range doc.Conditional[e.From] {
		if !doc.Edges[at].Otherwise {
			return
		}
	}
	l.Report(diag.Diagnostic{
		Code: diag.PlanSchema, Summary: fmt.Sprintf("`otherwise` without another conditional edge of %s", fields.Quote(e.FromNode)),
		Detail:  "It is delivered when no other conditional edge of the node holds, and there is none. Use a data or control edge.",
		Subject: keyRange(e.At, "when"), Edge: e.String(), Node: e.FromNode,
	})
	e.Sound = false
}

// keyRange is the place of the value of a key.
func keyRange(v *syntax.Value, key string) diag.Range {
	for i := range v.Fields {
		if v.Fields[i].Key.Text == key {
			return v.Fields[i].Value.Range()
		}
	}
	return fields.Head(v)
}

// duplicates refuses repeated edges: the second would never decide anything.
func (l *linter) duplicates(doc *Document) {
	type identity struct {
		from, to         int
		fromPort, toPort string
		kind             plan.EdgeType
		otherwise        bool
		when             string
	}
	seen := make(map[identity]*Edge, len(doc.Edges))
	for _, e := range doc.Edges {
		if !e.Sound {
			continue
		}
		id := identity{e.From, e.To, e.FromPort, e.ToPort, e.Kind, e.Otherwise, ""}
		if e.When != nil {
			id.when = e.When.Text
		}
		if first := seen[id]; first != nil {
			l.Report(diag.Diagnostic{
				Code: diag.PlanDuplicateID, Summary: "the edge is there already",
				Detail:  "Two edges of one type between the same ports, under the same condition, are delivered together, and the first in the file decides.",
				Subject: e.Place(), Context: first.Place(), Edge: e.String(),
			})
			e.Sound = false
			continue
		}
		seen[id] = e
	}
}

// wholeAlone says why nothing stands beside "$".
// lintKey refuses what fills the port of a node's idempotency key.
func (l *linter) lintKey(doc *Document, i int) {
	n := doc.Nodes[i]
	port := n.KeyPort()
	if port == "" {
		return
	}
	d := diag.Diagnostic{
		Code: diag.PlanPortConflict, Summary: fmt.Sprintf("port %s of %s takes its idempotency key", fields.Quote(port), fields.Quote(n.ID)),
		Detail: "The catalog says so of the operation. A run gives each effect a key of its own, by which the tool knows a call that is repeated; a key of the plan's could be that of several effects.",
		Node:   n.ID,
	}
	if n.WithPort(port) != nil {
		d.Subject, d.Edits = fields.KeyOf(n.With, port), l.Remove(n.With, port)
		l.Report(d)
	}
	for _, at := range doc.In[i] {
		if e := doc.Edges[at]; e.Carries() && e.ToPort == port {
			d.Subject, d.Edge, d.Edits = e.ToRange(), e.String(), nil
			l.Report(d)
		}
	}
}

const wholeAlone = "`$` is the whole input, so nothing else can fill a part of it."

// lintConflicts refuses edges that exclude each other: two required ones into one
// port, one into `$` beside any other, and any into the port of the idempotency key.
func (l *linter) lintConflicts(doc *Document) {
	for i, n := range doc.Nodes {
		l.lintKey(doc, i)
		required := map[string]*Edge{}
		var whole, part *Edge
		for _, at := range doc.In[i] {
			e := doc.Edges[at]
			if !e.Carries() {
				continue
			}
			if e.ToPort == plan.WholePort {
				whole = e
			} else {
				part = e
			}
			if !e.Required {
				continue
			}
			if first := required[e.ToPort]; first != nil {
				d := diag.Diagnostic{
					Code: diag.PlanPortConflict, Summary: fmt.Sprintf("two required edges into port %s of %s", fields.Quote(e.ToPort), fields.Quote(n.ID)),
					Detail:  "A port takes one value. Alternatives are edges with `required: false`: the first delivered one in the order of the file is taken.",
					Subject: e.ToRange(), Context: first.ToRange(), Node: n.ID, Edge: e.String(),
				}
				d.Suggestion, d.Edits = e.Option(l.Reader, "required", false)
				l.Report(d)
				continue
			}
			required[e.ToPort] = e
		}
		if whole != nil && part != nil {
			l.Report(diag.Diagnostic{
				Code: diag.PlanPortConflict, Summary: fmt.Sprintf("an edge into `$` of %s beside one into %s", fields.Quote(n.ID), fields.Quote(part.ToPort)),
				Detail:  wholeAlone,
				Subject: whole.ToRange(), Context: part.ToRange(), Node: n.ID, Edge: whole.String(),
			})
		}
		if n.With == nil || (whole == nil && part == nil) {
			continue
		}
		if hasWhole := n.WithPort(plan.WholePort) != nil; hasWhole && part != nil {
			l.Report(diag.Diagnostic{
				Code: diag.PlanPortConflict, Summary: fmt.Sprintf("`with` gives `$` of %s, and an edge fills %s", fields.Quote(n.ID), fields.Quote(part.ToPort)),
				Detail:  wholeAlone,
				Subject: fields.KeyOf(n.With, plan.WholePort), Context: part.ToRange(), Node: n.ID, Edge: part.String(),
			})
		} else if !hasWhole && whole != nil && len(n.With.Fields) > 0 {
			l.Report(diag.Diagnostic{
				Code: diag.PlanPortConflict, Summary: fmt.Sprintf("an edge into `$` of %s beside `with`", fields.Quote(n.ID)),
				Detail:  wholeAlone,
				Subject: whole.ToRange(), Context: n.With.Fields[0].Key.Range(), Node: n.ID, Edge: whole.String(),
			})
		}
	}
}
