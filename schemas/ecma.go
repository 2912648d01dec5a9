package schemas

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"chimera.ai/engine/internal/excerpt"
)

// What ECMA-262 calls line terminators and white space, as parts of a class of
// RE2 and its complement. RE2's own "." excludes the line feed alone, and its \s
// is ASCII.
const (
	notLine  = `[^\n\r\x{2028}\x{2029}]`
	space    = `\t-\r \x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}`
	notSpace = `\x{0}-\x{8}\x{E}-\x{1F}!-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027}\x{202A}-\x{202E}` +
		`\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{FEFE}\x{FF00}-\x{10FFFF}`
	noRune  = `[^\x{0}-\x{10FFFF}]`
	anyRune = `[\x{0}-\x{10FFFF}]`
)

// ecma translates a pattern of JSON Schema, which is one of ECMA-262 with its flag u, to
// the syntax of RE2. It keeps what both have and what only RE2 has. What only ECMA-262
// has and no translation can express, such as look-around, is left for RE2 to refuse.
// The error is about syntax that both have but that means something else in RE2.
func ecma(pattern string) (string, error) {
	if !strings.ContainsAny(pattern, `.\[`) {
		return pattern, nil
	}
	t := translator{in: pattern, dotAll: []bool{false}}
	for t.pos < len(t.in) && t.err == nil {
		t.next()
	}
	return t.out.String(), t.err
}

type translator struct {
	in  string
	pos int
	out strings.Builder
	// dotAll says for each open group whether flag s is set.
	dotAll []bool
	err    error
}

// copy copies n bytes.
func (t *translator) copy(n int) {
	n = min(n, len(t.in)-t.pos)
	t.out.WriteString(t.in[t.pos : t.pos+n])
	t.pos += n
}

func (t *translator) next() {
	top := len(t.dotAll) - 1
	switch t.in[t.pos] {
	case '.':
		if t.dotAll[top] {
			t.copy(1)
			return
		}
		t.out.WriteString(notLine)
		t.pos++
	case '(':
		t.group()
	case ')':
		if top > 0 {
			t.dotAll = t.dotAll[:top]
		}
		t.copy(1)
	case '[':
		t.class()
	case '\\':
		t.escape()
	default:
		t.copy(1)
	}
}

// group translates the start of a group, whose flags may change the meaning of ".".
func (t *translator) group() {
	flag := t.dotAll[len(t.dotAll)-1]
	rest, flags := strings.CutPrefix(t.in[t.pos:], "(?")
	if !flags {
		t.dotAll = append(t.dotAll, flag)
		t.copy(1)
		return
	}
	on := true
	for i := range len(rest) {
		switch rest[i] {
		case 's':
			flag = on
		case '-':
			on = false
		case 'i', 'm', 'U':
		case ')':
			// Flags for the rest of the enclosing group.
			t.dotAll[len(t.dotAll)-1] = flag
			t.copy(2 + i + 1)
			return
		case ':':
			t.dotAll = append(t.dotAll, flag)
			t.copy(2 + i + 1)
			return
		default:
			t.dotAll = append(t.dotAll, t.dotAll[len(t.dotAll)-1])
			t.copy(2)
			return
		}
	}
	t.copy(len(t.in))
}

// escape translates an escape outside a class.
func (t *translator) escape() {
	if text, n := shared(t.in[t.pos:]); n > 0 {
		t.out.WriteString(text)
		t.pos += n
		return
	}
	switch rest := t.in[t.pos:]; {
	case strings.HasPrefix(rest, `\s`):
		t.out.WriteString("[" + space + "]")
		t.pos += 2
	case strings.HasPrefix(rest, `\S`):
		t.out.WriteString("[" + notSpace + "]")
		t.pos += 2
	case strings.HasPrefix(rest, `\Q`):
		// RE2's quotation: all is literal up to \E.
		if end := strings.Index(rest, `\E`); end >= 0 {
			t.copy(end + 2)
			return
		}
		t.copy(len(rest))
	case len(rest) > 1 && '1' <= rest[1] && rest[1] <= '9':
		// RE2 reads \12 and the like as octal numbers.
		t.err = errors.New("the pattern is not RE2: the back reference " + excerpt.Quote(rest[:2], 2))
	default:
		t.copy(2)
	}
}

// class translates a class in brackets. In ECMA-262 the first "]" ends it, and "[" has no
// special meaning in it.
func (t *translator) class() {
	start := t.pos
	t.pos++
	not := strings.HasPrefix(t.in[t.pos:], "^")
	if not {
		t.pos++
	}
	var body strings.Builder
	// ranged is set after a character and "-": the end of a range comes next.
	// single is set after a character, which may start a range.
	single, ranged := false, false
	for t.pos < len(t.in) {
		rest := t.in[t.pos:]
		if rest[0] == ']' {
			t.pos++
			switch {
			case body.Len() > 0 && not:
				t.out.WriteString("[^" + body.String() + "]")
			case body.Len() > 0:
				t.out.WriteString("[" + body.String() + "]")
			case not:
				t.out.WriteString(anyRune)
			default:
				t.out.WriteString(noRune)
			}
			return
		}
		text, n, one := member(rest)
		switch {
		case n == 0:
			// RE2 will report the mistake.
			text, n, one = rest[:1], 1, true
		case rest[0] == '-' && single && len(rest) > 1 && rest[1] != ']':
			body.WriteByte('-')
			t.pos++
			single, ranged = false, true
			continue
		}
		if ranged && !one {
			// A range up to a class, such as [a-\s]: no character ends it.
			t.pos = start
			t.copy(len(t.in))
			return
		}
		body.WriteString(text)
		t.pos += n
		single, ranged = one && !ranged, false
	}
	t.pos = start
	t.copy(len(t.in))
}

// member reads the first member of a class from the start of s, and returns its length
// and whether it is one character.
func member(s string) (text string, n int, one bool) {
	if s[0] != '\\' {
		_, n := utf8.DecodeRuneInString(s)
		switch s[0] {
		case '[', '-', '^', '&', '~':
			return `\` + s[:1], 1, true
		}
		return s[:n], n, true
	}
	if text, n := shared(s); n > 0 {
		return text, n, text[1] != 'p' && text[1] != 'P'
	}
	if len(s) < 2 {
		return "", 0, false
	}
	switch s[1] {
	case 's':
		return space, 2, false
	case 'S':
		return notSpace, 2, false
	case 'd', 'D', 'w', 'W':
		return s[:2], 2, false
	case 'b':
		return `\x{8}`, 2, true
	case 'x':
		if len(s) > 2 && s[2] == '{' {
			if end := strings.IndexByte(s, '}'); end > 0 {
				return s[:end+1], end + 1, true
			}
		}
		return s[:min(4, len(s))], min(4, len(s)), true
	case 'p', 'P':
		if len(s) > 2 && s[2] == '{' {
			if end := strings.IndexByte(s, '}'); end > 0 {
				return s[:end+1], end + 1, false
			}
		}
		return s[:min(3, len(s))], min(3, len(s)), false
	case '0', '1', '2', '3', '4', '5', '6', '7':
		// An octal number, which is RE2's own.
		n := 2
		for n < min(4, len(s)) && '0' <= s[n] && s[n] <= '7' {
			n++
		}
		return s[:n], n, true
	}
	_, width := utf8.DecodeRuneInString(s[1:])
	return s[:1+width], 1 + width, true
}

// shared reads an escape that ECMA-262 has, RE2 has not, and that means the same
// inside and outside of a class; n is 0 where there is none.
func shared(s string) (text string, n int) {
	if len(s) < 3 {
		return "", 0
	}
	switch s[1] {
	case 'c':
		if c := s[2] | 0x20; 'a' <= c && c <= 'z' {
			return fmt.Sprintf(`\x{%X}`, c-'a'+1), 3
		}
	case 'u':
		return unicodeEscape(s)
	case 'p', 'P':
		name, _, ok := strings.Cut(s, "}")
		if !ok || s[2] != '{' {
			return "", 0
		}
		key, value, ok := strings.Cut(name[3:], "=")
		switch key {
		case "Script", "sc", "General_Category", "gc":
			if ok {
				return s[:3] + value + "}", len(name) + 1
			}
		}
	}
	return "", 0
}

// unicodeEscape reads \uXXXX, where two may be a pair of surrogates, or \u{X…}.
func unicodeEscape(s string) (text string, n int) {
	if s[2] == '{' {
		digits, _, ok := strings.Cut(s[3:], "}")
		if v, err := strconv.ParseUint(digits, 16, 32); ok && err == nil && utf8.ValidRune(rune(v)) {
			return fmt.Sprintf(`\x{%X}`, v), len(digits) + 4
		}
		return "", 0
	}
	unit := func(s string) (rune, bool) {
		if len(s) < 6 || s[:2] != `\u` {
			return 0, false
		}
		v, err := strconv.ParseUint(s[2:6], 16, 16)
		return rune(v), err == nil
	}
	high, ok := unit(s)
	if !ok {
		return "", 0
	}
	if !utf16.IsSurrogate(high) {
		return fmt.Sprintf(`\x{%X}`, high), 6
	}
	low, ok := unit(s[6:])
	if r := utf16.DecodeRune(high, low); ok && r != utf8.RuneError {
		return fmt.Sprintf(`\x{%X}`, r), 12
	}
	// No UTF-8 text contains half of a pair.
	return "", 0
}
