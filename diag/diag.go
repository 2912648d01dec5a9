// Package diag is the one diagnostic type of Chimera: what is wrong in a plan,
// a policy, a catalog or a configuration file, where exactly, why, and what to
// do about it.
//
// Every check reports all that it finds; a [Diagnostics] value collects it.
// Codes are stable and documented in codes.go. Ranges are half open, [Start,
// End), in the file as its author wrote it.
package diag

import (
	"cmp"
	"slices"
)

// Severity says whether a diagnostic forbids what was asked.
type Severity string

// The severities.
const (
	// Error forbids: a plan with one is never materialised.
	Error Severity = "error"
	// Warning informs: the plan compiles, and what is said is checked at run time.
	Warning Severity = "warning"
)

// Source is one file as its author wrote it.
type Source struct {
	// Name is what diagnostics call the file.
	Name string
	// Text is YAML or JSON.
	Text []byte
}

// Pos is a place in a source file. The zero Pos is "no place".
type Pos struct {
	// Line counts from 1.
	Line int
	// Column counts Unicode code points from 1.
	Column int
	// Byte counts bytes from 0.
	Byte int
}

// IsValid reports whether p names a place.
func (p Pos) IsValid() bool { return p.Line > 0 }

// Range is a half-open piece of one source file.
type Range struct {
	File       string
	Start, End Pos
}

// IsValid reports whether r names a piece of a file.
func (r Range) IsValid() bool { return r.Start.IsValid() }

// Diagnostic is one finding.
type Diagnostic struct {
	Code     Code
	Severity Severity
	// Summary is one short line without a full stop.
	Summary string
	// Detail says why, and what to do. It may hold several sentences.
	Detail string
	// Subject is what is wrong, to the token.
	Subject Range
	// Label is a few words that are shown beside the subject, or "".
	Label string
	// Context is the larger construct that Subject stands in, or, for an edge,
	// its other end. It may be invalid.
	Context Range
	// Related are further places that the finding speaks of, in the same file or
	// in others, each with a few words.
	Related []Related
	// Node is the id of the related node, if any.
	Node string
	// Edge is the related edge as "from.port -> to.port", if any.
	Edge string
	// Witness is a counterexample: a JSON text, or "". Where an edge has a
	// transform it is what the transform gives, and Before the value that the
	// transform is given.
	Witness string
	// Before is a JSON text, or "". It is shown to people only.
	Before string
	// Suggestion is a near name or the edit that fixes it, or "".
	Suggestion string
	// Edits are Suggestion as changes of the file, for programs: all of them or
	// none are to be made. There are none where it is known what to write, but not
	// where.
	Edits []Edit
	// Applicability says how far Edits may be trusted. It is "" without them.
	Applicability Applicability
}

// Edit is a piece of a file and the text to put in its place.
type Edit struct {
	// Range is what is replaced, quotes included. It is empty where text is only
	// inserted.
	Range Range
	// Replacement is text as it is to stand in the file, quotes included.
	Replacement string
}

// Applicability says whether edits may be made without a person.
type Applicability string

// The applicabilities.
const (
	// Certain edits make what was meant, without doubt or by proof.
	Certain Applicability = "certain"
	// Maybe edits are a guess: somebody has to look.
	Maybe Applicability = "maybe"
	// Placeholder edits hold a … in the place of what a person has to fill in.
	Placeholder Applicability = "placeholder"
)

// Related is a place that a finding speaks of beside its subject.
type Related struct {
	Range Range
	// Label says in a few words what is there; "" only underlines it.
	Label string
}

// Diagnostics is a list of findings.
type Diagnostics []Diagnostic

// Add appends d; an empty severity means [Error].
func (ds *Diagnostics) Add(d Diagnostic) {
	if d.Severity == "" {
		d.Severity = Error
	}
	*ds = append(*ds, d)
}

// HasErrors reports whether any finding is an error.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == Error })
}

// First is the first error, or the first finding if none is one: what is said where there is room for
// one. The list must not be empty.
func (ds Diagnostics) First() Diagnostic {
	return ds[max(0, slices.IndexFunc(ds, func(d Diagnostic) bool { return d.Severity == Error }))]
}

// Sort orders findings by file, place, severity and code, and keeps the order
// of findings that are equal in these.
func (ds Diagnostics) Sort() {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(a.Subject.File, b.Subject.File),
			cmp.Compare(a.Subject.Start.Byte, b.Subject.Start.Byte),
			cmp.Compare(a.Severity, b.Severity),
			cmp.Compare(a.Code, b.Code),
		)
	})
}
