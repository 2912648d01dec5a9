package containment

import (
	"reflect"
	"strings"
)

var nothing = func() *schema { s := blank(); no := false; s.Always = &no; return s }()

func blank() *schema {
	return &schema{MinProperties: -1, MaxProperties: -1, MinItems: -1, MaxItems: -1, MinContains: 1, MaxContains: -1, MinLength: -1, MaxLength: -1}
}

func constant(v any) *schema {
	s := blank()
	s.Constant = []any{v}
	return s
}

func listed(s *schema) bool {
	return s.Ref != nil || s.AllOf != nil || s.AnyOf != nil || s.OneOf != nil || s.Not != nil || s.If != nil || len(s.Enum)+len(s.Constant) > 0
}

// opaque says why a schema cannot be reasoned about part by part.
func (p *prover) opaque(s *schema, seen map[*schema]bool) string {
	if s == nil || seen[s] {
		return ""
	}
	seen[s] = true
	p.step()
	switch {
	case s.RecursiveRef != nil:
		return s.Location + "/$recursiveRef"
	case s.DynamicRef != nil:
		return s.Location + "/$dynamicRef"
	case len(s.Extensions) > 0 || s.RegexProperties || strings.HasPrefix(strings.TrimPrefix(s.Location, "https"), "://json-schema.org/") ||
		strings.HasPrefix(s.Location, "http://json-schema.org/"):
		return s.Location
	}
	why := ""
	children(s, func(c *schema) {
		if w := p.opaque(c, seen); why == "" || w != "" && w < why {
			why = w
		}
	})
	return why
}

func children(s *schema, visit func(*schema)) {
	for _, c := range []*schema{s.Ref, s.Not, s.If, s.Then, s.Else, s.PropertyNames, s.UnevaluatedProperties, s.Items2020, s.Contains, s.UnevaluatedItems} {
		if c != nil {
			visit(c)
		}
	}
	for _, l := range [][]*schema{s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems} {
		for _, c := range l {
			visit(c)
		}
	}
	for _, m := range []map[string]*schema{s.Properties, s.DependentSchemas} {
		for _, c := range m {
			visit(c)
		}
	}
	for _, c := range s.PatternProperties {
		visit(c)
	}
	for _, d := range s.Dependencies {
		if c, ok := d.(*schema); ok {
			visit(c)
		}
	}
	for _, a := range []any{s.AdditionalProperties, s.AdditionalItems, s.Items} {
		switch c := a.(type) {
		case *schema:
			visit(c)
		case []*schema:
			for _, e := range c {
				visit(e)
			}
		}
	}
}

// same reports whether two schemas ask the same in the same words, references
// followed. Pairs met again inside themselves are taken for the same.
func (p *prover) same(a, b *schema) bool {
	if a == b {
		return true
	}
	if p.equals == nil {
		p.equals = map[[2]*schema]bool{}
	}
	if yes, ok := p.equals[[2]*schema{a, b}]; ok {
		return yes
	}
	open := map[[2]*schema]bool{}
	yes := p.alike(a, b, open)
	if yes {
		for k := range open {
			p.equals[k] = true
		}
	} else {
		p.equals[[2]*schema{a, b}] = false
	}
	return yes
}

func (p *prover) alike(a, b *schema, open map[[2]*schema]bool) bool {
	k := [2]*schema{a, b}
	if a == b || open[k] {
		return true
	}
	if a == nil || b == nil {
		return false
	}
	p.step()
	if !reflect.DeepEqual(a.Types, b.Types) || len(a.Properties) != len(b.Properties) {
		return false
	}
	open[k] = true
	if (a.Always == nil) != (b.Always == nil) || a.Always != nil && *a.Always != *b.Always {
		return false
	}
	shell := func(s *schema) []any {
		var re string
		if s.Pattern != nil {
			re = "/" + s.Pattern.String()
		}
		return []any{s.Constant, s.Enum, s.MinProperties, s.MaxProperties, s.Required, s.DependentRequired, s.MinItems, s.MaxItems,
			s.UniqueItems, s.ContainsEval, s.MinContains, s.MaxContains, s.MinLength, s.MaxLength, re,
			text(s.Minimum), text(s.Maximum), text(s.ExclusiveMinimum), text(s.ExclusiveMaximum), text(s.MultipleOf)}
	}
	if !reflect.DeepEqual(shell(a), shell(b)) {
		return false
	}
	// Orders do not vary: lists keep theirs, maps are looked up by key.
	list := func(x, y []*schema) bool {
		if len(x) != len(y) {
			return false
		}
		for i := range x {
			if !p.alike(x[i], y[i], open) {
				return false
			}
		}
		return true
	}
	table := func(x, y map[string]*schema) bool {
		if len(x) != len(y) {
			return false
		}
		for n := range x {
			if y[n] == nil || !p.alike(x[n], y[n], open) {
				return false
			}
		}
		return true
	}
	either := func(x, y any) bool {
		xs, ok := x.(*schema)
		ys, too := y.(*schema)
		if ok || too {
			return ok && too && p.alike(xs, ys, open)
		}
		xl, ok := x.([]*schema)
		yl, too := y.([]*schema)
		if ok || too {
			return ok && too && list(xl, yl)
		}
		return reflect.DeepEqual(x, y)
	}
	pats := func(s *schema) map[string]*schema {
		m := map[string]*schema{}
		for re, c := range s.PatternProperties {
			m[re.String()] = c
		}
		return m
	}
	if len(a.Dependencies) != len(b.Dependencies) || len(pats(a)) != len(a.PatternProperties) || len(pats(b)) != len(b.PatternProperties) {
		return false
	}
	for n, d := range a.Dependencies {
		if !either(d, b.Dependencies[n]) {
			return false
		}
	}
	return p.alike(a.Ref, b.Ref, open) && p.alike(a.Not, b.Not, open) && p.alike(a.If, b.If, open) && p.alike(a.Then, b.Then, open) &&
		p.alike(a.Else, b.Else, open) && p.alike(a.PropertyNames, b.PropertyNames, open) && p.alike(a.Items2020, b.Items2020, open) &&
		p.alike(a.UnevaluatedProperties, b.UnevaluatedProperties, open) && p.alike(a.UnevaluatedItems, b.UnevaluatedItems, open) &&
		p.alike(a.Contains, b.Contains, open) && list(a.AllOf, b.AllOf) && list(a.AnyOf, b.AnyOf) && list(a.OneOf, b.OneOf) &&
		list(a.PrefixItems, b.PrefixItems) && table(a.Properties, b.Properties) && table(a.DependentSchemas, b.DependentSchemas) &&
		table(pats(a), pats(b)) && either(a.AdditionalProperties, b.AdditionalProperties) &&
		either(a.AdditionalItems, b.AdditionalItems) && either(a.Items, b.Items)
}

func text(r interface{ RatString() string }) string {
	if reflect.ValueOf(r).IsNil() {
		return ""
	}
	return r.RatString()
}
