package compiler

import (
	"bytes"
	"encoding/json"
	"maps"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
)

// wrongs are values of the wrong kind.
var wrongs = []any{nil, "", "a", json.Number("-1"), true, []any{}, map[string]any{}, []any{map[string]any{}}}

// damaged gives each file that comes of a file by taking one value away, or by
// putting a wrong one in its place; the n-th of each step of them.
func damaged(t *testing.T, text []byte, step int, use func(text []byte)) {
	t.Helper()
	docs, ds := syntax.Parse("fuzz.yaml", text, fields.Limits)
	if ds.HasErrors() {
		return
	}
	var all []any
	for _, d := range docs {
		all = append(all, d.Root.Any())
	}
	count := 0
	emit := func() {
		if count++; count%step != 0 {
			return
		}
		var b bytes.Buffer
		for i, d := range all {
			if i > 0 {
				b.WriteString("---\n")
			}
			require.NoError(t, json.NewEncoder(&b).Encode(d))
		}
		use(b.Bytes())
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				was := v[k]
				delete(v, k)
				emit()
				for _, w := range wrongs {
					v[k] = w
					emit()
				}
				v[k] = was
				walk(was)
			}
		case []any:
			for i, was := range v {
				for _, w := range wrongs {
					v[i] = w
					emit()
				}
				v[i] = was
				walk(was)
			}
		}
	}
	walk(all)
}

// TestDamaged takes each value of each test file away and puts wrong ones in its
// place: a pass does not rely on what an earlier one found missing or wrong. Bytes
// changed at random seldom leave a file that is read so far.
func TestDamaged(t *testing.T) {
	step := 101
	if *soak {
		step = 17
	} else if testing.Short() {
		step = 307
	}
	cat := testCatalog(t)
	total, compiled := 0, 0
	for _, text := range seeds(t) {
		damaged(t, text, step, func(text []byte) {
			total++
			defer func() {
				if r := recover(); r != nil {
					t.Fatalf("%v\n%s\n%s", r, debug.Stack(), text)
				}
			}()
			p, ds := Compile(Source{Name: "fuzz.yaml", Text: text}, cat, nil)
			checkResult(t, text, p, ds)
			if p != nil {
				compiled++
			}
		})
	}
	t.Logf("%d of %d compile", compiled, total)
	require.Positive(t, compiled)
}
