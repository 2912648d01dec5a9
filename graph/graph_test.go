package graph

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/internal/draw"
	"chimera.ai/engine/plan"
)

var update = flag.Bool("update", false, "rewrite golden files")

// anything is the schema true, as a pooled schema.
func anything() []plan.Schema {
	raw := []byte("true")
	return []plan.Schema{{Digest: plan.DigestOf(raw), Schema: raw}}
}

func call(id, provider, operation string, effect plan.EffectClass) plan.Node {
	n := plan.Node{
		ID: id, Kind: plan.KindCall, ProviderType: plan.Skill, Provider: provider, Operation: operation,
		Mode: plan.Deter, Effect: effect, Trust: plan.AllowAuto, TimeoutMS: 1000,
		Retry: plan.Retry{MaxAttempts: 1, InitialMS: 1, MultiplierMilli: 1000, MaxMS: 1},
	}
	if effect != plan.Pure {
		n.Taint = new(plan.Taint)
	}
	if effect == plan.Committing || effect == plan.Irreversible {
		n.Commit = &plan.Commit{Barrier: -1}
	}
	return n
}

// prechecked gives irreversible nodes the first pure node before them as a
// precheck; without one they are committing.
func prechecked(nodes []plan.Node, edges []plan.Edge) []plan.Edge {
	for i := range nodes {
		n := &nodes[i]
		if n.Effect != plan.Irreversible {
			continue
		}
		check := slices.IndexFunc(nodes[:i], func(n plan.Node) bool { return n.Effect == plan.Pure })
		if check < 0 {
			n.Effect = plan.Committing
			continue
		}
		n.Commit.Prechecks, n.Commit.Waived = []int{check}, "sent"
		edges = append(edges, plan.Edge{From: check, FromPort: plan.DonePort, To: i, ToPort: plan.StartPort, Type: plan.Control, Required: true, Implicit: true})
	}
	return edges
}

func build(nodes []plan.Node, edges []plan.Edge) *plan.Plan {
	all := append([]plan.Node{{ID: plan.InputNode, Kind: plan.KindInput, InputSchema: -1}}, nodes...)
	all = append(all, plan.Node{ID: plan.OutputNode, Kind: plan.KindOutput, OutputSchema: -1})
	edges = prechecked(all, edges)
	p := &plan.Plan{
		Format: plan.Format, Name: "picture", Version: "1.0.0", Expr: plan.ExprVersion,
		Limits: plan.Limits{MaxParallel: 1, DeadlineMS: 1}, Nodes: all, Edges: edges, Schemas: anything(),
	}
	for i := range edges {
		if e := &edges[i]; e.Type != plan.Error && e.Carries() {
			n := &all[e.From]
			n.OutPorts = append(n.OutPorts, e.FromPort)
			slices.Sort(n.OutPorts)
			n.OutPorts = slices.Compact(n.OutPorts)
		}
	}
	p.Index()
	return p
}

// payment has every effect class and every type of edge.
func payment() *plan.Plan {
	search := call("search", "web", "search", plan.Pure)
	search.Mode = plan.Prob
	pay := call("pay", "bank", "transfer", plan.Committing)
	pay.Trust = plan.ManualReview
	undo := call("undo", "bank", "transfer_back", plan.Committing)
	undo.Undoes = 3
	find := call("find", "bank", "find_transfer", plan.Pure)
	find.Called = true
	pay.Commit = &plan.Commit{Barrier: 0, Verify: &plan.Verify{Node: 7, With: []byte(`{}`), Executed: "output.found"}}
	pay.Taint = &plan.Taint{Ports: []string{"amount"}, Decision: true}
	pay.Estimate = &plan.Cost{Amount: "1.50", Currency: "EUR"}
	note := call("note", "letters", "file", plan.Committing)
	note.Commit.Barrier = 1
	note.ForEach = &plan.ForEach{Port: "page", MaxParallel: 2, MaxItems: 20}
	post := call("post", "letters", "post", plan.Committing)
	post.Commit.Barrier = 1
	p := build([]plan.Node{
		search,
		call("draft", "letters", "draft", plan.Staged),
		pay,
		call("send", "mail", "send", plan.Irreversible),
		call("apologise", "engine", "pass", plan.Pure),
		undo,
		find, note, post,
	}, []plan.Edge{
		{From: 0, FromPort: "invoice", To: 1, ToPort: "query", Type: plan.Data, Required: true},
		{From: 0, FromPort: "locale", To: 1, ToPort: "locale", Type: plan.Data},
		{From: 1, FromPort: "$", To: 2, ToPort: "$", Type: plan.Data, Required: true},
		{From: 1, FromPort: "amount", To: 3, ToPort: "amount", Type: plan.Conditional, Required: true, When: "value < 500000"},
		{From: 2, FromPort: plan.DonePort, To: 3, ToPort: plan.StartPort, Type: plan.Control, Required: true},
		{From: 3, FromPort: "ref", To: 4, ToPort: "ref", Type: plan.Data, Required: true},
		{From: 1, FromPort: plan.DonePort, To: 5, ToPort: plan.StartPort, Type: plan.Conditional, Otherwise: true},
		{From: 3, FromPort: plan.ErrorPort, To: 5, ToPort: "$", Type: plan.Error, When: "error.kind == 'rejected'"},
		{From: 3, FromPort: plan.CompensatePort, To: 6, ToPort: "ref", Type: plan.Error, Required: true, Transform: []byte(`"${args.ref}"`)},
		{From: 2, FromPort: "pages", To: 8, ToPort: "page", Type: plan.Data, Required: true},
		{From: 2, FromPort: "letter", To: 9, ToPort: "letter", Type: plan.Data, Required: true},
		{From: 4, FromPort: "id", To: 10, ToPort: "id", Type: plan.Data},
		{From: 5, FromPort: "$", To: 10, ToPort: "apology", Type: plan.Data},
	})
	p.Barriers = []plan.Barrier{
		{Members: []int{3}, Groups: []plan.Group{{Role: "finance", Min: 2}, {Role: "risk", Min: 1}}},
		{ID: "letters", Members: []int{8, 9}},
	}
	p.Marks = &plan.Marks{Nodes: make([]plan.Mark, len(p.Nodes)), Edges: make([]plan.Mark, len(p.Edges))}
	for _, n := range []int{1, 2} {
		p.Marks.Nodes[n].Value = true
	}
	for _, e := range []int{2, 3} {
		p.Marks.Edges[e].Value = true
	}
	p.Marks.Edges[6].Decision = true
	return p
}

// hostile has names that try to break out of the picture, and a loop.
func hostile() *plan.Plan {
	p := build([]plan.Node{
		call(`a"]; click n0 "javascript:alert(1)"`, "x<script>alert(1)</script>", `o"]:::evil`, plan.Pure),
		call("b\n\\n\"; } digraph evil {", "p", strings.Repeat("long", 60), plan.Staged),
		call("c\u202e\u200b\x00\xff]]>&amp;", "--><b>", "%%{init: {}}%%", plan.Irreversible),
	}, []plan.Edge{
		{From: 0, FromPort: `|"|`, To: 1, ToPort: "x\r\ny", Type: plan.Data, Required: true},
		{From: 1, FromPort: "$", To: 2, ToPort: "$", Type: plan.Conditional, When: `value == "</text><script>" && "#quot;" != '"' || 1 > 2`},
		{From: 2, FromPort: plan.DonePort, To: 1, ToPort: plan.StartPort, Type: plan.Conditional, When: "value"},
		{From: 2, FromPort: plan.DonePort, To: 3, ToPort: plan.StartPort, Type: plan.Control, Required: true},
		{From: 3, FromPort: plan.DonePort, To: 3, ToPort: plan.StartPort, Type: plan.Conditional, When: "value"},
		{From: 0, FromPort: "far", To: 4, ToPort: "far", Type: plan.Data, Required: true},
	})
	p.Loops = []plan.Loop{
		{Header: 1, Latch: 2, Body: []int{1, 2}, Back: []int{2}, MaxIterations: 3, OnExhausted: plan.Fail},
		{Header: 3, Latch: 3, Body: []int{3}, Back: []int{4}, MaxIterations: 7, OnExhausted: plan.Continue},
	}
	p.Name = `evil" <&> name`
	p.Barriers = []plan.Barrier{{ID: `b"] --> <script>`, Members: []int{3}, Groups: []plan.Group{{Role: `x"; }`, Min: 1}}}}
	p.Nodes[3].Commit.Barrier = 0
	p.Nodes[3].Taint = &plan.Taint{Ports: []string{`"]:::evil`}, Accepted: true}
	return p
}

func TestGolden(t *testing.T) {
	for name, p := range map[string]*plan.Plan{"payment": payment(), "hostile": hostile()} {
		for _, f := range []Format{Mermaid, DOT, SVG, Words} {
			t.Run(name+"/"+string(f), func(t *testing.T) {
				got, err := Render(p, f)
				require.NoError(t, err)
				again, err := Render(p, f)
				require.NoError(t, err)
				require.Equal(t, string(got), string(again))
				file := fmt.Sprintf("testdata/%s.%s", name, f)
				if *update {
					require.NoError(t, os.WriteFile(file, got, 0o644))
				}
				want, err := os.ReadFile(file)
				require.NoError(t, err)
				if d := cmp.Diff(string(want), string(got)); d != "" {
					t.Errorf("the picture changed (-want +got):\n%s", d)
				}
				check(t, p, f, got)
			})
		}
	}
}

// check reads a picture back: it is well formed, and has a place for every node.
func check(t require.TestingT, p *plan.Plan, f Format, picture []byte) {
	require.True(t, utf8.Valid(picture))
	switch f {
	case Mermaid:
		checkMermaid(t, p, string(picture))
	case DOT:
		checkDOT(t, p, string(picture))
	case SVG:
		checkSVG(t, p, picture)
	case Words:
		checkWords(t, p, string(picture))
	}
}

var (
	mermaidNode  = regexp.MustCompile(`^ +(n\d+|legend_[a-z]+)(?:\(\[|\[\[|\[|\(|\{\{)"([A-Za-z0-9 _\-./$?=#;]|<br/>)*"(?:\]\)|\]\]|\]|\)|\}\}):::(virtual|pure|staged|committing|irreversible)$`)
	mermaidFrame = regexp.MustCompile(`^  subgraph (legend|b\d+\["[A-Za-z0-9 _\-./$?=#;]*"\])$`)
	mermaidEdge  = regexp.MustCompile(`^  n\d+ (-->|-\.->)(\|"[A-Za-z0-9 _\-./$?=#;]*"\|)? n\d+$`)
)

func checkMermaid(t require.TestingT, p *plan.Plan, s string) {
	nodes, edges, frames := 0, 0, 0
	for i, line := range strings.Split(strings.TrimSuffix(s, "\n"), "\n") {
		switch {
		case i == 0:
			require.Equal(t, "flowchart TD", line)
		case mermaidNode.MatchString(line):
			if !strings.Contains(line, "  legend_") {
				nodes++
			}
		case mermaidFrame.MatchString(line):
			frames++
		case line == "  end":
			frames--
		case mermaidEdge.MatchString(line):
			edges++
		default:
			require.Regexp(t, `^  ((classDef [a-z]+|style b\d+) fill:#[0-9a-f]{6},stroke:#[0-9a-f]{6},color:#212121|classDef undo stroke-dasharray:6 4|class n[n0-9,]+ undo|linkStyle [0-9,]+ stroke:#[0-9a-f]{6}(,stroke-width:4px)?)$`, line)
		}
	}
	require.Zero(t, frames)
	require.Equal(t, len(p.Nodes), nodes)
	require.Equal(t, len(p.Edges)+verified(p), edges)
}

// verified counts the effects that another node verifies.
func verified(p *plan.Plan) int {
	n := 0
	for i := range p.Nodes {
		if c := p.Nodes[i].Commit; c != nil && c.Verify != nil {
			n++
		}
	}
	return n
}

// checkDOT reads the statements of a DOT file with the quoting rules of its
// language: inside a string only \" is special.
func checkDOT(t require.TestingT, p *plan.Plan, s string) {
	var outside strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '"' {
			outside.WriteByte(s[i])
			continue
		}
		for i++; s[i] != '"'; i++ {
			require.NotEqual(t, byte('\n'), s[i])
			if s[i] == '\\' {
				i++
			}
		}
		outside.WriteString("TEXT")
	}
	bare := outside.String()
	require.Equal(t, 2+len(p.Barriers), strings.Count(bare, "{"))
	require.Equal(t, 2+len(p.Barriers), strings.Count(bare, "}"))
	require.Equal(t, 1, strings.Count(bare, "digraph"))
	require.Equal(t, len(p.Edges)+verified(p), strings.Count(bare, " -> "))
	require.Equal(t, len(p.Nodes), len(regexp.MustCompile(`(?m)^ +n\d+ \[`).FindAllString(bare, -1)))
}

func checkSVG(t require.TestingT, p *plan.Plan, b []byte) {
	dec := xml.NewDecoder(bytes.NewReader(b))
	groups := 0
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok {
			require.Contains(t, []string{"svg", "title", "defs", "marker", "path", "rect", "g", "text"}, e.Name.Local)
			if e.Name.Local == "g" {
				groups++
			}
			for _, a := range e.Attr {
				require.False(t, strings.HasPrefix(strings.ToLower(a.Name.Local), "on"), a.Name.Local)
				require.NotEqual(t, "href", a.Name.Local)
				if a.Name.Local == "x" || a.Name.Local == "y" {
					x, err := strconv.ParseFloat(a.Value, 64)
					require.NoError(t, err)
					require.GreaterOrEqual(t, x, 0.0)
				}
			}
		}
	}
	require.Equal(t, len(p.Nodes), groups)
}

// checkWords: a line for each node, in their order, and perhaps two that explain signs.
func checkWords(t require.TestingT, p *plan.Plan, s string) {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	require.GreaterOrEqual(t, len(lines), len(p.Nodes))
	for i := range p.Nodes {
		require.True(t, strings.HasPrefix(lines[i], draw.Visible(p.Nodes[i].ID, maxName)), lines[i])
	}
	for _, line := range lines[len(p.Nodes):] {
		require.Contains(t, []string{"? not required", "⚠ tainted: nobody vouches for it"}, line)
	}
	require.NotRegexp(t, `[\x00-\x09\x0b-\x1f\x7f]`, s)
}

func TestLooksDiffer(t *testing.T) {
	for _, f := range []Format{Mermaid, DOT, SVG} {
		b, err := Render(payment(), f)
		require.NoError(t, err)
		for _, l := range append(looksInOrder(), virtual) {
			require.Contains(t, string(b), l.fill, f)
		}
		for _, s := range styles {
			require.Contains(t, string(b), s.stroke, "%s %s", f, s.name)
		}
		require.Contains(t, string(b), gate.fill, f)
		require.Contains(t, string(b), halo, f)
	}
}

func TestRefused(t *testing.T) {
	p := payment()
	_, err := Render(p, "png")
	require.ErrorContains(t, err, `unknown format "png"`)

	nodes := make([]plan.Node, MaxDrawn)
	for i := range nodes {
		nodes[i] = call(fmt.Sprintf("n%d", i), "engine", "pass", plan.Pure)
	}
	_, err = Render(build(nodes, nil), SVG)
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = Render(build(nodes, nil), Mermaid)
	require.NoError(t, err)

	p.Edges[0].To = 99
	_, err = Render(p, SVG)
	require.ErrorContains(t, err, "verify plan")
}

// TestAnyPlan draws random plans with random names.
func TestAnyPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 30).Draw(t, "nodes")
		some := rapid.StringN(1, -1, -1).Filter(func(s string) bool { return s[0] != '$' })
		ids := rapid.SliceOfNDistinct(some, n, n, rapid.ID[string]).Draw(t, "ids")
		var nodes []plan.Node
		for i := range n {
			nodes = append(nodes, call(
				ids[i], some.Draw(t, "provider"), some.Draw(t, "operation"), rapid.SampledFrom(order).Draw(t, "effect")))
		}
		var edges []plan.Edge
		for range rapid.IntRange(0, 60).Draw(t, "edges") {
			e := plan.Edge{
				From:     rapid.IntRange(0, n).Draw(t, "from"),
				FromPort: some.Draw(t, "port"), Required: rapid.Bool().Draw(t, "required"),
				Type: rapid.SampledFrom([]plan.EdgeType{plan.Data, plan.Control, plan.Conditional, plan.Error}).Draw(t, "type"),
			}
			e.To = rapid.IntRange(e.From+1, n+1).Draw(t, "to")
			// All payloads of a node go to its port a, or all to "$".
			e.ToPort = []string{"a", "$"}[e.To%2]
			switch {
			case e.Type == plan.Control:
				e.FromPort, e.ToPort = plan.DonePort, plan.StartPort
			case e.Type == plan.Conditional:
				e.When = rapid.String().Draw(t, "when")
				if rapid.Bool().Draw(t, "without a value") {
					e.ToPort = plan.StartPort
				}
			case e.Type == plan.Error && e.From > 0:
				e.FromPort, e.When = plan.ErrorPort, rapid.String().Draw(t, "when")
			default:
				e.Type = plan.Data
			}
			edges = append(edges, e)
		}
		p := build(nodes, edges)
		for _, f := range []Format{Mermaid, DOT, SVG, Words} {
			b, err := Render(p, f)
			require.NoError(t, err)
			check(t, p, f, b)
		}
	})
}

// TestNoOverlap: the nodes of a layer do not lie over each other.
func TestNoOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "nodes")
		nodes := make([]plan.Node, n)
		widths := make([]float64, n+2)
		for i := range nodes {
			nodes[i] = call(fmt.Sprintf("n%d", i), "engine", "pass", plan.Pure)
		}
		for i := range widths {
			widths[i] = float64(rapid.IntRange(20, 300).Draw(t, "width"))
		}
		var edges []plan.Edge
		for range rapid.IntRange(0, 80).Draw(t, "edges") {
			edges = append(edges, plan.Edge{
				From: rapid.IntRange(0, n).Draw(t, "from"), To: rapid.IntRange(1, n+1).Draw(t, "to"),
				FromPort: "a", ToPort: "a", Type: plan.Data,
			})
		}
		wires, l := layoutOf(linesOf(build(nodes, edges), nil), widths, func([]int) float64 { return 30 })
		seen := 0
		for _, layer := range l.Layers {
			for i, s := range layer {
				seen++
				if i == 0 {
					continue
				}
				left, right := l.Slots[layer[i-1]], l.Slots[s]
				require.GreaterOrEqual(t, right.X-left.X+0.01, (left.Width+right.Width)/2)
			}
		}
		require.Equal(t, len(l.Slots), seen)
		for _, w := range wires {
			if !w.Back {
				require.Less(t, l.Slots[w.From].Layer, l.Slots[w.To].Layer)
			}
		}
	})
}

func BenchmarkSVG(b *testing.B) {
	nodes := make([]plan.Node, 2000)
	var edges []plan.Edge
	for i := range nodes {
		nodes[i] = call(fmt.Sprintf("n%d", i), "engine", "pass", plan.Pure)
		edges = append(edges,
			plan.Edge{From: i / 3, FromPort: "a", To: i + 1, ToPort: "a", Type: plan.Data, Required: true},
			plan.Edge{From: i * 2 / 3, FromPort: "b", To: i + 1, ToPort: "b", Type: plan.Control})
	}
	p := build(nodes, edges)
	for b.Loop() {
		if _, err := Render(p, SVG); err != nil {
			b.Fatal(err)
		}
	}
}
