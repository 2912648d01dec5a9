package typing

import (
	"slices"

	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// Graph holds the typed graph of each plan of a file.
type Graph struct {
	*lint.Graph
	Documents []*Document
}

// Document is a plan with its schemas and expressions compiled.
type Document struct {
	*lint.Document
	input, output *Schema
	Nodes         []*Node
	Edges         []*Edge
	// Siblings are the well-formed conditional edges of each node.
	Siblings map[int][]*Edge
	// refused holds the definitions that cannot be used.
	refused map[string]bool
}

// Schema is a schema of the plan. Faulty reports that it, or a definition that it
// uses, does not compile.
type Schema struct {
	*lint.Schema
	Faulty bool
}

// Usable returns the compiled schema, or nil if there is none.
func (c *Schema) Usable() *schemas.Schema {
	if c == nil || c.Faulty {
		return nil
	}
	return c.Schema.Usable()
}

// of returns the schema of a port as the plan writes it, or nil if it is not written
// under `properties`.
func (c *Schema) of(port string) *syntax.Value {
	if c == nil || c.At == nil || port == plan.WholePort {
		return nil
	}
	if ports := c.At.Get("properties"); ports != nil {
		return ports.Get(port)
	}
	return nil
}

// requirement is where the plan writes that the schema requires a port, or the
// schema's first key.
func (c *Schema) requirement(port string) diag.Range {
	if c == nil || c.At == nil {
		return diag.Range{}
	}
	if list := c.At.Get("required"); list != nil {
		for _, item := range list.Items {
			if item.Text == port {
				return item.Range()
			}
		}
	}
	return fields.Head(c.At)
}

// Own reports whether the schema is the plan's own and can be used.
func (c *Schema) Own() bool { return c != nil && c.At != nil && !c.Faulty }

// Node is a node with its expressions compiled.
type Node struct {
	*lint.Node
	Input, Output *Schema
	// sound reports that the node is sound, and so are its schemas and the
	// entries of `with`.
	sound bool
	// Fills are the compiled entries of with, in file order.
	Fills []fill
	// Verify is that of its commit policy, or nil.
	Verify *Verify
	// estimate is the expression of the plan's cost and Price that of the template's,
	// checked, with their conversions written out; currency is that of the estimate.
	estimate, Price, currency string
}

// fill is one compiled entry of `with`.
type fill struct {
	Port     string
	Template *embedded.Template
	// brings is the schema of its values; failed reports that it was refused.
	brings *schemas.Schema
	failed bool
}

// Verify is the call that tells whether an effect happened, with its expressions
// compiled.
type Verify struct {
	*lint.Verify
	// Args and Result are with and output, compiled.
	Args, Result *embedded.Template
	// predicate is executed, compiled; Condition its text with its conversions
	// written out.
	predicate *expr.Program
	Condition string
}

// Edge is an edge with its expressions compiled.
type Edge struct {
	*lint.Edge
	// Predicate and Template are when and transform, compiled.
	Predicate *expr.Program
	Template  *embedded.Template
	// boundAdapter is the adapter that the transform names, or nil.
	boundAdapter *boundAdapter
	// Condition is when with its conversions written out.
	Condition string
	// brings is the schema of the values that the edge brings. failed reports
	// that part of the edge was refused, so that nothing more is said about its
	// target.
	brings *schemas.Schema
	failed bool
}

// typed returns a plan about which nothing has been inferred yet.
func typed(doc *lint.Document) *Document {
	d := &Document{Document: doc, Nodes: make([]*Node, len(doc.Nodes)), Edges: make([]*Edge, len(doc.Edges)), Siblings: map[int][]*Edge{}, refused: map[string]bool{}}
	known := map[*lint.Schema]*Schema{}
	of := func(c *lint.Schema) *Schema {
		if c != nil && known[c] == nil {
			known[c] = &Schema{Schema: c}
		}
		return known[c]
	}
	d.input, d.output = of(doc.Input), of(doc.Output)
	for i, n := range doc.Nodes {
		d.Nodes[i] = &Node{Node: n, Input: of(n.Input), Output: of(n.Output), sound: n.Sound}
		if n.Commit != nil && n.Commit.Verify != nil {
			d.Nodes[i].Verify = &Verify{Verify: n.Commit.Verify}
		}
	}
	for i, e := range doc.Edges {
		d.Edges[i] = &Edge{Edge: e}
	}
	for at, list := range doc.Conditional {
		for _, i := range list {
			d.Siblings[at] = append(d.Siblings[at], d.Edges[i])
		}
	}
	for name, def := range doc.Defs.ByName {
		if def.Bad {
			d.refused[name] = true
		}
	}
	return d
}

// adapter reports whether the transform is the id of an adapter: a string without
// an expression.
func (e *Edge) adapter() bool {
	return e.Transform != nil && embedded.Bare(e.Transform)
}

// Needs lists the ports without which a node does not run: `$` if anything is
// sent there, else the ports that its schema requires.
func (d *Document) Needs(i int) []string {
	n := d.Nodes[i]
	if n.Input == nil {
		return nil
	}
	ports := n.Input.Ports()
	if d.fills(i, plan.WholePort) || ports.Never {
		return []string{plan.WholePort}
	}
	key := d.Nodes[i].KeyPort()
	return slices.DeleteFunc(ports.Required(), func(p string) bool { return p == key })
}

// fills reports whether `with` or an edge could bring a value to the port.
func (d *Document) fills(i int, port string) bool {
	return d.Nodes[i].WithPort(port) != nil || slices.ContainsFunc(d.In[i], func(at int) bool {
		e := d.Edges[at]
		return e.Carries() && e.ToPort == port
	})
}

// doubtful returns the nodes that unsound edges enter.
func (d *Document) doubtful() map[int]bool {
	nodes := map[int]bool{}
	for _, e := range d.Edges {
		if !e.Sound && e.To >= 0 {
			nodes[e.To] = true
		}
	}
	return nodes
}

// scopes returns what the expressions of an edge may read.
func (e *Edge) scopes() (when, transform expr.Scope) {
	switch {
	case e.Kind != plan.Error:
		return expr.When, expr.Transform
	case e.FromPort == plan.CompensatePort:
		return expr.ErrorWhen, expr.Compensate
	}
	return expr.ErrorWhen, expr.ErrorTransform
}
