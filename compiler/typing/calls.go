package typing

import (
	"fmt"
	"strings"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// typeCalls proves that nodes that run a plan of the same file fit it: the plan
// accepts every input of the node, and the node every output of the plan.
func (check *checker) typeCalls() {
	plans := map[string]*Document{}
	for _, doc := range check.Documents {
		if ref := doc.Reference(); ref != "" && plans[ref] == nil {
			plans[ref] = doc
		}
	}
	for _, doc := range check.Documents {
		for _, n := range doc.Nodes {
			if child := plans[n.Operation]; n.Subplan() && child != nil {
				check.typeCall(n, child)
			}
		}
	}
}

func (check *checker) typeCall(n *Node, child *Document) {
	name := fields.Quote(child.Reference())
	check.fitsCall(n, n.Input, child.input, "input_schema of "+n.ID, "input_schema of "+child.Reference(),
		fmt.Sprintf("%s takes what the plan %s does not", fields.Quote(n.ID), name))
	check.fitsCall(n, child.output, n.Output, "output_schema of "+child.Reference(), "output_schema of "+n.ID,
		fmt.Sprintf("the plan %s may return what %s does not", name, fields.Quote(n.ID)))
}

// fitsCall proves that one schema of a call lies within the other, or reports why
// not: summary is what to say if a counterexample is found.
func (check *checker) fitsCall(n *Node, left, right *Schema, source, target, summary string) {
	l, r := left.Usable(), right.Usable()
	if l == nil || r == nil {
		return
	}
	res := check.prover.Within(l, r)
	if res.Verdict == containment.Proved {
		return
	}
	own, other, verb := left, right, "takes "
	if right == n.Output {
		own, other, verb = right, left, "gives "
	}
	d := diag.Diagnostic{
		Code: diag.TypeUnknown, Summary: "it is not proved that the " + source + " lies within the " + target,
		Subject: fields.Head(own.At), Label: verb + brief(own.Usable()), Node: n.ID,
		Related: []diag.Related{{Range: fields.Head(other.At), Label: verb + brief(other.Usable())}},
	}
	if res.Verdict == containment.Refuted {
		d.Code, d.Summary = diag.TypeNotContained, summary
		d.Detail = refusal(res.Witness, r, "the "+target)
		d.Witness = shown(res.Witness)
		p := proposal{
			check: check, source: l, target: r, sourceName: source, targetName: target,
			sourceOpen: true, targetOpen: true, root: right.Decoded(),
		}
		d.Suggestion = p.propose(res.Witness)
	} else {
		d.Detail = stopped(res) + " Write that part more simply, or give both the same words."
	}
	check.Report(d)
}

// typeVerify checks the call and the expressions of a commit policy's verify. It
// runs while the outcome is not known, and again after a compensation, so the
// effect's output and its error may be missing; they are null then.
func (check *checker) typeVerify(doc *Document, n *Node) {
	if n.Verify == nil {
		return
	}
	v := n.Verify
	s := scope{input: doc.input.Usable(), args: n.Input.Usable()}
	output := n.Output.Usable()
	if s.input == nil || s.args == nil || output == nil {
		return
	}
	null := check.prover.Typed("null")
	s.output, s.failure = check.prover.Either(output, null), check.prover.Either(check.failures(), null)
	if v.Target == 0 {
		return
	}
	called := doc.Nodes[v.Target]
	if called.Input.Usable() == nil || called.Output.Usable() == nil {
		return
	}
	if v.With == nil {
		check.typeUnfilled(n, called)
	}
	if v.Args != nil {
		made, result, ok := check.checkTemplate(v.With, v.Args, s, false, n.ID, "")
		v.Args = made
		for i := range v.With.Fields {
			// Lint reports a port that does not exist.
			ok = ok && called.Input.Takes(v.With.Fields[i].Key.Text)
		}
		if ok {
			check.fitsWhole(&search{template: made, scope: s, target: called.Input.Usable()}, result, v.With.Range(), "the input of "+fields.Quote(called.ID), n.ID)
		}
	}
	at := scope{input: s.input, output: called.Output.Usable(), value: called.Output.Usable(), port: plan.WholePort}
	if v.predicate != nil {
		v.Condition, _ = check.checkPredicate(v.Executed, v.predicate, at, false, n.ID, "")
		at = check.narrow(v.predicate, at, true)
	}
	if v.Result == nil {
		return
	}
	made, result, ok := check.checkTemplate(v.Output, v.Result, at, false, n.ID, "")
	if v.Result = made; !ok {
		return
	}
	q := &search{template: made, scope: at, target: output, condition: v.predicate}
	if condition := v.predicate; condition != nil {
		if x, err := expr.CompilePredicate(v.Condition, expr.When); err == nil {
			condition = x
		}
		q.admits = func(vars expr.Vars) bool {
			executed, err := condition.EvalBool(vars)
			return err == nil && executed
		}
	}
	check.fitsWhole(q, result, v.Output.Range(), "the output of "+fields.Quote(n.ID), n.ID)
}

// typeUnfilled checks that the node which verifies n, called without `with`,
// takes an empty input.
func (check *checker) typeUnfilled(n, called *Node) {
	empty := map[string]any{}
	if _, refused := causeOf(empty, called.Input.Usable()); !refused {
		return
	}
	var given []string
	for _, port := range called.Input.Ports().Names {
		if called.Input.Ports().Requires(port) {
			given = append(given, port+": …")
		}
	}
	check.Report(diag.Diagnostic{
		Code: diag.TypeMissingInput, Summary: fmt.Sprintf("`verify` calls %s without an input", fields.Quote(called.ID)),
		Detail:  "Without `with` the input is {}. " + refusal(empty, called.Input.Usable(), "the input of "+fields.Quote(called.ID)),
		Subject: n.Verify.Place(n.OperationRange()), Context: called.Key, Node: n.ID, Suggestion: "with: {" + strings.Join(given, ", ") + "}",
	})
}
