package plan

import (
	"errors"
	"maps"
	"slices"
)

// FollowUp is what follows while people have not approved: they are reminded, and more
// groups are asked. The zero value is nothing.
type FollowUp struct {
	// RemindEveryMS is the time between two reminders, in milliseconds; 0 is "none".
	RemindEveryMS int64 `json:"remind_every_ms,omitempty"`
	// EscalateAfterMS is the time after which the groups in To must approve, too, in
	// milliseconds after people were first asked; 0 is "never".
	EscalateAfterMS int64 `json:"escalate_after_ms,omitempty"`
	// To is sorted by role. It is empty if and only if EscalateAfterMS is 0.
	To []Group `json:"to,omitempty"`
}

// IsZero reports whether nothing follows.
func (f FollowUp) IsZero() bool {
	return f.RemindEveryMS == 0 && f.EscalateAfterMS == 0 && len(f.To) == 0
}

// Join returns what follows where both apply: the earliest times, and of each role in To the
// larger number.
func (f FollowUp) Join(other FollowUp) FollowUp {
	return FollowUp{
		RemindEveryMS: earlier(f.RemindEveryMS, other.RemindEveryMS), EscalateAfterMS: earlier(f.EscalateAfterMS, other.EscalateAfterMS),
		To: Most(f.To, other.To),
	}
}

// earlier returns the smaller of two times, of which 0 is none.
func earlier(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// Most returns of each role the larger number that one of two lists asks for, sorted by role;
// nil if they ask for nobody. Groups of one role within a list add up.
func Most(a, b []Group) (out []Group) {
	most := map[string]int{}
	for _, list := range [][]Group{a, b} {
		sum := map[string]int{}
		for _, g := range list {
			sum[g.Role] += g.Min
		}
		for role, n := range sum {
			most[role] = max(most[role], n)
		}
	}
	for _, role := range slices.Sorted(maps.Keys(most)) {
		out = append(out, Group{Role: role, Min: most[role]})
	}
	return out
}

// Verify returns an error unless the fields are as they are described.
func (f FollowUp) Verify() error {
	switch {
	case f.RemindEveryMS < 0 || f.RemindEveryMS > maxMS || f.EscalateAfterMS < 0 || f.EscalateAfterMS > maxMS:
		return errors.New("a reminder or an escalation out of range")
	case (f.EscalateAfterMS > 0) != (len(f.To) > 0):
		return errors.New("an escalation without groups, or groups without an escalation")
	}
	return sorted(f.To)
}

// sorted returns an error unless groups are a sorted list of roles, each of somebody.
func sorted(groups []Group) error {
	for i, g := range groups {
		if g.Role == "" || g.Min < 1 || g.Min > maxCount || i > 0 && groups[i-1].Role >= g.Role {
			return errors.New("groups are not a sorted list of roles")
		}
	}
	return nil
}
