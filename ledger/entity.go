package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"chimera.ai/engine/contract"
)

// Agent is a row of AGENT_IDENTITY: on whose behalf plans act.
type Agent struct {
	AgentID string `json:"agent_id"`
	// PersonaRef and WalletAddress are the identity's own; "" is not known.
	PersonaRef    string `json:"persona_ref"`
	WalletAddress string `json:"wallet_address"`
	CreatedAt     Time   `json:"created_at"`
}

// Hypothesis is a row of CAUSAL_HYPOTHESIS: one simulation of an action, and
// what came true.
type Hypothesis struct {
	HypothesisID string `json:"hypothesis_id"`
	AgentID      string `json:"agent_id"`
	Description  string `json:"description"`
	// Inputs and Prediction are JSON objects; Prediction has KPIs and variances.
	Inputs     json.RawMessage `json:"inputs"`
	Prediction json.RawMessage `json:"prediction"`
	// RiskScore is a decimal between 0 and 1, as written.
	RiskScore json.Number     `json:"risk_score"`
	CreatedAt Time            `json:"created_at"`
	State     HypothesisState `json:"state"`
	// Observed holds the KPIs that were measured afterwards, or is absent.
	Observed json.RawMessage `json:"observed,omitempty"`
	// ToolID is the operation that was simulated.
	ToolID string `json:"tool_id,omitempty"`
}

// HypothesisState says what is known of a hypothesis.
type HypothesisState string

// The states of a hypothesis.
const (
	HypothesisOpen     HypothesisState = "stated"
	HypothesisMeasured HypothesisState = "observed"
)

// Observation is what was measured of KPIs that a hypothesis predicts.
type Observation struct {
	// Hypothesis is the id of the hypothesis.
	Hypothesis string
	// Observed is a JSON object, which gives KPIs their values: numbers and texts.
	Observed json.RawMessage
}

// Transaction is a row of FINANCIAL_LEDGER: one movement of an agent's money or
// budget.
type Transaction struct {
	TxID      string   `json:"tx_id"`
	AgentID   string   `json:"agent_id"`
	TxType    TxType   `json:"tx_type"`
	Amount    string   `json:"amount"`
	Currency  Currency `json:"currency"`
	Status    TxStatus `json:"status"`
	CreatedAt Time     `json:"created_at"`
	// Hold is the hold that it pays for.
	Hold string `json:"hold,omitempty"`
}

// TxType is what a transaction does to the budget.
type TxType string

// The transaction types.
const (
	TxHold      TxType = "hold"
	TxOverdraft TxType = "overdraft"
)

// TxStatus is where a transaction stands.
type TxStatus string

// The transaction states: pending until posted, voided or expired.
const (
	TxPending TxStatus = "pending"
	TxPosted  TxStatus = "posted"
	TxVoided  TxStatus = "voided"
	TxExpired TxStatus = "expired"
)

// Tool is a row of MCP_TOOL_REGISTRY: one operation as it was imported; or, with a name that has no
// slash, how an MCP server introduced itself then.
type Tool struct {
	ToolID       string          `json:"tool_id"`
	Name         string          `json:"name"`
	Version      string          `json:"version"`
	Schema       json.RawMessage `json:"schema"`
	RegisteredAt Time            `json:"registered_at"`
	// Fingerprint pins what was declared; Status is the trust state.
	Fingerprint string `json:"fingerprint"`
	Status      string `json:"status"`
}

// KnownTrust reports whether a text is a trust state of a tool: allow_auto, manual_review or
// block.
func KnownTrust(status string) bool {
	return status == "allow_auto" || status == "manual_review" || status == "block"
}

// Plan is a published plan: the source, never a compiled form.
type Plan struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Digest is that of the compiled plan, SourceDigest the blob with the source.
	Digest       string `json:"digest"`
	SourceDigest string `json:"source_digest"`
	Author       string `json:"author"`
	Agent        string `json:"agent"`
	PublishedAt  Time   `json:"published_at"`
	// Signature is the author's DSSE envelope over the source, or absent.
	Signature json.RawMessage `json:"signature,omitempty"`
}

// RunState is where a run stands.
type RunState string

// The run states.
const (
	RunRunning   RunState = "running"
	RunSucceeded RunState = "succeeded"
	RunFailed    RunState = "failed"
	RunCancelled RunState = "cancelled"
	// RunTerminated and RunTimedOut are ends that Temporal makes: the run itself
	// could neither state them, nor undo anything.
	RunTerminated RunState = "terminated"
	RunTimedOut   RunState = "timed_out"
)

// Ended reports whether s is one of the states in which a run ends.
func (s RunState) Ended() bool {
	switch s {
	case RunSucceeded, RunFailed, RunCancelled, RunTerminated, RunTimedOut:
		return true
	case RunRunning:
	}
	return false
}

// MaxRunValue bounds the value of a run, in bytes.
const MaxRunValue = 20 << 10

// Run is one run of a plan. Workflow and Root, the id of the workflow and of
// its first Temporal run, identify it.
type Run struct {
	Workflow string `json:"workflow"`
	Root     string `json:"root"`
	// Origin is the root run that a retried run continues, or Root.
	Origin      string `json:"origin"`
	PlanDigest  string `json:"plan_digest"`
	PlanName    string `json:"plan_name"`
	PlanVersion string `json:"plan_version"`
	Agent       string `json:"agent"`
	Requester   string `json:"requester"`
	InputDigest string `json:"input_digest"`
	// Grant is the start grant, the DSSE envelope as it was verified, and
	// GrantDigest the digest of what it signs; both are absent for a run that was
	// started without one, whose Requester nobody knows.
	Grant        json.RawMessage `json:"grant,omitempty"`
	GrantDigest  string          `json:"grant_digest,omitempty"`
	State        RunState        `json:"state"`
	OpenedAt     Time            `json:"opened_at"`
	ClosedAt     *Time           `json:"closed_at,omitempty"`
	OutputDigest string          `json:"output_digest,omitempty"`
	// Failure is the failure of a run that did not succeed, as clients see it.
	Failure json.RawMessage `json:"failure,omitempty"`
	// Subject names the person whom the run is about, "" for none. It is given when
	// the run is opened, and stored only beside the key with which everything that the
	// run states is sealed, until [Retention.EraseSubject] deletes that key. A run that
	// continues another is about the same person.
	Subject string `json:"-"`
	// Value is the output of a run that succeeded, in a form that only whoever wrote
	// it can read, of at most [MaxRunValue] bytes. It lies beside the log, which has
	// its digest alone, and goes with the subject, or with the run's bodies.
	Value []byte `json:"-"`
}

// Chain is the name of the run's chain of entries.
func (r *Run) Chain() string { return RunChain(r.Workflow, r.Root) }

// RunChain names the chain of a run.
func RunChain(workflow, root string) string { return runChains + workflow + "/" + root }

const runChains = "run/"

// RunOf returns the run whose chain has that name; ok is false for other chains. A
// root has no slash in it, a workflow id may have.
func RunOf(chain string) (workflow, root string, ok bool) {
	rest, ok := strings.CutPrefix(chain, runChains)
	i := strings.LastIndexByte(rest, '/')
	if !ok || i < 0 {
		return "", "", false
	}
	return rest[:i], rest[i+1:], true
}

// HypothesesChain names the chain of an agent's hypotheses.
func HypothesesChain(agent string) string { return "hypotheses/" + agent }

// SnapshotsChain names the chain of what was seen of a tool server.
func SnapshotsChain(server string) string { return "snapshots/" + server }

// The chains of facts that no run owns.
const (
	PlansChain     = "plans"
	AuthorityChain = "authority"
	AgentsChain    = "agents"
	ToolsChain     = "tools"
	LedgerChain    = "ledger"
	RulesChain     = "rules"
)

// BudgetChain names the chain of all budgets and holds of a currency. They are
// one chain since a hold depends on the budgets of parents too: what a chain
// says in its order can be replayed, however chains lie in the log.
func BudgetChain(c Currency) string { return "budget/" + string(c) }

// Outcome is how one node of a run ended.
type Outcome struct {
	Node    string `json:"node"`
	Visit   int    `json:"visit,omitempty"`
	Element int    `json:"element,omitempty"`
	// Kind is NodeSucceeded, NodeFailed or NodeSkipped.
	Kind     Kind   `json:"kind"`
	Activity string `json:"activity,omitempty"`
	Attempts int    `json:"attempts,omitempty"`
	// InputDigest and OutputDigest are of canonical JSON, "" where not known.
	InputDigest  string `json:"input_digest,omitempty"`
	OutputDigest string `json:"output_digest,omitempty"`
	// Error is the error payload of a failure, with what secrets scrubbing left.
	Error json.RawMessage `json:"error,omitempty"`
	// Snapshots are those of the last call of a pinned MCP tool, as the worker that made it has said, or nil.
	Snapshots *contract.Snapshots `json:"snapshots,omitempty"`
}

// Bounds of an [Order], in bytes.
const (
	MaxOrderBy     = 256
	MaxOrderReason = 1000
	MaxOrderSigned = 16 << 10
)

// Order is what a run was told by people: to pause, or to go on.
type Order struct {
	// Kind is RunPaused or RunResumed.
	Kind Kind `json:"kind"`
	// N numbers the orders to a run, from 1.
	N int `json:"n"`
	// By is who is said to have given it, and Reason why.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Signed is the envelope of an order that was signed, as it was verified. Signer is the
	// id of the signer whose key has signed it, or "" for a key that acts for the agent.
	// Nobody has verified who gives an order that has no envelope.
	Signed json.RawMessage `json:"signed,omitempty"`
	Signer string          `json:"signer,omitempty"`
}

// Check is a call of an operation on which an effect relies, as the role that calls effects
// states it. A node may be called several times in one visit.
type Check struct {
	Workflow string `json:"workflow"`
	Root     string `json:"root"`
	// Origin is that of the run: see [Run.Origin].
	Origin string `json:"origin"`
	Node   string `json:"node"`
	Visit  int    `json:"visit"`
	// Number counts the calls of the node in that visit, in the runs of one origin, from 1.
	Number int        `json:"number"`
	State  CheckState `json:"state"`
	// Failure is the kind of the failure, if the call has failed.
	Failure string `json:"failure,omitempty"`
	// InputDigest is that of the arguments, "" where there were none yet, and OutputDigest
	// that of what the call returned.
	InputDigest  string `json:"input_digest,omitempty"`
	OutputDigest string `json:"output_digest,omitempty"`
	// Barrier is one that was approved before the call was made, for which it was made; or "".
	Barrier string `json:"barrier,omitempty"`
	// Snapshots are those of the call of a pinned MCP tool, or nil.
	Snapshots *contract.Snapshots `json:"snapshots,omitempty"`
	MadeAt    Time                `json:"made_at"`
}

// CheckState says how the call of a check has ended.
type CheckState string

// The states of a check.
const (
	CheckSucceeded CheckState = "succeeded"
	CheckFailed    CheckState = "failed"
)

// MaxChecks bounds the calls of one node in one visit that a store takes, in the runs of one
// origin.
const MaxChecks = 10_000

// About is what the key of the check's entry says that it is about.
func (c *Check) About() string { return fmt.Sprintf("%s/%d/%d", c.Node, c.Visit, c.Number) }

// Valid returns an error unless the check says how a call has ended, and of what.
func (c *Check) Valid() error {
	switch {
	case c.Node == "" || c.Visit < 1:
		return fmt.Errorf("%w: a check of the node %.80q, visit %d", ErrInvalid, c.Node, c.Visit)
	case c.State == CheckSucceeded && c.Failure == "" && c.OutputDigest != "":
		return nil
	case c.State == CheckFailed && c.Failure != "" && c.OutputDigest == "":
		return nil
	}
	return fmt.Errorf("%w: a check that ends as %.40q with the failure %.80q and the output %.80q", ErrInvalid, string(c.State), c.Failure, c.OutputDigest)
}

// Budget is what an agent may spend in one currency, in each period anew.
type Budget struct {
	Agent    string   `json:"agent"`
	Currency Currency `json:"currency"`
	// Parent is the agent whose budget of the same currency is charged too, or "".
	Parent string `json:"parent,omitempty"`
	Every  Every  `json:"every"`
	Limit  Money  `json:"limit"`
	// Period is the one that Pending and Posted are of: see [Every.Period]. What is
	// Pending is held and not yet posted, what is Posted is spent.
	Period  string `json:"period"`
	Pending Money  `json:"pending"`
	Posted  Money  `json:"posted"`
}

// Every says how long a period of a budget is. Periods begin at midnight in UTC.
type Every string

// The lengths of periods.
const (
	Daily   Every = "day"
	Monthly Every = "month"
	// Forever is one period that has no end.
	Forever Every = "forever"
)

// Valid reports whether e is one of the lengths.
func (e Every) Valid() bool { return e == Daily || e == Monthly || e == Forever }

// Period names the period that an instant is in: "2026-11-23", "2026-11" or
// "forever".
func (e Every) Period(at Time) string {
	switch e {
	case Daily:
		return at.Time().UTC().Format("2006-01-02")
	case Monthly:
		return at.Time().UTC().Format("2006-01")
	case Forever:
	}
	return string(Forever)
}

// Hold reserves money for one call. For an effect its id is that of the decision that it
// is opened for, so a guard that is retried holds once.
type Hold struct {
	ID    string `json:"id"`
	Agent string `json:"agent"`
	// Charges are the budgets that it counts in: that of its agent, then that of the
	// parent, and so on. The store sets them when the hold is opened; it counts in the
	// same periods until it ends.
	Charges   []Charge `json:"charges"`
	Amount    Money    `json:"amount"`
	Status    TxStatus `json:"status"`
	Overdraft bool     `json:"overdraft,omitempty"`
	// Posted is what was spent of it, once it is posted.
	Posted    *Money `json:"posted,omitempty"`
	ExpiresAt Time   `json:"expires_at"`
	// Running: its effect is being called or of unknown outcome, so it does not
	// expire. The hold of a call without effect is running from the beginning.
	Running bool `json:"running,omitempty"`
	// Call is the call that it is for, if that has no effect, or if what calls of its run
	// may cost together is bounded. Otherwise it is nil.
	Call *HeldCall `json:"call,omitempty"`
}

// WithoutEffect reports that the hold is for a call without effect, which needs no permit.
func (h *Hold) WithoutEffect() bool { return h.Call != nil && h.Call.Root != "" }

// HoldAgain is the id of the hold of a call that the run of another root makes again, after a reset.
func HoldAgain(id, root string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "chimera-hold/again\x00%q\x00%q", id, root))
	return hex.EncodeToString(sum[:])
}

// HeldCall is the call that a hold is for.
type HeldCall struct {
	Workflow string `json:"workflow"`
	// Root is that of the run which makes the call, "" if the call has an effect, and
	// Origin as in [Run].
	Root   string `json:"root,omitempty"`
	Origin string `json:"origin"`
	Node   string `json:"node"`
	// Attested: by the catalog the output says what the call has cost. Otherwise all that
	// is held is spent.
	Attested bool `json:"attested,omitempty"`
	// Prob: the node is probabilistic, and Most is what calls of such nodes may cost
	// together in the runs of one origin, this one included; or nil.
	Prob bool   `json:"prob,omitempty"`
	Most *Money `json:"most,omitempty"`
}

// Charge names a period of an agent's budget.
type Charge struct {
	Agent  string `json:"agent"`
	Period string `json:"period"`
}

// The decisions. Approve is the one after which an action may be permitted; what people
// lift is decided anew, as that. Escalate leaves it to people, Reject to nobody.
const (
	Approve  = "APPROVE"
	Escalate = "ESCALATE"
	Reject   = "REJECT"
)

// KnownDecision reports whether a text is one of the decisions.
func KnownDecision(word string) bool { return word == Approve || word == Escalate || word == Reject }

// Decision is the guardian's verdict on an action.
type Decision struct {
	// ID is the invocation's, a slash, and the number of the decision about it, from 1.
	// The hold and the task that belong to the decision have the same id.
	ID string `json:"id"`
	// Invocation is the effect that it is about.
	Invocation   string `json:"invocation"`
	ActionDigest string `json:"action_digest"`
	PolicyDigest string `json:"policy_digest"`
	// Decision is [Approve], [Escalate] or [Reject].
	Decision string          `json:"decision"`
	Reason   string          `json:"reason"`
	Record   json.RawMessage `json:"record"`
	// Evidence is the digest of the evidence packet.
	Evidence  string `json:"evidence,omitempty"`
	DecidedAt Time   `json:"decided_at"`
	// Compensation is there if the plan says how the effect is undone.
	Compensation *Compensation `json:"compensation,omitempty"`
}

// Approval is a signature that arrived, and whether it counts.
type Approval struct {
	ID       string `json:"id"`
	Barrier  string `json:"barrier"`
	Signer   string `json:"signer"`
	Accepted bool   `json:"accepted"`
	// Reason says why one was refused.
	Reason string `json:"reason,omitempty"`
	// Actions are the digests of the actions that it approves, each of which it lets
	// be done by one invocation.
	Actions    []string        `json:"actions"`
	Envelope   json.RawMessage `json:"envelope"`
	ReceivedAt Time            `json:"received_at"`
}

// Barrier is a place where effects wait until people approve all of them at once. Each of its
// actions was decided on, and waits by that decision. At one of an outcome, people are asked
// what the call of its one action did, which was permitted by that decision.
type Barrier struct {
	// ID is that of the barrier in its runs, a slash, and the number of times that it was
	// opened, from 1.
	ID string `json:"id"`
	// Name is that of the plan: the barrier's, or the node's.
	Name string `json:"name"`
	// Outcome reports that people are asked what a call did.
	Outcome bool `json:"outcome,omitempty"`
	// Actions are sorted by invocation.
	Actions []Awaited `json:"actions"`
	// Request is what people complete and sign, in canonical JSON.
	Request   json.RawMessage `json:"request"`
	OpenedAt  Time            `json:"opened_at"`
	ExpiresAt Time            `json:"expires_at"`
	State     BarrierState    `json:"state"`
	// RemindEveryMS is the time between two reminders, in milliseconds, or 0, and EscalatesAt
	// when more groups are asked, or nil: what follows while the barrier is open.
	RemindEveryMS int64 `json:"remind_every_ms,omitempty"`
	EscalatesAt   *Time `json:"escalates_at,omitempty"`
	// Reminded counts the reminders so far, the last of which was at RemindedAt, and
	// EscalatedAt is when more groups were asked, or nil.
	Reminded    int   `json:"reminded,omitempty"`
	RemindedAt  *Time `json:"reminded_at,omitempty"`
	EscalatedAt *Time `json:"escalated_at,omitempty"`
	// The rest is there once it is closed. Reason is for people; Refused counts the
	// signatures that were refused, also those that the log does not have.
	ClosedAt *Time  `json:"closed_at,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Refused  int64  `json:"refused,omitempty"`
	// Workflow and Root are those of the run that has opened it.
	Workflow string `json:"workflow"`
	Root     string `json:"root"`
}

// Awaited is an action that waits at a barrier.
type Awaited struct {
	Invocation string `json:"invocation"`
	Action     string `json:"action"`
	// Decision is the one by which it waits. The hold and the task have the same id.
	Decision string `json:"decision"`
	// Undo lists the invocations that may undo it without another approval, sorted. There are
	// at most [MaxUndo].
	Undo []string `json:"undo,omitempty"`
}

// Asks reports whether people are asked at the barrier what the last call of an invocation
// did.
func (b *Barrier) Asks(i Invocation) bool {
	if !b.Outcome || len(b.Actions) != 1 {
		return false
	}
	x := b.Actions[0]
	return x.Invocation == i.ID && x.Action == i.ActionDigest && x.Decision == i.DecisionID && len(x.Undo) == 0
}

// BarrierState says where a barrier stands.
type BarrierState string

// The states of a barrier.
const (
	BarrierOpen BarrierState = "open"
	// BarrierApproved: enough people have approved, or said the same of a call.
	BarrierApproved BarrierState = "approved"
	BarrierRejected BarrierState = "rejected"
	BarrierExpired  BarrierState = "expired"
	// BarrierWithdrawn: nothing waits at it any more.
	BarrierWithdrawn BarrierState = "withdrawn"
)

// Closed reports whether nobody is asked any more.
func (s BarrierState) Closed() bool {
	switch s {
	case BarrierApproved, BarrierRejected, BarrierExpired, BarrierWithdrawn:
		return true
	case BarrierOpen:
	}
	return false
}

// MaxRefused is how many refused signatures the log keeps for a barrier. Beyond that they
// are counted.
const MaxRefused = 20

// MaxAwaited bounds the actions of a barrier.
const MaxAwaited = 256

// Consumption says that an approval counts for the invocation of one of its actions, and
// for no other.
type Consumption struct {
	Approval   string `json:"approval"`
	Action     string `json:"action"`
	Invocation string `json:"invocation"`
}

// Signer is a person's key with the roles that it may sign for.
type Signer struct {
	ID        string   `json:"id"`
	Person    string   `json:"person"`
	Roles     []string `json:"roles"`
	SigType   string   `json:"sig_type"`
	PublicKey string   `json:"public_key"`
	NotBefore Time     `json:"not_before"`
	NotAfter  Time     `json:"not_after"`
	RevokedAt *Time    `json:"revoked_at,omitempty"`
}

// Snapshot is what an MCP server declared around a call.
type Snapshot struct {
	Server      string `json:"server"`
	Fingerprint string `json:"fingerprint"`
	// Digest is the blob with the raw listing.
	Digest  string `json:"digest"`
	TakenAt Time   `json:"taken_at"`
}
