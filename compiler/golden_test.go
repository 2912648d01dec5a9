package compiler

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/plan"
)

// good lists the test files that compile.
// soak is set by make soak: the tests draw many more cases.
var soak = flag.Bool("soak", false, "draw many more cases")

// firstSeed draws other cases.
var firstSeed = flag.Uint64("seed", 0, "which random cases are drawn")

// cases is how many cases a test draws: n, or a quarter of that if tests are short.
func cases(n int) int {
	if testing.Short() {
		return n / 4
	}
	return n
}

var update = flag.Bool("update", false, "rewrite golden files")

func good(t testing.TB) []string {
	t.Helper()
	all, err := filepath.Glob("testdata/*/*.yaml")
	require.NoError(t, err)
	var out []string
	for _, file := range all {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(text), "kind: Plan") && !strings.Contains(string(text), "# ERROR") {
			out = append(out, file)
		}
	}
	require.NotEmpty(t, out)
	return out
}

func mustCompile(t testing.TB, name string, text []byte) *plan.Plan {
	t.Helper()
	p, ds := Compile(Source{Name: name, Text: text}, testCatalog(t), nil)
	require.False(t, ds.HasErrors(), "%s\n%s", show(ds), text)
	require.NotNil(t, p)
	return p
}

// TestGolden holds the canonical bytes of compiled plans, and so their digests,
// to what they were. A change here changes the digest of published plans.
func TestGolden(t *testing.T) {
	for _, file := range good(t) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		golden(t, file, mustCompile(t, file, text))
	}
}

// TestGoldenChecked does the same for plans that are sound and cannot run yet.
func TestGoldenChecked(t *testing.T) {
	all, err := filepath.Glob("testdata/*/*.yaml")
	require.NoError(t, err)
	seen := 0
	for _, file := range all {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		src := Source{Name: file, Text: text}
		p, _ := Check(src, testCatalog(t), testPolicy(t))
		compiled, ds := Compile(src, testCatalog(t), testPolicy(t))
		if compiled != nil {
			require.Equal(t, string(encode(t, compiled)), string(encode(t, p)), file)
		}
		if p == nil || compiled != nil {
			continue
		}
		for _, d := range ds {
			require.True(t, d.Severity == diag.Warning || d.Code == diag.PlanNotSupported, "%s: %s", file, show(ds))
		}
		golden(t, file, p)
		seen++
	}
	require.Positive(t, seen)
}

func golden(t *testing.T, file string, p *plan.Plan) {
	t.Helper()
	t.Run(strings.TrimPrefix(file, "testdata/"), func(t *testing.T) {
		b := encode(t, p)
		// The golden file is the same JSON, a node, edge or schema a line,
		// behind the digest of the exact bytes.
		got := plan.DigestOf(b) + "\n" + spread(t, b)
		for _, c := range p.Children {
			got += c.Digest + "\n" + spread(t, encode(t, c.Plan))
		}
		golden := strings.TrimSuffix(file, ".yaml") + ".golden"
		if *update {
			require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("the compiled plan changed (-want +got):\n%s", d)
		}
		back, err := plan.Decode(b)
		require.NoError(t, err)
		require.Equal(t, string(b), string(encode(t, back)))
	})
}

// spread breaks the top of a compiled plan's JSON into lines, exactly.
func spread(t *testing.T, b []byte) string {
	t.Helper()
	var p struct {
		Nodes, Edges, Schemas, Barriers, Loops []json.RawMessage
	}
	require.NoError(t, json.Unmarshal(b, &p))
	s := string(b)
	for _, list := range [][]json.RawMessage{p.Nodes, p.Edges, p.Schemas, p.Barriers, p.Loops} {
		for _, item := range list {
			s = strings.Replace(s, string(item), "\n  "+string(item), 1)
		}
	}
	require.Equal(t, string(b), strings.ReplaceAll(s, "\n  ", ""))
	return s + "\n"
}

// shuffled writes a decoded YAML or JSON value as JSON with its keys in random
// order.
func shuffled(buf *bytes.Buffer, r *rand.Rand, v any) {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		buf.WriteByte('{')
		for i, k := range keys {
			if i > 0 {
				buf.WriteString(", ")
			}
			b, _ := json.Marshal(k)
			buf.Write(b)
			buf.WriteString(": ")
			shuffled(buf, r, v[k])
		}
		buf.WriteByte('}')
	case []any:
		buf.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				buf.WriteString(",\n")
			}
			shuffled(buf, r, e)
		}
		buf.WriteByte(']')
	default:
		b, _ := json.Marshal(v)
		buf.Write(b)
	}
}

// TestShuffled: the order of keys, and whether the source is YAML or JSON, do
// not change the compiled plan.
func TestShuffled(t *testing.T) {
	for _, file := range good(t) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		want := encode(t, mustCompile(t, file, text))
		value := parse(t, file, text)
		for seed := range uint64(5) {
			var buf bytes.Buffer
			shuffled(&buf, rand.New(rand.NewPCG(seed, 1)), value)
			got := encode(t, mustCompile(t, fmt.Sprintf("%s, seed %d", file, seed), buf.Bytes()))
			require.Equal(t, string(want), string(got), "%s\n%s", file, buf.String())
		}
	}
}
