package compiler

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// readNode reads one node, without its template. It is nil if v is no map.
func (u *unit) readNode(v *syntax.Value, defs *defs) *node {
	id := ""
	if x := v.Get("id"); x != nil && x.Kind == syntax.String {
		id = x.Text
	}
	r := u.read(v, nodeFields, id)
	if r == nil {
		return nil
	}
	n := &node{kind: plan.KindCall, at: v, key: head(v), sound: r.complete}
	n.idAt = r.get("id")
	if n.idAt != nil {
		n.id, n.key = n.idAt.Text, n.idAt.Range()
		switch {
		case strings.HasPrefix(n.id, "$"):
			u.report(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: fmt.Sprintf("the id %s is reserved", quote(n.id)),
				Detail:  "Names that start with `$` belong to the language: `$input` and `$output` are always there.",
				Subject: n.idAt.Range(), Node: n.id,
			})
			n.sound, n.id, n.idAt = false, "", nil
		case !u.name(n.idAt, "id", nodeIDs):
			n.sound = false
		}
	}

	u.readOperation(n, r)
	if n.modeAt = r.get("mode"); n.modeAt != nil {
		n.mode = plan.Mode(u.word(n.modeAt, "mode", modes))
	}
	if n.effectAt = r.get("effect_class"); n.effectAt != nil {
		n.effect = plan.EffectClass(u.word(n.effectAt, "effect_class", effectClasses))
	}
	if n.trustAt = r.get("trust_requirement"); n.trustAt != nil {
		n.trust = plan.Trust(u.word(n.trustAt, "trust_requirement", trustStates))
	}
	if n.timeoutAt = r.get("timeout_ms"); n.timeoutAt != nil {
		n.timeout, _ = u.whole(n.timeoutAt, "timeout_ms", 1, MaxTimeoutMS)
	}
	if n.retryAt = r.get("retry_policy"); n.retryAt != nil {
		n.retry = u.readRetry(n.retryAt)
	}
	n.input = u.readSchema(r.get("input_schema"), defs)
	n.output = u.readSchema(r.get("output_schema"), defs)

	// A field that is there but was refused is not "missing": the template does
	// not stand in for it, and nothing more is said about it.
	for _, f := range contractFields {
		if r.has(f) && !n.given(f) {
			n.sound = false
		}
	}
	u.readOptional(n, r)
	n.meant = r.meant
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

func (u *unit) readOperation(n *node, r *record) {
	if n.typeAt = r.get("provider_type"); n.typeAt != nil {
		n.providerType = plan.ProviderType(u.word(n.typeAt, "provider_type", providerTypes))
	}
	if n.providerAt = r.get("provider_name"); u.name(n.providerAt, "provider_name", providers) {
		n.provider = n.providerAt.Text
	}
	if n.operationAt = r.get("operation"); u.name(n.operationAt, "operation", operations) {
		n.operation = n.operationAt.Text
	}
	if n.templateAt = r.get("template"); n.templateAt == nil {
		n.sound = n.sound && !r.has("template")
		return
	}
	provider, operation, ok := strings.Cut(n.templateAt.Text, "/")
	if !ok || !providers.re.MatchString(provider) || !operations.re.MatchString(operation) {
		u.report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: fmt.Sprintf("`template` is `provider/operation`, not %s", quote(n.templateAt.Text)),
			Subject: n.templateAt.Range(), Node: n.id,
		})
		n.sound = false
	}
}

func (u *unit) readOptional(n *node, r *record) {
	if n.fingerprintAt = r.get("fingerprint"); r.has("fingerprint") && !u.name(n.fingerprintAt, "fingerprint", fingerprints) {
		n.sound, n.fingerprintAt = false, nil
	}
	n.with = r.get("with")
	if v := r.get("description"); v != nil {
		u.text(v, "description")
		n.description = v.Text
	}
	for _, s := range u.texts(r.get("resources"), "resources") {
		u.text(s, "resources")
		n.resources = append(n.resources, s.Text)
	}
	n.priority = u.word(r.get("priority"), "priority", priorities)
	if n.cost = r.get("cost_estimate"); n.cost != nil && n.cost.Kind == syntax.Number {
		if x := number(n.cost); x == nil || x.Sign() < 0 {
			u.report(diag.Diagnostic{
				Code: diag.PlanLimits, Summary: fmt.Sprintf("`cost_estimate` is out of range: %s", quote(n.cost.Text)),
				Detail: "It is a decimal number from 0 on.", Subject: n.cost.Range(), Node: n.id,
			})
			n.cost = nil
		}
	}
	if v := r.get("for_each"); v != nil {
		errs := u.errors
		fe := u.read(v, forEachFields, "")
		n.forEach = &forEach{at: v, port: fe.get("port")}
		n.forEach.items, _ = u.whole(fe.get("max_items"), "max_items", 1, MaxItems)
		n.forEach.parallel, _ = u.whole(fe.get("max_parallel"), "max_parallel", 1, MaxParallel)
		n.torn = u.errors > errs
	} else if r.has("for_each") {
		n.sound, n.torn = false, true
	}
	if v := r.get("commit_policy"); v != nil {
		n.commit = u.readCommit(v)
	} else if r.has("commit_policy") {
		n.commit = &commitPolicy{at: r.at.Get("commit_policy"), refused: true}
		n.sound = false
	}
}

// retried are the kinds that a retry policy may name, and that a pure node
// retries where it names none: those that page "Error kinds" of the documents
// marks as retried for pure operations. invalid_output is retried for prob
// nodes only: asking again may give another answer.
var retried = []contract.Kind{
	contract.Unsent, contract.Transport, contract.Timeout, contract.Throttled, contract.Auth, contract.ServerError,
}

// retryable are the kinds that `on` may hold.
func retryable() []string {
	out := make([]string, 0, len(retried)+2)
	for _, k := range retried {
		out = append(out, string(k))
	}
	return append(out, string(contract.ToolError), string(contract.InvalidOutput))
}

// readRetry reads a retry policy. On stays nil where it was left out: the
// default depends on the node's mode, which a template may give.
func (rep *reporter) readRetry(v *syntax.Value) plan.Retry {
	retry := plan.Retry{InitialMS: DefaultInitialMS, MultiplierMilli: DefaultMultiplierMilli, MaxMS: DefaultMaxMS}
	r := rep.read(v, retryFields, "")
	n, counted := rep.whole(r.get("max_retries"), "max_retries", 0, MaxRetries)
	initial, hasInitial := rep.whole(r.get("initial_ms"), "initial_ms", 1, MaxBackoffMS)
	longest, hasLongest := rep.whole(r.get("max_ms"), "max_ms", 1, MaxBackoffMS)
	if hasInitial {
		retry.InitialMS = initial
		retry.MaxMS = max(retry.MaxMS, initial)
	}
	if hasLongest {
		retry.MaxMS = longest
		if longest < retry.InitialMS {
			if hasInitial {
				rep.report(diag.Diagnostic{
					Code: diag.PlanLimits, Summary: "`max_ms` is smaller than `initial_ms`",
					Detail:  fmt.Sprintf("The first wait is %d ms, so the longest is at least that.", initial),
					Subject: r.get("max_ms").Range(), Context: r.get("initial_ms").Range(),
				})
			}
			retry.InitialMS = longest
		}
	}
	if m := r.get("multiplier"); m != nil {
		if milli, ok := rep.milli(m, "multiplier", MaxMultiplier); ok {
			retry.MultiplierMilli = milli
		}
	}
	if on := r.get("on"); on != nil {
		retry.On = []contract.Kind{}
		for _, item := range rep.texts(on, "on") {
			if rep.retryKind(item) {
				retry.On = append(retry.On, contract.Kind(item.Text))
			}
		}
		slices.Sort(retry.On)
	}
	if counted {
		retry.MaxAttempts = int(n) + 1
	}
	return retry
}

func (rep *reporter) retryKind(v *syntax.Value) bool {
	set := retryable()
	if slices.Contains(set, v.Text) {
		return true
	}
	d := diag.Diagnostic{
		Code: diag.PlanSchema, Summary: fmt.Sprintf("%s is not a kind of error", quote(v.Text)),
		Detail:  "`on` may hold " + either(set) + ".",
		Subject: v.Range(), Suggestion: rep.near(v.Text, set),
	}
	if contract.Kind(v.Text).Valid() {
		d.Summary = fmt.Sprintf("errors of kind %s are never retried", quote(v.Text))
		d.Suggestion = ""
	}
	rep.report(d)
	return false
}

// milli reads a factor of at least 1 with at most three decimals, in thousandths.
func (rep *reporter) milli(v *syntax.Value, name string, high int64) (int64, bool) {
	r := number(v)
	switch {
	case r == nil || r.Cmp(big.NewRat(1, 1)) < 0 || r.Cmp(big.NewRat(high, 1)) > 0:
		rep.report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("`%s` is out of range: %s", name, quote(v.Text)),
			Detail: fmt.Sprintf("It lies between 1 and %d.", high), Subject: v.Range(),
		})
		return 0, false
	}
	if r.Mul(r, big.NewRat(1000, 1)); !r.IsInt() {
		rep.report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("`%s` has more than three decimals: %s", name, quote(v.Text)), Subject: v.Range(),
		})
		return 0, false
	}
	return r.Num().Int64(), true
}

func (rep *reporter) readCommit(v *syntax.Value) *commitPolicy {
	errs := rep.errors
	r := rep.read(v, commitFields, "")
	c := &commitPolicy{at: v, approval: r.get("approval"), barrier: r.get("barrier"), rollback: r.get("rollback")}
	if c.approval != nil {
		rep.readApproval(c.approval)
	}
	if c.barrier != nil && !rep.name(c.barrier, "barrier", nodeIDs) {
		c.barrier = nil
	}
	c.prechecks = rep.texts(r.get("prechecks"), "prechecks")
	if x := r.get("verify"); x != nil {
		vr := rep.read(x, verifyFields, "")
		c.verify = &verify{at: x, node: vr.get("node"), with: vr.get("with"), executed: vr.get("executed"), output: vr.get("output")}
	}
	if c.rollback != nil {
		rr := rep.read(c.rollback, rollbackFields, "")
		reason := rr.get("none")
		rep.text(reason, "none")
		if reason != nil && strings.TrimSpace(reason.Text) == "" {
			rep.report(diag.Diagnostic{
				Code: diag.EffectRollback, Summary: "the reason is empty",
				Detail: "Say why nothing can be undone: approvers read it.", Subject: reason.Range(),
			})
		}
		c.waived = reason != nil
	}
	c.refused = rep.errors > errs
	return c
}

func (rep *reporter) readApproval(v *syntax.Value) {
	r := rep.read(v, approvalFields, "")
	rep.whole(r.get("expires_in_ms"), "expires_in_ms", 1, MaxExpiresMS)
	for _, x := range rep.texts(r.get("exclude"), "exclude") {
		rep.name(x, "exclude", roles)
	}
	groups := r.get("groups")
	if groups == nil {
		return
	}
	if len(groups.Items) == 0 {
		rep.report(diag.Diagnostic{
			Code: diag.EffectPolicy, Summary: "`groups` is empty",
			Detail: "Name at least one group, or leave `groups` out.", Subject: groups.Range(),
		})
	}
	seen := map[string]bool{}
	for _, g := range groups.Items {
		gr := rep.read(g, groupFields, "")
		role := gr.get("role")
		rep.whole(gr.get("min"), "min", 1, MaxSigners)
		if rep.name(role, "role", roles) {
			if seen[role.Text] {
				rep.report(diag.Diagnostic{
					Code: diag.PlanDuplicateID, Summary: fmt.Sprintf("a group of role %s is there already", quote(role.Text)), Subject: role.Range(),
				})
			}
			seen[role.Text] = true
		}
	}
}
