// Package compiler turns the source of a plan into a compiled [plan.Plan], or
// says why it cannot.
package compiler

import (
	"chimera.ai/engine/diag"
	"chimera.ai/engine/plan"
)

// Source is one file as its author wrote it.
type Source struct {
	// Name is what diagnostics call the file.
	Name string
	// Text is YAML or JSON.
	Text []byte
}

// Compile checks the plan in src against the operations of cat and the
// operator's policy pol, and materialises it. It is pure: no file, network or
// clock is touched, and equal arguments give equal bytes.
//
// The plan is nil exactly if the diagnostics hold an error. They are sorted by
// place. A nil catalog knows no operation; a nil policy is no bundle.
func Compile(src Source, cat *Catalog, pol *Policy) (*plan.Plan, diag.Diagnostics) {
	var ds diag.Diagnostics
	ds.Add(diag.Diagnostic{
		Code:    diag.PlanNotSupported,
		Summary: "not supported yet: compiling",
		Subject: diag.Range{File: src.Name},
	})
	return nil, ds
}
