package containment_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/schemas"
)

// TestAlternativesThatShareAValue: that each alternative of oneOf lists values for one key does not
// make them exclude each other. A value of two alternatives is none of the whole.
func TestAlternativesThatShareAValue(t *testing.T) {
	kind := func(values, more string) string {
		return `{"type":"object","properties":{"kind":{"enum":[` + values + `]}` + more + `},"required":["kind"]}`
	}
	for name, c := range map[string]struct {
		left, right string
		want        containment.Verdict
	}{
		"of one":         {kind(`"a"`, ""), `{"oneOf":[` + kind(`"a"`, "") + `,` + kind(`"b"`, "") + `]}`, containment.Proved},
		"of both":        {kind(`"a"`, ""), `{"oneOf":[` + kind(`"a"`, "") + `,` + kind(`"a","b"`, "") + `]}`, containment.Refuted},
		"of the last":    {kind(`"b"`, ""), `{"oneOf":[` + kind(`"a"`, "") + `,` + kind(`"a","b"`, "") + `]}`, containment.Proved},
		"1 and 1.0":      {kind(`1`, ""), `{"oneOf":[` + kind(`1`, "") + `,` + kind(`1.0,2`, "") + `]}`, containment.Refuted},
		"of three":       {kind(`"c"`, ""), `{"oneOf":[` + kind(`"a"`, "") + `,` + kind(`"b","c"`, "") + `,` + kind(`"c","d"`, "") + `]}`, containment.Refuted},
		"told otherwise": {kind(`"a"`, `,"n":{"const":1}`), `{"oneOf":[` + kind(`"a"`, "") + `,` + kind(`"a"`, `,"n":{"const":2}`) + `]}`, containment.Refuted},
	} {
		require.Equal(t, c.want, prove(t, c.left, c.right).Verdict, name)
	}
}

// TestWhatIsNotSearchedIsNotEmpty: an object with more members than are looked for is not known to
// have no value, and so nothing is proved of it.
func TestWhatIsNotSearchedIsNotEmpty(t *testing.T) {
	const many = `{"type":"object","minProperties":400}`
	s, err := schemas.Compile([]byte(many))
	require.NoError(t, err)
	require.NotEqual(t, containment.Proved, containment.Empty(s, containment.Options{}).Verdict)
	other, err := schemas.Compile([]byte(`{"type":"object","minProperties":1}`))
	require.NoError(t, err)
	require.NotEqual(t, containment.Proved, containment.Disjoint(s, other, containment.Options{}).Verdict)
	require.NotEqual(t, containment.Proved, prove(t, many, `false`).Verdict)
	require.NotEqual(t, containment.Proved, prove(t, many, `{"maxProperties":9}`).Verdict)
	require.Equal(t, containment.Proved, prove(t, many, `{"minProperties":9}`).Verdict)
}
