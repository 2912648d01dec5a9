package diag

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files anew")

// place is the position of byte at of src.
func place(src string, at int) Pos {
	before := strings.TrimPrefix(src[:at], "\ufeff")
	line := before[strings.LastIndexByte(before, '\n')+1:]
	return Pos{Line: strings.Count(before, "\n") + 1, Column: utf8.RuneCountInString(line) + 1, Byte: at}
}

// find is the range of token, which stands once in src.
func find(t *testing.T, file, src, token string) Range {
	t.Helper()
	require.Equal(t, 1, strings.Count(src, token), "%q in the source", token)
	at := strings.Index(src, token)
	return Range{File: file, Start: place(src, at), End: place(src, at+len(token))}
}

const planText = `name: pay-invoice
nodes:
  - id: fetch
    template: files/read
	# a tab
  - id: 集計する
    with: {表: "合計 ☕ e\u0301"} # wide
edges:
  - fecth.text -> count.text
`

const otherText = `templates:
  - operation: read
    input_schema: {type: object}
`

func TestText(t *testing.T) {
	long := `{"key": "` + strings.Repeat("é", 3000) + `", "bad": tru, "more": "` + strings.Repeat("x", 3000) + `"}`
	hostile := "a: \x1b[31mred\x1b[0m \u202egnp.exe \xff \x00 end\n"
	tests := []struct {
		name string
		src  string
		find func(t *testing.T, src string) Diagnostic
	}{
		{"token", planText, func(t *testing.T, src string) Diagnostic {
			return Diagnostic{Code: PlanUnknownNode, Severity: Error, Summary: "there is no node `fecth`",
				Detail:  "An edge joins nodes of the plan, `$input` or `$output`. This long detail says so in more words than fit on one line of a terminal.",
				Subject: find(t, "f", src, "fecth"), Node: "count", Edge: "fecth.text -> count.text", Suggestion: "fetch"}
		}},
		{"context above", planText, func(t *testing.T, src string) Diagnostic {
			return Diagnostic{Code: PlanUnknownPort, Severity: Warning, Summary: "no port", Detail: "One.\nTwo.",
				Subject: find(t, "f", src, "count.text"), Context: find(t, "f", src, "id: fetch\n    template: files/read"), Witness: `{"text":1}`}
		}},
		{"context on the same line", planText, func(t *testing.T, src string) Diagnostic {
			return Diagnostic{Code: PlanUnknownPort, Severity: Error, Summary: "no port",
				Subject: find(t, "f", src, "count.text"), Context: find(t, "f", src, "fecth.text -> count.text")}
		}},
		{"several lines", planText, func(t *testing.T, src string) Diagnostic {
			return Diagnostic{Code: PlanSchema, Severity: Error, Summary: "several lines", Subject: find(t, "f", src, src[strings.Index(src, "- id: fetch"):strings.Index(src, "edges")])}
		}},
		{"three lines", planText, func(t *testing.T, src string) Diagnostic {
			return Diagnostic{Code: PlanSchema, Severity: Error, Summary: "three lines", Subject: find(t, "f", src, "fetch\n    template: files/read\n\t# a")}
		}},
		{"wide", planText, func(t *testing.T, src string) Diagnostic {
			return Diagnostic{Code: PlanSchema, Severity: Error, Summary: "wide", Subject: find(t, "f", src, "☕"), Context: find(t, "f", src, "集計する")}
		}},
		{"after a tab", "a:\tb\n\t\tc: d\n", func(t *testing.T, src string) Diagnostic {
			return Diagnostic{Code: PlanSyntax, Severity: Error, Summary: "tabs", Subject: find(t, "f", src, "c: d"), Context: find(t, "f", src, "b")}
		}},
		{"nothing there", "a:\nb: 1\n", func(t *testing.T, src string) Diagnostic {
			return Diagnostic{Code: PlanSchema, Severity: Error, Summary: "a value is missing", Subject: Range{"f", place(src, 2), place(src, 2)}}
		}},
		{"end of file", "a:", func(t *testing.T, src string) Diagnostic {
			return Diagnostic{Code: PlanSchema, Severity: Error, Summary: "a value is missing", Subject: Range{"f", place(src, 2), place(src, 2)}}
		}},
		{"empty file", "", func(t *testing.T, src string) Diagnostic {
			return Diagnostic{Code: PlanSchema, Severity: Error, Summary: "empty", Subject: Range{"f", place(src, 0), place(src, 0)}}
		}},
		{"byte order mark and CRLF", "\ufeffname: x\r\nkind: y\r\n", func(t *testing.T, src string) Diagnostic {
			return Diagnostic{Code: PlanSchema, Severity: Error, Summary: "windows", Subject: find(t, "f", src, "name"), Context: find(t, "f", src, "kind: y")}
		}},
		{"long line", long, func(t *testing.T, src string) Diagnostic {
			return Diagnostic{Code: PlanSyntax, Severity: Error, Summary: "far right", Subject: find(t, "f", src, "tru")}
		}},
		{"long token", long, func(t *testing.T, src string) Diagnostic {
			return Diagnostic{Code: PlanSyntax, Severity: Error, Summary: "long", Subject: Range{"f", place(src, 0), place(src, len(src))}}
		}},
		{"hostile", hostile, func(t *testing.T, src string) Diagnostic {
			return Diagnostic{Code: PlanSyntax, Severity: Error, Summary: "text \x1b]0;owned\a of the file", Detail: "a\u202eb \x9b1m", Suggestion: "x\ny\r",
				Node: "\u200b", Subject: find(t, "f", src, "end")}
		}},
		{"both ends", planText, func(t *testing.T, src string) Diagnostic {
			return Diagnostic{Code: TypeNotContained, Severity: Error, Summary: "`count.text` does not take all that `fecth.text` gives", Label: "takes {type: string}",
				Subject: find(t, "f", src, "count.text"), Related: []Related{{find(t, "f", src, "fecth.text"), "gives {type: integer}"}, {find(t, "f", src, "files/read"), "whose output is this"}},
				Edge: "fecth.text -> count.text", Before: `{"n": 1}`, Witness: "1", Suggestion: "${string(value)}"}
		}},
		{"three labels on a line", planText, func(t *testing.T, src string) Diagnostic {
			return Diagnostic{Code: TypeNotContained, Severity: Error, Summary: "three", Label: "in the middle",
				Subject: find(t, "f", src, "->"), Related: []Related{{find(t, "f", src, "fecth.text"), "on the left"}, {find(t, "f", src, "count.text"), "on the right, with a label\nof \x1b lines " + strings.Repeat("é", 200)}}}
		}},
		{"a place in another file", planText, func(t *testing.T, src string) Diagnostic {
			return Diagnostic{Code: TrustWeaker, Severity: Error, Summary: "`fetch` takes more", Label: "takes any file", Node: "fetch",
				Subject: find(t, "f", src, "fetch"), Related: []Related{{find(t, "catalog.yaml", otherText, "{type: object}"), "takes an object"}, {find(t, "catalog.yaml", otherText, "operation: read"), ""}, {Range{"gone.yaml", Pos{1, 1, 0}, Pos{1, 2, 1}}, "not there"}},
				Witness: `"` + strings.Repeat("ab", 500) + `"`}
		}},
		{"a label on several lines", planText, func(t *testing.T, src string) Diagnostic {
			return Diagnostic{Code: PlanSchema, Severity: Error, Summary: "several lines", Label: "all of it", Subject: find(t, "f", src, src[strings.Index(src, "- id: fetch"):strings.Index(src, "edges")])}
		}},
		{"no source", "", func(t *testing.T, src string) Diagnostic {
			return Diagnostic{Code: PlanSyntax, Severity: Error, Summary: "elsewhere", Subject: Range{"other.yaml", Pos{7, 3, 90}, Pos{7, 5, 92}}}
		}},
		{"no place", "", func(t *testing.T, src string) Diagnostic {
			return Diagnostic{Code: PlanSyntax, Severity: Error, Summary: "nowhere", Detail: "Some detail."}
		}},
		{"place outside of the file", "a: b\n", func(t *testing.T, src string) Diagnostic {
			return Diagnostic{Code: PlanSyntax, Severity: Error, Summary: "outside", Subject: Range{"f", Pos{3, 1, 9}, Pos{3, 2, 10}}}
		}},
	}
	var all bytes.Buffer
	for _, tt := range tests {
		d := tt.find(t, tt.src)
		all.WriteString("## " + tt.name + "\n")
		require.NoError(t, Diagnostics{d}.WriteText(&all, map[string][]byte{"f": []byte(tt.src), "catalog.yaml": []byte(otherText)}, false))
		all.WriteString("\n")
	}
	first := tests[0].find(t, tests[0].src)
	second := tests[1].find(t, tests[1].src)
	var colored bytes.Buffer
	require.NoError(t, Diagnostics{first, second}.WriteText(&colored, map[string][]byte{"f": []byte(tests[0].src)}, true))
	all.WriteString("## two in colour\n" + strings.ReplaceAll(colored.String(), "\x1b", "ESC"))
	golden(t, "text.golden", all.Bytes())
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Fatalf("%s (-want +got), -update writes it anew:\n%s", file, diff)
	}
}

// Whatever ranges and texts are: no panic, nothing that a terminal acts on, and
// not much more than was given.
func TestTextOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "\t", "\n", "\r\n", "é", "集", "\x1b", "\xff", "\u202e", strings.Repeat("w", 300)}), 0, 30).Draw(t, "src")
		text := strings.Join(src, "")
		bytePos := rapid.IntRange(-1, len(text)+1)
		right := rapid.Bool()
		pos := func(label string) Pos {
			b := bytePos.Draw(t, label)
			if b >= 0 && b <= len(text) && right.Draw(t, label+" is right") {
				return place(text, b)
			}
			return Pos{Line: rapid.IntRange(0, 9).Draw(t, label+" line"), Column: 1, Byte: b}
		}
		s := rapid.String()
		d := Diagnostic{Code: PlanSyntax, Severity: Error, Summary: s.Draw(t, "summary"), Detail: s.Draw(t, "detail"),
			Subject: Range{"f", pos("a"), pos("b")}, Context: Range{"f", pos("c"), pos("d")}, Suggestion: s.Draw(t, "suggestion"), Label: s.Draw(t, "label"),
			Related: []Related{{Range{"f", pos("e"), pos("g")}, s.Draw(t, "related")}, {Range{"g", pos("h"), pos("i")}, s.Draw(t, "elsewhere")}}, Witness: s.Draw(t, "witness"), Before: s.Draw(t, "before")}
		var out bytes.Buffer
		if err := (Diagnostics{d}).WriteText(&out, map[string][]byte{"f": []byte(text), "g": []byte(text)}, false); err != nil {
			t.Fatal(err)
		}
		for _, r := range out.String() {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%q is written", r)
			}
		}
		if !utf8.Valid(out.Bytes()) {
			t.Fatal("not UTF-8")
		}
		if limit := 16000 + 20*(len(d.Summary)+len(d.Detail)+len(d.Suggestion)+len(d.Witness)+len(d.Before)); out.Len() > limit {
			t.Fatalf("%d bytes", out.Len())
		}
		b, err := json.Marshal(Diagnostics{d})
		if err != nil {
			t.Fatal(err)
		}
		var back []struct{ Summary string }
		if err := json.Unmarshal(b, &back); err != nil || back[0].Summary != strings.ToValidUTF8(d.Summary, "\ufffd") {
			t.Fatalf("%s: %v", b, err)
		}
	})
}

func TestJSON(t *testing.T) {
	d := Diagnostic{Code: PlanUnknownNode, Severity: Warning, Summary: "s <é> 集", Detail: "\x1b \u202e \x7f \U000e0001", Subject: find(t, "plan.yaml", planText, "fecth"),
		Context: find(t, "plan.yaml", planText, "pay-invoice"), Node: "n", Edge: "a -> b", Witness: `{"a":1}`, Suggestion: "fetch",
		Edits: []Edit{{Range: find(t, "plan.yaml", planText, "fecth"), Replacement: "fetch"}}, Applicability: Maybe}
	b, err := json.MarshalIndent(map[string]any{"none": Diagnostics(nil), "two": Diagnostics{d, {}}}, "", "  ")
	require.NoError(t, err)
	golden(t, "json.golden", append(b, '\n'))
}

// broken fails to write.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("pipe closed") }

func TestTextWriteError(t *testing.T) {
	err := Diagnostics{{Code: PlanSyntax, Summary: "s"}}.WriteText(broken{}, nil, false)
	require.EqualError(t, err, "write diagnostics: pipe closed")
}
