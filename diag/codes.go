package diag

// Code names a kind of finding. Codes are stable: tools may depend on them.
type Code string

// Codes of the lint pass.
const (
	PlanSyntax        Code = "plan/syntax"
	PlanSchema        Code = "plan/schema"
	PlanDuplicateID   Code = "plan/duplicate-id"
	PlanUnknownNode   Code = "plan/unknown-node"
	PlanUnknownPort   Code = "plan/unknown-port"
	PlanPortConflict  Code = "plan/port-conflict"
	PlanCycle         Code = "plan/cycle"
	PlanUnreachable   Code = "plan/unreachable"
	PlanErrorEdge     Code = "plan/error-edge"
	PlanCompensation  Code = "plan/compensation"
	PlanBarrier       Code = "plan/barrier"
	PlanLimits        Code = "plan/limits"
	PlanNotSupported  Code = "plan/not-supported"
	TypeSchema        Code = "type/schema"
	TypeNotContained  Code = "type/not-contained"
	TypeUnknown       Code = "type/unknown"
	TypeMissingInput  Code = "type/missing-input"
	TypeExpr          Code = "type/expr"
	TypeExprMayFail   Code = "type/expr-may-fail"
	TypePredicate     Code = "type/predicate"
	EffectPolicy      Code = "effect/commit-policy"
	EffectNotAllowed  Code = "effect/not-allowed"
	EffectProbCommits Code = "effect/prob-commits"
	EffectUngated     Code = "effect/ungated"
	EffectPrechecks   Code = "effect/prechecks"
	EffectRollback    Code = "effect/rollback"
	TrustProvider     Code = "trust/unknown-provider"
	TrustOperation    Code = "trust/unknown-operation"
	TrustBlocked      Code = "trust/blocked"
	TrustInsufficient Code = "trust/insufficient"
	TrustWeaker       Code = "trust/weaker-contract"
)
