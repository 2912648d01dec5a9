package compiler

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
)

// unproved are the codes that wait for proofs and fingerprints.
// A code leaves this list when the compiler reports it.
var unproved = map[diag.Code]bool{
	diag.TypeNotContained: true,
	diag.TypeExprMayFail:  true,
}

// documented reads the codes of package diag with the examples in their
// comments.
func documented(t *testing.T) map[diag.Code]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../diag/codes.go", nil, parser.ParseComments)
	require.NoError(t, err)
	out := map[diag.Code]string{}
	for _, decl := range file.Decls {
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
			switch prefix, _, _ := strings.Cut(code, "/"); prefix {
			case "plan", "type", "effect", "trust":
			default:
				continue
			}
			_, example, ok := strings.Cut(value.Doc.Text(), "Example:\n")
			require.True(t, ok, "%s has no example", code)
			var lines []string
			for line := range strings.SplitSeq(example, "\n") {
				lines = append(lines, strings.TrimPrefix(line, "\t"))
			}
			out[diag.Code(code)] = strings.TrimSpace(strings.Join(lines, "\n")) + "\n"
		}
	}
	require.NotEmpty(t, out)
	return out
}

// completed adds to an example the top-level keys that it leaves out.
func completed(example string) string {
	var b strings.Builder
	for _, line := range []string{
		"apiVersion: chimera/v1", "kind: Plan", "name: example", "version: 1.0.0", "agent: agent-42",
		"input_schema: {type: object}", "output_schema: {type: object}", "nodes: [{id: only, template: engine/pass}]",
	} {
		key, _, _ := strings.Cut(line, ":")
		if !strings.HasPrefix(example, key+":") && !strings.Contains(example, "\n"+key+":") {
			b.WriteString(line + "\n")
		}
	}
	return b.String() + example
}

// TestCodeExamples: the example in the comment of a code is reported with that
// code.
func TestCodeExamples(t *testing.T) {
	for code, example := range documented(t) {
		t.Run(string(code), func(t *testing.T) {
			_, ds := Compile(Source{Name: "example.yaml", Text: []byte(completed(example))}, testCatalog(t), nil)
			found := false
			for _, d := range ds {
				found = found || d.Code == code
			}
			require.Equal(t, !unproved[code], found, "%s\n%s", completed(example), show(ds))
		})
	}
}

// TestEveryCode: every code that the compiler reports stands in a test file.
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
	for code := range documented(t) {
		require.True(t, shown[code] || unproved[code], "no test file with %s", code)
	}
}
