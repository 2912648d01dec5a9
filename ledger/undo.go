package ledger

import (
	"errors"
	"fmt"
	"slices"
)

// MaxUndo bounds the effects that undo one effect.
const MaxUndo = 64

// Compensation is what a plan says of undoing an effect.
type Compensation struct {
	// Node is the node of the effect, as the end of a run names it.
	Node string `json:"node"`
	// By lists the invocations of the effects that undo it in any case, and WithOutput those
	// that do so only if its output is known. They are sorted, and at most [MaxUndo] each. What
	// else undoes it depends on more than that, or has no effect.
	By         []string `json:"by,omitempty"`
	WithOutput []string `json:"with_output,omitempty"`
}

// Check returns an error unless the form of what is said is right.
func (c *Compensation) Check() error {
	if c == nil {
		return nil
	}
	return errors.Join(CheckUndo(c.By), CheckUndo(c.WithOutput))
}

// Covers returns the action of the barrier that an invocation may undo without another
// approval.
func (b *Barrier) Covers(invocation string) (Awaited, bool) {
	for _, x := range b.Actions {
		if slices.Contains(x.Undo, invocation) {
			return x, true
		}
	}
	return Awaited{}, false
}

// Covers reports whether an approval counts for an invocation that may undo x without another
// one: it lists x, and was used for x, by the invocation of that, which u is by now and which may
// have had its effect. by is the invocation that has used the approval for the action of x, or
// "".
func (a *Approval) Covers(x Awaited, u Invocation, by string) bool {
	return slices.Contains(a.Actions, x.Action) && u.ID == x.Invocation && u.ActionDigest == x.Action && by == x.Invocation && u.State.Undoable()
}

// CheckUndo returns an error unless the invocations that undo an effect are sorted, different,
// and not too many.
func CheckUndo(by []string) error {
	if len(by) > MaxUndo {
		return fmt.Errorf("%w: %d invocations undo one, more than %d", ErrInvalid, len(by), MaxUndo)
	}
	for i, id := range by {
		if id == "" || i > 0 && by[i-1] >= id {
			return fmt.Errorf("%w: the invocations that undo one are not sorted, or not different", ErrInvalid)
		}
	}
	return nil
}

// Undoable reports whether an invocation in the state may have had its effect, so that it can
// be undone.
func (s InvocationState) Undoable() bool {
	switch s {
	case Settled, Unknown:
		return true
	case Permitted, Calling, Released:
	}
	return false
}
