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

// Bounds of proving what is proposed: the edits of one proposal, what a file may
// spend, and what an edit costs that checks an expression again.
const (
	maxEdits  = 4
	maxMends  = 500
	checkCost = 25
)

// propose gives the edits for a value that the target refuses, or "". Edits that
// would not do are not proposed; those that cannot be tried are given as they are.
func (m mend) propose(v any) string {
	if m.check.fixes--; m.check.fixes < 0 {
		return ""
	}
	edits := m.plan(v)
	if len(edits) != 1 && m.sourceOpen {
		m.narrows = true
		if other := m.plan(v); len(edits) == 0 || len(other) > 0 && len(other) < len(edits) {
			edits = other
		}
	}
	if len(edits) == 0 {
		return ""
	}
	return joined(edits)
}

// plan finds the edits after which everything fits.
func (m mend) plan(v any) []edit {
	var edits []edit
	for range maxEdits {
		e, ok := m.edit(v)
		if !ok || len(edits) > 0 && (e.apply == nil || e.text == edits[len(edits)-1].text) {
			return nil
		}
		edits = append(edits, e)
		if e.apply == nil {
			return edits
		}
		cost := 1
		if m.template != nil {
			cost = checkCost
		}
		if m.check.fixes -= cost; m.check.fixes < 0 || m.check.prover.Proofs > m.check.prover.Limit/2 {
			return nil
		}
		if !e.apply(&m) {
			if len(edits) == 1 {
				return edits
			}
			return nil
		}
		switch r := m.check.prover.Within(m.source, m.target); r.Verdict {
		case containment.Proved:
			return edits
		case containment.Unknown:
			return nil
		case containment.Refuted:
			v = r.Witness
		}
	}
	return nil
}

// joined writes edits as one line.
func joined(edits []edit) string {
	text := edits[0].text
	for i, e := range edits[1:] {
		if last := edits[i]; e.place != "" && e.place == last.place {
			text = strings.TrimSuffix(text, last.where()) + " and `" + e.keyword + "`" + e.where()
			continue
		}
		text += ", and " + e.text
	}
	return text
}

func (e edit) where() string { return " in the schema of " + e.place }

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
