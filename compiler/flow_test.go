package compiler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/plan"
)

// world is one outcome of everything that the compiler cannot know.
type world struct {
	fails    map[int]bool
	presents map[portKey]bool
	holds    map[whenKey]bool
}

// run is a second, naive reading of the rules in the package comment: it decides
// nodes one after the other in one world.
type run struct {
	doc   *typedDocument
	world world
	ended map[int]string
}

func simulate(doc *typedDocument, w world) *run {
	r := &run{doc: doc, world: w, ended: map[int]string{0: "succeeded"}}
	for changed := true; changed; {
		changed = false
		for i := 1; i < len(doc.nodes); i++ {
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
	for _, e := range r.doc.edges {
		if e.to == i && r.ended[e.from] == "" {
			return false
		}
	}
	return true
}

func (r *run) decide(i int) string {
	n := r.doc.nodes[i]
	edges, delivered := 0, 0
	filled := map[string]bool{}
	for _, e := range r.doc.edges {
		if e.to != i {
			continue
		}
		edges++
		if r.delivered(e) {
			delivered++
			if e.carries() {
				filled[e.toPort] = true
			}
		} else if e.required {
			return "skipped"
		}
	}
	if n.kind == plan.KindCall && edges > 0 && delivered == 0 {
		return "skipped"
	}
	for _, p := range r.doc.needs(i) {
		if !filled[p] && n.withPort(p) == nil {
			return "skipped"
		}
	}
	if r.world.fails[i] {
		return "failed"
	}
	return "succeeded"
}

func (r *run) delivered(e *typedEdge) bool {
	state := r.ended[e.from]
	if e.kind == plan.Error {
		return state == "failed" && (e.when == nil || r.holds(e))
	}
	if state != "succeeded" {
		return false
	}
	switch {
	case e.kind == plan.Control:
		return true
	case e.kind == plan.Data:
		return r.present(e)
	case e.otherwise:
		for _, x := range r.doc.edges {
			if x.from == e.from && x.kind == plan.Conditional && !x.otherwise && r.present(x) && r.holds(x) {
				return false
			}
		}
		return r.present(e)
	}
	return r.present(e) && r.holds(e)
}

func (r *run) present(e *typedEdge) bool {
	if e.fromPort == plan.DonePort || r.doc.nodes[e.from].output.Ports().Certain(e.fromPort) {
		return true
	}
	return r.world.presents[portKey{e.from, e.fromPort}]
}

func (r *run) holds(e *typedEdge) bool {
	key := whenKey{e.from, e.fromPort, ""}
	if e.when != nil {
		key.when = e.when.Text
	}
	return r.world.holds[key]
}

// failed reports whether a failure of the run is not handled.
func (r *run) failed() bool {
	for i := range r.doc.nodes {
		if r.ended[i] != "failed" {
			continue
		}
		handled := false
		for _, e := range r.doc.edges {
			if e.from == i && e.fromPort == plan.ErrorPort && r.delivered(e) {
				handled = handled || r.ended[e.to] != "skipped" || r.doc.nodes[e.to].kind == plan.KindOutput
			}
		}
		if !handled {
			return true
		}
	}
	return false
}

// worlds calls f for every combination of what a plan leaves open.
func worlds(doc *typedDocument, f func(world)) int {
	var set []func(w world, on bool)
	seen := map[any]bool{}
	once := func(key any, s func(w world, on bool)) {
		if !seen[key] {
			seen[key] = true
			set = append(set, s)
		}
	}
	for _, e := range doc.edges {
		if e.fromPort == plan.ErrorPort {
			from := e.from
			once(from, func(w world, on bool) { w.fails[from] = on })
		}
		if e.kind != plan.Control && e.fromPort != plan.DonePort && e.kind != plan.Error && !doc.nodes[e.from].output.Ports().Certain(e.fromPort) {
			key := portKey{e.from, e.fromPort}
			once(key, func(w world, on bool) { w.presents[key] = on })
		}
		if (e.kind == plan.Conditional && !e.otherwise) || (e.kind == plan.Error && e.when != nil) {
			key := whenKey{e.from, e.fromPort, ""}
			if e.when != nil {
				key.when = e.when.Text
			}
			once(key, func(w world, on bool) { w.holds[key] = on })
		}
	}
	if len(set) > 11 {
		return len(set)
	}
	for bits := range 1 << len(set) {
		w := world{map[int]bool{}, map[portKey]bool{}, map[whenKey]bool{}}
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

// TestFlowAgainstWorlds compares what the compiler says can run, and is
// certain, with what happens in every single world.
func TestFlowAgainstWorlds(t *testing.T) {
	cat := testCatalog(t)
	decided, unreachable, uncertain, fine := 0, 0, 0, 0
	seeds := uint64(cases(2500))
	if *soak {
		seeds = 20_000
	}
	for seed := range seeds {
		text := randomPlan(rand.New(rand.NewPCG(seed, 7+*firstSeed)))
		u := newUnit(Source{Name: "random.yaml", Text: []byte(text)}, cat, nil)
		_, ds := u.compile(passes)
		if slices.ContainsFunc(ds, func(d diag.Diagnostic) bool {
			// Only whole plans are analysed, and only these findings are.
			return d.Severity == diag.Error && d.Code != diag.PlanUnreachable && (d.Code != diag.TypeMissingInput || d.Node != plan.OutputNode || strings.Contains(d.Summary, "nothing fills") || strings.Contains(d.Summary, "may be absent"))
		}) {
			continue
		}
		doc := u.typed[0]
		require.False(t, doc.broken)
		last := len(doc.nodes) - 1
		runs := make([]bool, len(doc.nodes))
		certain := true
		if worlds(doc, func(w world) {
			r := simulate(doc, w)
			for i := range doc.nodes {
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
		for i, n := range doc.nodes[1:last] {
			if !runs[i+1] {
				unreachable++
			}
			// A node behind a dead one is named in its detail.
			listed := dead[n.id]
			for _, d := range ds {
				if d.Code == diag.PlanUnreachable {
					if _, behind, ok := strings.Cut(d.Detail, "Nor can what comes after it: "); ok {
						listed = listed || strings.Contains(behind, "`"+n.id+"`")
					}
				}
			}
			require.Equal(t, !runs[i+1], listed, "seed %d, node %s\n%s\n%s", seed, n.id, show(ds), text)
		}
		require.Equal(t, certain, saysCertain, "seed %d\n%s\n%s", seed, show(ds), text)
		if certain {
			fine++
		} else {
			uncertain++
		}
	}
	t.Logf("%d plans decided: %d certain, %d not; %d nodes that never run", decided, fine, uncertain, unreachable)
	require.Greater(t, fine, cases(100))
	require.Greater(t, uncertain, cases(100))
	require.Greater(t, unreachable, cases(50))
}

// TestAtoms: a plan whose output hangs on up to MaxAtoms conditions is decided,
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
	for _, n := range []int{1, 2, MaxAtoms - 1, MaxAtoms} {
		mustCompile(t, "atoms", []byte(write(n)))
	}
	p, ds := Compile(Source{Name: "atoms", Text: []byte(write(MaxAtoms + 1))}, testCatalog(t), nil)
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
