package typing

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/compiler/internal/pool"
	"chimera.ai/engine/compiler/internal/proof"
	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/containment"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/schemas"
)

// TestPropose: the edit follows from the keyword that refuses the counterexample,
// and from which end of the edge its author can change.
func TestPropose(t *testing.T) {
	const both, source, target, neither, adapter = "st", "s", "t", "", "a"
	for _, c := range []struct {
		name           string
		source, target string
		transform      string
		open           string
		want           string
	}{
		{"null, the target can be widened", `{"type":["string","null"]}`, `{"type":"string"}`, "", both, "add `null` to the type of `b.y`"},
		{"null below a property", `{"type":"object","properties":{"k":{"type":["string","null"]}},"required":["k"]}`, `{"type":"object","properties":{"k":{"type":"string"}}}`, "", both, "add `null` to the type of `/k` of `b.y`"},
		{"null, the target is an operation's", `{"type":["string","null"]}`, `{"type":"string"}`, "", neither, "transform: \"${value == null ? '' : value}\""},
		{"null where a number goes", `{"type":["integer","null"]}`, `{"type":"integer"}`, "", source, "transform: \"${value == null ? 0 : value}\""},
		{"a number where text goes", `{"type":"integer"}`, `{"type":"string"}`, "", both, "transform: \"${string(value)}\""},
		{"a boolean where text goes", `{"type":"boolean"}`, `{"type":"string"}`, "", neither, "transform: \"${string(value)}\""},
		{"text or a number where text goes", `{"type":["string","integer"]}`, `{"type":"string"}`, "", both, "`type: string` in the schema of `a.x`"},
		{"a fraction where a whole number goes", `{"type":"number"}`, `{"type":"integer"}`, "", source, "`type: integer` in the schema of `a.x`"},
		{"a missing property, the source is the plan's", `{"type":"object","properties":{"k":{}}}`, `{"type":"object","required":["k"]}`, "", both, "add `k` to `required` of `a.x`"},
		{"a missing property, the target is the plan's", `{"type":"object","properties":{"k":{}}}`, `{"type":"object","required":["k"]}`, "", target, "take `k` out of `required` of `b.y`"},
		{"a missing property of an operation", `{"type":"object","properties":{"k":{}}}`, `{"type":"object","required":["k"]}`, "", neither, "transform: {k: \"${value.?k.orValue(…)}\"}"},
		{"a missing property of a transform", `{"type":"object","properties":{"k":{"type":"string"}}}`, `{"type":"object","required":["k"]}`, `{"j":"${value.j}"}`, both, "give `k` a value, for instance ${value.?k.orValue(…)}"},
		{"too long", `{"type":"string"}`, `{"type":"string","maxLength":3}`, "", both, "`maxLength: 3` in the schema of `a.x`"},
		{"too long, only the target is the plan's", `{"type":"string"}`, `{"type":"string","maxLength":3}`, "", target, "widen `maxLength` of `b.y`"},
		{"too long, nothing is the plan's", `{"type":"string"}`, `{"type":"string","maxLength":3}`, "", neither, "check: runtime"},
		{"too long for an adapter, of which the run checks nothing", `{"type":"string"}`, `{"type":"string","maxLength":3}`, "", adapter, ""},
		{"nothing is the plan's, and no value ever fits", `{"type":"object"}`, `{"enum":["a"]}`, "", neither, ""},
		{"too small", `{"type":"integer"}`, `{"type":"integer","minimum":1}`, "", source, "`minimum: 1` in the schema of `a.x`"},
		{"too many items, below a property", `{"type":"object","properties":{"l":{"type":"array"}},"required":["l"]}`, `{"properties":{"l":{"maxItems":2}}}`, "", source, "`maxItems: 2` in the schema of `/l` of `a.x`"},
		{"another word", `{"enum":["a","b"]}`, `{"enum":["a"]}`, "", source, "`enum: [a]` in the schema of `a.x`"},
		{"another pattern", `{"type":"string"}`, `{"pattern":"^a"}`, "", source, "`pattern: \"^a\"` in the schema of `a.x`"},
		{"a property too many", `{"type":"object"}`, `{"type":"object","additionalProperties":false}`, "", source, "`additionalProperties: false` in the schema of `a.x`"},
		{"a selection, of the input", `{"type":"string"}`, `{"maxLength":3}`, `"${input.a.b}"`, neither, "`maxLength: 3` in the schema of `/a/b` of `$input`"},
		{"a selection, of the value, in an object", `{"type":"object","properties":{"k":{"type":"string"}},"required":["k"]}`, `{"properties":{"k":{"maxLength":3}}}`, `{"k":"${value.deep}"}`, source, "`maxLength: 3` in the schema of `/deep` of `a.x`"},
		{"more than a selection", `{"type":"string"}`, `{"maxLength":3}`, `"${value + 'a'}"`, both, ""},
		{"two ends, on the source", `{"type":"integer"}`, `{"type":"integer","minimum":0,"maximum":9}`, "", both, "`minimum: 0` and `maximum: 9` in the schema of `a.x`"},
		{"two ends, on the target", `{"type":"integer"}`, `{"type":"integer","minimum":0,"maximum":9}`, "", target, "widen `minimum` of `b.y`, and widen `maximum` of `b.y`"},
		{"two places", `{"type":"object","properties":{"k":{"type":"string"}},"required":["k"]}`, `{"required":["k","l"],"properties":{"k":{"maxLength":3}}}`, "", source, "add `l` to `required` of `a.x`, and `maxLength: 3` in the schema of `/k` of `a.x`"},
		{"null and more, which one word fixes", `{"type":["string","integer","null"]}`, `{"type":"string"}`, "", both, "`type: string` in the schema of `a.x`"},
		{"another type altogether", `{"type":"boolean"}`, `{"type":"array"}`, "", both, "`type: array` in the schema of `a.x`"},
		{"what would not do is not proposed", `{"type":"string"}`, `{"maxLength":3,"not":{"const":"a"}}`, "", source, ""},
		{"text of any length is not fixed by string()", `{"type":"integer"}`, `{"type":"string","maxLength":3}`, "", neither, ""},
		{"no keyword has an edit", `{"type":"string"}`, `{"not":{"const":"a"}}`, "", both, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			check := testChecker()
			l, err := schemas.Compile([]byte(c.source))
			require.NoError(t, err)
			r, err := schemas.Compile([]byte(c.target))
			require.NoError(t, err)
			root, err := schemas.Decode([]byte(c.target))
			require.NoError(t, err)
			p := proposal{check: check, source: l, target: r, sourceName: "a.x", targetName: "b.y", root: root, inputOpen: true, scope: scope{value: l}}
			p.adapter = c.open == adapter
			p.sourceOpen, p.targetOpen = c.open == source || c.open == both, c.open == target || c.open == both
			if c.transform != "" {
				v, err := schemas.Decode([]byte(c.transform))
				require.NoError(t, err)
				compiled, errs := expr.CompileTemplate(v, expr.Transform)
				require.Empty(t, errs)
				p.template = &embedded.Template{Template: compiled, Value: v}
			}
			res := check.prover.Within(l, r)
			require.Equal(t, containment.Refuted, res.Verdict)
			require.Equal(t, c.want, p.propose(res.Witness))
		})
	}
}

// testChecker types nothing yet.
func testChecker() *checker {
	rep, schemas := fields.NewReader(diag.Source{}), new(pool.Pool)
	return newChecker(rep, schemas, proof.New(rep), &lint.Graph{Catalog: lint.Index(nil, schemas)})
}
