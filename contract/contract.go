// Package contract is where workflow code and activities meet: the names of
// queues, activities, queries and workflow types, the requests and results
// that cross between them, and the closed set of error kinds.
//
// It holds data only. Nothing here reads a clock, a file or the network, so
// both sides of the determinism boundary may import it.
package contract

import (
	"encoding/json"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// WorkflowType is the type under which any Temporal client starts a run.
const WorkflowType = "chimera.Plan"

// Task queues. Workers of the engine's role poll two, those of the tools' role one.
const (
	QueueEngine = "chimera"
	QueueTools  = "chimera-tools"
	// QueueJournal is where workers of the engine's role write the ledger, and what
	// else a run needs to go on: hours of calls that fill the other queues' workers do
	// not hold it up.
	QueueJournal = "chimera-journal"
	// QueueGuardian is where effects are decided on, and QueueEffects where they are
	// called: workers of these two roles have no other queue.
	QueueGuardian = "chimera-guardian"
	QueueEffects  = "chimera-effects"
)

// WorkflowCall is the type of the child workflow that makes one call of a run which
// may continue as new meanwhile.
const WorkflowCall = "chimera.Call"

// SignalReport is the signal by which such a child reports, with a [Report].
const SignalReport = "chimera.report"

// SignalRecall asks a [WorkflowCall] not to make the call of an effect of which nothing was sent yet. Children
// of earlier builds, which would not wait for the outcome of what was sent, ignore it.
const SignalRecall = "chimera.recall"

// ShortWait is the longest wait between two attempts that is left to Temporal: a
// longer one is the interpreter's, which can continue as new meanwhile.
const ShortWait = 10 * time.Second

// ByReference is the size in bytes from which a value is stored and passed by
// reference.
const ByReference = 16 << 10

// QueryState is the query that answers with a [State].
const QueryState = "chimera.state"

// Activity types of the engine itself. Every other activity type is
// "provider/operation" of a node.
const (
	ActivityLoad    = "engine/load"
	ActivityLocal   = "engine/local"
	ActivityRoute   = "engine/route"
	ActivityJournal = "engine/journal"
	ActivityClose   = "engine/close"
	ActivityChild   = "engine/child"
	ActivitySteer   = "engine/steer"
	ActivityDecide  = "guard.decide"
	ActivityOpen    = "guard.open"
	ActivitySign    = "guard.sign"
	ActivityConfirm = "guard.confirm"
	ActivityHold    = "guard.hold"
	ActivityPost    = "guard.post"
)

// Search attributes of a run.
const (
	AttributePlan  = "ChimeraPlan"
	AttributeAgent = "ChimeraAgent"
	AttributeState = "ChimeraState"
)

// Start is the input of a run: exactly one of Plan and Source.
type Start struct {
	// Plan is a reference: "name@version" or "sha256:…".
	Plan string `json:"plan,omitempty"`
	// Source is the text of a plan file, YAML or JSON.
	Source string `json:"source,omitempty"`
	// Input is the plan's input; absent means {}.
	Input json.RawMessage `json:"input,omitempty"`
	// Grant is a start grant (a DSSE envelope).
	Grant json.RawMessage `json:"grant,omitempty"`
	// Subject names the person whom the run is about, or is "". The ledger's
	// data about the run can be erased under that name.
	Subject string `json:"subject,omitempty"`
}

// MaxSubject bounds a subject's name, in bytes.
const MaxSubject = 256

// IsSubject reports whether s can be the subject of a start; "" names nobody.
func IsSubject(s string) bool {
	return len(s) <= MaxSubject && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// Identity names a run; it is part of every request.
type Identity struct {
	// Workflow is the Temporal workflow id.
	Workflow string `json:"workflow"`
	// Root is the id of the first Temporal run. A reset begins another run.
	Root string `json:"root"`
	// Origin is the root of the run that this one continues after a reset, or
	// Root.
	Origin string `json:"origin"`
}

// LoadRequest asks engine/load to compile a plan, admit an input and state that
// the run has begun.
type LoadRequest struct {
	Run Identity `json:"run"`
	// Start is a [Start] as the client wrote it.
	Start json.RawMessage `json:"start"`
	// Attempt counts the attempts of the run to begin, from 1.
	Attempt int `json:"attempt,omitempty"`
}

// Value is one output port of a finished node, or a reference to it: a run has no
// large values, activities store and read them. Values of a node stand in the order
// of the compiled plan's Node.OutPorts; an absent port is nil.
type Value = json.RawMessage

// Outcome is what a successful node activity returns.
type Outcome struct {
	// Values has one entry for each of the node's OutPorts.
	Values []Value `json:"values,omitempty"`
	// Held has one entry for each of the node's outgoing edges that are not
	// error edges, in plan order: whether the edge is delivered.
	Held []bool `json:"held,omitempty"`
	// Input and Output are the digests of the node's input and output, as
	// canonical JSON.
	Input  string `json:"in,omitempty"`
	Output string `json:"out,omitempty"`
	// Snapshots are those of the call of a pinned MCP tool, or nil.
	Snapshots *Snapshots `json:"snapshots,omitempty"`
	// Attempts counts the calls made; 0 means one.
	Attempts int `json:"attempts,omitempty"`
	// Request is that of the [Call] that this answers.
	Request string `json:"request,omitempty"`
	// Probed reports that nothing was called, as requested.
	Probed bool `json:"probed,omitempty"`
	// Unopened is as in [Decided], of a question about an effect, or of a call on which one
	// relies: nothing was called.
	Unopened bool `json:"unopened,omitempty"`
	// Spent is what the call has cost, if the output says so: a decimal number of the
	// currency in which it was held.
	Spent string `json:"spent,omitempty"`
	// Unknown is the decision by which a call was permitted of which nobody knows what it did,
	// and about which people may be asked; or "". Nothing else is there then.
	Unknown string `json:"unknown,omitempty"`
}

// Delivery is one delivered edge that a request carries, with its value.
type Delivery struct {
	// Edge is an index into the plan's edges.
	Edge int `json:"edge"`
	// Value is the source port's value before the transform; nil for control edges.
	Value Value `json:"value,omitempty"`
	// Output is the source's whole output, where the transform reads it.
	Output Value `json:"output,omitempty"`
	// Error is the value of an error edge.
	Error *ErrorPayload `json:"error,omitempty"`
	// Args are the source's arguments, on a compensate edge, which has Output and Error, too.
	Args Value `json:"args,omitempty"`
}

// Call asks an activity to run one node.
type Call struct {
	Run Identity `json:"run"`
	// Plan is the plan's digest.
	Plan string `json:"plan"`
	// Node is an index into the plan's nodes.
	Node int `json:"node"`
	// Visit counts from 1 (loops).
	Visit int `json:"visit,omitempty"`
	// Input is the plan's input, where an expression of the node reads it.
	Input Value `json:"input,omitempty"`
	// Deliveries are the edges that fill the node's ports, in plan order.
	Deliveries []Delivery `json:"deliveries,omitempty"`
	// Spent counts the contract's attempts that were used up before this request.
	Spent int `json:"spent,omitempty"`
	// Paid counts the calls of the node before this one for which there was a hold.
	Paid int `json:"paid,omitempty"`
	// Request names this request among all of its workflow. The answer, or the
	// failure, repeats it.
	Request string `json:"request,omitempty"`
	// Patient reports that the store was unavailable before. The activity
	// checks that the store can be written to before it calls anything, and
	// Temporal retries it until it can.
	Patient bool `json:"patient,omitempty"`
	// Lean reports that the run holds much already, so that small values are
	// stored, too.
	Lean bool `json:"lean,omitempty"`
	// Probe asks the activity to call nothing, and to answer [Outcome.Probed]
	// once the store can be written to.
	Probe bool `json:"probe,omitempty"`
	// Permit lets the call of an effect be made. Without one the activity finds out
	// what became of an earlier call.
	Permit *Permit `json:"permit,omitempty"`
	// Stated is what people have stated about an earlier call, or nil.
	Stated *Approved `json:"stated,omitempty"`
	// Barrier is one at which people have approved an effect, of which the node is a precheck
	// that is called once more for that; or "". The answer has no values then.
	Barrier string `json:"barrier,omitempty"`
	// Listed is the definition that the server of the node's tool lists, if that differs from the pinned
	// one in its prose: people are asked whether to call the tool all the same. It is the word of the
	// worker that has listed it.
	Listed Value `json:"listed,omitempty"`
	// Undo asks about an effect that is to be undone, and calls it not: see [UndoAsk].
	Undo Undo `json:"undo,omitempty"`
}

// Undo is a question about an effect that is to be undone. The answer is an [Outcome] with one
// Held.
type Undo string

// The questions.
const (
	// UndoAsk: does the effect stand, or may it? The answer's Values are its arguments and its
	// output; the output is nil where it is not known.
	UndoAsk Undo = "ask"
	// UndoVerify: was it undone, as its verify says?
	UndoVerify Undo = "verify"
)

// Values returns the values of the call. A run has references in place of large
// ones.
func (c *Call) Values() []*Value {
	all := []*Value{&c.Input, &c.Listed}
	for i := range c.Deliveries {
		all = append(all, &c.Deliveries[i].Value, &c.Deliveries[i].Output, &c.Deliveries[i].Args)
	}
	return all
}

// RouteRequest asks engine/route which error edges of a failed node hold.
type RouteRequest struct {
	Run  Identity `json:"run"`
	Plan string   `json:"plan"`
	Node int      `json:"node"`
	// Error is the payload of the error edges.
	Error ErrorPayload `json:"error"`
	// Input is the plan's input, where a predicate reads it.
	Input Value `json:"input,omitempty"`
	// Request and Patient are as in [Call].
	Request string `json:"request,omitempty"`
	Patient bool   `json:"patient,omitempty"`
}

// RouteResult says which error edges are delivered.
type RouteResult struct {
	// Held has one entry for each outgoing error edge of the node, in plan order.
	Held []bool `json:"held"`
	// Request is that of the [RouteRequest] that this answers.
	Request string `json:"request,omitempty"`
}

// JournalEntry is the outcome of one node, for the ledger.
type JournalEntry struct {
	// Node is an index into the plan's nodes.
	Node    int `json:"node"`
	Visit   int `json:"visit"`
	Element int `json:"element,omitempty"`
	// State is Succeeded, Failed or Skipped.
	State    NodeState `json:"state"`
	Attempts int       `json:"attempts,omitempty"`
	// Input and Output are digests, as in [Outcome].
	Input  string `json:"in,omitempty"`
	Output string `json:"out,omitempty"`
	// Error is the failure of a failed node, without its details.
	Error *ErrorPayload `json:"error,omitempty"`
	// Snapshots are those of its last call, of a pinned MCP tool; or nil.
	Snapshots *Snapshots `json:"snapshots,omitempty"`
}

// MaxEntries is how many outcomes the interpreter states in one request, and how many
// engine/close states in one transaction with the end.
const MaxEntries = 1000

// JournalRequest asks engine/journal to state the outcomes of nodes in the
// ledger.
type JournalRequest struct {
	Run Identity `json:"run"`
	// Plan and Input are the digests of the plan and of its input, with which
	// the run was opened.
	Plan  string `json:"plan"`
	Input string `json:"input"`
	// Request is as in [Call].
	Request string `json:"request,omitempty"`
	// Entries may arrive more than once: in a repeated batch, and in the last
	// one those that an earlier one may have failed to write.
	Entries []JournalEntry `json:"entries,omitempty"`
	// Closing says that an end of the run may have been stated. Then the ledger
	// accepts no more outcomes: these are dropped, and the answer to the
	// [CloseRequest] that follows says what the ledger has.
	Closing bool `json:"closing,omitempty"`
	// Open asks for the run to be open in the ledger afterwards, also without entries:
	// an effect may follow.
	Open bool `json:"open,omitempty"`
}

// JournalReceipt is the answer to a [JournalRequest]. Only an answer that names the
// request confirms it.
type JournalReceipt struct {
	// Request is that of the request, and Root that of the run which it was written for:
	// a reset may have left an answer for the run before in the history.
	Request string `json:"request,omitempty"`
	Root    string `json:"root,omitempty"`
	// Ended reports that the run was to be open, and that the ledger has its end.
	Ended bool `json:"ended,omitempty"`
}

// CloseRequest asks engine/close to state the last outcomes of a run and how it
// ended, unless an end has been stated.
type CloseRequest struct {
	Run Identity `json:"run"`
	// Plan and Input are as in [JournalRequest]; both are empty for a run whose plan
	// was not loaded, which is closed only if it was opened all the same.
	Plan  string `json:"plan,omitempty"`
	Input string `json:"input,omitempty"`
	// Entries may have been stated before.
	Entries []JournalEntry `json:"entries,omitempty"`
	// End is the proposed end, and Output the output of a run that is to succeed.
	End    RunEnd `json:"end"`
	Output Value  `json:"output,omitempty"`
}

// Closed is the answer to a [CloseRequest]: the stated end, with which the run
// closes, whatever it had proposed.
type Closed struct {
	// Root is that of the run. An answer for another root, which a reset may have
	// left in the history, says nothing about this run.
	Root   string `json:"root"`
	End    RunEnd `json:"end"`
	Output Value  `json:"output,omitempty"`
	// Nodes is what the ledger has about the plan's nodes, if the end was
	// stated before the request: that may be less than the run states now, or
	// more.
	Nodes NodeStates `json:"nodes,omitempty"`
}

// RunEnd is how a run ended.
type RunEnd struct {
	// State is RunSucceeded, RunFailed or RunCancelled.
	State RunState `json:"state"`
	// Output is the digest of the result, as canonical JSON.
	Output  string   `json:"output,omitempty"`
	Failure *Failure `json:"failure,omitempty"`
}

// Result is the output of a run, which clients of any language read as JSON.
type Result json.RawMessage

// MarshalJSON gives the JSON text itself.
func (r Result) MarshalJSON() ([]byte, error) { return json.RawMessage(r).MarshalJSON() }

// UnmarshalJSON keeps the JSON text.
func (r *Result) UnmarshalJSON(b []byte) error { return (*json.RawMessage)(r).UnmarshalJSON(b) }

// Reference is what a client reads in place of a [Result] that is too large for
// the history.
type Reference struct {
	Ref Ref `json:"chimera_ref"`
}

// Ref names a value in the deployment's store.
type Ref struct {
	// Digest is that of what lies in the store, which may be compressed and sealed.
	Digest string `json:"digest"`
	// Bytes is about the size of the value.
	Bytes int64 `json:"bytes"`
	// How says how to get it.
	How string `json:"how"`
}

// RefHow is the advice of a [Ref].
const RefHow = "chimera status RUN --format json prints it as output, where the deployment's store (and its payload keys) can be reached; RUN is the workflow id"

// NodeState is the state of a node in a run.
type NodeState string

// The node states.
const (
	Pending   NodeState = "pending"
	Running   NodeState = "running"
	Succeeded NodeState = "succeeded"
	Failed    NodeState = "failed"
	Skipped   NodeState = "skipped"
	Dropped   NodeState = "dropped"
)

// RunState is the state of a run.
type RunState string

// The run states.
const (
	RunLoading   RunState = "loading"
	RunRunning   RunState = "running"
	RunPaused    RunState = "paused"
	RunSucceeded RunState = "succeeded"
	RunFailed    RunState = "failed"
	RunCancelled RunState = "cancelled"
)

// State is the answer to the query chimera.state.
type State struct {
	// Plan is name@version; Digest the compiled plan's digest. Before the plan is loaded there is
	// at most what the start names.
	Plan   string   `json:"plan"`
	Digest string   `json:"digest"`
	Agent  string   `json:"agent,omitempty"`
	State  RunState `json:"state"`
	// Counts has the number of nodes in each state.
	Counts Counts `json:"counts"`
	// Nodes lists nodes in plan order. A large plan's list leaves out pending
	// nodes first; Truncated then says so.
	Nodes     []NodeStatus `json:"nodes"`
	Truncated bool         `json:"truncated,omitempty"`
	// Failure is there once the run has failed or was cancelled.
	Failure *Failure `json:"failure,omitempty"`
	// StartedAt is when the run's first execution started, in RFC 3339; Executions
	// counts them, from 1: a long run continues as new.
	StartedAt  string `json:"started_at,omitempty"`
	Executions int    `json:"executions,omitempty"`
	// Waiting is what the run waits for; Truncated covers it, too.
	Waiting []Wait `json:"waiting,omitempty"`
	// Barriers are those at which people are asked.
	Barriers []BarrierStatus `json:"barriers,omitempty"`
	// Paused is there while people have paused the run.
	Paused *Pause `json:"paused,omitempty"`
}

// BarrierStatus is a barrier at which people are asked. Times are in RFC 3339.
type BarrierStatus struct {
	ID string `json:"id"`
	// Outcome reports that people are asked what a call did.
	Outcome bool `json:"outcome,omitempty"`
	// Nodes are those that wait at it.
	Nodes []string `json:"nodes"`
	Since string   `json:"since"`
	Until string   `json:"until"`
	// Missing are those who still have to sign.
	Missing []Group `json:"missing"`
	// Reminded counts the reminders, the last of which was at RemindedAt.
	Reminded   int    `json:"reminded,omitempty"`
	RemindedAt string `json:"reminded_at,omitempty"`
	// EscalatedAt is when the groups in EscalatedTo were asked, too.
	EscalatedAt string  `json:"escalated_at,omitempty"`
	EscalatedTo []Group `json:"escalated_to,omitempty"`
}

// WaitKind is what a run waits for.
type WaitKind string

// The kinds of wait.
const (
	// WaitCall is a call in flight, and WaitRetry the time before another attempt.
	WaitCall  WaitKind = "call"
	WaitRetry WaitKind = "retry"
	// WaitTimer is any other timer.
	WaitTimer WaitKind = "timer"
	// WaitStore is the store, which was unavailable; WaitQueue is a worker that
	// can make the node's call.
	WaitStore WaitKind = "store"
	WaitQueue WaitKind = "queue"
	// WaitJournal is the ledger, which records the outcomes of nodes.
	WaitJournal WaitKind = "journal"
	// WaitChild is a child workflow.
	WaitChild WaitKind = "child"
	// WaitGuardian is the guardian's decision on an effect.
	WaitGuardian WaitKind = "guardian"
	// WaitApproval is people, who are asked to approve an effect.
	WaitApproval WaitKind = "approval"
	// WaitResume is people, who have paused the run.
	WaitResume WaitKind = "resume"
)

// Wait is one thing that a run waits for. Times are in RFC 3339.
type Wait struct {
	Kind WaitKind `json:"kind"`
	// Node is a node's id, where one waits.
	Node string `json:"node,omitempty"`
	// Since is when the wait began, and Until when it ends at the latest, where
	// that is known.
	Since string `json:"since,omitempty"`
	Until string `json:"until,omitempty"`
	// Detail says more, for people.
	Detail string `json:"detail,omitempty"`
}

// Counts is the number of nodes in each state.
type Counts struct {
	Pending   int `json:"pending"`
	Running   int `json:"running"`
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	Skipped   int `json:"skipped"`
	Dropped   int `json:"dropped"`
}

// NodeStatus is one line of [State].
type NodeStatus struct {
	ID        string    `json:"id"`
	Operation string    `json:"operation"`
	State     NodeState `json:"state"`
	// Error is the failure of a failed node.
	Error *ErrorPayload `json:"error,omitempty"`
	// Attempts counts the calls made so far.
	Attempts int `json:"attempts,omitempty"`
	// StartedAt and EndedAt are when the node started and when it was settled, in
	// RFC 3339.
	StartedAt string `json:"started_at,omitempty"`
	EndedAt   string `json:"ended_at,omitempty"`
}
