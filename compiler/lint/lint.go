// Package lint reads the source of plans as a linted graph: each plan as its author
// wrote it, completed from the catalog, and checked for all that can be said without
// knowing what its schemas and expressions mean.
package lint

import (
	"fmt"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/internal/pool"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// Graph holds the linted graph of each plan of a file.
type Graph struct {
	Documents []*Document
	// Catalog is the catalog that completed the nodes.
	Catalog *Catalog
}

// linter builds a Graph.
type linter struct {
	*fields.Reader
	*Graph
	pool *pool.Pool
}

// Check reads the file and checks everything that does not depend on the meaning of
// schemas and expressions.
func Check(rep *fields.Reader, schemas *pool.Pool, cat *catalog.Catalog) *Graph {
	l := &linter{Reader: rep, Graph: &Graph{Catalog: Index(cat, schemas)}, pool: schemas}
	l.readAll()
	for _, doc := range l.Documents {
		l.resolve(doc)
		l.lintNodes(doc)
		l.lintEdges(doc)
		l.lintPrechecks(doc)
		doc.connect()
		l.lintConflicts(doc)
		l.lintCompensation(doc)
		l.lintVerifies(doc)
		l.lintCycles(doc)
		l.lintBarriers(doc)
	}
	l.lintSubplans()
	return l.Graph
}

// Size counts the nodes and edges of all plans.
func (l *Graph) Size() (n int) {
	for _, doc := range l.Documents {
		n += len(doc.Nodes) + len(doc.Edges)
	}
	return n
}

// connect lists the sound edges of every node.
func (d *Document) connect() {
	d.In = make([][]int, len(d.Nodes))
	d.Out = make([][]int, len(d.Nodes))
	for i, e := range d.Edges {
		if !e.Sound {
			d.Broken = true
			continue
		}
		d.In[e.To] = append(d.In[e.To], i)
		d.Out[e.From] = append(d.Out[e.From], i)
	}
}

// Verify checks the invariants that every pass relies on, so that a faulty pass
// shows at once.
func (l *Graph) Verify() error {
	for _, doc := range l.Documents {
		last := len(doc.Nodes) - 1
		if last < 1 || doc.Nodes[0].Kind != plan.KindInput || doc.Nodes[last].Kind != plan.KindOutput {
			return fmt.Errorf("$input is not first or $output not last")
		}
		for _, e := range doc.Edges {
			if e.Sound && (e.From < 0 || e.From >= last || e.To < 1 || e.To > last || e.Kind == "") {
				return fmt.Errorf("the edge %s is out of place", fields.Quote(e.String()))
			}
		}
		if doc.Order != nil && len(doc.Order) != len(doc.Nodes) {
			return fmt.Errorf("the order of nodes is not complete")
		}
	}
	return nil
}
