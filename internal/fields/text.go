package fields

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/internal/syntax"
)

// Sentence makes a message end in a full stop and start with a capital letter.
func Sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return s
	}
	if c := s[0]; c >= 'a' && c <= 'z' {
		s = string(c-'a'+'A') + s[1:]
	}
	if !strings.ContainsAny(s[len(s)-1:], ".!?") {
		s += "."
	}
	return s
}

// Quote formats a name from the source for a message: bounded, on one line, and
// without invisible characters.
func Quote(s string) string {
	s = excerpt.Bytes(s, 80)
	for _, r := range s {
		if r == '`' || !strconv.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return "`" + s + "`"
}

// plainWord is text that YAML reads as itself without quotes, also inside a
// flow map.
var plainWord = regexp.MustCompile(`^[A-Za-z_][0-9A-Za-z_-]*$`)

// Inline writes a decoded JSON value on one line, as an author would write it
// into a plan.
func Inline(v any) string {
	switch x := v.(type) {
	case map[string]any:
		parts := make([]string, 0, len(x))
		keys := slices.Sorted(maps.Keys(x))
		if i := slices.Index(keys, "type"); i > 0 { // people read it first
			keys = slices.Insert(slices.Delete(keys, i, i+1), 0, "type")
		}
		for _, key := range keys {
			parts = append(parts, Inline(key)+": "+Inline(x[key]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		parts := make([]string, len(x))
		for i := range x {
			parts[i] = Inline(x[i])
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		if !reserved(x) && plainWord.MatchString(x) {
			return x
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// reserved reports whether YAML, in some version, reads a word as something else
// than text.
func reserved(word string) bool {
	return slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(word))
}

// KeyOf is the place of a key of a map.
func KeyOf(v *syntax.Value, key string) diag.Range {
	for i := range v.Fields {
		if v.Fields[i].Key.Text == key {
			return v.Fields[i].Key.Range()
		}
	}
	return Head(v)
}

// OneLine is the place of a value in a catalog: all of it if it is on one line,
// else its first token.
func OneLine(v *syntax.Value) diag.Range {
	if v == nil {
		return diag.Range{}
	}
	if v.Range().Start.Line == v.Range().End.Line {
		return v.Range()
	}
	return Head(v)
}

// Head is the place that messages show for a whole map or list: its first key, else
// itself.
func Head(v *syntax.Value) diag.Range {
	if v.Kind == syntax.Map && len(v.Fields) > 0 {
		return v.Fields[0].Key.Range()
	}
	return v.Range()
}
