package pool

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// maxPortSteps bounds the search for ports in one schema, which combinators
// and references can make exponential.
const maxPortSteps = 100_000

// PortSet is what a schema says about the ports of its objects.
type PortSet struct {
	// Names is sorted; listed reports for each name whether every object has
	// it.
	Names  []string
	listed []bool
	// Object reports that every value is an object, so that listed ports are
	// always present.
	Object bool
	// Never reports that no object satisfies the schema, so that `$` is its
	// only port.
	Never bool
	// Partial reports that the search for ports gave up.
	Partial bool
	// Adrift reports that a reference leads out of the schema, or nowhere.
	Adrift bool
}

// Has reports whether there is a port of that name.
func (p *PortSet) Has(name string) bool {
	_, found := slices.BinarySearch(p.Names, name)
	return found
}

// Requires reports whether every object has the port.
func (p *PortSet) Requires(name string) bool {
	i, found := slices.BinarySearch(p.Names, name)
	return found && p.listed[i]
}

// Required lists the listed ports, sorted.
func (p *PortSet) Required() []string {
	var out []string
	for i, name := range p.Names {
		if p.listed[i] {
			out = append(out, name)
		}
	}
	return out
}

// Certain reports whether every value has the port: it is `$`, or every value is an
// object that has it.
func (p *PortSet) Certain(name string) bool {
	return name == plan.WholePort || p.Object && p.Requires(name)
}

// Ports returns the ports of a schema: the names in `properties` and `required`,
// also through `$ref`, `allOf`, `anyOf` and `oneOf`.
func (s *Schema) Ports() *PortSet {
	s.Prepare()
	return s.ports
}

func portsIn(value any) *PortSet {
	w := portWalk{root: value, steps: maxPortSteps, open: map[string]bool{}}
	info := w.walk(value)
	p := &PortSet{Names: slices.Sorted(maps.Keys(info.ports)), Object: info.object, Never: info.never, Partial: w.steps < 0, Adrift: w.adrift}
	p.listed = make([]bool, len(p.Names))
	for i, name := range p.Names {
		p.listed[i] = info.ports[name]
	}
	return p
}

type portInfo struct {
	// ports maps each port to whether every object has it.
	ports         map[string]bool
	object, never bool
}

type portWalk struct {
	root  any
	steps int
	// open holds the references being followed.
	open   map[string]bool
	adrift bool
}

func (w *portWalk) walk(v any) portInfo {
	info := portInfo{ports: map[string]bool{}}
	if w.steps--; w.steps < 0 {
		return info
	}
	m, ok := v.(map[string]any)
	if !ok {
		info.never = v == false
		return info
	}
	if ref, ok := m["$ref"].(string); ok {
		info = w.follow(ref)
		if legacy(w.root) {
			// Up to draft 7, keywords beside a reference do not count.
			return info
		}
	}
	mine := own(m)
	w.steps -= len(mine.ports)
	info = both(info, mine)
	if all, ok := m["allOf"].([]any); ok {
		for _, x := range all {
			info = both(info, w.walk(x))
		}
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		branches, ok := m[key].([]any)
		if !ok || len(branches) == 0 {
			continue
		}
		some := w.walk(branches[0])
		for _, x := range branches[1:] {
			some = w.either(some, w.walk(x))
		}
		info = both(info, some)
	}
	return info
}

// own reads the keywords of one schema, without its combinators.
func own(m map[string]any) portInfo {
	info := portInfo{ports: map[string]bool{}}
	switch t := m["type"].(type) {
	case string:
		info.object, info.never = t == "object", t != "object"
	case []any:
		info.object = len(t) == 1 && t[0] == "object"
		info.never = !slices.Contains(t, any("object"))
	}
	values, ok := m["enum"].([]any)
	if c, has := m["const"]; has {
		values, ok = []any{c}, true
	}
	if ok && len(values) > 0 {
		objects := 0
		for _, v := range values {
			if _, is := v.(map[string]any); is {
				objects++
			}
		}
		info.object = info.object || objects == len(values)
		info.never = info.never || objects == 0
	}
	if props, ok := m["properties"].(map[string]any); ok {
		for name := range props {
			info.ports[name] = false
		}
	}
	if names, ok := m["required"].([]any); ok {
		for _, n := range names {
			if name, ok := n.(string); ok {
				info.ports[name] = true
			}
		}
	}
	return info
}

// both returns the ports of values that satisfy a and b.
func both(a, b portInfo) portInfo {
	out := portInfo{ports: a.ports, object: a.object || b.object, never: a.never || b.never}
	for name, listed := range b.ports {
		out.ports[name] = out.ports[name] || listed
	}
	return out
}

// either returns the ports of values that satisfy a or b.
func (w *portWalk) either(a, b portInfo) portInfo {
	out := portInfo{ports: map[string]bool{}, object: a.object && b.object, never: a.never && b.never}
	for name, listed := range a.ports {
		other, there := b.ports[name]
		// If no object satisfies b, the port is as in a.
		out.ports[name] = listed && (other || !there && b.never)
	}
	for name, listed := range b.ports {
		if _, there := a.ports[name]; !there {
			out.ports[name] = listed && a.never
		}
	}
	w.steps -= len(out.ports)
	return out
}

// follow walks the target of a reference within the schema. A reference to
// elsewhere, or back to one that is being followed, says nothing about ports.
func (w *portWalk) follow(ref string) portInfo {
	none := portInfo{ports: map[string]bool{}}
	target, ok := Resolve(w.root, ref)
	w.adrift = w.adrift || !ok
	if !ok || w.open[ref] {
		return none
	}
	w.open[ref] = true
	defer delete(w.open, ref)
	return w.walk(target)
}

// legacy reports whether the schema declares draft 7 or earlier.
func legacy(root any) bool {
	m, _ := root.(map[string]any)
	s, _ := m["$schema"].(string)
	return strings.Contains(s, "/draft-0")
}

// Resolve finds the target of a local reference: "#", "#/json/pointer" or
// "#anchor".
func Resolve(root any, ref string) (any, bool) {
	rest, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, false
	}
	if rest == "" || rest == "/" {
		return root, true
	}
	if rest[0] != '/' {
		return anchor(root, rest, 64)
	}
	at := root
	for token := range strings.SplitSeq(rest[1:], "/") {
		token = schemas.Unescape(token)
		token, err := url.PathUnescape(token)
		if err != nil {
			return nil, false
		}
		switch x := at.(type) {
		case map[string]any:
			if at, ok = x[token]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(x) {
				return nil, false
			}
			at = x[i]
		default:
			return nil, false
		}
	}
	return at, true
}

// anchor searches for the subschema with that name, in the order of sorted keys.
func anchor(v any, name string, depth int) (any, bool) {
	if depth == 0 {
		return nil, false
	}
	switch x := v.(type) {
	case map[string]any:
		if x["$anchor"] == name || x["$id"] == "#"+name || x["id"] == "#"+name {
			return x, true
		}
		for _, k := range slices.Sorted(maps.Keys(x)) {
			if found, ok := anchor(x[k], name, depth-1); ok {
				return found, true
			}
		}
	case []any:
		for _, e := range x {
			if found, ok := anchor(e, name, depth-1); ok {
				return found, true
			}
		}
	}
	return nil, false
}
