package model

import (
	"strings"

	"chimera.ai/engine/ledger"
)

// About is what an entry's key says that it is about: the key without its kind,
// and for reminders, observations, and the permits and attempts of an invocation without their number.
func About(e *ledger.Entry) string {
	about := strings.TrimPrefix(e.Key, string(e.Kind)+"/")
	switch e.Kind {
	case ledger.InvocationPermitted, ledger.InvocationCalling, ledger.InvocationReleased, ledger.InvocationSettled, ledger.InvocationUnknown:
		about = strings.TrimSuffix(strings.TrimSuffix(about, "/resolved"), "/abandoned")
		return about[:max(strings.LastIndexByte(about, '/'), 0)]
	case ledger.BarrierReminded, ledger.HypothesisObserved:
		return about[:max(strings.LastIndexByte(about, '/'), 0)]
	default:
		return about
	}
}

// Thing names what an entry changes: "run:CHAIN", "check:CHAIN/ID", "task:ID", "hold:ID",
// "decision:ID", "barrier:ID", "approval:ID", "approvals" (which of them are used up),
// "invocation:ID", "hypothesis:ID", and "chain:CHAIN" for the rest.
func Thing(e *ledger.Entry) string {
	switch e.Kind {
	case ledger.RunOpened, ledger.RunClosed, ledger.RunPaused, ledger.RunResumed, ledger.NodeSucceeded, ledger.NodeFailed, ledger.NodeSkipped:
		return "run:" + e.Chain
	case ledger.CheckMade:
		return "check:" + e.Chain + "/" + About(e)
	case ledger.TaskDrafted, ledger.TaskSigned, ledger.TaskExecuted, ledger.TaskClosed:
		return "task:" + About(e)
	case ledger.BarrierOpened, ledger.BarrierReminded, ledger.BarrierEscalated, ledger.BarrierClosed:
		return "barrier:" + About(e)
	case ledger.HoldOpened, ledger.HoldRunning, ledger.HoldPosted, ledger.HoldVoided, ledger.HoldExpired:
		return "hold:" + About(e)
	case ledger.DecisionMade:
		return "decision:" + About(e)
	case ledger.ApprovalAccepted, ledger.ApprovalRefused:
		return "approval:" + About(e)
	case ledger.ApprovalConsumed:
		return "approvals"
	case ledger.InvocationPermitted, ledger.InvocationCalling, ledger.InvocationReleased, ledger.InvocationSettled, ledger.InvocationUnknown:
		return "invocation:" + About(e)
	case ledger.HypothesisStated, ledger.HypothesisObserved:
		return "hypothesis:" + About(e)
	default:
		return "chain:" + e.Chain
	}
}

// named checks that the key of an entry names what its data are about: a chain has each key
// once, so nothing can be said twice.
func named(e *ledger.Entry, about string) error {
	if e.Key != string(e.Kind)+"/"+about {
		return impossible("its key is not that of %s", about)
	}
	return nil
}
