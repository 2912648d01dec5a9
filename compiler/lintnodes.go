package compiler

import (
	"fmt"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// lintNodes checks what a node says of its own ports.
func (u *unit) lintNodes(doc *document) {
	for _, n := range doc.nodes {
		for _, c := range []*contractSchema{n.input, n.output} {
			if c != nil && c.Ports().Partial {
				at := n.key
				if c.at != nil {
					at = fields.Head(c.at)
				}
				u.Report(diag.Diagnostic{
					Code: diag.TypeSchema, Summary: "the schema is too intricate to find its ports",
					Detail:  "Its combinators and references multiply. Write the ports under `properties` of the schema itself.",
					Subject: at, Node: n.id,
				})
				n.sound, doc.broken = false, true
			}
		}
		if n.kind != plan.KindCall || n.input == nil {
			continue
		}
		errs := u.Errors
		if u.lintWith(n); u.Errors > errs {
			doc.doubt(n.id)
		}
		if n.forEach != nil && n.forEach.port != nil && !n.input.takes(n.forEach.port.Text) {
			u.unknownPort(n, n.forEach.port.Text, n.forEach.port.Range(), true, "")
			n.sound, n.torn = false, true
		}
		if !n.sound {
			doc.broken = true
		}
	}
}

func (u *unit) lintWith(n *node) {
	if n.with == nil {
		return
	}
	whole := false
	for i := range n.with.Fields {
		key := n.with.Fields[i].Key
		whole = whole || key.Text == plan.WholePort
		if !n.input.takes(key.Text) {
			u.unknownPort(n, key.Text, key.Range(), true, "")
			n.sound = false
		}
	}
	if whole && len(n.with.Fields) > 1 {
		u.Report(diag.Diagnostic{
			Code: diag.PlanPortConflict, Summary: "`$` beside other ports",
			Detail:  "`$` is the whole input, so nothing else can fill a part of it.",
			Subject: fields.KeyOf(n.with, plan.WholePort), Context: n.key, Node: n.id,
		})
		n.sound = false
	}
}

// takes reports whether the schema has that port.
func (c *contractSchema) takes(name string) bool {
	return name == plan.WholePort || c.Ports().Has(name)
}

// unknownPort reports a port that a node's schema does not have.
func (u *unit) unknownPort(n *node, name string, at diag.Range, input bool, edge string) {
	c, side := n.output, "output"
	if input {
		c, side = n.input, "input"
	}
	ports := c.Ports()
	if ports.Adrift {
		// A schema that cannot be compiled is refused, and may have had the port.
		u.pool.Admit(c.Schema)
		if _, err := c.Compile(); err != nil {
			return
		}
	}
	d := diag.Diagnostic{
		Code: diag.PlanUnknownPort, Summary: fmt.Sprintf("%s has no %s port %s", fields.Quote(n.id), side, fields.Quote(name)),
		Subject: at, Node: n.id, Edge: edge, Suggestion: u.Near(name, ports.Names),
	}
	if c.at != nil {
		d.Context = fields.Head(c.at)
	}
	d.Detail = fmt.Sprintf("A port is a name in `properties` or `required` of the %s schema. ", side)
	if len(ports.Names) == 0 {
		d.Detail += fmt.Sprintf("This one has none, so `$`, the whole %s, is its only port.", side)
	} else {
		d.Detail += listing("It has ", ports.Names)
	}
	u.Report(d)
}
