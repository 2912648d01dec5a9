package containment

import "slices"

func plain(s *schema) atom   { return atom{op: literal, lit: lit{s, false}} }
func negated(s *schema) atom { return atom{op: literal, lit: lit{s, true}} }

// demands gathers what a schema demands of a value of one type: pos holds the clauses,
// all of which must hold, and neg the ways in which a value can fail. lost is a keyword
// that they do not express fully: then pos demands less, and neg has a way that demands
// nothing, so that a goal made of either only grows.
type demands struct {
	pos  []clause
	neg  clause
	lost reason
}

func (d *demands) unit(a ...atom) { d.pos = append(d.pos, clause{a}) }
func (d *demands) fail(a ...atom) { d.neg = append(d.neg, a) }

// both adds an atom that must hold, and the one by which it fails.
func (d *demands) both(holds, fails atom) {
	d.unit(holds)
	d.fail(fails)
}

func (d *demands) lose(s *schema, keyword string) {
	d.lost = d.lost.or(reason{s: s, keyword: keyword})
	d.fail()
}

func (p *prover) asks(s *schema, kind string) ([]clause, reason) {
	d := p.demands(s, kind)
	return d.pos, d.lost
}

func (p *prover) fails(s *schema, kind string) (clause, reason) {
	d := p.demands(s, kind)
	return d.neg, d.lost
}

func (p *prover) demands(s *schema, kind string) *demands {
	d := &demands{}
	switch {
	case s.Always != nil && *s.Always:
		return d
	case !admits(s, kind):
		d.unit(atom{op: never})
		d.fail()
		return d
	}
	if kind == "number" && len(s.Types) > 0 && !slices.Contains(s.Types, "number") {
		d.both(atom{op: multiple, num: one}, atom{op: notMultiple, num: one})
	}
	p.values(s, kind, d)
	switch kind {
	case "number":
		numberKeywords(s, d)
	case "string":
		textKeywords(s, d)
	case "array":
		p.listKeywords(s, d)
	case "object":
		p.objectKeywords(s, d)
	}
	refs, lost := p.references(s)
	if lost != "" {
		d.lose(s, lost)
	}
	if len(s.Extensions) > 0 || s.RegexProperties {
		d.lose(s, "")
	}
	for _, c := range refs {
		d.both(plain(c), negated(c))
	}
	if s.Not != nil {
		d.both(negated(s.Not), plain(s.Not))
	}
	for _, c := range s.AllOf {
		d.both(plain(c), negated(c))
	}
	p.alternatives(s, kind, d)
	if s.If != nil && (s.Then != nil || s.Else != nil) {
		yes, no := []atom{plain(s.If)}, []atom{negated(s.If)}
		if s.Then != nil {
			d.fail(plain(s.If), negated(s.Then))
			yes = append(yes, plain(s.Then))
		}
		if s.Else != nil {
			d.fail(negated(s.If), negated(s.Else))
			no = append(no, plain(s.Else))
		}
		d.pos = append(d.pos, clause{yes, no})
	}
	return d
}

// values adds enum and const. Values that must be one of a list never get here: they
// are tried.
func (p *prover) values(s *schema, kind string, d *demands) {
	if len(s.Constant) > 0 {
		v := s.Constant[0]
		switch {
		case kindOf(v) != kind:
			d.fail()
		case kind == "array":
			p.otherList(v.([]any), d)
		case kind == "object":
			p.otherObject(v.(map[string]any), d)
		default:
			d.fail(atom{op: notValue, value: v})
		}
	}
	if len(s.Enum) > 0 {
		var others []atom
		for _, v := range s.Enum {
			p.step()
			switch k := kindOf(v); {
			case k != kind:
			case k == "array" || k == "object":
				others = append(others, negated(p.constant(v)))
			default:
				others = append(others, atom{op: notValue, value: v})
			}
		}
		d.fail(others...)
	}
}

// otherList adds the ways in which a list differs from v.
func (p *prover) otherList(v []any, d *demands) {
	d.fail(atom{op: minLen, n: len(v) + 1})
	if len(v) > 0 {
		d.fail(atom{op: maxLen, n: len(v) - 1})
	}
	for i, e := range v {
		d.fail(atom{op: some, from: i, to: i + 1, lit: lit{p.constant(e), true}})
	}
}

// otherObject adds the ways in which an object differs from v.
func (p *prover) otherObject(v map[string]any, d *demands) {
	d.fail(atom{op: minLen, n: len(v) + 1})
	for _, k := range ordered(v) {
		d.fail(atom{op: absent, key: k})
		d.fail(atom{op: some, class: &class{name: k, named: true}, lit: lit{p.constant(v[k]), true}})
	}
}

// alternatives adds anyOf and oneOf. A oneOf whose alternatives exclude each other
// is an anyOf.
func (p *prover) alternatives(s *schema, kind string, d *demands) {
	if len(s.AnyOf) > 0 {
		var cl clause
		var none []atom
		for _, c := range s.AnyOf {
			cl = append(cl, []atom{plain(c)})
			none = append(none, negated(c))
		}
		d.pos = append(d.pos, cl)
		d.fail(none...)
	}
	if len(s.OneOf) == 0 {
		return
	}
	var cl clause
	var none []atom
	if p.exclusive(s, kind) {
		for _, c := range s.OneOf {
			cl = append(cl, []atom{plain(c)})
			none = append(none, negated(c))
		}
		d.pos = append(d.pos, cl)
		d.fail(none...)
		return
	}
	for i, c := range s.OneOf {
		alt := []atom{plain(c)}
		for j, other := range s.OneOf {
			p.step()
			if j != i {
				alt = append(alt, negated(other))
			}
			if j > i {
				d.fail(plain(c), plain(other))
			}
		}
		cl = append(cl, alt)
		none = append(none, negated(c))
	}
	d.pos = append(d.pos, cl)
	d.fail(none...)
}
