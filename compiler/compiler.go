package compiler

import (
	"fmt"
	"slices"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

// Source is one file as its author wrote it.
type Source = diag.Source

// Compile checks the plan in src against the operations of cat and the
// operator's policy pol, and materialises it. It is pure: no file, network or
// clock is touched, and equal arguments give equal bytes.
//
// The plan is nil exactly if the diagnostics hold an error. They are sorted by
// place. A nil catalog knows no operation; a nil policy is no bundle.
//
// What the language has and the engine cannot run yet is plan/not-supported.
func Compile(src Source, cat *catalog.Catalog, pol *policy.Bundle) (*plan.Plan, diag.Diagnostics) {
	return newUnit(src, cat, pol).compile(append(slices.Clone(passes), pass{"refuse", (*unit).refuse}))
}

// Check is Compile for those who only look at a plan: what the engine cannot run
// yet is left in. The engine takes no plan from it.
func Check(src Source, cat *catalog.Catalog, pol *policy.Bundle) (*plan.Plan, diag.Diagnostics) {
	return newUnit(src, cat, pol).compile(passes)
}

// pass is one step of the compiler. Every pass reports all that it finds, and
// looks only at what those before it found sound.
type pass struct {
	name string
	run  func(*unit)
}

// passes is the order of the compiler. Materialise does nothing once an error has
// been found, and what the engine cannot run yet is refused after everything
// else has been said.
var passes = []pass{
	{"lint", (*unit).lint},
	{"types", (*unit).types},
	{"effects", (*unit).effects},
	{"trust", (*unit).trust},
	{"materialise", (*unit).materialise},
}

func (u *unit) compile(passes []pass) (*plan.Plan, diag.Diagnostics) {
	for _, p := range passes {
		p.run(u)
		if err := u.verify(); err != nil {
			u.Report(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: fmt.Sprintf("the compiler is at fault: after its pass %q %v", p.name, err),
				Subject: diag.Range{File: u.Src.Name, Start: diag.Pos{Line: 1, Column: 1}, End: diag.Pos{Line: 1, Column: 1}},
			})
			break
		}
	}
	u.Found.Sort()
	if u.Found.HasErrors() {
		return nil, u.Found
	}
	return u.made, u.Found
}

// verify checks what every pass relies on, so that a mistake of one pass shows
// right behind it.
func (u *unit) verify() error {
	for _, doc := range u.docs {
		last := len(doc.nodes) - 1
		if last < 1 || doc.nodes[0].kind != plan.KindInput || doc.nodes[last].kind != plan.KindOutput {
			return fmt.Errorf("$input is not first or $output not last")
		}
		for _, e := range doc.edges {
			if e.sound && (e.from < 0 || e.from >= last || e.to < 1 || e.to > last || e.kind == "") {
				return fmt.Errorf("the edge %s is out of place", fields.Quote(e.String()))
			}
		}
		if doc.order != nil && len(doc.order) != len(doc.nodes) {
			return fmt.Errorf("the order of nodes is not complete")
		}
	}
	return nil
}
