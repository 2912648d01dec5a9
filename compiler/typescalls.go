package compiler

import (
	"fmt"
	"strings"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// typeCalls proves that nodes which run a plan of the same file fit it: it takes
// all that the node takes, and returns nothing that the node does not.
func (u *unit) typeCalls() {
	plans := map[string]*typedDocument{}
	for _, doc := range u.typed {
		if ref := doc.reference(); ref != "" && plans[ref] == nil {
			plans[ref] = doc
		}
	}
	for _, doc := range u.typed {
		for _, n := range doc.nodes {
			if child := plans[n.operation]; n.subplan() && child != nil {
				u.typeCall(n, child)
			}
		}
	}
}

func (u *unit) typeCall(n *typedNode, child *typedDocument) {
	name := fields.Quote(child.reference())
	u.fitsCall(n, n.input, child.input, fits{
		summary: fmt.Sprintf("%s takes what the plan %s does not", fields.Quote(n.id), name),
		source:  "input_schema of " + n.id, target: "input_schema of " + child.reference(),
	})
	u.fitsCall(n, child.output, n.output, fits{
		summary: fmt.Sprintf("the plan %s may return what %s does not", name, fields.Quote(n.id)),
		source:  "output_schema of " + child.reference(), target: "output_schema of " + n.id,
	})
}

// fits says what to call the two sides of a proof.
type fits struct{ summary, source, target string }

// fitsCall proves that one schema of a call lies within the other.
func (u *unit) fitsCall(n *typedNode, left, right *typedSchema, say fits) {
	l, r := left.usable(), right.usable()
	if l == nil || r == nil {
		return
	}
	res := u.prover.Within(l, r)
	if res.Verdict == containment.Proved {
		return
	}
	d := diag.Diagnostic{
		Code: diag.TypeUnknown, Summary: "it is not proved that the " + say.source + " lies within the " + say.target,
		Subject: fields.Head(left.at), Label: "takes " + brief(l), Node: n.id,
		Related: []diag.Related{{Range: fields.Head(right.at), Label: "takes " + brief(r)}},
	}
	if right == n.output {
		d.Subject, d.Label = fields.Head(right.at), "gives "+brief(r)
		d.Related = []diag.Related{{Range: fields.Head(left.at), Label: "gives " + brief(l)}}
	}
	if res.Verdict == containment.Refuted {
		d.Code, d.Summary = diag.TypeNotContained, say.summary
		d.Detail = u.refusal(res.Witness, r, "the "+say.target)
		d.Witness = shown(res.Witness)
		m := mend{
			u: u, source: l, target: r, sourceName: say.source, targetName: say.target,
			sourceOpen: true, targetOpen: true, root: right.Decoded(),
		}
		d.Suggestion = m.propose(res.Witness)
	} else {
		d.Detail = "What stopped the proof: " + stopped(res) + ". Write that part more simply, or give both the same words."
	}
	u.Report(d)
}

// typeVerify checks what the verify of a commit policy calls, and asks of it. It
// is asked while the outcome is not known, and again after a compensation, so
// that the effect's output may be missing, and so may an error: both are null
// then.
func (u *unit) typeVerify(doc *typedDocument, n *typedNode) {
	if n.verify == nil {
		return
	}
	v := n.verify
	s := sight{input: doc.input.usable(), args: n.input.usable()}
	output := n.output.usable()
	if s.input == nil || s.args == nil || output == nil {
		return
	}
	null := u.prover.Typed("null")
	s.output, s.failure = u.prover.Either(output, null), u.prover.Either(u.failures(), null)
	var called *typedNode
	if v.node != nil {
		if i, ok := doc.index[v.node.Text]; ok {
			called = doc.nodes[i]
		}
	}
	if called == nil || called.input.usable() == nil || called.output.usable() == nil {
		return
	}
	if v.with == nil {
		u.typeUnfilled(n, called)
	}
	if v.args != nil {
		made, result, ok := u.checkTemplate(v.with, v.args, s, false, n.id, "")
		v.args = made
		for i := range v.with.Fields {
			// A port that is not there is reported by the effects pass.
			ok = ok && called.input.takes(v.with.Fields[i].Key.Text)
		}
		if ok {
			u.fitsWhole(&inquiry{template: made, sight: s, target: called.input.usable(), admits: anyVars}, result, v.with.Range(), "the input of "+fields.Quote(called.id), n.id)
		}
	}
	at := sight{input: s.input, output: called.output.usable(), value: called.output.usable(), port: plan.WholePort}
	if v.predicate != nil {
		v.condition, _ = u.checkPredicate(v.executed, v.predicate, at, false, n.id, "")
		at = u.narrow(v.predicate, at, true)
	}
	if v.result == nil {
		return
	}
	made, result, ok := u.checkTemplate(v.output, v.result, at, false, n.id, "")
	v.result = made
	if !ok {
		return
	}
	condition := v.predicate
	if x, err := expr.CompilePredicate(v.condition, expr.When); err == nil && condition != nil {
		condition = x
	}
	u.fitsWhole(&inquiry{template: made, sight: at, target: output, admits: func(vars expr.Vars) bool {
		if condition == nil {
			return true
		}
		executed, err := condition.EvalBool(vars)
		return err == nil && executed
	}, condition: v.predicate}, result, v.output.Range(), "the output of "+fields.Quote(n.id), n.id)
}

// typeUnfilled checks that the node which verifies n, called without `with`,
// takes an empty input.
func (u *unit) typeUnfilled(n, called *typedNode) {
	v := n.verify
	empty := map[string]any{}
	if _, refused := causeOf(empty, called.input.usable()); !refused {
		return
	}
	var given []string
	for _, port := range called.input.Ports().Names {
		if called.input.Ports().Requires(port) {
			given = append(given, port+": …")
		}
	}
	u.Report(diag.Diagnostic{
		Code: diag.TypeMissingInput, Summary: fmt.Sprintf("`verify` calls %s without an input", fields.Quote(called.id)),
		Detail:  "Without `with` the input is {}. " + u.refusal(empty, called.input.usable(), "the input of "+fields.Quote(called.id)),
		Subject: v.node.Range(), Context: called.key, Node: n.id, Suggestion: "with: {" + strings.Join(given, ", ") + "}",
	})
}

func anyVars(expr.Vars) bool { return true }

// fitsWhole proves that what a template gives is contained in a whole schema. As
// for a transform, a counterexample counts only if values are found that come
// out as it.
func (u *unit) fitsWhole(q *inquiry, result *schemas.Schema, at diag.Range, name, node string) {
	r := u.prover.Within(result, q.target)
	if q.template.Constant() {
		r = containment.Result{Verdict: containment.Proved}
		if _, refused := causeOf(q.template.Value, q.target); refused {
			r = containment.Result{Verdict: containment.Refuted, Witness: q.template.Value}
		}
	}
	if r.Verdict == containment.Proved {
		return
	}
	d := diag.Diagnostic{
		Code: diag.TypeUnknown, Summary: "it is not proved that what the template gives fits " + name,
		Detail: "What stopped the proof: " + stopped(r) + ".", Subject: at, Node: node,
	}
	if r.Verdict == containment.Refuted {
		d.Detail = fmt.Sprintf("The template is known to give %s, which would allow %s. %s ",
			describe(result), fields.Quote(shown(r.Witness)), u.refusal(r.Witness, q.target, name))
		before, after, found := any(nil), r.Witness, q.template.Constant()
		if !found {
			before, after, found = u.searchWhole(q, r.Witness)
			d.Before = shown(before)
		}
		if found {
			d.Code, d.Summary = diag.TypeNotContained, "what the template gives does not fit "+name
			d.Detail, d.Witness = u.refusal(after, q.target, name), shown(after)
		} else {
			d.Before = ""
			d.Detail += u.unfound("value")
		}
	}
	u.Report(d)
}
