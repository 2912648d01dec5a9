package plangen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"chimera.ai/engine/expr"
)

// Case is a random plan and what it runs on.
type Case struct {
	// Source is the plan file, in JSON.
	Source []byte
	// Operations are the skills that the plan calls, of the provider [Provider].
	Operations []Operation
	// Input and Output are the plan's schemas.
	Input, Output json.RawMessage
	// Features names what is in the plan, sorted.
	Features []string
}

// Operation is a skill: it takes any object, and returns any value of Output,
// or fails.
type Operation struct {
	Name   string
	Output json.RawMessage
	// Fails: some calls fail.
	Fails bool
}

// Provider is the name of the provider of all operations.
const Provider = "random"

// Random draws a plan that is often well typed: what flows through its edges is
// known by schemas, and ports mostly take what comes. The higher bold is (up to
// 100), the more often a guard, a wider schema or a default is left out that a
// well typed plan needs. Equal arguments give equal cases.
func Random(seed uint64, bold int) *Case {
	b := &builder{r: rand.New(rand.NewPCG(seed, uint64(bold))), bold: bold, used: map[string]bool{}}
	b.input = structure(b.r, 3)
	b.sources = append(b.sources, origin{node: "$input", schema: b.input, certain: true})
	for range 1 + b.r.IntN(5) {
		b.node()
	}
	b.output()
	return b.finish()
}

type builder struct {
	r    *rand.Rand
	bold int
	used map[string]bool

	input      object
	sources    []origin
	nodes      []any
	edges      []any
	operations []Operation
	result     object
}

// origin is a node that values come from.
type origin struct {
	node string
	// schema is its output's.
	schema object
	// certain: it runs whenever the run succeeds.
	certain bool
	fails   bool
}

// port is what an edge starts at.
type port struct {
	of       origin
	name     string
	schema   any
	required bool
}

func (b *builder) use(feature string) { b.used[feature] = true }

// dare reports whether to leave out what a well typed plan needs.
func (b *builder) dare() bool {
	if chance(b.r, b.bold) {
		b.use("bold")
		return true
	}
	return false
}

// port draws an output port of a node that comes before.
func (b *builder) port() port {
	s := pick(b.r, b.sources...)
	properties := s.schema["properties"].(object)
	required, _ := s.schema["required"].([]any)
	if chance(b.r, 15) {
		b.use("whole output")
		return port{s, "$", s.schema, true}
	}
	name := pick(b.r, sorted(properties)...)
	if must, ok := pick(b.r, append(required, name)...).(string); ok {
		name = must
	}
	return port{s, name, properties[name], slices.Contains(required, any(name))}
}

// inlet is an input port of a node that is being built, and what fills it.
type inlet struct {
	name     string
	schema   any
	required bool
}

func (b *builder) node() {
	r := b.r
	id := fmt.Sprintf("n%d", len(b.nodes))
	node := object{"id": id, "timeout_ms": num(500)}
	with := object{}
	properties := object{}
	var required []any
	certain := true
	for range 1 + r.IntN(3) {
		name := pick(r, names...)
		if properties[name] != nil {
			continue
		}
		in, sure := b.fill(id, name, with)
		properties[in.name] = in.schema
		if in.required {
			required = append(required, in.name)
		}
		certain = certain && sure
	}
	if len(b.sources) > 1 && chance(r, 15) {
		// Order alone: the node waits for one that comes before.
		if from := pick(r, b.sources[1:]...); !from.fails {
			b.use("control edge")
			sure := chance(r, 50)
			b.edges = append(b.edges, object{"from_node": from.node, "from_port": "$done", "to_node": id, "to_port": "$start", "edge_type": "control", "required": sure})
			certain = certain && (from.certain || !sure)
		}
	}
	in := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		in["required"] = required
	}
	node["input_schema"] = in
	if len(with) > 0 {
		node["with"] = with
	}
	s := origin{node: id, certain: certain}
	if chance(r, 45) {
		node["template"] = "engine/pass"
		s.schema = in
		node["output_schema"] = in
	} else {
		op := Operation{Name: fmt.Sprintf("op%d", len(b.operations)), Fails: chance(r, 25)}
		s.schema = structure(r, 3)
		op.Output = marshal(s.schema)
		b.operations = append(b.operations, op)
		node["template"] = Provider + "/" + op.Name
		s.fails = op.Fails
		b.use("skill")
	}
	b.nodes = append(b.nodes, node)
	b.sources = append(b.sources, s)
}

// fill draws what fills an input port, and its schema. sure: the node runs if
// all that it depends on runs.
func (b *builder) fill(to, name string, with object) (in inlet, sure bool) {
	r := b.r
	in = inlet{name: name, required: true}
	p := b.port()
	switch r.IntN(12) {
	case 0:
		b.use("constant")
		value := constant(r)
		with[name] = escaped(value)
		in.schema = wider(r, loose([]any{value}, r))
		return in, true
	case 1:
		if t, s := b.template("input", b.input); t != "" {
			b.use("expression in with")
			with[name] = t
			in.schema = s
			return in, true
		}
	case 2, 3:
		return b.branch(to, in, p, with)
	case 4:
		if failing := slices.IndexFunc(b.sources, func(s origin) bool { return s.fails }); failing >= 0 {
			return b.rescue(to, in, b.sources[failing])
		}
	case 5, 6, 7, 8:
		if t, s := b.transform(p); t != nil {
			in.schema = s
			b.use("transform")
			if p.required || b.dare() {
				b.edge(p, to, name, true, object{"transform": t})
				return in, p.required && p.of.certain
			}
			b.edge(p, to, name, false, object{"transform": t})
			in.required = chance(r, 20)
			return in, false
		}
	}
	in.schema = p.schema
	if !b.dare() {
		in.schema = wider(r, p.schema)
	} else {
		in.schema = schema(r, 1)
	}
	if p.required || b.dare() {
		b.use("direct edge")
		b.edge(p, to, name, true, nil)
		return in, p.of.certain && p.required
	}
	b.use("optional port")
	b.edge(p, to, name, false, nil)
	if chance(r, 50) {
		if value, ok := b.instance(in.schema); ok {
			b.use("default by with")
			with[name] = escaped(value)
			return in, false
		}
	}
	in.required = b.dare() || chance(r, 20)
	return in, false
}

// branch fills a port by a conditional edge whose predicate narrows, and by
// otherwise, a default or nothing.
func (b *builder) branch(to string, in inlet, p port, with object) (inlet, bool) {
	r := b.r
	b.use("conditional edge")
	w := b.writer()
	when, narrowed := w.condition("value", p.schema, 2), p.schema
	if s, guard, ok := narrow(r, p.schema); ok && chance(r, 70) {
		b.use("narrowing predicate")
		when, narrowed = guard, s
	}
	in.schema = wider(r, narrowed)
	b.edges = append(b.edges, object{
		"from_node": p.of.node, "from_port": p.name, "to_node": to, "to_port": in.name, "edge_type": "conditional", "required": false, "when": when,
	})
	switch r.IntN(3) {
	case 0:
		q := b.port()
		b.use("alternatives")
		b.edge(q, to, in.name, false, nil)
		if !b.dare() {
			in.schema = object{"anyOf": []any{in.schema, wider(r, q.schema)}}
		}
	case 1:
		if value, ok := b.instance(in.schema); ok {
			b.use("default by with")
			with[in.name] = escaped(value)
		}
	default:
		in.required = chance(r, 50)
	}
	return in, false
}

// narrow gives a part of a schema and the predicate that holds on it alone.
func narrow(r *rand.Rand, s any) (part any, guard string, ok bool) {
	o, _ := s.(object)
	switch typeOf(s) {
	case "integer", "number":
		k := r.IntN(8)
		n := object{"type": o["type"], "minimum": num(k)}
		if chance(r, 50) {
			return n, fmt.Sprintf("value >= %d", k), true
		}
		n["maximum"] = num(k + 10)
		return n, fmt.Sprintf("value >= %d && value <= %d", k, k+10), true
	case "string":
		switch r.IntN(3) {
		case 0:
			return object{"enum": []any{"red", "green"}}, `value in ["red", "green"]`, true
		case 1:
			return object{"type": "string", "minLength": num(1), "maxLength": num(4)}, "size(value) > 0 && size(value) < 5", true
		}
		return object{"type": "string", "pattern": patterns[0]}, `value.matches("` + patterns[0] + `")`, true
	case "array":
		return object{"type": "array", "minItems": num(1)}, "size(value) > 0", true
	case "object":
		properties, _ := o["properties"].(object)
		if len(properties) == 0 {
			return nil, "", false
		}
		name := pick(r, sorted(properties)...)
		return object{"type": "object", "required": []any{name}, "properties": object{name: properties[name]}}, "has(" + field("value", name) + ")", true
	}
	kind := pick(r, "integer", "string", "object", "array", "null", "boolean")
	return object{"type": kind}, "type(value) == " + celType(kind), true
}

// rescue fills a port from a failure, or else from the output.
func (b *builder) rescue(to string, in inlet, from origin) (inlet, bool) {
	r := b.r
	b.use("error edge")
	t := pick(r, "${error.kind}", "${error.message}", "failed: ${error.kind}", "${size(error.node)}", `${error.kind == "tool_error" ? "tool" : error.message}`)
	e := object{"from_node": from.node, "from_port": "$error", "to_node": to, "to_port": in.name, "edge_type": "error", "required": false, "transform": t}
	if chance(r, 40) {
		e["when"] = pick(r, `error.kind == "tool_error"`, "error.attempts > 0", `error.kind in ["timeout", "transport", "tool_error"]`, `error.node == "n0"`)
	}
	b.edges = append(b.edges, e)
	in.schema = object{"type": []any{"string", "integer"}}
	properties := from.schema["properties"].(object)
	name := pick(r, sorted(properties)...)
	if chance(r, 60) {
		b.edge(port{from, name, properties[name], false}, to, in.name, false, nil)
		in.schema = object{"anyOf": []any{in.schema, wider(r, properties[name])}}
	}
	return in, false
}

func (b *builder) writer() *writer { return &writer{r: b.r, bold: b.bold, used: b.used} }

func (b *builder) edge(p port, to, name string, required bool, more object) {
	e := object{"from_node": p.of.node, "from_port": p.name, "to_node": to, "to_port": name, "edge_type": "data", "required": required}
	for k, v := range more {
		e[k] = v
	}
	b.edges = append(b.edges, e)
}

// transform draws a transform of a port's value, and a schema of what it gives.
func (b *builder) transform(p port) (template, schema any) {
	w := b.writer()
	leaf := func() string {
		switch b.r.IntN(6) {
		case 0:
			b.use("transform reads input")
			return w.value("input", b.input, 3)
		case 1:
			if p.name != "$" && p.of.node != "$input" {
				b.use("transform reads output")
				return w.value("output", p.of.schema, 3)
			}
		}
		return w.value("value", p.schema, 3)
	}
	switch b.r.IntN(5) {
	case 0:
		b.use("template object")
		template = object{"one": "${" + leaf() + "}", "two": "${" + leaf() + "}", "three": num(3)}
	case 1:
		b.use("text with expressions")
		inner := leaf()
		if t := typeOf(p.schema); t == "integer" || t == "string" || t == "boolean" {
			inner = "value"
		} else {
			inner = "size([" + inner + "])"
		}
		template = "it is ${" + inner + "}!"
	default:
		template = "${" + leaf() + "}"
	}
	return b.typed(template, expr.Transform, p)
}

// template draws an expression over one name.
func (b *builder) template(name string, s object) (string, any) {
	t, of := b.typed("${"+b.writer().value(name, s, 3)+"}", expr.With, port{of: b.sources[0], name: "$", schema: s})
	text, _ := t.(string)
	return text, of
}

// samples is how many values of a template a schema is guessed from.
const samples = 24

// typed compiles a template, and guesses a schema of its values from what it
// gives for random ones.
func (b *builder) typed(template any, scope expr.Scope, p port) (any, any) {
	c, bad := expr.CompileTemplate(template, scope)
	if len(bad) > 0 {
		b.use("expression of no type")
		return nil, nil
	}
	outputs, err := NewInstances(marshal(p.of.schema))
	inputs, inErr := NewInstances(marshal(b.input))
	if err != nil || inErr != nil {
		return nil, nil
	}
	var seen []any
	for range samples {
		output, ok := outputs.Draw(b.r)
		input, ok2 := inputs.Draw(b.r)
		if !ok || !ok2 {
			return nil, nil
		}
		value, present := output, true
		if p.name != "$" {
			value, present = output.(object)[p.name]
		}
		if !present {
			continue
		}
		if p.of.node == "$input" {
			input = output
		}
		v, err := c.Eval(expr.Vars{"value": value, "output": output, "input": input})
		if err != nil {
			b.use("sample fails")
			return template, true
		}
		seen = append(seen, v)
	}
	if len(seen) == 0 {
		return nil, nil
	}
	return template, loose(seen, b.r)
}

// loose gives a schema that takes values like those of a sample.
func loose(values []any, r *rand.Rand) any {
	var kinds []string
	properties := map[string][]any{}
	objects := 0
	var elements []any
	for _, v := range values {
		kind := kindOf(v)
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
		switch v := v.(type) {
		case object:
			objects++
			for _, name := range sorted(v) {
				properties[name] = append(properties[name], v[name])
			}
		case []any:
			elements = append(elements, v...)
		}
	}
	slices.Sort(kinds)
	if slices.Contains(kinds, "number") {
		kinds = slices.DeleteFunc(kinds, func(k string) bool { return k == "integer" })
	}
	if len(kinds) > 3 {
		return true
	}
	s := object{"type": kinds[0]}
	if len(kinds) > 1 {
		var list []any
		for _, k := range kinds {
			list = append(list, k)
		}
		s["type"] = list
	}
	if objects > 0 && len(properties) <= 6 {
		var required []any
		of := object{}
		for _, name := range sorted(properties) {
			of[name] = loose(properties[name], r)
			if len(properties[name]) == objects && objects > 4 {
				required = append(required, name)
			}
		}
		s["properties"] = of
		if len(required) > 0 {
			s["required"] = required
		}
	}
	if len(elements) > 8 && chance(r, 70) {
		s["items"] = loose(elements, r)
	}
	return s
}

func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			return "number"
		}
		return "integer"
	case []any:
		return "array"
	}
	return "object"
}

func (b *builder) instance(s any) (any, bool) {
	values, err := NewInstances(marshal(s))
	if err != nil {
		return nil, false
	}
	return values.Draw(b.r)
}

// output draws what the plan gives.
func (b *builder) output() {
	properties := object{}
	var required []any
	for range 1 + b.r.IntN(2) {
		name := pick(b.r, names...)
		if properties[name] != nil {
			continue
		}
		p := b.port()
		properties[name] = wider(b.r, p.schema)
		sure := p.required && p.of.certain || b.dare()
		b.edge(p, "$output", name, sure, nil)
		if sure && (chance(b.r, 80) || b.dare()) {
			required = append(required, name)
		}
	}
	b.result = object{"type": "object", "properties": properties}
	if len(required) > 0 {
		b.result["required"] = required
	}
}

func (b *builder) finish() *Case {
	source := marshal(object{
		"apiVersion": "chimera/v1", "kind": "Plan", "name": "random", "version": "1.0.0",
		"input_schema": b.input, "output_schema": b.result, "nodes": b.nodes, "edges": b.edges,
	})
	return &Case{
		Source: source, Operations: b.operations, Input: marshal(b.input), Output: marshal(b.result), Features: sorted(b.used),
	}
}

// escaped is a constant as a template writes it.
func escaped(v any) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, "${", "$${")
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = escaped(e)
		}
		return out
	case object:
		out := object{}
		for name, e := range v {
			out[name] = escaped(e)
		}
		return out
	}
	return v
}

func marshal(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // What is drawn is JSON.
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}
