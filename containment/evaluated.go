package containment

import (
	"regexp"
	"slices"
	"strconv"
)

// maxCases bounds the ways in which the parts of one schema can apply.
const maxCases = 48

// covered describes the parts of a value that keywords beside unevaluatedProperties or
// unevaluatedItems have evaluated: keys, or the first n places and those that a
// schema of contains accepts, or everything.
type covered struct {
	all      bool
	names    map[string]*schema
	pats     []*regexp.Regexp
	n        int
	contains []*schema
}

func (c covered) none() bool {
	return !c.all && len(c.names)+len(c.pats)+c.n+len(c.contains) == 0
}

func (c covered) and(o covered) covered {
	u := covered{all: c.all || o.all, n: max(c.n, o.n), pats: slices.Concat(c.pats, o.pats), contains: slices.Concat(c.contains, o.contains)}
	if len(c.names)+len(o.names) > 0 {
		u.names = make(map[string]*schema, len(c.names)+len(o.names))
		for k := range c.names {
			u.names[k] = nil
		}
		for k := range o.names {
			u.names[k] = nil
		}
	}
	return u
}

// occasion is one way in which the parts of a schema apply, and what they
// evaluate then.
type occasion struct {
	when []atom
	what covered
}

func product(a, b []occasion) []occasion {
	if len(a)*len(b) > maxCases {
		return nil
	}
	out := make([]occasion, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			out = append(out, occasion{slices.Concat(x.when, y.when), x.what.and(y.what)})
		}
	}
	return out
}

// occasions returns all occasions on which s holds, with what it evaluates on each. If
// beside is set, its own unevaluated keyword is ignored. occasions reports false if
// there are too many, or if they are not known.
func (p *prover) occasions(s *schema, kind string, beside bool) ([]occasion, bool) {
	p.step()
	if s.Always != nil || !admits(s, kind) {
		return []occasion{{}}, true
	}
	all := []occasion{{what: ownCover(s, kind, beside)}}
	if all[0].what.all {
		return all, true
	}
	ok := true
	times := func(o []occasion) {
		if all = product(all, o); all == nil {
			ok = false
		}
	}
	sub := func(c *schema) []occasion {
		if !ok {
			return nil
		}
		o, sure := p.occasions(c, kind, false)
		ok = ok && sure
		return o
	}
	refs, lost := p.references(s)
	if lost != "" || len(s.Extensions) > 0 {
		return nil, false
	}
	for _, c := range slices.Concat(refs, s.AllOf) {
		if o := sub(c); ok {
			times(o)
		}
	}
	for _, c := range s.AnyOf {
		if o := sub(c); ok && covers(o) {
			times(append([]occasion{{when: []atom{negated(c)}}}, under(o, plain(c))...))
		}
	}
	if len(s.OneOf) > 0 {
		var each []occasion
		some := false
		for _, c := range s.OneOf {
			o := sub(c)
			some = some || covers(o)
			each = append(each, under(o, plain(c))...)
		}
		if ok && some {
			times(each)
		}
	}
	if s.If != nil {
		yes, no := sub(s.If), []occasion{{}}
		if s.Then != nil {
			if o := sub(s.Then); ok {
				if yes = product(yes, o); yes == nil {
					ok = false
				}
			}
		}
		if s.Else != nil {
			no = sub(s.Else)
		}
		if ok && (covers(yes) || covers(no)) {
			times(append(under(yes, plain(s.If)), under(no, negated(s.If))...))
		}
	}
	if kind == "object" {
		dependent := func(k string, c *schema) {
			if o := sub(c); ok && covers(o) {
				times(append([]occasion{{when: []atom{{op: absent, key: k}}}}, under(o, atom{op: required, key: k})...))
			}
		}
		for _, k := range ordered(s.DependentSchemas) {
			dependent(k, s.DependentSchemas[k])
		}
		for _, k := range ordered(s.Dependencies) {
			if c, is := s.Dependencies[k].(*schema); is {
				dependent(k, c)
			}
		}
	}
	return all, ok
}

func covers(o []occasion) bool {
	return slices.ContainsFunc(o, func(o occasion) bool { return !o.what.none() })
}

func under(o []occasion, when atom) []occasion {
	out := make([]occasion, 0, len(o))
	for _, x := range o {
		out = append(out, occasion{append([]atom{when}, x.when...), x.what})
	}
	return out
}

func ownCover(s *schema, kind string, beside bool) covered {
	if kind == "object" {
		return covered{all: s.AdditionalProperties != nil || !beside && s.UnevaluatedProperties != nil, names: s.Properties, pats: patternsOf(s)}
	}
	if !beside && s.UnevaluatedItems != nil {
		return covered{all: true}
	}
	switch items := s.Items.(type) {
	case *schema:
		return covered{all: true}
	case []*schema:
		return covered{all: s.AdditionalItems != nil, n: len(items), contains: containsOf(s)}
	}
	return covered{all: s.Items2020 != nil, n: len(s.PrefixItems), contains: containsOf(s)}
}

func containsOf(s *schema) []*schema {
	if s.Contains == nil || !s.ContainsEval {
		return nil
	}
	return []*schema{s.Contains}
}

// unevaluated adds unevaluatedProperties or unevaluatedItems: on each occasion, the
// parts that are not covered must satisfy u.
func (p *prover) unevaluated(s, u *schema, kind, keyword string, d *demands) {
	if u == nil || always(u) {
		return
	}
	all, ok := p.occasions(s, kind, true)
	if !ok {
		d.lose(s, keyword)
		return
	}
	var cl clause
	for _, o := range all {
		alt := slices.Clip(o.when)
		if o.what.all {
			cl = append(cl, alt)
			continue
		}
		a := atom{lit: lit{u, false}, class: &class{rest: true, names: o.what.names, pats: o.what.pats}}
		if kind == "array" {
			a = atom{lit: lit{p.either(u, o.what.contains), false}, from: o.what.n, to: unlimited}
		}
		holds, fails := a, a
		holds.op, fails.op, fails.lit.neg = every, some, true
		cl = append(cl, append(alt, holds))
		d.fail(append(alt, fails)...)
	}
	d.pos = append(d.pos, cl)
}

// either returns the schema that is the union of u and more. Equal arguments give the
// same schema.
func (p *prover) either(u *schema, more []*schema) *schema {
	if len(more) == 0 {
		return u
	}
	list := append([]*schema{u}, more...)
	key := "either"
	wild := false
	for _, c := range list {
		key += " " + strconv.FormatUint(p.id(c), 10)
		wild = wild || p.wild[c]
	}
	if s, ok := p.consts[key]; ok {
		return s
	}
	if p.consts == nil {
		p.consts = map[string]*schema{}
	}
	s := blank()
	s.AnyOf = list
	p.consts[key] = s
	if wild {
		p.wild[s] = true
	}
	return s
}
