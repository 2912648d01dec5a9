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
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// planOf writes a plan that calls one operation: its input is the operation's, and so is what it
// returns.
func (p *Program) planOf(env *environment, t *catalog.Template) error {
	output := t.OutputSchema
	if output == nil {
		output = json.RawMessage(catalog.ContentSchema)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: %s\nkind: Plan\nname: %s\nversion: \"1.0.0\"\n", fields.APIVersion, planName(t.Operation))
	if t.Effect.Acts() {
		fmt.Fprintf(&b, "agent: agent-42 # on whose behalf it acts\nallow: [pure, %s]\n", t.Effect)
	}
	fmt.Fprintf(&b, "input_schema: %s\noutput_schema: %s\nnodes:\n  - id: call\n    template: %s\n", t.InputSchema, output, fields.Quoted(t.Name()))
	var with, out []string
	required, optional := portsOf(t.InputSchema)
	for _, port := range required {
		with = append(with, fmt.Sprintf("%s: %s", fields.Quoted(port), fields.Quoted("${input"+member(port)+"}")))
	}
	if len(with) > 0 {
		fmt.Fprintf(&b, "    with: {%s}\n", strings.Join(with, ", "))
	}
	if len(optional) > 0 {
		fmt.Fprintf(&b, "    # It also takes: %s\n", fields.Quoted(strings.Join(optional, ", ")))
	}
	answers, _ := portsOf(output)
	for _, port := range answers {
		out = append(out, fmt.Sprintf("%s: %s", fields.Quoted(port), fields.Quoted("${nodes.call"+member(port)+"}")))
	}
	fmt.Fprintf(&b, "output: {%s}\n", strings.Join(out, ", "))
	p.printf("%s", b.String())
	if _, ds := compiler.Compile(compiler.Source{Name: "the plan", Text: []byte(b.String())}, env.catalog, env.policy); ds.HasErrors() {
		p.say("this is a draft, and does not compile yet:")
		p.diagnose(ds, map[string][]byte{"the plan": []byte(b.String())})
	}
	return nil
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

// templateOf finds an operation of the catalog.
func (s *environment) templateOf(name string) *catalog.Template {
	for i := range s.catalog.Templates {
		if t := &s.catalog.Templates[i]; t.ProviderType == plan.MCP && t.Name() == name {
			return t
		}
	}
	return nil
}
