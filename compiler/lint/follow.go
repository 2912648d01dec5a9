package lint

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// follower completes engine/pass nodes that leave schemas out: the output is that of the input,
// and the input is what arrives, port by port. Nothing depends on it that is not proved later:
// what arrives is held against the schema as if the author had written it.
type follower struct {
	*linter
	doc *Document
	// open are the nodes whose schemas are to follow, by their index; the value reports that
	// their turn has come.
	open map[int]bool
	in   map[string][]*Edge
	// known caches the schemas of the ports of nodes.
	known map[portOf]arrival
	// orders reports the nodes that an edge enters which brings no value.
	orders map[string]bool
	input  *schemas.Schema
	// work is what is left for looking into expressions, and bytes for the schemas of what
	// arrives.
	work, bytes int
}

type portOf struct {
	node int
	port string
}

// arrival is the schema of what a port brings: decoded JSON.
type arrival struct {
	value    any
	compiled *schemas.Schema
	ok       bool
	// size is the length of the canonical text.
	size int
	// quiet reports that it is reported elsewhere why it is not known.
	quiet bool
}

// Bounds of what follows in a document: the steps of the prover for all its expressions, and the
// bytes of the schemas of all ports.
const (
	maxFollow      = 4_000_000
	maxFollowBytes = 32 << 20
)

// follows reports whether the node leaves out a schema that may follow from the rest.
func (n *Node) follows() bool {
	return n.Passes() && (n.At.Get("input_schema") == nil || n.At.Get("output_schema") == nil)
}

// mayFollow reports whether schemas are to follow in the file: it has a short form, or names a
// port of a node whose template has none. Other files mean the schemas of the template, as
// they did before schemas could follow.
func (l *linter) mayFollow() bool {
	loose := false
	for _, doc := range l.Documents {
		if doc.Short {
			return true
		}
		silent := map[string]*Node{}
		for _, n := range doc.Nodes {
			if n.follows() {
				silent[n.ID], loose = n, true
				if n.At.Get("input_schema") == nil && n.With != nil && n.WithPort(plan.WholePort) == nil {
					return true
				}
			}
		}
		if len(silent) == 0 {
			continue
		}
		for _, e := range doc.Edges {
			if n := silent[e.ToNode]; n != nil && n.At.Get("input_schema") == nil && e.Carries() && e.ToPort != plan.WholePort {
				return true
			}
			if n := silent[e.FromNode]; n != nil && n.At.Get("output_schema") == nil && named(e.FromPort) {
				return true
			}
		}
	}
	l.Loose = loose
	return false
}

// follow completes the nodes of a document.
func (l *linter) follow(doc *Document) {
	f := &follower{linter: l, doc: doc, open: map[int]bool{}, in: map[string][]*Edge{}, known: map[portOf]arrival{}, work: maxFollow, bytes: maxFollowBytes}
	for i, n := range doc.Nodes {
		if n.follows() {
			f.open[i] = false
			f.in[n.ID] = nil
		}
	}
	if len(f.open) == 0 {
		return
	}
	for _, e := range doc.Edges {
		if _, wanted := f.in[e.ToNode]; wanted && e.Carries() {
			f.in[e.ToNode] = append(f.in[e.ToNode], e)
		}
	}
	f.input = f.usable(doc.Input)
	for i := range doc.Nodes {
		if _, is := f.open[i]; is {
			f.complete(i)
		}
	}
}

// usable compiles a schema, or returns nil.
func (f *follower) usable(c *Schema) *schemas.Schema {
	if c == nil {
		return nil
	}
	f.pool.Admit(c.Schema)
	return c.Usable()
}

// complete gives a node the schemas that follow. It reports whether the node has both.
func (f *follower) complete(i int) bool {
	n := f.doc.Nodes[i]
	done, is := f.open[i]
	if !is || done {
		return n.Input != nil && n.Output != nil
	}
	f.open[i] = true
	if n.At.Get("input_schema") == nil && (len(f.in[n.ID]) > 0 || n.With != nil) {
		n.Input, n.Followed = nil, true
		if n.At.Get("output_schema") == nil {
			n.Output = nil
		}
		if n.Input = f.arrives(i); n.Input == nil {
			n.Sound, f.doc.Broken = false, true
			return false
		}
	}
	if n.At.Get("output_schema") == nil {
		n.Output, n.Followed = n.Input, true
	}
	return true
}

// arrives returns the schema of what arrives at a node, or reports that it does not follow.
func (f *follower) arrives(i int) *Schema {
	n := f.doc.Nodes[i]
	edges := f.in[n.ID]
	byPort := map[string][]*Edge{}
	for _, e := range edges {
		byPort[e.ToPort] = append(byPort[e.ToPort], e)
	}
	if n.With != nil {
		for _, field := range n.With.Fields {
			byPort[field.Key.Text] = append(byPort[field.Key.Text], nil)
		}
	}
	if _, whole := byPort[plan.WholePort]; whole {
		a := f.port(i, plan.WholePort, byPort[plan.WholePort])
		if !a.ok {
			return nil
		}
		c := f.schema(n, a)
		if c != nil && !c.Ports().Object && a.value != true {
			f.Report(diag.Diagnostic{
				Code: diag.TypeSchema, Summary: fmt.Sprintf("%s takes an object, and what arrives may be none", fields.Quote(n.ID)), Subject: n.Key, Node: n.ID,
				Detail: "`engine/pass` returns an object as it is. Give the value a port of its own, such as `with: {value: …}`.",
			})
			return nil
		}
		return c
	}
	properties, required := map[string]any{}, []any{}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(byPort)) {
		a := f.port(i, name, byPort[name])
		if !a.ok {
			return nil
		}
		if size += a.size; size > schemas.MaxSchemaBytes {
			f.Report(diag.Diagnostic{
				Code: diag.PlanLimits, Summary: fmt.Sprintf("the schema of what arrives at %s is too large to follow", fields.Quote(n.ID)), Subject: n.Key, Node: n.ID,
				Detail: fmt.Sprintf("A schema has at most %d bytes. Declare a smaller one here.", schemas.MaxSchemaBytes),
			})
			return nil
		}
		properties[name] = a.value
		if f.certain(n, byPort, name) {
			required = append(required, name)
		}
	}
	object := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		object["required"] = required
	}
	return f.schema(n, arrival{value: object})
}

// certain reports whether a port of a node that runs has a value: `with` or a required edge
// fills it, it has alternatives by `??`, or all edges into the node enter it.
func (f *follower) certain(n *Node, byPort map[string][]*Edge, name string) bool {
	alternatives := 0
	for _, e := range byPort[name] {
		if e == nil || e.Required {
			return true
		}
		if e.Form == FormWith {
			alternatives++
		}
	}
	return alternatives > 1 || len(byPort) == 1 && !f.ordered(n)
}

// ordered reports whether an edge enters the node that brings no value.
func (f *follower) ordered(n *Node) bool {
	if f.orders == nil {
		f.orders = map[string]bool{}
		for _, e := range f.doc.Edges {
			if !e.Carries() {
				f.orders[e.ToNode] = true
			}
		}
	}
	return f.orders[n.ID]
}

// schema adds the definitions of the plan that a schema uses.
func (f *follower) schema(n *Node, a arrival) *Schema {
	uses := map[string]bool{}
	f.uses(a.value, uses)
	c, err := f.pooled(a.value, slices.Sorted(maps.Keys(uses)), f.doc.Defs)
	if err != nil {
		f.Report(diag.Diagnostic{Code: diag.PlanLimits, Summary: err.Error(), Subject: n.Key, Node: n.ID})
		return nil
	}
	return c
}

// uses gathers the definitions of the plan to which a schema refers.
func (f *follower) uses(v any, found map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			f.uses(item, found)
		}
	case map[string]any:
		for key, item := range v {
			if ref, is := item.(string); is && key == "$ref" {
				if name := definitionOf(strings.TrimPrefix(ref, "#")); f.doc.Defs.ByName[name] != nil {
					found[name] = true
				}
				continue
			}
			f.uses(item, found)
		}
	}
}

// port returns the schema of what arrives at a port by any of its edges; a nil edge is the entry
// of `with`.
func (f *follower) port(i int, name string, edges []*Edge) arrival {
	n := f.doc.Nodes[i]
	var all []any
	out := arrival{ok: true}
	seen := map[string]bool{}
	for _, e := range edges {
		var a arrival
		var at diag.Range
		if e == nil {
			v := n.With.Get(name)
			at = v.Range()
			a = f.template(v, expr.With, expr.Typing{Types: expr.Types{"input": f.input}}, f.owns(f.doc.Input))
		} else {
			at = e.ToRange()
			a = f.brings(e)
		}
		if !a.ok {
			if !a.quiet {
				f.unknown(n, name, at)
			}
			return arrival{}
		}
		raw, err := plan.Canonical(a.value)
		if err != nil {
			return arrival{}
		}
		if out.size += len(raw); out.size > schemas.MaxSchemaBytes || f.bytes < len(raw) {
			f.Report(diag.Diagnostic{
				Code: diag.PlanLimits, Summary: fmt.Sprintf("the schema of what arrives at %s is too large to follow", fields.Quote(n.ID)), Subject: at, Node: n.ID,
				Detail: fmt.Sprintf("A schema has at most %d bytes, and those that follow in a plan have %d together. Declare a smaller one here.", schemas.MaxSchemaBytes, maxFollowBytes),
			})
			return arrival{}
		}
		f.bytes -= len(raw)
		if key := string(raw); !seen[key] {
			seen[key] = true
			all = append(all, a.value)
		}
	}
	out.value = either(all)
	return out
}

// unknown reports a port of which it is not known what arrives.
func (f *follower) unknown(n *Node, name string, at diag.Range) {
	f.Report(diag.Diagnostic{
		Code: diag.TypeSchema, Summary: fmt.Sprintf("the schema of what arrives at %s does not follow from the plan", fields.Quote(n.ID+"."+name)),
		Detail:  "`engine/pass` may leave out its `input_schema` where what arrives at each port is known: the port of another node, a constant, or an expression of which no part may fail. Declare it here.",
		Subject: at, Context: n.Key, Node: n.ID, Suggestion: "input_schema: {type: object, properties: {" + fields.Inline(name) + ": …}}",
	})
}

// either is a schema of the values of any of several.
func either(all []any) any {
	if len(all) == 1 {
		return all[0]
	}
	var words []any
	for _, s := range all {
		if s == true {
			return true
		}
		if m, _ := s.(map[string]any); len(m) == 1 {
			if c, is := m["const"]; is {
				words = append(words, c)
			}
		}
	}
	if len(words) == len(all) {
		return map[string]any{"enum": words}
	}
	return map[string]any{"anyOf": all}
}

// brings returns the schema of what an edge brings.
func (f *follower) brings(e *Edge) arrival {
	from, known := f.doc.Index[e.FromNode]
	if !known || !e.Shaped || f.doc.Nodes[from].Kind == plan.KindOutput {
		return refused
	}
	n := f.doc.Nodes[from]
	if _, is := f.open[from]; is && n.At.Get("output_schema") == nil {
		if f.open[from] && n.Output == nil || !f.complete(from) {
			return arrival{quiet: n.Input == nil && !n.Sound} // or the nodes form a cycle
		}
	}
	scope, types := expr.Transform, expr.Types{"input": f.input}
	port := e.FromPort
	var value arrival
	switch {
	case e.Kind != plan.Error:
		if n.Output == nil || named(port) && !n.Output.Takes(port) {
			return refused
		}
		value = f.offers(from, e.FromPort)
		types["output"] = f.offers(from, plan.WholePort).compiled
		if n.ForEach != nil && port != plan.WholePort {
			port = ""
		}
	case e.FromPort == plan.CompensatePort:
		if e.Transform == nil {
			return refused
		}
		scope, port = expr.Compensate, ""
		types["args"], types["output"] = f.usable(n.Input), f.usable(n.Output)
		types["error"] = schemas.Make(schemas.Keywords{Any: []*schemas.Schema{f.failure().compiled, schemas.Make(schemas.Keywords{Types: []string{"null"}})}})
	default:
		scope, port = expr.ErrorTransform, ""
		value = f.failure()
		types["error"] = value.compiled
	}
	if e.Transform == nil || !value.ok && scope != expr.Compensate {
		return value
	}
	if embedded.Bare(e.Transform) {
		a := f.Catalog.Adapters[e.Transform.Text]
		if a == nil {
			return refused
		}
		c, err := f.Catalog.Schema(a.OutputSchema)
		if err != nil || c == nil {
			return refused
		}
		return f.export(f.usable(c), false)
	}
	types["value"] = value.compiled
	return f.template(e.Transform, scope, expr.Typing{Types: types, Port: port}, f.owns(f.doc.Input) && f.owns(n.Output) && f.owns(n.Input))
}

// refused is what arrives where it is reported elsewhere what is wrong, and anything where it is
// reported when the edge is typed.
var (
	refused  = arrival{quiet: true}
	anything = arrival{value: true, ok: true}
)

// offers returns the schema of a port of a node's output.
func (f *follower) offers(from int, name string) arrival {
	key := portOf{from, name}
	if a, known := f.known[key]; known {
		return a
	}
	n := f.doc.Nodes[from]
	var a arrival
	if s := f.usable(n.Output); s != nil && (named(name) || name == plan.WholePort) {
		if name != plan.WholePort {
			s = containment.Property(s, name, containment.Options{Steps: containment.DefaultSteps / 10})
		}
		if n.ForEach != nil {
			s = schemas.Make(schemas.Keywords{Types: []string{"array"}, Items: s})
		}
		a = f.export(s, f.owns(n.Output))
	}
	f.known[key] = a
	return a
}

// failure is the schema of what error edges bring.
func (f *follower) failure() arrival {
	key := portOf{-1, plan.ErrorPort}
	if a, known := f.known[key]; known {
		return a
	}
	a := f.export(f.pool.Compiled(ErrorSchema(contract.Kinds())), false)
	f.known[key] = a
	return a
}

// export writes a schema out, but for the definitions of the plan. own reports that it is made of
// schemas of the plan only: others may have definitions of the same names.
func (f *follower) export(s *schemas.Schema, own bool) arrival {
	if s == nil {
		return arrival{}
	}
	a := arrival{compiled: s}
	known := func(pointer string) string {
		name := definitionOf(pointer)
		if !own || f.doc.Defs.ByName[name] == nil {
			return ""
		}
		return DefsPrefix + name
	}
	a.value, a.ok = s.Export(known)
	return a
}

// template returns the schema of the values of a template.
func (f *follower) template(v *syntax.Value, scope expr.Scope, t expr.Typing, own bool) arrival {
	for name, s := range t.Types {
		if s == nil {
			delete(t.Types, name)
		}
	}
	made, bad := expr.CompileTemplate(v.Any(), scope)
	if len(bad) > 0 {
		return anything
	}
	if made.Constant() {
		value, err := made.Eval(nil)
		return arrival{value: map[string]any{"const": value}, ok: err == nil}
	}
	t.Work = &f.work
	_, result, problems := made.Check(t)
	for _, p := range problems {
		if p.Strict || p.Kind == expr.Wrong {
			return anything
		}
	}
	return f.export(result, own)
}

// owns reports whether a schema has no definitions but those of the plan.
func (f *follower) owns(c *Schema) bool {
	return c != nil && (len(c.Uses) > 0 || !bytes.Contains(c.Raw, []byte(`"defs"`)))
}

// named reports whether a port has a name of the plan's own.
func named(port string) bool { return port != "" && port[0] != '$' }

// definitionOf is the name of the definition of a plan that a JSON pointer leads to, or "".
func definitionOf(pointer string) string {
	name, is := strings.CutPrefix(pointer, "/defs/")
	if !is || strings.Contains(name, "/") {
		return ""
	}
	return schemas.Unescape(name)
}

// ErrorSchema is the schema of a contract.ErrorPayload of one of the given kinds, which every
// error edge brings.
func ErrorSchema(kinds []contract.Kind) any {
	var words []any
	for _, k := range kinds {
		words = append(words, string(k))
	}
	text := map[string]any{"type": "string"}
	return map[string]any{
		"type": "object",
		"properties": map[string]any{
			"kind": map[string]any{"type": "string", "enum": words}, "message": text, "node": text,
			"attempts": map[string]any{"type": "integer"}, "details": true,
		},
		"required":             []any{"kind", "message", "node", "attempts", "details"},
		"additionalProperties": false,
	}
}

// Passes reports whether the node is engine/pass, of which schemas may follow.
func (n *Node) Passes() bool {
	return n.Kind == plan.KindCall && n.Template != nil && n.Template.Passes() && n.ProviderType == plan.Skill && n.ForEach == nil && n.TemplateAt != nil
}
