package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/ledger"
)

// maxOverdrafts bounds the holds beyond a budget that a report lists.
const maxOverdrafts = 50

// Overdraft is what an agent was let spend in a currency whatever its budgets said.
type Overdraft struct {
	Agent string `json:"agent"`
	// Amount is what was spent, or is reserved, by so many holds as Holds says.
	Amount ledger.Money `json:"amount"`
	Holds  int          `json:"holds"`
}

// Lifted is a hold beyond a budget, and whose approval lifted that.
type Lifted struct {
	Hold   string       `json:"hold"`
	Agent  string       `json:"agent"`
	Amount ledger.Money `json:"amount"`
	// Barrier and Signers are those of the approval that was used.
	Barrier string   `json:"barrier,omitempty"`
	Signers []string `json:"signers,omitempty"`
	// Again: it is for a call without effect that was made again after a reset, which nobody
	// approves.
	Again bool `json:"again,omitempty"`
}

// overdrawn adds up the holds that count whatever is left of a budget. right says why one does not,
// or is "".
func (v *verifier) overdrawn(right func(h *ledger.Hold) string) {
	sums := map[[2]string]*Overdraft{}
	for _, x := range v.overdrafts {
		h, ok := v.model.Holds[x.what]
		amount, counts := spent(&h)
		if !ok || !counts || h.Status == ledger.TxPending && !h.WithoutEffect() && v.waits(h.ID) {
			continue
		}
		if why := right(&h); why != "" {
			v.problem(BadAuthority, x.index, "the hold %s of %s exceeds the budget of %s, and %s", h.ID, amount, h.Agent, why)
		}
		at := [2]string{h.Agent, string(h.Amount.Currency())}
		o := sums[at]
		if o == nil {
			o = &Overdraft{Agent: h.Agent}
			sums[at] = o
		}
		if sum, err := o.Amount.Add(amount); err == nil { // else it is more than any budget
			o.Amount = sum
		}
		if o.Holds++; len(v.Lifted) < maxOverdrafts {
			v.Lifted = append(v.Lifted, v.lifted(&h, amount))
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(sums), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		v.Overdrafts = append(v.Overdrafts, *sums[at])
	}
}

// spent is what of a hold counts in a budget; counts is false if nothing does.
func spent(h *ledger.Hold) (amount ledger.Money, counts bool) {
	switch h.Status {
	case ledger.TxPending:
		return h.Amount, true
	case ledger.TxPosted:
		return *h.Posted, true
	case ledger.TxVoided, ledger.TxExpired:
	}
	return ledger.Money{}, false
}

// waits reports whether a decision permits nothing.
func (v *verifier) waits(decision string) bool {
	d, ok := v.model.Decisions[decision]
	return ok && d.Decision != ledger.Approve
}

// lifted is a hold with the approval that was used for its decision.
func (v *verifier) lifted(h *ledger.Hold, amount ledger.Money) Lifted {
	out := Lifted{Hold: h.ID, Agent: h.Agent, Amount: amount, Again: h.WithoutEffect()}
	for _, id := range v.consumed[h.ID].Approvals {
		if a, ok := v.model.Approvals[id]; ok {
			out.Barrier = a.Barrier
			out.Signers = append(out.Signers, a.Signer)
		}
	}
	return out
}

// mayOverdraw says why nobody with the right to has let a hold exceed a budget, or "". What is no
// longer known may be right.
func (v *verifier) mayOverdraw(h *ledger.Hold, votes map[string]approval.Vote) string {
	if h.WithoutEffect() {
		return v.again(h)
	}
	d, ok := v.model.Decisions[h.ID]
	switch {
	case v.model.Vague["decision:"+h.ID] || v.model.Vague["approvals"]:
		return ""
	case !ok || d.Decision != ledger.Approve:
		return "there is no decision that approves it"
	}
	used := v.consumed[h.ID]
	why := v.enough(used, approval.Rule{}, votes)
	if why != "" {
		return why
	}
	var may []string
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
		// By the policy of the barrier, which was active when people were asked.
		gate, err := v.replays.gate(r.Policy, "")
		if err != nil || gate == nil {
			return "the log does not have the policy that says who may let it"
		}
		may = gate.Lifters(guardian.BudgetExceeded)
		told := slices.ContainsFunc(r.Actions, func(x approval.Action) bool {
			return x.Invocation == used.Invocation && slices.Contains(x.Lifts, guardian.BudgetExceeded)
		})
		if told && slices.Contains(may, votes[id].Role) {
			return ""
		}
	}
	if len(may) == 0 {
		return "its policy lets nobody approve that"
	}
	return fmt.Sprintf("none of %s has approved that, knowing of it", strings.Join(may, ", "))
}

// call names the calls without effect of a node that cost the same, in the runs of one origin.
type call struct {
	origin, node, agent string
	amount              ledger.Money
}

// repeated finds the calls that others repeat after a reset.
type repeated struct {
	// of has the holds of calls, and vague reports that some holds are not known.
	of    map[call][]string
	vague bool
	// tries bounds how many holds are looked at in all.
	tries int
}

// maxRepeated bounds the comparisons of holds of calls that are made again.
const maxRepeated = 1 << 20

func callOf(h *ledger.Hold) call { return call{h.Call.Origin, h.Call.Node, h.Agent, h.Amount} }

// again says why a hold of a call without effect is not that of a call which was made again after a
// reset, or "".
func (v *verifier) again(h *ledger.Hold) string {
	if v.repeated == nil {
		v.repeated = &repeated{of: map[call][]string{}, tries: maxRepeated}
		for thing := range v.model.Vague {
			v.repeated.vague = v.repeated.vague || strings.HasPrefix(thing, "hold:")
		}
		for _, x := range v.model.Holds {
			if x.WithoutEffect() {
				v.repeated.of[callOf(&x)] = append(v.repeated.of[callOf(&x)], x.ID)
			}
		}
	}
	if v.repeated.vague {
		return ""
	}
	for _, id := range v.repeated.of[callOf(h)] {
		if v.repeated.tries--; v.repeated.tries < 0 {
			return "there are too many such holds to find the call that it repeats"
		}
		if ledger.HoldAgain(id, h.Call.Root) == h.ID {
			return ""
		}
	}
	return "no call before a reset had a hold that it repeats"
}
