package model

import (
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
		if b.State != ledger.BarrierOpen || b.ClosedAt != nil || b.Reason != "" || b.Refused != 0 || len(b.Actions) == 0 || len(b.Actions) > ledger.MaxAwaited {
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
			if err := s.waits(x); err != nil {
				return err
			}
		}
		return add(s.Barriers, b.ID, b)
	}
	d, err := read[ledger.BarrierData](data)
	if err != nil {
		return err
	}
	if err := named(e, d.ID); err != nil {
		return err
	}
	b, ok := s.Barriers[d.ID]
	if !ok || b.State.Closed() || !d.State.Closed() || d.Refused < 0 || ledger.RunChain(b.Workflow, b.Root) != e.Chain {
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
