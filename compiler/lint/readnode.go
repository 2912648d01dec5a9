package lint

import (
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

// readNode reads one node, without its template. It returns nil if v is not a map.
func (l *linter) readNode(v *syntax.Value, defs *defs) *Node {
	id := ""
	if x := v.Get("id"); x != nil && x.Kind == syntax.String {
		id = x.Text
	}
	r := l.Read(v, nodeFields, id)
	if r == nil {
		return nil
	}
	n := &Node{Kind: plan.KindCall, At: v, Key: fields.Head(v), Sound: r.Complete}
	n.idAt = r.Get("id")
	if n.idAt != nil {
		n.ID, n.Key = n.idAt.Text, n.idAt.Range()
		switch {
		case strings.HasPrefix(n.ID, "$"):
			l.Report(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: fmt.Sprintf("the id %s is reserved", fields.Quote(n.ID)),
				Detail:  "Names that start with `$` belong to the language: `$input` and `$output` are always there.",
				Subject: n.idAt.Range(), Node: n.ID,
			})
			n.Sound, n.ID, n.idAt = false, "", nil
		case !l.Name(n.idAt, "id", fields.NodeIDs):
			n.Sound = false
		}
	}

	if n.idAt == nil && slices.Contains(r.Meant, "id") {
		n.ID = meantID(v) // so that what refers to it is found
	}
	l.readOperation(n, r)
	if n.ModeAt = r.Get("mode"); n.ModeAt != nil {
		n.Mode = plan.Mode(l.Word(n.ModeAt, "mode", fields.Modes))
	}
	if n.EffectAt = r.Get("effect_class"); n.EffectAt != nil {
		n.Effect = plan.EffectClass(l.Word(n.EffectAt, "effect_class", fields.EffectClasses))
	}
	if n.TrustAt = r.Get("trust_requirement"); n.TrustAt != nil {
		n.Trust = plan.Trust(l.Word(n.TrustAt, "trust_requirement", fields.TrustStates))
	}
	if n.TimeoutAt = r.Get("timeout_ms"); n.TimeoutAt != nil {
		n.Timeout, _ = l.Whole(n.TimeoutAt, "timeout_ms", 1, catalog.MaxTimeoutMS)
	}
	if n.RetryAt = r.Get("retry_policy"); n.RetryAt != nil {
		n.Retry = catalog.ReadRetry(l.Reader, n.RetryAt)
	}
	n.Input = l.readSchema(r.Get("input_schema"), defs)
	n.Output = l.readSchema(r.Get("output_schema"), defs)

	// A malformed field is not missing: the template does not replace it, and
	// no second finding follows.
	for _, f := range contractFields {
		if r.Has(f) && !n.given(f) {
			n.Sound = false
		}
	}
	l.readOptional(n, r)
	n.meant = r.Meant
	return n
}

// meantID is the id of a node that names it otherwise.
func meantID(v *syntax.Value) string {
	for _, key := range []string{"name", "key"} {
		if x := v.Get(key); x != nil && x.Kind == syntax.String && fields.NodeIDs.Re.MatchString(x.Text) {
			return x.Text
		}
	}
	return ""
}

// given reports whether a contract field of the node has a well-formed value.
func (n *Node) given(field string) bool {
	switch field {
	case "provider_type":
		return n.ProviderType != ""
	case "provider_name":
		return n.Provider != ""
	case "operation":
		return n.Operation != ""
	case "mode":
		return n.Mode != ""
	case "effect_class":
		return n.Effect != ""
	case "trust_requirement":
		return n.Trust != ""
	case "timeout_ms":
		return n.Timeout != 0
	case "retry_policy":
		return n.Retry.MaxAttempts != 0
	case "input_schema":
		return n.Input != nil
	case "output_schema":
		return n.Output != nil
	}
	panic("compiler: no contract field " + field)
}

func (l *linter) readOperation(n *Node, r *fields.Record) {
	if n.TypeAt = r.Get("provider_type"); n.TypeAt != nil {
		n.ProviderType = plan.ProviderType(l.Word(n.TypeAt, "provider_type", fields.ProviderTypes))
	}
	if n.ProviderAt = r.Get("provider_name"); l.Name(n.ProviderAt, "provider_name", fields.ProviderNames) {
		n.Provider = n.ProviderAt.Text
	}
	if n.OperationAt = r.Get("operation"); l.Name(n.OperationAt, "operation", fields.OperationNames) {
		n.Operation = n.OperationAt.Text
	}
	if n.TemplateAt = r.Get("template"); n.TemplateAt == nil {
		n.Sound = n.Sound && !r.Has("template")
		return
	}
	provider, operation, ok := strings.Cut(n.TemplateAt.Text, "/")
	if !ok || !fields.ProviderNames.Re.MatchString(provider) || !fields.OperationNames.Re.MatchString(operation) {
		l.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: fmt.Sprintf("`template` is `provider/operation`, not %s", fields.Quote(n.TemplateAt.Text)),
			Subject: n.TemplateAt.Range(), Node: n.ID,
		})
		n.Sound = false
	}
}

func (l *linter) readOptional(n *Node, r *fields.Record) {
	if n.FingerprintAt = r.Get("fingerprint"); r.Has("fingerprint") && !l.Name(n.FingerprintAt, "fingerprint", fields.Fingerprints) {
		n.Sound, n.FingerprintAt = false, nil
	}
	if n.With = r.Get("with"); n.With == nil && r.Has("with") {
		n.Sound = false
	}
	n.AfterAt, n.WhenAt, n.OtherwiseAt = r.Get("after"), r.Get("when"), r.Get("otherwise_of")
	n.Description = l.Bounded(r.Get("description"), "description")
	for _, s := range l.Texts(r.Get("resources"), "resources") {
		n.Resources = append(n.Resources, l.Bounded(s, "resources"))
	}
	n.Priority = l.Word(r.Get("priority"), "priority", Priorities)
	if n.Cost = r.Get("cost_estimate"); n.Cost != nil && n.Cost.Kind == syntax.Number {
		if x := fields.Number(n.Cost); x == nil || x.Sign() < 0 {
			l.Report(diag.Diagnostic{
				Code: diag.PlanLimits, Summary: fmt.Sprintf("`cost_estimate` is out of range: %s", fields.Quote(n.Cost.Text)),
				Detail: "It is a decimal number from 0 on.", Subject: n.Cost.Range(), Node: n.ID,
			})
			n.Cost = nil
		}
	}
	if v := r.Get("for_each"); v != nil {
		errs := l.Errors
		fe := l.Read(v, forEachFields, "")
		n.ForEach = &forEach{At: v, Port: fe.Get("port")}
		n.ForEach.Items, _ = l.Whole(fe.Get("max_items"), "max_items", 1, MaxItems)
		n.ForEach.Parallel, _ = l.Whole(fe.Get("max_parallel"), "max_parallel", 1, MaxParallel)
		n.PortsUnknown = l.Errors > errs
	} else if r.Has("for_each") {
		n.Sound, n.PortsUnknown = false, true
	}
	if v := r.Get("commit_policy"); v != nil {
		n.Commit = readCommit(l.Reader, v)
	} else if r.Has("commit_policy") {
		n.Commit = &CommitPolicy{refused: true}
		n.Sound = false
	}
}

func readCommit(rep *fields.Reader, v *syntax.Value) *CommitPolicy {
	errs := rep.Errors
	r := rep.Read(v, commitFields, "")
	c := &CommitPolicy{Approval: r.Get("approval"), Barrier: r.Get("barrier")}
	if c.Approval != nil {
		readApproval(rep, c)
	}
	if c.Barrier != nil && !rep.Name(c.Barrier, "barrier", fields.NodeIDs) {
		c.Barrier = nil
	}
	c.Prechecks = rep.Texts(r.Get("prechecks"), "prechecks")
	if x := r.Get("verify"); x != nil {
		vr := rep.Read(x, verifyFields, "")
		c.Verify = &Verify{at: x, Node: vr.Get("node"), With: vr.Get("with"), Executed: vr.Get("executed"), Output: vr.Get("output")}
	}
	if x := r.Get("rollback"); x != nil {
		readRollback(rep, c, x)
	}
	c.refused = rep.Errors > errs
	return c
}

// readRollback reads the node that undoes an effect, or the reason why nothing does.
func readRollback(rep *fields.Reader, c *CommitPolicy, v *syntax.Value) {
	r := rep.Read(v, rollbackFields, "")
	node, with := r.Get("node"), r.Get("with")
	switch {
	case node == nil && !r.Has("node") && !r.Has("with"):
		c.Waived = catalog.ReadRollback(rep, v)
	case r.Has("none"):
		rep.Report(diag.Diagnostic{
			Code: diag.EffectRollback, Summary: "`rollback` names a node, or says why nothing can be undone, not both", Subject: fields.KeyOf(v, "none"), Edits: rep.Remove(v, "none"),
		})
	case node == nil && !r.Has("node"):
		rep.Report(diag.Diagnostic{
			Code: diag.PlanCompensation, Summary: "`rollback` does not say which node undoes the effect", Subject: fields.Head(v), Suggestion: "node: …",
		})
	case with == nil && !r.Has("with"):
		rep.Report(diag.Diagnostic{
			Code: diag.PlanCompensation, Summary: "`rollback` does not say what the undoing node takes", Subject: fields.Head(v), Suggestion: "with: {PORT: \"${output.…}\"}",
			Detail: "`with` maps the ports of that node to expressions over `args`, `output` and `error` of the effect, and `input`.",
		})
	case node != nil && with != nil && with.Kind == syntax.Map && len(with.Fields) == 0:
		rep.Report(diag.Diagnostic{Code: diag.PlanCompensation, Summary: "`with` of `rollback` is empty", Subject: with.Range(), Detail: "It says what the undoing node takes."})
	case node != nil && with != nil:
		c.Undo = &Undo{node, with}
	}
}

func readApproval(rep *fields.Reader, c *CommitPolicy) {
	r := rep.Read(c.Approval, approvalFields, "")
	if n, ok := rep.Whole(r.Get("expires_in_ms"), "expires_in_ms", 1, MaxExpiresMS); ok {
		c.expires = n
	}
	excluded := rep.Texts(r.Get("exclude"), "exclude")
	if len(excluded) > MaxExcluded {
		rep.Report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("`exclude` has %d persons, more than %d", len(excluded), MaxExcluded), Subject: excluded[MaxExcluded].Range(),
		})
	}
	for _, x := range excluded {
		rep.Name(x, "exclude", fields.PersonIDs)
	}
	groups := readGroups(rep, r.Get("groups"))
	c.FollowUp = policy.ReadFollowUp(rep, r, groups)
}

// readGroups reads the groups that must sign from the beginning.
func readGroups(rep *fields.Reader, groups *syntax.Value) (out []plan.Group) {
	if groups == nil {
		return nil
	}
	if len(groups.Items) == 0 {
		rep.Report(diag.Diagnostic{
			Code: diag.EffectPolicy, Summary: "`groups` is empty",
			Detail: "Name at least one group, or leave `groups` out.", Subject: groups.Range(),
		})
	}
	if len(groups.Items) > policy.MaxGroups {
		rep.Report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("`groups` has %d groups, more than %d", len(groups.Items), policy.MaxGroups), Subject: groups.Items[policy.MaxGroups].Range(),
		})
	}
	seen := map[string]bool{}
	for _, g := range groups.Items {
		gr := rep.Read(g, policy.GroupFields, "")
		role := gr.Get("role")
		least, _ := rep.Whole(gr.Get("min"), "min", 1, policy.MaxSigners)
		if rep.Name(role, "role", fields.RoleNames) {
			if seen[role.Text] {
				rep.Report(diag.Diagnostic{
					Code: diag.PlanDuplicateID, Summary: fmt.Sprintf("a group of role %s is there already", fields.Quote(role.Text)), Subject: role.Range(),
				})
			}
			seen[role.Text] = true
			out = append(out, plan.Group{Role: role.Text, Min: int(least)})
		}
	}
	return out
}
