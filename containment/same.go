package containment

import (
	"maps"
	"math/big"
	"reflect"
	"regexp"
	"slices"
)

// same reports whether two schemas have equal keywords, with references followed. Pairs
// that recur inside themselves count as the same: a value that distinguishes them would
// contain a smaller one that does.
func (p *prover) same(a, b *schema) bool {
	if p.wild[a] || p.wild[b] {
		return false
	}
	if a == b {
		return true
	}
	if yes, ok := p.equals[[2]*schema{a, b}]; ok {
		return yes
	}
	if p.equals == nil {
		p.equals = map[[2]*schema]bool{}
	}
	open := map[[2]*schema]bool{}
	yes := p.alike(a, b, open)
	if yes {
		maps.Copy(p.equals, open)
	} else {
		p.equals[[2]*schema{a, b}] = false
	}
	return yes
}

// alike collects in open the pairs on which the answer depends. All of them must be
// alike, so a failure leaves nothing behind.
func (p *prover) alike(a, b *schema, open map[[2]*schema]bool) bool {
	k := [2]*schema{a, b}
	if a == b || open[k] {
		return true
	}
	if a == nil || b == nil {
		return false
	}
	p.step()
	if !slices.Equal(a.Types, b.Types) || len(a.Properties) != len(b.Properties) {
		return false
	}
	if !alikeAlone(a, b) || !p.sameValues(a.Enum, b.Enum) || !p.sameValues(a.Constant, b.Constant) {
		return false
	}
	open[k] = true
	list := func(x, y []*schema) bool {
		return slices.EqualFunc(x, y, func(c, d *schema) bool { return p.alike(c, d, open) })
	}
	table := func(x, y map[string]*schema) bool {
		if len(x) != len(y) {
			return false
		}
		// In order, so that the work does not vary.
		for _, k := range ordered(x) {
			if y[k] == nil || !p.alike(x[k], y[k], open) {
				return false
			}
		}
		return true
	}
	either := func(x, y any) bool {
		switch x := x.(type) {
		case *schema:
			y, ok := y.(*schema)
			return ok && p.alike(x, y, open)
		case []*schema:
			y, ok := y.([]*schema)
			return ok && list(x, y)
		}
		return reflect.DeepEqual(x, y) // names, or true and false
	}
	pats, ok := patternTable(a)
	more, too := patternTable(b)
	if !ok || !too || len(a.Dependencies) != len(b.Dependencies) {
		return false
	}
	for _, n := range ordered(a.Dependencies) {
		if !either(a.Dependencies[n], b.Dependencies[n]) {
			return false
		}
	}
	return table(a.Properties, b.Properties) && p.alike(a.Ref, b.Ref, open) && p.alike(a.RecursiveRef, b.RecursiveRef, open) &&
		p.alike(a.DynamicRef, b.DynamicRef, open) && p.alike(a.Not, b.Not, open) && p.alike(a.If, b.If, open) &&
		p.alike(a.Then, b.Then, open) && p.alike(a.Else, b.Else, open) && p.alike(a.PropertyNames, b.PropertyNames, open) &&
		p.alike(a.Items2020, b.Items2020, open) && p.alike(a.UnevaluatedProperties, b.UnevaluatedProperties, open) &&
		p.alike(a.UnevaluatedItems, b.UnevaluatedItems, open) && p.alike(a.Contains, b.Contains, open) && list(a.AllOf, b.AllOf) &&
		list(a.AnyOf, b.AnyOf) && list(a.OneOf, b.OneOf) && list(a.PrefixItems, b.PrefixItems) &&
		table(a.DependentSchemas, b.DependentSchemas) && table(pats, more) && either(a.AdditionalProperties, b.AdditionalProperties) &&
		either(a.AdditionalItems, b.AdditionalItems) && either(a.Items, b.Items)
}

// alikeAlone compares the keywords that hold no schemas.
func alikeAlone(a, b *schema) bool {
	return (a.Always == nil) == (b.Always == nil) && (a.Always == nil || *a.Always == *b.Always) &&
		a.MinProperties == b.MinProperties && a.MaxProperties == b.MaxProperties && a.MinItems == b.MinItems && a.MaxItems == b.MaxItems &&
		a.UniqueItems == b.UniqueItems && a.ContainsEval == b.ContainsEval && a.MinContains == b.MinContains && a.MaxContains == b.MaxContains &&
		a.MinLength == b.MinLength && a.MaxLength == b.MaxLength && (a.Pattern == nil) == (b.Pattern == nil) &&
		(a.Pattern == nil || a.Pattern.String() == b.Pattern.String()) && equalRat(a.Minimum, b.Minimum) && equalRat(a.Maximum, b.Maximum) &&
		equalRat(a.ExclusiveMinimum, b.ExclusiveMinimum) && equalRat(a.ExclusiveMaximum, b.ExclusiveMaximum) &&
		equalRat(a.MultipleOf, b.MultipleOf) && slices.Equal(a.Required, b.Required) &&
		maps.EqualFunc(a.DependentRequired, b.DependentRequired, slices.Equal) &&
		len(a.Extensions)+len(b.Extensions) == 0 && !a.RegexProperties && !b.RegexProperties
}

// sameValues reports whether two lists hold the same values, written alike.
func (p *prover) sameValues(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	p.charge(len(a) / 16)
	for i, x := range a {
		switch x := x.(type) {
		case []any:
			y, ok := b[i].([]any)
			if !ok || !p.sameValues(x, y) {
				return false
			}
		case map[string]any:
			y, ok := b[i].(map[string]any)
			if !ok || len(x) != len(y) {
				return false
			}
			p.charge(1 + len(x)/4)
			for _, k := range ordered(x) { // in order, so that the work does not vary
				w, ok := y[k]
				if !ok || !p.sameValues([]any{x[k]}, []any{w}) {
					return false
				}
			}
		default:
			if !reflect.DeepEqual(x, b[i]) {
				return false
			}
		}
	}
	return true
}

func equalRat(a, b *big.Rat) bool {
	return a == b || a != nil && b != nil && compare(a, b) == 0
}

// patternTable returns the patterns of s by text; ok is false if a text
// occurs twice.
func patternTable(s *schema) (m map[string]*schema, ok bool) {
	if len(s.PatternProperties) == 0 {
		return nil, true
	}
	m = map[string]*schema{}
	for re, c := range s.PatternProperties {
		m[re.String()] = c
	}
	return m, len(m) == len(s.PatternProperties)
}

func patternsOf(s *schema) []*regexp.Regexp {
	if len(s.PatternProperties) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Keys(s.PatternProperties), func(a, b *regexp.Regexp) int {
		switch x, y := a.String(), b.String(); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
}
