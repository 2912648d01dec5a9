package expr

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// parsePath reads an expression that only selects: a name of the scope, then
// ".key" and "[0]" any number of times. It gives nil for any other expression.
// Most expressions of plans are of this form; they are read and evaluated many
// times faster without CEL, and hand on numbers as they were written.
func parsePath(src string, scope Scope) []step {
	s := strings.TrimSpace(src)
	at := strings.Index(src, s)
	n := identifier(s)
	if n == 0 || !slices.Contains(scope.Names(), s[:n]) {
		return nil
	}
	path := []step{{key: s[:n], isKey: true, offset: at}}
	for n < len(s) {
		switch s[n] {
		case '.':
			k := identifier(s[n+1:])
			key := s[n+1 : n+1+k]
			// These are tokens of CEL, not identifiers.
			if k == 0 || key == "in" || key == "true" || key == "false" || key == "null" {
				return nil
			}
			path = append(path, step{key: key, isKey: true, offset: at + n})
			n += 1 + k
		case '[':
			k := strings.IndexByte(s[n:], ']')
			if k < 2 || k > 10 {
				return nil
			}
			digits := s[n+1 : n+k]
			i, err := strconv.ParseUint(digits, 10, 32)
			if err != nil || strconv.FormatUint(i, 10) != digits {
				return nil
			}
			path = append(path, step{index: int64(i), offset: at + n})
			n += k + 1
		default:
			return nil
		}
		if len(path) > MaxNesting {
			return nil
		}
	}
	return path
}

// identifier gives the length of the identifier at the start of s.
func identifier(s string) int {
	for i := range len(s) {
		c := s[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return i
		}
	}
	return len(s)
}

// follow evaluates a path. What it gives is part of vars.
func follow(path []step, vars Vars) (any, *Error) {
	v, ok := vars[path[0].key]
	if !ok {
		return nil, errorf(path[0].offset, "%s has no value here", path[0].key)
	}
	for _, s := range path[1:] {
		switch at := v.(type) {
		case map[string]any:
			if !s.isKey {
				return nil, errorf(s.offset, "no such key: %d", s.index)
			}
			if v, ok = at[s.key]; !ok {
				return nil, errorf(s.offset, "no such key: %s", s.key)
			}
		case []any:
			if s.isKey {
				return nil, errorf(s.offset, "a list has no key %s", s.key)
			}
			if s.index >= int64(len(at)) {
				return nil, errorf(s.offset, "index out of bounds: %d", s.index)
			}
			v = at[s.index]
		default:
			if s.isKey {
				return nil, errorf(s.offset, "no such key: %s, in %s", s.key, kindOf(v))
			}
			return nil, errorf(s.offset, "no such index: %d, in %s", s.index, kindOf(v))
		}
	}
	return v, nil
}

// kindOf names the kind of a decoded JSON value.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case []any:
		return "a list"
	case map[string]any:
		return "a map"
	}
	return "what is not JSON"
}
