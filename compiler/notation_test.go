package compiler

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/plangen"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

var notations = flag.Int("notations", 0, "the number of generated plans that are written in other notations; 0 chooses")

var lineNumber = regexp.MustCompile(`line \d+`)

// said is what the compiler says of a plan, apart from where.
func said(t *testing.T, src Source, cat *catalog.Catalog, pol *policy.Bundle) (digest string, findings []string) {
	t.Helper()
	p, ds := Check(src, cat, pol)
	if p != nil {
		encoded, err := p.Encode()
		require.NoError(t, err)
		digest = plan.DigestOf(encoded)
	}
	for _, d := range ds {
		findings = append(findings, lineNumber.ReplaceAllString(strings.Join([]string{string(d.Severity), string(d.Code), d.Summary, d.Detail, d.Node, d.Edge, d.Witness, d.Suggestion}, "|"), "line"))
	}
	return digest, findings
}

// sameInEveryNotation checks that a plan means the same when it is shortened, and when that is
// expanded.
func sameInEveryNotation(t *testing.T, src Source, cat *catalog.Catalog, pol *policy.Bundle) (short, long []byte) {
	t.Helper()
	digest, _ := said(t, src, cat, pol)
	short, ds, err := Shorten(src, cat, pol)
	require.NoError(t, err, "%s", src.Text)
	if short == nil {
		require.True(t, ds.HasErrors())
		return nil, nil
	}
	long, ds, err = Expand(Source{Name: src.Name, Text: short}, cat, pol)
	require.NoError(t, err, "%s", short)
	require.NotNil(t, long, "%s\n%s", short, ds)
	of, _ := said(t, Source{Name: src.Name, Text: short}, cat, pol)
	require.Equal(t, digest, of, "%s\n---\n%s", src.Text, short)
	of, again := said(t, Source{Name: src.Name, Text: long}, cat, pol)
	require.Equal(t, digest, of, "%s\n---\n%s", short, long)
	direct, _, err := Expand(src, cat, pol)
	require.NoError(t, err)
	_, findings := said(t, Source{Name: src.Name, Text: direct}, cat, pol)
	if slices.ContainsFunc(findings, func(f string) bool { return strings.Contains(f, "plan/syntax") }) {
		return short, long // how a text is written is what is wrong
	}
	require.ElementsMatch(t, findings, again, "%s\n---\n%s\n---\n%s", src.Text, short, long)
	return short, long
}

// asYAML writes a plan in JSON as YAML, node by node and edge by edge.
func asYAML(t *testing.T, text []byte) []byte {
	t.Helper()
	var doc yaml.Node
	require.NoError(t, yaml.Unmarshal(text, &doc))
	var block func(n *yaml.Node, depth int)
	block = func(n *yaml.Node, depth int) {
		if n.Style &= yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle; depth > 3 && n.Kind != yaml.ScalarNode {
			n.Style = yaml.FlowStyle
		}
		for _, c := range n.Content {
			block(c, depth+1)
		}
	}
	block(&doc, 0)
	out, err := yaml.Marshal(&doc)
	require.NoError(t, err)
	return out
}

// Generated plans mean the same in every notation.
func TestGeneratedNotations(t *testing.T) {
	n := *notations
	switch {
	case n > 0:
	case testing.Short():
		n = 20
	default:
		n = 2000
	}
	shorter := 0
	for seed := range n {
		c := plangen.Random(uint64(seed), seed%101)
		cat := drawnCatalog(t, c)
		short, long := sameInEveryNotation(t, Source{Name: "random.json", Text: c.Source}, cat, nil)
		if len(short) < len(long)*9/10 {
			shorter++
		}
		sameInEveryNotation(t, Source{Name: "random.yaml", Text: asYAML(t, c.Source)}, cat, nil)
	}
	require.Greater(t, shorter, n/2)
}

// So do the plans of all other tests.
func TestNotationsOfTestFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.yaml")
	require.NoError(t, err)
	cat := testCatalog(t)
	text, err := os.ReadFile("testdata/policy.yaml")
	require.NoError(t, err)
	bundle, ds := policy.Parse(Source{Name: "policy.yaml", Text: text})
	require.Empty(t, ds)
	for _, file := range files {
		if dir := filepath.Base(filepath.Dir(file)); dir == "catalogs" || dir == "policies" || dir == "drafts" {
			continue
		}
		t.Run(fmt.Sprint(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			sameInEveryNotation(t, Source{Name: file, Text: text}, cat, bundle)
		})
	}
}

// A plan in its long notation comes back short: every form but the node that gathers what a
// condition reads.
func TestComesBackShort(t *testing.T) {
	text, err := os.ReadFile("testdata/short/forms.yaml")
	require.NoError(t, err)
	cat := testCatalog(t)
	long, ds, err := Expand(Source{Name: "forms.yaml", Text: text}, cat, nil)
	require.NoError(t, err)
	require.Empty(t, ds)
	short, ds, err := Shorten(Source{Name: "forms.yaml", Text: long}, cat, nil)
	require.NoError(t, err)
	require.Empty(t, ds)
	_, edges, _ := strings.Cut(string(short), "\nedges:\n")
	require.Equal(t, 3, strings.Count(edges, "\n"), "%s", short)
	require.Contains(t, string(short), `say: "${nodes.long.say ?? nodes.short.say ?? 'none'}"`)
	require.Contains(t, string(short), `all: {pair: "${nodes.output-inputs.pair}", path: "${nodes.output-inputs.read_text} of ${input.path}"}`)
	require.NotContains(t, string(short), "from_node")
}

// Comments are kept, or reported as lost.
func TestComments(t *testing.T) {
	const text = `# first
apiVersion: chimera/v1
kind: Plan
name: p
version: 1.0.0
input_schema: {type: object} # of "# input"
output_schema: {type: object}
nodes: # the nodes
  # before a
  - id: a # the id
    template: text/draft # the template
    with: {prompt: "a # no comment"} # the entries
  - id: b
    template: text/draft
    with:
      # within
      prompt: "one # of ${nodes.a.text}" # the prompt
    # before after
    after: a # after
output: # the output
  o: "${nodes.a.text}" # o
# last
`
	src := Source{Name: "plan.yaml", Text: []byte(text)}
	long, ds, err := Expand(src, testCatalog(t), nil)
	require.NoError(t, err)
	require.Len(t, ds, 1)
	require.Equal(t, "5 comments are lost", ds[0].Summary)
	require.Equal(t, 16, ds[0].Subject.Start.Line)
	require.Contains(t, ds[0].Detail, "lines 16, 17, 19, 20, 21.")
	for _, kept := range []string{"# first\n", ` # of "# input"`, " # the nodes\n", "  # before a\n", "id: a # the id\n", " # the template\n", " # the entries\n", "# before after\n", "\n# last\n"} {
		require.Contains(t, string(long), kept)
	}
	_, ds, err = Shorten(Source{Name: "plan.yaml", Text: long}, testCatalog(t), nil)
	require.NoError(t, err)
	require.Empty(t, ds, "comments of the long notation are not the author's")
}
