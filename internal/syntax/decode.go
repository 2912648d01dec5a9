package syntax

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// decoder builds the decoded text of a scalar and, where stop is not negative,
// finds the byte of the file that decoded byte number stop came from.
type decoder struct {
	out  []byte
	stop int
	at   int
}

// copy appends text[from:to] as it stands.
func (d *decoder) copy(text string, from, to int) {
	if d.at < 0 && d.stop >= 0 && len(d.out)+to-from > d.stop {
		d.at = from + d.stop - len(d.out)
	}
	d.out = append(d.out, text[from:to]...)
}

// put appends what the token at byte from of the file stands for.
func (d *decoder) put(s string, from int) {
	if d.at < 0 && d.stop >= 0 && len(d.out)+len(s) > d.stop {
		d.at = from
	}
	d.out = append(d.out, s...)
}

// breaks appends n line feeds that begin at byte from.
func (d *decoder) breaks(n, from int) {
	if d.at < 0 && d.stop >= 0 && len(d.out)+n > d.stop {
		d.at = from
	}
	for range n {
		d.out = append(d.out, '\n')
	}
}

// fold appends what the white space around a line break inside a flow scalar
// stands for (YAML 1.2.2, section 6.5) and returns the offset of the next
// line's content. from is the offset of the line break.
func (d *decoder) fold(text string, from, end int, escaped bool) int {
	lines, i := 0, from
	for i < end {
		switch text[i] {
		case '\n':
			lines++
			fallthrough
		case ' ', '\t', '\r':
			i++
			continue
		}
		break
	}
	switch {
	case lines > 1:
		d.breaks(lines-1, from)
	case !escaped:
		d.put(" ", from)
	}
	return i
}

// plain decodes an unquoted scalar of several lines.
func (d *decoder) plain(text string, from, end int) {
	for i := from; i < end; {
		n := strings.IndexByte(text[i:end], '\n')
		if n < 0 {
			d.copy(text, i, end)
			return
		}
		d.copy(text, i, i+len(strings.TrimRight(text[i:i+n], " \t\r")))
		i = d.fold(text, i+n, end, false)
	}
}

// single decodes what stands between single quotes.
func (d *decoder) single(text string, from, end int) {
	for i := from; i < end; {
		n := strings.IndexAny(text[i:end], "'\n")
		switch {
		case n < 0:
			d.copy(text, i, end)
			return
		case text[i+n] == '\'':
			d.copy(text, i, i+n)
			d.put("'", i+n)
			i += n + 2
		default:
			d.copy(text, i, i+len(strings.TrimRight(text[i:i+n], " \t\r")))
			i = d.fold(text, i+n, end, false)
		}
	}
}

// badEscape is an escape that double quotes do not know.
type badEscape struct {
	from, to int
	detail   string
}

// double decodes what stands between double quotes. Escapes that do not exist
// stand for nothing; the first of them are returned.
func (d *decoder) double(text string, from, end int) (bad []badEscape) {
	for i := from; i < end; {
		n := strings.IndexAny(text[i:end], "\\\n")
		switch {
		case n < 0:
			d.copy(text, i, end)
			return bad
		case text[i+n] == '\n':
			d.copy(text, i, i+len(strings.TrimRight(text[i:i+n], " \t\r")))
			i = d.fold(text, i+n, end, false)
			continue
		}
		d.copy(text, i, i+n)
		i += n
		if rest := text[i+1 : end]; strings.HasPrefix(rest, "\n") || strings.HasPrefix(rest, "\r\n") {
			i = d.fold(text, i+1, end, true)
			continue
		}
		s, size, problem := escape(text[i:end])
		if problem != "" && len(bad) < maxFindings {
			bad = append(bad, badEscape{i, i + size, problem})
		}
		d.put(s, i)
		i += size
	}
	return bad
}

// escapes are the one-character escapes of YAML 1.2.2, section 5.7.
var escapes = [256]string{
	'0': "\x00", 'a': "\a", 'b': "\b", 't': "\t", '\t': "\t", 'n': "\n", 'v': "\v",
	'f': "\f", 'r': "\r", 'e': "\x1b", ' ': " ", '"': `"`, '/': "/", '\\': `\`,
	'N': "\u0085", '_': "\u00a0", 'L': "\u2028", 'P': "\u2029",
}

// escape decodes the escape that s begins with. size is its length in bytes.
func escape(s string) (text string, size int, problem string) {
	if len(s) < 2 {
		return "", len(s), "Nothing follows the backslash."
	}
	if e := escapes[s[1]]; e != "" {
		return e, 2, ""
	}
	length := 0
	switch s[1] {
	case 'x':
		length = 2
	case 'u':
		length = 4
	case 'U':
		length = 8
	default:
		_, n := utf8.DecodeRuneInString(s[1:])
		return "", 1 + n, `In double quotes a backslash begins an escape. Write \\ for a backslash, or use single quotes.`
	}
	r, ok := hex(s[2:], length)
	if !ok {
		for size = 2; size < len(s) && strings.IndexByte("0123456789abcdefABCDEF", s[size]) >= 0; size++ {
		}
		return "", size, "It needs " + strconv.Itoa(length) + " hexadecimal digits."
	}
	size = 2 + length
	if utf16.IsSurrogate(r) && length == 4 && strings.HasPrefix(s[size:], `\u`) {
		// JSON writes characters beyond U+FFFF as two escapes.
		if low, ok := hex(s[size+2:], 4); ok {
			if r := utf16.DecodeRune(r, low); r != utf8.RuneError {
				return string(r), size + 6, ""
			}
		}
	}
	if !utf8.ValidRune(r) {
		return "", size, "It is not a character: it is one half of a surrogate pair, or beyond U+10FFFF."
	}
	return string(r), size, ""
}

// hex reads n hexadecimal digits.
func hex(s string, n int) (rune, bool) {
	if len(s) < n || strings.ContainsAny(s[:n], "+-_") {
		return 0, false
	}
	v, err := strconv.ParseUint(s[:n], 16, 32)
	if err != nil {
		return 0, false
	}
	if v > utf8.MaxRune {
		return utf8.MaxRune + 1, true
	}
	return rune(v), true
}

// The chomping of a block scalar.
const (
	clip  = byte(0)
	strip = byte('-')
	keep  = byte('+')
)

// block decodes the lines text[from:end] of a block scalar whose content is
// indented by indent spaces, and returns the end of its last content, or from
// if it has none.
func (d *decoder) block(text string, from, end, indent int, folded bool, chomp byte) (last int) {
	blank, any, deeper, ended := 0, false, false, true
	last = from
	for i := from; i < end; {
		line, next := end, end
		if n := strings.IndexByte(text[i:end], '\n'); n >= 0 {
			line, next = i+n, i+n+1
		}
		if line > i && text[line-1] == '\r' && next > line {
			line--
		}
		start := i
		for start < line && start < i+indent && text[start] == ' ' {
			start++
		}
		i = next
		if start == line {
			blank++
			continue
		}
		more := text[start] == ' ' || text[start] == '\t'
		switch {
		case !any:
			d.breaks(blank, last)
		case folded && !more && !deeper && blank == 0:
			d.put(" ", last)
		case folded && !more && !deeper:
			d.breaks(blank, last)
		default:
			d.breaks(blank+1, last)
		}
		d.copy(text, start, line)
		any, blank, deeper, last, ended = true, 0, more, line, text[next-1] == '\n' || strings.Trim(text[start:line], " \t") == ""
	}
	// The end of the file is no line break, except behind a line of white space.
	if chomp == keep {
		d.breaks(blank, last)
	}
	if any && ended && chomp != strip {
		d.breaks(1, last)
	}
	return last
}
