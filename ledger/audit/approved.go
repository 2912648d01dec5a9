package audit

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// clocks is the largest allowed difference between the clocks of a deployment.
const clocks = time.Minute

// asked checks that what people are asked at a barrier is no less than the policy that was
// active then asks for: it excludes those who have an interest in the run, and what a call did
// is stated by those whom the policy names. What is no longer known may have been right.
func (v *verifier) asked(state trust.State, told *past) {
	for _, x := range v.barriers {
		b, ok := v.model.Barriers[x.what]
		if !ok {
			continue
		}
		r, _, err := approval.Of(&b)
		if err != nil {
			v.problem(BadAuthority, x.index, "what people were asked at the barrier %s cannot be read: %s", b.ID, err)
			continue
		}
		if err := v.trust.elsewhere(r.Namespace); err != nil {
			v.problem(BadAuthority, x.index, "the barrier %s: %s", b.ID, err)
		}
		gate, err := v.replays.gate(r.Policy, "")
		switch {
		case err != nil:
			v.problem(BadAuthority, x.index, "the barrier %s: %s", b.ID, err)
			continue
		case gate == nil:
			v.problem(BadAuthority, x.index, "the log does not have the policy of the barrier %s", b.ID)
			continue
		}
		if state.Audience != trust.Dev && !slices.Contains(held(told.bundles, x), gate.Policy()) {
			v.problem(BadAuthority, x.index, "the barrier %s is by the policy %.80q, which the admins had not activated then", b.ID, gate.Policy())
		}
		var of approval.Interested
		if run := v.model.Runs[ledger.RunChain(r.Workflow, r.Origin)]; run != nil {
			of.Requester, of.Owner = run.Requester, state.Agents[run.Agent].Owner
			if p := v.model.Plans[run.PlanName+"@"+run.PlanVersion]; p.Digest == run.PlanDigest {
				of.Author = state.Publishers[p.Author].Person
			}
		}
		may, alone := gate.MaySign()
		least := approval.Rule{Excluded: of.Excluded(may), Alone: alone}
		if r.Kind == approval.Outcome {
			least.Groups = gate.Outcome()
		}
		if err := r.Rule.AtLeast(least); err != nil {
			v.problem(BadAuthority, x.index, "the barrier %s does not ask for what its policy asks for: %s", b.ID, err)
		}
	}
}

// approvals verifies the signatures that were accepted, each for the barrier that it is for
// and by a signer who counted then, and returns them by id.
func (v *verifier) approvals(state trust.State, told *past) map[string]approval.Vote {
	then := state
	then.Signers = maps.Clone(state.Signers)
	for id, s := range then.Signers {
		// What counted then is checked below, but for roles that come and go.
		s.Revoked, s.Now = nil, slices.Concat(s.Now, s.Roles, told.roles[id])
		then.Signers[id] = s
	}
	votes := map[string]approval.Vote{}
	for _, x := range v.accepted {
		a, ok := v.model.Approvals[x.what]
		if !ok {
			continue
		}
		s, enrolled := state.Signers[a.Signer]
		t := told.signers[a.Signer]
		switch {
		case !enrolled:
			v.problem(BadAuthority, x.index, "an approval by %.120q was accepted, whom no statement of the admins has enrolled", a.Signer)
			continue
		case x.index < t.from.index:
			v.problem(BadAuthority, x.index, "an approval by %s was accepted, whom the admins had not enrolled yet", a.Signer)
		case x.at.Time().Before(s.NotBefore.Time()) || x.at.Time().After(s.NotAfter.Time()):
			v.problem(BadAuthority, x.index, "an approval by %s was accepted at %s, whose key is valid from %s to %s", a.Signer, x.at, s.NotBefore, s.NotAfter)
		case t.to != nil && x.after(*t.to):
			v.problem(BadAuthority, x.index, "an approval by %s was accepted at %s, who was revoked at %s", a.Signer, x.at, t.to.at)
		}
		b, ok := v.model.Barriers[a.Barrier]
		if !ok {
			if !v.model.Vague["barrier:"+a.Barrier] {
				v.problem(BadAuthority, x.index, "the approval %s is for no barrier", a.ID)
			}
			continue
		}
		if at, escalated := v.escalated[b.ID]; escalated && x.index < at {
			// What came later does not count for what was accepted before.
			b.EscalatedAt = nil
		}
		vote, err := verified(then, b, a, x.at.Time())
		if err != nil {
			v.problem(BadAuthority, x.index, "the approval %s: %s", a.ID, err)
			continue
		}
		votes[a.ID] = vote
	}
	return votes
}

// verified verifies a signature that was accepted at an instant.
func verified(s trust.State, b ledger.Barrier, a ledger.Approval, at time.Time) (approval.Vote, error) {
	r, digest, err := approval.Of(&b)
	if err != nil {
		return approval.Vote{}, err
	}
	vote, err := approval.Verify(s, r, digest, a.Envelope, time.Time{})
	if err != nil {
		return vote, err
	}
	p, err := approval.Peek(a.Envelope)
	if err != nil {
		return vote, err
	}
	if vote.ID != a.ID || vote.Signer != a.Signer || !slices.Equal(p.Actions, a.Actions) || r.Barrier != b.ID {
		return vote, &approval.Refusal{Code: approval.Foreign, Detail: "the ledger says something else of it than is signed"}
	}
	if at.Add(-clocks).After(p.Expires.Time()) || at.Add(clocks).Before(p.NotBefore.Time()) {
		return vote, &approval.Refusal{Code: approval.NotValid, Detail: "it was accepted at another time than it is valid"}
	}
	return vote, nil
}

// licensed checks that effects which people must approve were approved by enough of them
// before they were permitted, by the rule of the decision; and irreversible ones by somebody,
// unless its bundle lets them go unattended.
func (v *verifier) licensed(votes map[string]approval.Vote) {
	for _, x := range v.permits {
		d, ok := v.model.Decisions[x.of.DecisionID]
		if !ok {
			continue
		}
		var record struct {
			Groups   []plan.Group  `json:"groups"`
			FollowUp plan.FollowUp `json:"follow_up"`
		}
		if json.Unmarshal(d.Record, &record) != nil || len(record.Groups) == 0 && !v.attended[d.ID] {
			continue // a record that cannot be read was reported
		}
		used, told := v.consumed[d.ID]
		if !told {
			if !v.model.Vague["approvals"] {
				v.problem(BadAuthority, x.index, "%s was permitted, which people must approve, and nobody's approval was used", x.of.ID)
			}
			continue
		}
		if why := v.enough(used, approval.Rule{Groups: record.Groups, FollowUp: record.FollowUp}, votes); why != "" {
			v.problem(BadAuthority, x.index, "%s was permitted, and %s", x.of.ID, why)
		}
	}
}

// about reports whether people were asked about an action: by itself, or as what undoes another
// one. The model has held the use of the approval against the barrier.
func about(r *approval.Request, b *ledger.Barrier, used ledger.ConsumedData) bool {
	if slices.ContainsFunc(r.Actions, func(x approval.Action) bool { return x.Invocation == used.Invocation && x.Action == used.Action }) {
		return true
	}
	asked := r.Covers(used.Invocation)
	x, ok := b.Covers(used.Invocation)
	return ok && asked != nil && asked.Invocation == x.Invocation && asked.Action == x.Action
}

// enough says why approvals are not enough for a rule, or "". What is no longer known may
// have been.
func (v *verifier) enough(used ledger.ConsumedData, rule approval.Rule, votes map[string]approval.Vote) string {
	var counted []approval.Vote
	var asked *approval.Request
	for _, id := range used.Approvals {
		a, ok := v.model.Approvals[id]
		b, known := v.model.Barriers[a.Barrier]
		if !ok || !known {
			return ""
		}
		r, _, err := approval.Of(&b)
		if err != nil {
			return "the request that people have approved cannot be read"
		}
		if r.Kind != approval.Approval {
			return "nobody was asked to approve it"
		}
		if asked != nil && asked.Barrier != r.Barrier {
			return "the approvals are of several barriers"
		}
		if !about(r, &b, used) {
			return "people have approved something else"
		}
		asked = r
		if vote, ok := votes[id]; ok {
			counted = append(counted, vote)
		}
	}
	switch {
	case asked == nil:
		return "nobody has approved it"
	case asked.Rule.AtLeast(rule) != nil:
		return "fewer people were asked than must approve it"
	case !asked.Count(counted).Met():
		return "not enough people have approved it"
	}
	return ""
}

// states says what an entry that resolves a call of unknown outcome says that it did.
var states = map[ledger.Kind]approval.Decision{ledger.InvocationSettled: approval.Executed, ledger.InvocationReleased: approval.NotExecuted}

// stated checks that enough people have stated what a call did, where the log says that they
// have: by the rule of what they were asked, and all of them the same.
func (v *verifier) stated(votes map[string]approval.Vote) {
	for _, x := range v.resolved {
		if why := v.answered(x, votes); why != "" {
			v.problem(BadAuthority, x.index, "%s was resolved by people, and %s", x.data.ID, why)
		}
	}
}

// answered says why people have not stated what an entry says that they have, or "". What is
// no longer known may have been.
func (v *verifier) answered(x resolution, votes map[string]approval.Vote) string {
	var counted []approval.Vote
	var request *approval.Request
	for _, id := range x.data.Stated {
		a, ok := v.model.Approvals[id]
		b, known := v.model.Barriers[a.Barrier]
		if !ok || !known {
			return ""
		}
		var err error
		if request, _, err = approval.Of(&b); err != nil {
			return "what they were asked cannot be read"
		}
		if request.Kind != approval.Outcome || request.Actions[0].Decision != b.Actions[0].Decision || request.Actions[0].Invocation != x.data.ID {
			return "they were asked something else"
		}
		if vote, ok := votes[id]; ok {
			counted = append(counted, vote)
		}
	}
	if t := request.Count(counted); !t.Met() || t.Decision != states[x.kind] {
		return "not enough of them have stated that"
	}
	if _, against := request.Objection(counted); against {
		return "they contradict each other"
	}
	return ""
}
