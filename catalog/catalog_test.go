package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/plan"
)

// TestMergeAdapters: an adapter that stands in both is reported at the second.
func TestMergeAdapters(t *testing.T) {
	at := diag.Range{File: "c.yaml", Start: diag.Pos{Line: 3, Column: 1}, End: diag.Pos{Line: 3, Column: 2}}
	first := &catalog.Catalog{Adapters: []catalog.Adapter{{ID: "a"}}}
	merged, ds := first.Merge(&catalog.Catalog{Adapters: []catalog.Adapter{{ID: "a", Range: at}, {ID: "b", Range: at}}})
	require.Len(t, ds, 1)
	require.Equal(t, diag.PlanDuplicateID, ds[0].Code)
	require.Equal(t, at, ds[0].Subject)
	require.Contains(t, ds[0].Detail, "built in")
	require.Equal(t, []catalog.Adapter{{ID: "a"}, {ID: "b", Range: at}}, merged.Adapters)
	require.Len(t, first.Adapters, 1, "the receiver does not change")
}

func TestMerge(t *testing.T) {
	at := func(line int) diag.Range {
		return diag.Range{File: "c.yaml", Start: diag.Pos{Line: line, Column: 1}, End: diag.Pos{Line: line, Column: 2}}
	}
	skill := catalog.Template{ProviderType: plan.Skill, Provider: "a", Operation: "x", Mode: plan.Deter}
	file := &catalog.Catalog{Templates: []catalog.Template{
		{ProviderType: plan.Skill, Provider: "a", Operation: "x", Mode: plan.Prob, Range: at(3)},
		{ProviderType: plan.MCP, Provider: "a", Operation: "y", Range: at(4)},
		{ProviderType: plan.MCP, Provider: "b", Operation: "y", Range: at(5)},
	}}
	code := &catalog.Catalog{Templates: []catalog.Template{skill}}

	merged, ds := code.Merge(file)
	require.Len(t, merged.Templates, 2)
	require.Equal(t, skill, merged.Templates[0], "the first one stays")
	require.Equal(t, "b/y", merged.Templates[1].Name())
	require.Len(t, ds, 2)
	require.Equal(t, diag.PlanDuplicateID, ds[0].Code)
	require.Equal(t, at(3), ds[0].Subject)
	require.Contains(t, ds[0].Detail, "built in")
	require.Equal(t, diag.PlanSchema, ds[1].Code)
	require.Equal(t, at(4), ds[1].Subject)
	require.Len(t, code.Templates, 1, "the receiver does not change")

	_, ds = file.Merge(code)
	require.Len(t, ds, 1)
	require.Contains(t, ds[0].Detail, "c.yaml, line 3")

	for _, c := range []*catalog.Catalog{nil, {}} {
		merged, ds = c.Merge(nil)
		require.Empty(t, ds)
		require.Empty(t, merged.Templates)
		merged, ds = c.Merge(code)
		require.Empty(t, ds)
		require.Equal(t, code.Templates, merged.Templates)
	}
}
