package ledger

import (
	"fmt"
	"time"
)

// MaxReminders bounds the reminders of a barrier.
const MaxReminders = 100

// RemindsAt is when people are to be reminded next, or nil: nobody is, or often enough.
func (b *Barrier) RemindsAt() *Time {
	if b.State.Closed() || b.RemindEveryMS <= 0 || b.Reminded >= MaxReminders {
		return nil
	}
	last := b.OpenedAt
	if b.RemindedAt != nil {
		last = *b.RemindedAt
	}
	at := At(last.Time().Add(time.Duration(b.RemindEveryMS) * time.Millisecond))
	return &at
}

// Escalates is when more groups are to be asked, or nil: never, or they are.
func (b *Barrier) Escalates() *Time {
	if b.State.Closed() || b.EscalatedAt != nil {
		return nil
	}
	return b.EscalatesAt
}

// Remind records that people were reminded. The error wraps [ErrConflict] unless it is time
// for that. A barrier that has ended stays as it is, and changed is false.
func (b Barrier) Remind(now Time) (out Barrier, changed bool, err error) {
	if b.State.Closed() {
		return b, false, nil
	}
	if err := b.due(b.RemindsAt(), now); err != nil {
		return b, false, err
	}
	b.Reminded, b.RemindedAt = b.Reminded+1, &now
	return b, true, nil
}

// Escalate records that more groups are asked. The error wraps [ErrConflict] unless it is time
// for that. A barrier that has ended, or was escalated, stays as it is, and changed is false.
func (b Barrier) Escalate(now Time) (out Barrier, changed bool, err error) {
	if b.State.Closed() || b.EscalatedAt != nil {
		return b, false, nil
	}
	if err := b.due(b.Escalates(), now); err != nil {
		return b, false, err
	}
	b.EscalatedAt = &now
	return b, true, nil
}

// due returns an error unless it is time for something that follows at an open barrier.
func (b *Barrier) due(at *Time, now Time) error {
	switch {
	case at == nil:
		return fmt.Errorf("%w: nothing follows at the barrier", ErrConflict)
	case now.Time().Before(at.Time()):
		return fmt.Errorf("%w: it follows at %s", ErrConflict, at)
	case b.over(now):
		return fmt.Errorf("%w: it has expired at %s", ErrConflict, b.ExpiresAt)
	}
	return nil
}
