// Package guardian decides whether an effect may happen. A decision is a function of
// the action, the operator's bundle and catalog, and of what was found out about
// budget, risk and approval: equal inputs give equal bytes, so that anyone may decide
// again what was decided before. The package reads no clock and does no I/O.
//
// All steps are taken for the record, in this order, and the first that objects
// decides:
//
//  1. The form of the action: REJECT malformed_action.
//  2. The operator's policy. REJECT policy:ID for a hard rule that does not hold, or
//     for any rule that cannot be evaluated; REJECT no_rule for an action that no
//     rule is about; REJECT not_allowed for an irreversible effect that `allow` does
//     not list; REJECT tainted for tainted inputs or decisions that nobody accepts;
//     REJECT cap:NAME for a bound of the run. ESCALATE policy:ID for a soft rule.
//  3. Budget: ESCALATE budget_exceeded, also where an agent with a budget calls what
//     has no known cost. REJECT budget_error if the answer is missing.
//  4. Risk, as it is given, or by the causal model of the operation: ESCALATE causal_risk
//     above the threshold; and for an operation without a model, or an action for which
//     that is not valid, unless the bundle lists the operation under `unmodelled`. REJECT
//     simulation_error for what the model cannot calculate, or a risk that is no
//     probability.
//  5. People: ESCALATE approval_needed where the plan or the bundle asks for approval.
//     Where that is asked, tainted inputs and decisions need no more. REJECT no_approval
//     for an irreversible effect that nobody is asked to approve, here or to lift what
//     escalates, unless an entry of `allow` says that it may go unattended.
//  6. APPROVE policy_clear, or human_approved where people have lifted what escalated.
//
// Only APPROVE executes. Whatever rejects in a step comes before whatever escalates
// in it. People are asked if nothing rejects, and the bundle names who may lift each
// reason that escalates.
package guardian
