package schemas

import (
	"regexp"
	"regexp/syntax"
)

// PatternLengths gives bounds of the lengths, in code points, of all strings that
// a schema's pattern takes: at least lo, at most hi, which is -1 where there is no
// bound or none is known. They hold; that a string of that length is taken does not
// follow.
func PatternLengths(pattern *regexp.Regexp) (lo, hi int) {
	re, err := syntax.Parse(pattern.String(), syntax.Perl)
	if err != nil {
		return 0, -1
	}
	s := spanOf(re)
	if !s.begins || !s.ends {
		// A pattern takes what holds a match somewhere.
		s.hi = -1
	}
	return s.lo, s.hi
}

// maxLength is where counting ends: more is no bound at all.
const maxLength = 1 << 30

// span is what is known of all matches of a part of a pattern: how long they are
// (hi is -1 for no bound), and whether nothing can stand in front of them or after.
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
			// Where the text begins, all that stood before it in the match is empty.
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

// times is a span so often after itself; max is -1 for any number.
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
