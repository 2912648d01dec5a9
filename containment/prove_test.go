package containment_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/schemas"
)

func prove(t *testing.T, l, r string) containment.Result {
	a, err := schemas.Compile([]byte(l))
	require.NoError(t, err)
	b, err := schemas.Compile([]byte(r))
	require.NoError(t, err)
	return containment.Prove(a, b, containment.Options{})
}

func TestProve(t *testing.T) {
	for _, c := range []struct {
		left, right string
		want        containment.Verdict
	}{
		{`{"type":"integer"}`, `{"type":"number"}`, containment.Proved},
		{`{"type":"number"}`, `{"type":"integer"}`, containment.Refuted},
		{`{"multipleOf":6,"type":"number"}`, `{"multipleOf":4}`, containment.Refuted},
		{`{"multipleOf":6,"type":"number"}`, `{"multipleOf":3}`, containment.Proved},
		{`{"type":"string","pattern":"^a+$"}`, `{"pattern":"^[ab]"}`, containment.Proved},
		{`{"type":"string","pattern":"^a"}`, `{"maxLength":3}`, containment.Refuted},
		{`{"enum":["a","b"]}`, `{"maxLength":1}`, containment.Proved},
		{`{"type":"array","items":{"type":"integer"}}`, `{"items":{"type":"number"}}`, containment.Proved},
		{`{"properties":{"a":{"type":"integer"}},"required":["a"],"type":"object"}`, `{"properties":{"a":{"type":"number"}},"required":["a"]}`, containment.Proved},
		{`{"type":"object"}`, `{"required":["a"]}`, containment.Refuted},
		{`{"$ref":"#/$defs/T","$defs":{"T":{"type":"object","properties":{"n":{"$ref":"#/$defs/T"}},"required":["n"]}}}`, `false`, containment.Proved},
		{`{"format":"email"}`, `true`, containment.Proved},
		{`true`, `{"format":"email"}`, containment.Proved},
	} {
		require.Equal(t, c.want, prove(t, c.left, c.right).Verdict, "%s in %s", c.left, c.right)
	}
}
