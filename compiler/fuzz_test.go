package compiler

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/compiler/plangen"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

// seeds are all plans of the test files, and a generated one.
func seeds(t testing.TB) [][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/*/*.yaml")
	require.NoError(t, err)
	var out [][]byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		out = append(out, text)
	}
	return append(out, plangen.Layered(12, 3, 1))
}

// checkResult holds any result of the compiler to what Compile promises.
func checkResult(t *testing.T, text []byte, p *plan.Plan, ds diag.Diagnostics) {
	t.Helper()
	require.Equal(t, ds.HasErrors(), p == nil, "%q", text)
	checkFindings(t, text, ds)
	if p == nil {
		return
	}
	b, err := p.Encode()
	require.NoError(t, err)
	back, err := plan.Decode(b)
	require.NoError(t, err)
	again, err := back.Encode()
	require.NoError(t, err)
	require.Equal(t, string(b), string(again))
}

// checkFindings checks that findings are complete, short, and lie within their
// file.
func checkFindings(t *testing.T, text []byte, ds diag.Diagnostics) {
	t.Helper()
	require.LessOrEqual(t, len(ds), lint.MaxFindings+1)
	_, faults := syntax.Parse("fuzz.yaml", text, fields.Limits)
	for i, d := range ds {
		require.Equal(t, len(d.Edits) > 0, d.Applicability != "", "%q", text)
		if len(d.Edits) > 0 && !faults.HasErrors() && i < 20 {
			_, left := syntax.Parse("fuzz.yaml", edited(t, text, d.Edits), fields.Limits)
			require.False(t, left.HasErrors(), "%s %q", show(diag.Diagnostics{d}), text)
		}
		require.NotEmpty(t, d.Code, "%q", text)
		require.NotEmpty(t, d.Summary, "%s %q", d.Code, text)
		require.Equal(t, "fuzz.yaml", d.Subject.File, "%s %q", show(diag.Diagnostics{d}), text)
		require.True(t, d.Subject.IsValid(), "%s %q", show(diag.Diagnostics{d}), text)
		for _, r := range []diag.Range{d.Subject, d.Context} {
			if r.IsValid() && r.File == "fuzz.yaml" {
				require.LessOrEqual(t, r.Start.Byte, r.End.Byte, "%s %q", show(diag.Diagnostics{d}), text)
				require.LessOrEqual(t, r.End.Byte, len(text), "%s %q", show(diag.Diagnostics{d}), text)
				require.Positive(t, r.Start.Column, "%s %q", show(diag.Diagnostics{d}), text)
			}
		}
		require.NotContains(t, d.Summary, "compiler", "%q", text)
		require.Less(t, len(d.Summary)+len(d.Detail)+len(d.Suggestion)+len(d.Witness), 20_000, "%q", text)
	}
}

// rewritten returns a file as JSON with sorted keys, which means the same.
func rewritten(t *testing.T, text []byte) Source {
	t.Helper()
	docs, ds := syntax.Parse("fuzz.yaml", text, fields.Limits)
	require.False(t, ds.HasErrors(), "%q", text)
	var b bytes.Buffer
	for i, d := range docs {
		if i > 0 {
			b.WriteString("---\n")
		}
		require.NoError(t, json.NewEncoder(&b).Encode(d.Root.Any()), "%q", text)
	}
	return Source{Name: "fuzz.yaml", Text: b.Bytes()}
}

func FuzzCompile(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	cat := testCatalog(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		p, ds := Compile(Source{Name: "fuzz.yaml", Text: text}, cat, nil)
		checkResult(t, text, p, ds)
		if p != nil {
			other, ds := Compile(rewritten(t, text), cat, nil)
			require.NotNil(t, other, "%q, written as JSON: %s", text, show(ds))
			require.Equal(t, encode(t, p), encode(t, other), "%q", text)
		}
	})
}

// A plan that can be read means the same in every notation.
func FuzzNotation(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	cat := testCatalog(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		src := Source{Name: "fuzz.yaml", Text: text}
		want, _ := Check(src, cat, nil)
		for name, notation := range map[string]func(Source, *catalog.Catalog, *policy.Bundle) ([]byte, diag.Diagnostics, error){"long": Expand, "short": Shorten} {
			other, ds, err := notation(src, cat, nil)
			require.NoError(t, err, "%s of %q", name, text)
			require.Equal(t, ds.HasErrors(), other == nil, "%s of %q", name, text)
			if want == nil {
				continue
			}
			got, ds := Check(Source{Name: "fuzz.yaml", Text: other}, cat, nil)
			require.NotNil(t, got, "%s of %q: %q %s", name, text, other, show(ds))
			require.Equal(t, encode(t, want), encode(t, got), "%s of %q: %q", name, text, other)
		}
	})
}

func FuzzCatalog(f *testing.F) {
	for _, file := range []string{"testdata/catalog.yaml", "testdata/catalogs/errors.yaml", "testdata/catalogs/adapters.yaml"} {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		cat, ds := ParseCatalog(Source{Name: "fuzz.yaml", Text: text})
		require.Equal(t, ds.HasErrors(), cat == nil)
		checkFindings(t, text, ds)
		if cat == nil {
			return
		}
		other, ds := ParseCatalog(rewritten(t, text))
		require.NotNil(t, other, "%q, written as JSON: %s", text, show(ds))
		require.Len(t, other.Templates, len(cat.Templates))
		require.Len(t, other.Adapters, len(cat.Adapters))
		_, ds = cat.Merge(other)
		require.Len(t, ds, len(cat.Templates)+len(cat.Adapters))
		// What a catalog offers, a plan can name.
		p, ds := Compile(Source{Name: "fuzz.yaml", Text: []byte(minimal)}, cat, nil)
		checkResult(t, []byte(minimal), p, ds)
	})
}

// minimal is a plan that needs nothing of a catalog.
const minimal = "apiVersion: chimera/v1\nkind: Plan\nname: p\nversion: \"1\"\ninput_schema: {type: object}\noutput_schema: {type: object}\nnodes:\n  - {id: a, template: engine/pass}\n"

// FuzzPolicy: a bundle that is accepted means the same as JSON, and merging it with
// itself finds every duplicate and changes nothing else.
func FuzzPolicy(f *testing.F) {
	for _, file := range []string{"testdata/policy.yaml", "testdata/policies/errors.yaml"} {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(text)
	}
	for _, s := range []string{
		"caps: {prob_cost_per_run: \"0.0001 JPY\"}", "thresholds: {per: [{effects: [pure], max_auto_launch_risk: 1e-400}]}", "rules: [{id: a, type: hard, match: 'action.inputs.a[0]', require: 'has(action.x)'}]",
		"approval: {floor: [{agents: [a], groups: [{role: r, min: 1}, {role: r, min: 2}]}], lift: {\"policy:a\": [r]}}", "allow: [{}, {effects: []}]", "unmodelled: [a/b, a/b]",
	} {
		f.Add([]byte("apiVersion: chimera/v1\nkind: PolicyBundle\nversion: \"1\"\n" + s + "\n"))
	}
	cat := testCatalog(f)
	effects, err := os.ReadFile("testdata/effects/operator.yaml")
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text []byte) {
		p, ds := policy.Parse(Source{Name: "fuzz.yaml", Text: text})
		require.Equal(t, ds.HasErrors(), p == nil, "%q", text)
		checkFindings(t, text, ds)
		if p == nil {
			return
		}
		other, ds := policy.Parse(rewritten(t, text))
		require.NotNil(t, other, "%q, written as JSON: %s", text, show(ds))
		require.Equal(t, p.Digest(), other.Digest(), "%q", text)
		if merged, ds := policy.Merge(p); merged != nil {
			require.Equal(t, p.Digest(), merged.Digest(), "%q: %s", text, show(ds))
		}
		for _, plan := range [][]byte{[]byte(minimal), effects} {
			out, ds := Compile(Source{Name: "fuzz.yaml", Text: plan}, cat, p)
			require.Equal(t, ds.HasErrors(), out == nil)
		}
	})
}

// pieces are what mutations put in: words of the language, and what breaks
// readers of text.
var pieces = strings.Fields(`apiVersion: kind: Plan name: nodes: edges: [] {} [ ] { } - : # "" '' | > & * &a *a << !!str
	$input $output $ $done $start $error $compensate -> a.x null true false 0 -1 1e9 1e400 0x10 .5 id: template: engine/pass
	engine/fail for_each: {port: commit_policy: cycles: defs: {$ref: "#/defs/a"} {$ref: "#"} when: otherwise transform: ${value}
	${input.x} ${ ${${ edge_type: data control conditional error required: --- ... text/count allow: [committing] limits: with:
	input_schema: output_schema: {type: object} {type: [object]} properties: allOf: anyOf: [{}] from_node: to_node: from_port: to_port:`)

// mutate changes a plan a little: bytes, lines and words.
func mutate(r *rand.Rand, all [][]byte) []byte {
	text := append([]byte(nil), all[r.IntN(len(all))]...)
	for range 1 + r.IntN(4) {
		if len(text) == 0 {
			break
		}
		at := r.IntN(len(text))
		switch r.IntN(9) {
		case 0:
			text[at] = byte(r.IntN(256))
		case 1:
			text = append(text[:at], text[min(at+1+r.IntN(8), len(text)):]...)
		case 2:
			text = splice(text, at, []byte(pieces[r.IntN(len(pieces))]+" "))
		case 3, 4:
			// Another line of some plan in place of, or before, a line of this one.
			other := strings.Split(string(all[r.IntN(len(all))]), "\n")
			lines := strings.Split(string(text), "\n")
			i := r.IntN(len(lines))
			line := other[r.IntN(len(other))]
			if r.IntN(2) == 0 {
				lines[i] = line
			} else {
				lines = append(lines[:i], append([]string{line}, lines[i:]...)...)
			}
			text = []byte(strings.Join(lines, "\n"))
		case 5:
			lines := strings.Split(string(text), "\n")
			i := r.IntN(len(lines))
			text = []byte(strings.Join(append(lines[:i], lines[i+1:]...), "\n"))
		case 6, 7:
			// A word for another.
			words := strings.FieldsFunc(string(text), func(c rune) bool { return strings.ContainsRune(" \n,{}[]", c) })
			if len(words) > 1 {
				text = []byte(strings.Replace(string(text), words[r.IntN(len(words))], words[r.IntN(len(words))], 1+r.IntN(2)))
			}
		case 8:
			text = append(text, text[at:]...)
		}
	}
	return text
}

func splice(text []byte, at int, piece []byte) []byte {
	return append(text[:at:at], append(piece, text[at:]...)...)
}

// TestMutated pushes thousands of random and mutated plans through the compiler: it
// never panics or hangs, and its memory is bounded by the size of its input.
func TestMutated(t *testing.T) {
	total := cases(4_000)
	if *soak {
		total = 50_000
	}
	all := seeds(t)
	cat := testCatalog(t)
	r := rand.New(rand.NewPCG(20, 26+*firstSeed))
	compiled := 0
	var before, after runtime.MemStats
	for i := range total {
		var text []byte
		if i%10 == 0 {
			text = []byte(randomPlan(r))
		} else {
			text = mutate(r, all)
		}
		checked := i%100 == 0
		if checked {
			runtime.ReadMemStats(&before)
		}
		p, ds := Compile(Source{Name: "fuzz.yaml", Text: text}, cat, nil)
		if checked {
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20+4000*len(text)), "%q", text)
		}
		checkResult(t, text, p, ds)
		if p != nil {
			compiled++
		}
	}
	t.Logf("%d of %d compile", compiled, total)
	require.Greater(t, compiled, total/50)
}
