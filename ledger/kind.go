package ledger

import (
	"maps"
	"slices"
)

// Kind says what an entry states. The set is closed: a verifier refuses a kind
// that it does not know, since it could not tell what follows from it.
type Kind string

// The kinds.
const (
	// AuthorityStated: an admin's statement about signers, roles, bundles, trust,
	// budgets, agents or publishers was accepted.
	AuthorityStated Kind = "authority.stated"
	// PlanPublished: the source of a plan was stored under a name and version.
	PlanPublished Kind = "plan.published"

	// RunOpened and RunClosed are the first and the last entry of a run's chain.
	RunOpened Kind = "run.opened"
	RunClosed Kind = "run.closed"
	// RunPaused and RunResumed: people have told a run to start nothing new, or to go on.
	RunPaused  Kind = "run.paused"
	RunResumed Kind = "run.resumed"
	// NodeSucceeded, NodeFailed and NodeSkipped are how a node ended.
	NodeSucceeded Kind = "node.succeeded"
	NodeFailed    Kind = "node.failed"
	NodeSkipped   Kind = "node.skipped"

	// CheckMade: the role that calls effects called an operation on which an effect relies.
	CheckMade Kind = "check.made"

	// TaskDrafted, TaskSigned and TaskExecuted are the life of a task.
	TaskDrafted  Kind = "task.drafted"
	TaskSigned   Kind = "task.signed"
	TaskExecuted Kind = "task.executed"
	// TaskClosed: nobody will sign the draft of a task any more.
	TaskClosed Kind = "task.closed"

	// DecisionMade: the guardian judged an action.
	DecisionMade Kind = "decision.made"
	// BarrierOpened and BarrierClosed: people are asked for their approval, and what came of
	// that.
	BarrierOpened Kind = "barrier.opened"
	BarrierClosed Kind = "barrier.closed"
	// BarrierReminded and BarrierEscalated: they have not approved for a while, and are
	// reminded, or more groups are asked.
	BarrierReminded  Kind = "barrier.reminded"
	BarrierEscalated Kind = "barrier.escalated"
	// ApprovalAccepted and ApprovalRefused: a signature arrived, and counts or not.
	ApprovalAccepted Kind = "approval.accepted"
	ApprovalRefused  Kind = "approval.refused"
	// ApprovalConsumed: a permit used the signatures up.
	ApprovalConsumed Kind = "approval.consumed"

	// The states of an invocation.
	InvocationPermitted Kind = "invocation.permitted"
	InvocationCalling   Kind = "invocation.calling"
	InvocationReleased  Kind = "invocation.released"
	InvocationSettled   Kind = "invocation.settled"
	InvocationUnknown   Kind = "invocation.unknown"

	// BudgetSet: an agent's limit in one currency, and how long its periods are.
	BudgetSet Kind = "budget.set"
	// The life of a hold on a budget.
	HoldOpened  Kind = "hold.opened"
	HoldRunning Kind = "hold.running"
	HoldPosted  Kind = "hold.posted"
	HoldVoided  Kind = "hold.voided"
	HoldExpired Kind = "hold.expired"

	// AgentAdded, SignerEnrolled, SignerRevoked, ToolRegistered and ToolTrusted are changes
	// of the directory.
	AgentAdded     Kind = "agent.added"
	SignerEnrolled Kind = "signer.enrolled"
	SignerRevoked  Kind = "signer.revoked"
	ToolRegistered Kind = "tool.registered"
	ToolTrusted    Kind = "tool.trusted"

	// HypothesisStated and HypothesisObserved: a simulation, and what came true.
	HypothesisStated   Kind = "hypothesis.stated"
	HypothesisObserved Kind = "hypothesis.observed"

	// SnapshotTaken: what an MCP server declared around a call.
	SnapshotTaken Kind = "snapshot.taken"

	// RulesKept: a policy, or what the catalog says of an operation, by which decisions are
	// made, so that they can be made again.
	RulesKept Kind = "rules.kept"

	// BodyPruned and SubjectErased: bodies were deleted, which explains why they are missing.
	BodyPruned    Kind = "body.pruned"
	SubjectErased Kind = "subject.erased"
	// LegalHoldPlaced and LegalHoldLifted keep bodies from being pruned.
	LegalHoldPlaced Kind = "legal-hold.placed"
	LegalHoldLifted Kind = "legal-hold.lifted"
)

// classes maps every kind to its retention class.
var classes = map[Kind]Class{
	AuthorityStated: Permanent, PlanPublished: Permanent,
	RunOpened: Operational, RunClosed: Operational, RunPaused: Operational, RunResumed: Operational,
	NodeSucceeded: Operational, NodeFailed: Operational, NodeSkipped: Operational,
	TaskDrafted: Evidence, TaskSigned: Evidence, TaskExecuted: Evidence, TaskClosed: Evidence, BarrierOpened: Evidence, BarrierClosed: Evidence,
	BarrierReminded: Evidence, BarrierEscalated: Evidence,
	CheckMade: Evidence, DecisionMade: Evidence, ApprovalAccepted: Evidence, ApprovalRefused: Evidence, ApprovalConsumed: Evidence,
	InvocationPermitted: Evidence, InvocationCalling: Evidence, InvocationReleased: Evidence,
	InvocationSettled: Evidence, InvocationUnknown: Evidence,
	BudgetSet: Permanent, HoldOpened: Financial, HoldRunning: Financial, HoldPosted: Financial, HoldVoided: Financial, HoldExpired: Financial,
	AgentAdded: Permanent, SignerEnrolled: Permanent, SignerRevoked: Permanent,
	ToolRegistered: Permanent, ToolTrusted: Permanent,
	HypothesisStated: Evidence, HypothesisObserved: Evidence, SnapshotTaken: Evidence, RulesKept: Permanent,
	BodyPruned: Permanent, SubjectErased: Permanent, LegalHoldPlaced: Permanent, LegalHoldLifted: Permanent,
}

// Kinds lists all kinds, sorted.
func Kinds() []Kind { return slices.Sorted(maps.Keys(classes)) }

// Known reports whether the format has the kind.
func (k Kind) Known() bool { return classes[k] != "" }

// Class is the retention class of the kind's bodies unless a draft says another.
func (k Kind) Class() Class { return classes[k] }

// Class is a retention class: how long a body is kept. Entries themselves are
// kept for ever.
type Class string

// The retention classes.
const (
	// Operational bodies tell how a run went.
	Operational Class = "operational"
	// Evidence bodies tell why an effect was allowed, and what it did.
	Evidence Class = "evidence"
	// Financial bodies are about money.
	Financial Class = "financial"
	// Permanent bodies are needed to verify all others, and never pruned.
	Permanent Class = "permanent"
)

// Known reports whether the format has the class.
func (c Class) Known() bool {
	switch c {
	case Operational, Evidence, Financial, Permanent:
		return true
	}
	return false
}
