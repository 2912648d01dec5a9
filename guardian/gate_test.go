package guardian_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/policy"
)

// TestRulesAreTyped: what is wrong with a rule is said when the bundle is loaded, in
// its place.
func TestRulesAreTyped(t *testing.T) {
	for _, c := range []struct {
		name, rule string
		severity   diag.Severity
		code       diag.Code
		// want is part of the finding, at the text that is reported.
		want, at, suggestion string
	}{
		{name: "sound", rule: `operations: [bank/transfer], require: 'action.inputs.amount_minor <= 5'`},
		{name: "sound by has", rule: `match: 'has(action.inputs.size)', require: 'type(action.inputs.size) == int && action.inputs.size < 5'`},
		{name: "cost by has", rule: `operations: [bank/transfer], require: '!has(action.cost) || action.cost.minor < 5'`},
		{name: "a deny rule", rule: `operations: [bank/transfer], require: 'false'`},
		{
			name: "an operation that is not there", rule: `operations: [bank/tranfer], require: 'true'`,
			severity: diag.Error, code: diag.TrustOperation, want: "no operation `bank/tranfer`", at: "bank/tranfer", suggestion: "bank/transfer",
		},
		{
			name: "one in the match", rule: `match: 'action.operation in ["bank/tranfer"]', require: 'true'`,
			severity: diag.Error, code: diag.TrustOperation, want: "no operation `bank/tranfer`", at: `action`, suggestion: "bank/transfer",
		},
		{
			name: "a pure one", rule: `operations: [text/count], require: 'true'`,
			severity: diag.Warning, code: diag.EffectOperator, want: "`text/count` is pure", at: "text/count",
		},
		{
			name: "a misspelt input", rule: `operations: [files/write], require: 'action.inputs.pth == "a"'`,
			severity: diag.Error, code: diag.TypeExpr, want: "pth", at: ".pth", suggestion: "did you mean path?",
		},
		{
			name: "a wrong type", rule: `operations: [bank/transfer], require: 'action.inputs.to > 5'`,
			severity: diag.Error, code: diag.TypeExpr, want: "rule `x` is wrong", at: ".to",
		},
		{
			name: "an input that may be absent", rule: `operations: [bank/transfer], require: 'action.inputs.parts < 5'`,
			severity: diag.Warning, code: diag.TypeExprMayFail, want: "rule `x` may fail", at: ".parts",
			suggestion: "has(action.inputs.parts) ? action.inputs.parts : …, or action.inputs.?parts.orValue(…)",
		},
		{
			name: "inputs of any operation", rule: `match: 'true', require: 'action.inputs.size == 5'`,
			severity: diag.Warning, code: diag.TypeExprMayFail, want: "rule `x` may fail", at: ".size",
			suggestion: "has(action.inputs.size) ? action.inputs.size : …, or action.inputs.?size.orValue(…)",
		},
		{
			name: "a match of two operations", rule: `match: 'action.operation == "bank/transfer" && action.operation == "files/write"', require: 'true'`,
			severity: diag.Warning, code: diag.EffectOperator, want: "no action matches the rule `x`", at: "action",
		},
		{
			name: "a match that the inputs exclude", rule: `operations: [bank/transfer], match: 'action.inputs.amount_minor < 0', require: 'true'`,
			severity: diag.Warning, code: diag.EffectOperator, want: "no action matches the rule `x`", at: "action",
		},
		{
			name: "two rules that exclude each other", rule: `operations: [bank/transfer], require: 'action.inputs.amount_minor > 10'}
  - {id: y, type: hard, operations: [bank/transfer], require: 'action.inputs.amount_minor < 10'`,
			severity: diag.Warning, code: diag.EffectOperator, want: "no call of `bank/transfer` meets the rule `y`", at: "action",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "apiVersion: chimera/v1\nkind: PolicyBundle\nversion: \"1\"\nrules:\n  - {id: x, type: hard, " + c.rule + "}\n"
			g, ds := guardian.New(parse(t, text), operations())
			if c.want == "" {
				require.Empty(t, ds)
				return
			}
			require.Len(t, ds, 1)
			d := ds[0]
			require.Equal(t, c.severity, d.Severity, d.Detail)
			require.Equal(t, c.severity != diag.Error, g != nil)
			require.Equal(t, c.code, d.Code)
			require.Contains(t, d.Summary+" "+d.Detail, c.want)
			require.Equal(t, c.suggestion, d.Suggestion)
			require.Equal(t, "policy.yaml", d.Subject.File)
			require.True(t, strings.HasPrefix(text[d.Subject.Start.Byte:], c.at), "%q", text[d.Subject.Start.Byte:d.Subject.End.Byte])
		})
	}
}

// TestNumbersAreConverted: a rule may calculate with numbers whatever their notation,
// where the types of its operation say how.
func TestNumbersAreConverted(t *testing.T) {
	g := gate(t, `{apiVersion: chimera/v1, kind: PolicyBundle, version: "1", allow: [{unattended: true}],
		rules: [{id: x, type: hard, operations: [bank/transfer], require: "action.inputs.amount_minor * 1.5 <= 15.0"}]}`)
	r := g.Decide(action(inputs(`{"amount_minor": 10, "to": "x"}`)), nil, facts(risk("0")))
	require.Equal(t, guardian.PolicyClear, r.Reason, r.Rules)
	require.Equal(t, "policy:x", g.Decide(action(inputs(`{"amount_minor": 11, "to": "x"}`)), nil, facts()).Reason)
}

// TestCasesInAnyOrder: the ports of a case may be listed in any order.
func TestCasesInAnyOrder(t *testing.T) {
	cases, ds := guardian.ParseCases(diag.Source{Name: "c", Text: []byte(`{apiVersion: chimera/v1, kind: PolicyTest, cases: [{name: a, expect: APPROVE,
		action: {operation: files/write, inputs: {path: /out/a, text: b}, tainted: [text, path]}}]}`)}, operations())
	require.Empty(t, ds)
	require.Equal(t, []string{"path", "text"}, cases[0].Action.Taint.Ports)
}

// TestRulesByCode: rules that were made by code have no places, and are refused the
// same.
func TestRulesByCode(t *testing.T) {
	for _, r := range []policy.Rule{{ID: "a", Match: "(", Require: "true"}, {ID: "a", Require: ""}, {ID: "a", Operations: []string{"no/where"}, Require: "true"}} {
		g, ds := guardian.New(&policy.Bundle{Rules: []policy.Rule{r}}, operations())
		require.Nil(t, g)
		require.True(t, ds.HasErrors())
	}
}

// TestFloorsNameOperations: a floor that nothing can meet, misspelt perhaps, is a warning.
func TestFloorsNameOperations(t *testing.T) {
	for name, warned := range map[string]bool{"bank/transfer": false, "bank/tranfer": true} {
		floor := policy.Floor{Match: policy.Match{Operations: []string{name}}, Groups: []policy.Group{{Role: "cfo", Min: 1}}}
		g, ds := guardian.New(&policy.Bundle{Floor: []policy.Floor{floor}}, operations())
		require.NotNil(t, g)
		if !warned {
			require.Empty(t, ds)
			continue
		}
		require.Len(t, ds, 1)
		require.Equal(t, diag.Warning, ds[0].Severity)
		require.Equal(t, diag.TrustOperation, ds[0].Code)
		require.Equal(t, "bank/transfer", ds[0].Suggestion)
	}
}

// BenchmarkDecide decides an action beside 1,000 rules, of which ten are about its
// operation, and one is about all.
func BenchmarkDecide(b *testing.B) {
	var text strings.Builder
	text.WriteString("apiVersion: chimera/v1\nkind: PolicyBundle\nversion: \"1\"\nallow: [{unattended: true}]\nrules:\n")
	for i := range 999 {
		op, require := "bank/transfer", fmt.Sprintf("action.inputs.amount_minor <= %d", 500_000+i)
		if i%100 != 0 {
			op, require = "files/write", fmt.Sprintf(`action.inputs.path != "/out/%d"`, i)
		}
		fmt.Fprintf(&text, "  - {id: r%d, type: hard, match: 'action.operation == %q', require: '%s'}\n", i, op, require)
	}
	text.WriteString("  - {id: all, type: hard, match: 'true', require: 'action.agent != \"nobody\"'}\n")
	g := gate(b, text.String())
	a, f := action(), facts(risk("0"))
	b.ReportAllocs()
	for b.Loop() {
		if r := g.Decide(a, nil, f); r.Decision != guardian.Approve || len(r.Rules) != 11 {
			b.Fatal(r)
		}
	}
}
