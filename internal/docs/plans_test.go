package docs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/schemas"
	"chimera.ai/engine/skills"
)

// catalogComment names a catalog file that the plans of a document use.
var catalogComment = regexp.MustCompile(`(?m)^<!-- catalog (\S+) -->$`)

// TestPlans compiles each block "yaml plan" of a document with the catalogs that the same
// document shows, or names in a comment. "yaml plan CODE…" must give exactly these findings, a
// plain one none.
func TestPlans(t *testing.T) {
	plans := 0
	for _, doc := range documents(t) {
		cat := operations(t)
		add := func(src compiler.Source, line int) {
			more, ds := compiler.ParseCatalog(src)
			require.Empty(t, ds, "%s:%d", doc, line)
			merged, ds := cat.Merge(more)
			require.Empty(t, ds, "%s:%d", doc, line)
			cat = merged
		}
		text := read(t, doc)
		list := blocks(text)
		for _, b := range list {
			if b.info == "yaml catalog" {
				add(source(doc, b), b.line)
			}
		}
		for _, m := range catalogComment.FindAllStringSubmatch(text, -1) {
			name := filepath.Join(filepath.Dir(doc), m[1])
			add(compiler.Source{Name: name, Text: []byte(read(t, name))}, 0)
		}
		for _, b := range list {
			want, isPlan := strings.CutPrefix(b.info, "yaml plan")
			if !isPlan {
				continue
			}
			plans++
			t.Run(fmt.Sprintf("%s:%d", doc, b.line), func(t *testing.T) {
				p, ds := compiler.Compile(source(doc, b), cat, nil)
				codes := []string{}
				for _, d := range ds {
					codes = append(codes, string(d.Code))
				}
				require.Equal(t, strings.Fields(want), codes, "%s", report(b, ds))
				require.Equal(t, !ds.HasErrors(), p != nil)
			})
		}
	}
	require.GreaterOrEqual(t, plans, 5)
}

func source(doc string, b block) compiler.Source {
	return compiler.Source{Name: doc, Text: []byte(b.text)}
}

// report writes findings with their lines in the document.
func report(b block, ds diag.Diagnostics) string {
	var out strings.Builder
	for _, d := range ds {
		fmt.Fprintf(&out, "line %d: %s: %s. %s\n", b.line-1+d.Subject.Start.Line, d.Code, d.Summary, d.Detail)
	}
	return out.String()
}

const planPage = "docs/reference-plan.md"

// TestFields: the tables of fields name those of the schemas for editors, in any
// order, and which of them are required.
func TestFields(t *testing.T) {
	for _, c := range []struct{ page, schema, of string }{
		{planPage, "plan", "plan"}, {planPage, "plan", "node"}, {planPage, "plan", "edge"},
		{"docs/reference-catalog.md", "catalog", "template"}, {"docs/reference-catalog.md", "catalog", "adapter"},
		{"docs/reference-policy.md", "policy", "policy"},
		{causalPage, "causal", "causal"}, {causalPage, "causal", "variable"}, {causalPage, "causal", "noise"}, {causalPage, "causal", "kpi"}, {causalPage, "causal", "fit"},
	} {
		of := c.of
		raw, ok := schemas.Named(c.schema)
		require.True(t, ok)
		decoded, err := schemas.Decode(raw)
		require.NoError(t, err)
		properties, required := fields(t, decoded, of)
		said := map[string]bool{}
		for _, row := range rows(t, read(t, c.page), "<!-- fields of "+of+" -->") {
			said[strings.Trim(row[0], "`")] = row[1] == "yes"
		}
		for _, name := range properties {
			require.Contains(t, said, name, "field of a %s", of)
			require.Equal(t, slices.Contains(required, name), said[name], "%s of a %s is required", name, of)
		}
		require.Len(t, said, len(properties), "fields of a %s", of)
	}
}

// fields finds the object schema that describes a plan, a node or the like by two
// of its fields.
func fields(t *testing.T, schema any, of string) (properties, required []string) {
	t.Helper()
	marks := map[string][2]string{"plan": {"nodes", "edges"}, "node": {"operation", "effect_class"}, "edge": {"from_node", "to_node"},
		"template": {"operation", "status"}, "adapter": {"id", "transform"}, "policy": {"allow", "rules"},
		"causal": {"bind", "kpis"}, "variable": {"parents", "provenance"}, "noise": {"normal", "bernoulli"}, "kpi": {"allow", "unit"}, "fit": {"digest", "held_out"}}[of]
	var found map[string]any
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if p, ok := v["properties"].(map[string]any); ok && p[marks[0]] != nil && p[marks[1]] != nil {
				found = v
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(schema)
	require.NotNil(t, found, "the schema has no %s", of)
	for name := range found["properties"].(map[string]any) {
		properties = append(properties, name)
	}
	list, _ := found["required"].([]any)
	for _, name := range list {
		required = append(required, name.(string))
	}
	return properties, required
}

// TestPolicies: a block "yaml policy" is a policy bundle without a finding.
func TestPolicies(t *testing.T) {
	seen := 0
	for _, doc := range documents(t) {
		for _, b := range blocks(read(t, doc)) {
			if b.info == "yaml policy" {
				seen++
				_, ds := policy.Parse(source(doc, b))
				require.Empty(t, ds, "%s:%d", doc, b.line)
			}
		}
	}
	require.NotZero(t, seen)
}

func TestEngineSkills(t *testing.T) {
	var said []string
	for _, row := range rows(t, read(t, planPage), "<!-- skills of the engine -->") {
		said = append(said, strings.Trim(row[0], "`"))
	}
	var have []string
	for _, s := range skills.Builtin() {
		have = append(have, s.Provider+"/"+s.Operation)
	}
	require.Equal(t, have, said)
}

func TestLimits(t *testing.T) {
	want := map[string]int64{
		"nodes of a plan": lint.MaxNodes, "edges of a plan": lint.MaxEdges, "plans in a file": lint.MaxDocuments,
		"`timeout_ms`": catalog.MaxTimeoutMS, "`deadline_ms`": lint.MaxDeadlineMS, "`max_parallel`": lint.MaxParallel,
		"`max_retries`": catalog.MaxRetries, "`multiplier`": catalog.MaxMultiplier,
		"conditions checked exactly for `$output`": lint.MaxAtoms,
	}
	said := map[string]int64{}
	for _, row := range rows(t, read(t, planPage), "<!-- limits -->") {
		n, err := strconv.ParseInt(strings.ReplaceAll(row[1], ",", ""), 10, 64)
		require.NoError(t, err)
		said[row[0]] = n
	}
	require.Equal(t, want, said)
	page := read(t, planPage)
	require.Contains(t, page, fmt.Sprintf("limits: {max_parallel: %d, deadline_ms: %d}", lint.DefaultParallel, lint.DefaultDeadlineMS))
	retry := fmt.Sprintf("initial_ms: %d, multiplier: %d, max_ms: %d", catalog.DefaultInitialMS, catalog.DefaultMultiplierMilli/1000, catalog.DefaultMaxMS)
	require.Contains(t, page, retry)
	require.Contains(t, read(t, failures), retry)
	require.Equal(t, 1000, lint.LocalTimeoutMS, "the page says: at most a second")
}
