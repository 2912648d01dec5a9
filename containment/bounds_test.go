package containment_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/containment"
)

// What allOf and references ask of numbers together is seen without a search.
func TestBoundsTogether(t *testing.T) {
	const most = 8 // steps
	for _, c := range []struct{ left, right string }{
		{`{"allOf":[{"type":"integer","minimum":0,"maximum":9},{"type":"number","exclusiveMaximum":4}]}`, `{"type":"integer","maximum":3}`},
		{`{"allOf":[{"type":"integer"},{"type":"number","exclusiveMinimum":-4,"maximum":3.5}]}`, `{"type":"integer","minimum":-3,"maximum":3}`},
		{`{"allOf":[{"allOf":[{"type":"number","maximum":1}]},{"exclusiveMaximum":1}]}`, `{"exclusiveMaximum":1}`},
		{`{"type":"integer","maximum":-0.5}`, `{"exclusiveMaximum":0}`},
		{`{"$defs":{"a":{"type":"integer","maximum":5}},"allOf":[{"$ref":"#/$defs/a"},{"minimum":2.5}]}`, `{"type":["integer","null"],"minimum":3}`},
		{`{"allOf":[{"type":["integer","string"]},{"type":["number"],"maximum":0}]}`, `{"type":"integer"}`},
		{`{"type":"object","properties":{"a":{"allOf":[{"type":"integer"},{"type":"number","minimum":0.1}]}},"required":["a"]}`,
			`{"type":"object","properties":{"a":{"type":"integer","minimum":1}},"required":["a"]}`},
	} {
		r := prove(t, c.left, c.right)
		require.Equal(t, containment.Proved, r.Verdict, "%s within %s: %s", c.left, c.right, r.Reason)
		require.LessOrEqual(t, r.Steps, most, "%s within %s", c.left, c.right)
	}
}

// TestBoundsAgainstNumbers holds proofs about bounds against the numbers
// themselves: with bounds that are halves, quarters tell all intervals apart.
func TestBoundsAgainstNumbers(t *testing.T) {
	var numbers []any
	for n := -16; n <= 16; n++ {
		numbers = append(numbers, json.Number(strings.TrimSuffix(fmt.Sprintf("%.2f", float64(n)/4), ".00")))
	}
	rapid.Check(t, func(r *rapid.T) {
		part := func() string {
			var words []string
			if kind := rapid.SampledFrom([]string{"", `"integer"`, `"number"`, `["integer","string"]`, `["null","number"]`}).Draw(r, "type"); kind != "" {
				words = append(words, `"type":`+kind)
			}
			for _, word := range []string{"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"} {
				if rapid.IntRange(0, 3).Draw(r, word) == 0 {
					words = append(words, fmt.Sprintf(`"%s":%.1f`, word, float64(rapid.IntRange(-6, 6).Draw(r, "bound"))/2))
				}
			}
			return "{" + strings.Join(words, ",") + "}"
		}
		left := fmt.Sprintf(`{"type":"number","allOf":[%s,{"allOf":[%s]}]}`, part(), part())
		right := part()
		a, b := compile(t, left), compile(t, right)
		inside := true
		for _, n := range numbers {
			inside = inside && (a.Validate(n) != nil || b.Validate(n) == nil)
		}
		want := containment.Refuted
		if inside {
			want = containment.Proved
		}
		require.Equal(t, want, containment.Prove(a, b, containment.Options{}).Verdict, "%s within %s", left, right)
	})
}

func TestNonempty(t *testing.T) {
	for text, want := range map[string]bool{
		`true`:                           true,
		`false`:                          false,
		`{"type":"integer","minimum":0}`: true,
		`{"type":"string"}`:              false, // it has values, and a look does not say so
		`{"minimum":1,"maximum":1}`:      true,
		`{"minimum":1,"maximum":0}`:      false,
		`{"allOf":[false]}`:              false,
		`{"type":"number","enum":[1]}`:   false,
		`{"multipleOf":2}`:               false,
		`{"not":{"type":"number"}}`:      false,
		`{"anyOf":[{"type":"null"}]}`:    false,
		`{"if":true,"else":true}`:        false,
		`{"oneOf":[{"type":"null"}]}`:    false,
		`{"const":1}`:                    false,
		`{"allOf":[{"type":"integer","maximum":9},{"exclusiveMaximum":4},{"exclusiveMinimum":3}]}`:                     false,
		`{"allOf":[{"type":"number","maximum":9},{"exclusiveMaximum":4},{"exclusiveMinimum":3}]}`:                      true,
		`{"allOf":[{"minimum":4,"type":["number","string"]},{"exclusiveMaximum":4}]}`:                                  false,
		`{"$defs":{"a":{"type":"integer","maximum":5}},"allOf":[{"$ref":"#/$defs/a"},{"minimum":5}]}`:                  true,
		`{"$defs":{"a":{"type":"string"}},"allOf":[{"$ref":"#/$defs/a"},{"minimum":5}]}`:                               false,
		`{"allOf":[` + strings.Repeat(`{},`, 20) + `{"type":"null"}]}`:                                                 false,
		`{"$ref":"#/$defs/a","$defs":{"a":{"$dynamicRef":"#b"},"b":{"$dynamicAnchor":"b","type":"null"}},"minimum":0}`: false,
	} {
		require.Equal(t, want, containment.Nonempty(compile(t, text)), text)
	}
	require.False(t, containment.Nonempty(nil))
}
