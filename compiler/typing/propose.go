package typing

import (
	"strings"

	"chimera.ai/engine/containment"
)

// Bounds of proving what is proposed: the edits of one proposal, what a file may
// spend, and what an edit costs that checks an expression again.
const (
	maxEdits  = 4
	maxMends  = 500
	checkCost = 25
)

// propose gives the edits for a value that the target refuses, or "". Edits that
// would not do are not proposed; those that cannot be tried are given as they are.
func (m mend) propose(v any) string {
	if m.check.fixes--; m.check.fixes < 0 {
		return ""
	}
	edits := m.plan(v)
	if len(edits) != 1 && m.sourceOpen {
		m.narrows = true
		if other := m.plan(v); len(edits) == 0 || len(other) > 0 && len(other) < len(edits) {
			edits = other
		}
	}
	if len(edits) == 0 {
		return ""
	}
	return joined(edits)
}

// plan finds the edits after which everything fits.
func (m mend) plan(v any) []edit {
	var edits []edit
	for range maxEdits {
		e, ok := m.edit(v)
		if !ok || len(edits) > 0 && (e.apply == nil || e.text == edits[len(edits)-1].text) {
			return nil
		}
		edits = append(edits, e)
		if e.apply == nil {
			return edits
		}
		cost := 1
		if m.template != nil {
			cost = checkCost
		}
		if m.check.fixes -= cost; m.check.fixes < 0 || m.check.prover.Proofs > m.check.prover.Limit/2 {
			return nil
		}
		if !e.apply(&m) {
			if len(edits) == 1 {
				return edits
			}
			return nil
		}
		switch r := m.check.prover.Within(m.source, m.target); r.Verdict {
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

// joined writes edits as one line.
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
