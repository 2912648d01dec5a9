package syntax

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"

	"chimera.ai/engine/diag"
)

// seeds cover the grammar: every style, every indicator, every refusal.
var seeds = []string{
	"", "\n", "a", "a: b\n", "a:\n- b\n- c\nd: e\n", "- - a\n  - b\n- c\n", "a: {b: [c, d], e: }\n",
	"a: |\n  x\n   y\n\n  z\n\nb: 1\n", "a: >-\n  x\n  y\n\n  z\n   w\n", "a: |+2\n   x\n\n", "- |\n x\n- >\n y",
	"a: \"x\\n\\u00e9 \\\n   y\"\nb: 'it''s\n  folded'\n", "a: x\n  y\n\n  z # c\nb: 1\n",
	"a: &x {b: 1}\nc: *x\nd: [*x, *x]\n", "a: &a [*a]\n", "<<: *x\n", "!!str a: b\n", "a: !x b\n",
	"---\na: 1\n---\nb: 2\n...\n", "%YAML 1.2\n---\na\n", "--- |\n a\n...\n---\n", "? a\n: b\n", "a: b: c\n",
	"a: 1\na: 2\n", "\ta: b\n", "a:\n\tb: c\n", "a: [1, 2\nb: 3\n", "a: 'x\nb: 3\n", "a: {x: y, x: z}", "1: a\n",
	"a: 0x1F\nb: 0o17\nc: .inf\nd: 1e9999\ne: 007\nf: +1\ng: .5\nh: -0\ni: 2001-01-01\nj: yes\nk: ~\n",
	"{\"a\": [1, 2.5e3, \"\\ud83d\\ude00\", true, null], \"b\": {}}", "{\n\t\"a\":\n\t\t[\n\t\t]\n}\n", "[\"a\",\"b\"]",
	"\ufeffa: b\n", "a: b\r\nc:\r\n  - d\r\n", "a: \x00\n", "a: \xff\n", "é: ü # ö\n", "a: b #c\n", "a: \"b\"#c\n",
	"a: ${x}\n", "a: {{x}}\n", "a:b\n", "when: a > b ? c : d\n", "x: [a: b]\n", "x: {a:1}\n", "x: [-]\n", "x: -\n",
	"apiVersion: chimera/v1\nnodes:\n  - id: a\n    with: {x: \"${input.x}\"}\nedges:\n  - a.x -> b.y\n",
	"[\n a\n b,\n c ]", "a:  # c\n  # d\n  b: c\n # e\nf:\n", "- a\n-\n-   b: c\n    d: e\n", "a: &b\n- *b\n", "&a x: y\n", "*a : b\n",
	"a: [\n  x, # c\n  y\n]\nb: {\n}\n", "a: - b\n", "- ? a\n", "a: @b\n", "a: `b`\n", "a: %b\n", "a: ]\n", "a: \"\\x\"\n", "a: |x\n", "a: |\n\n\n   \n x\n",
	"|+\n ", "|\n 0 ", "|\n \t", "|\n#00", "|\n...", "A: &0{}", "{A:{}}", "!<a,b> c", "{A: [\"\\ud800\\udC00\"]}", "1E0400", "a: &x 1\nb: &y *x\n",
}

// FuzzParse checks what Parse promises on any input: it neither panics nor
// hangs, all ranges are right, and what it accepts is what other readers read.
func FuzzParse(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(check)
}

// A file may end anywhere, and begin anywhere.
func TestCut(t *testing.T) {
	for _, s := range seeds {
		for i := range len(s) {
			check(t, []byte(s[:i]))
			check(t, []byte(s[i:]))
		}
	}
}

// check checks what FuzzParse says.
func check(t *testing.T, src []byte) {
	t.Helper()
	docs, diags := Parse("f", src, Limits{Depth: 50, Nodes: 10_000, AliasNodes: 1000})
	for _, d := range diags {
		if d.Code != diag.PlanSyntax || d.Severity != diag.Error || d.Summary == "" || d.Detail == "" {
			t.Fatalf("incomplete finding %+v", d)
		}
		for _, r := range []diag.Range{d.Subject, d.Context} {
			if r.IsValid() {
				if err := inside(r, src); err != nil {
					t.Fatalf("finding %q: %v", d.Summary, err)
				}
			}
		}
		if !d.Subject.IsValid() {
			t.Fatalf("finding %q has no place", d.Summary)
		}
	}
	for _, d := range docs {
		if err := positions(d.Root, src); err != nil {
			t.Fatal(err)
		}
	}
	text := bytes.TrimPrefix(src, []byte(bom))
	if json.Valid(text) {
		for _, d := range diags {
			if !refusedJSON.MatchString(d.Summary) {
				t.Fatalf("a JSON text is refused: %s", d.Summary)
			}
		}
	}
	if len(diags) > 0 {
		return
	}
	if json.Valid(text) {
		if len(docs) != 1 {
			t.Fatalf("%d documents in a JSON text", len(docs))
		}
		if err := agreesJSON(docs[0], text); err != nil {
			t.Fatal(err)
		}
		return
	}
	if surrogates.Match(src) {
		return // YAML does not have what JSON writes so
	}
	if err := agrees(docs, src); err != nil {
		t.Fatal(err)
	}
}

// refusedJSON are the faults that a JSON text can have; a tab before its first
// token is one.
var refusedJSON = regexp.MustCompile(`stands twice|a tab in the indentation|too deep|too many values|not accepted|too long|not an escape|^the (control|line break) character|byte order mark|carriage return|noncharacter|not valid UTF-8`)

var surrogates = regexp.MustCompile(`(?i)\\ud[89ab]..\\ud[c-f]`)
