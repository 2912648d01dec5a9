package activities

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/task"
	"chimera.ai/engine/trust"
)

// judge decides on an action, and signs a permit if it is approved. What people have approved is
// decided by the active policy and by the one by which they were asked, and the stricter decision
// counts. What they have approved with the effect that it undoes is decided by the active policy
// alone: by the other one nobody has decided on it.
func (g *Guardian) judge(judge Judge, e *effect, a *Action, by string, approved *approved, st ledger.Standing) (ledger.Ruling, error) {
	v, counted, err := verdict(judge, a, approved, st)
	if err == nil && approved != nil && approved.then != nil {
		then := *a
		then.Rules = []ledger.RulesData{{Digest: approved.policy}, a.Rules[1]}
		var w Verdict
		var ok bool
		if w, ok, err = verdict(approved.then, &then, approved, st); strictness(w) > strictness(v) {
			v, counted = w, ok
		}
	}
	if err == nil && v.Decision.Decision == ledger.Approve && st.Money == ledger.Exceeded {
		err = contract.Errorf(contract.WorkerLost, "people have lifted that there is no money, and nothing is reserved: it is decided again")
	}
	if err != nil {
		return ledger.Ruling{}, err
	}
	if !counted {
		approved = nil
	}
	out := ledger.Ruling{Decision: v.Decision, Evidence: v.Evidence, Hypothesis: v.Hypothesis}
	if out.Evidence.Parts, err = restsOn(out.Evidence.Parts, e, approved); err != nil {
		return ledger.Ruling{}, err
	}
	if v.Awaits {
		until := ledger.At(expiry(e, st.At.Time()))
		out.Waits = &until
	}
	if v.Decision.Decision != ledger.Approve {
		return out, nil
	}
	out.Permit, err = trust.SignPermit(g.Key, trust.Permit{
		Deployment: e.state.Deployment, Audience: e.state.Audience, Guardian: by, Invocation: e.id, Decision: st.Decision,
		Call: e.call().Digest(st.Salt), Issued: st.At, Expires: st.Until,
	})
	out.Signature = task.Signature{SignerID: by, SigType: "guardian", Signature: plan.DigestOf(out.Permit), SignedAt: st.At.Time()}
	if approved != nil && approved.with == "" {
		out.Signature = approved.last // it has signed this very task
	}
	return out, unsigned(err)
}

// verdict decides on an action, and reports whether what people have approved counts: only where
// nothing else is objected, and no more people must approve it. Else the decision is that on an
// action which nobody has approved, with all that they would lift.
func verdict(judge Judge, a *Action, approved *approved, st ledger.Standing) (v Verdict, counts bool, err error) {
	v, err = judge.Decide(a, st)
	if err != nil || approved == nil {
		return v, false, err
	}
	if v.Decision.Decision == ledger.Approve && approved.request.Rule.AtLeast(approved.least.Join(v.Rule)) == nil {
		return v, true, nil
	}
	again := *a
	again.Approved, again.Lifted = false, nil
	v, err = judge.Decide(&again, st)
	return v, false, err
}

// overdraws reports whether people have lifted that there is no money for an action, by all that
// decide on it.
func overdraws(judge Judge, a *Action, approved *approved) bool {
	if approved == nil || !slices.Contains(a.Lifted, budgetExceeded) {
		return false
	}
	for _, j := range []Judge{judge, approved.then} {
		if j == nil {
			continue
		}
		_, counts, err := verdict(j, a, approved, ledger.Standing{At: ledger.At(time.Now()), Calls: 1, Money: ledger.Exceeded, Salt: approved.salt})
		if err != nil || !counts {
			return false
		}
	}
	return true
}

// strictness orders verdicts: the call may be made, people may allow it, nobody may.
func strictness(v Verdict) int {
	switch {
	case v.Decision.Decision == ledger.Approve:
		return 0
	case v.Awaits:
		return 1
	}
	return 2
}

// judgeThen caches a judge by a policy and an operation. The zero value is ready to use.
type judgeThen struct {
	mu    sync.Mutex
	by    [2]string
	judge Judge
}

// judgedThen sets approved.then to the judge of the policy by which people were asked, if that is
// not the active one any more. Where nobody can decide by that policy now, what they have approved
// does not count, and they are asked again: then it returns nil.
func (g *Guardian) judgedThen(ctx context.Context, judge Judge, approved *approved, a *Action) (*approved, error) {
	if approved == nil || approved.with != "" || approved.settled || approved.policy == a.Rules[0].Digest {
		return approved, nil
	}
	by := [2]string{approved.policy, a.Rules[1].Digest}
	g.then.mu.Lock()
	defer g.then.mu.Unlock()
	if g.then.by != by {
		kept, err := ledger.ReadRules(ctx, g.Store, by[0])
		if err != nil {
			return nil, refusal(err)
		}
		g.then.by, g.then.judge = by, nil
		if rules := kept[by[0]]; rules != nil {
			g.then.judge, _ = judge.By(rules, a.Rules[1].Rules)
		}
	}
	if g.then.judge == nil {
		a.Approved, a.Lifted = false, nil
		return nil, nil
	}
	approved.then = g.then.judge
	return approved, nil
}

// Parts of the evidence of a decision.
type (
	// trustPart says who vouches for the call.
	trustPart struct {
		// Statements is how many statements of the admins there were, and Head the digest of the
		// last.
		Statements int    `json:"statements"`
		Head       string `json:"head"`
		// Grant is the digest of the run's start grant.
		Grant string `json:"grant"`
		// Tool, Status and Fingerprint are what the admins have stated of the operation, if
		// anything.
		Tool        string `json:"tool,omitempty"`
		Status      string `json:"status,omitempty"`
		Fingerprint string `json:"fingerprint,omitempty"`
	}
	// approvalsPart says by which approvals the call is approved; the ledger has them.
	approvalsPart struct {
		Barrier string `json:"barrier"`
		// Request is the digest of what people were asked, and Approvals are the ids of the
		// signatures that count.
		Request   string   `json:"request"`
		Approvals []string `json:"approvals"`
	}
)

// restsOn adds to the evidence of a decision who vouches for the call, and who has approved it.
// approved is nil if that does not count.
func restsOn(parts []ledger.Part, e *effect, approved *approved) ([]ledger.Part, error) {
	t := trustPart{Statements: e.state.N, Head: e.state.Head, Grant: e.run.GrantDigest}
	if tool, ok := e.state.Tools[e.node.spec.Activity()]; ok {
		t.Tool, t.Status, t.Fingerprint = tool.ToolID, tool.Status, tool.Fingerprint
	}
	raw, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	parts = append(parts, ledger.Part{Name: "trust", Data: raw})
	if approved == nil {
		return parts, nil
	}
	raw, err = json.Marshal(approvalsPart{approved.request.Barrier, plan.DigestOf(approved.raw), approved.tally.Counted})
	return append(parts, ledger.Part{Name: "approvals", Data: raw}), err
}
