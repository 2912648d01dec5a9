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

// resolve finds each node's template in the catalog, completes the node from
// it where the plan says `template:`, and reports what is still missing.
func (u *unit) resolve(doc *document) {
	for _, n := range doc.nodes {
		if n.kind != plan.KindCall {
			continue
		}
		if n.templateAt != nil {
			u.complete(n)
		} else if n.operation != "" {
			n.template = u.cat.byName[catalog.OperationName(n.provider, n.operation)]
		}
		u.missing(n)
		u.reserved(n)
		if !n.sound {
			doc.broken = true
		}
	}
}

// complete fills the node from its template.
func (u *unit) complete(n *node) {
	name := n.templateAt.Text
	t := u.cat.byName[name]
	if t == nil {
		if strings.Contains(name, "/") && n.sound {
			provider, operation, _ := strings.Cut(name, "/")
			u.unknownOperation(n, n.templateAt.Range(), "", provider, operation, n.templateAt.Sub(0, len(provider)), true)
		}
		n.sound = false
		return
	}
	same := func(field, given, want string, at diag.Range) {
		if given == "" || given == want {
			return
		}
		u.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: fmt.Sprintf("`%s` is not that of the template %s", field, fields.Quote(name)),
			Detail:  "A node with a template takes its operation from there. Leave the field out.",
			Subject: at, Context: n.templateAt.Range(), Node: n.id, Suggestion: want,
		})
		n.sound = false
	}
	if n.typeAt != nil {
		same("provider_type", string(n.providerType), string(t.ProviderType), n.typeAt.Range())
	}
	if n.providerAt != nil {
		same("provider_name", n.provider, t.Provider, n.providerAt.Range())
	}
	if n.operationAt != nil {
		same("operation", n.operation, t.Operation, n.operationAt.Range())
	}
	c := u.contract(t)
	if c.fault != nil {
		u.badTemplate(n, t, c.fault)
		n.sound = false
		return
	}
	n.template = t
	n.providerType, n.provider, n.operation = t.ProviderType, t.Provider, t.Operation
	if n.mode == "" && n.modeAt == nil {
		n.mode = t.Mode
	}
	if n.effect == "" && n.effectAt == nil {
		n.effect = t.Effect
	}
	if n.trust == "" && n.trustAt == nil {
		n.trust = t.Trust
	}
	if n.timeout == 0 && n.timeoutAt == nil {
		n.timeout = t.TimeoutMS
	}
	if n.retry.MaxAttempts == 0 && n.retryAt == nil {
		n.retry = t.Retry
	}
	if t.InProcess {
		n.inProcessDefaults()
	}
	if n.input == nil && n.at.Get("input_schema") == nil {
		n.input = c.input
	}
	if n.output == nil && n.at.Get("output_schema") == nil {
		n.output = c.output
	}
}

// inProcessDefaults completes a Go skill of this build, which is registered
// without a timeout and a retry policy of its own: short enough to run as a
// local activity, and not retried, since there is no connection to fail.
func (n *node) inProcessDefaults() {
	if n.timeout == 0 && n.timeoutAt == nil {
		n.timeout = LocalTimeoutMS
	}
	if n.retry.MaxAttempts == 0 && n.retryAt == nil {
		n.retry = plan.Retry{MaxAttempts: 1, InitialMS: catalog.DefaultInitialMS, MultiplierMilli: catalog.DefaultMultiplierMilli, MaxMS: catalog.DefaultMaxMS}
	}
}

func (u *unit) badTemplate(n *node, t *catalog.Template, err error) {
	u.Report(diag.Diagnostic{
		Code: diag.TypeSchema, Summary: fmt.Sprintf("a schema of %s in the catalog cannot be used", fields.Quote(catalog.OperationName(t.Provider, t.Operation))),
		Detail: fields.Sentence(err.Error()), Subject: n.operationRange(), Context: t.Range, Node: n.id,
	})
}

// missing reports the contract fields that neither node nor template gives.
func (u *unit) missing(n *node) {
	if n.templateAt != nil && n.template == nil {
		return
	}
	if slices.Contains(n.meant, "template") {
		n.sound = false
		return
	}
	var absent []string
	for _, f := range contractFields {
		if n.given(f) || n.at.Get(f) != nil {
			continue
		}
		n.sound = false
		if !slices.Contains(n.meant, f) {
			absent = append(absent, "`"+f+"`")
		}
	}
	if len(absent) == 0 {
		return
	}
	d := diag.Diagnostic{
		Code: diag.PlanSchema, Summary: fmt.Sprintf("node %s has no %s", fields.Quote(n.id), strings.Join(absent, ", ")),
		Detail:  "Every node declares its whole contract, or takes it from the catalog by `template: provider/operation`.",
		Subject: n.key, Node: n.id,
	}
	if n.template != nil && n.templateAt != nil {
		d.Detail = "The template does not give them either."
	} else if n.template != nil {
		d.Suggestion = "template: " + catalog.OperationName(n.provider, n.operation)
	}
	u.Report(d)
}

// reserved refuses an MCP server under a provider name of the engine's own.
func (u *unit) reserved(n *node) {
	if n.providerType == plan.MCP && (n.provider == catalog.EngineProvider || n.provider == catalog.PlanProvider) && n.providerAt != nil {
		u.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: fmt.Sprintf("the provider name %s is reserved", fields.Quote(n.provider)),
			Detail:  "`engine` is the engine's own skills, `plan` calls sub-plans; both are of type `skill`.",
			Subject: n.providerAt.Range(), Node: n.id, Suggestion: "provider_type: skill",
		})
		// Nothing more is said about an operation that cannot be meant.
		n.sound, n.operation = false, ""
	}
}

// operationRange is what stands for the node's operation in messages.
func (n *node) operationRange() diag.Range {
	switch {
	case n.operationAt != nil:
		return n.operationAt.Range()
	case n.templateAt != nil:
		return n.templateAt.Range()
	}
	return n.key
}
