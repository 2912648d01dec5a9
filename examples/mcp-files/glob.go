package main

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// split reads a pattern: names with *, ? and […] as path.Match has them,
// between slashes, and ** for any number of folders; at the end it stands for
// all that is in them.
func split(pattern string) ([]string, error) {
	// Each ** multiplies the ways to match; a few are plenty.
	const most = 4
	parts := strings.Split(pattern, "/")
	deep := 0
	for _, part := range parts {
		switch part {
		case "", ".", "..":
			return nil, fmt.Errorf("pattern %q: a part is empty or made of dots", pattern)
		case "**":
			deep++
		}
		if _, err := path.Match(part, ""); err != nil {
			return nil, fmt.Errorf("pattern %q: %w", pattern, err)
		}
	}
	if deep > most {
		return nil, fmt.Errorf("pattern %q: more than %d times **", pattern, most)
	}
	if parts[len(parts)-1] == "**" {
		parts = append(parts, "*")
	}
	return slices.CompactFunc(parts, func(a, b string) bool { return a == "**" && b == "**" }), nil
}

// match reports whether names, a path's parts, match all of a pattern.
func match(parts, names []string) bool {
	switch {
	case len(parts) == 0 || len(names) == 0:
		return len(parts) == len(names)
	case parts[0] == "**":
		return match(parts[1:], names) || !hidden(names[0]) && match(parts, names[1:])
	}
	return one(parts[0], names[0]) && match(parts[1:], names[1:])
}

// reaches reports whether something inside the folder of that name may match.
func reaches(parts, names []string) bool {
	switch {
	case len(parts) == 0 || len(names) == 0:
		return len(parts) > 0
	case parts[0] == "**":
		return reaches(parts[1:], names) || !hidden(names[0]) && reaches(parts, names[1:])
	}
	return one(parts[0], names[0]) && reaches(parts[1:], names[1:])
}

// one matches one name.
func one(part, name string) bool {
	// The pattern was checked by split.
	ok, _ := path.Match(part, name)
	return ok && (!hidden(name) || hidden(part))
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") }
