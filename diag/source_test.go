package diag

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestSource: lines are found as by looking at the whole text.
func TestSource(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "\n", "\r\n", "\r", "é", strings.Repeat("w", blockSize-1), strings.Repeat("w", blockSize), strings.Repeat("\n", blockSize/2)}), 0, 8).Draw(t, "pieces")
		text := []byte(strings.Join(pieces, ""))
		s := newSource(text)
		for range 8 {
			at := rapid.IntRange(0, len(text)).Draw(t, "at")
			lines := bytes.Count(text[:at], newline)
			start := bytes.LastIndexByte(text[:at], '\n') + 1
			end := len(text)
			if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
				end = at + n
			}
			if end > at && text[end-1] == '\r' {
				end--
			}
			require.Equal(t, lines, s.newlines(at))
			require.Equal(t, start, s.lineStart(at))
			require.Equal(t, end, s.lineEnd(at))
			p := Pos{Line: lines + 1, Column: 1, Byte: at}
			require.True(t, s.fits(Range{Start: p, End: p}))
			p.Line++
			require.False(t, s.fits(Range{Start: p, End: p}))
		}
	})
}

// TestThreeLines: between the first and the last line of three stands the second,
// however lines end.
func TestThreeLines(t *testing.T) {
	for _, end := range []string{"\n", "\r\n"} {
		src := strings.Join([]string{"one: 1", "two: 2", "three: 3", ""}, end)
		var out bytes.Buffer
		d := Diagnostic{Code: PlanSchema, Severity: Error, Summary: "s", Subject: Range{"f", place(src, 0), place(src, strings.Index(src, "3"))}}
		require.NoError(t, Diagnostics{d}.WriteText(&out, map[string][]byte{"f": []byte(src)}, false))
		require.Contains(t, out.String(), "1 | one: 1\n")
		require.Contains(t, out.String(), "2 | two: 2\n")
		require.Contains(t, out.String(), "3 | three: 3\n")
	}
}
