package embedded

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/syntax"
)

// Fix rewrites an expression in the syntax of other languages as CEL: `and`, `===`,
// a condition between `${` and `}`. It returns "" unless fits accepts the result.
func Fix(text string, fits func(string) bool) string {
	inner := strings.TrimSpace(text)
	for _, marks := range [][2]string{{"${", "}"}, {"{{", "}}"}, {"{", "}"}} {
		rest, opened := strings.CutPrefix(inner, marks[0])
		if rest, closed := strings.CutSuffix(rest, marks[1]); opened && closed && !strings.Contains(rest, "${") {
			inner = strings.TrimSpace(rest)
		}
	}
	if inner == "" || len(inner) > 1000 {
		return ""
	}
	choice := inner
	if m := ternary.FindStringSubmatch(inner); m != nil && comparison.MatchString(m[2]) {
		choice = m[2] + " ? " + m[1] + " : " + m[3]
	}
	for _, candidate := range []string{inner, operators(inner), operators(choice)} {
		if candidate != text && fits(candidate) {
			return candidate
		}
	}
	return ""
}

// ternary matches a choice in the syntax of Python.
var ternary = regexp.MustCompile(`^(.+?)\s+if\s+(.+?)\s+else\s+(.+)$`)

// comparison matches what only a condition has.
var comparison = regexp.MustCompile(`[<>=!(]|\b(?:not|and|or|in)\b`)

// operators replaces the operators of other languages by those of CEL, outside of
// strings.
func operators(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '\'' || c == '"':
			end := i + 1
			for end < len(text) && text[end] != c {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(text))
			out.WriteString(text[i:end])
			i = end
		case word(c):
			end := i
			for end < len(text) && word(text[end]) {
				end++
			}
			name := text[i:end]
			// A member or a key may have any of these names.
			if member := i > 0 && text[i-1] == '.'; !member {
				switch strings.ToLower(name) {
				case "and":
					name = "&&"
				case "or":
					name = "||"
				case "not":
					name = "!"
					for end < len(text) && text[end] == ' ' {
						end++
					}
				}
			}
			out.WriteString(name)
			i = end
		case strings.IndexByte("=!<>", c) >= 0:
			end := i
			for end < len(text) && strings.IndexByte("=!<>", text[end]) >= 0 {
				end++
			}
			switch sign := text[i:end]; sign {
			case "=", "===":
				out.WriteString("==")
			case "!==", "<>":
				out.WriteString("!=")
			default:
				out.WriteString(sign)
			}
			i = end
		default:
			out.WriteByte(c)
			i++
		}
	}
	return out.String()
}

// maxLookalikes bounds how many parts of the texts of a file are compiled, and
// maxLookalikesEach those of one string.
const (
	maxLookalikes     = 10_000
	maxLookalikesEach = 16
)

// maxLookalike is the largest length of a part, in bytes.
const maxLookalike = 1_000

// lookalike warns about a string with a part in the form of an expression in
// another language: `{{ input.x }}`, `{input.x}`, `$(input.x)`, `$input.x`. The
// part must compile, and read a name of the scope.
func (u *Expressions) lookalike(v *syntax.Value, scope expr.Scope, node, edge string) {
	found, meant := u.Lookalikes(v.Text, scope)
	if len(found) == 0 {
		return
	}
	at := found[0]
	d := diag.Diagnostic{
		Code: diag.TypeExpr, Severity: diag.Warning, Summary: "the text looks like an expression",
		Detail: fmt.Sprintf("It is a text as it stands. An expression stands between `${` and `}`. To keep the text, write it as a constant: `%s`.",
			ConstantText(v.Text[at[0]:at[1]])),
		Subject: v.Sub(at[0], at[1]), Context: v.Range(), Node: node, Edge: edge,
	}
	if written := v.Authored(meant, inExpressions); v.Whole() && len(written) <= 200 {
		d.Suggestion = fmt.Sprintf("%q", written)
		d.Edits = u.replace(v, written)
	}
	u.Report(d)
}

// inExpressions returns the string of a template with other texts for names that its expressions
// read.
func inExpressions(text string, names map[string]string) string {
	segments, _ := expr.Segments(text)
	var b strings.Builder
	done := 0
	for _, s := range segments {
		if s.Expression {
			b.WriteString(text[done:s.Start] + expr.Replaced(text[s.Start:s.End], names))
			done = s.End
		}
	}
	return b.String() + text[done:]
}

// Lookalikes returns the ranges of a template's string that have the form of an
// expression in another language, and the string with CEL expressions in their
// place.
func (u *Expressions) Lookalikes(text string, scope expr.Scope) (found [][2]int, meant string) {
	if !strings.ContainsAny(text, "{$") {
		return nil, text
	}
	left := min(u.guesses, maxLookalikesEach)
	u.guesses -= left
	defer func() { u.guesses += left }()
	names := scope.Names()
	// compiled returns CEL for the text between the marks, or "".
	compiled := func(inner string) string {
		inner = strings.TrimSpace(inner)
		if !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(inner, name) }) {
			return ""
		}
		for _, candidate := range slices.Compact([]string{inner, operators(inner)}) {
			if left--; left < 0 {
				left = 0
				return ""
			}
			t, errs := expr.CompileTemplate("${"+candidate+"}", scope)
			if len(errs) == 0 && slices.ContainsFunc(names, t.Reads) {
				return candidate
			}
		}
		return ""
	}
	var b strings.Builder
	done := 0
	for _, r := range expr.Texts(text) {
		for i := r[0]; i < r[1]; {
			end, source := marked(text[:r[1]], i, names, compiled)
			if source != "" {
				found = append(found, [2]int{i, end})
				b.WriteString(text[done:i] + "${" + source + "}")
				done = end
			}
			i = end
		}
	}
	return found, b.String() + text[done:]
}

// marked looks at one place of a text. It returns the next place, and the CEL for
// what is between the marks of another language, or "".
func marked(text string, i int, names []string, compiled func(string) string) (next int, source string) {
	rest := text[i:min(i+maxLookalike, len(text))]
	switch {
	case rest[0] == '\\':
		return min(i+2, len(text)), ""
	case strings.HasPrefix(rest, "$$"):
		// `$${` is an escape, and the braces after it are probably meant as well.
		next = i + 2
		for next < len(text) && text[next] == '{' {
			next++
		}
		return next, ""
	case rest[0] == '{':
		n := len(rest) - len(strings.TrimLeft(rest, "{"))
		end, source := closed(rest, n, strings.Repeat("}", n), compiled)
		return i + end, source
	case strings.HasPrefix(rest, "$("):
		end, source := closed(rest, 2, ")", compiled)
		return i + end, source
	case rest[0] == '$':
		end := selected(rest, names)
		if end == 1 {
			return i + 1, ""
		}
		return i + end, compiled(rest[1:end])
	}
	return i + 1, ""
}

// closed finds the closing mark for the n bytes that open text: the first one
// before which the text compiles.
func closed(text string, n int, mark string, compiled func(string) string) (end int, source string) {
	const most = 4
	end = n
	for range most {
		at := strings.Index(text[end:], mark)
		if at < 0 {
			break
		}
		end += at + len(mark)
		if source = compiled(text[n : end-len(mark)]); source != "" {
			return end, source
		}
	}
	return n, ""
}

// selected returns the length of a `$` with a name and the selections from it, or 1
// if there is no such name.
func selected(text string, names []string) int {
	wordEnd := func(at int) int {
		for at < len(text) && word(text[at]) {
			at++
		}
		return at
	}
	end := wordEnd(1)
	if !slices.Contains(names, text[1:end]) {
		return 1
	}
	for end < len(text) {
		next := end
		switch text[end] {
		case '.':
			if next = wordEnd(end + 1); next == end+1 {
				return end
			}
		case '[':
			at := strings.IndexByte(text[end:], ']')
			if at < 0 {
				return end
			}
			next = end + at + 1
		default:
			return end
		}
		end = next
	}
	return end
}

// ConstantText returns the template string for a constant text.
func ConstantText(text string) string {
	return "${'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`, "\r", `\r`).Replace(text) + "'}"
}

// word reports whether c is part of a name in an expression.
func word(c byte) bool {
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
}
