package schemas_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/schemas"
)

func TestDecode(t *testing.T) {
	v, err := schemas.Decode([]byte(" {\"a\\u00e9\\n\\\"\":[1,-0.5e+3,true,false,null,\"\\ud83d\\ude00/\\/\",{},[]]}\t"))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"aé\n\"": []any{
		json.Number("1"), json.Number("-0.5e+3"), true, false, nil, "😀//", map[string]any{}, []any{},
	}}, v)
}

func TestDecodeErrors(t *testing.T) {
	tests := []struct {
		text    string
		offset  int
		message string
	}{
		{"", 0, "the text ends where a JSON value is expected"},
		{"  ", 2, "the text ends"},
		{"[1,]", 3, `']' where a JSON value is expected`},
		{"[1 2]", 3, `'2' where ',' or ']' is expected`},
		{`{"a":1,}`, 7, `'}' where a key in double quotes is expected`},
		{`{a:1}`, 1, `'a' where a key`},
		{`{"a" 1}`, 5, `'1' where ':'`},
		{`{"a":1 "b":2}`, 7, `where ',' or '}'`},
		{`{"b":1,"a":2,"a":3}`, 13, `the key "a" stands twice in one object`},
		{`[01]`, 2, `'1' where ',' or ']'`},
		{`-`, 1, "a digit"},
		{`1.`, 2, "a digit"},
		{`1e`, 2, "a digit"},
		{`nul`, 0, "'n' where null is expected"},
		{`"abc`, 0, "does not end"},
		{`"a\`, 2, "an escape"},
		{"\"a\nb\"", 2, "control character"},
		{`"\x"`, 1, "an escape that JSON does not know"},
		{`"\ud800"`, 1, "half of a surrogate pair"},
		{`"\ud800\u0041"`, 1, "half of a surrogate pair"},
		{`"\udc00"`, 1, "half of a surrogate pair"},
		{"\"\xff\"", 0, "not UTF-8"},
		{"\"\\n\xff\"", 0, "not UTF-8"},
		{"{\"\xff\":1}", 1, "not UTF-8"},
		{`1 2`, 2, "data after the JSON value"},
		{"\ufeff1", 0, "where a JSON value is expected"},
		{`é`, 0, "'é'"},
	}
	for _, tt := range tests {
		_, err := schemas.Decode([]byte(tt.text))
		var se *schemas.SyntaxError
		require.ErrorAs(t, err, &se, "%q", tt.text)
		require.Contains(t, se.Message, tt.message, "%q", tt.text)
		require.Equal(t, tt.offset, se.Offset, "%q: %v", tt.text, se)
		require.NotErrorIs(t, err, schemas.ErrTooLarge)
	}
}

// drawJSON draws decoded JSON.
func drawJSON(r *rapid.T, depth int) any {
	switch rapid.IntRange(0, 4+min(depth, 2)).Draw(r, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(r, "bool")
	case 2:
		return json.Number(rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,5})?([eE][+-]?[0-9]{1,2})?`).Draw(r, "number"))
	case 3, 4:
		return rapid.String().Draw(r, "text")
	case 5:
		list := []any{}
		for range rapid.IntRange(0, 4).Draw(r, "n") {
			list = append(list, drawJSON(r, depth-1))
		}
		return list
	}
	object := map[string]any{}
	for range rapid.IntRange(0, 4).Draw(r, "n") {
		object[rapid.String().Draw(r, "key")] = drawJSON(r, depth-1)
	}
	return object
}

func TestDecodeReadsWhatIsWritten(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		v := drawJSON(r, 4)
		raw, err := json.MarshalIndent(v, "", rapid.SampledFrom([]string{"", " ", "\t"}).Draw(r, "indent"))
		require.NoError(r, err)
		got, err := schemas.Decode(raw)
		require.NoError(r, err)
		require.Empty(r, cmp.Diff(v, got))
	})
}

// standard reads with encoding/json.
func standard(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more data")
	}
	return v, nil
}

// Decode accepts nothing that encoding/json refuses, reads the rest the same, and
// refuses more only for its own reasons.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,2.5e3,"x\u00e9\ud83d\ude00",null,true,false,{}]}`, `{"a":1,"a":2}`, `"\ud800"`, "\"\xff\"", `[[[[]]]]`, `1e999`, `01`, `-`, `"\`, ` [ 1 , 2 ] `,
		`{"":""}`, `"\u0000"`, "\"\x7f\"", `1E+2`, `[1,]`, `tru`, `nulll`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := schemas.Decode(raw)
		want, stdErr := standard(raw)
		switch {
		case err == nil && stdErr != nil:
			t.Fatalf("%q is taken, but is no JSON: %v", raw, stdErr)
		case err == nil:
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%q is read differently: %s", raw, diff)
			}
		case stdErr == nil:
			own := errors.Is(err, schemas.ErrTooLarge) || !utf8.Valid(raw) ||
				strings.Contains(err.Error(), "stands twice") || strings.Contains(err.Error(), "surrogate")
			if !own {
				t.Fatalf("%q is refused: %v", raw, err)
			}
		}
	})
}
