package compiler

import (
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// trust admits each operation: it stands in the catalog, is not blocked, and
// its state is what the node requires.
func (u *unit) trust() {
	for _, doc := range u.graph {
		for i, n := range doc.nodes {
			if n.kind != plan.KindCall || n.provider == "" || n.operation == "" {
				continue
			}
			if n.trust == plan.Block {
				u.Report(diag.Diagnostic{
					Code: diag.TrustBlocked, Summary: fmt.Sprintf("node %s asks to be blocked", fields.Quote(n.id)),
					Detail:  "`trust_requirement: block` never runs. Take the node out, or ask for `allow_auto` or `manual_review`.",
					Subject: n.trustRange(), Node: n.id,
				})
			}
			if !n.subplan() {
				u.admit(doc, i)
			} else if n.fingerprintAt != nil {
				u.Report(diag.Diagnostic{
					Code: diag.TrustDrift, Summary: "a sub-plan has no fingerprint",
					Detail:  "It is pinned by its name and version, under which its content never changes, and by its digest in the compiled plan.",
					Subject: n.fingerprintAt.Range(), Node: n.id, Suggestion: "leave fingerprint out",
				})
			}
		}
	}
}

func (u *unit) admit(doc *judgedDocument, i int) {
	n := doc.nodes[i]
	if n.template == nil {
		if n.templateAt == nil && n.providerAt != nil && n.operationAt != nil {
			u.unknownOperation(n.node, n.operationAt.Range(), n.providerType, n.provider, n.operation, n.providerAt.Range(), false)
		}
		return
	}
	t := n.template
	if n.typeAt != nil && n.providerType != "" && n.providerType != t.ProviderType {
		u.Report(diag.Diagnostic{
			Code: diag.TrustProvider, Summary: fmt.Sprintf("the provider %s is of type `%s`", fields.Quote(n.provider), t.ProviderType),
			Detail:  "The catalog lists it under that type.",
			Subject: n.typeAt.Range(), Context: t.Range, Node: n.id, Suggestion: string(t.ProviderType),
		})
		return
	}
	name := fields.Quote(catalog.OperationName(t.Provider, t.Operation))
	switch status := t.State(); {
	case status == plan.Block:
		u.Report(diag.Diagnostic{
			Code: diag.TrustBlocked, Summary: fmt.Sprintf("the operation %s is blocked", name),
			Detail:  "The operator's catalog forbids every call of it.",
			Subject: n.operationRange(), Context: t.Range, Node: n.id,
		})
	case status == plan.ManualReview && n.trust == plan.AllowAuto:
		u.Report(diag.Diagnostic{
			Code: diag.TrustInsufficient, Summary: fmt.Sprintf("the operation %s is not trusted enough for `allow_auto`", name),
			Detail:  "Its state in the catalog is `manual_review`: every call waits for a human review, so the node must ask for one.",
			Subject: n.trustRange(), Context: t.Range, Node: n.id, Suggestion: "trust_requirement: manual_review",
		})
	}
	u.drifted(n, t)
	u.weaker(n, t)
	u.weakerCost(doc, i, t)
	u.weakerSchemas(n, t)
}

// drifted compares the operation that the plan's author saw with the one that
// the catalog has now. An operation without a fingerprint cannot be told from
// another, so a plan that pins one is refused.
func (u *unit) drifted(n *typedNode, t *catalog.Template) {
	if n.fingerprintAt == nil || n.fingerprintAt.Text == t.Fingerprint {
		return
	}
	d := diag.Diagnostic{
		Code: diag.TrustDrift, Summary: fmt.Sprintf("the operation %s is not the one that the plan was written for", fields.Quote(t.Name())),
		Detail:  "Its fingerprint in the catalog is another: its schemas, its description or the server behind it have changed since. Look at what changed; if the plan is right for it, pin what is there now.",
		Subject: n.fingerprintAt.Range(), Context: t.Range, Node: n.id, Suggestion: "fingerprint: " + t.Fingerprint,
	}
	if t.Fingerprint == "" {
		d.Summary = fmt.Sprintf("the catalog has no fingerprint of %s", fields.Quote(t.Name()))
		d.Detail = "So it cannot be told whether this is the operation that the plan was written for. Only MCP tools that were imported have one."
		d.Suggestion = "leave fingerprint out"
	}
	u.Report(d)
}

// weaker refuses a node that promises less care than its template asks for.
func (u *unit) weaker(n *typedNode, t *catalog.Template) {
	report := func(field, given, want string, at diag.Range) {
		u.Report(diag.Diagnostic{
			Code: diag.TrustWeaker, Summary: fmt.Sprintf("`%s: %s` is weaker than the catalog's `%s`", field, given, want),
			Detail:  fmt.Sprintf("A node may only be stricter than what the catalog says of %s.", fields.Quote(catalog.OperationName(t.Provider, t.Operation))),
			Subject: at, Context: t.Range, Node: n.id, Suggestion: field + ": " + want,
		})
	}
	if n.effectAt != nil && n.effect != "" && rank(fields.EffectClasses, string(n.effect)) < rank(fields.EffectClasses, string(t.Effect)) {
		report("effect_class", string(n.effect), string(t.Effect), n.effectAt.Range())
	}
	unsure := t.State() == plan.ManualReview && n.trust == plan.AllowAuto // said already
	if n.trustAt != nil && n.trust != "" && t.Trust != "" && !unsure && rank(fields.TrustStates, string(n.trust)) < rank(fields.TrustStates, string(t.Trust)) {
		report("trust_requirement", string(n.trust), string(t.Trust), n.trustAt.Range())
	}
	if n.modeAt != nil && n.mode == plan.Deter && t.Mode == plan.Prob {
		report("mode", string(n.mode), string(t.Mode), n.modeAt.Range())
	}
	if n.templateAt == nil {
		return
	}
	if n.timeoutAt != nil && t.TimeoutMS > 0 && n.timeout > t.TimeoutMS {
		report("timeout_ms", fmt.Sprint(n.timeout), fmt.Sprint(t.TimeoutMS), n.timeoutAt.Range())
	}
	if n.retryAt != nil && t.Retry.MaxAttempts > 0 {
		if n.retry.MaxAttempts > t.Retry.MaxAttempts {
			at := n.retryAt.Get("max_retries")
			report("max_retries", fmt.Sprint(n.retry.MaxAttempts-1), fmt.Sprint(t.Retry.MaxAttempts-1), at.Range())
		} else if n.retry.MaxAttempts > 1 {
			u.weakerRetry(n, t)
		}
	}
}

// weakerRetry refuses kinds of failure after which the template does not retry.
// The kinds of a node that leaves `on` out are those of page "Retry" of the
// documents, whatever its template lists. Waits are the plan's own matter.
func (u *unit) weakerRetry(n *typedNode, t *catalog.Template) {
	allowed := retryOf(n, t.Retry).On
	var more, both []string
	for _, k := range retryOf(n, n.retry).On {
		if slices.Contains(allowed, k) {
			both = append(both, string(k))
		} else {
			more = append(more, string(k))
		}
	}
	if len(more) == 0 {
		return
	}
	at := fields.Head(n.retryAt)
	if on := n.retryAt.Get("on"); on != nil {
		at = on.Range()
		for _, item := range on.Items {
			if item.Text == more[0] {
				at = item.Range()
			}
		}
	}
	// No more than the author asks for: after other kinds a call may not be safe to repeat.
	suggestion := "on: [" + strings.Join(both, ", ") + "]"
	if len(both) == 0 {
		suggestion = "retry_policy: {max_retries: 0}"
	}
	u.Report(diag.Diagnostic{
		Code: diag.TrustWeaker, Summary: fmt.Sprintf("%s retries after %s, the catalog's %s does not", fields.Quote(n.id), fields.Either(more), fields.Quote(t.Name())),
		Detail:  "A node with a template may retry less often and after fewer kinds of failure, never after others.",
		Subject: at, Context: t.Range, Node: n.id, Suggestion: suggestion,
	})
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

func (n *typedNode) trustRange() diag.Range {
	if n.trustAt != nil {
		return n.trustAt.Range()
	}
	return n.operationRange()
}

// unknownOperation reports a provider or an operation that is not in the
// catalog. whole says that the name was written as provider/operation.
func (u *unit) unknownOperation(n *node, at diag.Range, kind plan.ProviderType, provider, operation string, providerAt diag.Range, whole bool) {
	ops := u.cat.operations[provider]
	if provider == catalog.PlanProvider {
		u.Report(diag.Diagnostic{
			Code: diag.TrustProvider, Summary: "a plan has no template",
			Detail:  "The catalog holds operations. A node that runs another plan of the file declares its whole contract.",
			Subject: at, Node: n.id, Suggestion: fmt.Sprintf("provider_type: skill, provider_name: plan, operation: %s", operation),
		})
		return
	}
	if len(ops) == 0 {
		d := diag.Diagnostic{
			Code: diag.TrustProvider, Summary: fmt.Sprintf("the provider %s is not in the catalog", fields.Quote(provider)),
			Detail:  "Every skill and every MCP tool that a plan calls stands in the operator's catalog, the file that `--catalog` or the key `catalog` of chimera.yaml names.",
			Subject: providerAt, Node: n.id, Suggestion: u.Near(provider, u.cat.providers),
		}
		if len(u.cat.providers) == 0 {
			d.Detail += " The catalog is empty."
		}
		u.Report(d)
		return
	}
	suggestion := u.Near(operation, ops)
	if suggestion != "" && whole {
		suggestion = catalog.OperationName(provider, suggestion)
	}
	d := diag.Diagnostic{
		Code: diag.TrustOperation, Summary: fmt.Sprintf("%s has no operation %s in the catalog", fields.Quote(provider), fields.Quote(operation)),
		Detail:  listing("It has ", ops),
		Subject: at, Node: n.id, Suggestion: suggestion,
	}
	if kind != "" && kind != u.cat.types[provider] {
		d.Detail += fmt.Sprintf(" The provider is of type `%s`.", u.cat.types[provider])
	}
	u.Report(d)
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
		s += fields.Quote(n)
	}
	return s + "."
}
