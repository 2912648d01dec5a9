package model

import (
	"strconv"
	"strings"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/task"
)

// barrier applies entries about barriers. Each of a barrier's actions waits by a decision,
// whose task is a draft.
func (s *State) barrier(e *ledger.Entry, data Facts) error {
	if e.Kind == ledger.BarrierOpened {
		b, err := read[ledger.Barrier](data)
		if err != nil {
			return err
		}
		if err := named(e, b.ID); err != nil {
			return err
		}
		if b.Reminded != 0 || b.RemindedAt != nil || b.EscalatedAt != nil || b.RemindEveryMS < 0 || b.State != ledger.BarrierOpen || b.ClosedAt != nil || b.Reason != "" || b.Refused != 0 || len(b.Actions) == 0 || len(b.Actions) > ledger.MaxAwaited {
			return impossible("barrier %s is not a new one", b.ID)
		}
		if ledger.RunChain(b.Workflow, b.Root) != e.Chain {
			return impossible("barrier %s is of another run", b.ID)
		}
		for i, x := range b.Actions {
			if i > 0 && strings.Compare(b.Actions[i-1].Invocation, x.Invocation) >= 0 {
				return impossible("the actions of barrier %s are not sorted, or not different", b.ID)
			}
			if err := ledger.CheckUndo(x.Undo); err != nil {
				return impossible("barrier %s: %s", b.ID, err)
			}
			if b.Outcome {
				continue
			}
			if err := s.waits(x); err != nil {
				return err
			}
		}
		if b.Outcome && len(b.Actions) != 1 {
			return impossible("barrier %s is about the outcomes of %d calls", b.ID, len(b.Actions))
		}
		if i, ok := s.Invocations[b.Actions[0].Invocation]; b.Outcome && !s.Vague["invocation:"+b.Actions[0].Invocation] &&
			(!ok || i.State != ledger.Unknown || i.Repeatable || !b.Asks(i)) {
			return impossible("barrier %s is about a call whose outcome is known, or that nobody has permitted", b.ID)
		}
		return add(s.Barriers, b.ID, b)
	}
	if e.Kind != ledger.BarrierClosed {
		return s.followUp(e, data)
	}
	d, err := read[ledger.BarrierData](data)
	if err != nil {
		return err
	}
	if err := named(e, d.ID); err != nil {
		return err
	}
	b, ok := s.Barriers[d.ID]
	if !ok || b.State.Closed() || d.Refused < 0 || ledger.RunChain(b.Workflow, b.Root) != e.Chain {
		return impossible("barrier %s is not open, or is closed as %.40q", d.ID, string(d.State))
	}
	if late := e.At.Time().Sub(b.ExpiresAt.Time()); d.State == ledger.BarrierApproved && late > clocks || d.State == ledger.BarrierExpired && late < -clocks {
		return impossible("barrier %s is %s at %s, and expires at %s", d.ID, d.State, e.At, b.ExpiresAt)
	}
	at := e.At
	b.State, b.Reason, b.Refused, b.ClosedAt = d.State, d.Reason, d.Refused, &at
	s.Barriers[d.ID] = b
	return nil
}

// followUp applies entries about what follows while a barrier is open.
func (s *State) followUp(e *ledger.Entry, data Facts) error {
	reminded := e.Kind == ledger.BarrierReminded
	var id string
	var number int
	if reminded {
		d, err := read[ledger.RemindedData](data)
		if err != nil {
			return err
		}
		if err := named(e, d.ID+"/"+strconv.Itoa(d.Number)); err != nil {
			return err
		}
		id, number = d.ID, d.Number
	} else {
		d, err := read[ledger.EscalatedData](data)
		if err != nil {
			return err
		}
		if err := named(e, d.ID); err != nil {
			return err
		}
		id = d.ID
	}
	b, ok := s.Barriers[id]
	if !ok || b.State.Closed() || ledger.RunChain(b.Workflow, b.Root) != e.Chain {
		return impossible("barrier %s is not open", id)
	}
	due, at := b.Escalates(), e.At
	if reminded {
		due = b.RemindsAt()
	}
	switch {
	case due == nil || at.Time().Sub(due.Time()) < -clocks || at.Time().Sub(b.ExpiresAt.Time()) > clocks:
		return impossible("nothing follows at barrier %s at %s", id, at)
	case !reminded:
		b.EscalatedAt = &at
	case number != b.Reminded+1:
		return impossible("reminder %d of barrier %s follows %d", number, id, b.Reminded)
	default:
		b.Reminded, b.RemindedAt = number, &at
	}
	s.Barriers[id] = b
	return nil
}

// waits checks that an action waits by its decision.
func (s *State) waits(x ledger.Awaited) error {
	d, ok := s.Decisions[x.Decision]
	switch {
	case s.Vague["decision:"+x.Decision]:
	case !ok:
		return impossible("there is no decision %s", x.Decision)
	case d.Invocation != x.Invocation || d.ActionDigest != x.Action || d.Decision == ledger.Approve:
		return impossible("no action waits by the decision %s", x.Decision)
	}
	if _, ok := s.Tasks[x.Decision].(task.Draft); (!ok || s.Closed[x.Decision]) && !s.Vague["task:"+x.Decision] {
		return impossible("task %s is not a draft, or closed", x.Decision)
	}
	return nil
}

// stated checks that people have stated what the last call of an invocation did: each of the
// statements was accepted at one barrier about that call, which was approved.
func (s *State) stated(i ledger.Invocation, statements []string) error {
	at := ""
	for n, id := range statements {
		if n > 0 && statements[n-1] >= id {
			return impossible("the statements about %s are not sorted, or not different", i.ID)
		}
		if s.Vague["approval:"+id] {
			continue
		}
		a, ok := s.Approvals[id]
		if !ok || !a.Accepted || at != "" && a.Barrier != at {
			return impossible("the statement %s was refused, there is none, or it is of another barrier", id)
		}
		if at = a.Barrier; s.Vague["barrier:"+at] {
			continue
		}
		if b, ok := s.Barriers[at]; !ok || b.State != ledger.BarrierApproved || !b.Asks(i) {
			return impossible("nobody has stated at %s what the call of %s did", at, i.ID)
		}
	}
	return nil
}
