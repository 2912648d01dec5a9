package host

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/policy"
)

// TestJudgeSaysWhatIsWrong: a policy that fits no catalog is refused by its error, and not by a warning
// that stands before it.
func TestJudgeSaysWhatIsWrong(t *testing.T) {
	bundle, ds := policy.Parse(diag.Source{Name: "policy.yaml", Text: []byte(`
apiVersion: chimera/v1
kind: PolicyBundle
version: "1"
approval: {floor: [{operations: [bank/paid], groups: [{role: cfo, min: 1}]}]}
rules: [{id: any, type: hard, match: "true", require: "true"}]
models: [drain.yaml]
`)})
	require.NotNil(t, bundle, ds)
	require.Empty(t, bundle.Load(func(policy.ModelFile) (*causal.Model, diag.Diagnostics) {
		return &causal.Model{Name: "drain", Operations: []string{"bank/pay"}}, nil
	}))
	_, err := workbench(&catalog.Catalog{}, bundle, nil).Judge()
	require.ErrorContains(t, err, "`drain` cannot be evaluated")
	require.ErrorContains(t, invalid{diag.Diagnostics{{Severity: diag.Warning, Summary: "odd"}, {Severity: diag.Error, Summary: "wrong"}}}, "wrong")
}
