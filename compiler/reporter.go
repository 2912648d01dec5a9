package compiler

import (
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/syntax"
)

// reporter reads a file and gathers what is found in it.
type reporter struct {
	src Source
	ds  diag.Diagnostics
	// said are the findings so far, each of which is listed once.
	said map[finding]bool
	// errors counts the errors, listed or not.
	errors int
	// full: no more findings are listed.
	full bool
	// nearLeft is what is left of the work that goes into suggestions.
	nearLeft int
}

func newReporter(src Source) *reporter {
	return &reporter{src: src, said: map[finding]bool{}, nearLeft: 2_000_000}
}

// finding is what makes two findings the same: an anchor may put one text of
// the file into several places of the plan.
type finding struct {
	code            diag.Code
	at              diag.Range
	summary, detail string
}

// report keeps a finding, up to MaxFindings.
func (rep *reporter) report(d diag.Diagnostic) {
	if d.Severity == "" {
		d.Severity = diag.Error
	}
	if d.Severity == diag.Error {
		rep.errors++
	}
	key := finding{d.Code, d.Subject, d.Summary, d.Detail}
	if rep.full || rep.said[key] {
		return
	}
	rep.said[key] = true
	if len(rep.ds) >= MaxFindings {
		// Warnings make room for the errors that come after them.
		if d.Severity == diag.Error {
			rep.ds = slices.DeleteFunc(rep.ds, func(x diag.Diagnostic) bool { return x.Severity == diag.Warning })
		}
		if len(rep.ds) >= MaxFindings {
			rep.full = true
			rep.ds.Add(diag.Diagnostic{
				Code: diag.PlanLimits, Severity: d.Severity, Summary: "too many findings; the others are not shown",
				Detail:  fmt.Sprintf("At most %d findings are listed. Mend these and compile again.", MaxFindings),
				Subject: d.Subject,
			})
			return
		}
	}
	rep.ds.Add(d)
}

// near is the candidate that name most probably means, or "".
func (rep *reporter) near(name string, candidates []string) string {
	if len(candidates) > rep.nearLeft {
		return ""
	}
	rep.nearLeft -= len(candidates)
	return syntax.Nearest(name, candidates)
}

// source is v as it stands in the file, on one line and bounded.
func (rep *reporter) source(v *syntax.Value) string {
	a, b := v.Range().Start.Byte, v.Range().End.Byte
	if a < 0 || b > len(rep.src.Text) || a >= b || b-a > 80 {
		return v.Text
	}
	s := string(rep.src.Text[a:b])
	if strings.ContainsAny(s, "\n\r") {
		return v.Text
	}
	return s
}
