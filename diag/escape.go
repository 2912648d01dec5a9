package diag

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// escape writes whatever a terminal might act on, or show in another order than
// it stands in, as an escape: control and format characters (the bidirectional
// ones among them), odd spaces, and bytes that are not UTF-8.
func escape(s string) string {
	if printable(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		piece, _ := visible(r, size, s[i])
		b.WriteString(piece)
		i += size
	}
	return b.String()
}

func printable(s string) bool {
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// visible gives the text that stands for a character, and its cells. c is the
// first byte of it, which is all there is of one that is not UTF-8.
func visible(r rune, size int, c byte) (string, int) {
	var s string
	switch {
	case r == utf8.RuneError && size == 1:
		s = fmt.Sprintf(`\x%02x`, c)
	case unicode.IsPrint(r):
		return string(r), runeCells(r)
	case r == '\t':
		s = `\t`
	case r == '\n':
		s = `\n`
	case r == '\r':
		s = `\r`
	case r > 0xffff:
		s = fmt.Sprintf(`\U%08x`, r)
	default:
		s = fmt.Sprintf(`\u%04x`, r)
	}
	return s, len(s)
}

// runeCells is the number of terminal cells of a printable character.
func runeCells(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// cells is the number of terminal cells of s, which is printable.
func cells(s string) int {
	n := 0
	for _, r := range s {
		n += runeCells(r)
	}
	return n
}
