package causal

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
)

// FuzzParse: what is found has a place in the file, and a model that is accepted passes the check, is the
// same after JSON, and is a draft, too.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(f, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(text)
	}
	const head = "apiVersion: chimera/v1\nkind: CausalModel\nname: m\noperations: [a/b]\nbind: {x: args.x}\nkpis: {x: {max: 1}}\nvariables:\n  x: {value: 0, range: [0, 1]}\n"
	for _, s := range []string{
		"  y: {parents: [x, y]}", "  y: &y {parents: [x], expression: 'x ? 1'}\n  z: *y", "  y: {values: [a], parents: [x], expression: '\"a\"'}",
		"  y: {noise: {uniform: {min: -1e-400, max: 1e99}}}", "  y: {values: [\"\\u0000\"], value: a}", "  y: {parents: [x], table: [{when: {x: a}, value: 1}]}",
	} {
		f.Add([]byte(head + s + "\n"))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		src := diag.Source{Name: "fuzz.yaml", Text: text}
		m, ds := Parse(src)
		require.Equal(t, ds.HasErrors(), m == nil)
		for _, d := range ds {
			require.NotEmpty(t, d.Code)
			require.NotEmpty(t, d.Summary)
			require.LessOrEqual(t, 0, d.Subject.Start.Byte)
			require.LessOrEqual(t, d.Subject.Start.Byte, d.Subject.End.Byte)
			require.LessOrEqual(t, d.Subject.End.Byte, len(text))
		}
		draft, more := ParseDraft(src)
		require.Equal(t, more.HasErrors(), draft == nil)
		if draft != nil {
			require.Empty(t, Check(draft))
			require.Equal(t, draft.Digest(), roundTrip(t, draft).Digest())
		}
		if m == nil {
			return
		}
		require.NotNil(t, draft)
		require.Equal(t, m.Digest(), draft.Digest())
		for i := range m.Variables {
			require.False(t, m.Variables[i].Drafted())
		}
	})
}

// FuzzCheck: a model that is decoded from any JSON is checked without a panic, and what is said of it is
// bounded.
func FuzzCheck(f *testing.F) {
	for _, name := range []string{"model.yaml", "wide.yaml"} {
		f.Add(encode(f, parsed(f, name)))
	}
	for _, s := range []string{
		`{"variables": [{"name": "x", "table": [{}], "parents": ["x"]}, {"name": "x"}]}`, `{"variables": [{}, {"parents": [""]}], "kpis": [{"allow": [""]}]}`,
		`{"variables": [{"name": "x", "values": [], "parents": ["y"], "linear": {}}, {"name": "y", "values": ["a", "a"], "noise": {"categorical": null}}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := new(Model)
		if json.Unmarshal(raw, m) != nil {
			return
		}
		found := Check(m)
		require.LessOrEqual(t, len(found), maxProblems)
		for _, p := range found {
			require.NotEmpty(t, p.Code)
			require.Less(t, len(p.Summary)+len(p.Detail)+len(p.Suggestion), 8192)
		}
		if len(found) == 0 {
			require.NotContains(t, m.Digest(), "NaN")
			require.Empty(t, Check(roundTrip(t, m)))
		}
	})
}
