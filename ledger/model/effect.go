package model

import (
	"maps"
	"slices"
	"strings"
	"time"

	"chimera.ai/engine/ledger"
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
		if h.Amount.Minor() < 0 || h.Status != ledger.TxPending || h.Posted != nil || h.Running {
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
			if err != nil {
				return err
			}
			if !slices.Equal(line, h.Charges) {
				return impossible("hold %s counts in %v, and its budgets are %v", h.ID, h.Charges, line)
			}
		}
		if err := s.charge(h, h.Amount, ledger.Money{}, !h.Overdraft); err != nil {
			return err
		}
		s.Holds[h.ID] = h
		return nil
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
	if err := named(e, c.Invocation); err != nil {
		return err
	}
	used := map[string]ledger.Approval{}
	for _, id := range c.Approvals {
		if s.Vague["approval:"+id] {
			continue
		}
		a, ok := s.Approvals[id]
		if _, twice := used[id]; !ok || !a.Accepted || a.ConsumedBy != "" || twice {
			return impossible("approval %s cannot be used", id)
		}
		// A run that continues another has the approvals of that.
		if s.from[id] != workflow(e.Chain) {
			return impossible("approval %s is of another workflow", id)
		}
		a.ConsumedBy = c.Invocation
		used[id] = a
	}
	maps.Copy(s.Approvals, used)
	return nil
}

func (s *State) invocation(e *ledger.Entry, data Facts) error {
	if e.Kind == ledger.InvocationPermitted {
		i, err := read[ledger.Invocation](data)
		if err != nil {
			return err
		}
		if i.State != ledger.Permitted || i.Attempt != 0 {
			return impossible("it is not a new one")
		}
		if err := named(e, i.ID); err != nil {
			return err
		}
		if _, ok := s.Invocations[i.ID]; ok {
			return impossible("invocation %s is there already", i.ID)
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
	i, ok := s.Invocations[d.ID]
	if !ok {
		return impossible("invocation %s was not permitted", d.ID)
	}
	if !i.State.Leads(e.Kind) {
		return impossible("invocation %s is %s", d.ID, i.State)
	}
	if e.Kind == ledger.InvocationCalling {
		if d.Attempt != i.Attempt+1 || d.CallNotAfter == nil {
			return impossible("attempt %d of %s follows attempt %d", d.Attempt, d.ID, i.Attempt)
		}
		i.State, i.Attempt, i.CallNotAfter = ledger.Calling, d.Attempt, d.CallNotAfter
		s.Invocations[d.ID] = i
		return nil
	}
	if d.Attempt != i.Attempt {
		return impossible("attempt %d of %s has ended; now is %d", d.Attempt, d.ID, i.Attempt)
	}
	switch e.Kind {
	case ledger.InvocationReleased:
		i.State = ledger.Released
	case ledger.InvocationSettled:
		i.State, i.OutputDigest = ledger.Settled, d.OutputDigest
	default:
		i.State = ledger.Unknown
	}
	s.Invocations[d.ID] = i
	return nil
}

// allow checks a permit against its decision, which must be the guardian's about exactly
// this action in this run, and permits one invocation.
func (s *State) allow(e *ledger.Entry, i ledger.Invocation) error {
	if s.Vague["decision:"+i.DecisionID] {
		return nil
	}
	d, ok := s.Decisions[i.DecisionID]
	by := s.decided[i.DecisionID]
	switch {
	case !ok:
		return impossible("there is no decision %s", i.DecisionID)
	case d.Decision != ledger.Approve:
		return impossible("decision %s is %.40q", i.DecisionID, d.Decision)
	case d.ActionDigest != i.ActionDigest || by.chain != e.Chain:
		return impossible("decision %s is about another action", i.DecisionID)
	case by.used:
		return impossible("decision %s has permitted another invocation", i.DecisionID)
	}
	by.used = true
	s.decided[i.DecisionID] = by
	return nil
}
