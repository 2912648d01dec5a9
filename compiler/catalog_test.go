package compiler

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/plan"
)

func TestParseCatalog(t *testing.T) {
	text, err := os.ReadFile("testdata/catalog.yaml")
	require.NoError(t, err)
	cat, ds := ParseCatalog(Source{Name: "catalog.yaml", Text: text})
	require.Empty(t, show(ds))
	byName := map[string]Template{}
	for _, x := range cat.Templates {
		byName[x.Name()] = x
	}
	write := byName["files/write_file"]
	require.Equal(t, "write_file", subject(text, write.Range))
	require.Equal(t, "{type: object}", subject(text, write.OutputAt))
	require.Contains(t, subject(text, write.InputAt), "required: [path, text]")
	write.Range, write.InputAt, write.OutputAt = diag.Range{}, diag.Range{}, diag.Range{}
	require.Equal(t, Template{
		ProviderType: plan.MCP, Provider: "files", Operation: "write_file", Mode: plan.Deter, Effect: plan.Committing,
		InputSchema:  []byte(`{"properties":{"key":{"type":"string"},"path":{"type":"string"},"text":{"type":"string"}},"required":["path","text"],"type":"object"}`),
		OutputSchema: []byte(`{"type":"object"}`), TimeoutMS: 5000, Trust: plan.ManualReview, Status: plan.AllowAuto,
		Retry:     plan.Retry{MaxAttempts: 1, InitialMS: DefaultInitialMS, MultiplierMilli: DefaultMultiplierMilli, MaxMS: DefaultMaxMS},
		OpenWorld: true, IdempotencyPort: "key", Cost: &Cost{Expr: "1", Currency: "USD"},
	}, write)
	require.True(t, byName["text/count"].InProcess)
	require.False(t, byName["text/draft"].InProcess)
	require.True(t, byName["files/search"].OpenWorld)
	require.False(t, byName["files/search"].EgressAllowed)
	require.Equal(t, &Cost{Expr: "2.5", Currency: "EUR", FromOutput: true}, byName["priced/get"].Cost)
	require.Len(t, byName["pinned/get"].Fingerprint, 71)

	cents := cat.Adapters[0]
	require.Equal(t, "usd/cents", subject(text, cents.Range))
	require.Contains(t, subject(text, cents.InputAt), "required: [dollars]")
	require.Contains(t, subject(text, cents.OutputAt), "unit: {const: cent}")
	require.Equal(t, `{amount: "${value.dollars * 100}", unit: cent}`, subject(text, cents.TransformAt))
	cents.Range, cents.InputAt, cents.OutputAt, cents.TransformAt = diag.Range{}, diag.Range{}, diag.Range{}, diag.Range{}
	require.Equal(t, Adapter{
		ID: "usd/cents", Description: "An amount in dollars as whole cents.",
		InputSchema:  []byte(`{"properties":{"dollars":{"maximum":1000000,"minimum":0,"type":"integer"}},"required":["dollars"],"type":"object"}`),
		OutputSchema: []byte(`{"additionalProperties":false,"properties":{"amount":{"minimum":0,"type":"integer"},"unit":{"const":"cent"}},"required":["amount","unit"],"type":"object"}`),
		Transform:    []byte(`{"amount":"${value.dollars * 100}","unit":"cent"}`),
	}, cents)
}

// TestMergeAdapters: an adapter that stands in both is reported at the second.
func TestMergeAdapters(t *testing.T) {
	at := diag.Range{File: "c.yaml", Start: diag.Pos{Line: 3, Column: 1}, End: diag.Pos{Line: 3, Column: 2}}
	first := &Catalog{Adapters: []Adapter{{ID: "a"}}}
	merged, ds := first.Merge(&Catalog{Adapters: []Adapter{{ID: "a", Range: at}, {ID: "b", Range: at}}})
	require.Len(t, ds, 1)
	require.Equal(t, diag.PlanDuplicateID, ds[0].Code)
	require.Equal(t, at, ds[0].Subject)
	require.Contains(t, ds[0].Detail, "built in")
	require.Equal(t, []Adapter{{ID: "a"}, {ID: "b", Range: at}}, merged.Adapters)
	require.Len(t, first.Adapters, 1, "the receiver does not change")
}

func TestMerge(t *testing.T) {
	at := func(line int) diag.Range {
		return diag.Range{File: "c.yaml", Start: diag.Pos{Line: line, Column: 1}, End: diag.Pos{Line: line, Column: 2}}
	}
	skill := Template{ProviderType: plan.Skill, Provider: "a", Operation: "x", Mode: plan.Deter}
	file := &Catalog{Templates: []Template{
		{ProviderType: plan.Skill, Provider: "a", Operation: "x", Mode: plan.Prob, Range: at(3)},
		{ProviderType: plan.MCP, Provider: "a", Operation: "y", Range: at(4)},
		{ProviderType: plan.MCP, Provider: "b", Operation: "y", Range: at(5)},
	}}
	code := &Catalog{Templates: []Template{skill}}

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

	for _, c := range []*Catalog{nil, {}} {
		merged, ds = c.Merge(nil)
		require.Empty(t, ds)
		require.Empty(t, merged.Templates)
		merged, ds = c.Merge(code)
		require.Empty(t, ds)
		require.Equal(t, code.Templates, merged.Templates)
	}
}
