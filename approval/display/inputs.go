package display

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	// maxLeaves is how many values of an action's inputs are shown.
	maxLeaves = 200
	// maxPlainKey bounds a key without quotes, maxPlainNumber a number.
	maxPlainKey, maxPlainNumber = 40, 60
	// keyLimit bounds a key in quotes, so that a line has room for many.
	keyLimit = 100
	// leafIndent is where the lines of values begin.
	leafIndent = 4
)

// inputs is the JSON value of an action's arguments.
type inputs struct {
	// size and sum are of its canonical form.
	size   int
	sum    string
	leaves []leaf
}

// leaf is a value that has no parts, and its path.
type leaf struct {
	at    *step
	value any
}

// step is the last step of a path. The path of the whole is nil.
type step struct {
	up *step
	// index counts if the step is to an element, key if it is to a member.
	element bool
	index   int
	key     string
	// shown is the key in quotes, once a line has needed it.
	shown *shown
}

// leaves returns the leaves of a decoded value in canonical order.
func leaves(v any) []leaf {
	var all []leaf
	var walk func(at *step, v any)
	walk = func(at *step, v any) {
		switch x := v.(type) {
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(x)) {
				walk(&step{up: at, key: k}, x[k])
			}
			if len(x) > 0 {
				return
			}
		case []any:
			for i, e := range x {
				walk(&step{up: at, element: true, index: i}, e)
			}
			if len(x) > 0 {
				return
			}
		}
		all = append(all, leaf{at, v})
	}
	walk(nil, v)
	return all
}

// lines returns the lines of the values that fit in room bytes, from both ends in turn.
func (in *inputs) lines(room int) string {
	const gap = 80 // is enough for the line that says what is left out
	room -= gap
	var first, last []string
	i, j := 0, len(in.leaves)
	for n := 0; i < j && n < maxLeaves; n++ {
		k := i
		if n%2 == 1 {
			k = j - 1
		}
		line := in.leaves[k].line()
		if room -= len(line); room < 0 {
			break
		}
		if n%2 == 1 {
			last = append(last, line)
			j--
		} else {
			first = append(first, line)
			i++
		}
	}
	text := strings.Join(first, "")
	if i < j {
		text += fmt.Sprintf("%*s... %d of %s left out ...\n", leafIndent, "", j-i, count(len(in.leaves), "value"))
	}
	slices.Reverse(last)
	return text + strings.Join(last, "")
}

func (l leaf) line() string {
	p := page{limit: shownLimit}
	p.path(leafIndent)
	p.steps(l.at)
	p.word(" ", "=")
	switch v := l.value.(type) {
	case nil:
		p.word(" ", "null")
	case bool:
		p.word(" ", fmt.Sprint(v))
	case json.Number:
		if len(v) <= maxPlainNumber {
			p.word(" ", string(v))
			break
		}
		p.word(" ", "number")
		p.quote(" ", show(string(v), p.limit))
	case string:
		p.quote(" ", show(v, p.limit))
	case []any:
		p.word(" ", "[]")
	case map[string]any:
		p.word(" ", "{}")
	}
	p.end()
	return p.b.String()
}

// steps writes a path.
func (p *page) steps(s *step) {
	if s == nil {
		return
	}
	p.steps(s.up)
	switch {
	case s.element:
		p.word("", fmt.Sprintf("[%d]", s.index))
	case plainKey(s.key):
		p.word("", "."+s.key)
	default:
		if s.shown == nil {
			s.shown = show(s.key, keyLimit)
		}
		p.word("", "[")
		p.quote("", s.shown)
		p.word("", "]")
	}
}

// plainKey reports whether a key needs no quotes.
func plainKey(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && !letter(c) && (i == 0 || !digit(c)) {
			return false
		}
	}
	return s != "" && len(s) <= maxPlainKey
}
