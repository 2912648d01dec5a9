package compiler

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/plan"
)

// errorSchema is what every error edge brings: contract.ErrorPayload.
func errorSchema() any {
	kinds := contract.Kinds()
	words := make([]any, len(kinds))
	for i, k := range kinds {
		words[i] = string(k)
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

// typeEdge says what is known of the value that an edge brings.
func (u *unit) typeEdge(doc *document, e *edge) {
	from, to := doc.nodes[e.from], doc.nodes[e.to]
	if e.kind == plan.Conditional && e.when == nil && !e.otherwise {
		u.typeCondition(from, e)
	}
	if !e.carries() || to.input == nil || to.input.faulty || (to.forEach != nil && to.forEach.port != nil && to.forEach.port.Text == e.toPort) {
		return
	}
	target := u.portSchema(to.input.schema, e.toPort)
	if e.transform != nil {
		switch {
		case e.template == nil:
		case e.template.Constant():
			u.constantFits(to, e.toPort, e.template, e.transform.Range, e.String())
		case target == nil || !unconstrained(target.value):
			u.unproved(e, "The value is made by a transform, and what it gives is not inferred.")
		}
		return
	}
	var source *schema
	switch {
	case e.kind == plan.Error:
		source, _ = u.pool.add(errorSchema())
	case from.output == nil || from.output.faulty:
		return
	default:
		source = u.portSchema(from.output.schema, e.fromPort)
	}
	if target != nil && unconstrained(target.value) {
		return
	}
	if source == nil || target == nil || !u.contained(source, target) {
		u.unproved(e, fmt.Sprintf("The schemas of %s and %s are not equal, and that the first lies within the second is not obvious.", quote(e.fromNode+"."+e.fromPort), quote(e.toNode+"."+e.toPort)))
	}
}

func (u *unit) unproved(e *edge, why string) {
	if e.check != nil {
		return
	}
	u.report(diag.Diagnostic{
		Code: diag.TypeUnknown, Severity: diag.Warning,
		Summary: "it is not proved that the value fits " + quote(e.toNode+"."+e.toPort),
		Detail:  why + " It is checked when it arrives; `check: runtime` says that this is meant.",
		Subject: e.toRange(), Context: e.fromRange(), Edge: e.String(), Suggestion: "check: runtime",
	})
}

// typeCondition checks that a value that is itself the condition is a boolean.
func (u *unit) typeCondition(from *node, e *edge) {
	if from.output == nil || from.output.faulty {
		return
	}
	s := u.portSchema(from.output.schema, e.fromPort)
	if s != nil {
		switch yes, no := boolean(s.value); {
		case yes:
			return
		case no:
			u.report(diag.Diagnostic{
				Code: diag.TypePredicate, Summary: fmt.Sprintf("the value of %s is not a boolean", quote(e.fromNode+"."+e.fromPort)),
				Detail:  "A conditional edge without `when` takes the value itself as its condition. Give a condition over `value`.",
				Subject: e.fromRange(), Edge: e.String(), Node: from.id,
			})
			return
		}
	}
	if e.check == nil {
		u.report(diag.Diagnostic{
			Code: diag.TypeUnknown, Severity: diag.Warning,
			Summary: fmt.Sprintf("it is not proved that %s is a boolean", quote(e.fromNode+"."+e.fromPort)),
			Detail:  "A conditional edge without `when` takes the value itself as its condition. It is checked at run time.",
			Subject: e.fromRange(), Edge: e.String(), Node: from.id,
		})
	}
}

// boolean reports whether a schema obviously takes booleans only, or obviously
// none.
func boolean(v any) (only, none bool) {
	m, ok := v.(map[string]any)
	if !ok {
		return false, false
	}
	if c, has := m["const"]; has {
		_, is := c.(bool)
		return is, !is
	}
	switch t := m["type"].(type) {
	case string:
		return t == "boolean", t != "boolean"
	case []any:
		has := slices.Contains(t, any("boolean"))
		return has && len(t) == 1, !has
	}
	return false, false
}

// portSchema gives the self-contained schema of a port, or nil if it refers to
// parts of its root that cannot be carried along.
func (u *unit) portSchema(s *schema, name string) *schema {
	if name == plan.WholePort {
		return s
	}
	if made, ok := u.portSchemas[schemaPort{s, name}]; ok {
		return made
	}
	var made *schema
	if p := s.portsOf().byName[name]; p != nil {
		if value, ok := detach(s.value, p.schema); ok {
			made, _ = u.pool.add(value)
		}
	}
	u.portSchemas[schemaPort{s, name}] = made
	return made
}

type schemaPort struct {
	s    *schema
	name string
}

// carried are the keywords under which a schema keeps definitions.
var carried = []string{"$defs", "definitions", "defs"}

// detach makes a subschema stand on its own, with the definitions of its root.
// ok is false where a reference, an identifier or the draft makes its meaning
// depend on its place.
func detach(root, sub any) (value any, ok bool) {
	m, isMap := sub.(map[string]any)
	if !isMap {
		return sub, true
	}
	top, _ := root.(map[string]any)
	local, moved := references(sub)
	if !moved {
		return nil, false
	}
	draft, hasDraft := top["$schema"]
	if !local && !hasDraft {
		return sub, true
	}
	out := maps.Clone(m)
	if hasDraft {
		if _, own := m["$schema"]; own {
			return nil, false
		}
		out["$schema"] = draft
	}
	if !local {
		return out, true
	}
	for _, key := range carried {
		defs, has := top[key]
		if !has {
			continue
		}
		if _, own := m[key]; own {
			return nil, false
		}
		if _, moved := references(defs); !moved {
			return nil, false
		}
		out[key] = defs
	}
	return out, true
}

// references reports whether a schema holds references into the definitions of
// its root (local), and whether it could be moved: it has no other references
// and no identifiers.
func references(v any) (local, movable bool) {
	movable = true
	switch x := v.(type) {
	case []any:
		for _, e := range x {
			l, m := references(e)
			local, movable = local || l, movable && m
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(x)) {
			switch key {
			case "$id", "id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$recursiveAnchor":
				if _, text := x[key].(string); text {
					movable = false
				}
			case "$ref":
				ref, text := x[key].(string)
				if !text {
					break
				}
				within := slices.ContainsFunc(carried, func(k string) bool { return strings.HasPrefix(ref, "#/"+k+"/") })
				local, movable = local || within, movable && within
				continue
			}
			l, m := references(x[key])
			local, movable = local || l, movable && m
		}
	}
	return local, movable
}
