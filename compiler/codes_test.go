package compiler

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/policy"
)

// codeDoc is the comment of a code.
type codeDoc struct {
	code diag.Code
	// group is the comment of the codes that it stands with.
	group   string
	meaning string
	// example is "" for the codes of a configuration.
	example string
}

// documented reads the codes of package diag with the examples in their
// comments, in the order of the file.
func documented(t *testing.T, file string) []codeDoc {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	require.NoError(t, err)
	var out []codeDoc
	for _, decl := range parsed.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			if len(value.Values) == 0 {
				continue
			}
			code, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			name := value.Names[0].Name
			meaning, example, shown := strings.Cut(value.Doc.Text(), "Example:\n")
			require.True(t, strings.HasPrefix(meaning, name+": "), "the comment of %s starts with its name", name)
			meaning = strings.Join(strings.Fields(strings.TrimPrefix(meaning, name+": ")), " ")
			require.Equal(t, strings.HasPrefix(code, "config/"), !shown, "%s and its example", code)
			var lines []string
			for line := range strings.SplitSeq(example, "\n") {
				lines = append(lines, strings.TrimPrefix(line, "\t"))
			}
			doc := codeDoc{code: diag.Code(code), group: strings.TrimSpace(group.Doc.Text()), meaning: strings.ToUpper(meaning[:1]) + meaning[1:]}
			if shown {
				doc.example = strings.TrimSpace(strings.Join(lines, "\n")) + "\n"
			}
			out = append(out, doc)
		}
	}
	require.NotEmpty(t, out)
	return out
}

// codes are those that the compiler reports.
func codes(t *testing.T) []codeDoc {
	t.Helper()
	return documented(t, "../diag/codes.go")
}

// completed adds behind an example the top-level keys that it leaves out, so that
// the lines of the example keep their numbers. One with a name has no agent but its own.
func completed(example string) string {
	return completedBy(example,
		"apiVersion: chimera/v1", "kind: Plan", "agent: agent-42", "name: example", "version: 1.0.0",
		"input_schema: {type: object}", "output_schema: {type: object}", "nodes: [{id: only, template: engine/pass}]")
}

// completedModel is [completed] for an example of a causal model.
func completedModel(example string) string {
	return completedBy(example, "apiVersion: chimera/v1", "kind: CausalModel", "name: example", "operations: [files/write_file]",
		"bind: {length: size(args.text)}", "kpis: {size: {max: 20000}}")
}

func completedBy(example string, lines ...string) string {
	b := strings.Builder{}
	b.WriteString(example)
	for _, line := range lines {
		key, _, _ := strings.Cut(line, ":")
		if key == "agent" && strings.HasPrefix(example, "name:") {
			continue
		}
		if !strings.HasPrefix(example, key+":") && !strings.Contains(example, "\n"+key+":") {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// found is what is found in a plan: by the compiler, and in one that compiles by the gate of the policy.
func found(src Source, cat *catalog.Catalog, pol *policy.Bundle) diag.Diagnostics {
	p, ds := Compile(src, cat, pol)
	if p == nil {
		return ds
	}
	return append(ds, guardian.Foresee(pol, cat, p, src)...)
}

// ofModel reports whether a code is about causal models, which are no plans.
func (c *codeDoc) ofModel() bool { return strings.HasPrefix(string(c.code), "model/") }

// shown is the example of a code in a whole file, and what is found in that.
func (c *codeDoc) shown(t *testing.T, name string) (Source, diag.Diagnostics) {
	t.Helper()
	if c.ofModel() {
		src := Source{Name: name, Text: []byte(completedModel(c.example))}
		_, ds := causal.Parse(src)
		return src, ds
	}
	src := Source{Name: name, Text: []byte(completed(c.example))}
	return src, found(src, testCatalog(t), testPolicy(t))
}

// TestCodeExamples: the example in the comment of a code is reported with that
// code and no other, but for what cannot run yet.
func TestCodeExamples(t *testing.T) {
	for _, c := range codes(t) {
		t.Run(string(c.code), func(t *testing.T) {
			src, ds := c.shown(t, "example.yaml")
			seen := false
			for _, d := range ds {
				seen = seen || d.Code == c.code
				if d.Code != diag.PlanNotSupported {
					require.Equal(t, c.code, d.Code, "%s\n%s", src.Text, show(ds))
				}
			}
			require.True(t, seen, "%s\n%s", src.Text, show(ds))
		})
	}
}

// TestEveryCode: every code that the compiler reports is in a test file.
func TestEveryCode(t *testing.T) {
	shown := map[diag.Code]bool{}
	files, err := filepath.Glob("testdata/*/*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, e := range expectations(t, text) {
			shown[e.code] = true
		}
	}
	for _, c := range codes(t) {
		if c.code == diag.EffectRefused || c.ofModel() {
			continue // package guardian reports it, or package causal
		}
		require.True(t, shown[c.code], "no test file with %s", c.code)
	}
}

// TestDiagnosticsPage: docs/diagnostics.md is what the comments of the codes and
// the compiler itself say.
func TestDiagnosticsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString(diagnosticsHead)
	group := ""
	for _, c := range codes(t) {
		if c.group != group {
			group = c.group
			title := strings.TrimSuffix(strings.TrimPrefix(group, "Codes of "), ".")
			fmt.Fprintf(&b, "\n## %s\n", strings.ToUpper(title[:1])+title[1:])
		}
		name := "plan.yaml"
		if c.ofModel() {
			name = "model.yaml"
		}
		src, ds := c.shown(t, name)
		shown := slices.DeleteFunc(ds, func(d diag.Diagnostic) bool { return d.Code != c.code })
		var out strings.Builder
		catalog, err := os.ReadFile("testdata/catalog.yaml")
		require.NoError(t, err)
		require.NoError(t, shown.WriteText(&out, map[string][]byte{src.Name: src.Text, "catalog.yaml": catalog}, false))
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n```yaml part\n%s```\n\n```text\n%s```\n", c.code, filled(c.meaning), c.example, out.String())
	}
	b.WriteString("\n## Chimera.yaml and its environment\n\n| code | meaning |\n|---|---|\n")
	for _, c := range documented(t, "../diag/config.go") {
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.code, c.meaning)
	}
	catalog, err := os.ReadFile("testdata/catalog.yaml")
	require.NoError(t, err)
	policy, err := os.ReadFile("testdata/policy.yaml")
	require.NoError(t, err)
	fmt.Fprintf(&b, "%s```yaml catalog\n%s```\n\nThe operator's policy bundle that they are compiled with:\n\n```yaml part\n%s```\n", diagnosticsFoot, catalog, policy)
	const page = "../docs/diagnostics.md"
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(b.String()), 0o644))
	}
	got, err := os.ReadFile(page)
	require.NoError(t, err)
	if d := cmp.Diff(string(got), b.String()); d != "" {
		t.Errorf("run go test ./compiler -run TestDiagnosticsPage -update (-page +comments):\n%s", d)
	}
}

// filled breaks a paragraph into lines.
func filled(s string) string {
	const width = 80
	var b strings.Builder
	used := 0
	for word := range strings.FieldsSeq(s) {
		n := utf8.RuneCountInString(word)
		switch {
		case used > 0 && used+1+n > width:
			b.WriteByte('\n')
			used = 0
		case used > 0:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}

const diagnosticsHead = `<!-- Written by the compiler's tests from the comments in diag/codes.go. -->
# Diagnostics

Every finding has a code. Codes are stable: tools may depend on them, and a code
never comes to mean something else. An error forbids the plan; a warning informs.

Each code has an example here with what the compiler prints for it. The first line
says where, how severe, which code, and what. Then come the lines of the file: ^
stands under what is wrong, - under what it has to do with, which may be in another
file. Behind that come the reason and, where there are some, a counterexample and
a suggestion. With --format json the same is an object of code, severity,
summary, detail, file, line, column, end_line, end_column, node, edge, witness (the
counterexample), suggestion, edits and applicability. [Editors](editors.md#edits-for-programs)
says what programs may do with the last two.

A counterexample is a value that was tried: the validator that checks values at
run time accepts it on one side and refuses it on the other. Where an edge has a
transform, the value is shown before and after it.

An example is a part of a plan, or of a [causal model](reference-causal.md). The
top-level keys that it leaves out are those of one without a fault. Operations are
those of the [catalog at the end](#the-catalog-of-the-examples).
`

const diagnosticsFoot = `
## The catalog of the examples

`
