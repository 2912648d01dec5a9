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

// remake asks again what the template makes, of what sight says now.
func (m *mend) remake() bool {
	_, result, problems := m.template.Check(m.check.typing(m.sight))
	m.source = result
	return len(problems) == 0
}

// change puts another value, or none, for the keyword of the target that refuses
// something.
func (m *mend) change(c schemas.Cause, f func(v any) any) bool {
	root, ok := changed(m.root, strings.Split(c.Keyword, "/")[1:], f)
	if !ok {
		return false
	}
	s, err := m.check.pool.Add(root)
	if err != nil {
		return false
	}
	m.check.pool.Admit(s)
	compiled, err := s.Compile()
	if err != nil {
		return false
	}
	m.root, m.target = root, compiled
	if m.derive != nil {
		m.target = m.derive(compiled)
	}
	return m.target != nil
}

// changed copies a document with another value at a path, or without it where f
// gives nil.
func changed(v any, path []string, f func(v any) any) (any, bool) {
	if len(path) == 0 {
		return f(v), true
	}
	token := strings.ReplaceAll(strings.ReplaceAll(path[0], "~1", "/"), "~0", "~")
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

// keyword is the schema of one keyword, or nil where its meaning hangs on others.
func (m *mend) keyword(name string, want any) *schemas.Schema {
	if want == nil || name == "additionalProperties" {
		return nil
	}
	object := map[string]any{name: want}
	if root, ok := m.root.(map[string]any); ok && root["$schema"] != nil {
		object["$schema"] = root["$schema"]
	}
	s, err := m.check.pool.Add(object)
	if err != nil {
		return nil
	}
	m.check.pool.Admit(s)
	compiled, err := s.Compile()
	if err != nil {
		return nil
	}
	return compiled
}

// restrict makes the source promise more at a place. Where it promises the
// contrary, the new promise takes the place of the old.
func (m *mend) restrict(instance string, s *schemas.Schema) bool {
	s = within(instance, s)
	p := m.check.prover
	if x := p.Both(m.source, s); !m.check.empty(x) {
		m.source = x
		return true
	}
	m.source = s
	return instance == ""
}

// empty reports whether it is proved that a schema has no value.
func (check *checker) empty(s *schemas.Schema) bool {
	return check.prover.Run(func(o containment.Options) containment.Result { return containment.Empty(s, o) }).Verdict == containment.Proved
}

// within is the values that have values of s at a place, if they have any there.
func within(pointer string, s *schemas.Schema) *schemas.Schema {
	if pointer == "" {
		return s
	}
	for _, token := range slices.Backward(strings.Split(pointer, "/")[1:]) {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		k := schemas.Keywords{Properties: map[string]*schemas.Schema{token: s}}
		if _, err := strconv.Atoi(token); err == nil {
			k.Items = s
		}
		s = schemas.Make(k)
	}
	return s
}

// promise makes a name promise more at a place.
func (m *mend) promise(name, path string, s *schemas.Schema) bool {
	of := &m.sight.input
	if name == "value" {
		of = &m.sight.value
	}
	if *of == nil {
		return false
	}
	s = within(path, s)
	x := m.check.prover.Both(*of, s)
	if m.check.empty(x) {
		if path != "" || name == "value" && m.sight.port != "" {
			return false
		}
		x = s
	}
	*of = x
	switch {
	case name != "value" || m.sight.port == "":
	case m.sight.port == plan.WholePort:
		m.sight.output = x
	default:
		m.sight.output = m.check.prover.Both(m.sight.output, within("/"+m.sight.port, s))
	}
	return true
}
