package compiler

import (
	"fmt"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/plan"
)

// trust admits each operation: it stands in the catalog, is not blocked, and
// its state is what the node requires.
func (u *unit) trust() {
	for _, doc := range u.docs {
		for _, n := range doc.nodes {
			if n.kind != plan.KindCall || n.provider == "" || n.operation == "" {
				continue
			}
			if n.trust == plan.Block {
				u.report(diag.Diagnostic{
					Code: diag.TrustBlocked, Summary: fmt.Sprintf("node %s asks to be blocked", quote(n.id)),
					Detail:  "`trust_requirement: block` never runs. Take the node out, or ask for `allow_auto` or `manual_review`.",
					Subject: n.trustRange(), Node: n.id,
				})
			}
			if !n.subplan() {
				u.admit(n)
			}
		}
	}
}

func (u *unit) admit(n *node) {
	if n.template == nil {
		if n.templateAt == nil && n.providerAt != nil && n.operationAt != nil {
			u.unknownOperation(n, n.operationAt.Range, n.providerType, n.provider, n.operation, n.providerAt.Range, false)
		}
		return
	}
	t := n.template
	if n.typeAt != nil && n.providerType != "" && n.providerType != t.ProviderType {
		u.report(diag.Diagnostic{
			Code: diag.TrustProvider, Summary: fmt.Sprintf("the provider %s is of type `%s`", quote(n.provider), t.ProviderType),
			Detail:  "The catalog lists it under that type.",
			Subject: n.typeAt.Range, Context: t.Range, Node: n.id, Suggestion: string(t.ProviderType),
		})
		return
	}
	name := quote(operationName(t.Provider, t.Operation))
	switch status := t.state(); {
	case status == plan.Block:
		u.report(diag.Diagnostic{
			Code: diag.TrustBlocked, Summary: fmt.Sprintf("the operation %s is blocked", name),
			Detail:  "The operator's catalog forbids every call of it.",
			Subject: n.operationRange(), Context: t.Range, Node: n.id,
		})
	case status == plan.ManualReview && n.trust == plan.AllowAuto:
		u.report(diag.Diagnostic{
			Code: diag.TrustInsufficient, Summary: fmt.Sprintf("the operation %s is not trusted enough for `allow_auto`", name),
			Detail:  "Its state in the catalog is `manual_review`: every call waits for a human review, so the node must ask for one.",
			Subject: n.trustRange(), Context: t.Range, Node: n.id, Suggestion: "trust_requirement: manual_review",
		})
	}
	u.weaker(n, t)
	u.weakerSchemas(n, t)
}

// weaker refuses a node that promises less care than its template asks for.
func (u *unit) weaker(n *node, t *Template) {
	report := func(field, given, want string, at diag.Range) {
		u.report(diag.Diagnostic{
			Code: diag.TrustWeaker, Summary: fmt.Sprintf("`%s: %s` is weaker than the catalog's `%s`", field, given, want),
			Detail:  fmt.Sprintf("A node may only be stricter than what the catalog says of %s.", quote(operationName(t.Provider, t.Operation))),
			Subject: at, Context: t.Range, Node: n.id, Suggestion: field + ": " + want,
		})
	}
	if n.effectAt != nil && n.effect != "" && rank(effectClasses, string(n.effect)) < rank(effectClasses, string(t.Effect)) {
		report("effect_class", string(n.effect), string(t.Effect), n.effectAt.Range)
	}
	if n.trustAt != nil && n.trust != "" && t.Trust != "" && rank(trustStates, string(n.trust)) < rank(trustStates, string(t.Trust)) {
		report("trust_requirement", string(n.trust), string(t.Trust), n.trustAt.Range)
	}
	if n.modeAt != nil && n.mode == plan.Deter && t.Mode == plan.Prob {
		report("mode", string(n.mode), string(t.Mode), n.modeAt.Range)
	}
	if n.templateAt == nil {
		return
	}
	if n.timeoutAt != nil && t.TimeoutMS > 0 && n.timeout > t.TimeoutMS {
		report("timeout_ms", fmt.Sprint(n.timeout), fmt.Sprint(t.TimeoutMS), n.timeoutAt.Range)
	}
	if n.retryAt != nil && t.Retry.MaxAttempts > 0 && n.retry.MaxAttempts > t.Retry.MaxAttempts {
		at := n.retryAt.Get("max_retries")
		report("max_retries", fmt.Sprint(n.retry.MaxAttempts-1), fmt.Sprint(t.Retry.MaxAttempts-1), at.Range)
	}
}

// rank is the place of a word in a set that is ordered from lax to strict.
func rank(set []string, word string) int {
	for i, s := range set {
		if s == word {
			return i
		}
	}
	return -1
}

func (n *node) trustRange() diag.Range {
	if n.trustAt != nil {
		return n.trustAt.Range
	}
	return n.operationRange()
}

// state is the template's trust state; one that is not given is manual_review.
func (t *Template) state() plan.Trust {
	if t.Status == "" {
		return plan.ManualReview
	}
	return t.Status
}

// unknownOperation reports a provider or an operation that is not in the
// catalog. whole says that the name was written as provider/operation.
func (u *unit) unknownOperation(n *node, at diag.Range, kind plan.ProviderType, provider, operation string, providerAt diag.Range, whole bool) {
	ops := u.cat.operations[provider]
	if len(ops) == 0 {
		d := diag.Diagnostic{
			Code: diag.TrustProvider, Summary: fmt.Sprintf("the provider %s is not in the catalog", quote(provider)),
			Detail:  "Every skill and every MCP tool that a plan calls stands in the operator's catalog.",
			Subject: providerAt, Node: n.id, Suggestion: u.near(provider, u.cat.providers),
		}
		if len(u.cat.providers) == 0 {
			d.Detail += " The catalog is empty."
		}
		u.report(d)
		return
	}
	suggestion := u.near(operation, ops)
	if suggestion != "" && whole {
		suggestion = operationName(provider, suggestion)
	}
	d := diag.Diagnostic{
		Code: diag.TrustOperation, Summary: fmt.Sprintf("%s has no operation %s in the catalog", quote(provider), quote(operation)),
		Detail:  listing("It has ", ops),
		Subject: at, Node: n.id, Suggestion: suggestion,
	}
	if kind != "" && kind != u.cat.types[provider] {
		d.Detail += fmt.Sprintf(" The provider is of type `%s`.", u.cat.types[provider])
	}
	u.report(d)
}

// listing writes the first names of a list as a sentence.
func listing(start string, names []string) string {
	const most = 12
	s := start
	for i, n := range names {
		if i == most {
			return fmt.Sprintf("%s and %d more.", s, len(names)-most)
		}
		if i > 0 {
			s += ", "
		}
		s += quote(n)
	}
	return s + "."
}
