package lint

import (
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// lintNodes checks what each node says about its own ports.
func (l *linter) lintNodes(doc *Document) {
	for _, n := range doc.Nodes {
		for _, c := range []*Schema{n.Input, n.Output} {
			if c != nil && c.Ports().Partial {
				at := n.Key
				if c.At != nil {
					at = fields.Head(c.At)
				}
				l.Report(diag.Diagnostic{
					Code: diag.TypeSchema, Summary: "the schema is too intricate to find its ports",
					Detail:  "Its combinators and references multiply. Write the ports under `properties` of the schema itself.",
					Subject: at, Node: n.ID,
				})
				n.Sound, doc.Broken = false, true
			}
		}
		if n.Kind != plan.KindCall || n.Input == nil {
			continue
		}
		if slices.Contains(n.meant, "with") || slices.Contains(n.meant, "for_each") {
			doc.doubt(n.ID) // what fills its ports is not known
		}
		errs := l.Errors
		if l.lintWith(n); l.Errors > errs {
			doc.doubt(n.ID)
		}
		if n.ForEach != nil && n.ForEach.Port != nil && !n.Input.Takes(n.ForEach.Port.Text) {
			l.unknownPort(n, n.ForEach.Port.Text, n.ForEach.Port.Range(), true, nil)
			n.Sound, n.PortsUnknown = false, true
		}
		if !n.Sound {
			doc.Broken = true
		}
	}
}

func (l *linter) lintWith(n *Node) {
	if n.With == nil {
		return
	}
	whole := false
	for i := range n.With.Fields {
		key := n.With.Fields[i].Key
		whole = whole || key.Text == plan.WholePort
		if !n.Input.Takes(key.Text) {
			l.unknownPort(n, key.Text, key.Range(), true, nil)
			n.Sound = false
		}
	}
	if whole && len(n.With.Fields) > 1 {
		l.Report(diag.Diagnostic{
			Code: diag.PlanPortConflict, Summary: "`$` beside other ports",
			Detail:  wholeAlone,
			Subject: fields.KeyOf(n.With, plan.WholePort), Context: n.Key, Node: n.ID,
		})
		n.Sound = false
	}
}

// Takes reports whether the schema has that port.
func (c *Schema) Takes(name string) bool {
	return name == plan.WholePort || c.Ports().Has(name)
}

// unknownPort reports a port that a node's schema does not have.
func (l *linter) unknownPort(n *Node, name string, at diag.Range, input bool, e *Edge) {
	c, side := n.Output, "output"
	if input {
		c, side = n.Input, "input"
	}
	ports := c.Ports()
	if ports.Adrift {
		// A schema that does not compile is refused elsewhere, and might have had the
		// port.
		l.pool.Admit(c.Schema)
		if _, err := c.Compile(); err != nil {
			return
		}
	}
	if n.Kind == plan.KindOutput {
		side = "output"
	}
	edge := ""
	if e != nil {
		edge = e.String()
	}
	d := diag.Diagnostic{
		Code: diag.PlanUnknownPort, Summary: fmt.Sprintf("%s has no %s port %s", n.title(), side, fields.Quote(name)),
		Subject: at, Node: n.ID, Edge: edge, Suggestion: l.Near(name, ports.Names),
	}
	if word := "$" + name; !input && slices.Contains([]string{plan.ErrorPort, plan.DonePort, plan.CompensatePort}, word) {
		d.Suggestion = word
	}
	if d.Suggestion == "" && len(ports.Names) == 1 && name != "" && name[0] != '$' {
		d.Suggestion = ports.Names[0]
	}
	if c.At != nil {
		d.Context = fields.Head(c.At)
	}
	d.Detail = fmt.Sprintf("A port is a name in `properties` or `required` of the %s schema. ", side)
	if len(ports.Names) == 0 {
		d.Detail += fmt.Sprintf("This one has none, so `$`, the whole %s, is its only port.", side)
		if input && edge != "" && n.Kind == plan.KindCall {
			d.Detail += fmt.Sprintf(" `with: {$: {%s: …}}` gives it an object.", name)
		}
	} else {
		d.Detail += Listing("It has ", ports.Names)
	}
	if e == nil || e.Form == FormLong || isIdentifier(strings.TrimPrefix(d.Suggestion, "$")) {
		d.Edits = l.Replace(at, d.Suggestion) // else it would take more than the name
	}
	l.Report(d)
}
