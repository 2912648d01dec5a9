package judge

import (
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/compiler/typing"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

// effects checks that the plan and the operator's bundle allow every effect, that
// its commit policy says who approves it and how it is undone, and that nothing
// tainted reaches it unapproved.
func (j *judge) effects() {
	for at, doc := range j.Documents {
		if at == 0 {
			j.agentless(doc)
		}
		required := doc.requiredInto()
		for i, n := range doc.Nodes {
			if n.Kind != plan.KindCall || n.Effect == "" {
				continue
			}
			j.allowed(doc, n)
			if n.Subplan() {
				j.callsPlan(n)
			}
			if n.Called && n.Reviewed() {
				j.Report(diag.Diagnostic{
					Code: diag.EffectRollback, Summary: fmt.Sprintf("%s verifies an effect, and waits for a human review", fields.Quote(n.ID)),
					Detail:  "`verify` calls it when nobody knows what the effect did, perhaps several times, and asks nobody.",
					Subject: n.TrustRange(), Node: n.ID,
				})
			}
			if at > 0 && n.Effect != plan.Pure {
				j.Report(diag.Diagnostic{
					Code: diag.EffectNotAllowed, Summary: fmt.Sprintf("node %s of a sub-plan is %s", fields.Quote(n.ID), n.Effect),
					Detail:  "A plan that another plan runs holds pure nodes only. Let it return what is to be done, and put the effect into the calling plan, where it is seen and approved.",
					Subject: n.EffectRange(), Node: n.ID,
				})
			}
			commits := n.Effect.Commits()
			switch {
			case commits && n.Commit == nil:
				j.Report(diag.Diagnostic{
					Code: diag.EffectPolicy, Summary: fmt.Sprintf("node %s is %s and has no commit policy", fields.Quote(n.ID), n.Effect),
					Detail:  missingPolicy,
					Subject: n.EffectRange(), Node: n.ID,
				})
			case !commits && n.Commit != nil:
				j.Report(diag.Diagnostic{
					Code: diag.EffectPolicy, Summary: fmt.Sprintf("node %s is %s, so there is nothing to commit", fields.Quote(n.ID), n.Effect),
					Detail:  "A commit policy belongs to committing and irreversible nodes.",
					Subject: fields.KeyOf(n.At, "commit_policy"), Context: n.EffectRange(), Node: n.ID,
				})
			}
			if !commits {
				continue
			}
			j.commits(doc, i, required[i])
		}
	}
	j.taint()
}

// missingPolicy says what a commit policy is for. It is not suggested to write an empty
// one: what it says is for somebody to decide.
const missingPolicy = "`commit_policy` of the node, or of its template in the catalog, says what nobody else knows: `approval`, who must agree; " +
	"`prechecks`, the nodes that must succeed before; `verify`, how to find out whether the effect happened when no answer came; " +
	"and `rollback: {none: reason}`, why it cannot be undone. What does not apply stays out; the operator's own rules hold in any case."

// requiredInto marks the nodes that a required edge enters, including those of
// prechecks.
func (d *Document) requiredInto() []bool {
	into := make([]bool, len(d.Nodes))
	for _, e := range d.Edges {
		if e.To >= 0 && e.Required {
			into[e.To] = true
		}
	}
	return into
}

// agentless warns of a plan without an agent whose runs would be refused at their start: for
// its effects, costs and reviews, somebody has to have granted the start to an agent.
func (j *judge) agentless(doc *Document) {
	if doc.At.Get("agent") != nil {
		return
	}
	for _, n := range doc.Nodes {
		var what string
		switch {
		case n.Kind != plan.KindCall || n.Effect == "":
			continue
		case n.Effect != plan.Pure:
			what = "is " + string(n.Effect)
		case n.Cost != nil || n.Price != "":
			what = "has a cost"
		case n.Reviewed():
			what = "waits for a human review"
		default:
			continue
		}
		j.Report(diag.Diagnostic{
			Code: diag.EffectAgent, Severity: diag.Warning, Summary: fmt.Sprintf("node %s %s, and the plan names no agent", fields.Quote(n.ID), what),
			Detail:  "A run of this plan is refused at its start: `agent` says for whom it acts, who is granted the start, whose budget pays, and to whom the policy applies.",
			Subject: n.Key, Node: n.ID,
		})
		return
	}
}

// callsPlan checks a node that runs another plan. It has no effect of its own; the
// plan's digest determines what it does.
func (j *judge) callsPlan(n *typing.Node) {
	if n.Effect != plan.Pure {
		j.Report(diag.Diagnostic{
			Code: diag.EffectNotAllowed, Summary: fmt.Sprintf("node %s runs a plan, and is %s", fields.Quote(n.ID), n.Effect),
			Detail:  "A plan that another plan runs holds pure nodes only, so the node is pure.",
			Subject: n.EffectRange(), Node: n.ID, Suggestion: "effect_class: pure", Edits: j.Set(n.At, "effect_class", "pure"),
		})
	}
	if n.Mode == plan.Prob && n.ModeAt != nil {
		j.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: fmt.Sprintf("node %s runs a plan, and is prob", fields.Quote(n.ID)),
			Detail:  "Which nodes of a plan run is settled by its edges. What of its output comes from prob nodes is found for each port.",
			Subject: n.ModeAt.Range(), Node: n.ID, Suggestion: "mode: deter", Edits: j.Set(n.At, "mode", "deter"),
		})
	}
}

func (j *judge) allowed(doc *Document, n *typing.Node) {
	if doc.Allow == nil || doc.Allow[n.Effect] {
		return
	}
	d := diag.Diagnostic{
		Code: diag.EffectNotAllowed, Summary: fmt.Sprintf("node %s is %s, which the plan does not allow", fields.Quote(n.ID), n.Effect),
		Detail:  "`allow` lists the effect classes that the plan may hold; without it that is `pure` alone.",
		Subject: n.EffectRange(), Node: n.ID, Suggestion: "allow: [" + strings.Join(doc.effects(), ", ") + "]",
	}
	if at := doc.At.Get("allow"); at != nil {
		d.Context = fields.KeyOf(doc.At, "allow")
		d.Suggestion = fmt.Sprintf("add %s to allow", n.Effect)
	}
	j.Report(d)
}

// effects lists the effect classes of the plan's nodes, and pure.
func (d *Document) effects() []string {
	used := map[plan.EffectClass]bool{plan.Pure: true}
	for _, n := range d.Nodes {
		used[n.Effect] = true
	}
	var out []string
	for _, c := range []plan.EffectClass{plan.Pure, plan.Staged, plan.Committing, plan.Irreversible} {
		if used[c] {
			out = append(out, string(c))
		}
	}
	return out
}

func (j *judge) commits(doc *Document, i int, gated bool) {
	n := doc.Nodes[i]
	if n.Mode == plan.Prob {
		at := n.EffectRange()
		if n.ModeAt != nil {
			at = n.ModeAt.Range()
		}
		j.Report(diag.Diagnostic{
			Code: diag.EffectProbCommits, Summary: fmt.Sprintf("node %s is prob, and would commit", fields.Quote(n.ID)),
			Detail:  "What may answer differently each time never commits. Let a prob node propose, and a deter node act.",
			Subject: at, Context: n.EffectRange(), Node: n.ID,
		})
	}
	if !gated && (n.Commit == nil || len(n.Commit.Prechecks) == 0) {
		d := diag.Diagnostic{
			Code: diag.EffectUngated, Summary: fmt.Sprintf("nothing has to happen before the effect of %s", fields.Quote(n.ID)),
			Detail:  "None of its incoming edges is required, so someone probably forgot one. A precheck counts, too: a node that looks before the call.",
			Subject: n.Key, Node: n.ID, Suggestion: "after: [NODE]",
		}
		if n.Effect == plan.Irreversible {
			d.Suggestion = "commit_policy: {prechecks: [NODE]}" // it needs one anyway
		}
		if slices.ContainsFunc(doc.In[i], func(at int) bool { return doc.Edges[at].Form == lint.FormWith }) {
			d.Detail = "What stands beside `??` need not arrive. Say by `after` which node must have succeeded before."
		}
		j.Report(d)
	}
	j.safeRetry(n)
	if n.Effect == plan.Irreversible {
		j.granted(doc, n)
	}
	if n.Commit == nil {
		return
	}
	j.asked(doc, n)
	for at, check := range n.Commit.Checks {
		if check >= 0 && doc.Nodes[check].Effect != plan.Pure && doc.Nodes[check].Effect != "" {
			j.Report(diag.Diagnostic{
				Code: diag.EffectPrechecks, Summary: fmt.Sprintf("the precheck %s has an effect itself", fields.Quote(doc.Nodes[check].ID)),
				Detail:  "A precheck looks, and changes nothing: it is a pure node.",
				Subject: n.Commit.Prechecks[at].Range(), Context: doc.Nodes[check].EffectRange(), Node: n.ID,
			})
		} else if check >= 0 && doc.Nodes[check].Reviewed() {
			j.Report(diag.Diagnostic{
				Code: diag.EffectPrechecks, Summary: fmt.Sprintf("the precheck %s waits for a human review", fields.Quote(doc.Nodes[check].ID)),
				Detail:  "A precheck is called without asking anybody. Who approves the effect sees what it found.",
				Subject: n.Commit.Prechecks[at].Range(), Context: doc.Nodes[check].TrustRange(), Node: n.ID,
			})
		}
	}
	if n.Effect != plan.Irreversible {
		return
	}
	j.attended(doc, n)
	if len(n.Commit.Prechecks) == 0 {
		j.Report(diag.Diagnostic{
			Code: diag.EffectPrechecks, Summary: fmt.Sprintf("the irreversible node %s has no precheck", fields.Quote(n.ID)),
			Detail:  "At least one node must succeed before an effect that cannot be undone. The compiled plan has a required control edge from every precheck to the node; it needs none in the source.",
			Subject: fields.KeyOf(n.At, "commit_policy"), Node: n.ID, Suggestion: "prechecks: [NODE]",
		})
	}
	if n.Commit.Verify == nil && n.Commit.Waived == "" {
		j.Report(diag.Diagnostic{
			Code: diag.EffectRollback, Summary: fmt.Sprintf("the irreversible node %s says neither how to verify it nor why nothing can be done", fields.Quote(n.ID)),
			Detail:  "When its outcome is unknown, `verify` finds out whether it happened; otherwise say why that is impossible.",
			Subject: fields.KeyOf(n.At, "commit_policy"), Node: n.ID, Suggestion: "rollback: {none: reason}", Edits: j.Set(n.At.Get("commit_policy"), "rollback", map[string]any{"none": "…"}),
		})
	}
}

// asked checks that somebody is asked where a node waits for approval.
func (j *judge) asked(doc *Document, n *typing.Node) {
	c := n.Commit
	if c.Approval == nil && c.Barrier == nil || j.asks(doc, n) {
		return
	}
	d := diag.Diagnostic{
		Code: diag.PlanBarrier, Summary: fmt.Sprintf("%s waits for approval, and nobody is asked", fields.Quote(n.ID)),
		Detail: "Neither the plan nor the operator's policy (`approval.floor`) names a group that must approve it.", Node: n.ID,
		Subject: fields.KeyOf(n.At, "commit_policy"), Suggestion: "approval: {groups: [{role: ROLE, min: 1}]}",
	}
	if c.Barrier != nil {
		d.Subject = c.Barrier.Range()
	}
	j.Report(d)
}

// asks reports whether the plan or the operator's bundle names somebody who must approve the
// effect. It does so also where the agent has been refused.
func (j *judge) asks(doc *Document, n *typing.Node) bool {
	if doc.approved(n) || doc.Agent == nil && doc.At.Get("agent") != nil {
		return true
	}
	if j.pol == nil {
		return false
	}
	agent := ""
	if doc.Agent != nil {
		agent = doc.Agent.Text
	}
	return n.Reviewed() && len(j.pol.Review) > 0 || slices.ContainsFunc(j.pol.Floor, func(f policy.Floor) bool {
		return f.Has(n.Effect, agent, catalog.OperationName(n.Provider, n.Operation))
	})
}

// approvalOf is the approval that a node lacks, in the place where it stands.
func approvalOf(n *typing.Node) string {
	const approval = "approval: {groups: [{role: ROLE, min: 1}]}"
	if n.At.Get("commit_policy") == nil {
		return "commit_policy: {" + approval + "}"
	}
	return approval
}

// attended checks that somebody is asked before an irreversible effect that the bundle
// allows, unless the bundle says that nobody needs to be. Whether somebody will have to lift an
// escalation is not known here.
func (j *judge) attended(doc *Document, n *typing.Node) {
	name := catalog.OperationName(n.Provider, n.Operation)
	if n.Commit.Approval != nil || n.Commit.Barrier != nil || j.asks(doc, n) || !doc.Grants.allows(n.Effect, name) || doc.Grants.allowsUnattended(n.Effect, name) {
		return
	}
	d := diag.Diagnostic{
		Code: diag.EffectOperator, Summary: fmt.Sprintf("nobody is asked to approve the irreversible node %s", fields.Quote(n.ID)),
		Detail:  "Somebody must approve an effect that cannot be undone. Name a group in its commit policy, or in `approval.floor` of the policy bundle; or let the bundle say that nobody needs to, by `unattended: true` in the entry of `allow`.",
		Subject: n.EffectRange(), Node: n.ID, Suggestion: approvalOf(n),
	}
	if len(j.pol.Lift) > 0 {
		d.Severity = diag.Warning
		d.Detail += " As it stands the call is made only where it escalates and people lift that (`approval.lift`)."
	}
	j.Report(d)
}

// granted checks that the operator's bundle allows the effect. It skips an
// operation or agent that has been refused.
func (j *judge) granted(doc *Document, n *typing.Node) {
	if n.Provider == "" || n.Operation == "" || (doc.Agent == nil && doc.At.Get("agent") != nil) {
		return
	}
	name := catalog.OperationName(n.Provider, n.Operation)
	if doc.Grants.allows(n.Effect, name) {
		return
	}
	who := "a plan without an `agent`"
	entry := fmt.Sprintf("{effects: [%s], operations: [%q]}", n.Effect, name)
	if doc.Agent != nil {
		who = "agent " + fields.Quote(doc.Agent.Text)
		entry = fmt.Sprintf("{effects: [%s], agents: [%s], operations: [%q]}", n.Effect, doc.Agent.Text, name)
	}
	d := diag.Diagnostic{
		Code: diag.EffectOperator, Summary: fmt.Sprintf("the operator's policy does not allow %s the irreversible %s", who, fields.Quote(name)),
		Detail:  "An effect that cannot be undone needs an entry for its agent and operation in the `allow` list of the policy bundle: " + entry + ".",
		Subject: n.EffectRange(), Node: n.ID,
	}
	if j.pol == nil {
		d.Detail = "There is no policy bundle: the configuration names one under `policy`. " + d.Detail
	}
	j.Report(d)
}

// proven lists the kinds of failure that prove that nothing was sent, or that it
// was refused before anything ran.
var proven = []contract.Kind{contract.Unsent, contract.Throttled, contract.Auth}

// Retry completes a retry policy of a node. Without `on` it retries after
// catalog.RetriedKinds, and a prob node also after invalid_output; an effect that
// must not be repeated blindly only after the kinds that prove that nothing ran.
func Retry(n *typing.Node, r plan.Retry) plan.Retry {
	if r.On == nil {
		r.On = slices.Clone(catalog.RetriedKinds)
		if !n.Repeatable() {
			r.On = slices.Clone(proven)
		}
		if n.Mode == plan.Prob {
			r.On = append(r.On, contract.InvalidOutput)
		}
		slices.Sort(r.On)
	}
	return r
}

// safeRetry refuses kinds in `on` after which the effect may have happened, in the
// node or in its template.
func (j *judge) safeRetry(n *typing.Node) {
	if n.Repeatable() || n.Template == nil {
		return
	}
	if n.RetryAt == nil {
		for _, k := range n.Retry.On {
			if slices.Contains(proven, k) {
				continue
			}
			j.Report(diag.Diagnostic{
				Code: diag.EffectRetry, Summary: fmt.Sprintf("after %s the effect of %s may have happened", fields.Quote(string(k)), fields.Quote(n.ID)),
				Detail:  "The template's retry policy names it, and the operation takes no idempotency key, so it is called again only after `unsent`, `throttled` and `auth`, which prove that nothing ran.",
				Subject: n.OperationRange(), Context: n.Template.Range, Node: n.ID, Suggestion: "retry_policy: {max_retries: 0}",
			})
		}
		return
	}
	list := n.RetryAt.Get("on")
	if list == nil {
		return
	}
	for _, item := range list.Items {
		if slices.Contains(n.Retry.On, contract.Kind(item.Text)) && !slices.Contains(proven, contract.Kind(item.Text)) {
			j.Report(diag.Diagnostic{
				Code: diag.EffectRetry, Summary: fmt.Sprintf("after %s the effect of %s may have happened", fields.Quote(item.Text), fields.Quote(n.ID)),
				Detail:  "The operation takes no idempotency key, so it is called again only after `unsent`, `throttled` and `auth`, which prove that nothing ran.",
				Subject: item.Range(), Context: n.EffectRange(), Node: n.ID,
			})
		}
	}
}
