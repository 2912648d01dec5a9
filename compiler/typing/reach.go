package typing

import (
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// flows reports nodes that can never run and outputs that are not certain.
func (check *checker) flows(doc *Document) {
	if doc.Broken || doc.Order == nil {
		return
	}
	f := newFlow(doc, check.has, false)
	check.unreachable(f)
	check.needless(f)
	if slices.ContainsFunc(doc.Edges, func(e *Edge) bool { return doc.opposite(e) != nil }) {
		f = newFlow(doc, check.has, true)
	}
	check.certainOutput(f)
}

// unreachable reports the nodes that can never run: the first of each chain, with
// its successors in the detail.
func (check *checker) unreachable(f *flow) {
	doc := f.doc
	cause := map[int]int{}
	behind := map[int][]string{}
	var first []int
	for _, i := range doc.Order {
		if f.runs[i] != never || doc.Nodes[i].Kind != plan.KindCall || doc.Nodes[i].Called {
			continue
		}
		root := i
		for _, at := range doc.In[i] {
			if c, dead := cause[doc.Edges[at].From]; dead {
				root = c
				break
			}
		}
		if cause[i] = root; root == i {
			first = append(first, i)
		} else {
			behind[root] = append(behind[root], doc.Nodes[i].ID)
		}
	}
	slices.Sort(first)
	for _, i := range first {
		n := doc.Nodes[i]
		if n.Made {
			e := doc.Edges[doc.Out[i][0]] // to the node for which it gathers
			if doc.Nodes[e.To].Kind != plan.KindCall {
				check.neverArrives(doc, i, e)
				continue
			}
			i = e.To
			n = doc.Nodes[i]
		}
		var edges []string
		for _, at := range doc.In[i] {
			if e := doc.Edges[at]; !e.Hidden {
				edges = append(edges, e.String())
			}
		}
		d := diag.Diagnostic{
			Code: diag.PlanUnreachable, Summary: fmt.Sprintf("node %s can never run", fields.Quote(n.ID)),
			Detail:  "No outcome of the nodes before it delivers all that it needs. " + lint.Listing("Its edges are ", edges),
			Subject: n.Key, Node: n.ID,
		}
		if refs := doc.references(i); len(refs) > 1 {
			d.Detail, d.Suggestion = exclusive(refs)
		}
		if len(behind[i]) > 0 {
			d.Detail += " " + lint.Listing("Nor can what comes after it: ", behind[i])
		}
		check.Report(d)
	}
}

// root is the reference because of which an edge may not be delivered: the first on the way back
// whose own source runs for certain, or nil.
func (f *flow) root(e *Edge) *Edge {
	for range len(f.doc.Nodes) {
		if f.runs[e.From] == always {
			if e.Form == lint.FormWith && e.Reference != "" {
				return e
			}
			return nil
		}
		var next *Edge
		for _, at := range f.doc.In[e.From] {
			if x := f.doc.Edges[at]; x.Required && !f.doc.Back[at] && f.delivered(at) != always {
				next = x
				break
			}
		}
		if next == nil {
			return nil
		}
		e = next
	}
	return nil
}

// exclusive explains references that no run has all of.
func exclusive(refs []string) (detail, suggestion string) {
	return lint.Listing("It reads ", refs) + " No run has all of them, and it waits for all. Where one of several is enough, write them as alternatives of one entry.",
		"${" + strings.Join(refs, " ?? ") + "}"
}

// neverArrives reports an entry of `output` for which a node that can never run gathers. Of one
// that is required, [checker.certainOutput] does.
func (check *checker) neverArrives(doc *Document, gathering int, e *Edge) {
	if e.Required {
		return
	}
	d := diag.Diagnostic{
		Code: diag.PlanUnreachable, Summary: fmt.Sprintf("%s can never arrive", fields.Quote("output."+e.ToPort)), Subject: e.Place(), Edge: e.String(),
	}
	d.Detail, d.Suggestion = exclusive(doc.gathered(gathering))
	check.Report(d)
}

// gathered lists the references that a node gathers.
func (d *Document) gathered(i int) (refs []string) {
	for _, at := range d.In[i] {
		refs = append(refs, d.Edges[at].Reference)
	}
	return refs
}

// needless warns about values that are never taken, since one before them always arrives.
func (check *checker) needless(f *flow) {
	if len(f.doc.Edges) > maxWarned {
		return
	}
	for at, e := range f.doc.Edges {
		if !e.Alternative || !e.Sound || f.delivered(at) != always {
			continue
		}
		why := fmt.Sprintf("A failure of %s ends the run, unless an edge from its `$error` leads on. ", fields.Quote(e.FromNode))
		if e.From == 0 {
			why = "The input schema requires it. "
		}
		check.Report(diag.Diagnostic{
			Code: diag.PlanUnreachable, Severity: diag.Warning, Summary: fmt.Sprintf("what stands behind %s is never taken, since that always arrives", fields.Quote(e.Reference)),
			Detail: why + "`??` is for what may be skipped or absent.", Subject: e.Place(), Edge: e.String(), Node: e.ToNode,
		})
	}
}

// references lists what a node reads of others by references.
func (d *Document) references(i int) (refs []string) {
	for _, at := range d.In[i] {
		if e := d.Edges[at]; e.Hidden {
			refs = append(refs, d.gathered(e.From)...)
		} else if e.Form == lint.FormWith && e.Reference != "" && e.Required {
			refs = append(refs, e.Reference)
		} else if e.Form == lint.FormWith {
			return nil
		}
	}
	return refs
}

// certainOutput checks that every run that does not fail has a complete output.
func (check *checker) certainOutput(f *flow) {
	doc := f.doc
	last := len(doc.Nodes) - 1
	for _, at := range doc.In[last] {
		e := doc.Edges[at]
		if !e.Required || doc.Back[at] {
			continue
		}
		what := fmt.Sprintf("the required edge %s may not be delivered", fields.Quote(e.String()))
		switch {
		case e.Hidden:
			what = fmt.Sprintf("what %s reads may not arrive", fields.Quote("output."+e.ToPort))
		case e.Reference != "":
			what = fmt.Sprintf("%s may not arrive", fields.Quote(e.Reference))
		}
		d := diag.Diagnostic{
			Subject: e.Place(), Edge: e.String(),
			Detail: "`$output` needs all its required edges in every run that succeeds.",
		}
		d.Suggestion, d.Edits = e.Option(check.Reader, "required", false)
		if root := f.root(e); root != nil && root != e {
			d.Suggestion, d.Edits = root.Option(check.Reader, "required", false)
			d.Detail += fmt.Sprintf(" %s waits for `%s`, which may not arrive (line %d).", fields.Quote(root.ToNode), root.Reference, root.Place().Start.Line)
			d.Related = append(d.Related, diag.Related{Range: root.Place(), Label: "may not arrive"})
		}
		check.uncertain(f, f.delivered(at), what, d)
	}
	for _, p := range doc.Needs(last) {
		var first *Edge
		required := false
		for _, at := range doc.In[last] {
			if e := doc.Edges[at]; e.Carries() && e.ToPort == p {
				required = required || e.Required
				if first == nil {
					first = e
				}
			}
		}
		if first == nil || required {
			continue
		}
		check.uncertain(f, f.filled(last, p), fmt.Sprintf("the output port %s may be left without a value", fields.Quote(p)), diag.Diagnostic{
			Subject: first.Place(), Context: doc.output.requirement(p), Edge: first.String(),
			Detail: "The plan's output schema requires it, so every run that succeeds must fill it.", Suggestion: alternatives(first),
		})
	}
}

// alternatives is the entry that an edge stands for with another alternative, or "".
func alternatives(e *Edge) string {
	if e.Form != lint.FormOutput || e.At.Kind != syntax.String {
		return ""
	}
	if rest, ok := strings.CutSuffix(e.At.Text, "}"); ok && strings.HasPrefix(rest, "${") && strings.Count(rest, "${") == 1 {
		return rest + " ?? …}"
	}
	return ""
}

// uncertain reports a goal that does not hold in every run whose failures are
// handled. What is the summary.
func (check *checker) uncertain(f *flow, goal formula, what string, d diag.Diagnostic) {
	v, facts := f.certainly(goal)
	d.Code, d.Node = diag.TypeMissingInput, plan.OutputNode
	switch v {
	case certain:
		return
	case tooMany:
		d.Summary = what + ": it depends on too many conditions"
		d.Detail += fmt.Sprintf(" Whether it is certain is decided for up to %d conditions (each `when`, each handled failure, each optional port), and more hang together here. Bring the branches together in a node before they reach the output.", lint.MaxAtoms)
		d.Suggestion, d.Edits = "", nil
	case uncertain:
		d.Summary = what
		if last := len(facts) - 1; last > 0 {
			facts = []string{strings.Join(facts[:last], ", ") + " and " + facts[last]}
		}
		if len(facts) > 0 {
			d.Detail += " It is missing when " + facts[0] + "."
		}
		if d.Suggestion != "" && strings.HasPrefix(d.Suggestion, "${") {
			d.Detail += " Say what to take then, or leave the port out of `required` of the output schema."
		} else {
			d.Detail += " Add an alternative edge with `required: false` for that case."
		}
	}
	check.Report(d)
}
