package ledger

import (
	"encoding/json"
	"fmt"
	"time"

	"chimera.ai/engine/contract"
)

// Invocation is one effect, which happens at most once. Its methods are all the moves
// that it can make; they change nothing but the value that they return, so stores,
// verifiers and explorers share them.
//
//	permitted → calling → settled
//	                    → released → permitted
//	                    → unknown → settled | released
//
// A permit allows one call. Only if the calls are [Invocation.Repeatable] may an
// invocation that is calling, for longer than it may, or unknown be permitted and called
// again; until it is called it stays what it is.
type Invocation struct {
	ID string `json:"id"`
	// Origin is that of the run: see [Run.Origin].
	Origin       string `json:"origin"`
	ActionDigest string `json:"action_digest"`
	// DecisionID is the decision behind the last permit.
	DecisionID string `json:"decision_id"`
	// TaskID is the task that it executes.
	TaskID string `json:"task_id"`
	// HoldID is the hold for what it costs, or "".
	HoldID string `json:"hold_id,omitempty"`
	// Repeatable reports that a second call is the same as one, as with an idempotency
	// key.
	Repeatable bool `json:"repeatable,omitempty"`
	// Permit is what the guardian has signed last, and PermitUntil the last instant at
	// which it may be used, on the store's clock. Unused reports that no call has used it.
	Permit      json.RawMessage `json:"permit"`
	PermitUntil Time            `json:"permit_until"`
	Unused      bool            `json:"unused"`
	State       InvocationState `json:"state"`
	// Attempt counts its calls. Doubted reports that one before the last may have happened:
	// then a last one that did nothing proves nothing.
	Attempt int  `json:"attempt"`
	Doubted bool `json:"doubted,omitempty"`
	// CallNotAfter is when the last call ends at the latest.
	CallNotAfter *Time  `json:"call_not_after,omitempty"`
	OutputDigest string `json:"output_digest,omitempty"`
	// Output is what the call answered, in a form that only whoever wrote it can read, of
	// at most [MaxRunValue] bytes. It lies beside the log, which has its digest alone, and
	// goes with the run's bodies.
	Output []byte `json:"-"`
}

// InvocationState is where an effect stands.
type InvocationState string

// The states of an invocation.
const (
	Permitted InvocationState = "permitted"
	Calling   InvocationState = "calling"
	// Released: the call provably did nothing.
	Released InvocationState = "released"
	Settled  InvocationState = "settled"
	// Unknown: nobody knows what the call did.
	Unknown InvocationState = "unknown"
)

// CallSkew is how long after the latest end of a call it is taken for over: clocks
// differ, and what was sent arrives later.
const CallSkew = 5 * time.Second

// Course says what is to be done about an invocation.
type Course string

// The courses.
const (
	// Decide: it is to be decided on, and permitted.
	Decide Course = "decide"
	// Stands: its permit may be used, or it has its output.
	Stands Course = "stands"
	// Wait: a call runs.
	Wait Course = "wait"
	// Resolve: nobody knows what its call did, which has to be found out first.
	Resolve Course = "resolve"
)

// Course says what is to be done about an invocation that is wanted for an action. The
// zero value is an invocation that there is not. Once it is called, or its call may have
// happened, it is that of one action: another is [ErrConflict].
func (i Invocation) Course(action string, now Time) (Course, error) {
	live := i.Unused && !now.Time().After(i.PermitUntil.Time())
	if i.State != "" && i.State != Permitted && i.State != Released && i.ActionDigest != action {
		return "", fmt.Errorf("%w: the invocation is %s for another action", ErrConflict, i.State)
	}
	switch i.State {
	case "", Released:
		return Decide, nil
	case Permitted:
		if live && i.ActionDigest == action {
			return Stands, nil
		}
		return Decide, nil
	case Calling, Unknown:
		switch {
		case i.State == Calling && !i.over(now):
			return Wait, nil
		case !i.Repeatable:
			return Resolve, nil
		case live:
			return Stands, nil
		}
		return Decide, nil
	case Settled:
		return Stands, nil
	}
	return "", fmt.Errorf("%w: the state of an invocation is %.40q", ErrInvalid, string(i.State))
}

// over reports that the last call has ended.
func (i Invocation) over(now Time) bool { return i.CallNotAfter != nil && i.Arrived(now) }

// Arrived reports that whatever the last call has sent has had its effect, or never will.
func (i Invocation) Arrived(now Time) bool {
	return i.CallNotAfter == nil || now.Time().After(i.CallNotAfter.Time().Add(CallSkew))
}

// Permission is what makes an invocation, or gives it another permit.
type Permission struct {
	ID, Origin, ActionDigest, DecisionID, TaskID, HoldID string
	Repeatable                                           bool
	Permit                                               json.RawMessage
	Until                                                Time
}

// Allow gives an invocation a permit, if its course is to [Decide]. The zero value
// becomes a new invocation. Whoever allows a call again that may have happened leaves the
// hold as it is.
func (i Invocation) Allow(p Permission, now Time) (Invocation, error) {
	course, err := i.Course(p.ActionDigest, now)
	switch {
	case err != nil:
		return i, err
	case course != Decide:
		return i, fmt.Errorf("%w: the invocation is %s", ErrConflict, i.State)
	case i.State != "" && (i.ID != p.ID || i.Origin != p.Origin):
		return i, fmt.Errorf("%w: the invocation is another", ErrConflict)
	case i.perhaps() && (i.HoldID != p.HoldID || !p.Repeatable):
		return i, fmt.Errorf("%w: a call that may have happened has another hold, or may not be repeated", ErrConflict)
	}
	i.ID, i.Origin, i.ActionDigest, i.DecisionID, i.TaskID, i.HoldID, i.Repeatable = p.ID, p.Origin, p.ActionDigest, p.DecisionID, p.TaskID, p.HoldID, p.Repeatable
	i.Permit, i.PermitUntil, i.Unused = p.Permit, p.Until, true
	if !i.perhaps() {
		i.State = Permitted
	}
	return i, nil
}

// perhaps reports that a call may have happened, and that nobody has said so yet.
func (i Invocation) perhaps() bool { return i.State == Calling || i.State == Unknown }

// Claim begins a call, which ends within d. It uses the permit of the decision up. A
// permit that has expired is [ErrExpired]; one that is used up, or was replaced, is
// ErrConflict.
func (i Invocation) Claim(decision string, d time.Duration, now Time) (Invocation, error) {
	switch {
	case i.DecisionID != decision:
		return i, fmt.Errorf("%w: the invocation has another permit", ErrConflict)
	case !i.Unused:
		return i, fmt.Errorf("%w: the permit is used up, and the invocation is %s", ErrConflict, i.State)
	case i.State == Calling && !i.over(now), i.State != Permitted && !(i.perhaps() && i.Repeatable):
		return i, fmt.Errorf("%w: the invocation is %s", ErrConflict, i.State)
	case now.Time().After(i.PermitUntil.Time()):
		return i, fmt.Errorf("%w: it could be used until %s", ErrExpired, i.PermitUntil)
	}
	until := At(now.Time().Add(d))
	i.Doubted = i.Doubted || i.perhaps()
	i.State, i.Attempt, i.CallNotAfter, i.Unused = Calling, i.Attempt+1, &until, false
	return i, nil
}

// Settlement is how a call ended.
type Settlement struct {
	// Attempt is the call.
	Attempt int
	// State is Settled, Released or Unknown.
	State InvocationState
	// OutputDigest is of the output, if the state is Settled.
	OutputDigest string
	// Abandoned: whoever says that it is unknown did not make the call, and says so since
	// its time is over.
	Abandoned bool
	// Stated are the statements of people by which an unknown call is resolved, by the ids
	// of their signatures, or none.
	Stated []string
	// Snapshots are those of the call of a pinned MCP tool, or nil.
	Snapshots *contract.Snapshots
	// Observation is what was measured of a simulated call, once it has succeeded, or nil.
	Observation *Observation
}

// Settle ends a call, or resolves one that is unknown. People resolve only one that is unknown
// and may not be repeated. A call that is released after one
// that may have happened makes the invocation unknown. changed is false if it has ended in
// that way already.
func (i Invocation) Settle(s Settlement, now Time) (out Invocation, changed bool, err error) {
	if s.State != Settled && (s.State != Released && s.State != Unknown || s.OutputDigest != "") {
		return i, false, fmt.Errorf("%w: a call does not end as %.40q with the output %.80q", ErrInvalid, string(s.State), s.OutputDigest)
	}
	if s.State == Released && i.Doubted {
		s.State = Unknown
	}
	switch {
	case i.Attempt != s.Attempt:
		return i, false, fmt.Errorf("%w: attempt %d has ended, now is %d", ErrConflict, s.Attempt, i.Attempt)
	case i.State == s.State && i.OutputDigest == s.OutputDigest:
		return i, false, nil
	case !i.perhaps():
		return i, false, fmt.Errorf("%w: the invocation is %s", ErrConflict, i.State)
	case len(s.Stated) > 0 && (i.State != Unknown || s.State == Unknown || i.Repeatable):
		return i, false, fmt.Errorf("%w: people do not resolve an invocation that is %s, or may be called again", ErrConflict, i.State)
	case i.State == Calling && s.Abandoned && !i.over(now):
		return i, false, fmt.Errorf("%w: its call may run until %s", ErrConflict, i.CallNotAfter)
	}
	if s.State == Unknown && !s.Abandoned {
		// Whoever made the call says that it is over.
		i.CallNotAfter = &now
	}
	i.State, i.OutputDigest, i.Unused = s.State, s.OutputDigest, false
	return i, true, nil
}

// Ends reports how a settlement ends the invocation's hold: it is posted, voided, or
// stays, since nobody knows whether it will be spent ([TxPending]).
func (s InvocationState) Ends() TxStatus {
	switch s {
	case Settled:
		return TxPosted
	case Released:
		return TxVoided
	case Permitted, Calling, Unknown:
	}
	return TxPending
}
