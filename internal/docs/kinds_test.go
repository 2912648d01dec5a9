package docs

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/skills"
)

var failures = filepath.Join("docs", "failure-semantics.md")

// TestKinds: the table of kinds is the closed set, in its order, and its word
// about retry is what the compiler does.
func TestKinds(t *testing.T) {
	byDefault := map[bool][]contract.Kind{}
	for _, prob := range []bool{false, true} {
		byDefault[prob] = retriedByDefault(t, prob)
	}
	var kinds []contract.Kind
	for _, row := range rows(t, read(t, failures), "<!-- table of kinds -->") {
		require.Len(t, row, 4)
		kind := contract.Kind(strings.Trim(row[0], "`"))
		kinds = append(kinds, kind)
		want := map[string][3]bool{ // deter, prob, allowed in `on`
			"yes": {true, true, true}, "once": {true, true, true}, "prob": {false, true, true},
			"on": {false, false, true}, "no": {},
		}
		w, ok := want[row[2]]
		require.True(t, ok, "%s: %q", kind, row[2])
		got := [3]bool{slices.Contains(byDefault[false], kind), slices.Contains(byDefault[true], kind), allowedInOn(t, kind)}
		require.Equal(t, w, got, "%s is %q", kind, row[2])
	}
	require.Equal(t, contract.Kinds(), kinds)
}

func TestRaisableKinds(t *testing.T) {
	require.Contains(t, read(t, failures), "the first twelve kinds")
	require.Equal(t, contract.Kinds()[:12], skills.Raisable())
}

func retriedByDefault(t *testing.T, prob bool) []contract.Kind {
	t.Helper()
	mode := "deter"
	if prob {
		mode = "prob"
	}
	p, ds := compiler.Compile(compiler.Source{Name: "plan.yaml", Text: []byte(retryPlan(mode, "{max_retries: 1}"))}, operations(t), nil)
	require.False(t, ds.HasErrors(), "%+v", ds)
	return p.Nodes[1].Retry.On
}

func allowedInOn(t *testing.T, kind contract.Kind) bool {
	t.Helper()
	source := compiler.Source{Name: "plan.yaml", Text: []byte(retryPlan("prob", "{max_retries: 1, on: ["+string(kind)+"]}"))}
	_, ds := compiler.Compile(source, operations(t), nil)
	return !ds.HasErrors()
}

func retryPlan(mode, policy string) string {
	return `
apiVersion: chimera/v1
kind: Plan
name: retry
version: "1"
input_schema: {type: object}
output_schema: {type: object}
nodes:
  - {id: a, template: engine/pass, mode: ` + mode + `, retry_policy: ` + policy + `}
edges:
  - $input.$ -> a.$
  - a.$ -> $output.$
`
}
