package docs

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
)

const troubleshooting = "docs/troubleshooting.md"

// TestMessages: every message that docs/troubleshooting.md quotes is one of the
// programs'. What it leaves open with … may be any text.
func TestMessages(t *testing.T) {
	texts, codes := messages(t), read(t, "docs/diagnostics.md")
	seen := 0
	page := read(t, troubleshooting)
	for {
		_, rest, more := strings.Cut(page, "<!-- messages -->\n")
		if !more {
			break
		}
		page = rest
		for _, row := range rows(t, "<!-- messages -->\n"+rest, "<!-- messages -->") {
			cell := code.FindAllStringSubmatch(row[0], -1)
			require.NotEmpty(t, cell, row[0])
			seen++
			require.True(t, slices.ContainsFunc(texts, fixed(cell[0][1]).MatchString), "no program says %q", cell[0][1])
			for _, name := range cell[1:] {
				known := contract.Kind(name[1]).Valid() || strings.Contains(codes, "\n### "+name[1]+"\n")
				require.True(t, known, "%s is neither a code nor a kind", name[1])
			}
		}
	}
	require.Greater(t, seen, 40)
}

// fixed is a pattern of the parts of a message that stand in the code.
func fixed(message string) *regexp.Regexp {
	parts := strings.Split(message, "…")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(strings.TrimSpace(part))
	}
	return regexp.MustCompile("(?s)" + strings.Join(parts, ".*"))
}

// TestStuckReasons: the table of reasons is the closed set.
func TestStuckReasons(t *testing.T) {
	require.ElementsMatch(t, constants(t, "Reason", "client", "stuck.go"), firstCells(t, "<!-- reasons -->"))
}

// TestWaits: the table of what a run waits for is the closed set.
func TestWaits(t *testing.T) {
	require.ElementsMatch(t, constants(t, "WaitKind", "contract", "contract.go"), firstCells(t, "<!-- waits -->"))
}

// constants lists those of a type of texts in a file.
func constants(t *testing.T, name string, path ...string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(append([]string{root}, path...)...), nil, 0)
	require.NoError(t, err)
	var list []string
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			if typ, ok := v.Type.(*ast.Ident); ok && typ.Name == name {
				list = append(list, text(v.Values[0]))
			}
		}
		return true
	})
	require.NotEmpty(t, list)
	return list
}

func firstCells(t *testing.T, mark string) []string {
	t.Helper()
	var list []string
	for _, row := range rows(t, read(t, troubleshooting), mark) {
		list = append(list, strings.Trim(row[0], "`"))
	}
	return list
}

// messages lists the string literals of the programs, sums of them joined.
func messages(t *testing.T) []string {
	t.Helper()
	said := []string{"embedded", "fields", "syntax"} // what is internal is for tests otherwise
	var list []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || filepath.Dir(path) == filepath.Join(root, "internal") && !slices.Contains(said, d.Name())):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			message := text(e)
			if message != "" {
				list = append(list, message)
			}
			return message == ""
		})
		return nil
	}))
	return list
}

// text is what an expression of string literals says; what else is added to them
// stands as nothing. It is empty for other expressions.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			return constant.StringVal(constant.MakeFromLiteral(e.Value, e.Kind, 0))
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return text(e.X) + text(e.Y)
		}
	}
	return ""
}
