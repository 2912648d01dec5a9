package compiler

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"chimera.ai/engine/compiler/internal/pool"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/parallel"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// types compiles schemas and expressions, finds inputs that stay empty, and
// says of each edge that brings a value what is known of it.
func (u *unit) types() {
	for _, doc := range u.docs {
		u.typed = append(u.typed, typed(doc))
	}
	for _, doc := range u.typed {
		u.typeDefs(doc)
		u.compileAll(doc)
		for _, n := range doc.nodes {
			u.typeSchema(doc, n, n.input)
			u.typeSchema(doc, n, n.output)
			u.typeNode(n)
		}
		u.compileConditions(doc)
		for _, e := range doc.edges {
			if e.shaped {
				u.typeExpressions(e)
			}
		}
		for _, n := range doc.nodes {
			u.typeWith(doc, n)
			u.typeVerify(doc, n)
			u.typeCost(doc, n)
		}
		u.typeEdges(doc)
		u.missingInputs(doc)
		u.typeInputs(doc)
		u.flows(doc)
	}
	u.typeCalls()
}

// compileAll compiles the schemas of a document's nodes, side by side. What
// comes of each is the same as if it were compiled when it is met.
func (u *unit) compileAll(doc *typedDocument) {
	var todo []*pool.Schema
	seen := map[*pool.Schema]bool{}
	for _, n := range doc.nodes {
		for _, c := range []*typedSchema{n.input, n.output} {
			if c != nil && !seen[c.Schema] && !doc.usesBad(c) {
				seen[c.Schema] = true
				if u.pool.Admit(c.Schema) {
					todo = append(todo, c.Schema)
				}
			}
		}
	}
	parallel.Do(len(todo), func(i int) {
		// An error stays with the schema.
		_, _ = todo[i].Compile()
	})
}

// usesBad reports whether a schema refers to a definition that is refused.
func (d *typedDocument) usesBad(c *typedSchema) bool {
	for _, name := range c.uses {
		for _, x := range d.defs.byKey[name].uses {
			if d.refused[x] {
				return true
			}
		}
	}
	return false
}

// typeDefs compiles each definition on its own, so that a bad one is reported
// where it stands and not at all its users.
func (u *unit) typeDefs(doc *typedDocument) {
	sound := u.soundDefs(doc)
	for _, name := range doc.defs.names {
		d := doc.defs.byKey[name]
		if doc.refused[name] || sound[name] {
			continue
		}
		used := map[string]any{}
		for _, n := range d.uses {
			used[n] = doc.defs.byKey[n].value
		}
		s, err := u.pool.With(map[string]any{"$ref": defsPrefix + name, "defs": used}, len(used))
		if err != nil {
			u.Report(diag.Diagnostic{Code: diag.PlanLimits, Summary: err.Error(), Subject: fields.Head(d.at)})
			doc.refused[name] = true
			continue
		}
		u.pool.Admit(s)
		if _, err := s.Compile(); err != nil {
			doc.refused[name] = true
			// The fault may lie in another definition that this one uses.
			at, pointer := d.at, pointerOf(err)
			if rest, ok := strings.CutPrefix(pointer, "/defs/"); ok {
				owner, _, _ := strings.Cut(rest, "/")
				if owner != name && doc.defs.byKey[owner] != nil {
					continue
				}
				pointer = strings.TrimPrefix(rest, owner)
			}
			u.badSchema(err, at, pointer, "")
		}
	}
}

// soundDefs compiles definitions together with all that they use, the largest
// first, so that a chain of them is compiled once and not once for each. What is
// not in sound may still be.
func (u *unit) soundDefs(doc *typedDocument) (sound map[string]bool) {
	all := doc.defs
	sound = map[string]bool{}
	order := slices.Clone(all.names)
	slices.SortStableFunc(order, func(a, b string) int { return len(all.byKey[b].uses) - len(all.byKey[a].uses) })
	for _, name := range order {
		d := all.byKey[name]
		if doc.refused[name] || sound[name] || len(d.uses) == 1 {
			continue
		}
		used := map[string]any{}
		var each []any
		for _, n := range d.uses {
			used[n] = all.byKey[n].value
			each = append(each, map[string]any{"$ref": defsPrefix + n})
		}
		s, err := u.pool.With(map[string]any{"allOf": each, "defs": used}, len(used))
		if err != nil {
			break // what is left is reported one by one
		}
		u.pool.Admit(s)
		if _, err := s.Compile(); err == nil {
			for _, n := range d.uses {
				sound[n] = true
			}
		}
	}
	return sound
}

// typeSchema compiles one schema of a node.
func (u *unit) typeSchema(doc *typedDocument, n *typedNode, c *typedSchema) {
	if c == nil {
		return
	}
	if doc.usesBad(c) {
		n.sound, c.faulty = false, true
		return
	}
	if _, err := c.Compile(); err != nil {
		n.sound, c.faulty = false, true
		if c.at == nil {
			u.badTemplate(n.node, n.template, err)
			return
		}
		u.badSchemas(err, c.at, n.id)
	}
}

// jsonTypes are the words of the keyword `type`.
var jsonTypes = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// typeWords are the types of other languages, and what JSON Schema calls them.
var typeWords = map[string]string{
	"str": "string", "text": "string", "int": "integer", "long": "integer", "float": "number", "double": "number", "decimal": "number",
	"bool": "boolean", "list": "array", "tuple": "array", "map": "object", "dict": "object", "struct": "object", "none": "null", "nil": "null",
}

// badSchemas reports a schema that does not compile, once for each part of it that
// breaks the rules of its draft, up to a few.
func (u *unit) badSchemas(err error, v *syntax.Value, node string) {
	const most = 4
	var invalid *schemas.Invalid
	if !errors.As(err, &invalid) || len(invalid.Causes) < 2 {
		u.badSchema(err, v, pointerOf(err), node)
		return
	}
	var places []string
	for _, c := range invalid.Causes {
		// A part of what is reported already is probably wrong for the same reason.
		if len(places) == most || slices.ContainsFunc(places, func(p string) bool { return c.Instance == p || strings.HasPrefix(c.Instance, p+"/") }) {
			continue
		}
		places = append(places, c.Instance)
		u.badSchema(&schemas.Invalid{Causes: []schemas.Cause{c}}, v, c.Instance, node)
	}
}

// badSchema reports a schema that does not compile, at the part of it that the
// pointer names where there is one.
func (u *unit) badSchema(err error, v *syntax.Value, pointer, node string) {
	at := fields.Head(v)
	if part := descend(v, pointer); part != nil && part != v {
		at = fields.Head(part)
		if part.Kind != syntax.Map && part.Kind != syntax.List {
			at = part.Range()
		}
	}
	text, suggestion := err.Error(), ""
	var lost *schemas.ReferenceError
	if errors.As(err, &lost) {
		if part := reference(v, lost.Reference); part != nil {
			at = part.Range()
			if !lost.Outside {
				text, suggestion = "the reference "+fields.Quote(part.Text)+" leads nowhere", u.definitionFor(part)
			}
		}
	}
	if part := descend(v, pointer); part != nil && part.Kind == syntax.String && strings.HasSuffix(pointer, "/type") {
		// Which words there are says all; that it might have been a list does not help.
		text = "`type` is " + fields.Either(jsonTypes) + ", or a list of these, not " + fields.Quote(part.Text)
		if suggestion = typeWords[strings.ToLower(part.Text)]; suggestion == "" {
			suggestion = u.Near(part.Text, jsonTypes)
		}
	}
	u.Report(diag.Diagnostic{
		Code: diag.TypeSchema, Summary: "this is not a usable JSON Schema", Detail: fields.Sentence(text), Subject: at, Node: node, Suggestion: suggestion,
	})
}

// pointerOf is the place in a schema that its compile error is about, as a JSON
// pointer, or "".
func pointerOf(err error) string {
	var invalid *schemas.Invalid
	if errors.As(err, &invalid) && len(invalid.Causes) > 0 {
		return invalid.Causes[0].Instance
	}
	var place *schemas.PlaceError
	if errors.As(err, &place) {
		return place.Pointer
	}
	return ""
}

// definitionFor is the reference to the plan's definition that has the name at
// which a reference to nowhere ends, or "".
func (u *unit) definitionFor(ref *syntax.Value) string {
	name := ref.Text[strings.LastIndexByte(ref.Text, '/')+1:]
	for _, doc := range u.typed {
		whole, at := doc.at.Range(), ref.Range()
		if doc.defs != nil && whole.Start.Byte <= at.Start.Byte && at.End.Byte <= whole.End.Byte && doc.defs.byKey[name] != nil {
			return defsPrefix + name
		}
	}
	return ""
}

// reference is the value of the schema that has the reference, or nil.
func reference(v *syntax.Value, text string) *syntax.Value {
	var find func(v *syntax.Value) *syntax.Value
	find = func(v *syntax.Value) *syntax.Value {
		for _, item := range v.Items {
			if found := find(item); found != nil {
				return found
			}
		}
		for i := range v.Fields {
			key, val := v.Fields[i].Key.Text, v.Fields[i].Value
			if strings.HasPrefix(key, "$") && val.Kind == syntax.String && (strings.HasPrefix(val.Text, text) || strings.HasSuffix(text, "/"+val.Text)) {
				return val
			}
			if found := find(val); found != nil {
				return found
			}
		}
		return nil
	}
	return find(v)
}

// descend follows a JSON pointer as far as it leads.
func descend(v *syntax.Value, pointer string) *syntax.Value {
	if pointer == "" {
		return v
	}
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		next := v.Get(token)
		if i, err := strconv.Atoi(token); next == nil && err == nil && v.Kind == syntax.List && i >= 0 && i < len(v.Items) {
			next = v.Items[i]
		}
		if next == nil {
			return v
		}
		v = next
	}
	return v
}

// missingInputs reports required ports that nothing can ever fill, and required
// edges from ports that may be absent.
func (u *unit) missingInputs(doc *typedDocument) {
	doubtful := map[int]bool{}
	for _, e := range doc.edges {
		if !e.sound && e.to >= 0 {
			doubtful[e.to] = true
		}
		if e.sound && e.required {
			u.certainSource(doc, e)
		}
	}
	for i, n := range doc.nodes {
		if n.input == nil || doubtful[i] || doc.doubtful[n.id] || n.called || n.input.faulty {
			continue
		}
		for _, p := range doc.needs(i) {
			if n.withPort(p) != nil || doc.feeds(i, p) {
				continue
			}
			d := diag.Diagnostic{
				Code: diag.TypeMissingInput, Summary: fmt.Sprintf("nothing fills the required port %s of %s", fields.Quote(p), fields.Quote(n.id)),
				Detail:  "No edge enters it and `with` does not give it, so the node could never run.",
				Subject: n.key, Context: u.requirement(n.input, p), Node: n.id, Suggestion: "with: {" + p + ": …}",
			}
			switch {
			case n.kind == plan.KindOutput:
				d.Detail, d.Suggestion = "No edge enters it, so no run could succeed.", ""
				if d.Subject = u.requirement(n.input, p); !d.Subject.IsValid() {
					d.Subject = fields.Head(doc.at)
				}
				d.Context = diag.Range{}
			case p == plan.WholePort:
				d.Detail = "Its input schema takes no object, so only an edge into `$`, or `$` in `with`, can fill it."
				d.Suggestion = ""
			}
			u.Report(d)
		}
	}
}

// feeds reports whether an edge could bring a value to the port.
func (d *typedDocument) feeds(i int, port string) bool {
	for _, at := range d.in[i] {
		if e := d.edges[at]; e.carries() && e.toPort == port {
			return true
		}
	}
	return false
}

func (u *unit) certainSource(doc *typedDocument, e *typedEdge) {
	from := doc.nodes[e.from]
	if e.kind == plan.Error || e.fromPort == plan.DonePort || from.output == nil || u.has(from, e.fromPort) {
		return
	}
	d := diag.Diagnostic{
		Code: diag.TypeMissingInput, Summary: fmt.Sprintf("the edge is required, and %s may be absent", fields.Quote(e.fromNode+"."+e.fromPort)),
		Detail:  fmt.Sprintf("The output schema of %s does not require %s. Require it there, take the whole output from `$` with a transform such as `${value.?%s}`, or let the edge be skipped.", fields.Quote(from.id), fields.Quote(e.fromPort), e.fromPort),
		Subject: e.fromRange(), Node: e.toNode, Edge: e.String(), Suggestion: "required: false",
	}
	if e.requiredAt.IsValid() {
		d.Subject, d.Context = e.requiredAt, e.fromRange()
	}
	ports := from.output.Ports()
	if ports.Requires(e.fromPort) && !ports.Object {
		d.Detail = fmt.Sprintf("The output schema of %s lists %s as required, and does not say that the output is an object.", fields.Quote(from.id), fields.Quote(e.fromPort))
		d.Suggestion = "type: object"
	}
	u.Report(d)
}
