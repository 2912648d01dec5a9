package display

import "strings"

// Escape returns a text on one line with its characters as they stand in quotes, but for spaces,
// double quotes and backslashes, which stay as they are. So what is escaped already stays as it is,
// too, and a text may hold what looks like an escape; JSON cannot.
func Escape(s string) string {
	var b strings.Builder
	at := 0
	scan(s, func(int) bool { return true }, func(p piece) {
		if c := s[at]; ' ' <= c && c <= '~' {
			b.WriteByte(c)
		} else {
			b.WriteString(p.text)
		}
		at += p.size
	})
	return b.String()
}
