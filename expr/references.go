package expr

import (
	"slices"
	"strings"
)

// Segment is a part of a template's string.
type Segment struct {
	// Start and End are the bytes of the source of an expression, or of a text, escapes included.
	Start, End int
	// Expression reports that it is one, between `${` and `}`.
	Expression bool
}

// Segments splits a template's string into texts and expressions. It reports false for a string
// that no template can hold.
func Segments(s string) ([]Segment, bool) {
	found, bad := scan(s)
	if bad != nil {
		return nil, false
	}
	var out []Segment
	at := 0
	text := func(end int) {
		if at < end {
			out = append(out, Segment{at, end, false})
		}
	}
	for _, x := range found {
		if x.expr {
			text(x.offset - len("${"))
			out = append(out, Segment{x.offset, x.offset + len(x.text), true})
			at = x.offset + len(x.text) + len("}")
		}
	}
	text(len(s))
	return out, true
}

// Reference is a selection from a name of an expression: two members, by `.name` or `["name"]`.
type Reference struct {
	// Start and End are the bytes of the whole reference.
	Start, End int
	// First and Second are the members, "" where there are none; a call is no member.
	First, Second string
	// FirstAt and SecondAt are the bytes of the members' names.
	FirstAt, SecondAt [2]int
}

// References finds what an expression selects from a name: nodes.read.text. The first member may
// have hyphens, as ids do. Where the expression binds the name itself, in a macro such as map,
// there are none.
func References(src, name string) []Reference {
	var out []Reference
	if !strings.Contains(src, name) {
		return nil
	}
	for _, x := range identifiers(src) {
		if src[x.start:x.end] != name {
			continue
		}
		if x.bound {
			return nil
		}
		r := Reference{Start: x.start, End: x.end}
		if r.First, r.FirstAt, r.End = member(src, r.End, true); r.First != "" {
			r.Second, r.SecondAt, r.End = member(src, r.End, false)
		}
		if len(out) == 0 || out[len(out)-1].End <= r.Start { // else it is a part of an id
			out = append(out, r)
		}
	}
	return out
}

// Free lists the places of the given names in an expression.
func Free(src string, names ...string) (out [][2]int) {
	for _, x := range identifiers(src) {
		if slices.Contains(names, src[x.start:x.end]) {
			out = append(out, [2]int{x.start, x.end})
		}
	}
	return out
}

// Binds reports whether a macro of an expression binds the name.
func Binds(src, name string) bool {
	return slices.ContainsFunc(identifiers(src), func(x nameAt) bool { return x.bound && src[x.start:x.end] == name })
}

// Names lists the places of the names of an expression that are no members of others, and that no
// macro of it binds.
func Names(src string) (out [][2]int) {
	bound := map[string]bool{}
	all := identifiers(src)
	for _, x := range all {
		if x.bound {
			bound[src[x.start:x.end]] = true
		}
	}
	for _, x := range all {
		if !bound[src[x.start:x.end]] {
			out = append(out, [2]int{x.start, x.end})
		}
	}
	return out
}

// Fault is what is wrong with the alternatives of an expression.
type Fault int

// The faults.
const (
	SoundAlternatives Fault = iota
	// NestedAlternatives stand inside of parentheses or brackets.
	NestedAlternatives
	// MixedAlternatives stand beside `? :`, `&&` or `||`, which bind otherwise than a reader may
	// think.
	MixedAlternatives
)

// Alternatives splits an expression at each `??` outside of parentheses, brackets and strings.
func Alternatives(src string) (parts [][2]int, fault Fault) {
	depth, at := 0, 0
	mixed := false
	last := ""
	eachToken(src, func(start, end int) {
		c := src[start:end]
		switch {
		case strings.ContainsAny(c, "([{"):
			depth++
		case strings.ContainsAny(c, ")]}"):
			depth--
		case c == "??" && depth > 0:
			fault = NestedAlternatives
		case c == "??":
			parts = append(parts, [2]int{at, start})
			at = end
		case depth == 0 && (c == "?" && last != "." || c == ":" || c == "|" || c == "&"):
			mixed = true
		}
		last = c
	})
	if mixed && len(parts) > 0 && fault == SoundAlternatives {
		fault = MixedAlternatives
	}
	return append(parts, [2]int{at, len(src)}), fault
}

// eachToken calls visit for each token of an expression that is no string, comment or blank:
// names and numbers, `??`, and single bytes.
func eachToken(src string, visit func(start, end int)) {
	for i := 0; i < len(src); {
		c := src[i]
		switch {
		case c == '"' || c == '\'':
			n, ok := literalEnd(src[i:], rawPrefix(src[:i]))
			if !ok {
				return
			}
			i += n
		case c == '`':
			n := strings.IndexByte(src[i+1:], '`')
			if n < 0 {
				return
			}
			i += n + 2
		case strings.HasPrefix(src[i:], "//"):
			n := strings.IndexByte(src[i:], '\n')
			if n < 0 {
				return
			}
			i += n + 1
		case wordByte(c):
			end := i + 1
			for end < len(src) && wordByte(src[end]) {
				end++
			}
			if end == len(src) || src[end] != '"' && src[end] != '\'' || !prefixes(src[i:end]) {
				visit(i, end)
			}
			i = end
		case strings.HasPrefix(src[i:], "??"):
			visit(i, i+2)
			i += 2
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
		default:
			visit(i, i+1)
			i++
		}
	}
}

// prefixes reports whether a word before a quote belongs to the string.
func prefixes(word string) bool {
	switch strings.ToLower(word) {
	case "r", "b", "rb", "br":
		return true
	}
	return false
}

// nameAt is a name of an expression that is no member of another. bound reports that it is the
// variable of a macro there: it stands first in parentheses, with a comma behind it.
type nameAt struct {
	start, end int
	bound      bool
}

// identifiers lists the names of an expression that are no members of others.
func identifiers(src string) (out []nameAt) {
	called, before, last := "", "", "" // the three tokens before
	named := false                     // whether the last token is in out
	eachToken(src, func(start, end int) {
		token := src[start:end]
		if token == "," && named && before == "(" && binders[called] {
			out[len(out)-1].bound = true
		}
		c := token[0]
		named = wordByte(c) && (c < '0' || c > '9') && last != "." && (last != "?" || before != ".")
		if named {
			out = append(out, nameAt{start, end, false})
		}
		called, before, last = before, last, token
	})
	return out
}

// binders are the calls whose first argument is a variable that they bind.
var binders = map[string]bool{"all": true, "exists": true, "exists_one": true, "existsOne": true, "map": true, "filter": true, "bind": true, "optMap": true, "optFlatMap": true}

// member reads a selection at an offset. hyphens reports that the name may have some.
func member(src string, at int, hyphens bool) (name string, place [2]int, end int) {
	rest := src[at:]
	if strings.HasPrefix(rest, ".") {
		i := at + 1
		if i < len(src) && src[i] == '$' {
			i++
		}
		for i < len(src) && (wordByte(src[i]) || hyphens && src[i] == '-') {
			i++
		}
		if i == at+1 || i < len(src) && src[i] == '(' {
			return "", [2]int{}, at
		}
		return src[at+1 : i], [2]int{at + 1, i}, i
	}
	if len(rest) < 4 || rest[0] != '[' || rest[1] != '"' && rest[1] != '\'' {
		return "", [2]int{}, at
	}
	n := strings.IndexByte(rest[2:], rest[1])
	if n <= 0 || !strings.HasPrefix(rest[2+n+1:], "]") || strings.Contains(rest[2:2+n], `\`) {
		return "", [2]int{}, at
	}
	return rest[2 : 2+n], [2]int{at + 2, at + 2 + n}, at + 2 + n + 2
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// Replaced returns an expression with other texts for names that it reads.
func Replaced(src string, names map[string]string) string {
	var b strings.Builder
	done := 0
	for _, x := range identifiers(src) {
		if other, stop := longest(src, x.start, x.end, names); stop > 0 && x.start >= done {
			b.WriteString(src[done:x.start] + other)
			done = stop
		}
	}
	return b.String() + src[done:]
}

// InMessage returns a message about an expression with other texts for names that the expression
// reads. A name is told from the word of the language by the word before it.
func InMessage(message string, names map[string]string) string {
	var b strings.Builder
	done, before := 0, ""
	for i := 0; i < len(message); {
		if !wordByte(message[i]) {
			i++
			continue
		}
		end := i
		for end < len(message) && wordByte(message[end]) {
			end++
		}
		word := message[i:end]
		if i > 0 && (message[i-1] == '.' || message[i-1] == '?') || articles[before] {
			before, i = word, end
			continue
		}
		before = word
		if other, stop := longest(message, i, end, names); stop > 0 {
			b.WriteString(message[done:i] + other)
			done, end = stop, stop
		}
		i = end
	}
	return b.String() + message[done:]
}

// articles are words before which a name is a word of the language.
var articles = map[string]bool{"a": true, "an": true, "the": true, "every": true, "each": true, "no": true, "any": true, "that": true, "this": true, "its": true, "one": true, "some": true}

// longest finds the longest selection from the word at an offset that has another text.
func longest(text string, start, end int, names map[string]string) (other string, stop int) {
	for {
		if name, ok := names[text[start:end]]; ok {
			other, stop = name, end
		}
		_, _, next := member(text, end, false)
		if next == end {
			return other, stop
		}
		end = next
	}
}
