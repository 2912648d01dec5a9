package ledger

import "time"

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
