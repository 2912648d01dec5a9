package intake

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// lookalikes are characters that people take for ASCII, by what they take them for, and that NFKD
// does not take apart into ASCII.
var lookalikes = inverted(map[string]string{
	"a": "аАαΑɑ", "b": "ЬьВΒƄ", "c": "сСϲϹᴄ", "d": "ԁԀɗ", "e": "еЕΕєɛҽ", "f": "Ϝ", "g": "ɡցɢ", "h": "һНΗհ", "i": "іІΙιıӏӀɩɪ", "j": "јЈϳ",
	"k": "кКκΚᴋ", "l": "ǀ", "m": "мМΜᴍ", "n": "ΝпηոɴԴ", "o": "оОοΟօՕσᴏ", "p": "рРρΡ", "q": "ԛԚզ", "r": "гᴦɾ", "s": "ѕЅʂꜱՏ", "t": "тТτΤᴛ",
	"u": "υսՍᴜ", "v": "νѵѴᴠ", "w": "ԝԜωᴡ", "x": "хХχΧ×", "y": "уУүҮΥγʏ", "z": "ΖᴢʐԶ",
	"-": "‐‑‒–—―−˗", "'": "’‘ʼ", "_": "‿", ".": "·", "/": "⁄∕",
})

func inverted(of map[string]string) map[rune]string {
	all := map[rune]string{}
	for plain, like := range of {
		for _, r := range like {
			all[r] = plain
		}
	}
	return all
}

// folder folds characters, each once.
type folder map[rune]string

func (f folder) plain(r rune) string {
	if r < unicode.MaxASCII {
		return plain(r)
	}
	s, ok := f[r]
	if !ok {
		s = plain(r)
		f[r] = s
	}
	return s
}

// plain returns a character in lower case, without its marks, and in ASCII if it looks like it. An
// invisible one becomes nothing, and a hidden letter the letter.
func plain(r rune) string {
	switch {
	case 'A' <= r && r <= 'Z':
		return string(r + 'a' - 'A')
	case r < unicode.MaxASCII:
		return string(r)
	case 0xE0020 <= r && r < 0xE007F:
		return plain(r - 0xE0000)
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
		return ""
	}
	if s, ok := lookalikes[r]; ok {
		return s
	}
	var b strings.Builder
	for _, part := range norm.NFKD.String(string(r)) {
		if s, ok := lookalikes[part]; ok {
			b.WriteString(s)
		} else if !unicode.Is(unicode.Mn, part) {
			b.WriteString(strings.ToLower(string(part)))
		}
	}
	return b.String()
}

// folded is a text as rules read it: in plain letters, without emphasis, each white space as one
// space.
type folded struct {
	text string
	// from[i] is where text[i] comes from.
	from []int32
}

func fold(text string) folded {
	var f folded
	var b strings.Builder
	known := folder{}
	for at, r := range text {
		s := known.plain(r)
		switch {
		case unicode.IsSpace(r):
			if s = " "; strings.HasSuffix(b.String(), " ") {
				continue
			}
		case r == '*' || r == '`':
			continue
		}
		b.WriteString(s)
		for range len(s) {
			f.from = append(f.from, int32(at))
		}
	}
	f.text = b.String()
	return f
}
