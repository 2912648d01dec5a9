package containment

import (
	"net/url"
	"strings"
)

// reason says which keyword of which schema stopped a proof, or, where it was
// none, what did.
type reason struct {
	s       *schema
	keyword string
	other   string
}

func (r reason) none() bool { return r == reason{} }

// first gives the reason met first.
func (r reason) or(o reason) reason {
	if r.none() {
		return o
	}
	return r
}

func (r reason) text(sides []side) string {
	switch {
	case r.other != "":
		return r.other
	case r.s == nil:
		return "not decided"
	}
	_, path, _ := strings.Cut(r.s.Location, "#")
	if plain, err := url.PathUnescape(path); err == nil {
		path = plain
	}
	if r.keyword != "" {
		path = strings.TrimSuffix(path, "/") + "/" + r.keyword
	}
	for _, s := range sides {
		if reaches(s.s.Compiled(), r.s) {
			return s.name + ": #" + path
		}
	}
	return "#" + path
}

func reaches(from, to *schema) bool {
	seen := map[*schema]bool{}
	queue := []*schema{from}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		if s == to {
			return true
		}
		if !seen[s] {
			seen[s] = true
			children(s, func(c *schema) { queue = append(queue, c) })
		}
	}
	return false
}
