package audit

import (
	"encoding/json"
	"strings"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/model"
)

// permit is what was signed for one call of an invocation.
type permit struct {
	claim
	of ledger.Invocation
}

// resolution is how people have resolved a call of unknown outcome.
type resolution struct {
	claim
	kind ledger.Kind
	data ledger.AttemptData
}

// claim is an entry that the admins' statements decide about, with the model's
// name of what it is about.
type claim struct {
	index int64
	at    ledger.Time
	what  string
	// over is the place from which on entries were added more than slack after a statement. It is
	// set by order for statements alone.
	over int64
}

// start is the opening of a run with a start grant; inherited says that it is that of
// the run that it goes on with.
type start struct {
	claim
	run       ledger.Run
	inherited bool
}

// limit is what the log says of a budget, and standing what it says of a tool.
type limit struct {
	claim
	data ledger.BudgetData
}

type standing struct {
	claim
	data     ledger.TrustedData
	imported bool
}

// note records the entries that depend on the admins' statements, for the end.
func (v *verifier) note(f fact, stated int) {
	at := claim{index: f.index, at: f.e.At}
	switch f.e.Kind {
	case ledger.AuthorityStated:
		for _, raw := range v.model.Authority[stated:] {
			v.statements = append(v.statements, statement{at, raw})
		}
	case ledger.PlanPublished:
		at.what = model.About(f.e)
		v.published = append(v.published, at)
	case ledger.ApprovalAccepted:
		at.what = model.About(f.e)
		v.accepted = append(v.accepted, at)
	case ledger.DecisionMade:
		at.what = strings.Clone(model.About(f.e))
		v.decided = append(v.decided, at)
	case ledger.BarrierOpened:
		at.what = strings.Clone(model.About(f.e))
		v.barriers = append(v.barriers, at)
	case ledger.BarrierEscalated:
		v.escalated[model.About(f.e)] = f.index
	case ledger.ApprovalConsumed:
		var c ledger.ConsumedData
		if json.Unmarshal(f.data, &c) == nil { // the model has read it
			v.consumed[c.Decision] = c
		}
	case ledger.InvocationSettled, ledger.InvocationReleased, ledger.InvocationUnknown:
		var d ledger.AttemptData
		if json.Unmarshal(f.data, &d) == nil && len(d.Stated) > 0 { // the model has read it
			v.resolved = append(v.resolved, resolution{at, f.e.Kind, d})
		}
		at.what = strings.Clone(model.About(f.e))
		v.acted(f, at)
	case ledger.InvocationPermitted:
		if i, ok := v.model.Invocations[model.About(f.e)]; ok {
			v.permits = append(v.permits, permit{at, i})
			v.rests(f.index, i)
		}
		if r := v.model.Runs[f.e.Chain]; r != nil && r.GrantDigest == "" {
			// Without a bootstrap they are counted.
			if v.effectsWithoutGrant++; v.trust.Bootstrap != nil || len(v.ungranted) == 0 {
				at.what = strings.Clone(r.Workflow)
				v.ungranted = append(v.ungranted, at)
			}
		}
	case ledger.HypothesisStated:
		v.foreseen.stated[strings.Clone(model.About(f.e))] = f.index
	case ledger.HoldOpened:
		if h := v.model.Holds[model.About(f.e)]; h.Overdraft {
			at.what = h.ID
			v.overdrafts = append(v.overdrafts, at)
		}
	case ledger.RunOpened:
		// As it was opened; what its end says is another matter.
		if r := v.model.Runs[f.e.Chain]; r != nil && (len(r.Grant) > 0 || r.GrantDigest != "") {
			v.opened = append(v.opened, start{at, r.Run, v.inherits(r.Run)})
		}
	case ledger.NodeFailed, ledger.NodeSkipped:
		v.failed(f)
	case ledger.RunClosed:
		v.succeeded(f)
	case ledger.RunPaused, ledger.RunResumed:
		var o ledger.Order
		if r := v.model.Runs[f.e.Chain]; r != nil && json.Unmarshal(f.data, &o) == nil && o.Signed != nil {
			v.orders = append(v.orders, ordered{at, r.Run, o})
		}
	case ledger.BudgetSet:
		var d ledger.BudgetData
		if json.Unmarshal(f.data, &d) == nil { // the model has read it
			v.limits = append(v.limits, limit{at, d})
		}
	case ledger.ToolRegistered:
		var d ledger.Tool
		if json.Unmarshal(f.data, &d) == nil {
			v.trusted = append(v.trusted, standing{at, ledger.TrustedData{ToolID: d.ToolID, Status: d.Status}, true})
		}
	case ledger.ToolTrusted:
		var d ledger.TrustedData
		if json.Unmarshal(f.data, &d) == nil {
			v.trusted = append(v.trusted, standing{at, d, false})
		}
	default: // no statement is about it
	}
}

// inherits reports whether a run goes on with one that its start grant has opened, so
// that it was not verified anew.
func (v *verifier) inherits(r ledger.Run) bool {
	if r.Origin == r.Root {
		return false
	}
	chain := ledger.RunChain(r.Workflow, r.Origin)
	first := v.model.Runs[chain]
	return v.model.Vague["run:"+chain] || first != nil && first.GrantDigest == r.GrantDigest
}
