package compiler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
)

// drawnEdge is an edge of a random plan, whose nodes are numbered in order.
type drawnEdge struct {
	from, to int
	// kind is data, control, conditional, otherwise or error.
	kind     string
	required bool
}

// drawnPlan is a random plan: kinds[i] is pass, draft or commit.
type drawnPlan struct {
	kinds []string
	edges []drawnEdge
}

func (p drawnPlan) source() Source {
	var b strings.Builder
	b.WriteString("apiVersion: chimera/v1\nkind: Plan\nname: drawn\nversion: \"1\"\nagent: agent-42\nallow: [pure, committing]\ninput_schema: {type: object}\noutput_schema: {type: object}\nnodes:\n")
	for i, kind := range p.kinds {
		switch kind {
		case "pass":
			fmt.Fprintf(&b, "  - {id: n%d, template: engine/pass}\n", i)
		case "draft":
			fmt.Fprintf(&b, "  - {id: n%d, template: engine/pass, mode: prob}\n", i)
		case "commit":
			fmt.Fprintf(&b, "  - {id: n%d, template: engine/pass, effect_class: committing, commit_policy: {}}\n", i)
		}
	}
	if len(p.edges) > 0 {
		b.WriteString("edges:\n")
	}
	for _, e := range p.edges {
		kind, from, to, more := e.kind, "$", "$", ""
		switch e.kind {
		case "control":
			from, to = "$done", "$start"
		case "conditional":
			to, more = "$start", `, when: "has(value.x)"`
		case "otherwise":
			kind, to, more = "conditional", "$start", ", when: otherwise"
		case "error":
			from, more = "$error", ", check: runtime"
		}
		fmt.Fprintf(&b, "  - {from_node: n%d, from_port: %s, to_node: n%d, to_port: %s, edge_type: %s, required: %v%s}\n", e.from, from, e.to, to, kind, e.required, more)
	}
	return Source{Name: "drawn.yaml", Text: []byte(b.String())}
}

// naive repeats the rules of taint until nothing changes: value and runs per
// node, over the whole output.
func (p drawnPlan) naive() (in, runs []bool) {
	in, runs = make([]bool, len(p.kinds)), make([]bool, len(p.kinds))
	out := func(n int) bool { return p.kinds[n] == "draft" || in[n] }
	handled := func(n int) bool {
		return slices.ContainsFunc(p.edges, func(e drawnEdge) bool { return e.from == n && e.kind == "error" })
	}
	for changed := true; changed; {
		changed = false
		set := func(b *bool, v bool) {
			if v && !*b {
				*b, changed = true, true
			}
		}
		for _, e := range p.edges {
			decided := runs[e.from] || handled(e.from)
			if e.kind == "conditional" || e.kind == "otherwise" {
				decided = decided || out(e.from)
			}
			set(&runs[e.to], decided)
			switch e.kind {
			case "data":
				set(&in[e.to], out(e.from) || (decided && !e.required))
			case "error":
				set(&in[e.to], true)
			}
		}
	}
	return in, runs
}

// tainted lists the nodes that the compiler refuses for taint.
func (p drawnPlan) tainted(t require.TestingT, cat *catalog.Catalog) map[string]bool {
	_, ds := Check(p.source(), cat, nil)
	out := map[string]bool{}
	for _, d := range ds {
		if d.Code == diag.EffectTainted {
			out[d.Node] = true
			require.Contains(t, d.Detail, "It comes from")
		}
		wrong := []diag.Code{diag.PlanSchema, diag.PlanSyntax, diag.PlanUnknownPort, diag.PlanCycle, diag.PlanErrorEdge}
		require.NotContains(t, wrong, d.Code, "the drawn plan is wrong\n%s\n%s", p.source().Text, show(ds))
	}
	return out
}

func drawPlan(t *rapid.T) drawnPlan {
	var p drawnPlan
	n := rapid.IntRange(2, 9).Draw(t, "nodes")
	for range n {
		p.kinds = append(p.kinds, rapid.SampledFrom([]string{"pass", "pass", "draft", "commit"}).Draw(t, "kind"))
	}
	for range rapid.IntRange(1, 14).Draw(t, "edges") {
		p = p.with(drawEdge(t, n))
	}
	return p
}

func drawEdge(t *rapid.T, n int) drawnEdge {
	from := rapid.IntRange(0, n-2).Draw(t, "from")
	return drawnEdge{
		from, rapid.IntRange(from+1, n-1).Draw(t, "to"),
		rapid.SampledFrom([]string{"data", "data", "control", "conditional", "otherwise", "error"}).Draw(t, "type"), rapid.Bool().Draw(t, "required"),
	}
}

// with adds an edge if the rules of edges let it be there: no second one
// between the same ports, one required value for a port, and `otherwise` only
// beside a condition.
func (p drawnPlan) with(e drawnEdge) drawnPlan {
	value := func(x drawnEdge) bool { return x.kind == "data" || x.kind == "error" }
	condition := false
	for _, x := range p.edges {
		if x.from == e.from && x.to == e.to && x.kind == e.kind {
			return p
		}
		if x.to == e.to && value(x) && value(e) && x.required && e.required {
			return p
		}
		condition = condition || (x.from == e.from && x.kind == "conditional")
	}
	if e.kind == "otherwise" && !condition {
		return p
	}
	return drawnPlan{p.kinds, append(slices.Clone(p.edges), e)}
}

// TestTaintAgrees: the compiler finds exactly the effects that a naive model of
// taint finds.
func TestTaintAgrees(t *testing.T) {
	cat := testCatalog(t)
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t)
		in, runs := p.naive()
		want := map[string]bool{}
		for i, kind := range p.kinds {
			if kind == "commit" && (in[i] || runs[i]) {
				want[fmt.Sprintf("n%d", i)] = true
			}
		}
		require.Equal(t, want, p.tainted(t, cat), "%s", p.source().Text)
	})
}

// TestTaintGrows: another edge never removes taint.
func TestTaintGrows(t *testing.T) {
	cat := testCatalog(t)
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t)
		more := p.with(drawEdge(t, len(p.kinds)))
		after := more.tainted(t, cat)
		for n := range p.tainted(t, cat) {
			require.True(t, after[n], "%s is clean in\n%s", n, more.source().Text)
		}
	})
}

// TestTaintPathBounded: a long path is shortened, and keeps both ends.
func TestTaintPathBounded(t *testing.T) {
	p := drawnPlan{kinds: []string{"draft"}}
	for i := 1; i < 60; i++ {
		p.kinds = append(p.kinds, "pass")
	}
	p.kinds = append(p.kinds, "commit")
	for i := range 60 {
		p.edges = append(p.edges, drawnEdge{i, i + 1, "data", true})
	}
	_, ds := Compile(p.source(), testCatalog(t), nil)
	at := slices.IndexFunc(ds, func(d diag.Diagnostic) bool { return d.Code == diag.EffectTainted })
	require.GreaterOrEqual(t, at, 0, show(ds))
	require.Contains(t, ds[at].Detail, "n0.$ -> n1.$")
	require.Contains(t, ds[at].Detail, "… 49 more …")
	require.Contains(t, ds[at].Detail, "n59.$ -> n60.$")
	require.Equal(t, 11, strings.Count(ds[at].Detail, " -> "))
}
