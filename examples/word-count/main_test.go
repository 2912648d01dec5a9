package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		args           []string
		code           int
	}{
		{"words and lines", `{"text":"one two\n  three"}`, `{"words":3,"lines":2}`, []string{"count"}, 0},
		{"last line break", `{"text":"one\n"}`, `{"words":1,"lines":1}`, []string{"count"}, 0},
		{"empty", `{"text":""}`, `{"words":0,"lines":0}`, []string{"count"}, 0},
		{"no text", `{}`, `{"error":{"message":"the input has no text"}}`, []string{"count"}, 1},
		{"sum", `{"a":1,"b":41}`, `{"total":42}`, []string{"sum"}, 0},
		{"sum of nothing", `{}`, `{"total":0}`, []string{"sum"}, 0},
		{"negative", `{"a":-1}`, `{"error":{"message":"a number is negative, or the sum is too large"}}`, []string{"sum"}, 1},
		{"overflow", `{"a":9223372036854775807,"b":1}`, `{"error":{"message":"a number is negative, or the sum is too large"}}`, []string{"sum"}, 1},
		{"unknown operation", `{}`, `{"error":{"message":"there is no operation \"mean\", only count and sum"}}`, []string{"mean"}, 1},
		{"no operation", `{}`, `{"error":{"message":"usage: word-count OPERATION"}}`, nil, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			require.Equal(t, c.code, run(c.args, strings.NewReader(c.in), &out))
			require.JSONEq(t, c.want, out.String())
		})
	}
	var out bytes.Buffer
	require.Equal(t, 1, run([]string{"count"}, strings.NewReader("rubbish"), &out))
	require.Contains(t, out.String(), "read the input")
}
