package expr

import "strings"

// segment is a part of a string in a template.
type segment struct {
	// text is the text, with escapes undone, or the source of an expression.
	text string
	expr bool
	// offset is where an expression's source starts.
	offset int
}

// scan splits a string at its "${…}". Adjacent texts are joined.
func scan(s string) ([]segment, *Error) {
	if !strings.Contains(s, "${") {
		if s == "" {
			return nil, nil
		}
		return []segment{{text: s}}, nil
	}
	var out []segment
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			out = append(out, segment{text: text.String()})
			text.Reset()
		}
	}
	for i := 0; i < len(s); {
		switch {
		case strings.HasPrefix(s[i:], "$${"):
			text.WriteString("${")
			i += 3
		case strings.HasPrefix(s[i:], "${"):
			n, ok := exprEnd(s[i+2:])
			if !ok && n >= 0 {
				return nil, errorf(i+2+n, "the text that starts here does not end on its line; a line break in it is written \\n, which is \\\\n between the double quotes of YAML and JSON")
			}
			if !ok {
				return nil, errorf(i, "the expression that starts here does not end: \"}\" is missing")
			}
			src := s[i+2 : i+2+n]
			if strings.TrimSpace(src) == "" {
				return nil, errorf(i, "the expression is empty; write \"$${\" for a literal \"${\"")
			}
			flush()
			out = append(out, segment{text: src, expr: true, offset: i + 2})
			i += n + 3
		default:
			text.WriteByte(s[i])
			i++
		}
	}
	flush()
	return out, nil
}

// Texts gives the byte ranges of a template's string that are outside of its
// expressions, escapes included. There are none where the string is malformed.
func Texts(s string) [][2]int {
	segments, bad := scan(s)
	if bad != nil {
		return nil
	}
	var out [][2]int
	at := 0
	for _, x := range segments {
		if !x.expr {
			continue
		}
		if start := x.offset - len("${"); at < start {
			out = append(out, [2]int{at, start})
		}
		at = x.offset + len(x.text) + len("}")
	}
	if at < len(s) {
		out = append(out, [2]int{at, len(s)})
	}
	return out
}

// exprEnd finds the "}" that ends an expression: not one that a "{" opened, and
// none inside a string or comment of CEL. Where a string does not end it gives
// its place, and else -1 where there is no end.
func exprEnd(s string) (int, bool) {
	depth := 0
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '{':
			depth++
			i++
		case c == '}':
			if depth == 0 {
				return i, true
			}
			depth--
			i++
		case c == '"' || c == '\'':
			n, ok := literalEnd(s[i:], rawPrefix(s[:i]))
			if !ok {
				return i, false
			}
			i += n
		case c == '`':
			n := strings.IndexByte(s[i+1:], '`')
			if n < 0 {
				return -1, false
			}
			i += n + 2
		case strings.HasPrefix(s[i:], "//"):
			n := strings.IndexByte(s[i:], '\n')
			if n < 0 {
				return -1, false
			}
			i += n + 1
		default:
			i++
		}
	}
	return -1, false
}

// literalEnd gives the length of the string literal at the start of s.
func literalEnd(s string, raw bool) (int, bool) {
	quote := s[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(s, triple) {
		quote = triple
	}
	for i := len(quote); i < len(s); {
		switch {
		case strings.HasPrefix(s[i:], quote):
			return i + len(quote), true
		case s[i] == '\\' && !raw:
			i += 2
		case len(quote) == 1 && (s[i] == '\n' || s[i] == '\r'):
			return 0, false
		default:
			i++
		}
	}
	return 0, false
}

// rawPrefix reports whether the text before a quote makes it a raw string: an r
// among its prefix letters, which are no longer word.
func rawPrefix(before string) bool {
	start := len(before)
	for start > 0 && identifier("_"+before[start-1:start]) == 2 {
		start--
	}
	switch strings.ToLower(before[start:]) {
	case "r", "rb", "br":
		return true
	}
	return false
}
