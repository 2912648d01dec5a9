package plangen

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/schemas"
)

func TestEqualSeedsGiveEqualPlans(t *testing.T) {
	for seed := range uint64(8) {
		a, b := Random(seed, 10), Random(seed, 10)
		require.Empty(t, cmp.Diff(a, b))
		require.True(t, slices.IsSorted(a.Features))
		require.NotEqual(t, string(a.Source), string(Random(seed+1000, 10).Source))
	}
}

// Every part of the language that is drawn comes up.
func TestFeaturesComeUp(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(160) {
		for _, f := range Random(seed, int(seed%2)*10).Features {
			seen[f] = true
		}
	}
	for _, f := range []string{
		"alternatives", "bold", "conditional edge", "constant", "control edge", "default by with", "direct edge", "error edge", "expression in with",
		"filter over a list", "guard by has", "index", "int arithmetic", "kind guard", "map over a list", "mixed arithmetic", "narrowing predicate",
		"optional index", "optional key", "optional port", "quantifier", "skill", "template object", "text with expressions", "transform",
		"transform reads input", "transform reads output", "type guard", "whole output",
	} {
		require.True(t, seen[f], f)
	}
}

// Schemas are nearly always of something, and values are of their schemas, of
// more than one notation of numbers and with what is optional there and not.
func TestInstances(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	empty := 0
	for range 300 {
		raw := marshal(schema(r, 3))
		compiled, err := schemas.Compile(raw)
		require.NoError(t, err, "%s", raw)
		values, err := NewInstances(raw)
		require.NoError(t, err)
		for range 5 {
			v, ok := values.Draw(r)
			if !ok {
				empty++
				break
			}
			require.NoError(t, compiled.Validate(v))
			require.True(t, values.Takes(v))
			back, err := schemas.Decode(marshal(v))
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(v, back))
		}
	}
	require.Less(t, empty, 30)

	values, err := NewInstances(json.RawMessage(`{"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 3}, "s": {"type": "string"}}, "additionalProperties": false}`))
	require.NoError(t, err)
	require.False(t, values.Takes(map[string]any{"n": json.Number("4")}))
	notations, with, without := map[json.Number]bool{}, 0, 0
	for range 300 {
		v, ok := values.Draw(r)
		require.True(t, ok)
		o := v.(map[string]any)
		notations[o["n"].(json.Number)] = true
		if _, there := o["s"]; there {
			with++
		} else {
			without++
		}
	}
	require.Greater(t, len(notations), 4)
	require.Positive(t, with)
	require.Positive(t, without)

	none, err := NewInstances(json.RawMessage(`{"type": "integer", "minimum": 2, "maximum": 1}`))
	require.NoError(t, err)
	_, ok := none.Draw(r)
	require.False(t, ok)
	_, err = NewInstances(json.RawMessage(`{"type": 1}`))
	require.Error(t, err)
}

// What is wider takes all that the narrower takes.
func TestWider(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 500 {
		narrow := schema(r, 2)
		wide, err := schemas.Compile(marshal(wider(r, narrow)))
		require.NoError(t, err)
		values, err := NewInstances(marshal(narrow))
		require.NoError(t, err)
		for range 5 {
			if v, ok := values.Draw(r); ok {
				require.NoError(t, wide.Validate(v), "%s", marshal(narrow))
			}
		}
	}
}
