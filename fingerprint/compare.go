package fingerprint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Change is a value of a definition that differs.
type Change struct {
	Part Part `json:"part"`
	// Path is where the value stands in the definition, as a JSON pointer.
	Path string `json:"path"`
	// Was and Is are the values; one that was not, or is not, there is nil.
	Was json.RawMessage `json:"was,omitempty"`
	Is  json.RawMessage `json:"is,omitempty"`
}

// String describes the change in a line.
func (c Change) String() string {
	const most = 200
	switch {
	case c.Was == nil:
		return fmt.Sprintf("%s: %s is new: %.*s", c.Part, c.Path, most, c.Is)
	case c.Is == nil:
		return fmt.Sprintf("%s: %s is gone: %.*s", c.Part, c.Path, most, c.Was)
	default:
		return fmt.Sprintf("%s: %s was %.*s and is %.*s", c.Part, c.Path, most, c.Was, most, c.Is)
	}
}

// maxChanges bounds those that are listed.
const maxChanges = 1000

// Compare lists what differs between two definitions of a tool, by part and by
// path; at most 1,000 of them. Lists that differ in length differ as a whole.
func Compare(was, is json.RawMessage) ([]Change, error) {
	a, err := read(was)
	if err != nil {
		return nil, err
	}
	b, err := read(is)
	if err != nil {
		return nil, err
	}
	var out []Change
	for _, part := range Parts() {
		for _, name := range keys(a, b) {
			if partOf(name) != part {
				continue
			}
			if out, err = part.compare(out, "/"+escape(name), member(a, name), member(b, name)); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// absent is the value of a member that is not there: null is a value.
type absent struct{}

func member(of map[string]any, name string) any {
	if v, ok := of[name]; ok {
		return v
	}
	return absent{}
}

// compare appends what differs between two values.
func (p Part) compare(out []Change, path string, a, b any) (_ []Change, err error) {
	if len(out) == maxChanges {
		return out, nil
	}
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			for _, k := range keys(x, y) {
				if out, err = p.compare(out, path+"/"+escape(k), member(x, k), member(y, k)); err != nil {
					return nil, err
				}
			}
			return out, nil
		}
	case []any:
		if y, ok := b.([]any); ok && len(x) == len(y) {
			for i := range x {
				if out, err = p.compare(out, path+"/"+strconv.Itoa(i), x[i], y[i]); err != nil {
					return nil, err
				}
			}
			return out, nil
		}
	}
	was, err := text(a)
	if err != nil {
		return nil, err
	}
	is, err := text(b)
	if err != nil || bytes.Equal(was, is) && (was == nil) == (is == nil) {
		return out, err
	}
	return append(out, Change{Part: p, Path: path, Was: was, Is: is}), nil
}

// text is the canonical text of a value, nil for one that is not there.
func text(v any) (json.RawMessage, error) {
	if _, not := v.(absent); not {
		return nil, nil
	}
	return Canonical(v)
}

// keys are those of two objects, sorted.
func keys(a, b map[string]any) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}
