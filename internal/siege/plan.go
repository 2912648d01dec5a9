package siege

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Plan is a plan whose every node is known to the model, with the input of its run.
type Plan struct {
	// Name says which parts it is made of.
	Name string
	Seed uint64
	// Parallel and DeadlineMS are limits; 0 leaves them out.
	Parallel   int
	DeadlineMS int64
	Input      map[string]any
	Nodes      []*Node
	Edges      []*Edge
}

// Op is what a node calls.
type Op string

// The operations.
const (
	Pass  Op = "engine/pass"
	Sleep Op = "engine/sleep"
	Fail  Op = "engine/fail"
	// Grow returns a text of a given size, Blow fails a given number of times
	// before it succeeds, Wait ends when its gate is open, and Open opens one.
	Grow Op = "siege/grow"
	Blow Op = "siege/blow"
	Wait Op = "siege/wait"
	Open Op = "siege/open"
	// Tool is a program: its output is its input.
	Tool Op = "siegetools/echo"
)

// Node is one node.
type Node struct {
	ID        string
	Op        Op
	TimeoutMS int64
	Retry     Retry
	With      map[string]any
	// Longest is the longest text that port x of a Pass may give; 0 is any value.
	Longest int
	// Never: the call does not end while anybody watches.
	Never bool
}

// Retry is a retry policy. On nil leaves the kinds to the language.
type Retry struct {
	Max        int      `json:"max_retries"`
	On         []string `json:"on,omitzero"`
	InitialMS  int64    `json:"initial_ms,omitempty"`
	Multiplier float64  `json:"multiplier,omitempty"`
	MaxMS      int64    `json:"max_ms,omitempty"`
}

// Edge is one edge. Its condition is in two languages: the plan's and Go.
type Edge struct {
	From, FromPort, To, ToPort string
	// Type is data, control, conditional or error.
	Type     string
	Required bool
	When     string
	Holds    func(Facts) bool
	// Kind: the edge brings the kind of the failure instead of the whole of it.
	Kind bool
}

// Facts are what a condition may read.
type Facts struct {
	Value any
	Input map[string]any
	Error *Failure
}

// Otherwise is the condition of an edge that is delivered where no sibling is.
const Otherwise = "otherwise"

// The ends of every plan.
const (
	input  = "$input"
	output = "$output"
)

func (e *Edge) String() string {
	return fmt.Sprintf("%s.%s -> %s.%s", e.From, e.FromPort, e.To, e.ToPort)
}

// carries reports whether the edge brings a value.
func (e *Edge) carries() bool { return e.ToPort != "$start" }

// schemas of the ports that Pass nodes and the plan's ends have.
const (
	number = `{"type":"integer","minimum":0,"maximum":1000}`
	value  = `{}`
)

func ports(of map[string]string, required ...string) json.RawMessage {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{`)
	first := true
	for _, name := range []string{"x", "y", "z", "n"} {
		if of[name] == "" {
			continue
		}
		if !first {
			b.WriteString(",")
		}
		first = false
		fmt.Fprintf(&b, "%q:%s", name, of[name])
	}
	b.WriteString(`}`)
	if len(required) > 0 {
		raw, _ := json.Marshal(required)
		fmt.Fprintf(&b, `,"required":%s`, raw)
	}
	b.WriteString(`}`)
	return json.RawMessage(b.String())
}

// fed tells which ports of Pass nodes something fills.
func (p *Plan) fed() map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, n := range p.Nodes {
		all[n.ID] = map[string]bool{}
		for port := range n.With {
			all[n.ID][port] = true
		}
	}
	for _, e := range p.Edges {
		if e.To != output && e.carries() {
			all[e.To][e.ToPort] = true
		}
	}
	return all
}

// Source writes the plan as JSON.
func (p *Plan) Source() (string, error) {
	type object = map[string]any
	fed := p.fed()
	of := map[string]string{"x": value, "y": value, "z": value, "n": number}
	names, defs := map[string]string{}, object{}
	define := func(schema json.RawMessage) object {
		name, ok := names[string(schema)]
		if !ok {
			name = fmt.Sprintf("S%d", len(names))
			names[string(schema)], defs[name] = name, schema
		}
		return object{"$ref": "#/defs/" + name}
	}
	var nodes, edges []any
	for _, n := range p.Nodes {
		o := object{"id": n.ID, "template": string(n.Op), "timeout_ms": n.TimeoutMS, "retry_policy": n.Retry}
		if len(n.With) > 0 {
			o["with"] = n.With
		}
		if n.Op == Pass {
			var required []string
			for _, port := range []string{"n", "x"} {
				if fed[n.ID][port] {
					required = append(required, port)
				}
			}
			o["input_schema"] = define(ports(of, required...))
			out := of
			if n.Longest > 0 {
				out = map[string]string{"x": fmt.Sprintf(`{"type":"string","maxLength":%d}`, n.Longest), "y": value, "z": value, "n": number}
			}
			o["output_schema"] = define(ports(out, required...))
		}
		nodes = append(nodes, o)
	}
	for _, e := range p.Edges {
		o := object{
			"from_node": e.From, "from_port": e.FromPort, "to_node": e.To, "to_port": e.ToPort,
			"edge_type": e.Type, "required": e.Required,
		}
		if e.When != "" {
			o["when"] = e.When
		}
		if e.Kind {
			o["transform"], o["check"] = "${error.kind}", "runtime"
		}
		edges = append(edges, o)
	}
	document := object{
		"apiVersion": "chimera/v1", "kind": "Plan", "name": "siege", "version": "1.0.0", "agent": "besieger",
		"input_schema": ports(of, slices.Sorted(maps.Keys(p.Input))...), "output_schema": ports(of), "nodes": nodes,
	}
	if len(edges) > 0 {
		document["edges"] = edges
	}
	if len(defs) > 0 {
		document["defs"] = defs
	}
	limits := object{}
	if p.Parallel > 0 {
		limits["max_parallel"] = p.Parallel
	}
	if p.DeadlineMS > 0 {
		limits["deadline_ms"] = p.DeadlineMS
	}
	if len(limits) > 0 {
		document["limits"] = limits
	}
	raw, err := json.Marshal(document)
	if err != nil {
		return "", fmt.Errorf("write plan %s: %w", p.Name, err)
	}
	return string(raw), nil
}
