package schemas

import (
	"net/url"
	"strings"
)

func unescapeFragment(s string) (string, error) { return url.PathUnescape(s) }

// fragment writes a plain JSON pointer the way the library writes locations.
func fragment(pointer string) string {
	parts := strings.Split(pointer, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// draftOf returns the draft that a value of $schema names, or "" if it names none.
func draftOf(v any) string {
	name, _ := v.(string)
	name = strings.TrimSuffix(strings.TrimSuffix(name, "#"), "#/")
	if rest, ok := strings.CutPrefix(name, "http://"); ok {
		name = "https://" + rest
	}
	for _, d := range drafts {
		if name == d {
			return d
		}
	}
	return ""
}
