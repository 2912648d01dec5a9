package plan_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/plan"
)

// decode is encoding/json's own reader, with numbers as they are written.
func decode(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, io.ErrUnexpectedEOF
	}
	return v, nil
}

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"null", ` null `, `null`},
		{"booleans", `[true, false]`, `[true,false]`},
		{"empty", `[{}, [], ""]`, `[{},[],""]`},
		{"keys by bytes", `{"b":1,"a":2,"B":3,"aa":4,"":5,"ä":6,"😀":7,"豈":8}`, `{"":5,"B":3,"a":2,"aa":4,"b":1,"ä":6,"豈":8,"😀":7}`},
		{"keys at each depth", `{"z":{"y":1,"x":[{"b":1,"a":2}]}}`, `{"z":{"x":[{"a":2,"b":1}],"y":1}}`},
		{"order of a list", `[3, 1, 2]`, `[3,1,2]`},
		{"numbers as written", `[1, 1.0, 1.00, 1e2, 1E+2, 100, -0, 0.1, 9007199254740993, 1e400]`, `[1,1.0,1.00,1e2,1E+2,100,-0,0.1,9007199254740993,1e400]`},
		{"escapes that are needed", `"\"\\\n\r\t\b\f\u0001\u001f"`, `"\"\\\n\r\t\b\f\u0001\u001f"`},
		{"escapes that are not", `"\/\u0041\u00e4<>&\u007f\ud83d\ude00"`, "\"/Aä<>&\x7f😀\""},
		{"line separators", "[\"\u2028\u2029\"]", `["\u2028\u2029"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := decode([]byte(c.in))
			require.NoError(t, err)
			got, err := plan.Canonical(v)
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
		})
	}
}

func TestCanonicalRefuses(t *testing.T) {
	for name, v := range map[string]any{
		"a float":          1.5,
		"an int":           1,
		"bytes":            []byte("x"),
		"a struct":         struct{}{},
		"deep inside":      map[string]any{"a": []any{json.Number("1"), int64(1)}},
		"a map of strings": map[string]string{"a": "b"},
		"not UTF-8":        "a\xff",
		"a key not UTF-8":  map[string]any{"\xff": nil},
		"no number":        json.Number(""),
		"not a number":     json.Number("NaN"),
		"hexadecimal":      json.Number("0x1"),
		"a leading zero":   json.Number("01"),
		"a plus":           json.Number("+1"),
		"no digits":        json.Number("-"),
		"an open fraction": json.Number("1."),
		"no whole part":    json.Number(".5"),
		"an open exponent": json.Number("1e"),
		"a signed nothing": json.Number("1e+"),
		"two values":       json.Number("1,2"),
		"white space":      json.Number("1 "),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := plan.Canonical(v)
			require.ErrorContains(t, err, "canonical JSON: ")
			require.Nil(t, got)
		})
	}
}

// value draws decoded JSON.
func value(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kinds := 6
		if depth == 0 {
			kinds = 4
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return rapid.Bool().Draw(t, "bool")
		case 2:
			return rapid.Map(rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,5})?([eE][+-]?[0-9]{1,2})?`),
				func(s string) json.Number { return json.Number(s) }).Draw(t, "number")
		case 3:
			return rapid.String().Draw(t, "string")
		case 4:
			return rapid.SliceOfN(value(depth-1), 0, 4).Draw(t, "list")
		}
		return rapid.MapOfN(rapid.String(), value(depth-1), 0, 4).Draw(t, "map")
	})
}

// TestCanonicalMeansTheSame says what canonical means: the bytes are the value
// and nothing else.
func TestCanonicalMeansTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := value(3).Draw(t, "value")
		raw, err := plan.Canonical(v)
		require.NoError(t, err)
		back, err := decode(raw)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(v, back))
		again, err := plan.Canonical(back)
		require.NoError(t, err)
		require.Equal(t, string(raw), string(again))

		other := value(3).Draw(t, "other")
		second, err := plan.Canonical(other)
		require.NoError(t, err)
		require.Equal(t, cmp.Equal(v, other), bytes.Equal(raw, second))
	})
}

// TestCanonicalForgetsLayout: white space and the order of keys do not count.
func TestCanonicalForgetsLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := value(3).Draw(t, "value")
		want, err := plan.Canonical(v)
		require.NoError(t, err)
		var wide bytes.Buffer
		require.NoError(t, json.Indent(&wide, shuffled(t, v), " ", "\t"))
		back, err := decode(wide.Bytes())
		require.NoError(t, err)
		got, err := plan.Canonical(back)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	})
}

// shuffled writes v with its keys in any order.
func shuffled(t *rapid.T, v any) []byte {
	switch v := v.(type) {
	case []any:
		parts := make([][]byte, len(v))
		for i := range v {
			parts[i] = shuffled(t, v[i])
		}
		return append(append([]byte{'['}, bytes.Join(parts, []byte{','})...), ']')
	case map[string]any:
		var keys []string
		for k := range v {
			keys = append(keys, k)
		}
		var parts []string
		for _, k := range rapid.Permutation(keys).Draw(t, "order") {
			key, _ := json.Marshal(k)
			parts = append(parts, string(key)+":"+string(shuffled(t, v[k])))
		}
		return []byte("{" + strings.Join(parts, ",") + "}")
	}
	raw, _ := json.Marshal(v)
	return raw
}

func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{
		`{"b":[1,2.50,-0e9],"a":{"\u0000":"\ud83d\ude00"}}`, `"\u2028"`, `[[[[]]]]`, `1e999999999`, "\"\xff\"", `{"a":1,"a":2}`, `"\ud800"`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := decode(raw)
		if err != nil {
			return
		}
		first, err := plan.Canonical(v)
		require.NoError(t, err)
		back, err := decode(first)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(v, back))
		second, err := plan.Canonical(back)
		require.NoError(t, err)
		require.Equal(t, string(first), string(second))
	})
}
