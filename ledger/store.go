package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"chimera.ai/engine/task"
)

// Errors of stores. They are wrapped with what was being done.
var (
	// ErrNotFound: there is no such thing.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the key has other content, or the state is not the one that the
	// operation needs.
	ErrConflict = errors.New("conflict")
	// ErrBudget: the hold does not fit in the budget; nothing was held.
	ErrBudget = errors.New("over budget")
	// ErrInvalid: an argument is malformed, too large, or cannot be stored, such as a text
	// with NUL bytes. Retrying does not help.
	ErrInvalid = errors.New("invalid")
	// ErrUnavailable: the store could not be reached, or could not write. The outcome of
	// the operation is unknown; retrying is safe.
	ErrUnavailable = errors.New("store unavailable")
	// ErrDenied: the user that the store was opened as may not do that. Nothing was done.
	ErrDenied = errors.New("the database user lacks this right")
	// ErrExpired: the permit may no longer be used; another may be asked for.
	ErrExpired = errors.New("expired")
	// ErrGone: the body was pruned or erased, or it is about an erased person.
	ErrGone = errors.New("gone")
)

// Store stores the state of a deployment and the log of its changes. Every method that
// changes something is one transaction together with its entries, and is idempotent: a
// second call finds what the first has done. Implementations are safe for concurrent use,
// and take the time from their own clock.
type Store interface {
	// Origin names the log.
	Origin() string

	Plans
	Runs
	Tasks
	Directory
	Budgets
	Effects
	Blobs
	Facts
	Log
	Retention

	// Close releases the store.
	Close() error
}

// Plans are published plans.
type Plans interface {
	// PublishPlan stores a plan under its name and version, and the time. Other
	// content under them is ErrConflict.
	PublishPlan(ctx context.Context, p Plan) (Plan, error)
	// Plan finds a plan by "name@version", "name" (the version that was
	// published last) or the digest of its compiled form.
	Plan(ctx context.Context, ref string) (Plan, error)
	// ListPlans lists plans, the last published first. It leaves out rows of the database that
	// are no plans.
	ListPlans(ctx context.Context, page Page) ([]Plan, error)
}

// Page bounds a listing: at most Limit items (0 is 100, and no more than 10,000),
// after skipping Offset.
type Page struct{ Limit, Offset int }

// Runs are runs and the outcomes of their nodes.
type Runs interface {
	// OpenRun states that a run has begun. A start grant opens one run of its workflow id
	// and the runs that continue it (with the same Origin); another run is ErrConflict.
	OpenRun(ctx context.Context, r Run) error
	// RecordOutcomes states how nodes of a run ended. It does not repeat outcomes that the
	// run has already.
	RecordOutcomes(ctx context.Context, workflow, root string, outcomes []Outcome) error
	// CloseRun states the last outcomes of a run's nodes and how it ended (state,
	// output or failure, value), unless the run has ended already: then CloseRun drops
	// both, and stood is true; the outcomes of the run are those in Outcomes. Either way
	// it returns the stored run. If r has a plan or an input, the run must have been
	// opened for them; otherwise the error is ErrConflict, as it is for outcomes that
	// contradict those of an open run.
	CloseRun(ctx context.Context, r Run, last []Outcome) (have Run, stood bool, err error)
	// Run finds the run of a workflow id, with its value; root "" means its latest.
	Run(ctx context.Context, workflow, root string) (Run, error)
	// OpenRuns lists runs that have not ended, ordered by workflow id and root, after the
	// given one; at most limit.
	OpenRuns(ctx context.Context, workflow, root string, limit int) ([]Run, error)
	// ListRuns lists runs, the last opened first.
	ListRuns(ctx context.Context, page Page) ([]Run, error)
	// RecordOrder states that a run was told to pause or to go on. An order of that number
	// and kind that is there is not stated again. The run must be open; a pause of a run
	// that is paused is ErrConflict, and so is a resumption of one that is not, unless it
	// continues another, which may have been. An envelope counts once for a run.
	RecordOrder(ctx context.Context, workflow, root string, o Order) error
	// Outcomes lists the outcomes of a run's nodes in the order in which they
	// were stated.
	Outcomes(ctx context.Context, workflow, root string, page Page) ([]Outcome, error)
}

// Tasks are effects as people and services see them: see package task. [Effects] drafts,
// signs and executes them.
type Tasks interface {
	// Task finds a task, ListTasks lists those of a state ("" is all), the last
	// drafted first. It leaves out rows of the database that are no tasks.
	Task(ctx context.Context, id string) (task.Task, error)
	ListTasks(ctx context.Context, state task.State, page Page) ([]task.Task, error)
}

// Directory stores agents, signers and tools.
type Directory interface {
	AddAgent(ctx context.Context, a Agent) error
	Agent(ctx context.Context, id string) (Agent, error)
	ListAgents(ctx context.Context, page Page) ([]Agent, error)

	EnrollSigner(ctx context.Context, s Signer) error
	RevokeSigner(ctx context.Context, id string) error
	Signer(ctx context.Context, id string) (Signer, error)
	ListSigners(ctx context.Context, page Page) ([]Signer, error)

	// RegisterTool stores tools under their ids; TrustTools sets their status. Each takes all of
	// them or none, at most MaxTools. An id without a tool is ErrNotFound.
	RegisterTool(ctx context.Context, tools ...Tool) error
	TrustTools(ctx context.Context, status string, ids ...string) error
	Tool(ctx context.Context, id string) (Tool, error)
	// Tools returns those of at most MaxTools ids that are there, sorted by id. Rows of more
	// than MaxToolBytes together are ErrInvalid.
	Tools(ctx context.Context, ids ...string) ([]Tool, error)
	ListTools(ctx context.Context, page Page) ([]Tool, error)
}

// Budgets are limits and the holds on them.
type Budgets interface {
	// SetBudget sets an agent's limit, for how long it is, and its parent. It ignores
	// Period, Pending and Posted of b.
	SetBudget(ctx context.Context, b Budget) error
	// Budget returns an agent's budget, with what is used of it in the period that the
	// store's clock is in. So does ListBudgets.
	Budget(ctx context.Context, agent string, c Currency) (Budget, error)
	ListBudgets(ctx context.Context, page Page) ([]Budget, error)
	// OpenHold reserves h.Amount on the agent's budget and all its parents at once, each
	// in the period that the store's clock is in, or returns ErrBudget and holds nothing.
	// One SQL statement decides, so two holds never pass if only one fits. An overdraft hold
	// always passes. For an id that has a hold already, OpenHold returns that hold.
	//
	// The store sets whether the hold is Running. One with a Call must fit in what that
	// allows, too. If its agent has no budget at all, it counts in none; a budget in another
	// currency is ErrBudget.
	OpenHold(ctx context.Context, h Hold) (Hold, error)
	// PostHold spends at most the amount of the hold and frees the rest, VoidHold frees
	// all of it; each at most once.
	PostHold(ctx context.Context, id string, spent Money) (Hold, error)
	VoidHold(ctx context.Context, id string) (Hold, error)
	// ExpireHolds ends pending holds that have expired, and returns how many. That of a
	// call without effect is posted as a whole then, once no run of its origin is open:
	// nobody says any more what the call has cost.
	ExpireHolds(ctx context.Context) (int, error)
	Hold(ctx context.Context, id string) (Hold, error)
	// Transactions lists an agent's FINANCIAL_LEDGER rows, the last first.
	Transactions(ctx context.Context, agent string, page Page) ([]Transaction, error)
}

// Effects are decisions, approvals and invocations.
type Effects interface {
	// Authorize decides on an action, in one transaction on the store's clock. If the
	// [Course] of the invocation is to [Decide], Authorize reserves the cost and calls
	// judge, perhaps several times, each time for another attempt of the transaction. It
	// records the decision, with its evidence, and the task; a decision that is not
	// [Approve] reserves nothing. If the decision is Approve, Authorize signs the task,
	// consumes the approvals and gives the invocation the permit. The run must be open.
	//
	// An error of judge is returned, and nothing is recorded. Another action of an
	// invocation that was called is [ErrConflict], as is an approval that is not accepted,
	// does not list the action, or is consumed by another invocation.
	Authorize(ctx context.Context, run Run, a Authorization, judge func(Standing) (Ruling, error)) (Authorized, error)
	// Claim begins a call, which ends within d, and uses the permit of the decision up:
	// see [Invocation.Claim]. Its hold does not expire any more. The token is one that no
	// other caller has: a claim that is repeated with its token is found. On [ErrConflict]
	// and [ErrExpired], the invocation is returned as it is.
	Claim(ctx context.Context, id, decision, token string, d time.Duration) (Invocation, error)
	// Settle ends a call or resolves an unknown one, posts or voids the hold, and executes
	// the task, in one transaction: see [Invocation.Settle]. What people have stated must have
	// been accepted at one barrier about this call, which was approved. On ErrConflict, the
	// invocation is returned as it is. An observation that cannot be recorded is left out.
	Settle(ctx context.Context, id string, e Effect) (Invocation, error)
	// Invocation returns the invocation with its output, if that was not pruned.
	Invocation(ctx context.Context, id string) (Invocation, error)
	// RecordCheck states a call on which an effect relies, and returns it with its number. It
	// is another one each time, and at most [MaxChecks]. The run must be open, and the
	// barrier, if there is one, approved in a run of the same origin.
	RecordCheck(ctx context.Context, run Run, c Check) (Check, error)
	// LastCheck returns the last check of a node in a visit, in the runs of one origin; if
	// barrier is not "", the last one that was made for it.
	LastCheck(ctx context.Context, workflow, origin, node string, visit int, barrier string) (Check, error)
	// Abandoned lists invocations whose call is over, and of whose origin no run is open, each
	// with its id and attempt alone; at most limit, in no order.
	Abandoned(ctx context.Context, limit int) ([]Invocation, error)

	Decision(ctx context.Context, id string) (Decision, error)
	// Calls lists the invocations of an operation by the decisions that permitted them last, from an
	// instant on, in the order of these.
	Calls(ctx context.Context, operation string, since Time, page Page) ([]PastCall, error)

	// OpenBarrier opens a barrier for actions that wait, each by the last decision about its
	// invocation; or one about the outcome of a call, which must be unknown. The store sets
	// when it was opened, and its state. One that is there is returned as it is. The run must
	// be open.
	OpenBarrier(ctx context.Context, run Run, b Barrier) (Barrier, error)
	// CloseBarrier closes a barrier, and returns it. One that is closed stays as it is. Once
	// its time is over on the store's clock, it is not approved, and otherwise it has not
	// expired: both are ErrConflict. If it is not approved, the holds of its actions are
	// voided, and their tasks closed. A barrier that was escalated is approved by
	// ApproveBarrier only.
	CloseBarrier(ctx context.Context, id string, end BarrierState, reason string) (Barrier, error)
	// ApproveBarrier closes a barrier that is approved, as one that was escalated or not:
	// it is ErrConflict if that has changed since it was read.
	ApproveBarrier(ctx context.Context, id, reason string, escalated bool) (Barrier, error)
	// RemindBarrier records that people are reminded, and EscalateBarrier that more groups
	// are asked; both return the barrier. It is ErrConflict if it is not time yet, on the
	// store's clock, or never will be. One that is closed, or was escalated, stays as it is.
	RemindBarrier(ctx context.Context, id string) (Barrier, error)
	EscalateBarrier(ctx context.Context, id string) (Barrier, error)
	Barrier(ctx context.Context, id string) (Barrier, error)
	// ListBarriers lists barriers of a state ("" is all), those that expire first at first.
	ListBarriers(ctx context.Context, state BarrierState, page Page) ([]Barrier, error)
	// Forsaken lists open barriers of whose origin no run is open; at most limit.
	Forsaken(ctx context.Context, limit int) ([]Barrier, error)

	// RecordApproval records a signature. Of those that are refused it records the first
	// [MaxRefused] of each barrier, and counts the rest.
	RecordApproval(ctx context.Context, run Run, a Approval) error
	// Approvals lists what arrived for a barrier, in order, Accepted what was accepted for
	// any of some barriers, and Consumptions what an approval counts for.
	Approvals(ctx context.Context, barrier string, page Page) ([]Approval, error)
	Accepted(ctx context.Context, barriers []string, page Page) ([]Approval, error)
	Consumptions(ctx context.Context, approval string) ([]Consumption, error)
}

// Authorization is what a decision is asked for.
type Authorization struct {
	// ID is the invocation's.
	ID string
	// Digest returns the digest of the action, with the invocation's salt: it is 16 random
	// bytes, which nobody has who has the log alone.
	Digest func(salt []byte) (string, error)
	// Salt is the invocation's, if it has none yet: 16 random bytes. If it is nil, the store makes one.
	// Who knows it beforehand calculates beforehand what depends on it.
	Salt       []byte
	Repeatable bool
	// Operation is the one that is called, "provider/operation", by which [Effects.Calls] finds it.
	Operation string
	// Agent pays the Cost, which may be nil: it is not known.
	Agent string
	Cost  *Money
	// Call is that of the hold.
	Call *HeldCall
	// Overdraft: people have approved that the cost exceeds the budget.
	Overdraft bool
	// Life is how long the permit may be used.
	Life time.Duration
	// Barrier is the one at which people have approved the action, or "", and Approvals are
	// the ids of the signatures. The task is the one that was drafted when it began to wait.
	Barrier   string
	Approvals []string
	// Task is the task without its id, state and time.
	Task task.Draft
}

// Standing is what a decision rests on besides the action and the policy.
type Standing struct {
	// At is the store's clock, and Until when the permit expires.
	At, Until Time
	// Decision is the id that the decision will have, about the action of that digest.
	Decision, ActionDigest string
	Salt                   []byte
	// Money says whether the cost is reserved, Hold by which hold, and Detail why not.
	Money  Reserve
	Hold   string
	Detail string
	// Calls counts the invocations of the run's origin, with this one.
	Calls int64
}

// Reserve is what became of the money for an action.
type Reserve string

// The outcomes of a reservation.
const (
	// NoBudget: the agent has no budget. Unpriced: it has one, and the cost is not known.
	NoBudget Reserve = "none"
	Unpriced Reserve = "unpriced"
	// Reserved: the cost is held. Exceeded: it does not fit.
	// Mismatched: the agent has a budget in other currencies only.
	Reserved   Reserve = "held"
	Exceeded   Reserve = "exceeded"
	Mismatched Reserve = "mismatched"
)

// Ruling is a decision, and what goes with it.
type Ruling struct {
	// Decision has its id, invocation, action and time from the store.
	Decision Decision
	Evidence Packet
	// Permit is the guardian's, if the decision is [Approve], and Signature that of the task.
	Permit    json.RawMessage
	Signature task.Signature
	// Hypothesis is the simulation on which the decision rests, or nil. It is stated with the
	// decision, for the agent of the run, unless it is there and says the same; if it says something
	// else, nothing is decided. It is about whom the run is about, and is erased with it.
	Hypothesis *Hypothesis
	// Waits is set if the decision is not Approve, and people may approve the action until
	// then: the money stays reserved.
	Waits *Time
}

// Authorized is what came of an authorization.
type Authorized struct {
	Course Course
	// Decision is the one that was made, or that stands; its zero value if the course is
	// [Wait] or [Resolve].
	Decision Decision
	// Invocation is as it is now; its zero value if it was never permitted.
	Invocation Invocation
	// Salt is that of the digest of its action.
	Salt []byte
}

// Effect is how a call ended, and what it brought.
type Effect struct {
	Settlement
	// Output is stored with the invocation, Spent posted (nil: the whole hold), and Result,
	// a JSON object, becomes the task's.
	Output []byte
	Spent  *Money
	Result json.RawMessage
	// Token is that of the claim, for whoever has made the call. Others only say of one that is
	// over that nobody knows what it did.
	Token string
	// Orphaned: nobody else can end the call, since its run has ended. It is abandoned.
	Orphaned bool
}

// Facts are statements without a state of their own.
type Facts interface {
	// StateHypothesis states a simulation. One of the id that says the same is found; one that says
	// something else is ErrConflict.
	StateHypothesis(ctx context.Context, h Hypothesis) error
	// ObserveHypothesis adds what was measured of KPIs: see [Hypothesis.Observe].
	ObserveHypothesis(ctx context.Context, id string, observed json.RawMessage) error
	Hypothesis(ctx context.Context, id string) (Hypothesis, error)
	// Hypotheses lists hypotheses, the first stated first. It leaves out rows of the database that are
	// none, and those about persons who were erased.
	Hypotheses(ctx context.Context, f HypothesisFilter, page Page) ([]Hypothesis, error)
	TakeSnapshot(ctx context.Context, s Snapshot) error
	// StateAuthority stores a verified statement. prev is the digest of the previous one,
	// "" for the first. If that has another successor, the error is ErrConflict; beyond
	// MaxStatements and MaxAuthority, it is ErrInvalid.
	StateAuthority(ctx context.Context, statement json.RawMessage, prev string) error
	// Authority lists the statements in order. More than a store takes are ErrInvalid.
	Authority(ctx context.Context) ([]json.RawMessage, error)
}

// Blobs are values by the digest of their bytes; see package blob.
type Blobs interface {
	PutBlob(ctx context.Context, b []byte) (digest string, err error)
	GetBlob(ctx context.Context, digest string) ([]byte, error)
	// CheckBlobs reports why a blob of size bytes could not be stored. It stores none.
	CheckBlobs(ctx context.Context, size int) error
}

// Record is an entry in the log.
type Record struct {
	// Bytes are the entry's canonical bytes, and Hash is their leaf hash.
	Bytes []byte
	Hash  Hash
	// Index is the entry's index in the tree, -1 until the sequencer assigns one.
	Index int64
}

// Status is what a store says of its log to an operator.
type Status struct {
	// Waiting counts the entries that wait for a place in the tree, and Lost those that have
	// none and do not wait for one. Since is when the first that waits was stated.
	Waiting int64 `json:"waiting"`
	Lost    int64 `json:"lost"`
	Since   *Time `json:"waiting_since,omitempty"`
	// Aside counts the rows that were set aside.
	Aside int64 `json:"aside"`
	// OpenRuns counts the runs that have not ended, Subjects those whose data are sealed, the
	// erased ones included, Erased these, and LegalHolds the chains under legal hold.
	OpenRuns   int64 `json:"open_runs"`
	Subjects   int64 `json:"subjects"`
	Erased     int64 `json:"erased_subjects"`
	LegalHolds int64 `json:"legal_holds"`
	// Keyring says why nothing about persons can be stated here, or is "": see [Log.Keyring].
	Keyring string `json:"keyring,omitempty"`
}

// Log is the Merkle log over all entries.
type Log interface {
	// Append states facts that no other method of the store states, in one
	// transaction, and returns their records. A draft whose key its chain has is
	// found if it says the same, else ErrConflict.
	Append(ctx context.Context, drafts ...Draft) ([]Record, error)
	// Records lists entries from an index on, in order; at most limit.
	Records(ctx context.Context, from int64, limit int) ([]Record, error)
	// Chain lists the entries of a chain from number from on, in order, sequenced or
	// not; at most limit.
	Chain(ctx context.Context, name string, from int64, limit int) ([]Record, error)
	// Find returns the record of a hash.
	Find(ctx context.Context, h Hash) (Record, error)
	// Pending lists entries without an index, in the order in which they will get one; at
	// most limit. Candidates lists the same as rows.
	Pending(ctx context.Context, limit int) ([]Record, error)
	Candidates(ctx context.Context, limit int) ([]Candidate, error)
	// Holders returns the rows that hold places in chains, one for each.
	Holders(ctx context.Context, places []Place) ([]Holder, error)
	// StoredBodies returns what is stored of bodies, by their digests.
	StoredBodies(ctx context.Context, digests []string) (map[string]StoredBody, error)
	// SetAside moves rows without an index to those that were set aside, so that their places
	// in chains are free again. A row that has got an index meanwhile stays.
	SetAside(ctx context.Context, rows []Aside) error
	// Asides lists what was set aside, by serial, after the given one; at most limit.
	Asides(ctx context.Context, after int64, limit int) ([]Aside, error)
	// Lost lists rows with serials beyond after that have no index and do not wait for one: by
	// the store's rules there are none. At most limit.
	Lost(ctx context.Context, after int64, limit int) ([]Candidate, error)
	// Recover returns such rows to those that wait, if the store can, and says how many there
	// were, and up to which serial it has looked.
	Recover(ctx context.Context, after int64) (found int, upTo int64, err error)
	// Body returns a body by its digest, opened if it is sealed; ErrGone if it was
	// pruned or erased. Stored returns it as it is stored.
	Body(ctx context.Context, digest string) ([]byte, error)
	Stored(ctx context.Context, digest string) ([]byte, error)
	// Packet returns an evidence packet, by its digest.
	Packet(ctx context.Context, digest string) (Packet, error)

	// Status counts what an operator looks at.
	Status(ctx context.Context) (Status, error)
	// Keyring returns nil if what is about persons can be stated and read, or if the database has
	// no keyring yet. If this process was given none, the error is ErrInvalid; if the one that it
	// was given lacks the key of the database, ErrUnavailable.
	Keyring(ctx context.Context) error

	// Lead makes the caller the log's one sequencer until release is called; ErrConflict if
	// there is another. ctx bounds only the attempt.
	Lead(ctx context.Context) (release func(), err error)
	// Integrate assigns the batch the indexes from size on, and stores tiles and the
	// signed checkpoint, in one transaction. It may delete tiles that are prefixes of the
	// new ones. The error is ErrConflict if the indexes that are assigned do not end at size.
	Integrate(ctx context.Context, size int64, batch []Hash, tiles []Tile, checkpoint []byte) error
	// Tile returns the hashes of a stored tile, or those with which a wider one begins.
	Tile(ctx context.Context, level int, n int64, width int) ([]byte, error)
	// Heads lists the rows that claim to be checkpoints, that of the largest size first, and of
	// one size the one that was added last, after the given one; at most limit.
	Heads(ctx context.Context, after Head, limit int) ([]Head, error)
	// Checkpoint returns the latest checkpoint, ErrNotFound if there is none, with
	// the cosignatures that AddCosignatures has stored for it. The store knows no keys: see
	// [Verified].
	Checkpoint(ctx context.Context) ([]byte, error)
	// AddCosignatures stores the cosignatures of a checkpoint that the log has, or
	// had: a witness may answer when there is a newer one. One of another tree is
	// ErrConflict. The caller has verified them.
	AddCosignatures(ctx context.Context, checkpoint []byte) error
	// Cosignatures lists the texts that AddCosignatures has stored for a size.
	Cosignatures(ctx context.Context, size int64) ([][]byte, error)
	// Cosigned lists the checkpoints that have cosignatures, with them, the latest
	// first; those of at most limit sizes.
	Cosigned(ctx context.Context, limit int) ([][]byte, error)
	// CosignedEvenly lists some of them, spread evenly, the oldest first and the latest included; at
	// most limit.
	CosignedEvenly(ctx context.Context, limit int) ([][]byte, error)
}

// Tile is a part of the tree's hashes: see [golang.org/x/mod/sumdb/tlog.Tile].
// Its height is [TileHeight].
type Tile struct {
	Level int
	N     int64
	Width int
	Data  []byte
}

// TileHeight is the height of tiles: a full one has 256 hashes.
const TileHeight = 8

// Policy says how long bodies of a class are kept. A class that it does not
// name is kept for ever, and so is Permanent, which it may not name.
type Policy map[Class]time.Duration

// Check reports what is wrong with a policy.
func (p Policy) Check() error {
	for c, keep := range p {
		switch {
		case c == Permanent || !c.Known():
			return fmt.Errorf("retention policy: %w: bodies of class %.40q are kept", ErrInvalid, string(c))
		case keep <= 0:
			return fmt.Errorf("retention policy: %w: bodies of class %s are kept for %s", ErrInvalid, c, keep)
		}
	}
	return nil
}

// Retention deletes bodies, and records that in the log.
type Retention interface {
	// Prune deletes bodies of a class that were stated before an instant and are
	// under no legal hold, and returns how many. It keeps permanent bodies.
	Prune(ctx context.Context, c Class, before time.Time, reason string) (int, error)
	// Retain prunes what is older than a policy keeps it, on the store's clock, and
	// tells how many bodies of each class. It stops at the first error.
	Retain(ctx context.Context, p Policy, reason string) (map[Class]int, error)
	// PlaceLegalHold keeps the bodies of a chain from being pruned or erased until
	// LiftLegalHold, which gives ErrNotFound where there is none.
	PlaceLegalHold(ctx context.Context, chain, reason string) error
	LiftLegalHold(ctx context.Context, chain, reason string) error
	// EraseSubject deletes the key under which a person's statements are sealed, in the log
	// and beside it, and destroys the key outside the database that wraps it. Runs about that
	// person continue, but no longer accept tasks, decisions, approvals or permits: the error
	// of those is ErrGone. If the chain of any of the runs is under legal hold, the error is ErrConflict;
	// if there is no such key, it is ErrNotFound. An erasure that was interrupted is completed
	// by the next one, of any person.
	EraseSubject(ctx context.Context, subject, reason string) error
	// EraseLost erases those persons whose keys do not open any more, such as after a backup
	// from before an erasure was restored, and those rows that are no keys. If there are none,
	// the error is ErrNotFound.
	EraseLost(ctx context.Context, reason string) error
}
