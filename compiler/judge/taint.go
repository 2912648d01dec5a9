package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/typing"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// maxSteps bounds the steps of a path in a message.
const maxSteps = 12

// Taint is what is tainted in one plan.
type Taint struct {
	g *taintGraph
	// came is the predecessor of each tainted vertex on the path of taint, or
	// -1.
	came []int32
	// output reports that part of the plan's output is tainted.
	output bool
}

// Node returns whether a node's output (for $output, its input) and the decision to
// run it are tainted.
func (r *Taint) Node(i int) plan.Mark {
	f := &r.g.nodes[i]
	m := plan.Mark{Value: r.came[f.out] >= 0, Decision: r.came[f.runs] >= 0}
	if r.g.doc.Nodes[i].Kind == plan.KindOutput {
		m.Value = r.output
	}
	return m
}

// Edge returns whether an edge's value and its delivery are tainted.
func (r *Taint) Edge(i int) plan.Mark {
	f, e := r.g.edges[i], r.g.doc.Edges[i]
	return plan.Mark{Value: e.Carries() && r.came[f.value] >= 0, Decision: r.came[f.decided] >= 0}
}

// Ports lists the tainted input ports of a node, sorted, or `$` if its input is
// tainted but no single port.
func (r *Taint) Ports(i int) []string {
	f := &r.g.nodes[i]
	var out []string
	for _, port := range slices.Sorted(maps.Keys(f.ins)) {
		if r.came[f.ins[port]] >= 0 {
			out = append(out, port)
		}
	}
	if out == nil && r.came[f.in] >= 0 {
		out = []string{plan.WholePort}
	}
	return out
}

// taint reports tainted values and decisions that reach an effect or an open
// operation.
//
// The input of a plan is not tainted, since a start grant vouches for it. A
// sub-plan is judged that way, and also with a tainted input if a node passes it
// one.
func (j *judge) taint() {
	t := &tainter{j: j, plans: map[string]int{}, clean: make([]*Taint, len(j.Documents)), busy: make([]bool, len(j.Documents))}
	for i, doc := range j.Documents {
		if ref := doc.Reference(); ref != "" {
			if _, taken := t.plans[ref]; !taken {
				t.plans[ref] = i
			}
		}
	}
	dirty := make([]bool, len(j.Documents))
	done := make([]bool, len(j.Documents))
	var todo []int
	for i, doc := range j.Documents {
		r := t.result(i)
		if r == nil {
			continue
		}
		j.judge(doc, r)
		todo = t.callees(r, dirty, todo)
	}
	for i, doc := range j.Documents {
		doc.Taint = t.clean[i]
		if doc.Taint != nil && slices.ContainsFunc(doc.Nodes, func(n *typing.Node) bool { return n.Effect.Acts() || n.Reviewed() }) {
			doc.Distrusted = t.analyse(i, true)
		}
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if done[i] {
			continue
		}
		done[i] = true
		r := t.analyse(i, true)
		j.judge(j.Documents[i], r)
		todo = t.callees(r, dirty, todo)
	}
}

// tainter analyses the plans of a file, callees before callers.
type tainter struct {
	j     *judge
	plans map[string]int
	clean []*Taint
	busy  []bool
}

// result returns the analysis of a plan with an untainted input, or nil if it is in
// progress, for a plan that calls itself.
func (t *tainter) result(i int) *Taint {
	if t.clean[i] == nil && !t.busy[i] {
		t.busy[i] = true
		t.clean[i] = t.analyse(i, false)
		t.busy[i] = false
	}
	return t.clean[i]
}

func (t *tainter) analyse(i int, input bool) *Taint {
	g := newTaintGraph(t.j.Documents[i], input, func(n *typing.Node) *Taint {
		if at, ok := t.plans[n.Operation]; ok {
			return t.result(at)
		}
		return nil
	})
	r := &Taint{g: g, came: g.reach(g.sources)}
	r.output = r.came[g.nodes[len(g.nodes)-1].in] >= 0
	return r
}

// callees appends to todo the plans that get a tainted input, each once.
func (t *tainter) callees(r *Taint, dirty []bool, todo []int) []int {
	for i, n := range r.g.doc.Nodes {
		if !n.Subplan() || r.came[r.g.nodes[i].in] < 0 {
			continue
		}
		if at, ok := t.plans[n.Operation]; ok && !dirty[at] {
			dirty[at] = true
			todo = append(todo, at)
		}
	}
	return todo
}

// judge reports the effects and open operations that taint reaches.
func (j *judge) judge(doc *Document, r *Taint) {
	for i, n := range doc.Nodes {
		if n.Kind != plan.KindCall || n.Effect == "" {
			continue
		}
		f := &r.g.nodes[i]
		switch {
		case n.Effect != plan.Committing && n.Effect != plan.Irreversible:
			if t := n.Template; t != nil && t.OpenWorld && !t.EgressAllowed && r.came[f.in] >= 0 {
				j.egress(r, n, f.in)
			}
		case doc.approved(n) || n.Reviewed() || doc.Grants.AllowsTainted(n.Effect, catalog.OperationName(n.Provider, n.Operation)):
		case r.came[f.in] >= 0:
			j.taintedCommit(doc, i, r, f.in, "a tainted value")
		case r.came[f.runs] >= 0:
			j.taintedCommit(doc, i, r, f.runs, "a tainted decision")
		}
	}
}

func (j *judge) taintedCommit(doc *Document, i int, r *Taint, v int32, what string) {
	path, first := r.path(v)
	n := doc.Nodes[i]
	d := diag.Diagnostic{
		Code: diag.EffectTainted, Summary: fmt.Sprintf("%s reaches the effect of %s, and no human approves it", what, fields.Quote(n.ID)),
		Detail:  path + " An approval in its commit policy vouches for the action; so does the operator by `tainted: true` in the bundle's `allow` entry, or by `endorses: true` in the catalog for an operation on the way that checks what it gets.",
		Subject: n.Key, Context: first, Node: n.ID, Suggestion: approvalOf(n),
	}
	if owner := doc.BlockOf[i]; owner >= 0 && !doc.approved(doc.Nodes[owner]) {
		d.Detail += fmt.Sprintf(" Who approves %s approves what undoes it, too, if that depends on its `args` and `output` alone.", fields.Quote(doc.Nodes[owner].ID))
	}
	j.Report(d)
}

func (j *judge) egress(r *Taint, n *typing.Node, v int32) {
	path, first := r.path(v)
	j.Report(diag.Diagnostic{
		Code: diag.EffectEgress, Summary: fmt.Sprintf("a tainted value leaves by %s, which talks to the open world", fields.Quote(n.ID)),
		Detail:  path + " Its arguments are a channel out. The operator allows that by `egress: allowed`, or says by `open_world: false` that the operation has no way out.",
		Subject: n.Key, Context: first, Node: n.ID,
	})
}

// path formats the path of taint to a vertex, and returns the place of its first
// edge.
func (r *Taint) path(v int32) (text string, first diag.Range) {
	var steps []string
	for ; ; v = r.came[v] {
		if i := v - r.g.first; i >= 0 && int(i/2) < len(r.g.edges) {
			e := r.g.doc.Edges[i/2]
			step := fmt.Sprintf("%s (line %d)", excerpt.Bytes(e.String(), 200), e.Place().Start.Line)
			if i%2 == 1 {
				step = fmt.Sprintf("%s (line %d, decides)", excerpt.Bytes(e.String(), 200), e.Place().Start.Line)
			}
			steps = append(steps, step)
			first = e.Place()
		}
		if r.came[v] == v {
			break
		}
	}
	slices.Reverse(steps)
	if len(steps) > maxSteps {
		left := fmt.Sprintf("… %d more …", len(steps)-maxSteps+1)
		steps = append(append(slices.Clone(steps[:maxSteps/2]), left), steps[len(steps)-maxSteps/2+1:]...)
	}
	text = "It comes from " + r.g.causes[v]
	if len(steps) > 0 {
		text += ": " + strings.Join(steps, ", ")
	}
	return text + ".", first
}
