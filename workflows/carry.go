package workflows

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

const (
	// hardFactor is how many times the soft bound (plan.Head.ContinueAfter) a
	// history may grow to, and hardBytes its size: far below Temporal's 51,200
	// events and 50 MB. Beyond, nothing new is launched until the run has
	// continued as new.
	hardFactor = 5
	hardBytes  = 20 << 20
	// softBytes is the size from which the run continues as new when it can.
	softBytes = 4 << 20
	// little is how many calls in flight are worth waiting for, once the soft bound is
	// passed.
	little = 4
)

// continueAsNew ends this execution and carries the state to the next.
func (r *run) continueAsNew() error {
	carried := &contract.Carried{
		Root:       r.root,
		Origin:     r.origin,
		StartedMS:  r.started.UnixMilli(),
		Executions: r.executions,
		ToolsQueue: r.toolsQueue,
		Times:      r.packTimes(),
		Attempts:   r.packAttempts(),
		Batch:      r.journal.batch,
		Entries:    slices.Concat(r.journal.left(), r.journal.elsewhere),
		Posts:      slices.Concat(r.payments.sent, r.payments.posts),
		Posting:    r.payments.batch,
	}
	r.carryBarriers(carried)
	r.carrySteering(carried)
	r.carryUndo(carried)
	r.progress.Carry(carried)
	for _, waits := range [][]*wait{r.flights, r.again, r.stalled, r.sleeping, r.parked} {
		for _, w := range waits {
			if w.ofNode() {
				carried.Waits = append(carried.Waits, r.carry(w))
			}
		}
	}
	for i := range r.plan.Nodes {
		if r.values[i] != nil {
			carried.Values = append(carried.Values, contract.NodeValues{Node: i, Values: r.values[i]})
		}
		if r.progress.Node(i) == plan.NodeFailed {
			carried.Errors = append(carried.Errors, *r.errors[i])
		}
	}
	loaded := &plan.Loaded{Plan: r.plan, Head: r.head}
	loaded.Head.Input = contract.Outcome{}
	return workflow.NewContinueAsNewError(r.ctx, contract.WorkflowType, json.RawMessage("null"), loaded, carried)
}

func (r *run) carry(w *wait) contract.CarriedWait {
	c := contract.CarriedWait{
		Kind: byte(w.kind), Node: w.node, SinceMS: w.since.UnixMilli(),
		Launches: w.launches, Lost: w.lost, Called: w.called, Waits: w.waits, Spent: w.spent, Child: w.child, Key: w.key, Hold: w.hold, Paid: w.paid,
		Decision: w.decision, Approved: w.approved, Outcome: w.outcome, Barrier: w.recheck, Checked: w.checked, Tried: w.tried,
		Listed: w.listed, Reworded: w.reworded,
	}
	if !w.due.IsZero() {
		c.DueMS = w.due.UnixMilli()
	}
	if w.kind == waitRoute {
		c.Error = r.errors[w.node]
	}
	return c
}

var errCarried = errors.New("the carried state does not fit the plan")

// restore restores the state carried by an earlier execution.
func (r *run) restore(c *contract.Carried) error {
	r.identifyAs(contract.Identity{Root: c.Root, Origin: c.Origin})
	if wasReset(r.info) {
		r.root = r.info.WorkflowExecution.RunID
	}
	r.started = time.UnixMilli(c.StartedMS).UTC()
	r.executions = c.Executions + 1
	r.toolsQueue = c.ToolsQueue
	r.journal.batch, r.journal.entries, r.journal.noted = c.Batch, c.Entries, len(c.Entries)
	r.payments.batch, r.payments.posts, r.payments.noted = c.Posting, c.Posts, len(c.Posts)
	if !r.progress.Restore(c) || !r.unpackTimes(c.Times) || !r.unpackAttempts(c.Attempts) || !r.restoreNodes(c) {
		return errCarried
	}
	for _, e := range c.Entries {
		if e.Node < 0 || e.Node >= len(r.plan.Nodes) {
			return errCarried
		}
	}
	for _, v := range c.Values {
		if v.Node < 0 || v.Node >= len(r.values) {
			return errCarried
		}
		r.hold(v.Node, v.Values)
	}
	if !r.restoreUndo(c) {
		return errCarried
	}
	for i := range c.Waits {
		if !r.restoreWait(&c.Waits[i]) {
			return errCarried
		}
	}
	r.restoreBarriers(c)
	return nil
}

// restoreNodes restores the states of nodes and edges.
func (r *run) restoreNodes(c *contract.Carried) bool {
	failures := c.Errors
	for i := range r.plan.Nodes {
		if r.progress.Node(i).Settled() {
			r.ahead -= weight(&r.plan.Nodes[i])
		}
		if r.progress.Node(i) == plan.NodeFailed {
			if len(failures) == 0 {
				return false
			}
			r.errors[i], failures = &failures[0], failures[1:]
		}
	}
	for i := range r.plan.Nodes {
		if r.progress.Node(i).Settled() {
			r.read(i, func(from int) { r.remaining[from]-- })
		}
	}
	return true
}

func (r *run) restoreWait(c *contract.CarriedWait) bool {
	if c.Node < 0 || c.Node >= len(r.plan.Nodes) || waitKind(c.Kind) != waitUndo && r.progress.Node(c.Node) != plan.NodeRunning {
		return false
	}
	w := &wait{
		kind: waitKind(c.Kind), node: c.Node, since: time.UnixMilli(c.SinceMS).UTC(), child: c.Child, hold: c.Hold, decision: c.Decision, approved: c.Approved, outcome: c.Outcome,
		tries:   tries{launches: c.Launches, lost: c.Lost, called: c.Called, waits: c.Waits, spent: c.Spent, paid: c.Paid},
		recheck: c.Barrier, checked: c.Checked, tried: c.Tried, listed: c.Listed, reworded: c.Reworded,
	}
	if c.DueMS != 0 {
		w.due = time.UnixMilli(c.DueMS).UTC()
	}
	switch w.kind {
	case waitRoute:
		if c.Error == nil {
			return false
		}
		r.errors[w.node] = c.Error
	case waitChild:
		w.key, w.decided = c.Key, r.plan.Nodes[c.Node].Guarded()
		return r.adopt(w)
	case waitCall, waitUndo:
	case waitCheck:
		if w.recheck == "" || w.checked < 0 || w.checked >= len(r.plan.Nodes[w.node].Prechecks()) {
			return false
		}
	case waitBarrier:
		r.parked = append(r.parked, w)
		return w.decision != ""
	case waitJournal, waitGuardian, waitPost, waitOpen, waitSign, waitSteer:
		return false
	default:
		return false
	}
	if w.due.IsZero() {
		r.again = append(r.again, w)
	} else {
		r.sleeping = append(r.sleeping, w)
	}
	return true
}

// packTimes encodes when nodes began and how long they took; zero means not yet.
func (s *scope) packTimes() []byte {
	var b []byte
	for i := range s.began {
		b = binary.AppendUvarint(b, uint64(s.began[i]))
		took := int64(0)
		if s.ended[i] > 0 {
			took = s.ended[i] - s.began[i] + 1
		}
		b = binary.AppendUvarint(b, uint64(max(took, 0)))
	}
	return b
}

func (s *scope) unpackTimes(b []byte) bool {
	for i := range s.began {
		began, n := binary.Uvarint(b)
		if n <= 0 || began > 1<<62 {
			return false
		}
		took, m := binary.Uvarint(b[n:])
		if m <= 0 || took > 1<<62 {
			return false
		}
		b = b[n+m:]
		if s.began[i] = int64(began); took > 0 {
			s.ended[i] = int64(began) + int64(took) - 1
		}
	}
	return len(b) == 0
}

// packAttempts encodes the attempts of nodes that took more than one, each preceded
// by the number of nodes since the last.
func (s *scope) packAttempts() []byte {
	var b []byte
	last := 0
	for i, n := range s.attempts {
		if n > 1 {
			b = binary.AppendUvarint(b, uint64(i-last))
			b = binary.AppendUvarint(b, uint64(n))
			last = i
		}
	}
	return b
}

func (s *scope) unpackAttempts(b []byte) bool {
	at := uint64(0)
	for len(b) > 0 {
		step, n := binary.Uvarint(b)
		if n <= 0 {
			return false
		}
		attempts, m := binary.Uvarint(b[n:])
		at += step
		if m <= 0 || step > uint64(len(s.attempts)) || at >= uint64(len(s.attempts)) || attempts > 1<<30 {
			return false
		}
		s.attempts[at] = int32(attempts)
		b = b[n+m:]
	}
	return true
}
