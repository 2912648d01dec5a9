package audit

import (
	"fmt"
	"strings"

	"chimera.ai/engine/ledger"
)

// lasting orders the retention classes: bodies of a later class are kept longer.
var lasting = map[ledger.Class]int{ledger.Operational: 1, ledger.Evidence: 2, ledger.Financial: 3, ledger.Permanent: 4}

// misplaced says why an entry is not where, and not what, those of its kind are: ""
// if it is. What it says by itself is held against the model only in its own chain,
// and with a body: else a chain could be made vague by what is not its own.
func misplaced(e *ledger.Entry) string {
	if e.Body == "" {
		return fmt.Sprintf("an entry of kind %s has no body", e.Kind)
	}
	if lasting[e.Class] < lasting[e.Kind.Class()] {
		return fmt.Sprintf("an entry of kind %s is of class %s, which is not kept as long as %s", e.Kind, e.Class, e.Kind.Class())
	}
	if !home(e) {
		return fmt.Sprintf("an entry of kind %s, about the run %q, stands in the chain %s", e.Kind, e.Run, e.Chain)
	}
	switch e.Kind {
	case ledger.NodeSucceeded, ledger.NodeFailed, ledger.NodeSkipped:
		if want := fmt.Sprintf("node/%s/%d/%d", e.Node, e.Visit, e.Element); e.Key != want {
			return fmt.Sprintf("the key of an outcome is %s, not %s", e.Key, want)
		}
	default: // the model holds keys against what is said
	}
	return ""
}

// home reports whether entries of this kind stand in this chain.
func home(e *ledger.Entry) bool {
	switch e.Kind {
	case ledger.AuthorityStated, ledger.SignerEnrolled, ledger.SignerRevoked:
		return e.Chain == ledger.AuthorityChain
	case ledger.PlanPublished:
		return e.Chain == ledger.PlansChain
	case ledger.AgentAdded:
		return e.Chain == ledger.AgentsChain
	case ledger.ToolRegistered, ledger.ToolTrusted:
		return e.Chain == ledger.ToolsChain
	case ledger.BudgetSet, ledger.HoldOpened, ledger.HoldRunning, ledger.HoldPosted, ledger.HoldVoided, ledger.HoldExpired:
		c, ok := strings.CutPrefix(e.Chain, ledger.BudgetChain(""))
		_, listed := ledger.Currency(c).Exponent()
		return ok && listed
	case ledger.BodyPruned, ledger.SubjectErased, ledger.LegalHoldPlaced, ledger.LegalHoldLifted:
		return e.Chain == ledger.LedgerChain
	case ledger.HypothesisStated, ledger.HypothesisObserved:
		return e.Chain == ledger.HypothesesChain(e.Agent)
	case ledger.RulesKept:
		return e.Chain == ledger.RulesChain
	case ledger.SnapshotTaken:
		return strings.HasPrefix(e.Chain, ledger.SnapshotsChain(""))
	default:
		run, root, ok := ledger.RunOf(e.Chain)
		return ok && run != "" && run == e.Run && root != ""
	}
}
