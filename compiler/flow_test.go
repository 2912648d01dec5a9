package compiler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/compiler/typing"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/plan"
)

// world is one outcome of everything that the compiler cannot know.
type world struct {
	fails    map[int]bool
	presents map[portAt]bool
	holds    map[whenAt]bool
}

// portAt and whenAt name what a world decides.
type portAt struct {
	node int
	port string
}

type whenAt struct {
	node       int
	port, when string
}

// run is a second, naive reading of the rules in the package comment: it decides
// nodes one after the other in one world.
type run struct {
	doc   *typing.Document
	world world
	ended map[int]string
}

func simulate(doc *typing.Document, w world) *run {
	r := &run{doc: doc, world: w, ended: map[int]string{0: "succeeded"}}
	for changed := true; changed; {
		changed = false
		for i := 1; i < len(doc.Nodes); i++ {
			if r.ended[i] != "" || !r.resolved(i) {
				continue
			}
			r.ended[i] = r.decide(i)
			changed = true
		}
	}
	return r
}

func (r *run) resolved(i int) bool {
	for _, e := range r.doc.Edges {
		if e.To == i && r.ended[e.From] == "" {
			return false
		}
	}
	return true
}

func (r *run) decide(i int) string {
	n := r.doc.Nodes[i]
	edges, delivered := 0, 0
	filled := map[string]bool{}
	for _, e := range r.doc.Edges {
		if e.To != i {
			continue
		}
		edges++
		if r.delivered(e) {
			delivered++
			if e.Carries() {
				filled[e.ToPort] = true
			}
		} else if e.Required {
			return "skipped"
		}
	}
	if n.Kind == plan.KindCall && edges > 0 && delivered == 0 {
		return "skipped"
	}
	for _, p := range r.doc.Needs(i) {
		if !filled[p] && n.WithPort(p) == nil {
			return "skipped"
		}
	}
	if r.world.fails[i] {
		return "failed"
	}
	return "succeeded"
}

func (r *run) delivered(e *typing.Edge) bool {
	state := r.ended[e.From]
	if e.Kind == plan.Error {
		return state == "failed" && (e.When == nil || r.holds(e))
	}
	if state != "succeeded" {
		return false
	}
	switch {
	case e.Kind == plan.Control:
		return true
	case e.Kind == plan.Data:
		return r.present(e)
	case e.Otherwise:
		for _, x := range r.doc.Edges {
			if x.From == e.From && x.Kind == plan.Conditional && !x.Otherwise && r.present(x) && r.holds(x) {
				return false
			}
		}
		return r.present(e)
	}
	return r.present(e) && r.holds(e)
}

func (r *run) present(e *typing.Edge) bool {
	if e.FromPort == plan.DonePort || r.doc.Nodes[e.From].Output.Ports().Certain(e.FromPort) {
		return true
	}
	return r.world.presents[portAt{e.From, e.FromPort}]
}

func (r *run) holds(e *typing.Edge) bool {
	key := whenAt{e.From, e.FromPort, ""}
	if e.When != nil {
		key.when = e.When.Text
	}
	return r.world.holds[key]
}

// failed reports whether a failure of the run is not handled.
func (r *run) failed() bool {
	for i := range r.doc.Nodes {
		if r.ended[i] != "failed" {
			continue
		}
		handled := false
		for _, e := range r.doc.Edges {
			if e.From == i && e.FromPort == plan.ErrorPort && r.delivered(e) {
				handled = handled || r.ended[e.To] != "skipped" || r.doc.Nodes[e.To].Kind == plan.KindOutput
			}
		}
		if !handled {
			return true
		}
	}
	return false
}

// worlds calls f for every combination of what a plan leaves open.
func worlds(doc *typing.Document, f func(world)) int {
	var set []func(w world, on bool)
	seen := map[any]bool{}
	once := func(key any, s func(w world, on bool)) {
		if !seen[key] {
			seen[key] = true
			set = append(set, s)
		}
	}
	for _, e := range doc.Edges {
		if e.FromPort == plan.ErrorPort {
			from := e.From
			once(from, func(w world, on bool) { w.fails[from] = on })
		}
		if e.Kind != plan.Control && e.FromPort != plan.DonePort && e.Kind != plan.Error && !doc.Nodes[e.From].Output.Ports().Certain(e.FromPort) {
			key := portAt{e.From, e.FromPort}
			once(key, func(w world, on bool) { w.presents[key] = on })
		}
		if (e.Kind == plan.Conditional && !e.Otherwise) || (e.Kind == plan.Error && e.When != nil) {
			key := whenAt{e.From, e.FromPort, ""}
			if e.When != nil {
				key.when = e.When.Text
			}
			once(key, func(w world, on bool) { w.holds[key] = on })
		}
	}
	if len(set) > 11 {
		return len(set)
	}
	for bits := range 1 << len(set) {
		w := world{map[int]bool{}, map[portAt]bool{}, map[whenAt]bool{}}
		for i, s := range set {
			s(w, bits>>i&1 == 1)
		}
		f(w)
	}
	return len(set)
}

// randomEdge is one edge of a random plan.
type randomEdge struct {
	from, to         int
	fromPort, toPort string
	kind, when       string
	required         bool
}

// randomPlan writes a small plan with every kind of edge that runs, most of
// which is well formed.
func randomPlan(r *rand.Rand) string {
	var b strings.Builder
	outputs := []string{"[]", "[a]", "[a, b]"}[r.IntN(3)]
	fmt.Fprintf(&b, `apiVersion: chimera/v1
kind: Plan
name: random
version: "1"
input_schema: {type: object, properties: {a: {}, b: {}}, required: [a]}
output_schema: {type: object, properties: {a: {}, b: {}}, required: %s}
nodes:
`, outputs)
	n := 2 + r.IntN(4)
	needs := map[int]string{n + 1: outputs}
	for i := range n {
		needs[i+1] = []string{"[]", "[a]", "[a, b]"}[r.IntN(3)]
		with := []string{"", "", ", with: {a: 1}", ", with: {b: 1}"}[r.IntN(4)]
		fmt.Fprintf(&b, "  - {id: n%d, template: engine/pass, input_schema: {type: object, properties: {a: {}, b: {}}, required: %s}, output_schema: {type: object, properties: {a: {}, b: {}}, required: [a]}%s}\n", i, needs[i+1], with)
	}
	b.WriteString("edges:\n")
	name := func(i int) string {
		switch i {
		case 0:
			return plan.InputNode
		case n + 1:
			return plan.OutputNode
		}
		return fmt.Sprintf("n%d", i-1)
	}
	var edges []randomEdge
	add := func(e randomEdge) {
		for _, x := range edges {
			same := x.from == e.from && x.to == e.to && x.fromPort == e.fromPort && x.toPort == e.toPort && x.kind == e.kind && x.when == e.when
			if same || (e.required && x.required && e.to == x.to && e.toPort == x.toPort && e.toPort != "$start") {
				return
			}
		}
		edges = append(edges, e)
	}
	for range 3 + r.IntN(7) {
		from := r.IntN(n + 1)
		e := randomEdge{from: from, to: from + 1 + r.IntN(n+1-from), kind: "data", fromPort: []string{"a", "b"}[r.IntN(2)], toPort: []string{"a", "b"}[r.IntN(2)], required: r.IntN(3) == 0}
		switch r.IntN(6) {
		case 0:
			e.kind, e.fromPort, e.toPort = "control", "$done", "$start"
		case 1, 2:
			e.kind, e.when = "conditional", []string{"output.?p.orValue(0) == 1", "output.?q.orValue(0) == 1", "otherwise"}[r.IntN(3)]
			if r.IntN(2) == 0 {
				e.fromPort, e.toPort = "$done", "$start"
			}
		case 3:
			if from > 0 {
				e.kind, e.fromPort, e.when = "error", "$error", []string{"", "", "error.kind == 'x'"}[r.IntN(3)]
			}
		}
		e.required = e.required && e.fromPort != "b"
		add(e)
		if e.when == "otherwise" {
			e.when, e.to, e.required = "output.?p.orValue(0) == 1", n+1, false
			if e.toPort == "$start" {
				e.toPort = "a"
				e.fromPort = "a"
			}
			add(e)
		}
	}
	for to := 1; to <= n+1; to++ {
		for _, p := range []string{"a", "b"} {
			fed := slices.ContainsFunc(edges, func(e randomEdge) bool { return e.to == to && e.toPort == p })
			if strings.Contains(needs[to], p) && !fed {
				add(randomEdge{from: r.IntN(to), to: to, fromPort: []string{"a", "a", "b"}[r.IntN(3)], toPort: p, kind: "data"})
			}
		}
	}
	for _, e := range edges {
		fmt.Fprintf(&b, "  - {from_node: %s, from_port: %s, to_node: %s, to_port: %s, edge_type: %s, required: %t", name(e.from), e.fromPort, name(e.to), e.toPort, e.kind, e.required)
		if e.when != "" {
			fmt.Fprintf(&b, ", when: %q", e.when)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// TestFlowAgainstWorlds compares what the compiler says can run, and is certain to
// run, with what happens in every world.
func TestFlowAgainstWorlds(t *testing.T) {
	cat := testCatalog(t)
	decided, unreachable, uncertain, fine := 0, 0, 0, 0
	seeds := uint64(cases(2500))
	if *soak {
		seeds = 20_000
	}
	for seed := range seeds {
		text := randomPlan(rand.New(rand.NewPCG(seed, 7+*firstSeed)))
		c := newCompilation(Source{Name: "random.yaml", Text: []byte(text)}, cat, nil)
		_, ds := c.run(passes)
		if slices.ContainsFunc(ds, func(d diag.Diagnostic) bool {
			// Only whole plans are analysed, and only these findings are.
			return d.Severity == diag.Error && d.Code != diag.PlanUnreachable && (d.Code != diag.TypeMissingInput || d.Node != plan.OutputNode || strings.Contains(d.Summary, "nothing fills") || strings.Contains(d.Summary, "may be absent"))
		}) {
			continue
		}
		doc := c.typed.Documents[0]
		require.False(t, doc.Broken)
		last := len(doc.Nodes) - 1
		runs := make([]bool, len(doc.Nodes))
		certain := true
		if worlds(doc, func(w world) {
			r := simulate(doc, w)
			for i := range doc.Nodes {
				runs[i] = runs[i] || r.ended[i] != "skipped"
			}
			if !r.failed() && r.ended[last] == "skipped" {
				certain = false
			}
		}) > 11 {
			continue
		}
		decided++
		dead := map[string]bool{}
		saysCertain := true
		for _, d := range ds {
			switch {
			case d.Code == diag.PlanUnreachable:
				dead[d.Node] = true
			case d.Code == diag.TypeMissingInput:
				saysCertain = false
			}
		}
		for i, n := range doc.Nodes[1:last] {
			if !runs[i+1] {
				unreachable++
			}
			// A node behind a dead one is named in its detail.
			listed := dead[n.ID]
			for _, d := range ds {
				if d.Code == diag.PlanUnreachable {
					if _, behind, ok := strings.Cut(d.Detail, "Nor can what comes after it: "); ok {
						listed = listed || strings.Contains(behind, "`"+n.ID+"`")
					}
				}
			}
			require.Equal(t, !runs[i+1], listed, "seed %d, node %s\n%s\n%s", seed, n.ID, show(ds), text)
		}
		require.Equal(t, certain, saysCertain, "seed %d\n%s\n%s", seed, show(ds), text)
		if certain {
			fine++
		} else {
			uncertain++
		}
	}
	t.Logf("%d plans decided: %d certain, %d not; %d nodes that never run", decided, fine, uncertain, unreachable)
	require.Greater(t, fine, 100)
	require.Greater(t, uncertain, 100)
	require.Greater(t, unreachable, cases(80))
}

// TestAtoms: a plan whose output depends on up to MaxAtoms conditions is decided;
// one more is an error that says so.
func TestAtoms(t *testing.T) {
	write := func(branches int) string {
		var b strings.Builder
		b.WriteString(`apiVersion: chimera/v1
kind: Plan
name: atoms
version: "1"
input_schema: {type: object, properties: {x: {type: string}}, required: [x]}
output_schema: {type: object, properties: {x: {type: string}}, required: [x]}
nodes:
  - {id: start, template: engine/pass, input_schema: {$ref: "#/defs/X"}, output_schema: {$ref: "#/defs/X"}}
`)
		for i := range branches + 1 {
			fmt.Fprintf(&b, "  - {id: b%d, template: engine/pass, input_schema: {$ref: \"#/defs/X\"}, output_schema: {$ref: \"#/defs/X\"}}\n", i)
		}
		b.WriteString("defs: {X: {type: object, properties: {x: {type: string}}, required: [x]}}\nedges:\n  - $input.x -> start.x\n")
		for i := range branches + 1 {
			when := fmt.Sprintf("value == '%d'", i)
			if i == branches {
				when = "otherwise"
			}
			fmt.Fprintf(&b, "  - {from_node: start, from_port: x, to_node: b%d, to_port: x, edge_type: conditional, required: true, when: %q}\n", i, when)
			fmt.Fprintf(&b, "  - {from_node: b%d, from_port: x, to_node: $output, to_port: x, edge_type: data, required: false}\n", i)
		}
		return b.String()
	}
	for _, n := range []int{1, 2, lint.MaxAtoms - 1, lint.MaxAtoms} {
		mustCompile(t, "atoms", []byte(write(n)))
	}
	p, ds := Compile(Source{Name: "atoms", Text: []byte(write(lint.MaxAtoms + 1))}, testCatalog(t), nil)
	require.Nil(t, p)
	require.Len(t, ds, 1, show(ds))
	require.Equal(t, diag.TypeMissingInput, ds[0].Code)
	require.Contains(t, ds[0].Summary, "it depends on too many conditions")
	require.Contains(t, ds[0].Detail, "up to 16 conditions")
}

// TestManyDiamonds: branches that come together again cost no atoms, however
// many there are.
func TestManyDiamonds(t *testing.T) {
	var b strings.Builder
	b.WriteString(`apiVersion: chimera/v1
kind: Plan
name: diamonds
version: "1"
input_schema: {$ref: "#/defs/X"}
output_schema: {$ref: "#/defs/X"}
defs: {X: {type: object, properties: {x: {type: string}}, required: [x]}}
nodes:
`)
	var edges strings.Builder
	before := "$input"
	for i := range 200 {
		for _, n := range []string{"l", "r", "m"} {
			fmt.Fprintf(&b, "  - {id: %s%d, template: engine/pass, input_schema: {$ref: \"#/defs/X\"}, output_schema: {$ref: \"#/defs/X\"}}\n", n, i)
		}
		fmt.Fprintf(&edges, "  - {from_node: %s, from_port: x, to_node: l%d, to_port: x, edge_type: conditional, required: true, when: value == 'l'}\n", before, i)
		fmt.Fprintf(&edges, "  - {from_node: %s, from_port: x, to_node: r%d, to_port: x, edge_type: conditional, required: true, when: otherwise}\n", before, i)
		for _, n := range []string{"l", "r"} {
			fmt.Fprintf(&edges, "  - {from_node: %s%d, from_port: x, to_node: m%d, to_port: x, edge_type: data, required: false}\n", n, i, i)
		}
		before = fmt.Sprintf("m%d", i)
	}
	fmt.Fprintf(&edges, "  - %s.x -> $output.x\n", before)
	p := mustCompile(t, "diamonds", []byte(b.String()+"edges:\n"+edges.String()))
	require.Len(t, p.Nodes, 602)
}
