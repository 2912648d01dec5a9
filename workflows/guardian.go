package workflows

import "chimera.ai/engine/plan"

// guarded reports whether the guardian is asked before a call of node n.
func guarded(n *plan.Node) bool { return n.Guarded() || n.Paid() }

// undecided reports whether the guardian is to be asked before w's call of node n: for a
// permit, or for a hold.
func (w *wait) undecided(n *plan.Node) bool {
	return w.kind != waitRoute && w.kind != waitUndo && w.kind != waitCheck && (n.Guarded() && !w.decided || n.Paid() && w.hold == "")
}

// askable reports whether the guardian may be asked about w now.
func (r *run) askable(w *wait) bool {
	if r.plan.Nodes[w.node].Paid() {
		return r.settled(w) && (!r.journal.unopened || r.recorded(w))
	}
	return r.recorded(w)
}

// recorded reports whether the ledger has the outcomes on which the effect of w may rest,
// and sees to it that it gets them: what the guardian relies on is recorded before it.
func (r *run) recorded(w *wait) bool {
	j := &r.journal
	if w.after == 0 {
		w.after = j.noted
	}
	if !j.unopened && w.after <= j.done {
		return true
	}
	if !j.writing {
		r.write()
	}
	return false
}
