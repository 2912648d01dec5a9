package schemas_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/schemas"
)

// TestSettled: a $dynamicRef that can lead to one schema only is an ordinary
// reference, so it means the same in a part of the document.
func TestSettled(t *testing.T) {
	for _, c := range []struct {
		schema  string
		settled bool
	}{
		{`{"$dynamicAnchor":"n","type":["object","null"],"properties":{"a":{"$dynamicRef":"#n"}}}`, true},
		{`{"type":"object","properties":{"a":{"$dynamicRef":"#n"}},"$defs":{"n":{"$dynamicAnchor":"n","type":"null"}}}`, true},
		{`{"properties":{"a":{"$dynamicRef":"#n"}},"$defs":{"n":{"$anchor":"n","type":"null"}}}`, true},
		{`{"properties":{"a":{"$dynamicRef":"#/$defs/n"}},"$defs":{"n":{"$dynamicAnchor":"n","type":"null"}}}`, true},
		// The root has an anchor of that name, which replaces that of the part.
		{`{"$id":"https://example.com/root","$ref":"list","$defs":{"n":{"$dynamicAnchor":"n","type":"null"},"list":{"$id":"list","properties":{"a":{"$dynamicRef":"#n"}},"$defs":{"n":{"$dynamicAnchor":"n"}}}}}`, true},
		{`{"$id":"https://example.com/root","$ref":"list","$defs":{"n":{"$dynamicAnchor":"n","type":"null"},"list":{"$id":"list","properties":{"a":{"$dynamicRef":"#/$defs/n"}},"$defs":{"n":{"$dynamicAnchor":"n"}}}}}`, true},
		{`{"$id":"https://example.com/root","$ref":"list","$defs":{"n":{"$dynamicAnchor":"n","type":"null"},"list":{"$id":"list","properties":{"a":{"$dynamicRef":"#n"}},"$defs":{"n":{"$anchor":"n","$dynamicAnchor":"m"}}}}}`, true},
		// What was entered before then and else is forgotten.
		{`{"$id":"https://example.com/root","if":true,"then":{"$ref":"list"},"$defs":{"n":{"$dynamicAnchor":"n","type":"null"},"list":{"$id":"list","properties":{"a":{"$dynamicRef":"#n"}},"$defs":{"n":{"$dynamicAnchor":"n"}}}}}`, false},
		// An anchor in a place of no keyword.
		{`{"$ref":"#/more/list","more":{"n":{"$dynamicAnchor":"n"},"list":{"properties":{"a":{"$dynamicRef":"#n"}}}},"$defs":{"n":{"$dynamicAnchor":"n","type":"null"}},"const":{"$dynamicAnchor":1}}`, false},
	} {
		s, err := schemas.Compile([]byte(c.schema))
		if err != nil {
			require.False(t, c.settled, "%s: %v", c.schema, err)
			continue
		}
		at := s.Compiled()
		if at.Ref != nil {
			at = at.Ref
		}
		if at.Then != nil {
			at = at.Then.Ref
		}
		a := at.Properties["a"]
		require.Equal(t, c.settled, a.DynamicRef == nil, c.schema)
		for _, v := range []string{`{"a":null}`, `{"a":1}`, `{"a":{"a":1}}`, `{"a":{"a":null}}`} {
			_, err := s.ValidateJSON([]byte(v))
			require.Equal(t, bareValidate(t, c.schema, v) == nil, err == nil, "%s of %s", v, c.schema)
		}
		if c.settled {
			part := schemas.Wrap(a)
			for _, v := range []string{`null`, `1`, `{"a":1}`, `{"a":null}`} {
				_, alone := part.ValidateJSON([]byte(v))
				_, inside := s.ValidateJSON([]byte(`{"a":` + v + `}`))
				require.Equal(t, inside == nil, alone == nil, "%s of %s", v, c.schema)
			}
		}
	}
}

// Of several anchors the library takes any, each time another one.
func TestTrapDynamicAnchors(t *testing.T) {
	schema := `{"$id":"https://example.com/root","$ref":"list","$defs":{"n":{"$dynamicAnchor":"n","type":"null"},"o":{"$id":"o","$dynamicAnchor":"n"},"list":{"$id":"list","properties":{"a":{"$dynamicRef":"#n"}},"$defs":{"n":{"$dynamicAnchor":"n"}}}}}`
	said := map[bool]bool{}
	for range 200 {
		said[bareValidate(t, schema, `{"a":1}`) == nil] = true
	}
	require.Len(t, said, 2)
	_, err := schemas.Compile([]byte(schema))
	require.EqualError(t, err, `compile schema: at "/$defs/list/properties/a": the $dynamicRef could lead to any of 2 dynamic anchors "n"`)
}

// TestSettledAsTheLibrary: with dynamic references settled, values are judged as
// the library does without.
func TestSettledAsTheLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	settled, kept := 0, 0
	for range 400 {
		schema := drawDynamic(r)
		s, err := schemas.Compile([]byte(schema))
		if err != nil {
			continue
		}
		if !strings.Contains(schema, "$dynamicRef") {
			continue
		}
		if _, err := schemas.Wrap(s.Compiled()).ValidateJSON([]byte(`0`)); err != nil && strings.Contains(err.Error(), "depends on the whole") {
			kept++
		} else {
			settled++
		}
		for _, v := range []string{`0`, `1`, `2`, `{}`, `{"a":0}`, `{"a":1}`, `{"a":2}`, `{"a":{"a":0}}`, `{"a":{"a":1}}`, `{"a":{"b":1}}`, `{"b":{"a":2}}`, `{"b":0,"a":2}`} {
			// Where there is a then, nothing is settled, and the library may take any.
			if _, err := s.ValidateJSON([]byte(v)); !strings.Contains(schema, "then") {
				require.Equal(t, bareValidate(t, schema, v) == nil, err == nil, "%s of %s", v, schema)
			}
		}
	}
	t.Logf("%d settled, %d not", settled, kept)
	require.Greater(t, settled, 30)
	require.Greater(t, kept, 3)
}

// drawDynamic draws a document of some resources with anchors of the same names.
func drawDynamic(r *rand.Rand) string {
	names := []string{"n", "m"}
	leaf := func() string {
		return []string{`"not":{"const":0}`, `"not":{"const":1}`, `"maximum":1`, `"minimum":1`}[r.IntN(4)]
	}
	reference := func() string {
		to := []string{"#n", "#m", "#/$defs/x", "a#n", "b#n", "#"}[r.IntN(6)]
		return fmt.Sprintf(`{%q:%q,%s}`, []string{"$dynamicRef", "$dynamicRef", "$ref"}[r.IntN(3)], to, leaf())
	}
	resource := func(id string, depth int, inner string) string {
		parts := []string{leaf()}
		if id != "" {
			parts = append(parts, fmt.Sprintf(`"$id":%q`, id))
		}
		if r.IntN(2) == 0 {
			parts = append(parts, fmt.Sprintf(`"$dynamicAnchor":%q`, names[r.IntN(2)]))
		}
		parts = append(parts, fmt.Sprintf(`"properties":{"a":%s,"b":%s}`, reference(), reference()))
		anchor := []string{"$anchor", "$dynamicAnchor", "$dynamicAnchor"}[r.IntN(3)]
		parts = append(parts, fmt.Sprintf(`"$defs":{"x":{%q:%q,%s}%s}`, anchor, names[r.IntN(2)], leaf(), inner))
		switch r.IntN(6) {
		case 0:
			parts = append(parts, fmt.Sprintf(`"if":{%s},"then":{"properties":{"a":%s}}`, leaf(), reference()))
		case 1, 2:
			if depth == 0 {
				parts = append(parts, `"allOf":[{"$ref":"a"}]`)
			}
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	inner := `,"a":` + resource("a", 1, "")
	if r.IntN(2) == 0 {
		inner += `,"b":` + resource("b", 1, "")
	}
	return resource("https://example.com/root", 0, inner)
}
