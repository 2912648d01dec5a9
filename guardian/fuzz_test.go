package guardian_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/guardian"
)

// FuzzCases: whatever stands in a file of cases, and whatever inputs they have, it is
// refused or decided, and decided the same again; what is approved has no objection.
func FuzzCases(f *testing.F) {
	for _, text := range []string{
		"", "cases: []", `{apiVersion: chimera/v1, kind: PolicyTest, cases: [{name: a, expect: APPROVE, action: {operation: bank/transfer, inputs: {amount_minor: 1, to: x}}}]}`,
		`{apiVersion: chimera/v1, kind: PolicyTest, cases: [{name: a, expect: REJECT, action: {operation: files/write, inputs: {path: 1e999, text: "\0"}, cost: 1e9 USD, tainted: [a, a]}, given: {at: now, calls: -1, budget: held, risk: 2, approved: 1}}]}`,
		`{apiVersion: chimera/v1, kind: PolicyTest, cases: [{name: a, expect: REJECT, action: {operation: notes/stage, effect: pure, inputs: [[[]]]}, given: {risk: 1e-99}}, null, 1]}`,
	} {
		f.Add([]byte(text))
	}
	g := gate(f, bundleText)
	f.Fuzz(func(t *testing.T, text []byte) {
		cases, ds := guardian.ParseCases(diag.Source{Name: "cases", Text: text}, operations())
		require.False(t, ds.HasErrors() && cases != nil)
		for i := range cases {
			r := g.Decide(&cases[i].Action, nil, cases[i].Facts)
			raw, err := r.Encode()
			require.NoError(t, err)
			again, err := g.Decide(&cases[i].Action, nil, cases[i].Facts).Encode()
			require.NoError(t, err)
			require.Equal(t, string(raw), string(again))
			require.Equal(t, r.Decision == guardian.Approve, len(r.Objections) == 0)
			if r.Decision == guardian.Approve {
				require.NotEmpty(t, r.Rules)
			}
		}
	})
}
