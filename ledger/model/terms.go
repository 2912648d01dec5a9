package model

import (
	"fmt"

	"chimera.ai/engine/ledger"
)

// unknown says which term in the data of an entry is not one that an entry of its kind may have,
// or is "". It needs no state, so it also holds for what is vague; what never is, is checked
// where it is applied.
func (f Facts) unknown(kind ledger.Kind) string {
	ok, what, term := true, "", ""
	switch v := f.v.(type) {
	case *ledger.Run:
		what, term, ok = "the state of a run that is opened", string(v.State), v.State == ledger.RunRunning
		if kind == ledger.RunClosed {
			what, ok = "the state of a run that has ended", v.State.Ended()
		}
	case *ledger.Outcome:
		what, term, ok = "the outcome that its entry states", string(v.Kind), v.Kind == kind
	case *ledger.Order:
		what, term, ok = "the order that its entry states", string(v.Kind), v.Kind == kind
	case *ledger.Hypothesis:
		what, term, ok = "the state of a new hypothesis", string(v.State), v.State == ledger.HypothesisOpen
	case *ledger.Tool:
		what, term, ok = "the trust of a tool", v.Status, ledger.KnownTrust(v.Status)
	case *ledger.TrustedData:
		what, term, ok = "the trust of a tool", v.Status, ledger.KnownTrust(v.Status)
	case *ledger.Decision:
		what, term, ok = "a decision", v.Decision, ledger.KnownDecision(v.Decision)
	case *ledger.BarrierData:
		what, term, ok = "the end of a barrier", string(v.State), v.State.Closed()
	case *ledger.Invocation:
		// An uncertain call stays one when it is permitted again.
		what, term = "the state of a permitted call", string(v.State)
		ok = v.State == ledger.Permitted || v.State == ledger.Calling || v.State == ledger.Unknown
	case *ledger.PrunedData:
		what, term, ok = "a class that is pruned", string(v.Class), v.Class.Known() && v.Class != ledger.Permanent
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("%.40q is not %s", term, what)
}
