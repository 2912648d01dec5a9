package intake

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"chimera.ai/engine/approval/display"
)

// Bounds of an excerpt, in characters of its form in quotes: before what it shows, and in all.
// Package display shows up to 400 whole.
const (
	lead  = 60
	shown = 240
)

// excerpt shows what stands at a place of a text, and around it, as approvers would see it.
func excerpt(text string, at int) string {
	begin := at
	for room := lead; begin > 0; {
		r, size := utf8.DecodeLastRuneInString(text[:begin])
		if room -= cost(r); room < 0 {
			break
		}
		begin -= size
	}
	end := begin
	for room := shown; end < len(text); {
		r, size := utf8.DecodeRuneInString(text[end:])
		if room -= cost(r); room < 0 {
			break
		}
		end += size
	}
	out := quote(text[begin:end])
	if begin > 0 {
		out = "... " + out
	}
	if end < len(text) {
		out += " ..."
	}
	return out
}

// cost is the most characters that one takes in quotes.
func cost(r rune) int {
	if ' ' < r && r <= '~' && r != '"' && r != '\\' {
		return 1
	}
	return len(`\u{10FFFF}`)
}

// quote returns a text of at most 400 characters in quotes as approvers see it, by the form that
// package display documents, on one line: each string of an action's inputs stands on a line of its
// own, after its path.
func quote(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		return `""` // a string always has a form
	}
	page, err := display.Text(&display.View{Items: []display.Item{{Inputs: raw}}})
	if err != nil {
		return `""` // it is within the bounds
	}
	_, page, _ = strings.Cut(page, "\n    $ = ")
	page, _, _ = strings.Cut(page, "\n\nend of the approval text\n")
	const more = "\n      + "
	return strings.ReplaceAll(strings.ReplaceAll(page, `"`+more+`"`, ""), more, " ")
}

// step is a name in a JSON pointer as it is shown: of printable ASCII, and cut when it is long.
func step(name string) string {
	const most = 100
	var b strings.Builder
	for _, r := range name {
		switch {
		case b.Len() > most:
			return b.String() + "..."
		case r == '~':
			b.WriteString("~0")
		case r == '/':
			b.WriteString("~1")
		case ' ' <= r && r < '~':
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u{%X}`, r)
		}
	}
	return b.String()
}
