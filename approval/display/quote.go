package display

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// shownLimit is the number of bytes in quotes up to which a value is shown whole.
const shownLimit = 400

// piece is a character of a string as it stands in quotes, or a byte that is not UTF-8.
type piece struct {
	text string
	// size is the number of bytes that the piece stands for.
	size int
	// mark says that the piece combines with the one before, and so stays with it.
	mark bool
	// scripts is that of a letter or mark shown as itself.
	scripts scripts
	// foreign says that the piece is not ASCII.
	foreign bool
}

// shown is a string as it stands in a text.
type shown struct {
	// head is all of it if nothing is left out, and its beginning otherwise, tail its end.
	head, tail []piece
	// size is the number of bytes of the string, left how many are left out, and sum the digest
	// of all if there are any.
	size, left int
	sum        string
	// scripts are those to be named.
	scripts scripts
}

// show puts a string into quotes, of which limit bytes are shown.
func show(s string, limit int) *shown {
	if isDigest(s) {
		return &shown{head: []piece{{text: s, size: len(s)}}, size: len(s)}
	}
	half := limit / 2
	// No character is shorter in quotes than in the string. So of a string that is longer than
	// the limit, only what is near its ends can be shown.
	near := func(at int) bool { return len(s) <= limit || at <= half || at >= len(s)-half }
	var ps []piece
	total := 0
	scan(s, near, func(p piece) {
		ps = append(ps, p)
		total += len(p.text)
	})
	out := &shown{head: ps, size: len(s)}
	if len(s) > limit || total > limit {
		i, j := first(ps, half), last(ps, half)
		out.head, out.tail = ps[:i], ps[j:]
		out.left = len(s) - sizes(out.head) - sizes(out.tail)
		out.sum = Digest(s)
	}
	foreign := false
	for _, part := range [][]piece{out.head, out.tail} {
		for _, p := range part {
			out.scripts |= p.scripts
			foreign = foreign || p.foreign
		}
	}
	if !foreign {
		out.scripts = 0
	}
	return out
}

// first is how many pieces at the beginning fit in n bytes, marks not torn off.
func first(ps []piece, n int) int {
	i := 0
	for i < len(ps) && len(ps[i].text) <= n {
		n -= len(ps[i].text)
		i++
	}
	for i > 0 && i < len(ps) && ps[i].mark {
		i--
	}
	return i
}

// last is where the pieces begin that fit in n bytes at the end, marks not torn off.
func last(ps []piece, n int) int {
	i := len(ps)
	for i > 0 && len(ps[i-1].text) <= n {
		n -= len(ps[i-1].text)
		i--
	}
	for i < len(ps) && ps[i].mark {
		i++
	}
	return i
}

// sizes is how many bytes pieces stand for.
func sizes(ps []piece) int {
	n := 0
	for _, p := range ps {
		n += p.size
	}
	return n
}

// scan splits a string into pieces and passes on those that begin where near says so.
func scan(s string, near func(at int) bool, emit func(piece)) {
	end, kept := 0, false // of the word at hand, and whether it is shown as it is
	for i := 0; i < len(s); {
		if i >= end {
			end = i + wordLen(s[i:])
			kept = end > i && keeps(s[i:end])
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if near(i) {
			emit(render(s, i, r, size, kept && i < end))
		}
		i += size
	}
}

// render returns the piece of the character r, which stands at s[i:i+size].
func render(s string, i int, r rune, size int, kept bool) piece {
	p := piece{text: s[i : i+size], size: size}
	switch {
	case r == utf8.RuneError && size == 1:
		p.text = `\x{` + digits(rune(s[i])) + `}`
	case r == ' ':
		if i == 0 || i+1 == len(s) || s[i-1] == ' ' {
			p.text = `\u{20}`
		}
	case r < utf8.RuneSelf:
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			p.text = `\u{` + digits(r) + `}`
		} else if letter(s[i]) {
			p.scripts = latin
		}
	case kept:
		p.scripts, p.mark = lookup(r)
		p.scripts &^= inherited
		p.foreign = true
	default:
		p.text = `\u{` + digits(r) + `}`
	}
	return p
}

// digits is a code point in upper-case hexadecimal.
func digits(r rune) string { return strings.ToUpper(strconv.FormatInt(int64(r), 16)) }

// isDigest reports whether a string is a digest in the form that all of ours have.
func isDigest(s string) bool {
	sum, ok := strings.CutPrefix(s, "sha256:")
	return ok && len(sum) == 64 && strings.Trim(sum, "0123456789abcdef") == ""
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func digit(c byte) bool { return '0' <= c && c <= '9' }
