package plan

import (
	"slices"

	"chimera.ai/engine/contract"
)

// Undoing decides how the effects of one run are undone. Like [Progress], whose nodes it lets
// run, it knows nothing about calls or time: its user states what is known of an effect, and
// it says what follows.
//
// An effect is armed before it is attempted. Once the end of the run is known, the armed
// effects are undone one after the other, the last armed first, each in three stages: whether
// it stands is asked, the nodes that undo it run, and whether it no longer stands is asked.
type Undoing struct {
	plan     *Plan
	progress *Progress
	// armed lists the nodes whose effects may have to be undone, in the order in which they
	// were attempted.
	armed []int
	// node is being undone, and stage says how far that is; node is 0 between two. failed
	// reports that a node of its block has failed, and nothing handles that.
	node   int
	stage  UndoStage
	failed bool
	// began reports that something was undone, or was tried.
	began                       bool
	compensated, notCompensated []string
}

// UndoStage is how far the undoing of one effect is. The numbers are in the histories of runs
// that continue as new.
type UndoStage byte

// The stages, in their order.
const (
	UndoAsking    UndoStage = iota // whether it stands, and what the call was made with
	UndoBlock                      // the nodes that undo it
	UndoVerifying                  // whether it no longer stands
)

// UndoStep is what the user of an [Undoing] is to do.
type UndoStep byte

// The steps.
const (
	UndoWait UndoStep = iota // wait for the block, or for an answer
	UndoAsk                  // ask what the stage of the node says
	UndoStop                 // start nothing of the block, and call [Undoing.Stopped] once nothing of it runs
	UndoEnd                  // nothing: an effect was undone, or cannot be
)

// NewUndoing returns the undoing of a run of which nothing was attempted.
func NewUndoing(progress *Progress) *Undoing {
	return &Undoing{plan: progress.plan, progress: progress}
}

// Attempt arms node i, whose effect is about to be attempted, if something undoes it.
func (u *Undoing) Attempt(i int) {
	if u.plan.Nodes[i].Undoes == 0 && !slices.Contains(u.armed, i) && u.plan.Undoable(i) {
		u.armed = append(u.armed, i)
	}
}

// Left reports whether there is something left to undo.
func (u *Undoing) Left() bool { return len(u.armed) > 0 || u.node != 0 }

// Node is the node that is being undone, or 0.
func (u *Undoing) Node() int { return u.node }

// Stage is how far the undoing of [Undoing.Node] is.
func (u *Undoing) Stage() UndoStage { return u.stage }

// Began reports whether something was undone, or was tried.
func (u *Undoing) Began() bool { return u.began }

// Compensated names the nodes that were undone, in that order.
func (u *Undoing) Compensated() []string { return u.compensated }

// NotCompensated names the nodes that could not be undone, in that order.
func (u *Undoing) NotCompensated() []string { return u.notCompensated }

// Next takes the next step. The end of the run is known, and something is left to undo.
func (u *Undoing) Next() UndoStep {
	switch {
	case u.node == 0:
		last := len(u.armed) - 1
		u.node, u.stage, u.failed, u.began = u.armed[last], UndoAsking, false, true
		u.armed = u.armed[:last]
		return UndoAsk
	case u.stage != UndoBlock:
		return UndoWait
	}
	any, all := u.progress.Undoes(u.node)
	switch u.failed = u.blockFailed(); {
	case u.failed:
		u.progress.Stop()
		return UndoStop
	case !all:
		return UndoWait
	case !any:
		u.end(false)
		return UndoEnd
	}
	u.stage = UndoVerifying
	return UndoAsk
}

// blockFailed reports whether a node that undoes the effect has failed, and nothing handles
// that.
func (u *Undoing) blockFailed() bool {
	return u.failed || slices.ContainsFunc(u.progress.Orphans(), func(i int) bool { return u.plan.Nodes[i].Undoes == u.node })
}

// Stands takes the answer to whether the effect stands, and whether its output is known. One
// that does not stand needs no undoing; otherwise the nodes run that undo it.
func (u *Undoing) Stands(stands, known bool) {
	if !stands {
		u.node = 0
		return
	}
	u.stage = UndoBlock
	u.progress.Undo(u.node, known)
}

// Verified takes the answer to whether the effect no longer stands.
func (u *Undoing) Verified(gone bool) { u.end(gone) }

// Unanswered notes that what was asked finds no answer.
func (u *Undoing) Unanswered() { u.end(false) }

// Stopped notes that nothing of a block that has failed runs any more.
func (u *Undoing) Stopped() { u.end(false) }

func (u *Undoing) end(compensated bool) {
	if id := u.plan.Nodes[u.node].ID; compensated {
		u.compensated = append(u.compensated, id)
	} else {
		u.notCompensated = append(u.notCompensated, id)
	}
	u.node = 0
}

// Carry writes what there is to undo into the state that an execution of a run passes to the
// next. What is being undone goes into c.Unwinding, if that is there.
func (u *Undoing) Carry(c *contract.Carried) {
	c.Armed = u.armed
	if w := c.Unwinding; w != nil {
		w.Compensated, w.NotCompensated = u.compensated, u.notCompensated
		w.Node, w.Stage, w.Orphans = u.node, byte(u.stage), u.node != 0 && u.blockFailed()
	}
}

// Restore restores what was carried, after the progress. It reports whether that fits the
// plan.
func (u *Undoing) Restore(c *contract.Carried) bool {
	for _, i := range c.Armed {
		if i <= 0 || i >= len(u.plan.Nodes) {
			return false
		}
	}
	u.armed = c.Armed
	w := c.Unwinding
	if w == nil {
		return true
	}
	if w.Node < 0 || w.Node >= len(u.plan.Nodes) || UndoStage(w.Stage) > UndoVerifying {
		return false
	}
	u.node, u.stage, u.failed, u.began = w.Node, UndoStage(w.Stage), w.Orphans, true
	u.compensated, u.notCompensated = w.Compensated, w.NotCompensated
	return true
}
