package expr

import (
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
)

// edit inserts text into a source.
type edit struct {
	offset int
	text   string
	// closing edits come before others at the same place.
	closing bool
}

// convert records that an operand of arithmetic is converted to a double.
func (j *judge) convert(e ast.Expr, side, sides int, of ast.Expr) {
	if of.Kind() == ast.LiteralKind {
		if _, ok := of.AsLiteral().(types.Double); ok {
			return
		}
	}
	if j.lines == nil {
		j.lines = tokenize(j.code.src)
	}
	from, to, ok := j.lines.operand(j.offset(e), side, sides)
	if !ok {
		j.report(Problem{Kind: Wrong, Offset: j.offset(of), Message: "numbers of different types are mixed here", Hint: "write double(" + render(of) + ")"})
		return
	}
	j.edits = append(j.edits, edit{offset: from, text: "double("}, edit{offset: to, text: ")", closing: true})
}

// converted gives the source with the conversions written out. A double(…) is a
// double to the library's checker, where the operand was of any type: beside an int
// that stays an int, as in [double(a) / double(b)] + [0], it has no overload. There
// dyn(…) takes the type away again.
func (j *judge) converted() string {
	after := rewrite(j.code.src, j.edits)
	if _, bad := compile(after, j.code.scope); bad == nil {
		return after
	}
	open := make([]edit, len(j.edits))
	for i, e := range j.edits {
		if open[i] = e; e.closing {
			open[i].text = "))"
		} else {
			open[i].text = "dyn(double("
		}
	}
	after = rewrite(j.code.src, open)
	if _, bad := compile(after, j.code.scope); bad != nil {
		j.report(Problem{Kind: Wrong, Message: "with the conversions of its numbers written out the expression is no longer one: " + bad.Message, Hint: "split it, or write double(…) where it is meant"})
		return j.code.src
	}
	return after
}

// rewrite makes the edits.
func rewrite(src string, edits []edit) string {
	slices.SortStableFunc(edits, func(a, b edit) int {
		switch {
		case a.offset != b.offset:
			return a.offset - b.offset
		case a.closing == b.closing:
			return 0
		case a.closing:
			return -1
		}
		return 1
	})
	var sb strings.Builder
	at := 0
	for _, e := range edits {
		sb.WriteString(src[at:e.offset])
		sb.WriteString(e.text)
		at = e.offset
	}
	sb.WriteString(src[at:])
	return sb.String()
}

// tokens are those of a source that is known to be well formed.
type tokens []token

type token struct {
	start, end int
	// text is that of an operator or bracket; "" is a name, number or literal.
	text string
}

// tokenize splits a source into tokens, without white space and comments.
func tokenize(s string) *tokens {
	var out tokens
	for i := 0; i < len(s); {
		start := i
		c := s[i]
		digit := func(k int) bool { return k < len(s) && '0' <= s[k] && s[k] <= '9' }
		switch {
		case strings.IndexByte(" \t\n\r\f", c) >= 0:
			i++
			continue
		case strings.HasPrefix(s[i:], "//"):
			n := strings.IndexByte(s[i:], '\n')
			if n < 0 {
				n = len(s) - i
			}
			i += n
			continue
		case digit(i) || c == '.' && digit(i+1):
			i = numberEnd(s, i)
		case identifier(s[i:]) > 0:
			i += identifier(s[i:])
			if word := s[start:i]; word == "in" {
				out = append(out, token{start, i, "in"})
				continue
			}
			if i < len(s) && (s[i] == '"' || s[i] == '\'') && i-start <= 2 && strings.Trim(s[start:i], "rRbB") == "" {
				n, _ := literalEnd(s[i:], strings.ContainsAny(s[start:i], "rR"))
				i += max(n, 1)
			}
		case c == '"' || c == '\'':
			n, _ := literalEnd(s[i:], false)
			i += max(n, 1)
		case c == '`':
			n := strings.IndexByte(s[i+1:], '`')
			i += max(n, 0) + 2
			i = min(i, len(s))
		default:
			i++
			if i < len(s) {
				switch s[start : i+1] {
				case "==", "!=", "<=", ">=", "&&", "||":
					i++
				}
			}
			out = append(out, token{start, i, s[start:i]})
			continue
		}
		out = append(out, token{start, i, ""})
	}
	return &out
}

// numberEnd gives the end of the number that starts at i.
func numberEnd(s string, i int) int {
	digits := func() {
		for i < len(s) && '0' <= s[i] && s[i] <= '9' {
			i++
		}
	}
	if strings.HasPrefix(s[i:], "0x") || strings.HasPrefix(s[i:], "0X") {
		i += 2
		for i < len(s) && strings.IndexByte("0123456789abcdefABCDEF", s[i]) >= 0 {
			i++
		}
	} else {
		digits()
		if i+1 < len(s) && s[i] == '.' && '0' <= s[i+1] && s[i+1] <= '9' {
			i++
			digits()
		}
		if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
			k := i + 1
			if k < len(s) && (s[k] == '+' || s[k] == '-') {
				k++
			}
			if k < len(s) && '0' <= s[k] && s[k] <= '9' {
				i = k
				digits()
			}
		}
	}
	if i < len(s) && (s[i] == 'u' || s[i] == 'U') {
		i++
	}
	return i
}

// level is the precedence of the binary operator at token i, or 0. Operators
// with a lower one, brackets and the like end an operand.
func (t tokens) level(i int) int {
	switch t[i].text {
	case "||":
		return 1
	case "&&":
		return 2
	case "==", "!=", "<", "<=", ">", ">=", "in":
		return 3
	case "+":
		return 4
	case "-":
		if t.unary(i) {
			return 0
		}
		return 4
	case "*", "/", "%":
		return 5
	}
	return 0
}

// unary reports whether the minus at token i has one operand: no operand ends
// before it.
func (t tokens) unary(i int) bool {
	if i == 0 {
		return true
	}
	switch t[i-1].text {
	case "", ")", "]", "}":
		return false
	}
	return true
}

// operand gives the text of a side of the operator that stands at an offset.
func (t tokens) operand(offset, side, sides int) (from, to int, ok bool) {
	at := slices.IndexFunc(t, func(one token) bool { return one.start == offset })
	if at < 0 {
		return 0, 0, false
	}
	level := t.level(at)
	if sides == 1 {
		level = 6
	}
	if level == 0 {
		return 0, 0, false
	}
	if sides == 1 || side == 1 {
		end := t.right(at+1, level)
		if end < 0 {
			return 0, 0, false
		}
		return t[at+1].start, t[end].end, true
	}
	start := t.left(at-1, level)
	if start < 0 {
		return 0, 0, false
	}
	return t[start].start, t[at-1].end, true
}

// right gives the last token of the operand that starts at token i.
func (t tokens) right(i, level int) int {
	depth := 0
	for k := i; k < len(t); k++ {
		switch t[k].text {
		case "(", "[", "{":
			depth++
			continue
		case ")", "]", "}":
			if depth--; depth < 0 {
				return end(i, k-1)
			}
			continue
		}
		if depth > 0 {
			continue
		}
		if l := t.level(k); l > 0 && l <= level || t[k].text == "," || t[k].text == ":" || t[k].text == "?" && t[k-1].text != "." {
			return end(i, k-1)
		}
	}
	return end(i, len(t)-1)
}

// left gives the first token of the operand that ends at token i.
func (t tokens) left(i, level int) int {
	depth := 0
	for k := i; k >= 0; k-- {
		switch t[k].text {
		case ")", "]", "}":
			depth++
			continue
		case "(", "[", "{":
			if depth--; depth < 0 {
				return start(k+1, i)
			}
			continue
		}
		if depth > 0 {
			continue
		}
		if l := t.level(k); l > 0 && l < level || t[k].text == "," || t[k].text == ":" || t[k].text == "?" && (k == 0 || t[k-1].text != ".") {
			return start(k+1, i)
		}
	}
	return start(0, i)
}

func end(from, to int) int {
	if to < from {
		return -1
	}
	return to
}

func start(from, to int) int {
	if from > to {
		return -1
	}
	return from
}
