package schemas

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"chimera.ai/engine/internal/excerpt"
)

// PatternSize returns the size of a pattern's program in instructions, without building
// it: a pattern of twenty bytes can have a program of millions. The pattern has Go's
// syntax. The error is [ErrTooLarge] if the pattern or its program exceeds a bound, and
// another if it is not RE2.
func PatternSize(pattern string) (int, error) {
	if len(pattern) > MaxPattern {
		return 0, tooLarge("a pattern of %d bytes, more than %d", len(pattern), MaxPattern)
	}
	n, err := sizeOf(pattern)
	var se *syntax.Error
	if errors.As(err, &se) {
		return 0, notRE2(se)
	}
	return n, err
}

// sizeOf is like PatternSize, for a pattern of any length.
func sizeOf(pattern string) (int, error) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, err
	}
	n := programSize(re)
	if n > MaxPatternSize {
		return 0, tooLarge("a pattern whose program has %d instructions, more than %d", n, MaxPatternSize)
	}
	return n, nil
}

// translate returns a pattern of a schema in the syntax of RE2, and the size of
// its program. Its errors are those of [PatternSize].
func translate(pattern string) (string, int, error) {
	if len(pattern) > MaxPattern {
		return "", 0, tooLarge("a pattern of %d bytes, more than %d", len(pattern), MaxPattern)
	}
	translated, err := ecma(pattern)
	if err != nil {
		return "", 0, err
	}
	n, err := sizeOf(translated)
	var se *syntax.Error
	if errors.As(err, &se) {
		// Report the mistake in the author's text, if that has one too.
		var own *syntax.Error
		if _, err := sizeOf(pattern); errors.As(err, &own) {
			se = own
		}
		return "", 0, notRE2(se)
	}
	return translated, n, err
}

func notRE2(se *syntax.Error) error {
	if strings.HasPrefix(se.Expr, "(?<=") || strings.HasPrefix(se.Expr, "(?<!") {
		return errors.New("the pattern is not RE2: look-behind " + excerpt.Quote(se.Expr[:4], 4))
	}
	return errors.New("the pattern is not RE2: " + se.Code.String() + ": " + excerpt.Quote(se.Expr, 100))
}

func programSize(re *syntax.Regexp) int {
	const ceiling = 1 << 20 // times 1,000, it fits in an int of 32 bits
	n := 2
	for _, sub := range re.Sub {
		n = min(n+programSize(sub), ceiling)
	}
	switch re.Op {
	case syntax.OpLiteral:
		n += len(re.Rune)
	case syntax.OpRepeat:
		n *= max(re.Max, re.Min+1, 1)
	}
	return min(n, ceiling)
}

// express gives the patterns of a schema the meaning that they have in JSON Schema. The
// library does not use comments, so the field of that name holds the author's pattern if
// the translation differs.
func express(s *jsonschema.Schema, written map[string]string) error {
	if s.Pattern != nil {
		author, ok := written[location(s.Location)]
		if !ok {
			author = s.Pattern.String()
		}
		re, err := expression(s.Pattern, author)
		if err != nil {
			return err
		}
		if re.String() != author {
			s.Comment = author
		}
		s.Pattern = re
	}
	if len(s.PatternProperties) > 0 {
		all := make(map[*regexp.Regexp]*jsonschema.Schema, len(s.PatternProperties))
		for re, c := range s.PatternProperties {
			re, err := expression(re, re.String())
			if err != nil {
				return err
			}
			all[re] = c
		}
		s.PatternProperties = all
	}
	return nil
}

func expression(re *regexp.Regexp, author string) (*regexp.Regexp, error) {
	translated, err := ecma(author)
	if err != nil || translated == re.String() {
		return re, err
	}
	return regexp.Compile(translated)
}

// authored returns the pattern of a schema as its author wrote it.
func authored(s *jsonschema.Schema) string {
	if s.Comment != "" {
		return s.Comment
	}
	return s.Pattern.String()
}

// authoredKey returns a pattern of patternProperties as its author wrote it: the
// place of its schema ends with it.
func authoredKey(re *regexp.Regexp, c *jsonschema.Schema) string {
	at := c.Location[strings.LastIndexByte(c.Location, '/')+1:]
	author := Unescape(pointer(at))
	if translated, err := ecma(author); err == nil && translated == re.String() {
		return author
	}
	return re.String()
}
