// Package lint reads the source of plans as a linted graph: each plan as its author
// wrote it, completed from the catalog, and checked for all that can be said without
// knowing what its schemas and expressions mean.
package lint

import (
	"fmt"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/internal/pool"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// Graph holds the linted graph of each plan of a file.
type Graph struct {
	Documents []*Document
	// Catalog is the catalog that completed the nodes.
	Catalog *Catalog
	// Loose reports that schemas of the template were taken for engine/pass nodes that leave
	// theirs out, where others could follow.
	Loose bool
}

// linter builds a Graph.
type linter struct {
	*fields.Reader
	*Graph
	pool *pool.Pool
	// reading are the nodes of the plan that is being read, as written.
	reading []*syntax.Value
	// steps caches what they say of conditions.
	steps *steps
}

// Check reads the file and checks everything that does not depend on the meaning of
// schemas and expressions.
//
// Schemas that engine/pass nodes leave out follow from the plan, unless the plan says nothing
// that needs them: then they are those of the template, and the graph is [Graph.Loose]. follow
// asks that they follow in any case.
func Check(rep *fields.Reader, schemas *pool.Pool, cat *catalog.Catalog, follow bool) *Graph {
	l := &linter{Reader: rep, Graph: &Graph{Catalog: Index(cat, schemas)}, pool: schemas}
	l.readAll()
	for _, doc := range l.Documents {
		l.resolve(doc)
	}
	follow = l.mayFollow() || follow
	for _, doc := range l.Documents {
		if follow {
			l.follow(doc)
		}
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

// Read reads the file as far as its notation goes: short forms are written out, and schemas
// that follow are there if follow asks for them or the plan needs them. It returns nil if part of
// the file cannot be read; what is wrong with the plan otherwise is not reported.
func Read(rep *fields.Reader, schemas *pool.Pool, cat *catalog.Catalog, follow bool) *Graph {
	l := &linter{Reader: rep, Graph: &Graph{Catalog: Index(cat, schemas)}, pool: schemas}
	if l.readAll(); rep.Errors > 0 {
		return nil
	}
	muted := *l
	muted.Reader = fields.NewReader(rep.Src)
	for _, doc := range l.Documents {
		muted.resolve(doc)
	}
	if muted.mayFollow() || follow {
		for _, doc := range l.Documents {
			muted.follow(doc)
		}
	}
	return muted.Graph
}
