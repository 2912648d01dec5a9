package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/fingerprint"
)

func TestSideBySide(t *testing.T) {
	for _, c := range []struct {
		name, was, is string
		want          []string
	}{
		{"short", `"a"`, `"b"`, []string{`  "a"         | "b"`}},
		{"gone", `"a"`, absentValue, []string{`  "a"         | (not there)`}},
		{"rows", `"0123456789 12"`, `"b"`, []string{`  "0123456789 | "b"`, `   12"        |`}},
		{"wide", `"東京都庁舎前"`, `"b"`, []string{`  "東京都庁舎 | "b"`, `  前"         |`}},
		{"long", strings.Repeat("x", 100), strings.Repeat("x", 80) + "y", []string{
			"  - ... " + strings.Repeat("x", 19), "  - " + strings.Repeat("x", 23), "  - " + strings.Repeat("x", 23), "  - " + strings.Repeat("x", 15),
			"  + ... " + strings.Repeat("x", 19), "  + " + strings.Repeat("x", 23), "  + " + strings.Repeat("x", 18) + "y"}},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, sideBySide(c.was, c.is, 27)) })
	}
	rapid.Check(t, func(t *rapid.T) {
		was, is := foreign(rapid.String().Draw(t, "was")), foreign(rapid.String().Draw(t, "is"))
		for _, row := range sideBySide(was, is, minDiffWidth) {
			require.LessOrEqual(t, columns(row), minDiffWidth)
		}
	})
	// What differs far behind is shown, and no more of it than there is room for.
	rows := strings.Join(sideBySide(strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<19)+"evil"+strings.Repeat("x", 1<<19), diffWidth), "\n")
	require.Contains(t, rows, "evil")
	require.Less(t, len(rows), 3*diffText)
	require.Contains(t, rows, "bytes more)")
}

func TestChanged(t *testing.T) {
	var out bytes.Buffer
	(&Program{Stdout: &out}).changed([]fingerprint.Change{
		{Part: fingerprint.Prose, Path: "/title", Was: json.RawMessage(`"a"`), Is: json.RawMessage("\"a\u202eb\"")},
		{Part: "endpoint", Was: json.RawMessage(`["x"]`)},
	})
	require.Equal(t, "prose: /title\n  \"a\"                                             | \"a\\u{202E}b\"\nendpoint:\n  [\"x\"]                                           | (not there)\n", out.String())
}
