package compiler

import (
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// effects checks that every effect is one that the plan and the operator's
// bundle allow, that it says who approves it and how it is undone, and what
// nobody vouches for on its way there.
func (u *unit) effects() {
	u.graph = judged(u.typed, u.pol)
	for at, doc := range u.graph {
		required := doc.requiredInto()
		for i, n := range doc.nodes {
			if n.kind != plan.KindCall || n.effect == "" {
				continue
			}
			u.allowed(doc, n)
			if n.subplan() {
				u.callsPlan(n)
			}
			if at > 0 && n.effect != plan.Pure {
				u.Report(diag.Diagnostic{
					Code: diag.EffectNotAllowed, Summary: fmt.Sprintf("node %s of a sub-plan is %s", fields.Quote(n.id), n.effect),
					Detail:  "A plan that another plan runs holds pure nodes only. Let it return what is to be done, and put the effect into the calling plan, where it is seen and approved.",
					Subject: n.effectRange(), Node: n.id,
				})
			}
			commits := n.effect == plan.Committing || n.effect == plan.Irreversible
			switch {
			case commits && n.commit == nil:
				u.Report(diag.Diagnostic{
					Code: diag.EffectPolicy, Summary: fmt.Sprintf("node %s is %s and has no commit policy", fields.Quote(n.id), n.effect),
					Detail:  "It says who approves the effect, what is checked before, and how it is verified or undone. It may be empty: the operator's own rules hold all the same.",
					Subject: n.effectRange(), Node: n.id, Suggestion: "commit_policy: {}",
				})
			case !commits && n.commit != nil:
				u.Report(diag.Diagnostic{
					Code: diag.EffectPolicy, Summary: fmt.Sprintf("node %s is %s, so there is nothing to commit", fields.Quote(n.id), n.effect),
					Detail:  "A commit policy belongs to committing and irreversible nodes.",
					Subject: fields.KeyOf(n.at, "commit_policy"), Context: n.effectRange(), Node: n.id,
				})
			}
			if !commits {
				continue
			}
			u.commits(doc, n, required[i])
		}
	}
	u.taint()
}

// requiredInto marks the nodes that a required edge enters, that of a precheck
// included.
func (d *judgedDocument) requiredInto() []bool {
	into := make([]bool, len(d.nodes))
	for _, e := range d.edges {
		if e.to >= 0 && e.required {
			into[e.to] = true
		}
	}
	return into
}

// callsPlan checks a node that runs another plan: it has no effect of its own,
// and what it does is settled by the plan's digest.
func (u *unit) callsPlan(n *typedNode) {
	if n.effect != plan.Pure {
		u.Report(diag.Diagnostic{
			Code: diag.EffectNotAllowed, Summary: fmt.Sprintf("node %s runs a plan, and is %s", fields.Quote(n.id), n.effect),
			Detail:  "A plan that another plan runs holds pure nodes only, so the node is pure.",
			Subject: n.effectRange(), Node: n.id, Suggestion: "effect_class: pure",
		})
	}
	if n.mode == plan.Prob && n.modeAt != nil {
		u.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: fmt.Sprintf("node %s runs a plan, and is prob", fields.Quote(n.id)),
			Detail:  "Which nodes of a plan run is settled by its edges. What of its output comes from prob nodes is found for each port.",
			Subject: n.modeAt.Range(), Node: n.id, Suggestion: "mode: deter",
		})
	}
}

func (u *unit) allowed(doc *judgedDocument, n *typedNode) {
	if doc.allow == nil || doc.allow[n.effect] {
		return
	}
	d := diag.Diagnostic{
		Code: diag.EffectNotAllowed, Summary: fmt.Sprintf("node %s is %s, which the plan does not allow", fields.Quote(n.id), n.effect),
		Detail:  "`allow` lists the effect classes that the plan may hold; without it that is `pure` alone.",
		Subject: n.effectRange(), Node: n.id, Suggestion: "allow: [" + strings.Join(doc.effects(), ", ") + "]",
	}
	if at := doc.at.Get("allow"); at != nil {
		d.Context = fields.KeyOf(doc.at, "allow")
		d.Suggestion = fmt.Sprintf("add %s to allow", n.effect)
	}
	u.Report(d)
}

// effects are the classes of all nodes of the plan, and pure.
func (d *judgedDocument) effects() []string {
	used := map[plan.EffectClass]bool{plan.Pure: true}
	for _, n := range d.nodes {
		used[n.effect] = true
	}
	var out []string
	for _, c := range []plan.EffectClass{plan.Pure, plan.Staged, plan.Committing, plan.Irreversible} {
		if used[c] {
			out = append(out, string(c))
		}
	}
	return out
}

func (u *unit) commits(doc *judgedDocument, n *typedNode, gated bool) {
	if n.mode == plan.Prob {
		at := n.effectRange()
		if n.modeAt != nil {
			at = n.modeAt.Range()
		}
		u.Report(diag.Diagnostic{
			Code: diag.EffectProbCommits, Summary: fmt.Sprintf("node %s is prob, and would commit", fields.Quote(n.id)),
			Detail:  "What may answer differently each time never commits. Let a prob node propose, and a deter node act.",
			Subject: at, Context: n.effectRange(), Node: n.id,
		})
	}
	if !gated && (n.commit == nil || len(n.commit.prechecks) == 0) {
		u.Report(diag.Diagnostic{
			Code: diag.EffectUngated, Summary: fmt.Sprintf("nothing has to happen before the effect of %s", fields.Quote(n.id)),
			Detail:  "None of its incoming edges is required, so someone probably forgot one.",
			Subject: n.key, Node: n.id,
		})
	}
	u.safeRetry(n)
	if n.effect == plan.Irreversible {
		u.granted(doc, n)
	}
	if n.commit == nil {
		return
	}
	for at, check := range n.commit.checks {
		if check >= 0 && doc.nodes[check].effect != plan.Pure && doc.nodes[check].effect != "" {
			u.Report(diag.Diagnostic{
				Code: diag.EffectPrechecks, Summary: fmt.Sprintf("the precheck %s has an effect itself", fields.Quote(doc.nodes[check].id)),
				Detail:  "A precheck looks, and changes nothing: it is a pure node.",
				Subject: n.commit.prechecks[at].Range(), Context: doc.nodes[check].effectRange(), Node: n.id,
			})
		}
	}
	if n.effect != plan.Irreversible {
		return
	}
	if len(n.commit.prechecks) == 0 {
		u.Report(diag.Diagnostic{
			Code: diag.EffectPrechecks, Summary: fmt.Sprintf("the irreversible node %s has no precheck", fields.Quote(n.id)),
			Detail:  "At least one node must succeed before an effect that cannot be undone. The compiled plan has a required control edge from every precheck to the node; it needs none in the source.",
			Subject: fields.KeyOf(n.at, "commit_policy"), Node: n.id, Suggestion: "prechecks: [NODE]",
		})
	}
	if n.commit.verify == nil && !n.commit.waived {
		u.Report(diag.Diagnostic{
			Code: diag.EffectRollback, Summary: fmt.Sprintf("the irreversible node %s says neither how to verify it nor why nothing can be done", fields.Quote(n.id)),
			Detail:  "When its outcome is unknown, `verify` finds out whether it happened; otherwise say why that is impossible.",
			Subject: fields.KeyOf(n.at, "commit_policy"), Node: n.id, Suggestion: "rollback: {none: reason}",
		})
	}
}

// granted asks the operator's bundle for leave. An operation or an agent that
// was refused before is not asked about.
func (u *unit) granted(doc *judgedDocument, n *typedNode) {
	if n.provider == "" || n.operation == "" || (doc.agent == nil && doc.at.Get("agent") != nil) {
		return
	}
	name := catalog.OperationName(n.provider, n.operation)
	if doc.grants.allows(n.effect, name) {
		return
	}
	who := "a plan without an `agent`"
	entry := fmt.Sprintf("{effects: [%s], operations: [%q]}", n.effect, name)
	if doc.agent != nil {
		who = "agent " + fields.Quote(doc.agent.Text)
		entry = fmt.Sprintf("{effects: [%s], agents: [%s], operations: [%q]}", n.effect, doc.agent.Text, name)
	}
	d := diag.Diagnostic{
		Code: diag.EffectOperator, Summary: fmt.Sprintf("the operator's policy does not allow %s the irreversible %s", who, fields.Quote(name)),
		Detail:  "An effect that cannot be undone needs an entry for its agent and operation in the `allow` list of the policy bundle: " + entry + ".",
		Subject: n.effectRange(), Node: n.id,
	}
	if u.pol == nil {
		d.Detail = "There is no policy bundle. " + d.Detail
	}
	u.Report(d)
}

// proven are the kinds of failure that prove that nothing was sent, or that it
// was refused before anything ran.
var proven = []contract.Kind{contract.Unsent, contract.Throttled, contract.Auth}

// repeatable reports whether a call may be made again after any failure: it has
// no lasting effect, or the operation takes an idempotency key.
func (n *typedNode) repeatable() bool {
	lasting := n.effect == plan.Committing || n.effect == plan.Irreversible
	return !lasting || (n.template != nil && n.template.IdempotencyPort != "")
}

// safeRetry refuses kinds in `on` after which the effect may have happened,
// whether the node names them or its template does.
func (u *unit) safeRetry(n *typedNode) {
	if n.repeatable() || n.template == nil {
		return
	}
	if n.retryAt == nil {
		for _, k := range n.retry.On {
			if slices.Contains(proven, k) {
				continue
			}
			u.Report(diag.Diagnostic{
				Code: diag.EffectRetry, Summary: fmt.Sprintf("after %s the effect of %s may have happened", fields.Quote(string(k)), fields.Quote(n.id)),
				Detail:  "The template's retry policy names it, and the operation takes no idempotency key, so it is called again only after `unsent`, `throttled` and `auth`, which prove that nothing ran.",
				Subject: n.operationRange(), Context: n.template.Range, Node: n.id, Suggestion: "retry_policy: {max_retries: 0}",
			})
		}
		return
	}
	list := n.retryAt.Get("on")
	if list == nil {
		return
	}
	for _, item := range list.Items {
		if slices.Contains(n.retry.On, contract.Kind(item.Text)) && !slices.Contains(proven, contract.Kind(item.Text)) {
			u.Report(diag.Diagnostic{
				Code: diag.EffectRetry, Summary: fmt.Sprintf("after %s the effect of %s may have happened", fields.Quote(item.Text), fields.Quote(n.id)),
				Detail:  "The operation takes no idempotency key, so it is called again only after `unsent`, `throttled` and `auth`, which prove that nothing ran.",
				Subject: item.Range(), Context: n.effectRange(), Node: n.id,
			})
		}
	}
}

func (n *typedNode) effectRange() diag.Range {
	if n.effectAt != nil {
		return n.effectAt.Range()
	}
	return n.operationRange()
}
