package compiler

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/compiler/plangen"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/plan"
)

const plainHead = `apiVersion: chimera/v1
kind: Plan
name: hostile
version: "1"
agent: a
allow: [pure, committing]
cycles: {max_iterations: 2}
input_schema: {type: object, properties: {x: {type: string}}, required: [x]}
output_schema: {type: object}
`

// repeated writes one line for each number.
func repeated(n int, format string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(format, "%", fmt.Sprint(i)))
		b.WriteByte('\n')
	}
	return b.String()
}

// TestHostile: plans that are made to cost much are answered in bounded time
// and memory. The bounds are wide, since machines differ; what they forbid is
// growth that is not close to linear.
func TestHostile(t *testing.T) {
	one := "nodes:\n  - {id: a, template: engine/pass, input_schema: {type: object, properties: {x: {type: string}}}}\n"
	doubling := "nodes:\n  - id: a\n    template: engine/pass\n    input_schema:\n      $ref: '#/$defs/d0'\n      $defs:\n" +
		repeated(60, "        d%: {allOf: [{$ref: '#/$defs/D%'}, {$ref: '#/$defs/D%'}], properties: {p%: true}}")
	for i := range 60 {
		doubling = strings.ReplaceAll(doubling, fmt.Sprintf("D%d'", i), fmt.Sprintf("d%d'", i+1))
	}
	doubling += "        d60: {type: object}\n"
	cases := map[string]struct {
		text string
		// code is one that must be among the findings, or "" if the plan compiles.
		code diag.Code
	}{
		"unknown nodes":     {plainHead + one + "edges:\n" + repeated(30_000, "  - nobody%.x -> a.x"), diag.PlanUnknownNode},
		"unknown fields":    {plainHead + repeated(30_000, "field%: 1") + one, diag.PlanSchema},
		"near many nodes":   {plainHead + "nodes:\n" + repeated(20_000, "  - {id: node%, template: engine/pass}") + "edges:\n" + repeated(5_000, "  - nodx% -> node0"), diag.PlanUnknownNode},
		"alternatives":      {plainHead + one + "edges:\n" + repeated(2_000, "  - {from_node: $input, from_port: x, to_node: a, to_port: x, edge_type: conditional, required: false, when: value == '%'}"), ""},
		"one circle":        {plainHead + "nodes:\n" + repeated(20_000, "  - {id: n%, template: engine/pass}") + "edges:\n" + circle(20_000), diag.PlanCycle},
		"many circles":      {plainHead + "nodes:\n" + repeated(10_000, "  - {id: n%, template: engine/pass}") + "edges:\n" + repeated(10_000, "  - n% -> n%"), diag.PlanCycle},
		"barriers":          {plainHead + "nodes:\n" + repeated(4_000, "  - {id: n%, template: engine/pass, effect_class: committing, commit_policy: {barrier: b%}}"), diag.PlanLimits},
		"distinct schemas":  {plainHead + "nodes:\n" + repeated(3_000, "  - {id: n%, template: engine/pass, input_schema: {type: object, properties: {p%: {type: string, maxLength: %}}}}"), ""},
		"ports that double": {plainHead + doubling, diag.TypeSchema},
		"big definitions":   {plainHead + "defs:\n  Big: {enum: [" + strings.Repeat("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, ", 1) + repeated(3_000, "    'value number %',") + "    z]}\nnodes:\n" + repeated(3_000, "  - {id: n%, template: engine/pass, input_schema: {type: object, properties: {p%: {$ref: '#/defs/Big'}}}}"), diag.PlanLimits},
		"deep":              {plainHead + "x: " + strings.Repeat("[", 100_000), diag.PlanSyntax},
		"aliases":           {plainHead + "defs:\n  a0: &a0 {type: object}\n" + doublingAliases(40) + one, diag.PlanSyntax},
		"long strings":      {plainHead + one[:len(one)-2] + ", with: {x: \"" + strings.Repeat("${input.x}", 20_000) + "\"}}\n", ""},
		"long name":         {strings.Replace(plainHead, "hostile", strings.Repeat("n", 1<<20), 1) + one, diag.PlanSchema},
		"compensation":      {plainHead + "nodes:\n" + repeated(3_000, "  - {id: n%, template: engine/pass, effect_class: committing, commit_policy: {}}") + "edges:\n" + repeated(2_999, "  - {from_node: n%, from_port: $compensate, to_node: n2999, to_port: $, edge_type: error, required: false, transform: '${args}'}"), diag.PlanCompensation},
		"big fan":           {string(plangen.Fan(20_000)), ""},
		"otherwise":         {plainHead + "nodes:\n" + repeated(4_000, "  - {id: n%, template: engine/pass}") + "edges:\n" + repeated(4_000, "  - {from_node: $input, from_port: $done, to_node: n%, to_port: $start, edge_type: conditional, required: false, when: otherwise}") + "  - {from_node: $input, from_port: x, to_node: n0, to_port: $start, edge_type: conditional, required: false, when: value == ''}\n", ""},
		"switch":            {plainHead + "nodes:\n" + repeated(4_000, "  - {id: n%, template: engine/pass}") + "edges:\n" + repeated(4_000, "  - {from_node: $input, from_port: x, to_node: n%, to_port: $start, edge_type: conditional, required: false, when: value == 'case %'}") + repeated(4_000, "  - {from_node: n%, from_port: $, to_node: $output, to_port: $, edge_type: data, required: false}"), diag.TypeMissingInput},
		"tangle":            {tangle(3_000), ""},
		"big chain":         {string(plangen.Chain(20_000)), ""},
	}
	cat := testCatalog(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			p, ds := Compile(Source{Name: "fuzz.yaml", Text: []byte(c.text)}, cat, nil)
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			t.Logf("%v, %d MiB for %d KiB, %d findings", took, (after.TotalAlloc-before.TotalAlloc)>>20, len(c.text)>>10, len(ds))
			require.Less(t, took, 2*time.Minute)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2<<30))
			checkResult(t, []byte(c.text), p, ds)
			if c.code == "" {
				require.NotNil(t, p, show(ds[:min(len(ds), 3)]))
				return
			}
			found := false
			for _, d := range ds {
				found = found || d.Code == c.code
			}
			require.True(t, found, show(ds[:min(len(ds), 3)]))
		})
	}
}

// tangle hangs many nodes on the same MaxAtoms conditions in random ways, so that
// their formulas are as large as formulas get.
func tangle(n int) string {
	var nodes, edges strings.Builder
	r := rand.New(rand.NewPCG(5, 5))
	for i := range n {
		fmt.Fprintf(&nodes, "  - {id: n%d, template: engine/pass}\n", i)
		if i < MaxAtoms {
			fmt.Fprintf(&edges, "  - {from_node: $input, from_port: x, to_node: n%d, to_port: $start, edge_type: conditional, required: true, when: value == '%d'}\n", i, i)
			continue
		}
		seen := map[int]bool{}
		for range 4 {
			from := max(0, i-40) + r.IntN(min(i, 40))
			if !seen[from] {
				seen[from] = true
				fmt.Fprintf(&edges, "  - {from_node: n%d, from_port: $done, to_node: n%d, to_port: $start, edge_type: control, required: %t}\n", from, i, r.IntN(3) == 0)
			}
		}
	}
	return plainHead + "nodes:\n" + nodes.String() + "edges:\n" + edges.String()
}

func circle(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  - n%d -> n%d\n", i, (i+1)%n)
	}
	return b.String()
}

func doublingAliases(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "  a%d: &a%d {allOf: [*a%d, *a%d]}\n", i, i, i-1, i-1)
	}
	return b.String()
}

// TestTooManyFindings: the list of findings is bounded, and says so.
func TestTooManyFindings(t *testing.T) {
	text := plainHead + repeated(MaxFindings+100, "field%: 1") + "nodes: [{id: a, template: engine/pass}]\n"
	_, ds := Compile(Source{Name: "many.yaml", Text: []byte(text)}, testCatalog(t), nil)
	require.Len(t, ds, MaxFindings+1)
	last := 0
	for _, d := range ds {
		if d.Summary == "too many findings; the others are not shown" {
			last++
			require.Equal(t, diag.PlanLimits, d.Code)
		}
	}
	require.Equal(t, 1, last)
}

// TestNoCatalog: without a catalog no operation is known, and nothing panics.
func TestNoCatalog(t *testing.T) {
	p, ds := Compile(Source{Name: "plan.yaml", Text: plangen.Chain(1)}, nil, nil)
	require.Nil(t, p)
	require.Len(t, ds, 1)
	require.Equal(t, diag.TrustProvider, ds[0].Code)
	require.Contains(t, ds[0].Detail, "The catalog is empty")
}

// TestBadTemplate: a catalog made by code may hold anything.
func TestBadTemplate(t *testing.T) {
	for _, bad := range []Template{
		{InputSchema: []byte(`{`), OutputSchema: []byte(`{}`)},
		{InputSchema: []byte(`{"type": 7}`), OutputSchema: []byte(`{}`)},
		{InputSchema: []byte(`{}`), OutputSchema: []byte(`{"$ref": "https://example.com"}`)},
		{},
	} {
		bad.ProviderType, bad.Provider, bad.Operation, bad.Mode, bad.Effect = plan.Skill, "p", "o", plan.Deter, plan.Pure
		bad.Trust, bad.Status, bad.InProcess = plan.AllowAuto, plan.AllowAuto, true
		text := plainHead + "nodes: [{id: a, template: p/o}]\n"
		p, ds := Compile(Source{Name: "plan.yaml", Text: []byte(text)}, &Catalog{Templates: []Template{bad}}, nil)
		require.Nil(t, p)
		require.Len(t, ds, 1, show(ds))
	}
}
