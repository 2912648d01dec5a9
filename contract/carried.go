package contract

import "encoding/json"

// Carried is the state of a run that continues as new. Large parts travel by
// reference, like every large value.
type Carried struct {
	// Root and Origin are as in [Identity].
	Root   string `json:"root"`
	Origin string `json:"origin"`
	// StartedMS is when the first run started, in Unix milliseconds.
	StartedMS int64 `json:"started_ms"`
	// Executions counts the executions of the run so far.
	Executions int `json:"executions"`
	// ToolsQueue is the task queue of calls that are not in-process.
	ToolsQueue string `json:"tools_queue"`
	// Nodes and Edges hold one state a byte, in plan order.
	Nodes []byte `json:"nodes"`
	Edges []byte `json:"edges"`
	// Times has when nodes began and ended, and Attempts the attempts of those that
	// took more than one, both packed by the interpreter.
	Times    []byte `json:"times,omitempty"`
	Attempts []byte `json:"attempts,omitempty"`
	// Queue lists nodes that are to run next.
	Queue []int `json:"queue,omitempty"`
	// Waits lists what the run waits for.
	Waits []CarriedWait `json:"waits,omitempty"`
	// Unhandled lists failed nodes whose failure no node has handled yet.
	Unhandled []int `json:"unhandled,omitempty"`
	// Values holds the outputs that nodes still to run read.
	Values []NodeValues `json:"values,omitempty"`
	// Errors holds the failures of nodes so far.
	Errors []ErrorPayload `json:"errors,omitempty"`
	// Batch is the number of the last journal batch.
	Batch int `json:"batch,omitempty"`
	// Entries are outcomes that the ledger may not have yet.
	Entries []JournalEntry `json:"entries,omitempty"`
	// Posts are holds that have not been ended yet, and Posting is the number of the last
	// request to.
	Posts   []Post `json:"posts,omitempty"`
	Posting int    `json:"posting,omitempty"`
	// Barriers are open, Signatures have arrived and are not verified yet, and Signing is the
	// number of the last request to the guardian about both.
	Barriers   []CarriedBarrier  `json:"barriers,omitempty"`
	Signatures []json.RawMessage `json:"signatures,omitempty"`
	Signing    int               `json:"signing,omitempty"`
	// Steering is there if people have told the run something.
	Steering *CarriedSteering `json:"steering,omitempty"`
	// Armed lists the nodes whose effects may have to be undone, in the order in which they
	// were attempted. Unwinding is there once the run's end is known, and Undoing before that
	// if the run has undone effects of unknown outcome, or does so.
	Armed     []int      `json:"armed,omitempty"`
	Undoing   *Undoing   `json:"undoing,omitempty"`
	Unwinding *Unwinding `json:"unwinding,omitempty"`
}

// Unwinding is a run that undoes its effects, across executions.
type Unwinding struct {
	// End is how the run will end.
	End RunEnd `json:"end"`
	Undoing
}

// Undoing is how far the undoing of effects is, across executions.
type Undoing struct {
	// Compensated and NotCompensated say what was undone so far.
	Compensated    []string `json:"compensated,omitempty"`
	NotCompensated []string `json:"not_compensated,omitempty"`
	// Node is being undone, or 0, and Stage says how far that is. Args and Output are those
	// of its call, and Orphans reports that a node of its block has failed unhandled.
	Node    int   `json:"node"`
	Stage   byte  `json:"stage,omitempty"`
	Args    Value `json:"args,omitempty"`
	Output  Value `json:"output,omitempty"`
	Orphans bool  `json:"orphans,omitempty"`
	// Recoveries are undone one after the other while the run goes on. The first is Node, unless
	// that is 0.
	Recoveries []Recovery `json:"recoveries,omitempty"`
}

// Recovery is a node that has failed with an unknown outcome, and whose error edges are
// delivered once its effect is undone: those of Held, which is in plan order.
type Recovery struct {
	Node  int           `json:"node"`
	Held  []bool        `json:"held"`
	Error *ErrorPayload `json:"error"`
}

// CarriedSteering is what people have told a run, across executions.
type CarriedSteering struct {
	// Paused is there while the run is paused.
	Paused *Pause `json:"paused,omitempty"`
	// Orders counts the orders that were recorded or refused, and Unsigned the pauses among
	// them that nobody has signed.
	Orders   int `json:"orders"`
	Unsigned int `json:"unsigned,omitempty"`
	// Sent is the order that may be on its way to the ledger, with the number after Orders.
	Sent *CarriedOrder `json:"sent,omitempty"`
}

// CarriedOrder is an order that is not answered yet.
type CarriedOrder struct {
	Order    Order           `json:"order"`
	Argument json.RawMessage `json:"argument"`
	// ArrivedMS is when it arrived, in Unix milliseconds.
	ArrivedMS int64 `json:"arrived_ms"`
}

// CarriedBarrier is an open barrier, across executions. Times are in Unix milliseconds.
type CarriedBarrier struct {
	Name    string  `json:"name"`
	ID      string  `json:"id"`
	Outcome bool    `json:"outcome,omitempty"`
	SinceMS int64   `json:"since_ms"`
	DueMS   int64   `json:"due_ms"`
	Missing []Group `json:"missing,omitempty"`
	// NextMS and Followed are as in [Barrier].
	NextMS   int64    `json:"next_ms,omitempty"`
	Followed Followed `json:"followed,omitzero"`
}

// CarriedWait is one thing that a run waits for, across executions.
type CarriedWait struct {
	// Kind is the interpreter's.
	Kind byte `json:"kind"`
	// Node is an index into the plan's nodes.
	Node int `json:"node"`
	// SinceMS is since when it waits, and DueMS when it goes on, in Unix
	// milliseconds; DueMS 0 means as soon as there is room.
	SinceMS int64 `json:"since_ms"`
	DueMS   int64 `json:"due_ms,omitempty"`
	// Launches counts the requests made so far, Lost the workers that were lost with
	// them, Waits the waits outside the contract, and Spent the contract's attempts.
	Launches int `json:"launches,omitempty"`
	Lost     int `json:"lost,omitempty"`
	// Called reports that one of the workers that were lost may have made the call.
	Called bool `json:"called,omitempty"`
	Waits  int  `json:"waits,omitempty"`
	Spent  int  `json:"spent,omitempty"`
	// Error is the failure whose error edges are to be chosen.
	Error *ErrorPayload `json:"error,omitempty"`
	// Child is the child workflow that makes the call, and Key the id of the payload
	// key that it reports with.
	Child *Child `json:"child,omitempty"`
	Key   string `json:"key,omitempty"`
	// Hold is the hold for what the call costs, or "", and Paid as in [Call].
	Hold string `json:"hold,omitempty"`
	Paid int    `json:"paid,omitempty"`
	// Decision is the one by which the node waits at a barrier, or "", and Approved reports
	// that people have approved it there.
	Decision string `json:"decision,omitempty"`
	Approved bool   `json:"approved,omitempty"`
	// Outcome reports that people are asked what the call did.
	Outcome bool `json:"outcome,omitempty"`
	// Barrier is the one for which the prechecks of the node are called once more, or "".
	// Checked counts those that were, and Tried the calls of the next.
	Barrier string `json:"barrier,omitempty"`
	Checked int    `json:"checked,omitempty"`
	Tried   int    `json:"tried,omitempty"`
	// Listed is as in [Call], and Reworded counts the definitions so far.
	Listed   Value `json:"listed,omitempty"`
	Reworded int   `json:"reworded,omitempty"`
}

// NodeValues is the values of one node's OutPorts.
type NodeValues struct {
	Node   int     `json:"node"`
	Values []Value `json:"values"`
}
