package schemas

import (
	"errors"
	"regexp/syntax"
)

// PatternSize is the size of a pattern's program in instructions, found without
// building it: a pattern of twenty bytes can have a program of millions. The
// error is [ErrTooLarge] where the pattern or its program is beyond a bound, and
// another where it is not RE2.
func PatternSize(pattern string) (int, error) {
	if len(pattern) > MaxPattern {
		return 0, tooLarge("a pattern of %d bytes, more than %d", len(pattern), MaxPattern)
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		var se *syntax.Error
		if errors.As(err, &se) {
			return 0, errors.New("the pattern is not RE2: " + clip(se.Code.String()+": "+quote(se.Expr), 120))
		}
		return 0, err
	}
	n := programSize(re)
	if n > MaxPatternSize {
		return 0, tooLarge("a pattern whose program has %d instructions, more than %d", n, MaxPatternSize)
	}
	return n, nil
}

func programSize(re *syntax.Regexp) int {
	const ceiling = 1 << 40
	n := 2
	for _, sub := range re.Sub {
		n += programSize(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		n += len(re.Rune)
	case syntax.OpRepeat:
		n *= max(re.Max, re.Min+1, 1)
	}
	return min(n, ceiling)
}
