package containment

import (
	"maps"
	"math/big"
	"slices"
)

// within reports whether a comparison keyword by keyword shows that b contains a. It is
// fast, and reports false if that does not decide the question. Pairs that recur inside
// themselves count as contained, since values are finite.
func (p *prover) within(a, b *schema) bool {
	if a == b || p.wild[a] || p.wild[b] {
		return p.same(a, b)
	}
	k := [2]*schema{a, b}
	if yes, ok := p.pairs[k]; ok {
		return yes
	}
	if p.pairs == nil {
		p.pairs = map[[2]*schema]bool{}
	}
	w := &walk{prover: p, open: map[[2]*schema]bool{}}
	yes := w.in(a, b)
	if yes {
		// All assumptions have been proved, each by the others.
		maps.Copy(p.pairs, w.open)
	}
	p.pairs[k] = yes
	return yes
}

// walk is one run of within. open holds the pairs that are being compared or were found
// to be contained; trail is their order, so that those of a failed attempt can be
// dropped.
type walk struct {
	*prover
	open  map[[2]*schema]bool
	trail [][2]*schema
}

func (w *walk) in(a, b *schema) bool {
	if b.Always != nil && *b.Always || a.Always != nil && !*a.Always {
		return true
	}
	if b.Always != nil || a.Always != nil && !*a.Always {
		return false
	}
	if w.wild[a] || w.wild[b] {
		return false
	}
	if w.same(a, b) {
		return true
	}
	k := [2]*schema{a, b}
	if w.open[k] {
		return true
	}
	if yes, ok := w.pairs[k]; ok {
		return yes
	}
	w.step()
	mark := len(w.trail)
	w.open[k] = true
	w.trail = append(w.trail, k)
	if w.parts(a, b) {
		return true
	}
	for _, k := range w.trail[mark:] {
		delete(w.open, k)
	}
	w.trail = w.trail[:mark]
	// Assumptions can only have helped, so this is final.
	w.pairs[k] = false
	return false
}

// parts looks at both schemas' own parts.
func (w *walk) parts(a, b *schema) bool {
	refs, _ := w.references(b)
	for _, r := range refs {
		if !w.in(a, r) {
			return w.split(a, b)
		}
	}
	for _, c := range b.AllOf {
		if !w.in(a, c) {
			return w.split(a, b)
		}
	}
	if len(b.AnyOf) > 0 && !slices.ContainsFunc(b.AnyOf, func(c *schema) bool { return w.in(a, c) }) {
		return w.split(a, b)
	}
	if b.If != nil && (b.Then != nil && !w.in(a, b.Then) || b.Else != nil && !w.in(a, b.Else)) {
		return w.split(a, b)
	}
	if len(b.OneOf) > 0 && !w.oneOf(a, b) || b.Not != nil || !w.alone(a, b) {
		return w.split(a, b)
	}
	return true
}

// oneOf reports whether a is within one of b's alternatives, and these exclude
// each other for every type that a has.
func (w *walk) oneOf(a, b *schema) bool {
	for _, t := range kinds {
		if admits(a, t) && !w.exclusive(b, t) {
			return false
		}
	}
	return slices.ContainsFunc(b.OneOf, func(c *schema) bool { return w.in(a, c) })
}

// split splits a: one of its demands suffices, or all of its alternatives.
func (w *walk) split(a, b *schema) bool {
	if numbersWithin(a, b) {
		return true
	}
	if vs, ok := w.finite(lit{a, false}); ok {
		return !slices.ContainsFunc(vs, func(v any) bool {
			yes, sure := w.test(lit{b, false}, v)
			return !yes || !sure
		})
	}
	refs, _ := w.references(a)
	for _, l := range [][]*schema{refs, a.AllOf} {
		if slices.ContainsFunc(l, func(c *schema) bool { return w.in(c, b) }) {
			return true
		}
	}
	for _, l := range [][]*schema{a.AnyOf, a.OneOf} {
		if len(l) > 0 && !slices.ContainsFunc(l, func(c *schema) bool { return !w.in(c, b) }) {
			return true
		}
	}
	return false
}

// alone compares what the schemas demand without others that apply to the same value.
func (w *walk) alone(a, b *schema) bool {
	if len(b.Types) > 0 {
		if len(a.Types) == 0 {
			return false
		}
		for _, t := range a.Types {
			if !slices.Contains(b.Types, t) && (t != "integer" || !slices.Contains(b.Types, "number")) {
				return false
			}
		}
	}
	if len(b.Enum)+len(b.Constant) > 0 {
		return false
	}
	return (!admits(a, "number") || numberWithin(a, b)) && (!admits(a, "string") || textWithin(a, b)) &&
		(!admits(a, "array") || w.list(a, b)) && (!admits(a, "object") || w.object(a, b))
}

func numberWithin(a, b *schema) bool {
	least := func(x *big.Rat, strict bool) bool {
		return x == nil || a.Minimum != nil && (compare(a.Minimum, x) > 0 || compare(a.Minimum, x) == 0 && !strict) ||
			a.ExclusiveMinimum != nil && compare(a.ExclusiveMinimum, x) >= 0
	}
	most := func(x *big.Rat, strict bool) bool {
		return x == nil || a.Maximum != nil && (compare(a.Maximum, x) < 0 || compare(a.Maximum, x) == 0 && !strict) ||
			a.ExclusiveMaximum != nil && compare(a.ExclusiveMaximum, x) <= 0
	}
	multiple := b.MultipleOf == nil || a.MultipleOf != nil && new(big.Rat).Quo(a.MultipleOf, b.MultipleOf).IsInt() ||
		len(a.Types) > 0 && !slices.Contains(a.Types, "number") && new(big.Rat).Quo(one, b.MultipleOf).IsInt()
	return multiple && least(b.Minimum, false) && least(b.ExclusiveMinimum, true) && most(b.Maximum, false) && most(b.ExclusiveMaximum, true)
}

func textWithin(a, b *schema) bool {
	return b.MinLength <= max(a.MinLength, 0) && (b.MaxLength < 0 || a.MaxLength >= 0 && a.MaxLength <= b.MaxLength) &&
		(b.Pattern == nil || a.Pattern != nil && a.Pattern.String() == b.Pattern.String())
}

// elements returns the schemas of the places that have one of their own in s, and the
// schema of the others, nil if s demands nothing of them.
func elements(s *schema) (prefix []*schema, rest *schema) {
	switch items := s.Items.(type) {
	case *schema:
		return nil, items
	case []*schema:
		switch more := s.AdditionalItems.(type) {
		case *schema:
			rest = more
		case bool:
			if !more {
				rest = nothing
			}
		}
		return items, rest
	}
	return s.PrefixItems, s.Items2020
}

func (w *walk) list(a, b *schema) bool {
	if b.MinItems > max(a.MinItems, 0) || b.MaxItems >= 0 && (a.MaxItems < 0 || a.MaxItems > b.MaxItems) ||
		b.UniqueItems && !a.UniqueItems && (a.MaxItems < 0 || a.MaxItems > 1) ||
		b.UnevaluatedItems != nil && !always(b.UnevaluatedItems) {
		return false
	}
	if c := b.Contains; c != nil && (b.MinContains > 0 || b.MaxContains >= 0) {
		if a.Contains == nil || a.MinContains < b.MinContains || b.MaxContains >= 0 && (a.MaxContains < 0 || a.MaxContains > b.MaxContains) ||
			!w.in(a.Contains, c) || b.MaxContains >= 0 && !w.in(c, a.Contains) {
			return false
		}
	}
	if b.Items == nil && b.PrefixItems == nil && b.Items2020 == nil {
		return true
	}
	ap, ar := elements(a)
	bp, br := elements(b)
	at := func(prefix []*schema, rest *schema, i int) *schema {
		if i < len(prefix) {
			return prefix[i]
		}
		return rest
	}
	for i := 0; i <= max(len(ap), len(bp)); i++ {
		if a.MaxItems >= 0 && i >= a.MaxItems {
			break
		}
		x, y := at(ap, ar, i), at(bp, br, i)
		if y == nil || always(y) {
			continue
		}
		if x == nil || !w.in(x, y) {
			return false
		}
		if i < len(ap) && x.Always != nil && !*x.Always {
			break // no list has this place
		}
	}
	return true
}

func always(s *schema) bool { return s.Always != nil && *s.Always }

func (w *walk) object(a, b *schema) bool {
	if b.MinProperties > max(a.MinProperties, 0) || b.MaxProperties >= 0 && (a.MaxProperties < 0 || a.MaxProperties > b.MaxProperties) ||
		len(b.Dependencies)+len(b.DependentRequired)+len(b.DependentSchemas) > 0 ||
		b.UnevaluatedProperties != nil && !always(b.UnevaluatedProperties) ||
		b.PropertyNames != nil && !always(b.PropertyNames) && (a.PropertyNames == nil || !w.in(a.PropertyNames, b.PropertyNames)) {
		return false
	}
	for _, k := range b.Required {
		if !slices.Contains(a.Required, k) {
			return false
		}
	}
	w.charge((len(a.Required) + len(b.Required) + len(a.Properties) + len(b.Properties)) / 4)
	closed := b.AdditionalProperties != nil && b.AdditionalProperties != true
	if len(b.Properties)+len(b.PatternProperties) == 0 && !closed {
		return true
	}
	for _, k := range ordered(b.Properties) {
		if !w.member(a, k, b.Properties[k]) {
			return false
		}
	}
	if len(b.PatternProperties) == 0 && !closed {
		return true
	}
	bpats, _ := patternTable(b)
	apats, _ := patternTable(a)
	for _, re := range patternsOf(b) {
		y := b.PatternProperties[re]
		if always(y) {
			continue
		}
		if x := apats[re.String()]; x != nil && w.in(x, y) {
			continue
		}
		// Every key may match.
		if !w.others(a, y) {
			return false
		}
		for _, k := range ordered(a.Properties) {
			if re.MatchString(k) && !w.member(a, k, y) {
				return false
			}
		}
		for _, other := range patternsOf(a) {
			if !w.in(a.PatternProperties[other], y) {
				return false
			}
		}
	}
	if !closed {
		return true
	}
	rest := nothing
	if c, ok := b.AdditionalProperties.(*schema); ok {
		rest = c
	}
	own := &class{rest: true, names: b.Properties, pats: patternsOf(b)}
	for _, k := range ordered(a.Properties) {
		if own.has(k) && !w.member(a, k, rest) {
			return false
		}
	}
	for _, re := range patternsOf(a) {
		if bpats[re.String()] == nil && !w.in(a.PatternProperties[re], rest) {
			return false
		}
	}
	return w.others(a, rest)
}

// others reports whether what a demands of keys that it does not name is within y.
func (w *walk) others(a, y *schema) bool {
	switch more := a.AdditionalProperties.(type) {
	case bool:
		return !more || always(y)
	case *schema:
		return w.in(more, y)
	}
	return always(y)
}

// member reports whether one of the schemas that a has for the value at k is within y.
func (w *walk) member(a *schema, k string, y *schema) bool {
	if always(y) {
		return true
	}
	own := false
	if x := a.Properties[k]; x != nil {
		if own = true; w.in(x, y) {
			return true
		}
	}
	for _, re := range patternsOf(a) {
		w.step()
		if re.MatchString(k) {
			if own = true; w.in(a.PatternProperties[re], y) {
				return true
			}
		}
	}
	return !own && w.others(a, y)
}
