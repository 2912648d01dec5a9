package schemas_test

import (
	"regexp"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/schemas"
)

func TestPatternLengths(t *testing.T) {
	for _, c := range []struct {
		pattern string
		lo, hi  int
	}{
		{`^[A-Z]{3}-[0-9]{6}$`, 10, 10},
		{`^(a|bcd)?x$`, 1, 4},
		{`^(a|bcd)$`, 1, 3},
		{`^a$|^bc$`, 1, 2},
		{`^a$|bc`, 1, -1},
		{`^(?:é🙂){2,3}$`, 4, 6},
		{`^a{2,}$`, 2, -1},
		{`^\d+$`, 1, -1},
		{`^.*$`, 0, -1},
		{`^$`, 0, 0},
		{`a{3}`, 3, -1},
		{`^a{3}`, 3, -1},
		{`a{3}$`, 3, -1},
		{`a?^b$`, 1, 2},
		{`(^a$)?`, 0, -1},
		{`(^ab$){1}`, 2, 2},
		{`(?m)^a$`, 1, -1},
		{`^\bword\b$`, 4, 4},
		{``, 0, -1},
	} {
		pattern := regexp.MustCompile(c.pattern)
		lo, hi := schemas.PatternLengths(pattern)
		require.Equal(t, []int{c.lo, c.hi}, []int{lo, hi}, c.pattern)
		rapid.Check(t, func(r *rapid.T) {
			text := rapid.StringOfN(rapid.RuneFrom([]rune("abcdxé🙂 wor\nAZ-019")), 0, 12, -1).Draw(r, "text")
			if rapid.Bool().Draw(r, "matching") && c.pattern != `a?^b$` {
				text = rapid.StringMatching(c.pattern).Draw(r, "text")
			}
			if n := utf8.RuneCountInString(text); pattern.MatchString(text) && (n < lo || hi >= 0 && n > hi) {
				r.Fatalf("%q is taken by %s, which is said to take %d to %d", text, c.pattern, lo, hi)
			}
		})
	}
}
