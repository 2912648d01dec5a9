package compiler

import (
	"chimera.ai/engine/containment"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/schemas"
)

// blockEdges is how many edges of a large plan, which has more than two blocks,
// are typed together. What is proved of one edge helps with the others of its
// block only, so that blocks can be typed side by side, and what comes of them
// does not depend on how many are.
const blockEdges = 1024

// typedEdge is what the types pass sets in an edge.
type typedEdge struct {
	template  *template
	brings    *schemas.Schema
	condition string
	failed    bool
}

func (e *edge) typed() typedEdge { return typedEdge{e.template, e.brings, e.condition, e.failed} }

func (e *edge) retype(t typedEdge) {
	e.template, e.brings, e.condition, e.failed = t.template, t.brings, t.condition, t.failed
}

// block is some edges of a document, and what was set in them before they were
// typed.
type block struct {
	edges  []*edge
	before []typedEdge
	// proofSteps and checkSteps are the work that it took.
	proofSteps, checkSteps int
	// clean: there was nothing to report.
	clean bool
}

// typeEdges types every edge of a document. Blocks of a large one are typed side
// by side, as if each had all steps of the file. In their order, those with
// nothing to report, for which what is left of the steps would have sufficed,
// stay as they are; any other is typed once more, with what is left.
func (u *unit) typeEdges(doc *document) {
	var edges []*edge
	for _, e := range doc.edges {
		if e.sound {
			edges = append(edges, e)
		}
	}
	if len(edges) <= 2*u.blockEdges {
		u.typeSome(doc, edges)
		return
	}
	var blocks []*block
	for len(edges) > 0 {
		n := min(u.blockEdges, len(edges))
		blocks = append(blocks, &block{edges: edges[:n]})
		edges = edges[n:]
	}
	u.typeBlocks(doc, blocks)
	limit := u.proofLimit()
	for _, b := range blocks {
		if b.clean && u.proofSteps+b.proofSteps <= limit && b.checkSteps <= u.checkSteps {
			u.proofSteps += b.proofSteps
			u.checkSteps -= b.checkSteps
			continue
		}
		for i, e := range b.edges {
			e.retype(b.before[i])
		}
		u.typeSome(doc, b.edges)
	}
}

// typeSome types edges one after the other. When no more findings are listed,
// nothing more is looked for.
func (u *unit) typeSome(doc *document, edges []*edge) {
	for _, e := range edges {
		if u.full {
			e.failed = true
			continue
		}
		u.typeEdge(doc, e)
	}
}

// typeBlocks types blocks side by side.
func (u *unit) typeBlocks(doc *document, blocks []*block) {
	// What is worked out when it is asked for first is asked for here, so that
	// blocks only read what they share.
	doc.siblings(0)
	u.failures()
	for _, n := range doc.nodes {
		for _, c := range []*contractSchema{n.input, n.output} {
			if c != nil {
				c.portsOf()
				c.usable()
			}
		}
	}
	sideBySide(len(blocks), func(i int) { u.fork().typeBlock(doc, blocks[i]) })
}

// fork is a unit for one block: it shares what is only read, and stops at the
// first thing that there is to report.
func (u *unit) fork() *unit {
	f := &unit{
		src: u.src, cat: u.cat, pol: u.pol, docs: u.docs, scout: true,
		said:              map[finding]bool{},
		checkedPredicates: map[programAt]predicateCheck{}, checkedTemplates: map[templateAt]templateCheck{},
		readied: map[*template]*expr.Template{}, readiedPredicates: map[programAt]*expr.Program{},
		narrowed: map[narrowing]sight{}, questions: map[proofKey]containment.Result{},
		proofSteps: u.proofSteps, checkSteps: u.checkSteps, errors: u.errors,
	}
	f.prover = newProver(f.proof)
	f.prover.errors = u.prover.errors
	return f
}

// typeBlock types the edges of a block, until there is something to report.
func (u *unit) typeBlock(doc *document, b *block) {
	proofs, checks, errors := u.proofSteps, u.checkSteps, u.errors
	b.before = make([]typedEdge, len(b.edges))
	for i, e := range b.edges {
		b.before[i] = e.typed()
	}
	for _, e := range b.edges {
		if u.typeEdge(doc, e); e.failed || u.errors > errors || len(u.ds) > 0 {
			return
		}
	}
	b.proofSteps, b.checkSteps = u.proofSteps-proofs, checks-u.checkSteps
	b.clean = true
}
