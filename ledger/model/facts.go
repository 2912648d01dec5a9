package model

import (
	"bytes"
	"encoding/json"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
	"chimera.ai/engine/task"
)

// Facts holds the decoded data of an entry. Decoding does not depend on the state, so it can
// run concurrently with [State.ApplyFacts].
type Facts struct {
	// v is a pointer to the data of the kind, nil if err says why there are none.
	v   any
	err error
}

// Read decodes the data of an entry of that kind, and checks that each term of a closed set is
// one of that set. [State.ApplyFacts] reports what is wrong with them.
func Read(kind ledger.Kind, data json.RawMessage) Facts {
	f := readKind(kind, data)
	if why := f.unknown(kind); why != "" {
		return Facts{err: impossible("%s", why)}
	}
	return f
}

// Possible says why no entry of a kind has these data, or returns nil. What is possible by itself
// may still be impossible where it stands.
func Possible(kind ledger.Kind, data json.RawMessage) error { return Read(kind, data).err }

func readKind(kind ledger.Kind, data json.RawMessage) Facts {
	switch kind {
	case ledger.PlanPublished:
		return decode[ledger.Plan](data)
	case ledger.RunOpened, ledger.RunClosed:
		return decode[ledger.Run](data)
	case ledger.RunPaused, ledger.RunResumed:
		return decode[ledger.Order](data)
	case ledger.NodeSucceeded, ledger.NodeFailed, ledger.NodeSkipped:
		if o, ok := scanOutcome(data); ok {
			return Facts{v: o}
		}
		return decode[ledger.Outcome](data)
	case ledger.CheckMade:
		return decode[ledger.Check](data)
	case ledger.TaskDrafted, ledger.TaskSigned:
		t, err := task.Parse(data)
		if err != nil {
			return Facts{err: impossible("%s", err)}
		}
		return written(&t, data)
	case ledger.TaskExecuted:
		return decode[ledger.ExecutedData](data)
	case ledger.TaskClosed:
		return decode[ledger.TaskClosedData](data)
	case ledger.BarrierOpened:
		return decode[ledger.Barrier](data)
	case ledger.BarrierClosed:
		return decode[ledger.BarrierData](data)
	case ledger.BarrierReminded:
		return decode[ledger.RemindedData](data)
	case ledger.BarrierEscalated:
		return decode[ledger.EscalatedData](data)
	case ledger.AgentAdded:
		return decode[ledger.Agent](data)
	case ledger.SignerEnrolled:
		return decode[ledger.Signer](data)
	case ledger.SignerRevoked:
		return decode[ledger.RevokedData](data)
	case ledger.ToolRegistered:
		return decode[ledger.Tool](data)
	case ledger.ToolTrusted:
		return decode[ledger.TrustedData](data)
	case ledger.BudgetSet:
		return decode[ledger.BudgetData](data)
	case ledger.HoldOpened:
		return decode[ledger.Hold](data)
	case ledger.HoldRunning, ledger.HoldPosted, ledger.HoldVoided, ledger.HoldExpired:
		return decode[ledger.HoldData](data)
	case ledger.DecisionMade:
		return decode[ledger.Decision](data)
	case ledger.ApprovalAccepted, ledger.ApprovalRefused:
		return decode[ledger.Approval](data)
	case ledger.ApprovalConsumed:
		return decode[ledger.ConsumedData](data)
	case ledger.InvocationPermitted:
		return decode[ledger.Invocation](data)
	case ledger.InvocationCalling, ledger.InvocationReleased, ledger.InvocationSettled, ledger.InvocationUnknown:
		return decode[ledger.AttemptData](data)
	case ledger.HypothesisStated:
		return decode[ledger.Hypothesis](data)
	case ledger.HypothesisObserved:
		return decode[ledger.ObservedData](data)
	case ledger.SnapshotTaken:
		v := new(ledger.Snapshot)
		if err := json.Unmarshal(data, v); err != nil {
			return Facts{err: impossible("its data are not those of its kind: %s", err)}
		}
		return Facts{v: v}
	case ledger.RulesKept:
		return decode[ledger.RulesData](data)
	case ledger.AuthorityStated:
		return decode[ledger.AuthorityData](data)
	case ledger.BodyPruned:
		return decode[ledger.PrunedData](data)
	case ledger.SubjectErased:
		return decode[ledger.ErasedData](data)
	case ledger.LegalHoldPlaced, ledger.LegalHoldLifted:
		return decode[ledger.LegalHoldData](data)
	}
	return Facts{err: impossible("the kind is not known")}
}

// decode decodes data in canonical form. It refuses fields that are unknown, spelled in
// another case, or repeated, about which readers might differ.
func decode[T any](data json.RawMessage) Facts {
	v := new(T)
	if err := json.Unmarshal(data, v); err != nil {
		return Facts{err: impossible("its data are not those of its kind: %s", err)}
	}
	return written(v, data)
}

// written returns data that were read, if encoding them gives the same text.
func written(v any, data json.RawMessage) Facts {
	raw, err := json.Marshal(v)
	if err == nil {
		var x any
		if x, err = schemas.Decode(raw); err == nil {
			raw, err = plan.Canonical(x)
		}
	}
	if err != nil || !bytes.Equal(raw, data) {
		return Facts{err: impossible("its data are not written as those of its kind are")}
	}
	return Facts{v: v}
}

// read returns the data in the type of the caller's kind.
func read[T any](data Facts) (T, error) {
	v, ok := data.v.(*T)
	if !ok {
		var none T
		if data.err != nil {
			return none, data.err
		}
		return none, impossible("its data are those of another kind")
	}
	return *v, nil
}
