package ledger

import (
	"fmt"
	"slices"
)

// MaxUndo bounds the effects that undo one effect.
const MaxUndo = 64

// Compensation is what a plan says of undoing an effect.
type Compensation struct {
	// Node is the node of the effect, as the end of a run names it.
	Node string `json:"node"`
	// By lists the invocations of the effects that undo it, sorted, at most [MaxUndo]. It is
	// empty if only calls without effect do.
	By []string `json:"by"`
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
