package compiler

import (
	"fmt"
	"slices"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/internal/pool"
	"chimera.ai/engine/compiler/internal/proof"
	"chimera.ai/engine/compiler/judge"
	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/compiler/notation"
	"chimera.ai/engine/compiler/typing"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

// Source is one file as its author wrote it.
type Source = diag.Source

// Compile checks the plan in src against the operations of cat and the operator's
// policy pol, and materialises it. It is pure: it touches no file, network or
// clock, and equal arguments give equal bytes.
//
// The plan is nil if and only if the diagnostics contain an error. They are sorted
// by place. A nil catalog has no operations; a nil policy means that there is no
// bundle.
//
// What the language has but the engine cannot run yet is refused with
// plan/not-supported.
func Compile(src Source, cat *catalog.Catalog, pol *policy.Bundle) (*plan.Plan, diag.Diagnostics) {
	return compileBy(src, cat, pol, append(slices.Clone(passes), pass{"refuse", (*compilation).refuse})).result()
}

// Check is Compile for tools that only look at a plan: it also accepts what the
// engine cannot run yet.
func Check(src Source, cat *catalog.Catalog, pol *policy.Bundle) (*plan.Plan, diag.Diagnostics) {
	return compileBy(src, cat, pol, passes).result()
}

// compileBy compiles the plan. Where schemas are left out that could follow from the rest of the
// plan, and the plan does not compile with those of the template, it is compiled with those that
// follow, unless that finds at least as many errors.
func compileBy(src Source, cat *catalog.Catalog, pol *policy.Bundle, passes []pass) *compilation {
	c := newCompilation(src, cat, pol)
	if c.run(passes); c.made == nil && c.linted.Loose {
		other := newCompilation(src, cat, pol)
		other.follow = true
		if other.run(passes); other.Errors < c.Errors {
			return other
		}
	}
	return c
}

// Expand returns the plan in its long notation, which compiles to the same plan: every edge a map
// of its six fields, every schema where it is. The text is nil if src cannot be read as a plan,
// and the diagnostics say why; a plan that does not compile may well have a long notation.
func Expand(src Source, cat *catalog.Catalog, pol *policy.Bundle) ([]byte, diag.Diagnostics, error) {
	return notation.Expand(src, cat, compileBy(src, cat, pol, passes).follow)
}

// Shorten returns the plan in its short notation, which compiles to the same plan: see [Expand].
func Shorten(src Source, cat *catalog.Catalog, pol *policy.Bundle) ([]byte, diag.Diagnostics, error) {
	return notation.Shorten(src, cat, compileBy(src, cat, pol, passes).follow)
}

// compilation is one compilation: its arguments, and the value that each pass made
// from the one before. No pass changes an earlier value.
type compilation struct {
	cat *catalog.Catalog
	pol *policy.Bundle

	*fields.Reader
	pool   *pool.Pool
	prover *proof.Prover

	// follow asks for schemas that follow from the plan.
	follow bool
	linted *lint.Graph
	typed  *typing.Graph
	judged *judge.Graph
	made   *plan.Plan
}

func newCompilation(src Source, cat *catalog.Catalog, pol *policy.Bundle) *compilation {
	rep := fields.NewReader(src)
	return &compilation{cat: cat, pol: pol, Reader: rep, pool: new(pool.Pool), prover: proof.New(rep)}
}

// pass is one step of the compiler. Every pass reports everything it finds, and
// looks only at what earlier passes found sound.
type pass struct {
	name string
	run  func(*compilation)
}

// passes lists the passes in order. Materialise does nothing once an error has been
// found.
var passes = []pass{
	{"lint", func(c *compilation) {
		c.linted = lint.Check(c.Reader, c.pool, c.cat, c.follow)
		c.prover.Extend(c.linted.Size())
	}},
	{"type", func(c *compilation) { c.typed = typing.Check(c.Reader, c.pool, c.prover, c.linted) }},
	{"judge", func(c *compilation) { c.judged = judge.Check(c.Reader, c.prover, c.typed, c.pol) }},
	{"materialise", (*compilation).materialise},
}

// run runs the passes, and returns what they made and found.
func (c *compilation) run(passes []pass) (*plan.Plan, diag.Diagnostics) {
	for _, p := range passes {
		p.run(c)
		if err := c.linted.Verify(); err != nil {
			c.Report(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: fmt.Sprintf("the compiler is at fault: after its pass %q %v", p.name, err),
				Subject: diag.Range{File: c.Src.Name, Start: diag.Pos{Line: 1, Column: 1}, End: diag.Pos{Line: 1, Column: 1}},
			})
			break
		}
	}
	c.Found.Sort()
	if c.Found.HasErrors() {
		c.made = nil
	}
	return c.result()
}

// result returns what was made and found.
func (c *compilation) result() (*plan.Plan, diag.Diagnostics) { return c.made, c.Found }

// ParseCatalog reads a catalog file (kind: Catalog) of one document, YAML or JSON,
// and proves what it states about prices and adapters. The catalog is nil if and
// only if the diagnostics contain an error. ParseCatalog is pure.
func ParseCatalog(src Source) (*catalog.Catalog, diag.Diagnostics) {
	rep := fields.NewReader(src)
	var cat *catalog.Catalog
	if f := catalog.Read(rep); f != nil {
		cat = typing.ProveCatalog(rep, f)
	}
	rep.Found.Sort()
	if rep.Found.HasErrors() {
		return nil, rep.Found
	}
	return cat, rep.Found
}
