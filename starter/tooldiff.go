package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"chimera.ai/engine/fingerprint"
)

// Bounds of a change as it is shown: the width of rows in columns, of which a terminal may have other
// ones, the rows up to which values stand side by side, the characters of one that does not, and those
// of it before the first that differs.
const (
	diffWidth, minDiffWidth, maxDiffWidth = 100, 60, 160

	diffRows = 8
	diffText = 2000
	diffLead = 60
)

// absentValue stands for a value that was not, or is not, there.
const absentValue = "(not there)"

// changed prints changes: where, and there what was on the left and what is on the right, or on lines
// of their own if they are long.
func (p *Program) changed(changes []fingerprint.Change) {
	width := diffWidth
	if fd, ok := terminal(p.Stdout); ok {
		if w, _, err := term.GetSize(fd); err == nil {
			width = min(max(w, minDiffWidth), maxDiffWidth)
		}
	}
	for _, c := range changes {
		p.printf("%s\n", strings.TrimSpace(fmt.Sprintf("%s: %s", c.Part, foreign(c.Path))))
		for _, row := range sideBySide(value(c.Was), value(c.Is), width) {
			p.printf("%s\n", row)
		}
	}
}

// value is a value as it is shown.
func value(raw json.RawMessage) string {
	if raw == nil {
		return absentValue
	}
	return foreign(string(raw))
}

// sideBySide returns the rows of two texts, of at most width columns. Of long texts it has what
// differs, with what stands around it.
func sideBySide(was, is string, width int) (rows []string) {
	half := (width - len("  ") - len(" | ")) / 2
	left, right := wrapped(was, half), wrapped(is, half)
	if n := max(len(left), len(right)); n <= diffRows {
		left = append(left, slices.Repeat([]string{""}, n-len(left))...)
		right = append(right, slices.Repeat([]string{""}, n-len(right))...)
		for i := range n {
			rows = append(rows, strings.TrimRight("  "+left[i]+strings.Repeat(" ", half-columns(left[i]))+" | "+right[i], " "))
		}
		return rows
	}
	same := 0
	for same < min(len(was), len(is)) && was[same] == is[same] {
		same++
	}
	for _, side := range []struct{ sign, text string }{{"- ", was}, {"+ ", is}} {
		for _, row := range wrapped(clipped(side.text, same), width-len("  ")-len(side.sign)) {
			rows = append(rows, "  "+side.sign+row)
		}
	}
	return rows
}

// clipped is what a text has from shortly before the byte at on.
func clipped(text string, at int) string {
	begin := max(0, at-diffLead)
	for begin > 0 && !utf8.RuneStart(text[begin]) {
		begin--
	}
	end := min(len(text), begin+diffText)
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	out := text[begin:end]
	if begin > 0 {
		out = "... " + out
	}
	if end < len(text) {
		out += fmt.Sprintf(" ... (%d bytes more)", len(text)-end)
	}
	return out
}

// wrapped breaks a text into rows of at most width columns.
func wrapped(text string, width int) (rows []string) {
	begin, used := 0, 0
	for i, r := range text {
		if used += columns(string(r)); used > width {
			rows = append(rows, text[begin:i])
			begin, used = i, columns(string(r))
		}
	}
	return append(rows, text[begin:])
}

// columns is how many columns a text takes at most: a character that is not ASCII counts as two.
func columns(text string) (n int) {
	for _, r := range text {
		if n++; r >= utf8.RuneSelf {
			n++
		}
	}
	return n
}
