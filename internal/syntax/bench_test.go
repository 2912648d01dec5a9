package syntax

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bigPlan is a plan of n nodes and n edges, over 500 bytes each.
func bigPlan(n int) []byte {
	var b strings.Builder
	b.WriteString("apiVersion: chimera/v1\nkind: Plan\nname: big\nversion: 1.0.0\nnodes:\n")
	for i := range n {
		fmt.Fprintf(&b, `  - id: n%d
    provider_type: skill
    provider_name: engine
    operation: pass
    mode: deter
    effect_class: pure
    input_schema: {type: object, properties: {a: {type: string}, b: {type: integer}}, required: [a, b]}
    output_schema: {type: object, properties: {a: {type: string}, b: {type: integer}}, required: [a]}
    timeout_ms: 1000
    retry_policy: {max_retries: 3, initial_ms: 100}
    trust_requirement: allow_auto
    description: "a text that is as long as most are"   # comment
`, i)
	}
	b.WriteString("edges:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - n%d.a -> n%d.b\n", i, i+1)
	}
	return []byte(b.String())
}

func BenchmarkParse(b *testing.B) {
	src := bigPlan(10_000)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		docs, diags := Parse("plan.yaml", src, Limits{})
		require.Empty(b, diags)
		require.Len(b, docs, 1)
	}
}
