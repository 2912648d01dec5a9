package containment

import (
	"maps"
	"math/big"
	"slices"
)

var one = big.NewRat(1, 1)

func plain(s *schema) atom   { return atom{op: literal, lit: lit{s, false}} }
func negated(s *schema) atom { return atom{op: literal, lit: lit{s, true}} }

// keywords gives what s asks of a value of type kind: pos are clauses that hold
// together, neg are the ways in which a value can fail.
func (p *prover) keywords(s *schema, kind string) (pos []clause, neg clause) {
	unit := func(a ...atom) { pos = append(pos, clause{a}) }
	fail := func(a ...atom) { neg = append(neg, a) }
	if s.Always != nil {
		if *s.Always {
			return nil, nil
		}
		return []clause{{{{op: never}}}}, clause{nil}
	}
	if !admits(s, kind) {
		return []clause{{{{op: never}}}}, clause{nil}
	}
	if kind == "number" && len(s.Types) > 0 && !slices.Contains(s.Types, "number") {
		unit(atom{op: multiple, num: one})
		fail(atom{op: notMultiple, num: one})
	}
	// A plain enum or const never comes here: its values are tried.
	if len(s.Constant) > 0 {
		fail(atom{op: notValue, value: s.Constant[0]})
	}
	if len(s.Enum) > 0 {
		var a []atom
		for _, v := range s.Enum {
			a = append(a, atom{op: notValue, value: v})
		}
		fail(a...)
	}
	switch kind {
	case "number":
		numberKeywords(s, unit, fail)
	case "string":
		if s.MinLength > 0 {
			unit(atom{op: minLen, n: s.MinLength})
			fail(atom{op: maxLen, n: s.MinLength - 1})
		}
		if s.MaxLength >= 0 {
			unit(atom{op: maxLen, n: s.MaxLength})
			fail(atom{op: minLen, n: s.MaxLength + 1})
		}
		if s.Pattern != nil {
			unit(atom{op: matches, re: s.Pattern})
			fail(atom{op: notMatches, re: s.Pattern})
		}
	case "array":
		p.listKeywords(s, unit, fail)
	case "object":
		p.objectKeywords(s, &pos, &neg)
	}
	if s.Ref != nil {
		unit(plain(s.Ref))
		fail(negated(s.Ref))
	}
	if s.Not != nil {
		unit(negated(s.Not))
		fail(plain(s.Not))
	}
	for _, a := range s.AllOf {
		unit(plain(a))
		fail(negated(a))
	}
	if len(s.AnyOf) > 0 {
		var cl clause
		var none []atom
		for _, a := range s.AnyOf {
			cl = append(cl, []atom{plain(a)})
			none = append(none, negated(a))
		}
		pos = append(pos, cl)
		fail(none...)
	}
	if len(s.OneOf) > 0 {
		var cl clause
		var none []atom
		for i, a := range s.OneOf {
			alt := []atom{plain(a)}
			for j, b := range s.OneOf {
				if j != i {
					alt = append(alt, negated(b))
				}
				if j > i {
					fail(plain(a), plain(b))
				}
				p.step()
			}
			cl = append(cl, alt)
			none = append(none, negated(a))
		}
		pos = append(pos, cl)
		fail(none...)
	}
	if s.If != nil && (s.Then != nil || s.Else != nil) {
		yes, no := []atom{plain(s.If)}, []atom{negated(s.If)}
		if s.Then != nil {
			fail(plain(s.If), negated(s.Then))
			yes = append(yes, plain(s.Then))
		}
		if s.Else != nil {
			fail(negated(s.If), negated(s.Else))
			no = append(no, plain(s.Else))
		}
		pos = append(pos, clause{yes, no})
	}
	return pos, neg
}

func numberKeywords(s *schema, unit, fail func(...atom)) {
	bound := func(r *big.Rat, o op, strict bool) {
		if r == nil {
			return
		}
		dual := lower
		if o == lower {
			dual = upper
		}
		unit(atom{op: o, num: r, strict: strict})
		fail(atom{op: dual, num: r, strict: !strict})
	}
	bound(s.Minimum, lower, false)
	bound(s.ExclusiveMinimum, lower, true)
	bound(s.Maximum, upper, false)
	bound(s.ExclusiveMaximum, upper, true)
	if s.MultipleOf != nil {
		unit(atom{op: multiple, num: s.MultipleOf})
		fail(atom{op: notMultiple, num: s.MultipleOf})
	}
}

// unlimited is beyond the last place of any list.
const unlimited = 1 << 30

func (p *prover) listKeywords(s *schema, unit, fail func(...atom)) {
	if s.MinItems > 0 {
		unit(atom{op: minLen, n: s.MinItems})
		fail(atom{op: maxLen, n: s.MinItems - 1})
	}
	if s.MaxItems >= 0 {
		unit(atom{op: maxLen, n: s.MaxItems})
		fail(atom{op: minLen, n: s.MaxItems + 1})
	}
	if s.UniqueItems {
		unit(atom{op: unique})
		fail(atom{op: repeated})
	}
	places := func(from, to int, e *schema) {
		unit(atom{op: every, from: from, to: to, lit: lit{e, false}})
		fail(atom{op: some, from: from, to: to, lit: lit{e, true}})
	}
	covered := false
	switch items := s.Items.(type) {
	case *schema:
		places(0, unlimited, items)
		covered = true
	case []*schema:
		for i, e := range items {
			places(i, i+1, e)
		}
		switch more := s.AdditionalItems.(type) {
		case *schema:
			places(len(items), unlimited, more)
			covered = true
		case bool:
			if !more {
				unit(atom{op: maxLen, n: len(items)})
				fail(atom{op: minLen, n: len(items) + 1})
			}
			covered = true
		}
	}
	for i, e := range s.PrefixItems {
		places(i, i+1, e)
	}
	if s.Items2020 != nil {
		places(len(s.PrefixItems), unlimited, s.Items2020)
		covered = true
	}
	if s.Contains != nil {
		if s.MinContains > 0 {
			unit(atom{op: atLeast, n: s.MinContains, lit: lit{s.Contains, false}})
			fail(atom{op: atMost, n: s.MinContains - 1, lit: lit{s.Contains, false}})
		}
		if s.MaxContains >= 0 {
			unit(atom{op: atMost, n: s.MaxContains, lit: lit{s.Contains, false}})
			fail(atom{op: atLeast, n: s.MaxContains + 1, lit: lit{s.Contains, false}})
		}
	}
	if u := s.UnevaluatedItems; u != nil && !covered && !(u.Always != nil && *u.Always) {
		// Dropped where it is asked; its failure is taken for possible.
		p.because(s, "unevaluatedItems")
		fail()
	}
}

func (p *prover) objectKeywords(s *schema, pos *[]clause, neg *clause) {
	unit := func(a ...atom) { *pos = append(*pos, clause{a}) }
	fail := func(a ...atom) { *neg = append(*neg, a) }
	if s.MinProperties > 0 {
		unit(atom{op: minLen, n: s.MinProperties})
		fail(atom{op: maxLen, n: s.MinProperties - 1})
	}
	if s.MaxProperties >= 0 {
		unit(atom{op: maxLen, n: s.MaxProperties})
		fail(atom{op: minLen, n: s.MaxProperties + 1})
	}
	for _, k := range s.Required {
		unit(atom{op: required, key: k})
		fail(atom{op: absent, key: k})
	}
	keys := func(c *class, l lit) {
		unit(atom{op: every, class: c, lit: l})
		fail(atom{op: some, class: c, lit: lit{l.s, !l.neg}})
	}
	props := slices.Sorted(maps.Keys(s.Properties))
	for _, k := range props {
		keys(&class{name: k, named: true}, lit{s.Properties[k], false})
	}
	pats := patternsOf(s)
	for _, re := range pats {
		keys(&class{re: re}, lit{s.PatternProperties[re], false})
	}
	rest := &class{rest: true, names: s.Properties, pats: pats}
	switch more := s.AdditionalProperties.(type) {
	case bool:
		if !more {
			keys(rest, lit{nothing, false})
		}
	case *schema:
		keys(rest, lit{more, false})
	}
	if s.PropertyNames != nil {
		unit(atom{op: names, lit: lit{s.PropertyNames, false}})
		fail(atom{op: someName, lit: lit{s.PropertyNames, true}})
	}
	needs := func(k string, then []string) {
		for _, n := range then {
			*pos = append(*pos, clause{{{op: absent, key: k}}, {{op: required, key: n}}})
			fail(atom{op: required, key: k}, atom{op: absent, key: n})
		}
	}
	applies := func(k string, then *schema) {
		*pos = append(*pos, clause{{{op: absent, key: k}}, {plain(then)}})
		fail(atom{op: required, key: k}, negated(then))
	}
	for _, k := range slices.Sorted(maps.Keys(s.Dependencies)) {
		switch d := s.Dependencies[k].(type) {
		case *schema:
			applies(k, d)
		case []string:
			needs(k, d)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.DependentRequired)) {
		needs(k, s.DependentRequired[k])
	}
	for _, k := range slices.Sorted(maps.Keys(s.DependentSchemas)) {
		applies(k, s.DependentSchemas[k])
	}
	if u := s.UnevaluatedProperties; u != nil && s.AdditionalProperties == nil && !(u.Always != nil && *u.Always) {
		inplace := s.Ref != nil || s.Not != nil || s.AllOf != nil || s.AnyOf != nil || s.OneOf != nil || s.If != nil ||
			s.Dependencies != nil || s.DependentSchemas != nil
		if !inplace {
			keys(rest, lit{u, false})
			return
		}
		p.because(s, "unevaluatedProperties")
		fail()
	}
}
