package fields

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

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
	switch strings.ToLower(word) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return true
	}
	return false
}
