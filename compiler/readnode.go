package compiler

import (
	"fmt"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

// readNode reads one node, without its template. It is nil if v is no map.
func (u *unit) readNode(v *syntax.Value, defs *defs) *node {
	id := ""
	if x := v.Get("id"); x != nil && x.Kind == syntax.String {
		id = x.Text
	}
	r := u.Read(v, nodeFields, id)
	if r == nil {
		return nil
	}
	n := &node{kind: plan.KindCall, at: v, key: fields.Head(v), sound: r.Complete}
	n.idAt = r.Get("id")
	if n.idAt != nil {
		n.id, n.key = n.idAt.Text, n.idAt.Range()
		switch {
		case strings.HasPrefix(n.id, "$"):
			u.Report(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: fmt.Sprintf("the id %s is reserved", fields.Quote(n.id)),
				Detail:  "Names that start with `$` belong to the language: `$input` and `$output` are always there.",
				Subject: n.idAt.Range(), Node: n.id,
			})
			n.sound, n.id, n.idAt = false, "", nil
		case !u.Name(n.idAt, "id", fields.NodeIDs):
			n.sound = false
		}
	}

	u.readOperation(n, r)
	if n.modeAt = r.Get("mode"); n.modeAt != nil {
		n.mode = plan.Mode(u.Word(n.modeAt, "mode", fields.Modes))
	}
	if n.effectAt = r.Get("effect_class"); n.effectAt != nil {
		n.effect = plan.EffectClass(u.Word(n.effectAt, "effect_class", fields.EffectClasses))
	}
	if n.trustAt = r.Get("trust_requirement"); n.trustAt != nil {
		n.trust = plan.Trust(u.Word(n.trustAt, "trust_requirement", fields.TrustStates))
	}
	if n.timeoutAt = r.Get("timeout_ms"); n.timeoutAt != nil {
		n.timeout, _ = u.Whole(n.timeoutAt, "timeout_ms", 1, catalog.MaxTimeoutMS)
	}
	if n.retryAt = r.Get("retry_policy"); n.retryAt != nil {
		n.retry = catalog.ReadRetry(u.Reader, n.retryAt)
	}
	n.input = u.readSchema(r.Get("input_schema"), defs)
	n.output = u.readSchema(r.Get("output_schema"), defs)

	// A field that is there but was refused is not "missing": the template does
	// not stand in for it, and nothing more is said about it.
	for _, f := range contractFields {
		if r.Has(f) && !n.given(f) {
			n.sound = false
		}
	}
	u.readOptional(n, r)
	n.meant = r.Meant
	return n
}

// given reports whether the field of a node's contract has a sound value.
func (n *node) given(field string) bool {
	switch field {
	case "provider_type":
		return n.providerType != ""
	case "provider_name":
		return n.provider != ""
	case "operation":
		return n.operation != ""
	case "mode":
		return n.mode != ""
	case "effect_class":
		return n.effect != ""
	case "trust_requirement":
		return n.trust != ""
	case "timeout_ms":
		return n.timeout != 0
	case "retry_policy":
		return n.retry.MaxAttempts != 0
	case "input_schema":
		return n.input != nil
	case "output_schema":
		return n.output != nil
	}
	panic("compiler: no contract field " + field)
}

func (u *unit) readOperation(n *node, r *fields.Record) {
	if n.typeAt = r.Get("provider_type"); n.typeAt != nil {
		n.providerType = plan.ProviderType(u.Word(n.typeAt, "provider_type", fields.ProviderTypes))
	}
	if n.providerAt = r.Get("provider_name"); u.Name(n.providerAt, "provider_name", fields.ProviderNames) {
		n.provider = n.providerAt.Text
	}
	if n.operationAt = r.Get("operation"); u.Name(n.operationAt, "operation", fields.OperationNames) {
		n.operation = n.operationAt.Text
	}
	if n.templateAt = r.Get("template"); n.templateAt == nil {
		n.sound = n.sound && !r.Has("template")
		return
	}
	provider, operation, ok := strings.Cut(n.templateAt.Text, "/")
	if !ok || !fields.ProviderNames.Re.MatchString(provider) || !fields.OperationNames.Re.MatchString(operation) {
		u.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: fmt.Sprintf("`template` is `provider/operation`, not %s", fields.Quote(n.templateAt.Text)),
			Subject: n.templateAt.Range(), Node: n.id,
		})
		n.sound = false
	}
}

func (u *unit) readOptional(n *node, r *fields.Record) {
	if n.fingerprintAt = r.Get("fingerprint"); r.Has("fingerprint") && !u.Name(n.fingerprintAt, "fingerprint", fields.Fingerprints) {
		n.sound, n.fingerprintAt = false, nil
	}
	n.with = r.Get("with")
	if v := r.Get("description"); v != nil {
		u.Bounded(v, "description")
		n.description = v.Text
	}
	for _, s := range u.Texts(r.Get("resources"), "resources") {
		u.Bounded(s, "resources")
		n.resources = append(n.resources, s.Text)
	}
	n.priority = u.Word(r.Get("priority"), "priority", priorities)
	if n.cost = r.Get("cost_estimate"); n.cost != nil && n.cost.Kind == syntax.Number {
		if x := fields.Number(n.cost); x == nil || x.Sign() < 0 {
			u.Report(diag.Diagnostic{
				Code: diag.PlanLimits, Summary: fmt.Sprintf("`cost_estimate` is out of range: %s", fields.Quote(n.cost.Text)),
				Detail: "It is a decimal number from 0 on.", Subject: n.cost.Range(), Node: n.id,
			})
			n.cost = nil
		}
	}
	if v := r.Get("for_each"); v != nil {
		errs := u.Errors
		fe := u.Read(v, forEachFields, "")
		n.forEach = &forEach{at: v, port: fe.Get("port")}
		n.forEach.items, _ = u.Whole(fe.Get("max_items"), "max_items", 1, MaxItems)
		n.forEach.parallel, _ = u.Whole(fe.Get("max_parallel"), "max_parallel", 1, MaxParallel)
		n.torn = u.Errors > errs
	} else if r.Has("for_each") {
		n.sound, n.torn = false, true
	}
	if v := r.Get("commit_policy"); v != nil {
		n.commit = readCommit(u.Reader, v)
	} else if r.Has("commit_policy") {
		n.commit = &commitPolicy{at: r.At.Get("commit_policy"), refused: true}
		n.sound = false
	}
}

func readCommit(rep *fields.Reader, v *syntax.Value) *commitPolicy {
	errs := rep.Errors
	r := rep.Read(v, commitFields, "")
	c := &commitPolicy{at: v, approval: r.Get("approval"), barrier: r.Get("barrier"), rollback: r.Get("rollback")}
	if c.approval != nil {
		readApproval(rep, c.approval)
	}
	if c.barrier != nil && !rep.Name(c.barrier, "barrier", fields.NodeIDs) {
		c.barrier = nil
	}
	c.prechecks = rep.Texts(r.Get("prechecks"), "prechecks")
	if x := r.Get("verify"); x != nil {
		vr := rep.Read(x, verifyFields, "")
		c.verify = &verify{at: x, node: vr.Get("node"), with: vr.Get("with"), executed: vr.Get("executed"), output: vr.Get("output")}
	}
	if c.rollback != nil {
		rr := rep.Read(c.rollback, rollbackFields, "")
		reason := rr.Get("none")
		rep.Bounded(reason, "none")
		if reason != nil && strings.TrimSpace(reason.Text) == "" {
			rep.Report(diag.Diagnostic{
				Code: diag.EffectRollback, Summary: "the reason is empty",
				Detail: "Say why nothing can be undone: approvers read it.", Subject: reason.Range(),
			})
		}
		c.waived = reason != nil
	}
	c.refused = rep.Errors > errs
	return c
}

func readApproval(rep *fields.Reader, v *syntax.Value) {
	r := rep.Read(v, approvalFields, "")
	rep.Whole(r.Get("expires_in_ms"), "expires_in_ms", 1, MaxExpiresMS)
	for _, x := range rep.Texts(r.Get("exclude"), "exclude") {
		rep.Name(x, "exclude", fields.RoleNames)
	}
	groups := r.Get("groups")
	if groups == nil {
		return
	}
	if len(groups.Items) == 0 {
		rep.Report(diag.Diagnostic{
			Code: diag.EffectPolicy, Summary: "`groups` is empty",
			Detail: "Name at least one group, or leave `groups` out.", Subject: groups.Range(),
		})
	}
	seen := map[string]bool{}
	for _, g := range groups.Items {
		gr := rep.Read(g, policy.GroupFields, "")
		role := gr.Get("role")
		rep.Whole(gr.Get("min"), "min", 1, policy.MaxSigners)
		if rep.Name(role, "role", fields.RoleNames) {
			if seen[role.Text] {
				rep.Report(diag.Diagnostic{
					Code: diag.PlanDuplicateID, Summary: fmt.Sprintf("a group of role %s is there already", fields.Quote(role.Text)), Subject: role.Range(),
				})
			}
			seen[role.Text] = true
		}
	}
}
