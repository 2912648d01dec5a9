package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

// planOf writes a plan that calls one operation: its input is the operation's, and so is what it
// returns. Before an effect another operation of the server looks, if one can; what the policy lacks
// stands in a comment.
func (p *Program) planOf(env *environment, t *catalog.Template) error {
	own := *env
	if guarded(t) {
		needed, ds := policy.Parse(compiler.Source{Name: "the comment", Text: []byte(policyFor(t))})
		if ds.HasErrors() {
			return negative("the policy of %s: %s", foreign(t.Name()), ds[0].Summary)
		}
		own.policy = needed
	}
	found := func(text string, env *environment) diag.Diagnostics {
		_, ds, err := env.compile(compiler.Source{Name: draftName, Text: []byte(text)})
		if err != nil {
			return diag.Diagnostics{{Severity: diag.Error, Code: diag.PlanSchema, Summary: err.Error()}}
		}
		return ds
	}
	d := draft{Template: t}
	if t.Effect == plan.Irreversible {
		var fit []*catalog.Template
		fit, d.might = lookers(env.catalog, t)
		for _, d.look = range fit {
			if len(found(d.text(), &own)) == 0 {
				break
			}
			d.look = nil
		}
	}
	if guarded(t) && (env.policy == nil || len(found(d.text(), env)) > 0) {
		d.needed = policyFor(t)
	}
	text := d.text()
	p.printf("%s", text)
	if ds := found(text, &own); ds.HasErrors() {
		p.say("this is a draft, and does not compile yet:")
		p.diagnose(ds, map[string][]byte{draftName: []byte(text)})
	} else if d.needed != "" {
		p.say("the comment in it says what the policy must say first")
	}
	return nil
}

// draftName is what findings call a plan that is printed.
const draftName = "the plan"

// guarded reports that calls of an operation are decided on.
func guarded(t *catalog.Template) bool { return t.Effect.Acts() || t.Reviewed() }

// draftAgent is on whose behalf a plan that is printed acts, and draftRole is the role of who approves
// what it does.
const (
	draftAgent = "agent-42"
	draftRole  = "approver"
)

// draft is a plan that calls an operation.
type draft struct {
	*catalog.Template
	// look is called before, or nil; might are operations that might be.
	look  *catalog.Template
	might []string
	// needed is what the policy has yet to say, or "".
	needed string
}

// text writes the plan.
func (d *draft) text() string {
	t := d.Template
	output := t.OutputSchema
	if output == nil {
		output = json.RawMessage(catalog.ContentSchema)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: %s\nkind: Plan\nname: %s\nversion: \"1.0.0\"\n", fields.APIVersion, planName(t.Operation))
	if guarded(t) {
		fmt.Fprintf(&b, "agent: %s # on whose behalf it acts\n", draftAgent)
	}
	if t.Effect.Acts() {
		fmt.Fprintf(&b, "allow: [pure, %s]\n", t.Effect)
	}
	if d.needed != "" {
		fmt.Fprintf(&b, "# The policy must say this. Paste it into a file, and name that in chimera.yaml: policy: [policy.yaml]\n#\n")
		for line := range strings.Lines(d.needed) {
			b.WriteString("#   " + line)
		}
		b.WriteString("#\n")
	}
	input, typed := objectSchema(t.InputSchema)
	if !typed {
		b.WriteString("# The tool does not say that it takes an object, which all MCP tools do.\n")
	}
	required, optional := portsOf(input)
	whole := len(required)+len(optional) == 0 && !closed(input)
	if whole {
		b.WriteString("# The tool does not name what it takes: the whole input is passed on.\n")
	}
	fmt.Fprintf(&b, "input_schema: %s\noutput_schema: %s\nnodes:\n", input, output)
	if d.look != nil {
		ports, _ := portsOf(d.look.InputSchema)
		fmt.Fprintf(&b, "  - id: look # it must succeed before the call; choose another if what it looks at may not be there\n    template: %s\n%s", fields.Quoted(d.look.Name()), passed(ports))
	}
	fmt.Fprintf(&b, "  - id: call\n    template: %s\n%s%s", fields.Quoted(t.Name()), passed(required), commitOf(t, d.look, d.might))
	var edges []string
	switch {
	case whole:
		edges = append(edges, `$input.$ -> call.$`)
	case len(optional) > 0 || t.Effect.Commits() && d.look == nil:
		edges = append(edges, `$input -> call`)
	}
	for _, port := range optional {
		edges = append(edges, optionalEdge("$input", "call", port))
	}
	answers, perhaps := portsOf(output)
	if len(answers)+len(perhaps) == 0 && !closed(output) {
		edges = append(edges, `call.$ -> $output.$`)
	}
	for _, port := range perhaps {
		edges = append(edges, optionalEdge("call", "$output", port))
	}
	if len(edges) > 0 {
		fmt.Fprintf(&b, "edges:\n  - %s\n", strings.Join(edges, "\n  - "))
	}
	if len(answers) > 0 {
		var out []string
		for _, port := range answers {
			out = append(out, fmt.Sprintf("%s: %s", fields.Quoted(port), fields.Quoted("${nodes.call"+member(port)+"}")))
		}
		fmt.Fprintf(&b, "output: {%s}\n", strings.Join(out, ", "))
	}
	return b.String()
}

// passed is the line that gives ports what the plan's input has under their names.
func passed(ports []string) string {
	var with []string
	for _, port := range ports {
		with = append(with, fmt.Sprintf("%s: %s", fields.Quoted(port), fields.Quoted("${input"+member(port)+"}")))
	}
	if len(with) == 0 {
		return ""
	}
	return fmt.Sprintf("    with: {%s}\n", strings.Join(with, ", "))
}

// optionalEdge is an edge between ports of one name, whose value may be absent.
func optionalEdge(from, to, port string) string {
	if identifier.MatchString(port) {
		return fmt.Sprintf(`{edge: "%s.%s -> %s.%s", required: false}`, from, port, to, port)
	}
	return fmt.Sprintf("{from_node: %s, from_port: %s, to_node: %s, to_port: %s, edge_type: data, required: false}",
		fields.Quoted(from), fields.Quoted(port), fields.Quoted(to), fields.Quoted(port))
}

var notInName = regexp.MustCompile(`[^a-z0-9]+`)

// planName makes the name of a plan of an operation's.
func planName(operation string) string {
	name := strings.Trim(notInName.ReplaceAllString(strings.ToLower(operation), "-"), "-")
	return cmp.Or(name[:min(len(name), 63)], "plan")
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// member is how an expression names a port.
func member(port string) string {
	if identifier.MatchString(port) {
		return "." + port
	}
	return "[" + fields.Quoted(port) + "]"
}

// portsOf are the properties that a schema requires, and the others that it names, sorted.
func portsOf(schema json.RawMessage) (required, optional []string) {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil, nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if slices.Contains(s.Required, name) {
			required = append(required, name)
		} else {
			optional = append(optional, name)
		}
	}
	return required, optional
}

// objectSchema is a tool's input schema as that of objects. It reports whether it was one.
func objectSchema(schema json.RawMessage) (object json.RawMessage, typed bool) {
	var s map[string]json.RawMessage
	if json.Unmarshal(schema, &s) != nil || s == nil || s["type"] != nil {
		return schema, true
	}
	s["type"] = json.RawMessage(`"object"`)
	return json.RawMessage(fields.Quoted(s)), false
}

// closed reports that a schema says that it has no properties.
func closed(schema json.RawMessage) bool {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	return json.Unmarshal(schema, &s) == nil && s.Properties != nil
}

// templateOf finds an operation of the catalog.
func (s *environment) templateOf(name string) *catalog.Template {
	for i := range s.catalog.Templates {
		if t := &s.catalog.Templates[i]; t.ProviderType == plan.MCP && t.Name() == name {
			return t
		}
	}
	return nil
}
