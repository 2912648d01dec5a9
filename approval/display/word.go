package display

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	// maxMarks is how many marks follow a letter at most: the scripts of South-East Asia
	// need four. maxAccents is how many of them may belong to no script.
	maxMarks, maxAccents = 4, 2
)

// wordLen is the length of the word at the beginning of s, in bytes.
func wordLen(s string) int {
	n := 0
	for n < len(s) {
		r, size := utf8.DecodeRuneInString(s[n:])
		if r < utf8.RuneSelf {
			if !letter(s[n]) && !digit(s[n]) {
				break
			}
		} else if of, _ := lookup(r); of == 0 {
			break
		}
		n += size
	}
	return n
}

// keeps reports whether the characters of a word that are not ASCII are shown as
// themselves. The package comment has the rules.
func keeps(word string) bool {
	var (
		all      scripts // of letters and marks
		foreign  bool    // whether there is a letter that is not ASCII
		distinct bool    // whether one of those looks like none of ASCII
		marks    = -1    // since the last letter, -1 if there is none to combine with
		accents  int
		before   rune
	)
	for _, r := range word {
		switch of, mark := lookup(r); {
		case r < utf8.RuneSelf && digit(byte(r)):
			marks = -1
		case r < utf8.RuneSelf:
			all |= latin
			marks, accents = 0, 0
		case mark:
			if marks < 0 || marks == maxMarks || r == before {
				return false
			}
			marks++
			if of == inherited {
				accents++
			}
			if accents > maxAccents {
				return false
			}
			all |= of
		default:
			all |= of
			marks, accents = 0, 0
			foreign = true
			distinct = distinct || !similar(r, of)
		}
		before = r
	}
	return all.together() && (distinct || !foreign) && norm.NFC.IsNormalString(word)
}

// similar reports whether a letter that is not ASCII looks like ASCII. What stands on or
// under a letter does not help, except in Latin: there it is why the letter is not ASCII.
func similar(r rune, of scripts) bool {
	if of != latin {
		r, _ = utf8.DecodeRuneInString(norm.NFD.String(string(r)))
	}
	return strings.ContainsRune(lookalikes, r)
}

// together reports whether the scripts may stand in one word.
func (s scripts) together() bool {
	letters := s &^ inherited
	if s != letters && letters&^(latin|greek|cyrillic) != 0 {
		return false
	}
	return letters&(letters-1) == 0 || letters&^(latin|han|hiragana|katakana) == 0 || letters&^(latin|han|hangul) == 0
}
