package sagas

import (
	"fmt"
	"slices"
	"strings"
)

// line is one line of the tool's journal.
type line struct {
	what         string // begin, did, or the answer: ok, error, garbage, there, gone
	op, id, step string
	page         string
	process      string
}

// call is one call of the tool, by its journal.
type call struct {
	op, id, step, page string
	// began and ended are the places of its first and its last line.
	began, ended int
	did          bool
	// answer is "" if it did not answer.
	answer string
}

// key names what was called: an effect, or a step that undoes one.
func key(id, step string) string {
	if step == "-" || step == "" {
		return id
	}
	return id + "/" + step
}

// journal is what the tool has written down of a run.
type journal struct {
	lines int
	calls []*call
}

// parse reads a journal.
func parse(text string) (*journal, error) {
	j := &journal{}
	of := map[string]*call{}
	for _, raw := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if raw == "" {
			continue
		}
		f := strings.Fields(raw)
		if len(f) != 6 {
			return nil, fmt.Errorf("the journal has the line %q", raw)
		}
		l := line{what: f[0], op: f[1], id: f[2], step: f[3], page: f[4], process: f[5]}
		c := of[l.process]
		switch {
		case l.what == "begin":
			c = &call{op: l.op, id: l.id, step: l.step, page: l.page, began: j.lines}
			of[l.process] = c // numbers are used again
			j.calls = append(j.calls, c)
		case c == nil || c.op != l.op || c.id != l.id || c.step != l.step || c.answer != "":
			return nil, fmt.Errorf("the journal has the line %q without a beginning", raw)
		case l.what == "did":
			c.did = true
		default:
			c.answer = l.what
		}
		c.ended = j.lines
		j.lines++
	}
	return j, nil
}

// of lists the calls of an operation for a key, in their order.
func (j *journal) of(op, key_ string) (out []*call) {
	for _, c := range j.calls {
		if c.op == op && key(c.id, c.step) == key_ {
			out = append(out, c)
		}
	}
	return out
}

// undoing lists the calls that undo an effect.
func (j *journal) undoing(id string) (out []*call) {
	for _, c := range j.calls {
		if c.id == id && c.step != "-" && c.op != "look" {
			out = append(out, c)
		}
	}
	return out
}

// stands reports whether an effect stands at the end: it was had, and never erased.
func (j *journal) stands(id string) bool {
	did := func(op string) bool {
		return slices.ContainsFunc(j.calls, func(c *call) bool { return c.op == op && c.id == id && c.did })
	}
	return did("write") && !did("erase")
}
