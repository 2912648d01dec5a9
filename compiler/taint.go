package compiler

import (
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// maxSteps bounds the steps of a path in a message.
const maxSteps = 12

// taintResult is what is tainted of one plan.
type taintResult struct {
	g *taintGraph
	// came is the way that taint took to each vertex, or -1.
	came []int32
	// output: something of the plan's output is tainted.
	output bool
}

// port reports whether a port of the plan's output is tainted.
func (r *taintResult) port(name string) bool {
	out := &r.g.nodes[len(r.g.nodes)-1]
	whole, ok := out.ins[plan.WholePort]
	if v, named := out.ins[name]; named && r.came[v] >= 0 {
		return true
	}
	return ok && r.came[whole] >= 0
}

// taint reports what nobody vouches for where it would commit, or leave.
//
// A plan is judged with an untainted input, since a start grant vouches for it.
// A sub-plan is judged so too, and with a tainted input if a node that calls it
// gives one.
func (u *unit) taint() {
	t := &tainter{u: u, plans: map[string]int{}, clean: make([]*taintResult, len(u.graph)), busy: make([]bool, len(u.graph))}
	for i, doc := range u.graph {
		if ref := doc.reference(); ref != "" {
			if _, taken := t.plans[ref]; !taken {
				t.plans[ref] = i
			}
		}
	}
	dirty := make([]bool, len(u.graph))
	done := make([]bool, len(u.graph))
	var todo []int
	for i, doc := range u.graph {
		r := t.result(i)
		if r == nil {
			continue
		}
		u.judge(doc, r)
		todo = t.callees(r, dirty, todo)
	}
	for i, doc := range u.graph {
		doc.taint = t.clean[i]
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if done[i] {
			continue
		}
		done[i] = true
		r := t.analyse(i, true)
		u.judge(u.graph[i], r)
		todo = t.callees(r, dirty, todo)
	}
}

// tainter analyses the plans of a file, each called one before its callers.
type tainter struct {
	u     *unit
	plans map[string]int
	clean []*taintResult
	busy  []bool
}

// result is the analysis of a plan with an untainted input; nil for one that is
// being looked at, which is a plan that calls itself.
func (t *tainter) result(i int) *taintResult {
	if t.clean[i] == nil && !t.busy[i] {
		t.busy[i] = true
		t.clean[i] = t.analyse(i, false)
		t.busy[i] = false
	}
	return t.clean[i]
}

func (t *tainter) analyse(i int, input bool) *taintResult {
	g := newTaintGraph(t.u.graph[i], input, func(n *typedNode) *taintResult {
		if at, ok := t.plans[n.operation]; ok {
			return t.result(at)
		}
		return nil
	})
	r := &taintResult{g: g, came: g.reach(g.sources)}
	r.output = r.came[g.nodes[len(g.nodes)-1].in] >= 0
	return r
}

// callees adds the plans that get something tainted, each once.
func (t *tainter) callees(r *taintResult, dirty []bool, todo []int) []int {
	for i, n := range r.g.doc.nodes {
		if !n.subplan() || r.came[r.g.nodes[i].in] < 0 {
			continue
		}
		if at, ok := t.plans[n.operation]; ok && !dirty[at] {
			dirty[at] = true
			todo = append(todo, at)
		}
	}
	return todo
}

// judge reports the effects and the open operations that taint reaches.
func (u *unit) judge(doc *judgedDocument, r *taintResult) {
	for i, n := range doc.nodes {
		if n.kind != plan.KindCall || n.effect == "" {
			continue
		}
		f := &r.g.nodes[i]
		switch {
		case n.effect != plan.Committing && n.effect != plan.Irreversible:
			if t := n.template; t != nil && t.OpenWorld && !t.EgressAllowed && r.came[f.in] >= 0 {
				u.egress(r, n, f.in)
			}
		case doc.approved(n) || doc.grants.allowsTainted(n.effect, catalog.OperationName(n.provider, n.operation)):
		case r.came[f.in] >= 0:
			u.taintedCommit(n, r, f.in, "a tainted value")
		case r.came[f.runs] >= 0:
			u.taintedCommit(n, r, f.runs, "a tainted decision")
		}
	}
}

func (u *unit) taintedCommit(n *typedNode, r *taintResult, v int32, what string) {
	path, first := r.path(v)
	u.Report(diag.Diagnostic{
		Code: diag.EffectTainted, Summary: fmt.Sprintf("%s reaches the effect of %s, and no human approves it", what, fields.Quote(n.id)),
		Detail:  path + " An approval in its commit policy vouches for the action; so does the operator by `tainted: true` in the bundle's `allow` entry, or by `endorses: true` in the catalog for an operation on the way that checks what it gets.",
		Subject: n.key, Context: first, Node: n.id, Suggestion: "approval: {groups: [{role: ROLE, min: 1}]}",
	})
}

func (u *unit) egress(r *taintResult, n *typedNode, v int32) {
	path, first := r.path(v)
	u.Report(diag.Diagnostic{
		Code: diag.EffectEgress, Summary: fmt.Sprintf("a tainted value leaves by %s, which talks to the open world", fields.Quote(n.id)),
		Detail:  path + " Its arguments are a channel out. The operator allows that by `egress: allowed`, or says by `open_world: false` that the operation has no way out.",
		Subject: n.key, Context: first, Node: n.id,
	})
}

// path writes how taint got to a vertex, and gives the place of its first edge.
func (r *taintResult) path(v int32) (text string, first diag.Range) {
	var steps []string
	for ; ; v = r.came[v] {
		if i := v - r.g.first; i >= 0 && int(i/2) < len(r.g.edges) {
			e := r.g.doc.edges[i/2]
			step := fmt.Sprintf("%s (line %d)", fields.Clip(e.String(), 200), e.place().Start.Line)
			if i%2 == 1 {
				step = fmt.Sprintf("%s (line %d, decides)", fields.Clip(e.String(), 200), e.place().Start.Line)
			}
			steps = append(steps, step)
			first = e.place()
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

// approved reports whether a human approves the effect: its commit policy names
// a group, or that of a node behind the same barrier does, whose rules are one.
func (d *judgedDocument) approved(n *typedNode) bool {
	if n.commit == nil {
		return false
	}
	if n.commit.asks() {
		return true
	}
	return n.commit.barrier != nil && d.gates[n.commit.barrier.Text]
}

// asks reports whether the policy names a group that approves.
func (c *commitPolicy) asks() bool {
	if c.refused {
		return true // which was reported
	}
	if c.approval == nil {
		return false
	}
	groups := c.approval.Get("groups")
	return groups != nil && groups.Kind == syntax.List && len(groups.Items) > 0
}
