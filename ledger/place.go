package ledger

import (
	"fmt"
	"strings"
)

// Rank orders the retention classes: bodies of a class of a higher rank are kept longer. A
// class that the format does not have is 0.
func (c Class) Rank() int {
	switch c {
	case Operational:
		return 1
	case Evidence:
		return 2
	case Financial:
		return 3
	case Permanent:
		return 4
	}
	return 0
}

// Misplaced says why an entry is not where, and not what, those of its kind are: ""
// if it is. What it says by itself is held against the model only in its own chain,
// and with a body: else a chain could be made vague by what is not its own.
func (e *Entry) Misplaced() string {
	if e.Body == "" {
		return fmt.Sprintf("an entry of kind %s has no body", e.Kind)
	}
	if e.Class.Rank() < e.Kind.Class().Rank() {
		return fmt.Sprintf("an entry of kind %s is of class %s, which is not kept as long as %s", e.Kind, e.Class, e.Kind.Class())
	}
	if !e.home() {
		return fmt.Sprintf("an entry of kind %s, about the run %q, stands in the chain %s", e.Kind, e.Run, e.Chain)
	}
	switch e.Kind {
	case NodeSucceeded, NodeFailed, NodeSkipped:
		if want := fmt.Sprintf("node/%s/%d/%d", e.Node, e.Visit, e.Element); e.Key != want {
			return fmt.Sprintf("the key of an outcome is %s, not %s", e.Key, want)
		}
	default: // the model holds keys against what is said
	}
	return ""
}

// home reports whether entries of this kind stand in this chain.
func (e *Entry) home() bool {
	switch e.Kind {
	case AuthorityStated, SignerEnrolled, SignerRevoked:
		return e.Chain == AuthorityChain
	case PlanPublished:
		return e.Chain == PlansChain
	case AgentAdded:
		return e.Chain == AgentsChain
	case ToolRegistered, ToolTrusted:
		return e.Chain == ToolsChain
	case BudgetSet, HoldOpened, HoldRunning, HoldPosted, HoldVoided, HoldExpired:
		c, ok := strings.CutPrefix(e.Chain, BudgetChain(""))
		_, listed := Currency(c).Exponent()
		return ok && listed
	case BodyPruned, SubjectErased, LegalHoldPlaced, LegalHoldLifted:
		return e.Chain == LedgerChain
	case HypothesisStated, HypothesisObserved:
		return e.Chain == HypothesesChain(e.Agent)
	case RulesKept:
		return e.Chain == RulesChain
	case SnapshotTaken:
		return strings.HasPrefix(e.Chain, SnapshotsChain(""))
	default:
		run, root, ok := RunOf(e.Chain)
		return ok && run != "" && run == e.Run && root != ""
	}
}
