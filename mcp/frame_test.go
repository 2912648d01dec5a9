//go:build unix

package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	f, err := parse([]byte(` {"result":{"n":9007199254740993},"id":7,"jsonrpc":"2.0","extra":[1]} ` + "\r\n"))
	require.NoError(t, err)
	require.Equal(t, frame{id: raw(`7`), result: raw(`{"n":9007199254740993}`)}, f)
	f, err = parse([]byte(`{"jsonrpc":"2.0","id":"a","method":"m","params":{}}`))
	require.NoError(t, err)
	require.Equal(t, frame{id: raw(`"a"`), method: "m"}, f)

	for _, line := range []string{
		``, `7`, `null`, `[]`, `{}`, `{`, `{"jsonrpc":"2.0"`, `{"jsonrpc":"2.0"} {}`, `{"jsonrpc":"2.0"}x`,
		`{"jsonrpc":"1.0"}`, `{"jsonrpc":2.0}`, `{"JSONRPC":"2.0"}`, `{"jsonrpc":"2.0","id":1,"id":2}`,
		`{"jsonrpc":"2.0","method":""}`, `{"jsonrpc":"2.0","method":7}`, `{"jsonrpc":"2.0","result":}`,
		`{"jsonrpc":"2.0","result":[}`, `{"jsonrpc":"2.0",}`, `{7:8}`,
		`{"jsonrpc":"2.0","result":` + strings.Repeat("[", 100_000),
	} {
		_, err := parse([]byte(line))
		require.Error(t, err, "%.80s", line)
	}
}

func TestWireID(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "7": 7, "123456789012345678": 123456789012345678} {
		got, ok := wireID([]byte(in))
		require.True(t, ok)
		require.Equal(t, want, got)
	}
	for _, in := range []string{"", "null", `"7"`, "-1", "1.0", "1e3", "9999999999999999999", "1 "} {
		_, ok := wireID([]byte(in))
		require.False(t, ok, in)
	}
}

func TestSkim(t *testing.T) {
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":12,"result":{"id":7}}`:              "12",
		`{"result":{"id":7,"x":[{"id":8}]}, "id" : 12 }`:           "12",
		`{"result":"\"id\":7","id":12}`:                            "12",
		`{"result":"id","x":7,"id":12`:                             "12",
		`{"result":"\\","id":12}`:                                  "12",
		`{"id":"12","result":{}}`:                                  "none",
		`{"id":null,"result":7}`:                                   "none",
		`{"result":{"id":7}}`:                                      "none",
		`[{"id":7}]`:                                               "none",
		`{"idx":7,"` + strings.Repeat("i", 100) + `":8,"result":0`: "none",
		`{"method":"m","id":12}`:                                   "call",
		`{"result":{"method":"m"},"id":12}`:                        "12",
	} {
		var s skim
		s.write([]byte(line))
		got := "none"
		if id, ok := s.id(); ok {
			got = fmt.Sprint(id)
		}
		if s.call {
			got = "call"
		}
		require.Equal(t, want, got, line)
	}
}

// Skimming any message in pieces finds the same id as reading it.
func TestSkimAgreesWithParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Custom(func(t *rapid.T) any {
			return rapid.OneOf(
				rapid.Just(any(nil)), rapid.Just(any("id")), rapid.Just(any(`"id":7,{[`)),
				rapid.Map(rapid.String(), func(s string) any { return s }),
				rapid.Map(rapid.Int(), func(n int) any { return n }),
				rapid.Map(rapid.MapOf(rapid.SampledFrom([]string{"id", "method", "a"}), rapid.Int()), func(m map[string]int) any { return m }),
				rapid.Map(rapid.SliceOf(rapid.String()), func(s []string) any { return s }),
			).Draw(t, "value")
		})
		message := rapid.MapOf(rapid.OneOf(rapid.SampledFrom([]string{"result", "error", "x", "i", "ID"}), rapid.StringMatching(`[a-z"\\]{0,30}`)), value).Draw(t, "message")
		delete(message, "method")
		message["jsonrpc"], message["id"] = "2.0", rapid.Int64Range(0, 1e17).Draw(t, "id")
		line, err := json.Marshal(message)
		require.NoError(t, err)
		f, err := parse(line)
		require.NoError(t, err)
		want, ok := wireID(f.id)
		require.True(t, ok)

		var s skim
		for rest := line; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			s.write(rest[:n])
			rest = rest[n:]
		}
		got, ok := s.id()
		require.True(t, ok)
		require.Equal(t, want, got)
		require.False(t, s.call)
	})
}

func TestNoise(t *testing.T) {
	var n noise
	now := time.Unix(1_000_000, 0)
	require.False(t, n.add(60, 100, now))
	require.False(t, n.add(40, 100, now.Add(time.Minute)))
	require.True(t, n.add(1, 100, now.Add(time.Minute)))
	require.False(t, n.add(100, 100, now.Add(2*time.Minute)), "a new minute")
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, `{"jsonrpc":"2.0","method":"m"}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-1}}`,
		`{"id":`, `[`, "\xff", `{"":{}}`, `{"jsonrpc":"2.0","id":1e5,"result":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var s skim
		s.write(line)
		if len(s.word) > skimLong || len(s.digits) > skimLong {
			t.Fatal("skimming keeps too much")
		}
		m, err := parse(line)
		if err != nil {
			return
		}
		if !json.Valid(line) {
			t.Fatal("took what is not JSON")
		}
		for _, part := range []json.RawMessage{m.id, m.result, m.fault} {
			if part != nil && !json.Valid(part) {
				t.Fatalf("%q is not JSON", part)
			}
		}
	})
}

func FuzzJudge(f *testing.F) {
	for _, seed := range []string{
		`{"content":[]}`, `{"isError":true}`, `{"content":[{"type":"text","text":"a"}],"isError":true,"structuredContent":{}}`,
		`null`, `7`, `[]`, `{"resultType":"input_required"}`, `{"code":-32602,"message":"m","data":{}}`, `{"code":1e999}`, `{"content":[null]}`,
	} {
		f.Add([]byte(seed), false, "")
		f.Add([]byte(seed), true, "roots/list")
	}
	c := &conn{name: "h"}
	f.Fuzz(func(t *testing.T, answer []byte, fault bool, asked string) {
		if !json.Valid(answer) {
			// The transport passes nothing else on.
			return
		}
		r := reply{asked: asked}
		r.result = answer
		if fault {
			r.result, r.fault = nil, answer
		}
		result, err := c.judge(t.Context(), "tool", r)
		switch {
		case err == nil:
			if fault || !json.Valid(result.Content) || result.Content[0] != '[' {
				t.Fatalf("took %s", answer)
			}
		case !err.Kind.Valid() || err.Message == "" || len(err.Message) > 4*maxMessage || len(err.Details) > maxDetails:
			t.Fatalf("%#v", err)
		case err.Details != nil && !json.Valid(err.Details):
			t.Fatalf("details %q", err.Details)
		}
	})
}

// TestEncode: the bytes of arguments, for which a permit is, are sent as they are.
func TestEncode(t *testing.T) {
	args := `{"a":"<b> & \u2028 ` + "\u2028" + `","n":1.50}`
	line, err := encode(map[string]any{"arguments": json.RawMessage(args)}, 1000)
	require.NoError(t, err)
	require.Equal(t, `{"arguments":`+args+"}\n", string(line))
	text := strings.Repeat("x", 98)
	line, err = encode(text, 100)
	require.NoError(t, err)
	require.Len(t, line, 101)
	_, err = encode(text, 99)
	require.ErrorAs(t, err, new(*oversize))
}
