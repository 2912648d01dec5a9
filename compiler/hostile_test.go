package compiler

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/compiler/plangen"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
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

// approved is a node up to its approval.
const approved = "nodes:\n  - id: a\n    template: engine/pass\n    effect_class: committing\n    commit_policy:\n      approval:\n        "

// repeated writes one line for each number.
func repeated(n int, format string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(format, "%", fmt.Sprint(i)))
		b.WriteByte('\n')
	}
	return b.String()
}

// TestHostile: plans that are made to be expensive are answered within bounded
// memory. The bounds are wide; they forbid growth that is not close to linear.
func TestHostile(t *testing.T) {
	one := "nodes:\n  - {id: a, template: engine/pass, input_schema: {type: object, properties: {x: {type: string}}}}\n"
	doubling := "nodes:\n  - id: a\n    template: engine/pass\n    input_schema:\n      $ref: '#/$defs/d0'\n      $defs:\n" +
		repeated(60, "        d%: {allOf: [{$ref: '#/$defs/D%'}, {$ref: '#/$defs/D%'}], properties: {p%: true}}")
	for i := range 60 {
		doubling = strings.ReplaceAll(doubling, fmt.Sprintf("D%d'", i), fmt.Sprintf("d%d'", i+1))
	}
	doubling += "        d60: {type: object}\n"
	all := map[string]struct {
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
		"members":           {plainHead + "nodes:\n" + repeated(257, "  - {id: n%, template: engine/pass, effect_class: committing, commit_policy: {barrier: b}}"), diag.PlanLimits},
		"groups":            {plainHead + approved + "groups:\n" + repeated(65, "          - {role: r%, min: 1}"), diag.PlanLimits},
		"excluded":          {plainHead + approved + "exclude:\n" + repeated(61, "          - p%"), diag.PlanLimits},
		"barriers":          {plainHead + "nodes:\n" + repeated(4_000, "  - {id: n%, template: engine/pass, effect_class: committing, commit_policy: {barrier: b%}}"), diag.PlanLimits},
		"distinct schemas":  {plainHead + "nodes:\n" + repeated(3_000, "  - {id: n%, template: engine/pass, input_schema: {type: object, properties: {p%: {type: string, maxLength: %}}}}"), ""},
		"ports that double": {plainHead + doubling, diag.TypeSchema},
		"big definitions":   {plainHead + "defs:\n  Big: {enum: [" + strings.Repeat("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, ", 1) + repeated(3_000, "    'value number %',") + "    z]}\nnodes:\n" + repeated(3_000, "  - {id: n%, template: engine/pass, input_schema: {type: object, properties: {p%: {$ref: '#/defs/Big'}}}}"), diag.PlanLimits},
		"deep":              {plainHead + "x: " + strings.Repeat("[", 100_000), diag.PlanSyntax},
		"aliases":           {plainHead + "defs:\n  a0: &a0 {type: object}\n" + doublingAliases(40) + one, diag.PlanSyntax},
		"long strings":      {plainHead + one[:len(one)-2] + ", with: {x: \"" + strings.Repeat("${input.x}", 20_000) + "\"}}\n", ""},
		"long name":         {strings.Replace(plainHead, "hostile", strings.Repeat("n", 1<<20), 1) + one, diag.PlanSchema},
		"compensation":      {plainHead + "nodes:\n" + repeated(3_000, "  - {id: n%, template: engine/pass, effect_class: committing, commit_policy: {}}") + "edges:\n" + repeated(3_000-1, "  - {from_node: n%, from_port: $compensate, to_node: n"+fmt.Sprint(3_000-1)+", to_port: $, edge_type: error, required: false, transform: '${args}'}"), diag.PlanCompensation},
		"big fan":           {string(plangen.Fan(20_000)), ""},
		"otherwise":         {plainHead + "nodes:\n" + repeated(4_000, "  - {id: n%, template: engine/pass}") + "edges:\n" + repeated(4_000, "  - {from_node: $input, from_port: $done, to_node: n%, to_port: $start, edge_type: conditional, required: false, when: otherwise}") + "  - {from_node: $input, from_port: x, to_node: n0, to_port: $start, edge_type: conditional, required: false, when: value == ''}\n", ""},
		"switch":            {plainHead + "nodes:\n" + repeated(4_000, "  - {id: n%, template: engine/pass}") + "edges:\n" + repeated(4_000, "  - {from_node: $input, from_port: x, to_node: n%, to_port: $start, edge_type: conditional, required: false, when: value == 'case %'}") + repeated(4_000, "  - {from_node: n%, from_port: $, to_node: $output, to_port: $, edge_type: data, required: false}"), diag.TypeMissingInput},
		"tangle":            {tangle(3_000), ""},
		"big chain":         {string(plangen.Chain(20_000)), ""},
		"definitions":       {plainHead + "defs:\n" + repeated(lint.MaxDefinitions+1, "  d%: {}") + one, diag.PlanLimits},
		"chained":           {plainHead + "defs:\n" + chained(2_000) + one, diag.PlanLimits},
		"chained enough":    {plainHead + "defs:\n" + chained(lint.MaxUses) + one, ""},
		"ungated":           {plainHead + "nodes:\n" + repeated(10_000, "  - {id: n%, template: engine/pass, effect_class: committing, commit_policy: {}}") + "edges:\n" + repeated(9_000, "  - {from_node: $input, from_port: $done, to_node: n%, to_port: $start, edge_type: control, required: false}"), diag.EffectUngated},
		"weaker":            {plainHead + "nodes:\n" + repeated(150, "  - {id: n%, template: text/count, input_schema: {type: object, minProperties: %, allOf: ["+choices24()+"]}}"), diag.TrustWeaker},
		"leaves":            {plainHead + "nodes:\n  - {id: a, template: engine/pass, input_schema: {type: object, properties: {x: {}}}, with: {x: [" + strings.Repeat("'${input.x}', ", 20_000) + "1]}}\n", ""},
	}
	cat := testCatalog(t)
	long := []string{"unknown fields", "near many nodes", "big definitions", "big fan", "big chain", "one circle", "switch", "ungated"}
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			if slices.Contains(long, name) {
				lengthy.Skip(t)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p, ds := Compile(Source{Name: "fuzz.yaml", Text: []byte(c.text)}, cat, nil)
			runtime.ReadMemStats(&after)
			t.Logf("%d MiB for %d KiB, %d findings", (after.TotalAlloc-before.TotalAlloc)>>20, len(c.text)>>10, len(ds))
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

// chained is n definitions that each use the next.
func chained(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  d%d: {properties: {x: {$ref: '#/defs/d%d'}}}\n", i, i+1)
	}
	fmt.Fprintf(&b, "  d%d: {}\n", n)
	return b.String()
}

// choices24 is a schema with 2^24 combinations of required properties.
func choices24() string {
	var list []string
	for i := range 24 {
		list = append(list, fmt.Sprintf("{anyOf: [{required: [a%d]}, {required: [b%d]}]}", i, i))
	}
	return strings.Join(list, ", ")
}

// TestRefused: input that is made to break a reader, a validator, a prover or an
// evaluator is refused in its place.
func TestRefused(t *testing.T) {
	schema := func(s string) string {
		return plainHead + "nodes:\n  - {id: a, template: engine/pass, input_schema: " + s + "}\n"
	}
	with := func(s string) string {
		return plainHead + "nodes:\n  - id: a\n    template: engine/pass\n    input_schema: {type: object, properties: {x: {}}}\n    with: {x: " + s + "}\n"
	}
	when := func(s string) string {
		return plainHead + "nodes:\n  - {id: a, template: engine/pass}\nedges:\n  - {from_node: $input, from_port: x, to_node: a, to_port: $start, edge_type: conditional, required: true, when: " + s + "}\n"
	}
	expression := func(s string) string { return with(`"${` + s + `}"`) }
	id := func(s string) string { return plainHead + "nodes:\n  - {id: " + s + ", template: engine/pass}\n" }
	doubling := "{properties: {x: {$ref: '#/$defs/d0'}}, $defs: {"
	for i := range 40 {
		doubling += fmt.Sprintf("d%d: {allOf: [{$ref: '#/$defs/d%d'}, {$ref: '#/$defs/d%d'}]}, ", i, i+1, i+1)
	}
	doubling += "d40: {}}}"
	for _, c := range []struct {
		name, text string
		code       diag.Code
		place      string
		says       string
	}{
		{"address", schema("{properties: {x: {$ref: 'http://169.254.169.254/latest'}}}"), diag.TypeSchema, "11:74", "169.254.169.254"},
		{"file", schema("{properties: {x: {$ref: 'file:///etc/passwd'}}}"), diag.TypeSchema, "11:74", "file:///etc/passwd"},
		{"file by identifier", schema("{$id: 'file:///etc/', properties: {x: {$ref: 'passwd'}}}"), diag.TypeSchema, "11:95", ""},
		{"dialect", schema("{$schema: 'http://example.com/dialect'}"), diag.TypeSchema, "11:51", ""},
		{"loop", schema("{$ref: '#'}"), diag.TypeSchema, "11:51", "refers to itself"},
		{"loop of two", schema("{$ref: '#/$defs/a', $defs: {a: {$ref: '#/$defs/b'}, b: {$ref: '#/$defs/a'}}}"), diag.TypeSchema, "11:51", "refers to itself"},
		{"loop in not", schema("{not: {$ref: '#'}}"), diag.TypeSchema, "11:51", "refers to itself"},
		{"loop in anyOf", schema("{anyOf: [{$ref: '#'}, {type: object}]}"), diag.TypeSchema, "11:51", "refers to itself"},
		{"doubling", schema(doubling), diag.TypeSchema, "11:51", "too large"},
		{"nested", schema(strings.Repeat("{not: ", 120) + "{}" + strings.Repeat("}", 120)), diag.TypeSchema, "11:51", "too large"},
		{"deep", schema(strings.Repeat("{items: ", 200) + "{}" + strings.Repeat("}", 200)), diag.PlanSyntax, "11:1050", ""},
		{"many parts", schema("{properties: {" + repeatedWords(5_000, "p%: {$ref: '#/$defs/x'}, ") + "}, $defs: {x: {}}}"), diag.TypeSchema, "11:51", "subschemas"},
		{"long", schema("{properties: {x: {pattern: '" + strings.Repeat("x", 1<<20) + "'}}}"), diag.TypeSchema, "11:51", "bytes"},
		{"pattern program", schema("{properties: {x: {pattern: 'a{1000}b{1000}(c{10}){100}'}}}"), diag.TypeSchema, "11:68", "instructions"},
		{"pattern of another kind", schema("{properties: {x: {pattern: '(?=a)b'}}}"), diag.TypeSchema, "11:68", "RE2"},
		{"pattern repeats", schema("{properties: {x: {pattern: '((a{1,100}){1,100}){1,100}'}}}"), diag.TypeSchema, "11:68", "RE2"},
		{"exponent", schema("{properties: {x: {minimum: 1e1000001}}}"), diag.PlanSyntax, "11:77", "exponent"},
		{"small exponent", schema("{properties: {x: {multipleOf: 1e-1000001}}}"), diag.PlanSyntax, "11:80", "exponent"},
		{"digits", schema("{properties: {x: {const: 1" + strings.Repeat("0", 100_000) + "}}}"), diag.PlanSyntax, "11:75", "characters"},
		{"count", schema("{properties: {x: {maxLength: 99999999999999999999999}}}"), diag.TypeSchema, "11:68", "beyond"},
		{"constant", with("1e1000001"), diag.PlanSyntax, "14:15", "exponent"},
		{"parentheses", expression(strings.Repeat("(", 5_000) + "1" + strings.Repeat(")", 5_000)), diag.TypeExpr, "14:18", "bytes"},
		{"brackets", expression(strings.Repeat("[", 3_000) + "1" + strings.Repeat("]", 3_000)), diag.TypeExpr, "14:18", "recursion"},
		{"choices", expression(strings.Repeat("true ? 1 : ", 3_000) + "1"), diag.TypeExpr, "14:18", "bytes"},
		{"sum", expression("1" + strings.Repeat("+1", 20_000)), diag.TypeExpr, "14:18", "bytes"},
		{"literal", expression("[" + strings.Repeat("1,", 100_000) + "1]"), diag.TypeExpr, "14:18", "bytes"},
		{"text", expression("'" + strings.Repeat("a", 1_000_000) + "'"), diag.TypeExpr, "14:18", "bytes"},
		{"loops in loops", expression(strings.Repeat("[1,2,3].map(a, ", 30) + "1" + strings.Repeat(")", 30)), diag.TypeExpr, "14:254", "steps"},
		{"pattern in a condition", when(`"value.matches('((a{1,100}){1,100}){1,100}')"`), diag.TypeExpr, "13:129", "RE2"},
		{"open", expression("1 // " + strings.Repeat("a", 100_000)), diag.TypeExpr, "14:16", "does not end"},
		{"turned name", id(`"a\u202eb"`), diag.PlanSchema, "11:10", "not a valid name"},
		{"invisible name", id(`"\u200b"`), diag.PlanSchema, "11:10", "not a valid name"},
		{"wide name", id("ａ"), diag.PlanSchema, "11:10", "not a valid name"},
		{"not UTF-8", id("\"a\xff\""), diag.PlanSyntax, "11:12", "UTF-8"},
		{"zero byte", id("\"a\x00\""), diag.PlanSyntax, "11:12", ""},
		{"half a character", id(`"\uD800"`), diag.PlanSyntax, "11:11", "surrogate"},
		{"UTF-16", "\xff\xfea\x00p\x00i\x00", diag.PlanSyntax, "1:1", ""},
		{"aliases", plainHead + "defs:\n  a0: &a0 {type: object}\n" + doublingAliases(40) + id("a")[len(plainHead):], diag.PlanSyntax, "27:28", ""},
		{"alias of itself", plainHead + "defs: &d {a: *d}\n" + id("a")[len(plainHead):], diag.PlanSyntax, "10:14", ""},
		{"tag", id("!!binary YQ=="), diag.PlanSyntax, "11:10", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, ds := Compile(Source{Name: "hostile.yaml", Text: []byte(c.text)}, testCatalog(t), nil)
			require.NotEmpty(t, ds)
			var found *diag.Diagnostic
			for i := range ds {
				if ds[i].Code == c.code && strings.Contains(strings.ToLower(ds[i].Summary+" "+ds[i].Detail), strings.ToLower(c.says)) {
					found = &ds[i]
					break
				}
			}
			require.NotNil(t, found, show(ds[:min(len(ds), 5)]))
			require.True(t, found.Subject.IsValid())
			require.Equal(t, c.place, fmt.Sprintf("%d:%d", found.Subject.Start.Line, found.Subject.Start.Column), show(ds[:min(len(ds), 5)]))
			for _, d := range ds {
				require.Less(t, len(d.Summary)+len(d.Detail)+len(d.Suggestion), 4096, "what is said is bounded")
			}
		})
	}
}

// TestRefusedFiles: catalogs and policies are read with the same care as plans.
func TestRefusedFiles(t *testing.T) {
	catalog := func(schema string) string {
		return "apiVersion: chimera/v1\nkind: Catalog\ntemplates:\n  - {provider_type: mcp, provider_name: a, operation: b, mode: deter, effect_class: pure, status: allow_auto, output_schema: {}, input_schema: " + schema + "}\n"
	}
	rule := func(match string) string {
		return "apiVersion: chimera/v1\nkind: PolicyBundle\nversion: \"1\"\nrules:\n  - {id: a, type: hard, require: 'true', match: \"" + match + "\"}\n"
	}
	for _, c := range []struct {
		name, text string
		code       diag.Code
		place      string
	}{
		{"file", catalog("{$ref: 'file:///etc/passwd'}"), diag.TypeSchema, "4:151"},
		{"loop", catalog("{$ref: '#'}"), diag.TypeSchema, "4:145"},
		{"number", catalog("{minimum: 1e1000001}"), diag.PlanSyntax, "4:154"},
		{"deep", catalog(strings.Repeat("{items: ", 200)), diag.PlanSyntax, "4:1144"},
		{"not UTF-8", catalog("{const: \"\xff\"}"), diag.PlanSyntax, "4:153"},
		{"cost", strings.Replace(catalog("{}"), "output_schema", `cost: {currency: USD, expr: "`+strings.Repeat("(", 100)+`1`+strings.Repeat(")", 100)+`"}, output_schema`, 1), diag.TypeExpr, "4:140"},
		{"rule", rule(strings.Repeat("!(", 100) + "true" + strings.Repeat(")", 100)), diag.TypeExpr, "5:50"},
		{"rule pattern", rule("'a'.matches('((a{1,100}){1,100}){1,100}')"), diag.TypeExpr, "5:62"},
		{"many names", strings.Replace(rule("true"), "rules:", "allow:\n  - {agents: ["+repeatedWords(policy.MaxNames+1, "a%, ")+"]}\nrules:", 1), diag.PlanLimits, "5:68905"},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := Source{Name: "hostile.yaml", Text: []byte(c.text)}
			var ds diag.Diagnostics
			if strings.Contains(c.text, "kind: Catalog") {
				cat, found := ParseCatalog(src)
				require.Nil(t, cat)
				ds = found
			} else {
				pol, found := policy.Parse(src)
				require.Nil(t, pol)
				ds = found
			}
			require.NotEmpty(t, ds)
			require.Equal(t, c.code, ds[0].Code, show(ds[:min(len(ds), 5)]))
			require.Equal(t, c.place, fmt.Sprintf("%d:%d", ds[0].Subject.Start.Line, ds[0].Subject.Start.Column), show(ds[:min(len(ds), 5)]))
		})
	}
}

// repeatedWords writes one piece for each number, on one line.
func repeatedWords(n int, format string) string {
	return strings.ReplaceAll(repeated(n, format), "\n", "")
}

// tangle makes many nodes depend on the same MaxAtoms conditions in random ways, so
// that their formulas are as large as formulas get.
func tangle(n int) string {
	var nodes, edges strings.Builder
	r := rand.New(rand.NewPCG(5, 5))
	for i := range n {
		fmt.Fprintf(&nodes, "  - {id: n%d, template: engine/pass}\n", i)
		if i < lint.MaxAtoms {
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
	text := plainHead + repeated(lint.MaxFindings+100, "field%: 1") + "nodes: [{id: a, template: engine/pass}]\n"
	_, ds := Compile(Source{Name: "many.yaml", Text: []byte(text)}, testCatalog(t), nil)
	require.Len(t, ds, lint.MaxFindings+1)
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
	for _, bad := range []catalog.Template{
		{InputSchema: []byte(`{`), OutputSchema: []byte(`{}`)},
		{InputSchema: []byte(`{"type": 7}`), OutputSchema: []byte(`{}`)},
		{InputSchema: []byte(`{}`), OutputSchema: []byte(`{"$ref": "https://example.com"}`)},
		{},
	} {
		bad.ProviderType, bad.Provider, bad.Operation, bad.Mode, bad.Effect = plan.Skill, "p", "o", plan.Deter, plan.Pure
		bad.Trust, bad.Status, bad.InProcess = plan.AllowAuto, plan.AllowAuto, true
		text := plainHead + "nodes: [{id: a, template: p/o}]\n"
		p, ds := Compile(Source{Name: "plan.yaml", Text: []byte(text)}, &catalog.Catalog{Templates: []catalog.Template{bad}}, nil)
		require.Nil(t, p)
		require.Len(t, ds, 1, show(ds))
	}
}
