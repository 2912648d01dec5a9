package display

import (
	"slices"
	"unicode/utf8"
)

// scripts is a set of scripts.
type scripts uint32

// The scripts, in order of their names. Marks of any script are inherited.
const (
	armenian scripts = 1 << iota
	bengali
	cyrillic
	devanagari
	ethiopic
	georgian
	greek
	gujarati
	gurmukhi
	han
	hangul
	hiragana
	kannada
	katakana
	khmer
	lao
	latin
	malayalam
	myanmar
	oriya
	sinhala
	tamil
	telugu
	thai
	inherited
)

var scriptNames = [...]string{
	"Armenian", "Bengali", "Cyrillic", "Devanagari", "Ethiopic", "Georgian", "Greek", "Gujarati",
	"Gurmukhi", "Han", "Hangul", "Hiragana", "Kannada", "Katakana", "Khmer", "Lao",
	"Latin", "Malayalam", "Myanmar", "Oriya", "Sinhala", "Tamil", "Telugu", "Thai",
}

// names are the names of the scripts, inherited left out.
func (s scripts) names() []string {
	var names []string
	for i, name := range scriptNames {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// span is a range of characters of one script, both ends included.
type span struct {
	lo, hi rune
	of     scripts
}

// lookup returns the script of a character that is listed, and 0 for others.
func lookup(r rune) (of scripts, mark bool) {
	if r < utf8.RuneSelf {
		return 0, false
	}
	if of := find(letters, r); of != 0 {
		return of, false
	}
	of = find(marks, r)
	return of, of != 0
}

func find(spans []span, r rune) scripts {
	i, _ := slices.BinarySearchFunc(spans, r, func(s span, r rune) int { return int(s.hi - r) })
	if i < len(spans) && spans[i].lo <= r {
		return spans[i].of
	}
	return 0
}

// lookalikes are the listed letters that people take for ASCII characters: those whose
// prototype in the data of UTS #39 is ASCII, marks aside, and some that browsers treat
// alike in domain names.
const lookalikes = "" +
	// Latin.
	"\u0131\u00FE\u1E9E" +
	// Greek, upper case.
	"\u0391\u0392\u0395\u0396\u0397\u0399\u039A\u039C\u039D\u039F\u03A1\u03A4\u03A5\u03A7" +
	// Greek, lower case.
	"\u03B1\u03B3\u03B7\u03B9\u03BD\u03BF\u03C1\u03C3\u03C5" +
	// Cyrillic, upper case.
	"\u0410\u0411\u0412\u0415\u0417\u041A\u041C\u041D\u041E\u0420\u0421\u0422\u0423\u0425\u042B\u042C" +
	"\u042E\u0455\u0405\u0406\u0408\u04AE\u04C0\u04E0\u04E8" +
	// Cyrillic, lower case.
	"\u0430\u0431\u0433\u0435\u043E\u043F\u0440\u0441\u0443\u0445\u0448\u044A\u044B\u044C\u044E\u0456" +
	"\u0458\u04BB\u04BD\u04AF\u04CF\u04E9" +
	// Armenian, upper case.
	"\u054D\u054F\u0555" +
	// Armenian, lower case.
	"\u0561\u0563\u0566\u056C\u0570\u0575\u0572\u0578\u057C\u057D\u0581\u0582\u0584\u0585" +
	// Georgian.
	"\u10D8\u10DD\u10E7\u10EE\u10EB" +
	// Oriya, Malayalam, Myanmar.
	"\u0B20\u0D1F\u0D20\u101D\u1004" +
	// Thai.
	"\u0E17\u0E19\u0E1A\u0E1E\u0E23\u0E2B\u0E40\u0E41\u0E14\u0E25\u0E1B\u0E1F\u0E21" +
	// Ethiopic.
	"\u1200\u12D0" +
	// Kana, Han.
	"\u30CE\u30FC\u4E00\u4E28\u4E8C\u4E09\u53E3\u30ED\u5DE5\u30A8\u30CB\u5341\u535C\u30C8\u4E36\u4E3F" +
	"\u30E1\u4E42\u3078\u30D8"
