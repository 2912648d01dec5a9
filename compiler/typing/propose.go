package typing

import (
	"strings"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/syntax"
)

// Bounds of proving proposals: the edits of one proposal, what a file may spend,
// and the cost of an edit that checks an expression again.
const (
	maxEdits  = 4
	maxFixes  = 500
	checkCost = 25
)

// propose returns edits for a value that the target refuses, or "". It leaves out
// edits that are proved not to suffice, and keeps those that cannot be tried.
func (p proposal) propose(v any) string {
	edits, _ := p.edits(v)
	return joined(edits)
}

// suggest is propose for what an edge brings from a port with that schema in the
// plan, or nil. It also sets d.Edits if the edit is simple.
func (p proposal) suggest(d *diag.Diagnostic, v any, e *Edge, schema *syntax.Value) {
	edits, proved := p.edits(v)
	d.Suggestion = joined(edits)
	if len(edits) == 1 && edits[0].transform != "" {
		d.Suggestion, d.Edits = e.Option(p.check.Reader, "transform", edits[0].transform)
		if proved {
			d.Applicability = diag.Certain
		}
	}
	switch {
	case d.Suggestion == "check: runtime":
		d.Suggestion, d.Edits = e.Option(p.check.Reader, "check", "runtime")
	case len(edits) == 1 && edits[0].value != nil:
		keyword, _, _ := strings.Cut(edits[0].keyword, ":")
		d.Edits = p.check.Set(schema, keyword, edits[0].value)
	}
}

// edits returns the fewest edits found, and whether it is proved that they suffice.
func (p proposal) edits(v any) (edits []edit, proved bool) {
	if p.check.fixes--; p.check.fixes < 0 {
		return nil, false
	}
	edits, proved = p.plan(v)
	if len(edits) != 1 && p.sourceOpen {
		p.narrows = true
		if other, sure := p.plan(v); len(edits) == 0 || len(other) > 0 && len(other) < len(edits) {
			edits, proved = other, sure
		}
	}
	return edits, proved
}

// plan finds edits after which everything fits.
func (p proposal) plan(v any) (edits []edit, proved bool) {
	for range maxEdits {
		e, ok := p.edit(v)
		if !ok || len(edits) > 0 && (e.apply == nil || e.text == edits[len(edits)-1].text) {
			return nil, false
		}
		edits = append(edits, e)
		if e.apply == nil {
			return edits, false
		}
		cost := 1
		if p.template != nil {
			cost = checkCost
		}
		if p.check.fixes -= cost; p.check.fixes < 0 || p.check.prover.Proofs > p.check.prover.Limit/2 {
			return nil, false
		}
		if !e.apply(&p) {
			if len(edits) == 1 {
				return edits, false
			}
			return nil, false
		}
		switch r := p.check.prover.Within(p.source, p.target); r.Verdict {
		case containment.Proved:
			return edits, true
		case containment.Unknown:
			return nil, false
		case containment.Refuted:
			v = r.Witness
		}
	}
	return nil, false
}

// joined formats edits on one line, or as "".
func joined(edits []edit) string {
	if len(edits) == 0 {
		return ""
	}
	text := edits[0].text
	for i, e := range edits[1:] {
		if last := edits[i]; e.place != "" && e.place == last.place {
			text = strings.TrimSuffix(text, last.where()) + " and `" + e.keyword + "`" + e.where()
			continue
		}
		text += ", and " + e.text
	}
	return text
}
