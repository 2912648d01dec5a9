package typing

import (
	"strings"

	"chimera.ai/engine/containment"
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
	if p.check.fixes--; p.check.fixes < 0 {
		return ""
	}
	edits := p.plan(v)
	if len(edits) != 1 && p.sourceOpen {
		p.narrows = true
		if other := p.plan(v); len(edits) == 0 || len(other) > 0 && len(other) < len(edits) {
			edits = other
		}
	}
	if len(edits) == 0 {
		return ""
	}
	return joined(edits)
}

// plan finds edits after which everything fits.
func (p proposal) plan(v any) []edit {
	var edits []edit
	for range maxEdits {
		e, ok := p.edit(v)
		if !ok || len(edits) > 0 && (e.apply == nil || e.text == edits[len(edits)-1].text) {
			return nil
		}
		edits = append(edits, e)
		if e.apply == nil {
			return edits
		}
		cost := 1
		if p.template != nil {
			cost = checkCost
		}
		if p.check.fixes -= cost; p.check.fixes < 0 || p.check.prover.Proofs > p.check.prover.Limit/2 {
			return nil
		}
		if !e.apply(&p) {
			if len(edits) == 1 {
				return edits
			}
			return nil
		}
		switch r := p.check.prover.Within(p.source, p.target); r.Verdict {
		case containment.Proved:
			return edits
		case containment.Unknown:
			return nil
		case containment.Refuted:
			v = r.Witness
		}
	}
	return nil
}

// joined formats edits on one line.
func joined(edits []edit) string {
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
