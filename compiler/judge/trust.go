package judge

import (
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/typing"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// trust checks that each operation is in the catalog, is not blocked, and has the
// state that the node requires.
func (j *judge) trust() {
	for _, doc := range j.Documents {
		for i, n := range doc.Nodes {
			if n.Kind != plan.KindCall || n.Provider == "" || n.Operation == "" {
				continue
			}
			if n.Trust == plan.Block {
				j.Report(diag.Diagnostic{
					Code: diag.TrustBlocked, Summary: fmt.Sprintf("node %s asks to be blocked", fields.Quote(n.ID)),
					Detail:  "`trust_requirement: block` never runs. Take the node out, or ask for `allow_auto` or `manual_review`.",
					Subject: n.TrustRange(), Node: n.ID,
				})
			}
			if !n.Subplan() {
				j.admit(doc, i)
			} else if n.FingerprintAt != nil {
				j.Report(diag.Diagnostic{
					Code: diag.TrustDrift, Summary: "a sub-plan has no fingerprint",
					Detail:  "It is pinned by its name and version, under which its content never changes, and by its digest in the compiled plan.",
					Subject: n.FingerprintAt.Range(), Node: n.ID, Suggestion: "leave fingerprint out", Edits: j.Remove(n.At, "fingerprint"),
				})
			}
		}
	}
}

func (j *judge) admit(doc *Document, i int) {
	n := doc.Nodes[i]
	if n.Template == nil {
		if n.TemplateAt == nil && n.ProviderAt != nil && n.OperationAt != nil {
			j.Catalog.UnknownOperation(j.Reader, n.Node, n.OperationAt.Range(), n.ProviderType, n.Provider, n.Operation, n.ProviderAt.Range(), false)
		}
		return
	}
	t := n.Template
	if n.TypeAt != nil && n.ProviderType != "" && n.ProviderType != t.ProviderType {
		j.Report(diag.Diagnostic{
			Code: diag.TrustProvider, Summary: fmt.Sprintf("the provider %s is of type `%s`", fields.Quote(n.Provider), t.ProviderType),
			Detail:  "The catalog lists it under that type.",
			Subject: n.TypeAt.Range(), Context: t.Range, Node: n.ID, Suggestion: string(t.ProviderType), Edits: j.Replace(n.TypeAt.Range(), string(t.ProviderType)),
		})
		return
	}
	name := fields.Quote(catalog.OperationName(t.Provider, t.Operation))
	switch status := t.State(); {
	case status == plan.Block:
		j.Report(diag.Diagnostic{
			Code: diag.TrustBlocked, Summary: fmt.Sprintf("the operation %s is blocked", name),
			Detail:  "The operator's catalog forbids every call of it.",
			Subject: n.OperationRange(), Context: t.Range, Node: n.ID,
		})
	case status == plan.ManualReview && n.Trust == plan.AllowAuto:
		j.Report(diag.Diagnostic{
			Code: diag.TrustInsufficient, Summary: fmt.Sprintf("the operation %s is not trusted enough for `allow_auto`", name),
			Detail:  "Its state in the catalog is `manual_review`: every call waits for a human review, so the node must ask for one.",
			Subject: n.TrustRange(), Context: t.Range, Node: n.ID, Suggestion: "trust_requirement: manual_review", Edits: j.Set(n.At, "trust_requirement", "manual_review"),
		})
	}
	j.drifted(n, t)
	j.weaker(n, t)
	j.weakerSchemas(n, t)
}

// drifted compares the fingerprint that the plan pins with the catalog's. A pin on
// an operation that has none is refused, since nothing can be compared.
func (j *judge) drifted(n *typing.Node, t *catalog.Template) {
	if n.FingerprintAt == nil || n.FingerprintAt.Text == t.Fingerprint {
		return
	}
	d := diag.Diagnostic{
		Code: diag.TrustDrift, Summary: fmt.Sprintf("the operation %s is not the one that the plan was written for", fields.Quote(t.Name())),
		Detail:  "Its fingerprint in the catalog is another: its schemas, its description or the server behind it have changed since. Look at what changed; if the plan is right for it, pin what is there now.",
		Subject: n.FingerprintAt.Range(), Context: t.Range, Node: n.ID, Suggestion: "fingerprint: " + t.Fingerprint, Edits: j.Set(n.At, "fingerprint", t.Fingerprint),
	}
	if t.Fingerprint == "" {
		d.Summary = fmt.Sprintf("the catalog has no fingerprint of %s", fields.Quote(t.Name()))
		d.Detail = "So it cannot be told whether this is the operation that the plan was written for. Only MCP tools that were imported have one."
		d.Suggestion, d.Edits = "leave fingerprint out", j.Remove(n.At, "fingerprint")
	}
	j.Report(d)
}

// weaker refuses a node that is laxer than its template.
func (j *judge) weaker(n *typing.Node, t *catalog.Template) {
	report := func(field, given, want string, at diag.Range) {
		j.Report(diag.Diagnostic{
			Code: diag.TrustWeaker, Summary: fmt.Sprintf("`%s: %s` is weaker than the catalog's `%s`", field, given, want),
			Detail:  fmt.Sprintf("A node may only be stricter than what the catalog says of %s.", fields.Quote(catalog.OperationName(t.Provider, t.Operation))),
			Subject: at, Context: t.Range, Node: n.ID, Suggestion: field + ": " + want, Edits: j.Replace(at, want),
		})
	}
	if n.EffectAt != nil && n.Effect != "" && slices.Index(fields.EffectClasses, string(n.Effect)) < slices.Index(fields.EffectClasses, string(t.Effect)) {
		report("effect_class", string(n.Effect), string(t.Effect), n.EffectAt.Range())
	}
	unsure := t.State() == plan.ManualReview && n.Trust == plan.AllowAuto // said already
	if n.TrustAt != nil && n.Trust != "" && t.Trust != "" && !unsure && slices.Index(fields.TrustStates, string(n.Trust)) < slices.Index(fields.TrustStates, string(t.Trust)) {
		report("trust_requirement", string(n.Trust), string(t.Trust), n.TrustAt.Range())
	}
	if n.ModeAt != nil && n.Mode == plan.Deter && t.Mode == plan.Prob {
		report("mode", string(n.Mode), string(t.Mode), n.ModeAt.Range())
	}
	if n.TemplateAt == nil {
		return
	}
	if n.TimeoutAt != nil && t.TimeoutMS > 0 && n.Timeout > t.TimeoutMS {
		report("timeout_ms", fmt.Sprint(n.Timeout), fmt.Sprint(t.TimeoutMS), n.TimeoutAt.Range())
	}
	if n.RetryAt != nil && t.Retry.MaxAttempts > 0 {
		if n.Retry.MaxAttempts > t.Retry.MaxAttempts {
			at := n.RetryAt.Get("max_retries")
			report("max_retries", fmt.Sprint(n.Retry.MaxAttempts-1), fmt.Sprint(t.Retry.MaxAttempts-1), at.Range())
		} else if n.Retry.MaxAttempts > 1 {
			j.weakerRetry(n, t)
		}
	}
}

// weakerRetry refuses kinds of failure after which the template does not retry.
// Without `on` the kinds are those of [Retry], for the node as for its template. A
// plan may choose its own waits.
func (j *judge) weakerRetry(n *typing.Node, t *catalog.Template) {
	allowed := Retry(n, t.Retry).On
	var more, both []string
	for _, k := range Retry(n, n.Retry).On {
		if slices.Contains(allowed, k) {
			both = append(both, string(k))
		} else {
			more = append(more, string(k))
		}
	}
	if len(more) == 0 {
		return
	}
	at := fields.Head(n.RetryAt)
	if on := n.RetryAt.Get("on"); on != nil {
		at = on.Range()
		for _, item := range on.Items {
			if item.Text == more[0] {
				at = item.Range()
			}
		}
	}
	// Suggest no kind that the author does not ask for: repeating a call after
	// others may not be safe.
	suggestion := "on: [" + strings.Join(both, ", ") + "]"
	if len(both) == 0 {
		suggestion = "retry_policy: {max_retries: 0}"
	}
	j.Report(diag.Diagnostic{
		Code: diag.TrustWeaker, Summary: fmt.Sprintf("%s retries after %s, the catalog's %s does not", fields.Quote(n.ID), fields.Either(more), fields.Quote(t.Name())),
		Detail:  "A node with a template may retry less often and after fewer kinds of failure, never after others.",
		Subject: at, Context: t.Range, Node: n.ID, Suggestion: suggestion,
	})
}
