package intake

import (
	"strings"
	"unicode"
)

// maxMarks is how many marks combine with a letter at most, as in the text that approvers see.
const maxMarks = 4

// unseen is a place in a text where people do not see what a program reads.
type unseen struct {
	at     int
	reason string
}

// hidden finds what people do not see in a text, once for each reason. lines says that it may
// have several lines.
func hidden(text string, lines bool) (all []unseen) {
	found := func(at int, reason string) {
		for _, u := range all {
			if u.reason == reason {
				return
			}
		}
		all = append(all, unseen{at, reason})
	}
	var before, joined rune // joined is the character before a joiner, if it has one
	marks, blanks, rows := 0, 0, 0
	for at, r := range text {
		if joined != 0 && !joinable(joined, before, r) {
			found(at-len(string(before)), "an invisible character")
		}
		joined = 0
		if r == joiner || r == nonJoiner {
			joined = before
			if before == 0 {
				found(at, "an invisible character")
			}
		} else if reason := concealed(r, before, lines); reason != "" {
			found(at, reason)
		}
		if marks++; !unicode.In(r, unicode.Mn, unicode.Me) {
			marks = 0
		} else if marks > maxMarks {
			found(at, "marks piled upon one letter")
		}
		if blanks++; !unicode.IsSpace(r) {
			blanks, rows = 0, 0
		} else if r == '\n' {
			rows++
		}
		if rows > maxRows || blanks > maxBlanks {
			found(at, "white space that moves what follows out of sight")
		}
		before = r
	}
	if joined != 0 {
		found(len(text)-len(string(before)), "an invisible character")
	}
	if i := strings.Index(text, "<!--"); i >= 0 {
		found(i, "a comment of HTML, which is not shown where Markdown is rendered")
	}
	return all
}

// maxRows and maxBlanks bound white space without anything between: rows, and characters.
const maxRows, maxBlanks = 8, 120

const (
	nonJoiner       = '\u200C'
	joiner          = '\u200D'
	textSelector    = '\uFE0E'
	pictureSelector = '\uFE0F'
)

// concealed returns why a character conceals something, or "". Joiners are not its business.
func concealed(r, before rune, lines bool) string {
	switch {
	case r == '\n' || r == '\t' || r == '\r':
		if lines {
			return ""
		}
		return "a control character"
	case ' ' <= r && r <= '~':
		return ""
	case unicode.Is(unicode.Cc, r):
		return "a control character"
	case 0xE0000 <= r && r <= 0xE007F:
		return "characters of the tag block, which models read and people do not see"
	case unicode.Is(unicode.Bidi_Control, r):
		return "a character that changes the direction of text"
	case unicode.Is(unicode.Variation_Selector, r):
		if (r == textSelector || r == pictureSelector) && pictured(before) {
			return ""
		}
		return "a variation selector where none belongs"
	case unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point), r == '\u2800':
		return "an invisible character"
	case unicode.In(r, unicode.Zl, unicode.Zp):
		return "a separator of lines that is not shown as one"
	case r == '\u1680', '\u2000' <= r && r <= '\u200A' && r != '\u2009':
		return "a space of unusual width"
	case unicode.Is(unicode.Co, r):
		return "a character for private use"
	case unicode.Is(unicode.Cn, r):
		return "a character that is not assigned"
	}
	return ""
}

// pictured reports whether a character has a form as a picture.
func pictured(r rune) bool {
	return unicode.In(r, unicode.So, unicode.Sk) || strings.ContainsRune("#*0123456789©®‼⁉↔〰〽", r) || unicode.In(r, unicode.Sm)
}

// joinable reports whether a joiner belongs between two characters: pictures that make up one, or
// letters of a script that needs it.
func joinable(before, join, after rune) bool {
	if join == joiner && unicode.In(after, unicode.So) && (before == pictureSelector || unicode.In(before, unicode.So, unicode.Sk)) {
		return true
	}
	return unicode.In(before, joining...) && unicode.In(after, joining...)
}

// joining are scripts whose letters change where they join.
var joining = []*unicode.RangeTable{
	unicode.Arabic, unicode.Bengali, unicode.Devanagari, unicode.Gujarati, unicode.Gurmukhi, unicode.Kannada, unicode.Khmer,
	unicode.Malayalam, unicode.Mongolian, unicode.Oriya, unicode.Sinhala, unicode.Syriac, unicode.Tamil, unicode.Telugu,
}
