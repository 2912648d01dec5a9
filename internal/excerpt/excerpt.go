// Package excerpt shows parts of foreign text in messages: bounded and valid UTF-8.
package excerpt

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// lines replaces what ends a line by a space.
var lines = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\v", " ", "\f", " ", "\u0085", " ", "\u2028", " ", "\u2029", " ")

// Clip returns s on one line. If s is longer than n bytes, Clip returns the
// characters that fit in n bytes, followed by "…". Bytes that are not UTF-8
// become U+FFFD.
func Clip(s string, n int) string {
	s, cut := head(s, n)
	s = lines.Replace(strings.ToValidUTF8(s, "\uFFFD"))
	if cut {
		s += "…"
	}
	return s
}

// Bytes returns s with its lines as they are. If s is longer than n bytes, Bytes
// returns the characters that fit in n bytes, followed by "…". Bytes that are not UTF-8
// become U+FFFD.
func Bytes(s string, n int) string {
	s, cut := head(strings.ToValidUTF8(s, "\uFFFD"), n)
	if cut {
		s += "…"
	}
	return s
}

// Runes returns s, or if s has more than n characters its first n-1, followed by "…".
func Runes(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:max(0, n-1)]) + "…"
}

// Quote returns s as a Go string literal, which holds printable characters only.
// If s is longer than n bytes, the literal holds the characters that fit in n
// bytes, followed by "…".
func Quote(s string, n int) string {
	s, cut := head(s, n)
	if cut {
		s += "…"
	}
	return strconv.Quote(s)
}

// head returns the characters at the start of s that fit in n bytes, and reports
// whether it left any out.
func head(s string, n int) (string, bool) {
	if len(s) <= n {
		return s, false
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n], true
}
