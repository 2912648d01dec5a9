package model

import (
	"maps"
	"slices"
	"strings"
	"time"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/task"
)

// money applies entries about budgets and holds. A hold is charged to the budget of
// its agent and to all parents of that, in its currency, each in the period in which
// the hold is opened.
func (s *State) money(e *ledger.Entry, data Facts) error {
	switch e.Kind {
	case ledger.BudgetSet:
		b, err := read[ledger.BudgetData](data)
		if err != nil {
			return err
		}
		if b.Limit.Currency() != b.Currency || b.Limit.Minor() < 0 {
			return impossible("a limit of %s on a budget of %s", b.Limit, b.Currency)
		}
		if !b.Every.Valid() {
			return impossible("a budget for each %.20q", string(b.Every))
		}
		k := BudgetKey{b.Agent, b.Currency}
		was, ok := s.Budgets[k]
		if k.Currency != ledger.Currency(strings.TrimPrefix(e.Chain, ledger.BudgetChain(""))) {
			return impossible("a budget of %s in the chain %s", b.Currency, e.Chain)
		}
		s.Budgets[k] = b
		if _, err := s.line(b.Agent, b.Currency, e.At); err != nil {
			if s.Budgets[k] = was; !ok {
				delete(s.Budgets, k)
			}
			return err
		}
		return nil
	case ledger.HoldOpened:
		h, err := read[ledger.Hold](data)
		if err != nil {
			return err
		}
		if h.Amount.Minor() < 0 || h.Status != ledger.TxPending || h.Posted != nil || h.Running != h.WithoutEffect() {
			return impossible("hold %s is not a new one", h.ID)
		}
		if e.Chain != ledger.BudgetChain(h.Amount.Currency()) || e.Agent != h.Agent {
			return impossible("hold %s is of another currency or agent", h.ID)
		}
		if err := named(e, h.ID); err != nil {
			return err
		}
		if _, ok := s.Holds[h.ID]; ok {
			return impossible("hold %s is there already", h.ID)
		}
		if !s.Vague["chain:"+e.Chain] {
			line, err := s.line(h.Agent, h.Amount.Currency(), e.At)
			if _, ok := s.Budgets[BudgetKey{h.Agent, h.Amount.Currency()}]; !ok && h.Call != nil {
				line, err = nil, nil
			}
			if err != nil {
				return err
			}
			if !slices.Equal(line, h.Charges) {
				return impossible("hold %s counts in %v, and its budgets are %v", h.ID, h.Charges, line)
			}
		}
		if err := s.capped(h); err != nil {
			return err
		}
		if err := s.charge(h, h.Amount, ledger.Money{}, !h.Overdraft); err != nil {
			return err
		}
		s.Holds[h.ID] = h
		return s.addProbCost(h, h.Amount)
	}
	d, err := read[ledger.HoldData](data)
	if err != nil {
		return err
	}
	if err := named(e, d.ID); err != nil {
		return err
	}
	h, ok := s.Holds[d.ID]
	if ok && (e.Chain != ledger.BudgetChain(h.Amount.Currency()) || e.Agent != h.Agent) {
		return impossible("hold %s is of another currency or agent", h.ID)
	}
	if !ok || h.Status != ledger.TxPending {
		return impossible("hold %s is not pending", d.ID)
	}
	back, err := ledger.Money{}.Sub(h.Amount)
	if err != nil {
		return impossible("%s", err)
	}
	spent := ledger.Money{}
	switch e.Kind {
	case ledger.HoldRunning:
		h.Running = true
		s.Holds[d.ID] = h
		return nil
	case ledger.HoldPosted:
		if d.Posted == nil {
			return impossible("hold %s is posted without an amount", d.ID)
		}
		if c, err := d.Posted.Cmp(h.Amount); err != nil || c > 0 || d.Posted.Minor() < 0 {
			return impossible("hold %s of %s is posted with %s", d.ID, h.Amount, *d.Posted)
		}
		h.Status, h.Posted, spent = ledger.TxPosted, d.Posted, *d.Posted
	case ledger.HoldVoided:
		h.Status = ledger.TxVoided
	default:
		if h.Running {
			return impossible("hold %s of a running effect expires", d.ID)
		}
		if e.At.Time().Add(clocks).Before(h.ExpiresAt.Time()) {
			return impossible("hold %s expires at %s, before its time, %s", d.ID, e.At, h.ExpiresAt)
		}
		h.Status = ledger.TxExpired
	}
	if err := s.charge(h, back, spent, false); err != nil {
		return err
	}
	s.Holds[d.ID] = h
	if back, err = back.Add(spent); err != nil {
		return impossible("%s", err)
	}
	return s.addProbCost(h, back)
}

// probCostKey names what calls of probabilistic nodes cost in the runs of one origin.
type probCostKey struct {
	origin   string
	currency ledger.Currency
}

// addProbCost adds to what calls of probabilistic nodes cost.
func (s *State) addProbCost(h ledger.Hold, amount ledger.Money) (err error) {
	if h.Call == nil || !h.Call.Prob {
		return nil
	}
	k := probCostKey{h.Call.Origin, h.Amount.Currency()}
	if s.probCosts[k], err = s.probCosts[k].Add(amount); err != nil {
		return impossible("%s", err)
	}
	return nil
}

// capped refuses a hold that does not fit in what its call allows. Where holds are no
// longer known, more fits than did.
func (s *State) capped(h ledger.Hold) error {
	if h.Call == nil || !h.Call.Prob || h.Call.Most == nil || h.Overdraft {
		return nil
	}
	used, err := s.probCosts[probCostKey{h.Call.Origin, h.Amount.Currency()}].Add(h.Amount)
	if err != nil {
		return impossible("%s", err)
	}
	if c, err := used.Cmp(*h.Call.Most); err != nil || c > 0 {
		return impossible("hold %s does not fit: prob nodes of the run would cost %s of %s", h.ID, used, *h.Call.Most)
	}
	return nil
}

// clocks is the largest allowed difference between the clocks of a store's machines.
const clocks = time.Minute

// maxParents bounds the ancestors of a budget, as stores do.
const maxParents = 16

// line returns a budget with its ancestors, and the period of each at an instant.
func (s *State) line(agent string, c ledger.Currency, at ledger.Time) ([]ledger.Charge, error) {
	var out []ledger.Charge
	seen := map[string]bool{}
	for agent != "" {
		if seen[agent] {
			return nil, impossible("the budgets of %s have each other for parents", agent)
		}
		if len(seen) == maxParents {
			return nil, impossible("more than %d budgets have each other for parents", maxParents)
		}
		seen[agent] = true
		b, ok := s.Budgets[BudgetKey{agent, c}]
		if !ok {
			return nil, impossible("%s has no budget in %s", agent, c)
		}
		out = append(out, ledger.Charge{Agent: agent, Period: b.Every.Period(at)})
		agent = b.Parent
	}
	return out, nil
}

// charge changes the pending and posted amounts of budgets. If within is set, no limit may
// be exceeded.
func (s *State) charge(h ledger.Hold, pending, posted ledger.Money, within bool) error {
	if s.Vague["chain:"+ledger.BudgetChain(h.Amount.Currency())] {
		return nil // a limit is not known
	}
	charged := make([]Use, len(h.Charges))
	for i, at := range h.Charges {
		k := UseKey{BudgetKey{at.Agent, h.Amount.Currency()}, at.Period}
		u := s.Uses[k]
		if s.Vague[k.Thing()] {
			charged[i] = u // nobody knows what is left of it
			continue
		}
		var err error
		if u.Pending, err = u.Pending.Add(pending); err != nil {
			return impossible("%s", err)
		}
		if u.Posted, err = u.Posted.Add(posted); err != nil {
			return impossible("%s", err)
		}
		used, err := u.Pending.Add(u.Posted)
		if err != nil {
			return impossible("%s", err)
		}
		limit := s.Budgets[k.BudgetKey].Limit
		if c, err := used.Cmp(limit); err != nil || within && c > 0 {
			return impossible("hold %s does not fit: %s of %s would be used in the budget of %s", h.ID, used, limit, k.Agent)
		}
		charged[i] = u
	}
	for i, at := range h.Charges {
		s.Uses[UseKey{BudgetKey{at.Agent, h.Amount.Currency()}, at.Period}] = charged[i]
	}
	return nil
}

func (s *State) consume(e *ledger.Entry, data Facts) error {
	c, err := read[ledger.ConsumedData](data)
	if err != nil {
		return err
	}
	if err := named(e, c.Decision); err != nil {
		return err
	}
	if d, ok := s.Decisions[c.Decision]; ok && (d.Invocation != c.Invocation || d.ActionDigest != c.Action) {
		return impossible("decision %s is about another action", c.Decision)
	}
	used := map[consumption]string{}
	for _, id := range c.Approvals {
		if s.Vague["approval:"+id] {
			continue
		}
		a, ok := s.Approvals[id]
		at := consumption{id, c.Action}
		if _, twice := used[at]; !ok || !a.Accepted || twice || !slices.Contains(a.Actions, c.Action) && !s.covers(a, c.Invocation) {
			return impossible("approval %s cannot be used", id)
		}
		if b, ok := s.Barriers[a.Barrier]; ok && (b.State != ledger.BarrierApproved || b.Outcome) {
			return impossible("approval %s is of a barrier that is %s, or where nobody approves anything", id, b.State)
		}
		// A run that continues another has the approvals of that.
		if s.from[id] != workflow(e.Chain) {
			return impossible("approval %s is of another workflow", id)
		}
		if by, ok := s.consumed[at]; ok && by != c.Invocation {
			return impossible("approval %s is used up", id)
		}
		used[at] = c.Invocation
	}
	maps.Copy(s.consumed, used)
	return nil
}

// covers reports whether an approval counts for an invocation that it does not list: one that
// undoes an effect for which it was consumed. What is no longer known may be so.
func (s *State) covers(a ledger.Approval, invocation string) bool {
	if s.Vague["barrier:"+a.Barrier] {
		return true
	}
	b := s.Barriers[a.Barrier]
	x, ok := b.Covers(invocation)
	if !ok || !slices.Contains(a.Actions, x.Action) {
		return false
	}
	if by, ok := s.consumed[consumption{a.ID, x.Action}]; by != x.Invocation && (ok || !s.Vague["used:"+a.ID]) {
		return false
	}
	i := s.Invocations[x.Invocation]
	return s.Vague["invocation:"+x.Invocation] || i.ActionDigest == x.Action && i.State.Undoable()
}

// Consumptions lists what an approval counts for, by action.
func (s *State) Consumptions(approval string) []ledger.Consumption {
	var out []ledger.Consumption
	for at, by := range s.consumed {
		if at.approval == approval {
			out = append(out, ledger.Consumption{Approval: approval, Action: at.action, Invocation: by})
		}
	}
	slices.SortFunc(out, func(a, b ledger.Consumption) int { return strings.Compare(a.Action, b.Action) })
	return out
}

// decision applies a decision. Those about an invocation are numbered.
func (s *State) decision(e *ledger.Entry, data Facts) error {
	d, err := read[ledger.Decision](data)
	if err != nil {
		return err
	}
	if err := named(e, d.ID); err != nil {
		return err
	}
	if about, _, ok := cutLast(d.ID); !ok || about != d.Invocation {
		return impossible("decision %s is not one about %s", d.ID, d.Invocation)
	}
	if err := d.Compensation.Check(); err != nil {
		return impossible("decision %s: %s", d.ID, err)
	}
	if err := add(s.Decisions, d.ID, d); err != nil {
		return err
	}
	s.decided[d.ID] = decided{chain: strings.Clone(e.Chain)}
	return nil
}

// cutLast cuts a text at its last slash.
func cutLast(text string) (before, after string, ok bool) {
	i := strings.LastIndexByte(text, '/')
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}

func (s *State) invocation(e *ledger.Entry, data Facts) error {
	if e.Kind == ledger.InvocationPermitted {
		i, err := read[ledger.Invocation](data)
		if err != nil {
			return err
		}
		if err := named(e, i.DecisionID); err != nil {
			return err
		}
		if about, _, ok := cutLast(i.DecisionID); !ok || about != i.ID {
			return impossible("decision %s is not one about %s", i.DecisionID, i.ID)
		}
		was := s.Invocations[i.ID]
		next, err := at(e, func(now ledger.Time) (ledger.Invocation, error) {
			return was.Allow(ledger.Permission{
				ID: i.ID, Origin: i.Origin, ActionDigest: i.ActionDigest, DecisionID: i.DecisionID, TaskID: i.TaskID, HoldID: i.HoldID, Repeatable: i.Repeatable,
				Permit: i.Permit, Until: i.PermitUntil,
			}, now)
		})
		if err != nil {
			return err
		}
		if !same(next, i) {
			return impossible("the permit makes something else of the invocation")
		}
		if err := s.allow(e, i); err != nil {
			return err
		}
		s.Invocations[i.ID] = i
		return nil
	}
	d, err := read[ledger.AttemptData](data)
	if err != nil {
		return err
	}
	if d.ID != About(e) {
		return impossible("its key is not that of %s", d.ID)
	}
	if err := digests(d.Snapshots); err != nil {
		return err
	}
	i, ok := s.Invocations[d.ID]
	if !ok {
		return impossible("invocation %s was not permitted", d.ID)
	}
	if by, ok := s.decided[i.DecisionID]; ok && by.chain != "" && by.chain != e.Chain {
		return impossible("invocation %s is permitted in another run", d.ID)
	}
	if e.Kind == ledger.InvocationCalling {
		if d.CallNotAfter == nil || d.OutputDigest != "" || d.Abandoned || d.Stated != nil || d.Snapshots != nil {
			return impossible("its data are not those of a call")
		}
		next, err := at(e, func(now ledger.Time) (ledger.Invocation, error) {
			return i.Claim(d.DecisionID, d.CallNotAfter.Time().Sub(now.Time()), now)
		})
		if err != nil {
			return err
		}
		if next.Attempt != d.Attempt {
			return impossible("attempt %d of %s follows attempt %d", d.Attempt, d.ID, i.Attempt)
		}
		if h, ok := s.Holds[i.HoldID]; ok && !h.Running {
			return impossible("invocation %s is called before its hold runs", d.ID)
		}
		s.Invocations[d.ID] = next
		return nil
	}
	if d.DecisionID != "" || d.CallNotAfter != nil {
		return impossible("its data are not those of an end")
	}
	if strings.HasSuffix(e.Key, "/abandoned") && !d.Abandoned {
		return impossible("its key says that the call was abandoned, and its data do not")
	}
	to := ledger.Unknown
	switch e.Kind {
	case ledger.InvocationReleased:
		to = ledger.Released
	case ledger.InvocationSettled:
		to = ledger.Settled
	default:
	}
	changed := false
	next, err := at(e, func(now ledger.Time) (out ledger.Invocation, err error) {
		out, changed, err = i.Settle(ledger.Settlement{Attempt: d.Attempt, State: to, OutputDigest: d.OutputDigest, Abandoned: d.Abandoned, Stated: d.Stated}, now)
		return out, err
	})
	if err != nil {
		return err
	}
	if !changed {
		return impossible("invocation %s is %s", d.ID, i.State)
	}
	if err := s.stated(i, d.Stated); err != nil {
		return err
	}
	if h, ok := s.Holds[i.HoldID]; ok && h.Status != to.Ends() {
		return impossible("invocation %s is %s, and its hold is %s", d.ID, to, h.Status)
	}
	if _, ok := s.Tasks[i.TaskID].(task.Executed); to == ledger.Settled && !ok && !s.Vague["task:"+i.TaskID] {
		return impossible("invocation %s is settled, and its task is not executed", d.ID)
	}
	s.Invocations[d.ID] = next
	return nil
}

// at makes a move at the time of an entry, as far as that is known: the clocks of a store's
// machines differ.
func at(e *ledger.Entry, move func(now ledger.Time) (ledger.Invocation, error)) (out ledger.Invocation, err error) {
	for _, skew := range []time.Duration{0, clocks, -clocks} {
		if out, err = move(ledger.At(e.At.Time().Add(skew))); err == nil {
			return out, nil
		}
	}
	return out, impossible("%s", err)
}

// allow checks a permit against its decision, which must be the guardian's about exactly
// this action in this run, and permits one call, and against its hold.
func (s *State) allow(e *ledger.Entry, i ledger.Invocation) error {
	if i.HoldID != "" && !s.Vague["hold:"+i.HoldID] {
		if h, ok := s.Holds[i.HoldID]; !ok || h.Status != ledger.TxPending {
			return impossible("invocation %s is permitted without its hold", i.ID)
		}
	}
	d, ok := s.Decisions[i.DecisionID]
	by := s.decided[i.DecisionID]
	switch {
	case s.Vague["decision:"+i.DecisionID]:
	case !ok:
		return impossible("there is no decision %s", i.DecisionID)
	case d.Decision != ledger.Approve:
		return impossible("decision %s is %.40q", i.DecisionID, d.Decision)
	case d.ActionDigest != i.ActionDigest || by.chain != e.Chain:
		return impossible("decision %s is about another action", i.DecisionID)
	case by.used:
		return impossible("decision %s has given a permit before", i.DecisionID)
	}
	if about, _, _ := cutLast(i.TaskID); about != i.ID {
		return impossible("task %s is not one of %s", i.TaskID, i.ID)
	}
	if _, ok := s.Tasks[i.TaskID].(task.Signed); !ok && !s.Vague["task:"+i.TaskID] {
		return impossible("task %s is not signed", i.TaskID)
	}
	by.used = true
	s.decided[i.DecisionID] = by
	return nil
}
