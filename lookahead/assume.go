package lookahead

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// Assumed is what nodes are assumed to return, by their ids.
type Assumed map[string]*assumption

// assumption is what one node is assumed to return.
type assumption struct {
	// whole reports that value is all of it.
	whole bool
	value any
	// ports are those of its output that are given, if it is no whole.
	ports map[string]any
}

// AssumeError reports an assumption that says nothing about the plan.
type AssumeError struct {
	Message string
	// Name is what there is not, and Names are those that there are; both may be empty.
	Name  string
	Names []string
}

func (e *AssumeError) Error() string { return e.Message }

// Add assumes that what a node returns has a value at a path: "read" is all of it, "read.text" a port,
// "read.text.first" a member of a port, beside which it has only those that are assumed, too. The value
// is decoded JSON. The error is an [*AssumeError].
func (a Assumed) Add(p *plan.Plan, path string, v any) error {
	parts := strings.Split(path, ".")
	i := slices.IndexFunc(p.Nodes, func(n plan.Node) bool { return n.ID == parts[0] && n.Kind == plan.KindCall })
	if i < 0 {
		var names []string
		for i := range p.Nodes {
			if p.Nodes[i].Kind == plan.KindCall {
				names = append(names, p.Nodes[i].ID)
			}
		}
		return &AssumeError{Message: fmt.Sprintf("the plan has no node %q", parts[0]), Name: parts[0], Names: names}
	}
	n := &p.Nodes[i]
	was := a[n.ID]
	if was == nil {
		was = &assumption{ports: map[string]any{}}
		a[n.ID] = was
	}
	twice := &AssumeError{Message: fmt.Sprintf("%s is assumed twice", path)}
	if len(parts) == 1 {
		if was.whole || len(was.ports) > 0 {
			return twice
		}
		was.whole, was.value = true, v
		if s, err := schemas.Compile(p.Schemas[n.OutputSchema].Schema); err == nil {
			if err := s.Validate(v); err != nil {
				return &AssumeError{Message: fmt.Sprintf("%s does not return that: %s", n.ID, err)}
			}
		}
		return nil
	}
	if slices.Contains(parts, "") {
		return &AssumeError{Message: fmt.Sprintf("%q is no path", path)}
	}
	if was.whole {
		return twice
	}
	if names := properties(p.Schemas[n.OutputSchema].Schema, n.OutPorts); len(names) > 0 && !slices.Contains(names, parts[1]) {
		return &AssumeError{Message: fmt.Sprintf("what %s returns has no %q", n.ID, parts[1]), Name: parts[1], Names: names}
	}
	if !set(was.ports, parts[1:], v) {
		return twice
	}
	return nil
}

// Check says why what is assumed of ports is not what their nodes return, as an [*AssumeError], or
// returns nil.
func (a Assumed) Check(p *plan.Plan) error {
	for i := range p.Nodes {
		n := &p.Nodes[i]
		was := a[n.ID]
		if was == nil || was.whole {
			continue
		}
		for _, port := range slices.Sorted(maps.Keys(was.ports)) {
			s := portSchema(p.Schemas[n.OutputSchema].Schema, port)
			if s == nil {
				continue
			}
			if err := s.Validate(map[string]any{port: was.ports[port]}); err != nil {
				return &AssumeError{Message: fmt.Sprintf("%s does not return that: %s", n.ID, err)}
			}
		}
	}
	return nil
}

// set sets a member of nested objects. It reports false if the path leads to, or through, a value that
// was set before.
func set(object map[string]any, path []string, v any) bool {
	old, there := object[path[0]]
	if len(path) == 1 {
		object[path[0]] = v
		return !there
	}
	next, ok := old.(map[string]any)
	switch {
	case !there:
		next = map[string]any{}
		object[path[0]] = next
	case !ok:
		return false
	}
	return set(next, path[1:], v)
}

// properties are the names of the properties of a schema of objects, and of ports that are read, sorted;
// none if it does not name them.
func properties(raw json.RawMessage, ports []string) []string {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(raw, &s) != nil || len(s.Properties) == 0 {
		return nil
	}
	names := slices.DeleteFunc(slices.Concat(ports, slices.Collect(maps.Keys(s.Properties))), func(name string) bool { return strings.HasPrefix(name, "$") })
	slices.Sort(names)
	return slices.Compact(names)
}

// portSchema is the schema of objects of which only one property is checked, or nil where that cannot be
// told from the rest.
func portSchema(raw json.RawMessage, port string) *schemas.Schema {
	var s map[string]json.RawMessage
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &s) != nil || json.Unmarshal(s["properties"], &all) != nil || all[port] == nil {
		return nil
	}
	one := map[string]any{"properties": map[string]any{port: all[port]}}
	for _, key := range []string{"$schema", "$defs", "definitions"} {
		if s[key] != nil {
			one[key] = s[key]
		}
	}
	text, err := json.Marshal(one)
	if err != nil {
		return nil
	}
	compiled, err := schemas.Compile(text)
	if err != nil {
		return nil // it refers to another part
	}
	return compiled
}
