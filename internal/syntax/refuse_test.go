package syntax

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
)

// marked takes the marks out of a text: « » stand around the subjects of the
// findings that are expected, in their order, ‹ › around the context of one.
func marked(t *testing.T, text string) (src string, subjects, contexts []diag.Range) {
	t.Helper()
	var b strings.Builder
	var open, openContext diag.Pos
	pos := diag.Pos{Line: 1, Column: 1}
	for i, r := range text {
		switch {
		case r == '«':
			open = pos
		case r == '»':
			subjects = append(subjects, diag.Range{File: "f", Start: open, End: pos})
		case r == '‹':
			openContext = pos
		case r == '›':
			contexts = append(contexts, diag.Range{File: "f", Start: openContext, End: pos})
		case r == '\ufeff' && i == 0:
			b.WriteRune(r)
			pos.Byte = len(bom)
		default:
			// Invalid bytes are in the text as characters of a private area.
			if r >= 0xf700 && r <= 0xf7ff {
				b.WriteByte(byte(r - 0xf700))
				pos.Byte++
				pos.Column++
				continue
			}
			b.WriteRune(r)
			pos.Byte += len(string(r))
			pos.Column++
			if r == '\n' {
				pos.Line++
				pos.Column = 1
			}
		}
	}
	return b.String(), subjects, contexts
}

// TestHiddenBracket: a comment that swallows the end of a map is the reason why
// the map is never closed.
func TestHiddenBracket(t *testing.T) {
	const hint = "is a comment, and a closing bracket with it"
	for text, hides := range map[string]bool{
		"- {when: has(a.b) # mail, required: true}\n- c\n": true,
		"- {a: 1,\n  b: 2 # two}\n- c\n":                   true,
		"- {a: 1 # one\n- c\n":                             false,
		"# {}\n- {a: 1\n- c\n":                             false,
	} {
		_, ds := Parse("f", []byte(text), Limits{})
		require.NotEmpty(t, ds, text)
		require.Equal(t, "this bracket is never closed", ds[0].Summary, text)
		require.Equal(t, hides, strings.Contains(ds[0].Detail, hint), "%s: %s", text, ds[0].Detail)
	}
}

func TestRefused(t *testing.T) {
	long := strings.Repeat("k", maxKey+1)
	digits := strings.Repeat("1", maxDigits+1)
	tests := []struct {
		name string
		text string
		want []string // summaries
	}{
		// Keys.
		{"duplicate", "‹a›: 1\nb: 2\n«a»: 3\n", []string{`the key "a" stands twice in this map`}},
		{"duplicate, written otherwise", "{‹é›: 1, «\"\\u00e9\"»: 2}", []string{`the key "é" stands twice in this map`}},
		{"duplicate among many", "a: {‹k1›: 0, k2: 0, k3: 0, k4: 0, k5: 0, k6: 0, k7: 0, k8: 0, k9: 0, k10: 0, k11: 0, k12: 0, k13: 0, k14: 0, «k1»: 0}", []string{`the key "k1" stands twice in this map`}},
		{"number", "«1»: a", []string{"a key must be a string"}},
		{"boolean and null", "x: {«true»: a, «null»: b, «~»: c}", []string{"a key must be a string", "a key must be a string", "a key must be a string"}},
		{"map", "a:\n  «{b: c}»: d\n", []string{"a key must be a string"}},
		{"list", "a: 1\n«[b]: c»\n", []string{"a key must be a string"}},
		{"template without quotes", "a: {«{»{x}}}", []string{"a key must be a string"}},
		{"question mark", "«?» a\n: b\n", []string{`keys that begin with "? " are not supported`}},
		{"question mark in brackets", "{«?» a: b}", []string{`keys that begin with "? " are not supported`}},
		{"missing", "a: 1\n«:» b\n", []string{"a key is missing before the colon"}},
		{"missing in braces", "{«:» b}", []string{`unexpected ':'`}},
		{"without colon", "a: 1\n«b»\nc: 2\n", []string{"expected a key with a colon"}},
		{"without space", "a: 1\n«b:2»\nc: 2\n", []string{"expected a key with a colon"}},
		{"without value", "{«a», b: 1}", []string{`the key "a" has no value`}},
		{"without space in braces", "{«a:1»}", []string{`the key "a:1" has no value`}},
		{"too long", "«" + long + "»: 1", []string{"a key is too long"}},
		{"merge", "a: &x {b: 1}\nc: {«<<»: *x, d: 2}\n", []string{"a merge key is not supported"}},
		{"alias", "a: &x b\n«*x : c»\n", []string{"an anchor, an alias or a tag before a key"}},
		{"alias first", "a:\n  - &x b\n  - «*x:» c\n", []string{"not a name of an anchor"}},
		{"alias first, with a space", "- &x b\n- «*x» : c\n", []string{"a key must be a string"}},
		{"anchored", "- &x «a»: b\n", []string{"an anchor or a tag before a key"}},

		// What is not supported of YAML.
		{"tag", "a: «!x» b\n", []string{"a tag is not supported"}},
		{"standard tag", "a: «!!str» 1\nb: [«!<tag:yaml.org,2002:int>» 1]\n", []string{"a tag is not supported", "a tag is not supported"}},
		{"directive", "«%YAML 1.2»\n---\na: 1\n", []string{"a directive is not supported"}},
		{"pair in a list", "[«a:» b]", []string{"a key inside a list"}},

		// Anchors and aliases.
		{"unknown alias", "a: &base 1\nb: «*bse»\n", []string{`no anchor "bse" stands before this alias`}},
		{"alias of another document", "a: &x 1\n---\nb: «*x»\n", []string{`no anchor "x" stands before this alias`}},
		{"alias of itself", "a: &x [1, «*x»]\n", []string{`the alias "x" stands inside the value that it repeats`}},
		{"alias of itself in a block", "&x\na: «*x»\n", []string{`the alias "x" stands inside the value that it repeats`}},
		{"name", "a: «&é» 1\nb: «*»\n", []string{"not a name of an anchor", "not a name of an anchor"}},
		{"two anchors", "a: &x «&y» 1\n", []string{"a second anchor for one value"}},
		{"anchored alias", "a: &x 1\nb: &y «*x»\n", []string{"an anchor before an alias"}},

		// Structure.
		{"map on the line of a key", "a: «b: c»\nd: 1\n", []string{"a map cannot begin on this line"}},
		{"list on the line of a key", "a: «- b»\n", []string{"a list cannot begin on this line"}},
		{"text then key", "a: ‹b›\n  «c»: d\ne: 1\n", []string{"a key inside a text of several lines"}},
		{"too deep by one", "a: 1\n «b»: 2\nc: 3\n", []string{"a key inside a text of several lines"}},
		{"indentation", "a:\n  b: 1\n   «c»: [1]\n  d: 2\n", []string{"a key inside a text of several lines"}},
		{"indentation after a map", "a:\n    b: {}\n  «c: 1»\nd: 1\n", []string{"bad indentation"}},
		{"list among keys", "a: 1\n«- b»\nc: 1\n", []string{"a list item among the keys of a map"}},
		{"key among items", "- a\n«b: 1»\n- c\n", []string{"expected a list item"}},
		{"text behind a value", "a: \"b\" «c»\nd: [1] «e»\n", []string{"unexpected text after a value", "unexpected text after a value"}},
		{"comment without a space", "a: \"b\"«#c»\n", []string{"a comment without a space before it"}},
		{"second value", "- a\n...\nb\n«c»: 1\n", []string{"a key inside a text of several lines"}},
		{"behind the end", "a: 1\n... «b»\n", []string{"text behind the end of the document"}},
		{"tab", "a:\n«\t»b: 1\n\tc: 2\n", []string{"a tab in the indentation"}},
		{"tab behind spaces", "a:\n  b: 1\n  «\t»c: 2\n", []string{"a tab in the indentation"}},
		{"tab behind a dash", "-«\t»a: 1\n", []string{"a tab in the indentation"}},
		{"tab in brackets", "a: [\n«\t»b\n]\n", []string{"a tab in the indentation"}},
		{"tab in a block scalar", "a: |\n«\t»b\n", []string{"a tab in the indentation"}},

		// Brackets and quotes.
		{"bracket", "a: «[»1, 2\n‹b: 3›\n", []string{"this bracket is never closed"}},
		{"brace", "a: «{»b: 1,\n", []string{"this bracket is never closed"}},
		{"bracket before a document", "«[»1\n‹--- 2›\n", []string{"this bracket is never closed"}},
		{"quote", "a: «'b»\n‹c: 'd'›\n", []string{"this quote is never closed"}},
		{"double quote", "a: «\"b\\\"»\n", []string{"this quote is never closed"}},
		{"quote continued in column 1", "a: «\"b\\»\n‹«c\"»›\n", []string{"this quote is never closed", "expected a key with a colon"}},
		{"quoted key", "{«\"a»\n\": 1}", []string{"this quote is never closed"}},
		{"two that are not closed", "a: «[»1\n‹b: {}›\nc: «'d»\n‹e: f›\n", []string{"this bracket is never closed", "this quote is never closed"}},
		{"not open", "a: «]»\n", []string{`unexpected ']'`}},
		{"comma", "[1, «,» 2]", []string{`unexpected ','`}},
		{"no comma", "[\"a\" «\"»b\"]", []string{`expected "," or ']'`}},
		{"no comma in braces", "{a: 'b' «c»: d}", []string{`expected "," or '}'`}},
		{"one finding in braces", "{a: 'b' «c»: d, e: 'f' g}", []string{`expected "," or '}'`}},
		{"one finding in a list", "['b' «c», 'f' g]", []string{`expected "," or ']'`}},
		{"no space before a comment", "['b'«#c»\n]", []string{"a comment without a space before it"}},
		{"anchor in brackets", "{a: &x , b: [&y ], c: [*y, *x, «*z»]}", []string{`no anchor "z" stands before this alias`}},
		{"quote in brackets", "a: ['b\n  c', «'d»\n‹e: f']›\n", []string{"this quote is never closed"}},
		{"tag in brackets", "[«!<a,b>» c, «!d», e]", []string{"a tag is not supported", "a tag is not supported"}},
		{"dash in brackets", "[«-» a]", []string{`unexpected "-"`}},
		{"escape", "a: \"b«\\q»«\\x1»\"\n", []string{"not an escape", "not an escape"}},
		{"surrogate", `a: "«\ud800»"`, []string{"not an escape"}},
		{"beyond Unicode", `a: "«\U00110000»"`, []string{"not an escape"}},
		{"reserved", "a: «@b c»\nb: «`x»\nc: «%d»\n", []string{"text may not begin with '@'", "text may not begin with '`'", "text may not begin with '%'"}},

		// Block scalars.
		{"text behind |", "a: «|x»\n", []string{"text behind the indicator of a block scalar"}},
		{"text behind > and a space", "a: «> b»\n", []string{"text behind the indicator of a block scalar"}},
		{"indentation 0", "a: «|0»\n  b\n", []string{"text behind the indicator of a block scalar"}},
		{"blank line too wide", "a: |\n«    »\n  b\n", []string{"a blank line has more spaces than the text that follows it"}},
		{"not indented", "--- |\n«a»\n", []string{"the text of a block scalar is not indented"}},

		// Numbers.
		{"octal or not", "a: «017»\nb: «-01.5»\nc: «00»\n", []string{"a number that is not accepted", "a number that is not accepted", "a number that is not accepted"}},
		{"not finite", "a: [«.inf», «-.INF», «+.Inf», «.nan», «.NaN»]\n", slicesOf("a number that is not accepted", 5)},
		{"many digits", "a: «" + digits + "»\n", []string{"a number that is not accepted"}},
		{"many hexadecimal digits", "a: «0x" + digits + "»\n", []string{"a number that is not accepted"}},
		{"exponent", "[«1e401», «1e-401», «1e99999999999999999999», 1e400]", slicesOf("a number that is not accepted", 3)},

		// Characters. U+F7xx stands for byte xx.
		{"NUL", "a: «\x00»b\n", []string{"a NUL character"}},
		{"control", "é: \"«\x1b»[0m«\x7f»«\u009b»\"\n", []string{"the control character U+001B", "the control character U+007F", "the control character U+009B"}},
		{"carriage return", "a: b«\r»c\nb: 1«\r»\r\n", []string{"a carriage return without a line feed", "a carriage return without a line feed"}},
		{"line separator", "a: 'b«\u2028»c'\n", []string{"the line break character U+2028"}},
		{"byte order mark inside", "a: «\ufeff»b\n", []string{"a byte order mark inside the file"}},
		{"not UTF-8", "é: b«\uf7ff»\n", []string{"the file is not valid UTF-8"}},
		{"Latin-1", "name: caf«\uf7e9» con leche\n", []string{"the file is not valid UTF-8"}},
		{"cut off", "a: «\uf7e2»«\uf782»", []string{"the file is not valid UTF-8", "the file is not valid UTF-8"}},

		// Several at once: reading goes on behind each.
		{"four", "a: «!t» 1\nb: «[»1\nc: 3\n«a»: 2\nd: x\n  «e»: 4\n", []string{
			"a tag is not supported", "this bracket is never closed", `the key "a" stands twice in this map`, "a key inside a text of several lines"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src, subjects, contexts := marked(t, tt.text)
			_, diags := Parse("f", []byte(src), Limits{})
			var got, want []string
			for i, d := range diags {
				got = append(got, spot(d.Subject)+" "+d.Summary)
				require.NotEmpty(t, d.Detail)
				require.Equal(t, diag.PlanSyntax, d.Code)
				require.Equal(t, diag.Error, d.Severity)
				if i < len(contexts) {
					require.Equal(t, spot(contexts[i]), spot(d.Context), "context")
				}
			}
			for i, s := range tt.want {
				if i < len(subjects) {
					s = spot(subjects[i]) + " " + s
				}
				want = append(want, s)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q (-want +got)\n%s", src, diff)
			}
		})
	}
}

func slicesOf(s string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}

// spot writes a range for a message of a test.
func spot(r diag.Range) string {
	return fmt.Sprintf("%d:%d/%d-%d:%d/%d", r.Start.Line, r.Start.Column, r.Start.Byte, r.End.Line, r.End.Column, r.End.Byte)
}
