package compiler

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/lengthy"
)

// chain writes a node for each number from 1 to n.
func chain(n int, node func(i int) string) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		b.WriteString("  - " + node(i) + "\n")
	}
	return b.String()
}

// nested is a reference in n lists.
func nested(n int) string {
	return strings.Repeat("[", n) + "'${nodes.a.text}'" + strings.Repeat("]", n)
}

// joined writes a piece for each number, with a separator between two.
func joined(n int, format, separator string) string {
	return strings.ReplaceAll(strings.TrimSuffix(repeated(n, format), "\n"), "\n", separator)
}

// TestHostileShortForms: a short form is short, and what it stands for may be large. It is
// compiled or refused within bounded memory, which forbids growth that is not close to linear.
func TestHostileShortForms(t *testing.T) {
	head := plainHead + "nodes:\n"
	draft := "  - {id: a, template: text/draft, with: {prompt: '${input.x}'}}\n"
	pass := func(x string) string { return "  - {id: z, template: engine/pass, with: {x: " + x + "}}\n" }
	drafts := repeated(5_000, "  - {id: n%, template: text/draft, with: {prompt: '${input.x}'}}")
	passes := repeated(5_000, "  - {id: n%, template: engine/pass, with: {x: 1}}")
	conditional := repeated(5_000, "  - {id: n%, template: engine/pass, when: \"input.x == '%'\", with: {x: 1}}")
	few := repeated(600, "  - {id: m%, template: engine/pass, with: {x: 1}}")
	m600, n600 := joined(600, "m%", ", "), joined(600, "n%", ", ")
	long := strings.Repeat("n", 59)
	words := joined(20_000, "'a word of forty bytes, with number %'", ", ")
	big := "defs:\n  Big: {enum: [" + words + "]}\n"
	source := "  - {id: s, template: engine/pass, input_schema: {type: object, properties: {x: {enum: [" + words + "]}}, required: [x]}, with: {x: 'a word of forty bytes, with number 1'}}\n"
	defined := "  - {id: s, template: engine/pass, input_schema: {type: object, properties: {x: {$ref: '#/defs/Big'}}, required: [x]}, with: {x: 'a word of forty bytes, with number 1'}}\n"
	entries := "  - {id: z, template: engine/pass, with: {" + joined(400, `p%: "${nodes.s.x}"`, ", ") + "}}\n"
	for i, c := range []struct {
		name, text string
		// code is one that must be among the findings, or "" if the plan compiles.
		code diag.Code
		// most is the memory that may be allocated, in MiB.
		most uint64
	}{
		{"references in a text", head + draft + pass(`"`+strings.Repeat("${nodes.a.text} ", 10_000)+`"`), diag.PlanLimits, 64},
		{"references in an expression", head + draft + pass(`"${`+strings.Repeat("nodes.a.text + ", 10_000)+`''}"`), diag.PlanLimits, 64},
		{"references in a condition", head + draft + `  - {id: z, template: engine/pass, when: "` + strings.Repeat("nodes.a.text != '' && ", 10_000) + "true\"}\n", diag.PlanLimits, 64},
		{"alternatives", head + draft + pass(`"${`+strings.Repeat("nodes.a.text ?? ", 10_000)+`'x'}"`), diag.PlanLimits, 64},
		{"alternatives of the input", head + draft + pass(`"${`+strings.Repeat("input.x ?? ", 10_000)+`'x'}"`), diag.PlanLimits, 64},
		{"alternatives from all nodes", head + drafts + pass(`"${`+joined(5_000, "nodes.n%.text", " ?? ")+`}"`), diag.PlanLimits, 512},
		{"alternatives in each node", head + drafts + repeated(2_000, `  - {id: m%, template: engine/pass, with: {x: "${`+joined(31, "nodes.n%.text", " ?? ")+` ?? 'x'}"}}`), "", 2 << 10},
		{"a list from 2,000 nodes", head + drafts + pass("["+joined(2_000, "'${nodes.n%.text}'", ", ")+"]"), "", 1 << 10},
		{"a list from all nodes", head + drafts + pass("["+joined(5_000, "'${nodes.n%.text}'", ", ")+"]"), diag.TypeSchema, 512},
		{"a map from all nodes", head + drafts + pass("{"+joined(5_000, "k%: '${nodes.n%.text}'", ", ")+"}"), diag.TypeSchema, 512},
		{"an entry from each node", head + drafts + "  - {id: z, template: engine/pass, with: {" + joined(5_000, "k%: '${nodes.n%.text}'", ", ") + "}}\n", diag.TypeSchema, 512},
		{"an output from 2,000 nodes", strings.Replace(head, "nodes:", "output: {$: {"+joined(2_000, "k%: '${nodes.n%.text}'", ", ")+"}}\nnodes:", 1) + drafts, "", 1 << 10},
		{"an output from all nodes", strings.Replace(head, "nodes:", "output: {$: {"+joined(5_000, "k%: '${nodes.n%.text}'", ", ")+"}}\nnodes:", 1) + drafts, diag.TypeSchema, 512},
		{"the opposite of each", head + drafts + repeated(5_000, "  - {id: m%, template: engine/pass, when: \"nodes.n%.text == ''\", with: {x: 1}}") + repeated(5_000, "  - {id: o%, template: engine/pass, otherwise_of: m%, with: {x: 1}}"), "", 2 << 10},
		{"the opposite of each by another name", head + conditional + repeated(5_000, "  - {id: o%, template: engine/pass, else: n%, with: {x: 1}}"), diag.PlanSchema, 1 << 10},
		{"the opposite of one of many", head + conditional + repeated(5_000, "  - {id: o%, template: engine/pass, otherwise_of: n%, with: {x: 1}}"), "", 1 << 10},
		{"the opposite of all", head + conditional + "  - {id: z, template: engine/pass, with: {x: 1}, otherwise_of: [" + joined(5_000, "n%", ", ") + "]}\n", "", 1 << 10},
		{"opposites of all", head + conditional[:strings.Index(conditional, "  - {id: n600,")] + repeated(600, "  - {id: o%, template: engine/pass, with: {x: 1}, otherwise_of: ["+n600+"]}"), "", 2 << 10},
		{"opposites in a row", head + "  - {id: n0, template: engine/pass, when: \"input.x == ''\"}\n" + chain(5_000, func(i int) string {
			return fmt.Sprintf("{id: n%d, template: engine/pass, otherwise_of: n%d}", i, i-1)
		}), diag.PlanSchema, 512},
		{"after", head + few + repeated(600, "  - {id: n%, template: engine/pass, with: {x: 1}, after: ["+m600+"]}"), "", 4 << 10},
		{"after one many times", head + few + "  - {id: z, template: engine/pass, after: [" + joined(20_000, "m0", ", ") + "]}\n", diag.PlanDuplicateID, 512},
		{"an arrow from all", head + passes + "  - {id: z, template: engine/pass, with: {x: 1}}\nedges:\n  - \"[" + joined(5_000, "n%", ", ") + "] -> z\"\n", "", 1 << 10},
		{"an arrow between 600", head + few + passes + "edges:\n  - \"[" + m600 + "] -> [" + n600 + "]\"\n", "", 4 << 10},
		{"an arrow between all", head + passes + "edges:\n  - \"[" + joined(5_000, "n%", ", ") + "] -> [" + joined(5_000, "n%", ", ") + "]\"\n", diag.PlanLimits, 512},
		{"an arrow between long names", head + repeated(200, "  - {id: "+long+"%, template: engine/pass, with: {x: 1}}") + repeated(200, "  - {id: m"+long+"%, template: engine/pass, with: {x: 1}}") + "edges:\n  - \"[" + joined(200, long+"%", ", ") + "] -> [" + joined(200, "m"+long+"%", ", ") + "]\"\n", "", 512},
		{"an arrow many times", head + few + passes + "edges:\n" + strings.Repeat("  - \"["+m600+"] -> ["+n600+"]\"\n", 50), diag.PlanLimits, 4 << 10},
		{"an arrow in circles", head + passes + "edges:\n  - \"[" + n600 + "] -> [" + n600 + "]\"\n", diag.PlanCycle, 4 << 10},
		{"a large schema", head + source + entries, diag.PlanLimits, 2 << 10},
		{"a large definition", strings.Replace(head, "nodes:", big+"nodes:", 1) + defined + entries, diag.TypeUnknown, 2 << 10},
		{"ports that double", head + "  - {id: p0, template: text/draft, with: {prompt: '${input.x}'}}\n" + chain(30, func(i int) string {
			return fmt.Sprintf(`{id: p%d, template: engine/pass, with: {a: "${nodes.p%d}", b: "${nodes.p%d}"}}`, i, i-1, i-1)
		}), diag.TypeSchema, 512},
		{"lists that double", head + "  - {id: p0, template: text/draft, with: {prompt: '${input.x}'}}\n" + chain(30, func(i int) string {
			return fmt.Sprintf(`{id: p%d, template: engine/pass, with: {a: ["${nodes.p%d}", "${nodes.p%d}"]}}`, i, i-1, i-1)
		}), diag.TypeSchema, 512},
		{"references nested 50 deep", head + draft + pass(nested(50)), "", 64},
		{"references nested 100 deep", head + draft + pass(nested(100)), diag.TypeSchema, 64},
		{"references nested in each node", head + draft + repeated(1_000, "  - {id: n%, template: engine/pass, with: {x: "+nested(50)+"}}"), "", 2 << 10},
		{"members of members", head + draft + pass(`"${nodes.a.text`+strings.Repeat(".x", 1_500)+`}"`), diag.TypeExpr, 256},
		{"rollbacks", head + repeated(1_000, "  - {id: n%, template: engine/pass, effect_class: committing, commit_policy: {rollback: {node: z, with: {x: '${output.x}'}}}, with: {x: 1}}") +
			"  - {id: z, template: engine/pass, effect_class: committing, commit_policy: {}, input_schema: {type: object, properties: {x: {}}}}\n", diag.PlanCompensation, 2 << 10},
		{"misspelt", head + drafts + repeated(2_000, "  - {id: m%, template: engine/pass, with: {x: '${nodes.nx%.text}'}}"), diag.PlanUnknownNode, 2 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			if i%8 > 0 {
				lengthy.Skip(t)
			}
			text := c.text
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p, ds := Compile(Source{Name: "fuzz.yaml", Text: []byte(text)}, testCatalog(t), nil)
			runtime.ReadMemStats(&after)
			used := (after.TotalAlloc - before.TotalAlloc) >> 20
			t.Logf("%d MiB for %d KiB, %d findings", used, len(text)>>10, len(ds))
			require.Less(t, used, c.most)
			if c.code == "" {
				require.NotNil(t, p, show(ds[:min(len(ds), 3)]))
			} else {
				require.True(t, slices.ContainsFunc(ds, func(d diag.Diagnostic) bool { return d.Code == c.code }), show(ds[:min(len(ds), 3)]))
			}
		})
	}
}
