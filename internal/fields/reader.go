// Package fields reads the maps of a document by tables of their fields, and
// reports what is wrong with them in its place, with the name that was probably
// meant.
package fields

import (
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/syntax"
)

// Bounds of what is read and reported.
const (
	// MaxText bounds a description, a reason and the like, in bytes.
	MaxText = 4096
	// MaxFindings bounds the diagnostics of one file; the last one then says that
	// there are more.
	MaxFindings = 5_000
)

// Reader reads a file and gathers what is found in it.
type Reader struct {
	// Src is the file.
	Src diag.Source
	// Found is what was reported, in order.
	Found diag.Diagnostics
	// said are the findings so far, each of which is listed once.
	said map[finding]bool
	// Errors counts the errors, listed or not.
	Errors int
	// Foreign says what is meant by a field that a table does not have, or is nil.
	Foreign func(t *Table, at *syntax.Value, key, val *syntax.Value) (Meaning, bool)
	// Full reports that no more findings are listed.
	Full bool
	// nearLeft is the work left for suggestions.
	nearLeft int
	// anchors caches anchored.
	anchors *bool
}

// NewReader returns a reader of a file.
func NewReader(src diag.Source) *Reader {
	return &Reader{Src: src, said: map[finding]bool{}, nearLeft: 2_000_000}
}

// finding identifies a finding: because of anchors, one text of the file may have
// several places in the plan, and be reported for each.
type finding struct {
	code            diag.Code
	at              diag.Range
	summary, detail string
}

// Report adds a finding, up to [MaxFindings].
func (rep *Reader) Report(d diag.Diagnostic) {
	if d.Severity == "" {
		d.Severity = diag.Error
	}
	if d.Severity == diag.Error {
		rep.Errors++
	}
	key := finding{d.Code, d.Subject, d.Summary, d.Detail}
	if rep.Full || rep.said[key] {
		return
	}
	rep.said[key] = true
	d.Applicability = rep.applicability(&d)
	if len(rep.Found) >= MaxFindings {
		// Warnings make room for the errors that come after them.
		if d.Severity == diag.Error {
			rep.Found = slices.DeleteFunc(rep.Found, func(x diag.Diagnostic) bool { return x.Severity == diag.Warning })
		}
		if len(rep.Found) >= MaxFindings {
			rep.Full = true
			rep.Found.Add(diag.Diagnostic{
				Code: diag.PlanLimits, Severity: d.Severity, Summary: "too many findings; the others are not shown",
				Detail:  fmt.Sprintf("At most %d findings are listed. Fix these and compile again.", MaxFindings),
				Subject: d.Subject,
			})
			return
		}
	}
	rep.Found.Add(d)
}

// Near returns the candidate that name most probably means, or "".
func (rep *Reader) Near(name string, candidates []string) string {
	if len(candidates) > rep.nearLeft {
		return ""
	}
	rep.nearLeft -= len(candidates)
	return syntax.Nearest(name, candidates)
}

// Text returns v as written in the file, on one line and bounded.
func (rep *Reader) Text(v *syntax.Value) string {
	a, b := v.Range().Start.Byte, v.Range().End.Byte
	if a < 0 || b > len(rep.Src.Text) || a >= b || b-a > 80 {
		return v.Text
	}
	s := string(rep.Src.Text[a:b])
	if strings.ContainsAny(s, "\n\r") {
		return v.Text
	}
	return s
}
