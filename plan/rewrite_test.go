package plan_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/plan"
)

func TestRewrite(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", " { } ", `{}`},
		{"in order", `{"a":1,"b":[true,false,null],"c":{"d":"x y"}}`, `{"a":1,"b":[true,false,null],"c":{"d":"x y"}}`},
		{"out of order", "{\"b\" : [ 1 , 2 ],\n\t\"aa\":{\"z\":-0,\"y\":{}},\r\"a\":[]}", `{"a":[],"aa":{"y":{},"z":-0},"b":[1,2]}`},
		{"fifteen digits", `{"a":-999999999999999}`, `{"a":-999999999999999}`},
		{"many members", `{"s":0,"r":0,"q":0,"p":0,"o":0,"n":0,"m":0,"l":0,"k":0,"j":0,"i":0,"h":0,"g":0,"f":0,"e":0,"d":0,"c":0,"b":0}`,
			`{"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"j":0,"k":0,"l":0,"m":0,"n":0,"o":0,"p":0,"q":0,"r":0,"s":0}`},
		{"32 levels", `{"a":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}`, `{"a":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := plan.Rewrite([]byte(c.in))
			require.True(t, ok)
			require.Equal(t, c.want, string(got))
		})
	}
}

func TestRewriteLeavesTheRest(t *testing.T) {
	for name, in := range map[string]string{
		"nothing": "", "a list": `[1]`, "a text": `"a"`, "two values": `{}{}`, "no end": `{"a":1`, "no value": `{"a":}`, "no colon": `{"a"}`,
		"no key": `{1:1}`, "a comma too many": `{"a":1,}`, "a comma too many in a list": `{"a":[1,]}`, "a comma first": `{,"a":1}`, "no comma": `{"a":1 "b":2}`,
		"a key twice": `{"a":1,"a":1}`, "a key twice, apart": `{"a":1,"b":1,"a":1}`, "half a word": `{"a":tru`, "a word too long": `{"a":nulls}`,
		"a fraction": `{"a":1.0}`, "an exponent": `{"a":1e1}`, "a leading zero": `{"a":01}`, "no digits": `{"a":-}`, "sixteen digits": `{"a":1000000000000000}`,
		"an escape": `{"a":"\n"}`, "a control character": "{\"a\":\"\n\"}", "no ASCII": `{"ä":1}`, "DEL": "{\"a\":\"\x7f\"}", "an open text": `{"a":"`,
		"33 levels": `{"a":` + strings.Repeat("[", 32) + strings.Repeat("]", 32) + `}`, "64 KiB": `{"a":"` + strings.Repeat("a", 64<<10) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := plan.Rewrite([]byte(in))
			require.False(t, ok)
			require.Nil(t, got)
		})
	}
}

// rewritten compares with what decoding and encoding makes of the same bytes.
func rewritten(t require.TestingT, raw []byte) (ok bool) {
	got, ok := plan.Rewrite(raw)
	if !ok {
		return false
	}
	v, err := decode(raw)
	require.NoError(t, err)
	want, err := plan.Canonical(v)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
	return true
}

func TestRewriteIsCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.MapOfN(rapid.String(), value(3), 0, 20).Draw(t, "object")
		var wide bytes.Buffer
		require.NoError(t, json.Indent(&wide, shuffled(t, v), " ", "\t"))
		rewritten(t, wide.Bytes())

		plain := rapid.MapOfN(rapid.StringMatching(`[ !#-%'-;=?-\[\]-~]{0,4}`), rapid.SampledFrom([]any{nil, true, json.Number("-7"), "x", []any{json.Number("0")}, map[string]any{"b": "c", "a": "d"}}), 0, 40).Draw(t, "plain")
		require.True(t, rewritten(t, shuffled(t, plain)))
	})
}

func FuzzRewrite(f *testing.F) {
	for _, seed := range []string{`{"b":[1,2],"a":{"c":"d","":-0}}`, ` { "a" : 1 , "a" : 1 } `, `{"a":01}`, `{"a":1e5}`, `{"a":"\""}`, `{"a":[[]]}`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { rewritten(t, raw) })
}
