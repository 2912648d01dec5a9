package schemas

import (
	"regexp"
	"regexp/syntax"
)

// PatternLengths returns bounds of the lengths, in code points, of the strings that match
// a schema's pattern: at least lo, and at most hi, which is -1 if there is no bound or
// none is known. A string within the bounds need not match.
func PatternLengths(pattern *regexp.Regexp) (lo, hi int) {
	re, err := syntax.Parse(pattern.String(), syntax.Perl)
	if err != nil {
		return 0, -1
	}
	s := spanOf(re)
	if !s.begins || !s.ends {
		// A string that contains a match anywhere matches a pattern.
		s.hi = -1
	}
	return s.lo, s.hi
}

// maxLength is the largest length that counts as a bound.
const maxLength = 1 << 30

// span is what is known about the matches of a part of a pattern: their lengths (hi is -1
// for no bound), and whether nothing can precede or follow them.
type span struct {
	lo, hi       int
	begins, ends bool
}

func spanOf(re *syntax.Regexp) span {
	switch re.Op {
	case syntax.OpLiteral:
		return span{lo: len(re.Rune), hi: len(re.Rune)}
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return span{lo: 1, hi: 1}
	case syntax.OpBeginText:
		return span{begins: true}
	case syntax.OpEndText:
		return span{ends: true}
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return span{}
	case syntax.OpCapture:
		return spanOf(re.Sub[0])
	case syntax.OpQuest:
		return spanOf(re.Sub[0]).times(0, 1)
	case syntax.OpStar:
		return spanOf(re.Sub[0]).times(0, -1)
	case syntax.OpPlus:
		return spanOf(re.Sub[0]).times(1, -1)
	case syntax.OpRepeat:
		return spanOf(re.Sub[0]).times(re.Min, re.Max)
	case syntax.OpConcat:
		var out span
		for _, sub := range re.Sub {
			s := spanOf(sub)
			// All that precedes the beginning of the text in a match is empty.
			out = span{
				lo: min(out.lo+s.lo, maxLength), hi: plus(out.hi, s.hi),
				begins: out.begins || s.begins, ends: out.ends || s.ends,
			}
		}
		return out
	case syntax.OpAlternate:
		out := spanOf(re.Sub[0])
		for _, sub := range re.Sub[1:] {
			s := spanOf(sub)
			out = span{lo: min(out.lo, s.lo), hi: most(out.hi, s.hi), begins: out.begins && s.begins, ends: out.ends && s.ends}
		}
		return out
	}
	// Nothing else matches anything: OpNoMatch.
	return span{hi: -1}
}

// times returns the span of a repetition of s; most is -1 for any number.
func (s span) times(least, most int) span {
	out := span{lo: min(least*s.lo, maxLength), hi: -1}
	if most >= 0 && s.hi >= 0 {
		out.hi = plus(most*s.hi, 0)
	}
	if least > 0 {
		out.begins, out.ends = s.begins, s.ends
	}
	return out
}

func plus(a, b int) int {
	if a < 0 || b < 0 || a+b > maxLength {
		return -1
	}
	return a + b
}

func most(a, b int) int {
	if a < 0 || b < 0 {
		return -1
	}
	return max(a, b)
}
