package syntax

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// manyCharacters is the number of refused characters at which a file is
// considered not to be text.
const manyCharacters = 10

// characters reports every byte and character that no document may hold, and
// whether the rest of the file is worth reading.
//
// It refuses bytes that are not UTF-8, control characters, a carriage return
// that no line feed follows, and four characters on which readers disagree:
// U+0085, U+2028 and U+2029, which YAML 1.1 treats as line breaks and YAML 1.2
// and JSON do not, and a byte order mark inside the file. All but the first can
// still be written as an escape in double quotes.
func (p *parser) characters() bool {
	text := p.text
	if strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") {
		p.report(0, 2, "the file is UTF-16, not UTF-8",
			"It begins with a UTF-16 byte order mark. Save it as UTF-8.")
		return false
	}
	found := 0
	for i := p.off; i < len(text) && !p.stop; {
		c := text[i]
		if c >= ' ' && c < 0x7f || c == '\n' || c == '\t' {
			i++
			continue
		}
		if c == '\r' && i+1 < len(text) && text[i+1] == '\n' {
			i += 2
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if summary, detail := refused(r, size, c); summary != "" {
			p.report(i, i+size, summary, detail)
			if found++; found == manyCharacters {
				return false
			}
		}
		i += size
	}
	return true
}

// refused returns why a character is not allowed in a file, or "".
func refused(r rune, size int, c byte) (summary, detail string) {
	switch {
	case r == utf8.RuneError && size == 1:
		return "the file is not valid UTF-8",
			fmt.Sprintf("Byte 0x%02x does not belong to a character. Save the file as UTF-8.", c)
	case r == '\r':
		return "a carriage return without a line feed",
			`Lines end with a line feed, or with a carriage return and a line feed. Inside text write \r in double quotes.`
	case r == 0:
		return "a NUL character", "A file that holds it is usually not text. Remove it."
	case r < ' ' || r >= 0x7f && r < 0xa0 && r != 0x85:
		return fmt.Sprintf("the control character U+%04X", r),
			fmt.Sprintf(`Remove it, or write \u%04x in double quotes.`, r)
	case r == 0x85 || r == 0x2028 || r == 0x2029:
		return fmt.Sprintf("the line break character U+%04X", r),
			fmt.Sprintf(`Readers disagree whether it ends a line. Write \u%04x in double quotes, or a usual line break.`, r)
	case r == 0xfeff:
		return "a byte order mark inside the file",
			`It may only be the first character. Remove it, or write \ufeff in double quotes.`
	case r == 0xfffe || r == 0xffff:
		return fmt.Sprintf("the noncharacter U+%04X", r), "Remove it."
	}
	return "", ""
}
