package compiler

import (
	"fmt"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// lintEdges finds the ends of every edge and checks the rules of its type.
func (u *unit) lintEdges(doc *document) {
	for _, e := range doc.edges {
		if !e.shaped {
			// What is there is still looked up, so that a second mistake shows.
			u.findEnds(doc, e)
			continue
		}
		found := u.findEnds(doc, e)
		errs := u.Errors
		u.rules(e)
		ruled := u.Errors == errs
		if !found || !ruled {
			continue
		}
		e.sound = u.findPorts(doc, e)
	}
	doc.conditional = map[int][]int{}
	for i, e := range doc.edges {
		if e.kind == plan.Conditional && e.from >= 0 {
			doc.conditional[e.from] = append(doc.conditional[e.from], i)
		}
	}
	for _, e := range doc.edges {
		if e.sound && e.otherwise {
			u.otherwise(doc, e)
		}
	}
	u.duplicates(doc)
}

// findEnds looks up both nodes.
func (u *unit) findEnds(doc *document, e *edge) bool {
	look := func(name string, at diag.Range) int {
		if name == "" && !at.IsValid() {
			return -1
		}
		i, ok := doc.index[name]
		if ok {
			return i
		}
		d := diag.Diagnostic{
			Code: diag.PlanUnknownNode, Summary: fmt.Sprintf("there is no node %s", fields.Quote(name)),
			Subject: at, Edge: e.String(), Suggestion: u.Near(name, doc.endNames()),
		}
		if name == "input" || name == "output" {
			d.Suggestion = "$" + name
		}
		doc.doubt(d.Suggestion)
		if d.Suggestion == "" && len(doc.ids) > 0 {
			d.Detail = listing("The plan has ", doc.ids)
		}
		u.Report(d)
		return -1
	}
	e.from = look(e.fromNode, e.fromNodeAt)
	e.to = look(e.toNode, e.toNodeAt)
	ok := e.from >= 0 && e.to >= 0
	if e.from >= 0 && doc.nodes[e.from].kind == plan.KindOutput {
		u.Report(diag.Diagnostic{
			Code: diag.PlanUnknownPort, Summary: "no edge leaves `$output`",
			Detail:  "`$output` is what the plan returns; it has input ports only.",
			Subject: e.fromRange(), Edge: e.String(),
		})
		ok = false
	}
	if e.to == 0 {
		u.Report(diag.Diagnostic{
			Code: diag.PlanUnknownPort, Summary: "no edge enters `$input`",
			Detail:  "`$input` is what the plan was started with; it has output ports only.",
			Subject: e.toRange(), Edge: e.String(),
		})
		ok = false
	}
	return ok
}

// rules checks an edge against the rules of its type, which need nothing but
// the edge itself.
func (u *unit) rules(e *edge) {
	bad := func(code diag.Code, at diag.Range, suggestion, summary, detail string) {
		if !at.IsValid() {
			at = e.at.Range()
		}
		u.Report(diag.Diagnostic{Code: code, Summary: summary, Detail: detail, Subject: at, Edge: e.String(), Suggestion: suggestion})
	}
	switch e.fromPort {
	case plan.StartPort:
		bad(diag.PlanUnknownPort, e.fromPortAt, plan.DonePort, "`$start` is a target, not a source", "A node offers `$done`, which tells that it succeeded.")
	case plan.ErrorPort, plan.CompensatePort:
		if e.kind != plan.Error {
			bad(diag.PlanErrorEdge, e.fromPortAt, "edge_type: error", fmt.Sprintf("only an error edge leaves `%s`", e.fromPort), "")
		}
	case plan.DonePort:
		if e.kind == plan.Data {
			meant := "edge_type: control"
			if e.toPort != plan.StartPort {
				meant = plan.WholePort
			}
			bad(diag.PlanUnknownPort, e.fromPortAt, meant, "`$done` has no value, so no data edge leaves it", "A data edge moves a value. Use a control edge, or the port `$` for the whole output.")
		}
	}
	switch e.toPort {
	case plan.DonePort, plan.ErrorPort, plan.CompensatePort:
		bad(diag.PlanUnknownPort, e.toPortAt, plan.StartPort, fmt.Sprintf("`%s` is a source, not a target", e.toPort), "An edge that brings no value enters `$start`.")
	}
	switch e.kind {
	case plan.Data:
		if e.toPort == plan.StartPort {
			bad(diag.PlanUnknownPort, e.toPortAt, "edge_type: control", "`$start` takes no value, so no data edge enters it", "A data edge moves a value. Use a control edge, or a conditional one.")
		}
	case plan.Control:
		if e.fromPort != plan.DonePort {
			bad(diag.PlanUnknownPort, e.fromPortAt, plan.DonePort, "a control edge leaves `$done`", "It brings order, not a value.")
		}
		if e.toPort != plan.StartPort {
			bad(diag.PlanUnknownPort, e.toPortAt, plan.StartPort, "a control edge enters `$start`", "It brings order, not a value.")
		}
	case plan.Conditional:
		if e.fromPort == plan.DonePort && e.toPort != plan.StartPort {
			bad(diag.PlanUnknownPort, e.toPortAt, plan.StartPort, "a conditional edge from `$done` brings no value, so it enters `$start`", "To send the whole output, leave from the port `$`.")
		}
		if e.fromPort == plan.DonePort && e.when == nil && !e.otherwise {
			bad(diag.PlanSchema, e.kindAt, "", "a conditional edge from `$done` needs `when`", "Without `when` the value itself is the condition, and `$done` has none.")
		}
	case plan.Error:
		u.errorRules(e, bad)
	}
	if (e.when != nil || e.otherwise) && e.kind != plan.Conditional && e.kind != plan.Error {
		bad(diag.PlanSchema, fields.KeyOf(e.at, "when"), "edge_type: conditional", fmt.Sprintf("a %s edge has no condition", e.kind), "`when` belongs to conditional and error edges.")
	}
	valued := e.carries() || e.kind == plan.Data
	if !valued && e.transform != nil {
		bad(diag.PlanSchema, fields.KeyOf(e.at, "transform"), "", "an edge that brings no value has nothing to transform", "")
	}
	decides := e.when != nil && (e.kind == plan.Conditional || e.kind == plan.Error)
	if !valued && !decides && e.check != nil {
		bad(diag.PlanSchema, fields.KeyOf(e.at, "check"), "", "an edge that brings no value has nothing to check", "")
	}
	if e.when != nil && strings.TrimSpace(e.when.Text) == "" {
		bad(diag.PlanSyntax, e.when.Range(), "", "the condition is empty", "Give a CEL predicate, or leave `when` out.")
	}
}

func (u *unit) errorRules(e *edge, bad func(code diag.Code, at diag.Range, suggestion, summary, detail string)) {
	if e.fromPort != plan.ErrorPort && e.fromPort != plan.CompensatePort {
		bad(diag.PlanErrorEdge, e.fromPortAt, plan.ErrorPort, "an error edge leaves `$error` or `$compensate`", "`$error` handles a failure, `$compensate` undoes an effect.")
	}
	if e.from == 0 {
		bad(diag.PlanErrorEdge, e.fromRange(), "", "`$input` cannot fail", "An input that breaks the plan's schema is refused before the run starts.")
	}
	if e.otherwise {
		bad(diag.PlanErrorEdge, fields.KeyOf(e.at, "when"), "", "an error edge has no `otherwise`", "Write the condition out, over `error`.")
	}
	if e.fromPort == plan.CompensatePort {
		if e.transform == nil {
			bad(diag.PlanCompensation, e.fromPortAt, "", "a compensation needs a transform", "It builds the arguments of the undoing call from `args`, `output` and `error` of the node.")
		}
		if e.toPort == plan.StartPort {
			bad(diag.PlanCompensation, e.toPortAt, "", "a compensation brings a value, so it does not enter `$start`", "")
		}
		if e.when != nil {
			bad(diag.PlanCompensation, fields.KeyOf(e.at, "when"), "", "a compensation has no condition", "It is delivered when the effect has to be undone.")
		}
	}
}

// findPorts checks that both ports exist.
func (u *unit) findPorts(doc *document, e *edge) bool {
	from, to := doc.nodes[e.from], doc.nodes[e.to]
	ok := true
	switch e.fromPort {
	case plan.WholePort, plan.DonePort, plan.ErrorPort, plan.CompensatePort:
	default:
		switch {
		case from.output == nil:
			ok = false
		case !from.output.takes(e.fromPort):
			u.unknownPort(from, e.fromPort, e.fromPortAt, false, e.String())
			ok = false
		}
	}
	if e.toPort != plan.WholePort && e.toPort != plan.StartPort {
		switch {
		case to.input == nil:
			ok = false
		case !to.input.takes(e.toPort):
			u.unknownPort(to, e.toPort, e.toPortAt, true, e.String())
			ok = false
		}
	}
	return ok
}

// otherwise checks that there is something to be otherwise to.
func (u *unit) otherwise(doc *document, e *edge) {
	for _, at := range doc.conditional[e.from] {
		if !doc.edges[at].otherwise {
			return
		}
	}
	u.Report(diag.Diagnostic{
		Code: diag.PlanSchema, Summary: fmt.Sprintf("`otherwise` without another conditional edge of %s", fields.Quote(e.fromNode)),
		Detail:  "It is delivered when no other conditional edge of the node holds, and there is none. Use a data or control edge.",
		Subject: keyRange(e.at, "when"), Edge: e.String(), Node: e.fromNode,
	})
	e.sound = false
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

// duplicates refuses an edge that is there twice: the second never decides
// anything.
func (u *unit) duplicates(doc *document) {
	type identity struct {
		from, to         int
		fromPort, toPort string
		kind             plan.EdgeType
		otherwise        bool
		when             string
	}
	seen := make(map[identity]*edge, len(doc.edges))
	for _, e := range doc.edges {
		if !e.sound {
			continue
		}
		id := identity{e.from, e.to, e.fromPort, e.toPort, e.kind, e.otherwise, ""}
		if e.when != nil {
			id.when = e.when.Text
		}
		if first := seen[id]; first != nil {
			u.Report(diag.Diagnostic{
				Code: diag.PlanDuplicateID, Summary: "the edge is there already",
				Detail:  "Two edges of one type between the same ports, under the same condition, are delivered together, and the first in the file decides.",
				Subject: e.place(), Context: first.place(), Edge: e.String(),
			})
			e.sound = false
			continue
		}
		seen[id] = e
	}
}
