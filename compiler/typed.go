package compiler

import (
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/schemas"
)

// typedDocument is a plan with what its schemas and expressions mean.
type typedDocument struct {
	*document
	input, output *typedSchema
	nodes         []*typedNode
	edges         []*typedEdge
	// siblings are the well-formed conditional edges of each node.
	siblings map[int][]*typedEdge
	// refused are the definitions that cannot be used.
	refused map[string]bool
}

// typedSchema is a schema of the plan. faulty: it does not compile, or a
// definition that it uses does not.
type typedSchema struct {
	*contractSchema
	faulty bool
}

// usable is the compiled schema, or nil if there is none.
func (c *typedSchema) usable() *schemas.Schema {
	if c == nil || c.faulty {
		return nil
	}
	return c.contractSchema.usable()
}

// typedNode is a node with its expressions compiled.
type typedNode struct {
	*node
	input, output *typedSchema
	// sound: it is sound as it stands, and so are its schemas and what fills it.
	sound bool
	// fills are the compiled entries of with, in file order.
	fills []fill
	// verify is that of its commit policy, or nil.
	verify *typedVerify
	// estimate is the expression of cost and price that of the template's cost,
	// checked, with their conversions written out; currency is that of the estimate.
	estimate, price, currency string
}

// fill is one compiled entry of `with`.
type fill struct {
	port     string
	template *embedded.Template
	// brings is what it can give; failed: it was refused.
	brings *schemas.Schema
	failed bool
}

type typedVerify struct {
	*verify
	// args and result are with and output, compiled.
	args, result *embedded.Template
	// predicate is executed, compiled; condition its text with its conversions
	// written out.
	predicate *expr.Program
	condition string
}

// typedEdge is an edge with its expressions compiled.
type typedEdge struct {
	*edge
	// predicate and template are when and transform, compiled.
	predicate *expr.Program
	template  *embedded.Template
	// adapted is the adapter that the transform names, or nil.
	adapted *adapted
	// condition is when with its conversions written out.
	condition string
	// brings is what the edge can bring; failed: something of it was refused, so
	// that nothing more is said of what it leads to.
	brings *schemas.Schema
	failed bool
}

// typed begins the typed graph of a plan.
func typed(doc *document) *typedDocument {
	d := &typedDocument{document: doc, nodes: make([]*typedNode, len(doc.nodes)), edges: make([]*typedEdge, len(doc.edges)), siblings: map[int][]*typedEdge{}, refused: map[string]bool{}}
	known := map[*contractSchema]*typedSchema{}
	of := func(c *contractSchema) *typedSchema {
		if c != nil && known[c] == nil {
			known[c] = &typedSchema{contractSchema: c}
		}
		return known[c]
	}
	d.input, d.output = of(doc.input), of(doc.output)
	for i, n := range doc.nodes {
		d.nodes[i] = &typedNode{node: n, input: of(n.input), output: of(n.output), sound: n.sound}
		if n.commit != nil && n.commit.verify != nil {
			d.nodes[i].verify = &typedVerify{verify: n.commit.verify}
		}
	}
	for i, e := range doc.edges {
		d.edges[i] = &typedEdge{edge: e}
	}
	for at, list := range doc.conditional {
		for _, i := range list {
			d.siblings[at] = append(d.siblings[at], d.edges[i])
		}
	}
	for name, def := range doc.defs.byKey {
		if def.bad {
			d.refused[name] = true
		}
	}
	return d
}
