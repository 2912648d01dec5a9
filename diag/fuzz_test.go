package diag

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

var (
	// ansi are the sequences that colours consist of.
	ansi = strings.NewReplacer(red, "", yellow, "", blue, "", cyan, "", bold, "", reset, "")
	// margins are what every line starts with behind the first of a finding: a line
	// number or the room for one, dots for lines left out, or the name of a file.
	margins = regexp.MustCompile(`^(?: *\d* \|| +(?:=|:::|  ) ?|\.\.\.$)`)
)

// FuzzWrite: whatever a file holds, wherever a finding says that it stands, and
// whatever it says, the writers do not panic, write nothing that a terminal acts
// on, nothing that could be taken for another finding, and not much more than
// they were given.
func FuzzWrite(f *testing.F) {
	for _, s := range []struct {
		src, text         string
		a, b, line, lines int
		times             int
	}{
		{"nodes:\n  - {id: a}\n", "a `summary`", 12, 14, 2, 0, 1},
		{"a: b\r\nc: d\r\ne: f\r\n", "one\ntwo\r\nthree", 0, 14, 1, 2, 1},
		{"", "", 0, 0, 1, 0, 1},
		{"a", "out of bounds", -1, 2, 1, 0, 1},
		{"a\n\n\n", "at the end", 4, 4, 5, 0, 1},
		{"a: \x1b]0;owned\a\x1b[2J\x9b1m", "\x1b[31m red \u009b", 3, 9, 1, 0, 1},
		{"a: \u202eevil\u2066 \u200b\u2028\ufeff\U000e0041", "\u202e\u2067bidi\u2069", 3, 8, 1, 0, 1},
		{"\xff\xfe\xc3(\xed\xa0\x80\xf4\x90\x80\x80", "\xff\xc3", 1, 5, 1, 0, 1},
		{"\xef\xbb\xbfname: x", "byte order mark", 0, 9, 1, 0, 1},
		{"w", "one long line", 69_990, 70_001, 1, 0, 70_000},
		{"\n", "many lines", 3, 69_000, 4, 68_997, 70_000},
		{"\t\t\u3000集計\t: ☕\u0301\u0301", "\t wide \u3000", 5, 11, 1, 0, 1},
		{"x", "error[plan/syntax]: forged\nplan.yaml:1:1: error[plan/syntax]: forged", 0, 1, 1, 0, 1},
		{"x\n", strings.Repeat("é", 700), 0, 1, 1, 0, 1},
	} {
		f.Add([]byte(s.src), s.text, s.a, s.b, s.line, s.lines, s.times, true)
	}
	f.Fuzz(func(t *testing.T, src []byte, text string, a, b, line, lines, times int, right bool) {
		// A short text many times over makes long lines, and many.
		if times > 1 && len(src) > 0 {
			src = bytes.Repeat(src, min(times, 200_000/len(src)+1))
		}
		at := func(b, line int) Pos {
			if right && b >= 0 && b <= len(src) {
				return place(string(src), b)
			}
			return Pos{Line: line, Column: line, Byte: b}
		}
		r := Range{"f", at(a, line), at(b, line+lines)}
		back := Range{"f", r.End, r.Start}
		other := Range{text, r.Start, r.End}
		ds := Diagnostics{
			{Code: Code(text), Severity: Error, Summary: text, Detail: text, Subject: r, Label: text, Context: back, Node: text, Edge: text, Witness: text, Before: text, Suggestion: text,
				Related: []Related{{r, text}, {back, text}, {other, text}, {Range{File: "f"}, text}, {other, ""}, {r, text}}},
			{Severity: Severity(text), Subject: other, Context: r, Witness: text},
			{Subject: back, Related: []Related{{r, text}}},
		}
		ds.Sort()
		sources := map[string][]byte{"f": src, text: src}
		var plain, color bytes.Buffer
		require.NoError(t, ds.WriteText(&plain, sources, false))
		require.NoError(t, ds.WriteText(&color, sources, true))
		require.Equal(t, plain.String(), ansi.Replace(color.String()), "colours change nothing else")
		require.True(t, utf8.Valid(plain.Bytes()))
		for _, c := range plain.String() {
			require.True(t, c == '\n' || unicode.IsPrint(c), "%q is written", c)
		}
		require.LessOrEqual(t, plain.Len(), 100_000+120*len(text))
		for _, finding := range strings.Split(strings.TrimSuffix(plain.String(), "\n"), "\n\n") {
			for i, l := range strings.Split(finding, "\n") {
				require.True(t, i == 0 || margins.MatchString(l), "%q could be taken for a finding", l)
			}
		}

		raw, err := json.Marshal(ds)
		require.NoError(t, err)
		require.True(t, printable(string(raw)), "%s", raw)
		var read []map[string]any
		require.NoError(t, json.Unmarshal(raw, &read))
		require.Len(t, read, len(ds))
		for i, d := range ds {
			require.Equal(t, string([]rune(d.Summary)), read[i]["summary"])
			require.EqualValues(t, d.Subject.Start.Line, read[i]["line"])
		}
	})
}
