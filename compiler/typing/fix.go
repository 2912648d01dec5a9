package typing

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// remake infers the results of the template again, for the scope as it is now.
func (p *proposal) remake() bool {
	_, result, problems := p.template.Check(p.check.typing(p.scope))
	p.source = result
	return len(problems) == 0
}

// change replaces or removes the value of the keyword that refuses.
func (p *proposal) change(c schemas.Cause, f func(v any) any) bool {
	root, ok := changed(p.root, strings.Split(c.Keyword, "/")[1:], f)
	if !ok {
		return false
	}
	compiled := p.check.pool.Compiled(root)
	if compiled == nil {
		return false
	}
	p.root, p.target = root, compiled
	if p.derive != nil {
		p.target = p.derive(compiled)
	}
	return p.target != nil
}

// changed copies a document with another value at a path, or without it if f
// returns nil.
func changed(v any, path []string, f func(v any) any) (any, bool) {
	if len(path) == 0 {
		return f(v), true
	}
	token := schemas.Unescape(path[0])
	switch x := v.(type) {
	case map[string]any:
		old, there := x[token]
		next, ok := changed(old, path[1:], f)
		if !there || !ok {
			return nil, false
		}
		out := maps.Clone(x)
		if out[token] = next; next == nil {
			delete(out, token)
		}
		return out, true
	case []any:
		i, err := strconv.Atoi(token)
		if err != nil || i < 0 || i >= len(x) {
			return nil, false
		}
		next, ok := changed(x[i], path[1:], f)
		if !ok || next == nil {
			return nil, false
		}
		out := slices.Clone(x)
		out[i] = next
		return out, true
	}
	return nil, false
}

// keyword is the schema of one keyword, or nil if its meaning depends on others.
func (p *proposal) keyword(name string, want any) *schemas.Schema {
	if want == nil || name == "additionalProperties" {
		return nil
	}
	object := map[string]any{name: want}
	if root, ok := p.root.(map[string]any); ok && root["$schema"] != nil {
		object["$schema"] = root["$schema"]
	}
	return p.check.pool.Compiled(object)
}

// restrict narrows the source at a place. If nothing would remain, the new schema
// replaces the old.
func (p *proposal) restrict(instance string, s *schemas.Schema) bool {
	s = within(instance, s)
	if x := p.check.prover.Both(p.source, s); !p.check.empty(x) {
		p.source = x
		return true
	}
	p.source = s
	return instance == ""
}

// empty reports whether it is proved that a schema has no value.
func (check *checker) empty(s *schemas.Schema) bool {
	return check.prover.Run(func(o containment.Options) containment.Result { return containment.Empty(s, o) }).Verdict == containment.Proved
}

// within is the schema of values whose part at pointer, if present, fits s.
func within(pointer string, s *schemas.Schema) *schemas.Schema {
	if pointer == "" {
		return s
	}
	for _, token := range slices.Backward(strings.Split(pointer, "/")[1:]) {
		token = schemas.Unescape(token)
		k := schemas.Keywords{Properties: map[string]*schemas.Schema{token: s}}
		if _, err := strconv.Atoi(token); err == nil {
			k.Items = s
		}
		s = schemas.Make(k)
	}
	return s
}

// promise narrows the schema of a name at a place.
func (p *proposal) promise(name, path string, s *schemas.Schema) bool {
	of := &p.scope.input
	if name == "value" {
		of = &p.scope.value
	}
	if *of == nil {
		return false
	}
	s = within(path, s)
	x := p.check.prover.Both(*of, s)
	if p.check.empty(x) {
		if path != "" || name == "value" && p.scope.port != "" {
			return false
		}
		x = s
	}
	*of = x
	switch {
	case name != "value" || p.scope.port == "":
	case p.scope.port == plan.WholePort:
		p.scope.output = x
	default:
		p.scope.output = p.check.prover.Both(p.scope.output, within("/"+p.scope.port, s))
	}
	return true
}
