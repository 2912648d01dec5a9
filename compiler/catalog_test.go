package compiler

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/plan"
)

func TestParseCatalog(t *testing.T) {
	text, err := os.ReadFile("testdata/catalog.yaml")
	require.NoError(t, err)
	cat, ds := ParseCatalog(Source{Name: "catalog.yaml", Text: text})
	require.Empty(t, show(ds))
	byName := map[string]catalog.Template{}
	for _, x := range cat.Templates {
		byName[x.Name()] = x
	}
	write := byName["files/write_file"]
	require.Equal(t, "write_file", subject(text, write.Range))
	require.Equal(t, "{type: object}", subject(text, write.OutputAt))
	require.Contains(t, subject(text, write.InputAt), "required: [path, text]")
	write.Range, write.InputAt, write.OutputAt = diag.Range{}, diag.Range{}, diag.Range{}
	require.Equal(t, catalog.Template{
		ProviderType: plan.MCP, Provider: "files", Operation: "write_file", Mode: plan.Deter, Effect: plan.Committing,
		InputSchema:  []byte(`{"properties":{"key":{"type":"string"},"path":{"type":"string"},"text":{"type":"string"}},"required":["path","text"],"type":"object"}`),
		OutputSchema: []byte(`{"type":"object"}`), TimeoutMS: 5000, Trust: plan.ManualReview, Status: plan.AllowAuto,
		Retry:     plan.Retry{MaxAttempts: 1, InitialMS: catalog.DefaultInitialMS, MultiplierMilli: catalog.DefaultMultiplierMilli, MaxMS: catalog.DefaultMaxMS},
		OpenWorld: true, IdempotencyPort: "key", Cost: &catalog.Cost{Expr: "1", Currency: "USD"},
	}, write)
	require.True(t, byName["text/count"].InProcess)
	require.False(t, byName["text/draft"].InProcess)
	require.True(t, byName["files/search"].OpenWorld)
	require.False(t, byName["files/search"].EgressAllowed)
	require.Equal(t, &catalog.Cost{Expr: "2.5", Currency: "EUR", FromOutput: true}, byName["priced/get"].Cost)
	require.Len(t, byName["pinned/get"].Fingerprint, 71)

	cents := cat.Adapters[0]
	require.Equal(t, "usd/cents", subject(text, cents.Range))
	require.Contains(t, subject(text, cents.InputAt), "required: [dollars]")
	require.Contains(t, subject(text, cents.OutputAt), "unit: {const: cent}")
	require.Equal(t, `{amount: "${value.dollars * 100}", unit: cent}`, subject(text, cents.TransformAt))
	cents.Range, cents.InputAt, cents.OutputAt, cents.TransformAt = diag.Range{}, diag.Range{}, diag.Range{}, diag.Range{}
	require.Equal(t, catalog.Adapter{
		ID: "usd/cents", Description: "An amount in dollars as whole cents.",
		InputSchema:  []byte(`{"properties":{"dollars":{"maximum":1000000,"minimum":0,"type":"integer"}},"required":["dollars"],"type":"object"}`),
		OutputSchema: []byte(`{"additionalProperties":false,"properties":{"amount":{"minimum":0,"type":"integer"},"unit":{"const":"cent"}},"required":["amount","unit"],"type":"object"}`),
		Transform:    []byte(`{"amount":"${value.dollars * 100}","unit":"cent"}`),
	}, cents)
}

// TestEndpoints: a plan carries where its operations may be called, and what their servers tell models.
// Without those, its bytes are what they were.
func TestEndpoints(t *testing.T) {
	const one, two, three = `"sha256:1111111111111111111111111111111111111111111111111111111111111111"`,
		`"sha256:2222222222222222222222222222222222222222222222222222222222222222"`, `"sha256:3333333333333333333333333333333333333333333333333333333333333333"`
	compile := func(more string) *plan.Plan {
		cat, ds := ParseCatalog(Source{Name: "catalog.yaml", Text: []byte(`apiVersion: chimera/v1
kind: Catalog
templates:
  - {provider_type: mcp, provider_name: files, operation: read, mode: deter, effect_class: pure, input_schema: {type: object}, output_schema: {type: object},
     timeout_ms: 5000, retry_policy: {max_retries: 0}, trust_requirement: allow_auto, status: allow_auto` + more + `}
`)})
		require.Empty(t, show(ds))
		p, ds := Compile(Source{Name: "plan.yaml", Text: []byte(`apiVersion: chimera/v1
kind: Plan
name: reads
version: 1.0.0
input_schema: {type: object, additionalProperties: false}
output_schema: {type: object, properties: {read: {}}}
nodes:
  - {id: read, template: files/read}
output: {read: "${nodes.read}"}
`)}, cat, nil)
		require.Empty(t, show(ds))
		return p
	}
	plain := compile("")
	require.NotContains(t, string(encoded(t, plain)), "endpoints")
	p := compile(", endpoints: [" + two + ", " + one + "], instructions: " + three)
	require.Equal(t, []string{strings.Trim(one, `"`), strings.Trim(two, `"`)}, p.Nodes[1].Endpoints)
	require.Equal(t, strings.Trim(three, `"`), p.Nodes[1].Instructions)
	p.Nodes[1].Endpoints, p.Nodes[1].Instructions = nil, ""
	require.Equal(t, encoded(t, plain), encoded(t, p))
}

func encoded(t *testing.T, p *plan.Plan) []byte {
	t.Helper()
	raw, err := p.Encode()
	require.NoError(t, err)
	return raw
}
