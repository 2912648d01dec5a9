package compiler

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
)

// draftCatalog is the built-in operations and those that the drafts call.
func draftCatalog(t *testing.T) *catalog.Catalog {
	t.Helper()
	text, err := os.ReadFile("testdata/drafts/operations/catalog.yaml")
	require.NoError(t, err)
	own, ds := ParseCatalog(Source{Name: "catalog.yaml", Text: text})
	require.False(t, ds.HasErrors(), show(ds))
	object := []byte(`{"type":"object"}`)
	engine := engineCatalog()
	sleep := engine.Templates[1]
	sleep.Operation, sleep.InputSchema, sleep.OutputSchema = "sleep",
		[]byte(`{"type":"object","properties":{"ms":{"type":"integer","minimum":0}},"required":["ms"],"additionalProperties":false}`),
		[]byte(`{"type":"object","properties":{"slept_ms":{"type":"integer"}},"required":["slept_ms"]}`)
	engine.Templates[1].InputSchema, engine.Templates[1].OutputSchema = object, object
	engine.Templates = append(engine.Templates, sleep)
	all, ds := own.Merge(engine)
	require.Empty(t, ds)
	return all
}

// Drafts of plans as language models write them, with the words of other engines, get findings
// that name the right form. Where that is certain there is an edit; a draft with nothing but
// certain slips compiles once they are made.
func TestDrafts(t *testing.T) {
	cat := draftCatalog(t)
	index, err := os.ReadFile("testdata/drafts/index.tsv")
	require.NoError(t, err)
	named := map[string]bool{}
	for entry := range strings.Lines(string(index)) {
		columns := strings.Split(strings.TrimSpace(entry), "\t")
		file, right := columns[0], columns[1]
		named[file] = true
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata/drafts/plans", file))
			require.NoError(t, err)
			src := Source{Name: file, Text: text}
			_, ds := Compile(src, cat, nil)
			at := slices.IndexFunc(ds, func(d diag.Diagnostic) bool {
				return strings.Contains(strings.ReplaceAll(d.Suggestion, `\"`, `"`)+"\n"+d.Detail, right) &&
					(!slices.Contains(columns, "edit") || d.Applicability == diag.Certain)
			})
			require.GreaterOrEqual(t, at, 0, "no finding names %s\n%s", right, show(ds))
			for made := 0; ; made++ {
				require.Less(t, made, 50)
				_, ds = Compile(src, cat, nil)
				at := slices.IndexFunc(ds, func(d diag.Diagnostic) bool { return d.Applicability == diag.Certain })
				if at < 0 {
					break
				}
				src.Text = edited(t, src.Text, ds[at].Edits)
			}
			if slices.Contains(columns, "compiles") {
				require.False(t, ds.HasErrors(), "%s\n%s", src.Text, show(ds))
			}
		})
	}
	files, err := os.ReadDir("testdata/drafts/plans")
	require.NoError(t, err)
	require.Len(t, files, 40)
	for _, f := range files {
		require.True(t, named[f.Name()], f.Name())
	}
}
