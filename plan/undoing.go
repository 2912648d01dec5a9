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
//
// An effect of unknown outcome may be undone before that, while the run goes on, so that error
// edges of its node handle the failure ([Undoing.Recover]). What of that is not done when the
// end is known is done then.
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
	// recoveries are undone while the run goes on, one after the other; the first is node,
	// unless that is 0. unwinding reports that the end of the run is known.
	recoveries []recovery
	unwinding  bool
	// began reports that something was undone, or was tried.
	began                       bool
	compensated, notCompensated []string
}

// recovery is a node of unknown outcome, and which of its error edges are delivered once its
// effect is undone.
type recovery struct {
	node int
	held []bool
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
	UndoEnd                  // nothing: an effect was undone, or cannot be; if the run was going on, the node has settled
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

// Recover has the effect of node i undone while the run goes on, or reports false where nothing
// undoes it, or none of its error edges would be delivered. The node is running, and has failed
// with an unknown outcome; held says which of its error edges hold, as for [Progress.Fail]. The
// node settles as failed once the effect is undone, or cannot be: then no edge of it is
// delivered, and its failure ends the run.
func (u *Undoing) Recover(i int, held []bool) bool {
	caught := slices.ContainsFunc(u.plan.Out(i), func(e int) bool {
		at := u.plan.HeldAt(e)
		return u.plan.Edges[e].FromPort == ErrorPort && at < len(held) && held[at]
	})
	if !caught || !u.plan.Undoable(i) || u.plan.Nodes[i].Undoes != 0 {
		return false
	}
	u.recoveries = append(u.recoveries, recovery{i, held})
	return true
}

// Recovering reports whether effects are undone while the run goes on.
func (u *Undoing) Recovering() bool { return len(u.recoveries) > 0 }

// Unwind notes that the end of the run is known: apart from what undoes an effect already,
// nothing starts any more.
func (u *Undoing) Unwind() {
	if u.unwinding {
		return
	}
	u.unwinding = true
	for u.Recovering() {
		u.settle(nil)
	}
	u.progress.Stop(u.node)
}

// Proceed takes the next step while the run goes on. Effects are to be undone meanwhile.
func (u *Undoing) Proceed() UndoStep {
	if u.node == 0 {
		return u.begin(u.recoveries[0].node)
	}
	return u.step()
}

// Next takes the next step. The end of the run is known, and something is left to undo.
func (u *Undoing) Next() UndoStep {
	u.Unwind()
	if u.node == 0 {
		return u.begin(u.armed[len(u.armed)-1])
	}
	return u.step()
}

// begin begins to undo the effect of node i, which is no longer armed.
func (u *Undoing) begin(i int) UndoStep {
	u.node, u.stage, u.failed, u.began = i, UndoAsking, false, true
	u.armed = slices.DeleteFunc(u.armed, func(n int) bool { return n == i })
	return UndoAsk
}

func (u *Undoing) step() UndoStep {
	if u.stage != UndoBlock {
		return UndoWait
	}
	some, all := u.progress.Undoes(u.node)
	switch u.failed = u.blockFailed(); {
	case u.failed && u.Recovering():
		u.settle(nil) // what runs of the block is awaited once the run unwinds
		return UndoEnd
	case u.failed:
		u.progress.Stop(0)
		return UndoStop
	case !all:
		return UndoWait
	case !some:
		u.end(false)
		return UndoEnd
	}
	u.stage = UndoVerifying
	return UndoAsk
}

// blockFailed reports whether a node that undoes the effect has failed, and nothing handles
// that.
func (u *Undoing) blockFailed() bool {
	return u.failed || u.progress.Broken(u.node)
}

// Stands takes the answer to whether the effect stands, and whether its output is known. One
// that does not stand needs no undoing; otherwise the nodes run that undo it.
func (u *Undoing) Stands(stands, known bool) {
	if !stands {
		u.node = 0
		u.recovered(true)
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
	u.recovered(compensated)
}

// recovered settles a node whose effect no longer stands, or cannot be undone, if that was
// done while the run went on.
func (u *Undoing) recovered(gone bool) {
	switch {
	case !u.Recovering():
	case gone:
		u.settle(u.recoveries[0].held)
	default:
		u.settle(nil)
	}
}

// settle settles the first node that is undone while the run goes on, with its failure.
func (u *Undoing) settle(held []bool) {
	i := u.recoveries[0].node
	u.recoveries = u.recoveries[1:]
	u.progress.Fail(i, held)
}

// Carry writes what there is to undo into the state that an execution of a run passes to the
// next: into c.Unwinding, if that is there, or otherwise into c.Undoing, if there is something.
func (u *Undoing) Carry(c *contract.Carried) {
	c.Armed = u.armed
	var w *contract.Undoing
	switch {
	case c.Unwinding != nil:
		w = &c.Unwinding.Undoing
	case !u.began && !u.Recovering():
		return
	default:
		w = &contract.Undoing{}
		c.Undoing = w
	}
	w.Compensated, w.NotCompensated = u.compensated, u.notCompensated
	w.Node, w.Stage, w.Orphans = u.node, byte(u.stage), u.node != 0 && u.blockFailed()
	for _, x := range u.recoveries {
		w.Recoveries = append(w.Recoveries, contract.Recovery{Node: x.node, Held: x.held})
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
	w := c.Undoing
	if c.Unwinding != nil {
		w, u.unwinding = &c.Unwinding.Undoing, true
	}
	if w == nil {
		return true
	}
	if w.Node < 0 || w.Node >= len(u.plan.Nodes) || UndoStage(w.Stage) > UndoVerifying || !u.unwinding && w.Node != 0 && len(w.Recoveries) == 0 {
		return false
	}
	for at, x := range w.Recoveries {
		if u.unwinding || x.Node <= 0 || x.Node >= len(u.plan.Nodes) || u.progress.Node(x.Node) != NodeRunning || at == 0 && w.Node != 0 && w.Node != x.Node {
			return false
		}
		u.recoveries = append(u.recoveries, recovery{x.Node, x.Held})
	}
	u.node, u.stage, u.failed, u.began = w.Node, UndoStage(w.Stage), w.Orphans, true
	u.compensated, u.notCompensated = w.Compensated, w.NotCompensated
	return true
}
