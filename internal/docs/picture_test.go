package docs

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/graph"
	"chimera.ai/engine/policy"
)

var update = flag.Bool("update", false, "rewrite pictures")

// TestPicture: the picture that the documents show is that of the plan beside it.
func TestPicture(t *testing.T) {
	const dir = "../../docs/picture"
	file := func(name string) compiler.Source {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return compiler.Source{Name: name, Text: text}
	}
	own, ds := compiler.ParseCatalog(file("catalog.yaml"))
	require.Empty(t, ds)
	cat, ds := operations(t).Merge(own)
	require.Empty(t, ds)
	part, ds := policy.Parse(file("policy.yaml"))
	require.Empty(t, ds)
	pol, ds := policy.Merge(part)
	require.Empty(t, ds)
	p, ds := compiler.Check(file("plan.yaml"), cat, pol)
	require.Empty(t, ds)
	drawn, err := graph.Render(p, graph.SVG)
	require.NoError(t, err)
	picture := filepath.Join(dir, "plan.svg")
	if *update {
		require.NoError(t, os.WriteFile(picture, drawn, 0o644))
	}
	want, err := os.ReadFile(picture)
	require.NoError(t, err)
	require.Equal(t, string(want), string(drawn), "go test ./internal/docs -run Picture -update")
}
