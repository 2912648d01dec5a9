package syntax

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// parseOne reads a text of one document without findings.
func parseOne(t testing.TB, text string) *Value {
	t.Helper()
	docs, diags := Parse("f", []byte(text), Limits{})
	require.Empty(t, diags)
	require.Len(t, docs, 1)
	return docs[0].Root
}

// outline writes a value with the ranges of all its parts.
func outline(v *Value) string {
	at := fmt.Sprintf(" %d:%d-%d:%d", v.Range().Start.Line, v.Range().Start.Column, v.Range().End.Line, v.Range().End.Column)
	var parts []string
	switch v.Kind {
	case List:
		for _, item := range v.Items {
			parts = append(parts, outline(item))
		}
		return "[" + strings.Join(parts, ", ") + "]" + at
	case Map:
		for _, f := range v.Fields {
			parts = append(parts, outline(f.Key)+": "+outline(f.Value))
		}
		return "{" + strings.Join(parts, ", ") + "}" + at
	case String:
		return fmt.Sprintf("%q", v.Text) + at
	case Null:
		return "null" + at
	}
	return v.Text + at
}

func TestRanges(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"plain", "a: b c  # d\n", `{"a" 1:1-1:2: "b c" 1:4-1:7} 1:1-1:7`},
		{"multi-byte", "é: 集 ü\n", `{"é" 1:1-1:2: "集 ü" 1:4-1:7} 1:1-1:7`},
		{"byte order mark", "\ufeffa: b\n", `{"a" 1:1-1:2: "b" 1:4-1:5} 1:1-1:5`},
		{"CRLF", "a: b\r\nc:\r\n  - d\r\n", `{"a" 1:1-1:2: "b" 1:4-1:5, "c" 2:1-2:2: ["d" 3:5-3:6] 3:3-3:6} 1:1-3:6`},
		{"tabs inside a line", "a:\tb\t\nc: [\td\t]\n", `{"a" 1:1-1:2: "b" 1:4-1:5, "c" 2:1-2:2: ["d" 2:6-2:7] 2:4-2:9} 1:1-2:9`},
		{"quotes", `{"a": 'b', 'c' : "d"}`, `{"a" 1:2-1:5: "b" 1:7-1:10, "c" 1:12-1:15: "d" 1:18-1:21} 1:1-1:22`},
		{"absent", "a:\nb: # c\nd: {e: , f: }\n", `{"a" 1:1-1:2: null 1:3-1:3, "b" 2:1-2:2: null 2:3-2:3, "d" 3:1-3:2: {"e" 3:5-3:6: null 3:7-3:7, "f" 3:10-3:11: null 3:12-3:12} 3:4-3:14} 1:1-3:14`},
		{"absent items", "-\n- # x\n- a", `[null 1:2-1:2, null 2:2-2:2, "a" 3:3-3:4] 1:1-3:4`},
		{"list at the column of its key", "a:\n- b\n-  c\nd: e", `{"a" 1:1-1:2: ["b" 2:3-2:4, "c" 3:4-3:5] 2:1-3:5, "d" 4:1-4:2: "e" 4:4-4:5} 1:1-4:5`},
		{"compact", "- - a\n  - b: c\n    d: e\n", `[["a" 1:5-1:6, {"b" 2:5-2:6: "c" 2:8-2:9, "d" 3:5-3:6: "e" 3:8-3:9} 2:5-3:9] 1:3-3:9] 1:1-3:9`},
		{"several lines", "a: b\n  c\n\n  d\ne: 'f\n  g'\n", `{"a" 1:1-1:2: "b c\nd" 1:4-4:4, "e" 5:1-5:2: "f g" 5:4-6:5} 1:1-6:5`},
		{"literal", "a: |\n  b\n   c\n\nd: |-\n e\n", `{"a" 1:1-1:2: "b\n c\n" 1:4-3:5, "d" 5:1-5:2: "e" 5:4-6:3} 1:1-6:3`},
		{"kept", "a: |+ # x\n  b\n\n", `{"a" 1:1-1:2: "b\n\n" 1:4-2:4} 1:1-2:4`},
		{"folded", "a: >\n  b\n  c\n\n  d\n   e\n  f\n", `{"a" 1:1-1:2: "b c\nd\n e\nf\n" 1:4-7:4} 1:1-7:4`},
		{"indentation given", "a: |2\n   b\n  c\n", `{"a" 1:1-1:2: " b\nc\n" 1:4-3:4} 1:1-3:4`},
		{"empty block scalar", "a: |\nb: >+\n\n", `{"a" 1:1-1:2: "" 1:4-1:5, "b" 2:1-2:2: "\n" 2:4-2:6} 1:1-2:6`},
		{"brackets over lines", "a: [\n  b, # x\n  {c: d},\n]\n", `{"a" 1:1-1:2: ["b" 2:3-2:4, {"c" 3:4-3:5: "d" 3:7-3:8} 3:3-3:9] 1:4-4:2} 1:1-4:2`},
		{"plain over lines in brackets", "[a\n b, c]", `["a b" 1:2-2:3, "c" 2:5-2:6] 1:1-2:7`},
		{"JSON with tabs", "{\n\t\"a\":\n\t\t[1,\n2]\n}\n", `{"a" 2:2-2:5: [1 3:4-3:5, 2 4:1-4:2] 3:3-4:3} 1:1-5:2`},
		{"alias", "a: &x {b: 1}\nc: *x\n", `{"a" 1:1-1:2: {"b" 1:8-1:9: 1 1:11-1:12} 1:7-1:13, "c" 2:1-2:2: {"b" 1:8-1:9: 1 1:11-1:12} 2:4-2:6} 1:1-2:6`},
		{"anchor above a block", "a: &x\n  b: 1\nc: &y\n- d\ne: &z\nf: *z\n", `{"a" 1:1-1:2: {"b" 2:3-2:4: 1 2:6-2:7} 2:3-2:7, "c" 3:1-3:2: ["d" 4:3-4:4] 4:1-4:4, "e" 5:1-5:2: null 5:6-5:6, "f" 6:1-6:2: null 6:4-6:6} 1:1-6:6`},
		{"an edge", "- a.x -> b.y\n- $input.$ -> $output.$\n", `["a.x -> b.y" 1:3-1:13, "$input.$ -> $output.$" 2:3-2:24] 1:1-2:24`},
		{"colons and hashes", "a: b:c#d\nhttp://x: y\n", `{"a" 1:1-1:2: "b:c#d" 1:4-1:9, "http://x" 2:1-2:9: "y" 2:11-2:12} 1:1-2:12`},
		{"commas and brackets in text", "a: b, c[0] {d}\ne, f: g\n", `{"a" 1:1-1:2: "b, c[0] {d}" 1:4-1:15, "e, f" 2:1-2:5: "g" 2:7-2:8} 1:1-2:8`},
		{"tab in a block scalar", "a: |\n \tb\n", `{"a" 1:1-1:2: "\tb\n" 1:4-2:4} 1:1-2:4`},
		{"blank line as wide as the text", "a: |\n  \n  b\n", `{"a" 1:1-1:2: "\nb\n" 1:4-3:4} 1:1-3:4`},
		{"no-break space", "a: b\u00a0c\n", `{"a" 1:1-1:2: "b\u00a0c" 1:4-1:7} 1:1-1:7`},
		{"a quote closed in column 1", "a: 'b\n'\n", `{"a" 1:1-1:2: "b " 1:4-2:2} 1:1-2:2`},
		{"expression", "when: value.a > 1 && !x ? y : z\n", ``},
		{"marker", "--- # x\na\n", `"a" 2:1-2:2`},
		{"value behind the marker", "--- {a: b}\n...\n", `{"a" 1:6-1:7: "b" 1:9-1:10} 1:5-1:11`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == "" {
				docs, diags := Parse("f", []byte(tt.text), Limits{})
				require.Len(t, docs, 1)
				require.Equal(t, "a map cannot begin on this line", diags[0].Summary)
				require.Contains(t, diags[0].Detail, "quotes")
				return
			}
			v := parseOne(t, tt.text)
			if diff := cmp.Diff(tt.want, outline(v)); diff != "" {
				t.Errorf("%q (-want +got)\n%s", tt.text, diff)
			}
			require.NoError(t, positions(v, []byte(tt.text)))
		})
	}
}

func TestDocuments(t *testing.T) {
	tests := []struct {
		text string
		want []string
	}{
		{"", nil},
		{"# only a comment\n\n", nil},
		{"\ufeff", nil},
		{"...\n", nil},
		{"a\n---\nb\n", []string{`"a" 1:1-1:2`, `"b" 3:1-3:2`}},
		{"---\n---\na: 1\n...\n---\n", []string{`null 1:4-1:4`, `{"a" 3:1-3:2: 1 3:4-3:5} 3:1-3:5`, `null 5:4-5:4`}},
		{"a: |\n  --- b\n--- |\n  c\n...\nd", []string{`{"a" 1:1-1:2: "--- b\n" 1:4-2:8} 1:1-2:8`, `"c\n" 3:5-4:4`, `"d" 6:1-6:2`}},
	}
	for _, tt := range tests {
		docs, diags := Parse("f", []byte(tt.text), Limits{})
		require.Empty(t, diags, "%q", tt.text)
		var got []string
		for _, d := range docs {
			got = append(got, outline(d.Root))
		}
		require.Equal(t, tt.want, got, "%q", tt.text)
	}
}

func TestScalars(t *testing.T) {
	tests := []struct {
		text string
		kind Kind
		want string
	}{
		{"null", Null, ""}, {"Null", Null, ""}, {"NULL", Null, ""}, {"~", Null, ""}, {"nULL", String, "nULL"}, {"none", String, "none"},
		{"true", Bool, "true"}, {"True", Bool, "true"}, {"TRUE", Bool, "true"}, {"False", Bool, "false"}, {"tRUE", String, "tRUE"},
		{"yes", String, "yes"}, {"no", String, "no"}, {"on", String, "on"}, {"off", String, "off"}, {"y", String, "y"},
		{"0", Number, "0"}, {"-0", Number, "0"}, {"+7", Number, "7"}, {"-12", Number, "-12"},
		{"123456789012345678901234567890", Number, "123456789012345678901234567890"},
		{"0x1F", Number, "31"}, {"0xffffffffffffffffffff", Number, "1208925819614629174706175"}, {"0o17", Number, "15"},
		{"0xaF09", Number, "44809"}, {"0o07", Number, "7"}, {"0o8", String, "0o8"}, {"0xg", String, "0xg"}, {"0X1", String, "0X1"}, {"-0x1", String, "-0x1"}, {"0x", String, "0x"}, {"0x1_0", String, "0x1_0"}, {"0b1", String, "0b1"}, {"0o\x10", String, ""},
		{"1.5", Number, "1.5"}, {"1.50", Number, "1.50"}, {".5", Number, "0.5"}, {"-.5", Number, "-0.5"}, {"5.", Number, "5.0"}, {"-0.0", Number, "-0.0"},
		{"1e3", Number, "1e3"}, {"1E+03", Number, "1e3"}, {"1.5e-07", Number, "1.5e-7"}, {"1e+0", Number, "1e0"}, {"1e-00", Number, "1e0"},
		{"1e", String, "1e"}, {"e1", String, "e1"}, {"1e+", String, "1e+"}, {".", String, "."}, {"+", String, "+"}, {"-", String, ""}, {"+-1", String, "+-1"}, {".e1", String, ".e1"},
		{"1_000", String, "1_000"}, {"1.2.3", String, "1.2.3"}, {"12:30", String, "12:30"}, {"2001-12-14", String, "2001-12-14"}, {"2001-12-14t21:59:43.10-05:00", String, "2001-12-14t21:59:43.10-05:00"},
		{"inf", String, "inf"}, {".infinity", String, ".infinity"}, {"-.nan", String, "-.nan"}, {"--.inf", String, "--.inf"},
		{"'1'", String, "1"}, {`"true"`, String, "true"}, {"''", String, ""}, {`"null"`, String, "null"},
		{"=", String, "="}, {"<<", String, "<<"}, {"٣", String, "٣"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			if tt.want == "" && tt.kind == String && tt.text[0] != '\'' {
				_, diags := Parse("f", []byte("a: "+tt.text), Limits{})
				require.NotEmpty(t, diags)
				return
			}
			v := parseOne(t, "a: "+tt.text).Get("a")
			require.Equal(t, tt.kind, v.Kind)
			require.Equal(t, tt.want, v.Text)
			if v.Kind == Number {
				require.True(t, json.Valid([]byte(v.Text)))
			}
			require.Equal(t, !strings.ContainsAny(tt.text, `'"`), v.Plain())
		})
	}
}

// The places of all letters of a text, each as line:column.
func TestAt(t *testing.T) {
	tests := []struct{ name, text, value, want string }{
		{"plain", "é: 1\na: abc\n", "abc", "2:4 2:5 2:6 2:7"},
		{"multi-byte", "a: aé集b\n", "aé集b", "1:4 1:5 1:6 1:7 1:8"},
		{"plain, folded", "a: ab\n   c\n\n\n  d\n", "ab c\n\nd", "1:4 1:5 1:6 2:4 2:5 2:5 5:3 5:4"},
		{"single", "a: 'b''c'\n", "b'c", "1:5 1:6 1:8 1:9"},
		{"single, folded", "a: 'b  \n\n  c'\n", "b\nc", "1:5 1:8 3:3 3:4"},
		{"double", `a: "b\t\u00e9\U0001F600c"`, "b\té😀c", "1:5 1:6 1:8 1:14 1:24 1:25"},
		{"surrogates", `a: "\ud83d\ude00c"`, "😀c", "1:5 1:17 1:18"},
		{"double, folded", "a: \"b \\\n  c\n  d\\n\"\n", "b c d\n", "1:5 1:6 2:3 2:4 3:3 3:4 3:6"},
		{"literal", "a: |\n  b\n   c\n\n  d\n", "b\n c\n\nd\n", "2:3 2:4 3:3 3:4 3:5 3:5 5:3 5:4 5:4"},
		{"literal, kept", "a: |2+\n   b\n\n", " b\n\n", "2:3 2:4 2:5 2:5 2:5"},
		{"literal, CRLF", "a: |\r\n  b\r\n  c\r\n", "b\nc\n", "2:3 2:4 3:3 3:4 3:4"},
		{"folded", "a: >-\n  b\n  c\n\n  d\n    e\n", "b c\nd\n  e", "2:3 2:4 3:3 3:4 5:3 5:4 6:3 6:4 6:5 6:6"},
		{"blank lines first", "a: |\n\n\n  b\n", "\n\nb\n", "2:1 2:1 4:3 4:4 4:4"},
		{"empty", "a: ''\n", "", "1:5"},
		{"alias", "x: &x 'b''c'\na: *x\n", "b'c", "1:8 1:9 1:11 1:12"},
		{"not a string", "a: 12\n", "12", "1:4 1:4 1:4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := parseOne(t, tt.text).Get("a")
			require.Equal(t, tt.value, v.Text)
			var got []string
			for i := range v.Text {
				pos := v.At(i)
				got = append(got, fmt.Sprintf("%d:%d", pos.Line, pos.Column))
			}
			end := v.At(len(v.Text))
			got = append(got, fmt.Sprintf("%d:%d", end.Line, end.Column))
			require.Equal(t, tt.want, strings.Join(got, " "))
			require.Equal(t, end, v.At(len(v.Text)+10))
			require.Equal(t, v.At(0), v.At(-1))
			require.NoError(t, positions(v, []byte(tt.text)))
		})
	}
}

func TestSub(t *testing.T) {
	text := "- with: \"é ${input.naem}\"\n"
	v := parseOne(t, text).Items[0].Get("with")
	at := strings.Index(v.Text, "naem")
	r := v.Sub(at, at+4)
	require.Equal(t, "naem", text[r.Start.Byte:r.End.Byte])
	require.Equal(t, "f 1:20-1:24", fmt.Sprintf("%s %d:%d-%d:%d", r.File, r.Start.Line, r.Start.Column, r.End.Line, r.End.Column))
	r = v.Sub(at, 0)
	require.Equal(t, r.Start, r.End)
}

func TestCommented(t *testing.T) {
	v := parseOne(t, "a: b # c\nd: 'e' # f\ng: h\n # i\nj: [k # l\n  , m#n]\no: p\n  q # r\ns: &s 1\nt: *s # u\nv: |\n  w # x\n")
	got := map[string]bool{}
	for _, f := range v.Fields {
		got[f.Key.Text] = f.Value.Commented()
	}
	require.Equal(t, map[string]bool{"a": true, "d": true, "g": false, "j": false, "o": true, "s": false, "t": true, "v": false}, got)
	list := v.Get("j").Items
	require.Equal(t, []bool{true, false}, []bool{list[0].Commented(), list[1].Commented()})
	require.False(t, (*Value)(nil).Commented())
	require.False(t, (*Value)(nil).Plain())
}

func TestAny(t *testing.T) {
	v := parseOne(t, "a: [1, 0x10, 2.50, true, null, text]\nb: {c: &x {d: []}}\ne: *x\n")
	want := map[string]any{
		"a": []any{json.Number("1"), json.Number("16"), json.Number("2.50"), true, nil, "text"},
		"b": map[string]any{"c": map[string]any{"d": []any{}}},
		"e": map[string]any{"d": []any{}},
	}
	if diff := cmp.Diff(want, v.Any()); diff != "" {
		t.Error(diff)
	}
	require.Nil(t, (*Value)(nil).Any())
	require.Nil(t, (*Value)(nil).Get("a"))
	require.Nil(t, v.Get("x"))
	require.Nil(t, v.Get("a").Get("x"))
	require.NotNil(t, v.Get("e").target)
	require.Nil(t, v.Get("b").target)
}

func TestLimits(t *testing.T) {
	// Ten names, each ten times the one before.
	laughs := "a0: &a0 [1]\n"
	for i := range 10 {
		laughs += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	tests := []struct {
		name, text string
		limits     Limits
		want       string // "" is accepted
	}{
		{"bytes", "a: b\n", Limits{Bytes: 5}, ""},
		{"bytes, one more", "a: bc\n", Limits{Bytes: 5}, "1:1 the file is too large"},
		{"depth", "[[[1]]]", Limits{Depth: 3}, ""},
		{"depth, one more", "[[[[1]]]]", Limits{Depth: 3}, "1:4 lists and maps are nested too deep"},
		{"depth of blocks", "a:\n  - - b\n", Limits{Depth: 3}, ""},
		{"depth of blocks, one more", "a:\n  - - b: c\n", Limits{Depth: 3}, "2:7 lists and maps are nested too deep"},
		{"depth through aliases", "- &x [[1]]\n- [*x]\n", Limits{Depth: 4}, ""},
		{"depth through aliases, one more", "- &x [[1]]\n- [[*x]]\n", Limits{Depth: 4}, "2:5 lists and maps are nested too deep"},
		{"depth of a million", strings.Repeat("[", 1_000_000), Limits{}, "1:201 lists and maps are nested too deep"},
		{"depth of a million dashes", strings.Repeat("- ", 1_000_000), Limits{}, "1:401 lists and maps are nested too deep"},
		{"nodes", "{a: [1]}", Limits{Nodes: 4}, ""},
		{"nodes, one more", "{a: [1]}", Limits{Nodes: 3}, "1:1 the file holds too many values"},
		{"aliases", "a: &x [1, 2]\nb: *x\nc: *x\n", Limits{AliasNodes: 6}, ""},
		{"aliases, one more", "a: &x [1, 2]\nb: *x\nc: *x\n", Limits{AliasNodes: 5}, "3:4 aliases stand for too many values"},
		{"aliases of aliases", laughs, Limits{}, "6:40 aliases stand for too many values"},
		{"documents", "a\n---\nb\n", Limits{Documents: 2}, ""},
		{"documents, one more", "a\n---\nb\n", Limits{Documents: 1}, "2:1 too many documents"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, diags := Parse("f", []byte(tt.text), tt.limits)
			if tt.want == "" {
				require.Empty(t, diags)
				return
			}
			require.Len(t, diags, 1)
			require.Equal(t, tt.want, fmt.Sprintf("%d:%d %s", diags[0].Subject.Start.Line, diags[0].Subject.Start.Column, diags[0].Summary))
		})
	}
}

// A file with a fault in every line is read only so far.
func TestManyFindings(t *testing.T) {
	docs, diags := Parse("f", []byte(strings.Repeat("a: !x b\n", 1000)), Limits{})
	require.Len(t, diags, maxFindings)
	require.Len(t, docs, 1)
	require.Contains(t, diags[maxFindings-1].Detail, "read no further")
}

// What can be read around a fault is there.
func TestPartial(t *testing.T) {
	docs, diags := Parse("f", []byte("a: 1\nb: [x\nc:\n  - d\n  - e: f: g\n  - h\na: 2\n---\n!x i\n"), Limits{})
	require.Len(t, diags, 4)
	require.Len(t, docs, 2)
	require.Equal(t, map[string]any{"a": json.Number("1"), "c": []any{"d", map[string]any{}, "h"}}, docs[0].Root.Any())
	require.Equal(t, "i", docs[1].Root.Any())
	docs, diags = Parse("f", []byte("[1\n"), Limits{})
	require.Len(t, diags, 1)
	require.Equal(t, Null, docs[0].Root.Kind)
}

// A line that is indented with tabs costs only itself; a file that is indented
// with tabs throughout is read as it is meant.
func TestPartialTabs(t *testing.T) {
	tests := []struct {
		text string
		want map[string]any
	}{
		{"a:\n  b: 1\n\tc: 2\n  d: 3\ne: 4\n", map[string]any{"a": map[string]any{"b": json.Number("1"), "d": json.Number("3")}, "e": json.Number("4")}},
		{"a:\n\tb: 1\n\tc:\n\t\td: 2\ne: 3\n", map[string]any{"a": map[string]any{"b": json.Number("1"), "c": map[string]any{"d": json.Number("2")}}, "e": json.Number("3")}},
	}
	for _, tt := range tests {
		docs, diags := Parse("f", []byte(tt.text), Limits{})
		require.Len(t, diags, 1)
		require.Equal(t, tt.want, docs[0].Root.Any())
	}
}

func TestUTF16(t *testing.T) {
	_, diags := Parse("f", []byte("\xff\xfea\x00"), Limits{})
	require.Len(t, diags, 1)
	require.Equal(t, "the file is UTF-16, not UTF-8", diags[0].Summary)
}

// Positions of one very long line of multi-byte text are right, and found
// without counting from its start each time.
func TestLongLine(t *testing.T) {
	text := "[" + strings.Repeat(`"é集😀", `, 20_000) + "1]"
	v := parseOne(t, text)
	require.Len(t, v.Items, 20_001)
	for i := 0; i < len(v.Items); i += 997 {
		require.NoError(t, inside(v.Items[i].Range(), []byte(text)))
	}
	loc := newLocator(v.source)
	for _, at := range []int{len(text), 5, 100_000, 1, 4096, 4097, 0, len(text) - 1, 8192} {
		for at < len(text) && text[at]&0xc0 == 0x80 {
			at--
		}
		require.Equal(t, advance(v.source.first(), text, at), loc.at(at))
	}
}

func TestKindString(t *testing.T) {
	var names []string
	for k := Null; k <= Map+1; k++ {
		names = append(names, k.String())
	}
	require.Equal(t, []string{"null", "boolean", "number", "string", "list", "map", "unknown"}, names)
}
