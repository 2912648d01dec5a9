package compiler

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"

	"chimera.ai/engine/schemas"
)

// describe writes in short what a schema takes, as flow YAML. What it has no
// room for is "…".
func describe(s *schemas.Schema) string {
	d := describer{left: 40}
	return "`" + clip(d.schema(s, 4), 240) + "`"
}

// brief is what describe gives, for a label.
func brief(s *schemas.Schema) string {
	d := describer{left: 12}
	return clip(d.schema(s, 3), 80)
}

type describer struct{ left int }

func (d *describer) schema(s *schemas.Schema, depth int) string {
	c := s.Compiled()
	switch {
	case c.Always != nil && *c.Always:
		return "anything"
	case c.Always != nil:
		return "nothing"
	case len(c.Constant) > 0:
		return "{const: " + clip(inline(c.Constant[0]), 80) + "}"
	case d.left <= 0 || depth == 0:
		return "…"
	}
	d.left--
	var parts []string
	add := func(key, value string) { parts = append(parts, key+": "+value) }
	if c.Ref != nil {
		sub := d.schema(schemas.Wrap(c.Ref), depth-1)
		parts = append(parts, strings.TrimSuffix(strings.TrimPrefix(sub, "{"), "}"))
	}
	switch {
	case len(c.Enum) > 0:
		add("enum", clip(inline(c.Enum), 80))
	case len(c.Types) == 1:
		add("type", c.Types[0])
	case len(c.Types) > 1:
		add("type", "["+strings.Join(c.Types, ", ")+"]")
	}
	for _, b := range []struct {
		key string
		r   *big.Rat
	}{
		{"minimum", c.Minimum}, {"exclusiveMinimum", c.ExclusiveMinimum}, {"maximum", c.Maximum},
		{"exclusiveMaximum", c.ExclusiveMaximum}, {"multipleOf", c.MultipleOf},
	} {
		if b.r != nil {
			text, _ := b.r.Float64()
			raw, err := json.Marshal(text)
			if err == nil {
				add(b.key, string(raw))
			}
		}
	}
	for _, b := range []struct {
		key string
		n   int
	}{
		{"minLength", c.MinLength}, {"maxLength", c.MaxLength}, {"minItems", c.MinItems}, {"maxItems", c.MaxItems},
		{"minProperties", c.MinProperties}, {"maxProperties", c.MaxProperties},
	} {
		if b.n >= 0 {
			add(b.key, inline(json.Number(big.NewInt(int64(b.n)).String())))
		}
	}
	if c.Pattern != nil {
		add("pattern", inline(c.Pattern.String()))
	}
	if len(c.Properties) > 0 {
		var props []string
		for _, name := range slices.Sorted(maps.Keys(c.Properties)) {
			if len(props) == 8 {
				props = append(props, "…")
				break
			}
			props = append(props, inline(name)+": "+d.schema(schemas.Wrap(c.Properties[name]), depth-1))
		}
		add("properties", "{"+strings.Join(props, ", ")+"}")
	}
	if len(c.Required) > 0 {
		add("required", "["+clip(strings.Join(c.Required, ", "), 80)+"]")
	}
	if c.AdditionalProperties == false {
		add("additionalProperties", "false")
	}
	if c.Items2020 != nil {
		add("items", d.schema(schemas.Wrap(c.Items2020), depth-1))
	}
	lists := []struct {
		key string
		n   int
		at  func(i int) *schemas.Schema
	}{
		{"allOf", len(c.AllOf), func(i int) *schemas.Schema { return schemas.Wrap(c.AllOf[i]) }},
		{"anyOf", len(c.AnyOf), func(i int) *schemas.Schema { return schemas.Wrap(c.AnyOf[i]) }},
		{"oneOf", len(c.OneOf), func(i int) *schemas.Schema { return schemas.Wrap(c.OneOf[i]) }},
	}
	for _, l := range lists {
		if l.n == 0 {
			continue
		}
		var some []string
		for i := range min(l.n, 8) {
			some = append(some, d.schema(l.at(i), depth-1))
		}
		add(l.key, "["+strings.Join(some, ", ")+"]")
	}
	if c.Not != nil {
		add("not", d.schema(schemas.Wrap(c.Not), depth-1))
	}
	if len(parts) == 0 {
		return "anything"
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
