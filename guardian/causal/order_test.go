package causal

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/syntax"
)

// shuffled writes a value as JSON, with the entries of maps, and of lists whose order means nothing, in
// any order.
func shuffled(t *testing.T, rng *rand.Rand, key string, v any) string {
	t.Helper()
	var parts []string
	open, end := "[", "]"
	switch v := v.(type) {
	case map[string]any:
		open, end = "{", "}"
		keys := slices.Sorted(maps.Keys(v))
		rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		for _, k := range keys {
			parts = append(parts, string(encode(t, k))+": "+shuffled(t, rng, k, v[k]))
		}
	case []any:
		for _, item := range v {
			parts = append(parts, shuffled(t, rng, "", item))
		}
		if key != "values" && key != "range" {
			rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		}
	default:
		return string(encode(t, v))
	}
	return open + strings.Join(parts, ", ") + end
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return raw
}

// TestOrder: the order of a file means nothing, but that of categories.
func TestOrder(t *testing.T) {
	for _, name := range []string{"model.yaml", "wide.yaml"} {
		src := fileOf(t, name)
		m := parsed(t, name)
		docs, ds := syntax.Parse(src.Name, src.Text, limits)
		require.Empty(t, ds)
		value := docs[0].Root.Any()
		for seed := range uint64(40) {
			text := shuffled(t, rand.New(rand.NewPCG(seed, 0)), "", value)
			other, ds := Parse(diag.Source{Name: "shuffled.json", Text: []byte(text)})
			require.Empty(t, show(ds), text)
			require.Equal(t, m.Digest(), other.Digest(), text)
		}
		value.(map[string]any)["variables"].(map[string]any)["weather"].(map[string]any)["values"] = []any{"wet", "dry"}
		other, ds := Parse(diag.Source{Name: "other.json", Text: encode(t, value)})
		require.Empty(t, show(ds))
		require.NotEqual(t, m.Digest(), other.Digest())
	}
}

// TestMeaningChangesTheDigest: each number and text of a model is in its digest.
func TestMeaningChangesTheDigest(t *testing.T) {
	text := string(fileOf(t, "model.yaml").Text)
	seen := map[string]string{parsed(t, "model.yaml").Digest(): "the model itself"}
	for _, change := range [][2]string{
		{"samples: 20000", "samples: 10000"}, {"report-size", "other"}, {"version: \"1\"", "version: \"2\""}, {"files/write_file", "files/other"},
		{"value: 0", "value: 1"}, {"[0, 100000]", "[0, 100001]"}, {"mean: 0.4", "mean: 0.5"}, {"rows: 100", "rows: 101"}, {"load: 40", "load: 41"},
		{"dry: 0.7, wet: 0.3", "dry: 0.6, wet: 0.4"}, {"[0, 0, 1, 3]", "[0, 1, 3]"}, {"value: 12.5", "value: 12.25"}, {"2 * delay", "3 * delay"},
		{"size(args.content)", "size(args.text)"}, {"unit: bytes", "unit: kB"}, {"allow: [ok]", "allow: [late]"}, {"output.bytes", "output.size"},
	} {
		require.Contains(t, text, change[0])
		m, ds := Parse(diag.Source{Name: "model.yaml", Text: []byte(strings.Replace(text, change[0], change[1], 1))})
		require.Empty(t, show(ds))
		require.Empty(t, seen[m.Digest()], change)
		seen[m.Digest()] = change[1]
	}
}
