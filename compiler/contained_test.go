package compiler

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/schemas"
)

func pooled(t testing.TB, u *unit, text string) *schema {
	t.Helper()
	v, err := schemas.Decode([]byte(text))
	require.NoError(t, err, text)
	s, err := u.pool.add(v)
	require.NoError(t, err)
	return s
}

func TestContained(t *testing.T) {
	for _, c := range []struct {
		left, right string
		want        bool
	}{
		{`{"type":"string"}`, `{"type":"string"}`, true},
		{`{"type":"string","title":"a"}`, `{"type":"string","description":"b"}`, true},
		{`{"type":"integer"}`, `{"type":"number"}`, true},
		{`{"type":"number"}`, `{"type":"integer"}`, false},
		{`{"type":"string"}`, `{"type":["string","null"]}`, true},
		{`{"type":["string","null"]}`, `{"type":"string"}`, false},
		{`{}`, `{"type":"string"}`, false},
		{`{"type":"string"}`, `{}`, true},
		{`{"type":"string"}`, `true`, true},
		{`true`, `{"format":"date"}`, true},
		{`false`, `{"type":"string"}`, true},
		{`{"type":"string"}`, `false`, false},
		{`{"enum":["a","b"]}`, `{"type":"string"}`, true},
		{`{"enum":["a",1]}`, `{"type":"string"}`, false},
		{`{"const":1.0}`, `{"type":"integer"}`, false},
		{`{"const":"a"}`, `{"enum":["a","b"]}`, true},
		{`{"enum":["a","c"]}`, `{"enum":["a","b"]}`, false},
		{`{"enum":["a"]}`, `{"enum":["a","b"],"const":"b"}`, false},
		{`{"type":"string","maxLength":3}`, `{"type":"string","maxLength":4}`, true},
		{`{"type":"string","maxLength":5}`, `{"type":"string","maxLength":4}`, false},
		{`{"type":"string"}`, `{"type":"string","maxLength":4}`, false},
		{`{"type":"number","minimum":1e1}`, `{"minimum":9.5}`, true},
		{`{"type":"number","minimum":1e300}`, `{"minimum":1}`, true},
		{`{"type":"string","pattern":"^a"}`, `{"type":"string","pattern":"^a"}`, true},
		{`{"type":"string","pattern":"^ab"}`, `{"type":"string","pattern":"^a"}`, false},
		{`{"type":"object","required":["a","b"]}`, `{"type":"object","required":["a"]}`, true},
		{`{"type":"object","required":["a"]}`, `{"type":"object","required":["a","b"]}`, false},
		{`{"type":"object"}`, `{"type":"object","required":[]}`, true},
		{`{"type":"object","properties":{"a":{"type":"integer"}}}`, `{"properties":{"a":{"type":"number"}}}`, true},
		{`{"type":"object"}`, `{"properties":{"a":{"type":"number"}}}`, false},
		{`{"type":"object","additionalProperties":false}`, `{"properties":{"a":{"type":"number"}}}`, true},
		{`{"type":"object","additionalProperties":false,"patternProperties":{"a":{}}}`, `{"properties":{"a":{"type":"number"}}}`, false},
		{`{"properties":{"a":{}},"additionalProperties":false}`, `{"properties":{"a":{}},"additionalProperties":false}`, true},
		{`{"properties":{"a":{},"b":{}},"additionalProperties":false}`, `{"properties":{"a":{}},"additionalProperties":false}`, false},
		{`{"properties":{"a":{"type":"integer"}},"additionalProperties":false}`, `{"additionalProperties":{"type":"number"}}`, true},
		{`{"properties":{"a":{"type":"string"}},"additionalProperties":false}`, `{"additionalProperties":{"type":"number"}}`, false},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"additionalProperties":{"type":"number"}}`, false},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"additionalProperties":{}}`, true},
		{`{"type":"array","items":{"type":"integer"}}`, `{"type":"array","items":{"type":"number"}}`, true},
		{`{"type":"array"}`, `{"type":"array","items":{"type":"number"}}`, false},
		{`{"type":"array","prefixItems":[{}],"items":{"type":"integer"}}`, `{"items":{"type":"integer"}}`, false},
		{`{"anyOf":[{"type":"string"},{"type":"null"}]}`, `{"type":["string","null"]}`, true},
		{`{"anyOf":[{"type":"string"},{"type":"integer"}]}`, `{"type":["string","null"]}`, false},
		{`{"type":"string"}`, `{"anyOf":[{"type":"string"},{"type":"null"}]}`, true},
		{`{"type":"string"}`, `{"oneOf":[{"type":"string"},{"type":"null"}]}`, false},
		{`{"allOf":[{"type":"string"},{"maxLength":3}]}`, `{"type":"string"}`, true},
		{`{"type":"string","maxLength":3}`, `{"allOf":[{"type":"string"},{"maxLength":4}]}`, true},
		{`{"type":"string"}`, `{"not":{"type":"null"}}`, false},
		{`{"$ref":"#/$defs/s","$defs":{"s":{"type":"string"}}}`, `{"type":"string"}`, true},
		{`{"type":"string"}`, `{"$ref":"#/$defs/s","$defs":{"s":{"type":"string"}}}`, true},
		{`{"$ref":"#/$defs/s","maxLength":3,"$defs":{"s":{"type":"string"}}}`, `{"type":"string"}`, false},
		{`{"$ref":"#"}`, `{"type":"string"}`, false},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","type":"integer"}`, `{"type":"number"}`, false},
		{`{"type":"string"}`, `{"type":"string","unevaluatedProperties":false}`, false},
		{`{"type":"string"}`, `{"type":"string","unknownKeyword":1}`, false},
		{`{"minimum":1,"exclusiveMinimum":1}`, `{"exclusiveMinimum":1}`, true},
	} {
		u := newUnit(Source{}, nil, nil)
		l, r := pooled(t, u, c.left), pooled(t, u, c.right)
		require.Equal(t, c.want, u.contained(l, r), "%s in %s", c.left, c.right)
	}
}

// TestContainedNeverLies takes random pairs of small schemas, and looks for a
// value that the left takes and the right refuses wherever containment is
// claimed.
func TestContainedNeverLies(t *testing.T) {
	values := []string{`null`, `true`, `0`, `1`, `2.5`, `-1`, `5`, `""`, `"a"`, `"ab"`, `"abc"`, `[]`, `[1]`, `["a"]`, `[1,"a"]`, `[null,null]`,
		`{}`, `{"a":1}`, `{"a":"a"}`, `{"b":1}`, `{"a":1,"b":"b"}`, `{"a":null,"c":true}`, `{"a":{"a":1}}`, `{"a":2.5}`, `{"c":"abc"}`}
	var decoded []any
	for _, v := range values {
		x, err := schemas.Decode([]byte(v))
		require.NoError(t, err)
		decoded = append(decoded, x)
	}
	r := rand.New(rand.NewPCG(3, 3))
	claimed := 0
	for range 30_000 {
		u := newUnit(Source{}, nil, nil)
		left, right := randomSchema(r, 2), randomSchema(r, 2)
		if r.IntN(2) == 0 {
			// Close relatives are contained more often.
			right = loosen(r, left)
		}
		lt, err := json.Marshal(left)
		require.NoError(t, err)
		rt, err := json.Marshal(right)
		require.NoError(t, err)
		l, rs := pooled(t, u, string(lt)), pooled(t, u, string(rt))
		if !u.contained(l, rs) || l == rs {
			continue
		}
		claimed++
		lc, err := l.compile()
		require.NoError(t, err)
		rc, err := rs.compile()
		require.NoError(t, err)
		for i, v := range decoded {
			if lc.Validate(v) == nil {
				require.NoError(t, rc.Validate(v), "%s is in %s and not in %s", values[i], lt, rt)
			}
		}
	}
	require.Greater(t, claimed, 1000)
}

func randomSchema(r *rand.Rand, depth int) any {
	if r.IntN(12) == 0 {
		return r.IntN(2) == 0
	}
	m := map[string]any{}
	types := []string{"string", "integer", "number", "null", "boolean", "object", "array"}
	for range 1 + r.IntN(3) {
		switch k := r.IntN(14); {
		case k < 3:
			m["type"] = types[r.IntN(len(types))]
		case k == 3:
			m["type"] = []string{types[r.IntN(3)], types[3+r.IntN(4)]}
		case k == 4:
			m["required"] = [][]string{{}, {"a"}, {"b"}, {"a", "b"}}[r.IntN(4)]
		case k == 5:
			m[[]string{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"}[r.IntN(6)]] = r.IntN(3)
		case k == 6:
			m[[]string{"minimum", "maximum", "exclusiveMinimum"}[r.IntN(3)]] = r.IntN(4)
		case k == 7:
			m["enum"] = [][]any{{1, "a"}, {"a", "b"}, {nil, true}, {1}}[r.IntN(4)]
		case k == 8:
			m["const"] = []any{1, "a", nil}[r.IntN(3)]
		case k == 9:
			m["additionalProperties"] = []any{false, true, map[string]any{"type": "integer"}}[r.IntN(3)]
		case depth == 0:
		case k <= 11:
			m["properties"] = map[string]any{[]string{"a", "b"}[r.IntN(2)]: randomSchema(r, depth-1)}
		case k == 12:
			m["items"] = randomSchema(r, depth-1)
		case k == 13:
			m[[]string{"anyOf", "allOf", "oneOf"}[r.IntN(3)]] = []any{randomSchema(r, depth-1), randomSchema(r, depth-1)}
		}
	}
	return m
}

// loosen takes keywords away, mostly, and now and then adds one.
func loosen(r *rand.Rand, v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return true
	}
	out := map[string]any{}
	for k, x := range m {
		switch r.IntN(4) {
		case 0:
		case 1:
			if sub, is := x.(map[string]any); is && k == "items" {
				x = loosen(r, sub)
			}
			out[k] = x
		default:
			out[k] = x
		}
	}
	if r.IntN(6) == 0 {
		extra, _ := randomSchema(r, 0).(map[string]any)
		for k, x := range extra {
			out[k] = x
		}
	}
	return out
}

// TestContainedPublicPairs holds containment to public pairs of schemas where
// they are at hand: no claim may be wrong.
func TestContainedPublicPairs(t *testing.T) {
	const file = "../../shared/data/subschema/pairs.jsonl"
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		t.Logf("no public pairs on this machine; the random pairs stand alone")
		return
	}
	require.NoError(t, err)
	claimed, possible := 0, 0
	dec := json.NewDecoder(bytes.NewReader(text))
	for dec.More() {
		var pair struct {
			ID       string
			LHS, RHS json.RawMessage
			Expected bool
			V5       bool `json:"v5_ok"`
		}
		require.NoError(t, dec.Decode(&pair))
		if !pair.V5 {
			continue
		}
		u := newUnit(Source{}, nil, nil)
		l, lerr := schemas.Decode(pair.LHS)
		r, rerr := schemas.Decode(pair.RHS)
		if lerr != nil || rerr != nil {
			continue
		}
		ls, err := u.pool.add(l)
		require.NoError(t, err)
		rs, err := u.pool.add(r)
		require.NoError(t, err)
		if pair.Expected {
			possible++
		}
		if u.contained(ls, rs) {
			claimed++
			require.True(t, pair.Expected, "%s: %s in %s", pair.ID, pair.LHS, pair.RHS)
		}
	}
	t.Logf("%d of %d containments are obvious", claimed, possible)
	require.Positive(t, claimed)
}
