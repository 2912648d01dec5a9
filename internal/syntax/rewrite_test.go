package syntax

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
)

// at writes a position.
func at(p diag.Pos) string { return fmt.Sprintf("%d:%d", p.Line, p.Column) }

// between is the text of a file in a range.
func between(text string, r diag.Range) string { return text[r.Start.Byte:r.End.Byte] }

// rewritten is the entry of a file in another form: what stands in < and > of the pattern is
// written anew, and what stands outside of them is copied from origin on.
func rewritten(origin *Value, parts ...any) *Value {
	var text strings.Builder
	var spans []Span
	done := 0
	for _, p := range parts {
		switch p := p.(type) {
		case int: // copied up to there
			spans = append(spans, Span{Start: text.Len(), Origin: done, End: p, Copied: true})
			text.WriteString(origin.Text[done:p])
			done = p
		case [2]string: // another text in the place of one
			spans = append(spans, Span{Start: text.Len(), Origin: done, End: done + len(p[0])})
			text.WriteString(p[1])
			done += len(p[0])
		}
	}
	return origin.Rewrite(text.String(), spans, nil, false)
}

// TestRewritePositions: a place in copied text is that of the text, one in another text is that
// of the whole that it replaces. The end of a range belongs to what stands before it.
func TestRewritePositions(t *testing.T) {
	for _, c := range []struct{ name, file, text string }{
		{"plain", "k: ${nodes.a.x} + b\n", "${nodes.a.x} + b"},
		{"single quotes", "k: '${nodes.a.x} + b'\n", "${nodes.a.x} + b"},
		{"double quotes", "k: \"${nodes.a.x} + b\"\n", "${nodes.a.x} + b"},
		{"escapes", `k: "\x24{nodes\u002ea.x} \x2b b"` + "\n", "${nodes.a.x} + b"},
		{"literal", "k: |-\n  ${nodes.a.x} + b\n", "${nodes.a.x} + b"},
		{"folded", "k: >-\n  ${nodes.a.x}\n  + b\n", "${nodes.a.x} + b"},
		{"lines", "k: \"${nodes.a.x}\n  + b\"\n", "${nodes.a.x} + b"},
		{"JSON", `{"k": "${nodes.a.x} + b"}`, "${nodes.a.x} + b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := parseOne(t, c.file).Get("k")
			require.Equal(t, c.text, v.Text)
			w := rewritten(v, 2, [2]string{"nodes.a.x", "value"}, len(c.text)) // ${value} + b
			require.Equal(t, "${value} + b", w.Text)
			require.Equal(t, v.Range(), w.Range(), "it stands where the string does")
			for offset, origin := range []int{0, 1, 2, 2, 2, 2, 2, 11, 12, 13, 14, 15, 16} {
				require.Equal(t, v.At(origin), w.At(offset), "%d", offset)
			}
			require.Equal(t, v.At(0), w.At(-1))
			require.Equal(t, v.At(16), w.At(100))
			for _, r := range [][4]int{
				{2, 7, 2, 11}, // the whole of what was replaced
				{3, 4, 2, 11}, // a part of it
				{0, 2, 0, 2},  // up to its start
				{7, 8, 11, 12},
				{0, 7, 0, 11},
				{0, 12, 0, 16},
				{5, 9, 2, 13},
				{9, 5, 13, 13}, // a range ends no sooner than it starts
				{2, 2, 2, 2},
				{0, 0, 0, 0},
			} {
				got := w.Sub(r[0], r[1])
				require.Equal(t, v.At(r[2]), got.Start, "%v", r)
				require.Equal(t, v.At(r[3]), got.End, "%v", r)
				require.Equal(t, "f", got.File)
			}
		})
	}
}

// TestRewriteRanges cuts the ranges out of the file.
func TestRewriteRanges(t *testing.T) {
	const file = "a: 1\nk: \"\\u00e9 ${nodes['\\x61'].x} \\u{1}\"\n"
	docs, _ := Parse("f", []byte(strings.Replace(file, `\u{1}`, `\U0001f600`, 1)), Limits{})
	text := strings.Replace(file, `\u{1}`, `\U0001f600`, 1)
	v := docs[0].Root.Get("k")
	require.Equal(t, "é ${nodes['a'].x} 😀", v.Text)
	w := rewritten(v, len("é ${"), [2]string{"nodes['a'].x", "value.of_it"}, len(v.Text))
	require.Equal(t, "é ${value.of_it} 😀", w.Text)
	require.Equal(t, `nodes['\x61'].x`, between(text, w.Sub(5, 16)))
	require.Equal(t, `nodes['\x61'].x`, between(text, w.Sub(6, 7)))
	require.Equal(t, `\u00e9`, between(text, w.Sub(0, 2)))
	require.Equal(t, `\U0001f600`, between(text, w.Sub(18, 22)))
	require.Equal(t, `${nodes['\x61'].x}`, between(text, w.Sub(3, 17)))
	require.Equal(t, w.At(0), w.At(1), "inside of a character")

	// A string may be rewritten again.
	again := rewritten(w, len("é ${"), [2]string{"value.of_it", "v"}, len(w.Text))
	require.Equal(t, "é ${v} 😀", again.Text)
	require.Equal(t, `nodes['\x61'].x`, between(text, again.Sub(5, 6)))
	require.Equal(t, `\U0001f600`, between(text, again.Sub(8, 12)))
	require.Same(t, v, again.Origin())
	require.Same(t, v, w.Origin())
	require.Same(t, v, v.Origin())
}

// TestRewriteEdges: texts that are replaced at either end, next to each other, or left out.
func TestRewriteEdges(t *testing.T) {
	const file = "k: abcdef\n"
	v := parseOne(t, file).Get("k")
	w := rewritten(v, [2]string{"ab", "X"}, [2]string{"cd", "YY"}, [2]string{"ef", "ZZZ"})
	require.Equal(t, "XYYZZZ", w.Text)
	for r, want := range map[[2]int]string{{0, 1}: "ab", {1, 3}: "cd", {1, 2}: "cd", {3, 6}: "ef", {0, 3}: "abcd", {2, 4}: "cdef", {0, 6}: "abcdef"} {
		require.Equal(t, want, between(file, w.Sub(r[0], r[1])), "%v", r)
	}
	// A text that stands for a later part alone.
	part := v.Rewrite("d + 1", []Span{{Start: 0, Origin: 3, End: 4, Copied: true}, {Start: 1, Origin: 3, End: 4}}, nil, true)
	require.Equal(t, "d", between(file, part.Sub(0, 1)))
	require.Equal(t, "d", between(file, part.Sub(0, 5)))
	require.Equal(t, "d", between(file, part.Sub(2, 4)))
	// Without spans all is at its start.
	none := v.Rewrite("other", nil, nil, false)
	require.Equal(t, v.At(0), none.At(3))
	require.Equal(t, v.Range().File, none.Sub(0, 5).File)
	require.Equal(t, v.At(0), none.Sub(0, 5).End)
	// An alias means where the text is written.
	root := parseOne(t, "a: &x abcdef\nb: *x\n")
	alias := rewritten(root.Get("b"), 2, [2]string{"cd", "Y"}, 6)
	require.Equal(t, "1:9", at(alias.At(2)))
	require.Equal(t, "1:11", at(alias.Sub(2, 3).End))
	require.Equal(t, "1:11", at(alias.At(3)))
}

func TestAuthored(t *testing.T) {
	v := parseOne(t, "k: abcdef\n").Get("k")
	replace := func(text string, names map[string]string) string {
		for name, other := range names {
			text = strings.ReplaceAll(text, name, other)
		}
		return text
	}
	w := v.Rewrite("value", nil, map[string]string{"value": "nodes.a.x"}, false)
	require.Equal(t, "nodes.a.x > 3", w.Authored("value > 3", replace))
	require.Equal(t, "value > 3", v.Authored("value > 3", replace))
	require.Equal(t, "value > 3", v.Rewrite("value", nil, nil, false).Authored("value > 3", replace))
	require.Equal(t, "value > 3", (*Value)(nil).Authored("value > 3", replace))
}

// TestWhole: another text may take the place of what is written, or stands for all of that.
func TestWhole(t *testing.T) {
	root := parseOne(t, "a: b\nl: [1]\nm: {x: 1}\nn:\nq: 'x'\nz: |\n  x\n")
	for _, key := range []string{"a", "l", "m", "q", "z"} {
		require.True(t, root.Get(key).Whole(), key)
	}
	require.True(t, root.Whole())
	a := root.Get("a")
	require.True(t, a.Rewrite("c", nil, nil, false).Whole())
	require.False(t, a.Rewrite("c", nil, nil, true).Whole())
	require.True(t, a.Rewrite("c", nil, nil, false).Rewrite("d", nil, nil, false).Whole())
	require.False(t, a.Rewrite("c", nil, nil, true).Rewrite("d", nil, nil, false).Whole())
	require.False(t, a.TextAs("c").Whole())
	require.False(t, a.TextAs("c").Rewrite("d", nil, nil, false).Whole())
	require.False(t, root.Get("n").Whole(), "it is not there")
	require.False(t, (*Value)(nil).Whole())
	require.Nil(t, (*Value)(nil).Origin())
}

// TestAs: what is not written in the file has the range of what it stands for.
func TestAs(t *testing.T) {
	const file = "k: 'a b' # c\n"
	v := parseOne(t, file).Get("k")
	require.True(t, v.Commented())
	s := v.TextAs("other text")
	require.Equal(t, String, s.Kind)
	require.Equal(t, "other text", s.Any())
	require.Equal(t, v.Range(), s.Range())
	require.Equal(t, v.Range().Start, s.At(5))
	require.False(t, s.Commented())
	require.False(t, s.Plain())
	require.Equal(t, "a b", v.Text, "the other is as it was")
	require.Equal(t, json.Number("12"), v.ScalarAs(Number, "12").Any())
	require.Equal(t, true, v.ScalarAs(Bool, "true").Any())
	require.Nil(t, v.ScalarAs(Null, "").Any())
	require.Equal(t, v.Range().Start, v.Rewrite("x", nil, nil, false).TextAs("y").At(0), "no spans are left")

	decoded := map[string]any{
		"type": "object", "a": []any{nil, true, json.Number("1.50"), "s", []any{}, map[string]any{}},
		"z": map[string]any{"b": false, "type": "x", "A": "y"},
	}
	made := v.AnyAs(decoded)
	require.Equal(t, decoded, made.Any())
	var keys []string
	var visit func(v *Value)
	visit = func(x *Value) {
		require.Equal(t, v.Range(), x.Range())
		for _, item := range x.Items {
			visit(item)
		}
		for _, f := range x.Fields {
			keys = append(keys, f.Key.Text)
			require.Equal(t, String, f.Key.Kind)
			require.Equal(t, v.Range(), f.Key.Range())
			visit(f.Value)
		}
	}
	visit(made)
	require.Equal(t, []string{"type", "a", "z", "type", "A", "b"}, keys, "what people read first, and then by name")
	require.Equal(t, "1.50", made.Get("a").Items[2].Text, "numbers stay as they are written")
	require.Panics(t, func() { v.AnyAs(1) })
}
