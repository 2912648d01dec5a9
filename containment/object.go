package containment

import (
	"regexp"
	"slices"
)

// class is a set of keys: one name, those that match a pattern, or those that neither
// names nor patterns cover.
type class struct {
	name  string
	named bool
	re    *regexp.Regexp
	rest  bool
	names map[string]*schema
	pats  []*regexp.Regexp
}

func (c *class) has(k string) bool {
	if c.named {
		return k == c.name
	}
	if c.re != nil {
		return c.re.MatchString(k)
	}
	if _, ok := c.names[k]; ok {
		return false
	}
	return !slices.ContainsFunc(c.pats, func(re *regexp.Regexp) bool { return re.MatchString(k) })
}

func (p *prover) objectKeywords(s *schema, d *demands) {
	if s.MinProperties > 0 {
		d.both(atom{op: minLen, n: s.MinProperties}, atom{op: maxLen, n: s.MinProperties - 1})
	}
	if s.MaxProperties >= 0 {
		d.both(atom{op: maxLen, n: s.MaxProperties}, atom{op: minLen, n: s.MaxProperties + 1})
	}
	for _, k := range s.Required {
		d.both(atom{op: required, key: k}, atom{op: absent, key: k})
	}
	keys := func(c *class, e *schema) {
		if !always(e) {
			d.both(atom{op: every, class: c, lit: lit{e, false}}, atom{op: some, class: c, lit: lit{e, true}})
		}
	}
	for _, k := range ordered(s.Properties) {
		keys(&class{name: k, named: true}, s.Properties[k])
	}
	pats := patternsOf(s)
	for _, re := range pats {
		keys(&class{re: re}, s.PatternProperties[re])
	}
	switch more := s.AdditionalProperties.(type) {
	case bool:
		if !more {
			keys(&class{rest: true, names: s.Properties, pats: pats}, nothing)
		}
	case *schema:
		keys(&class{rest: true, names: s.Properties, pats: pats}, more)
	}
	if s.PropertyNames != nil && !always(s.PropertyNames) {
		d.both(atom{op: names, lit: lit{s.PropertyNames, false}}, atom{op: someName, lit: lit{s.PropertyNames, true}})
	}
	needs := func(k string, then []string) {
		for _, n := range then {
			d.pos = append(d.pos, clause{{{op: absent, key: k}}, {{op: required, key: n}}})
			d.fail(atom{op: required, key: k}, atom{op: absent, key: n})
		}
	}
	applies := func(k string, then *schema) {
		if !always(then) {
			d.pos = append(d.pos, clause{{{op: absent, key: k}}, {plain(then)}})
			d.fail(atom{op: required, key: k}, negated(then))
		}
	}
	for _, k := range ordered(s.Dependencies) {
		switch then := s.Dependencies[k].(type) {
		case *schema:
			applies(k, then)
		case []string:
			needs(k, then)
		}
	}
	for _, k := range ordered(s.DependentRequired) {
		needs(k, s.DependentRequired[k])
	}
	for _, k := range ordered(s.DependentSchemas) {
		applies(k, s.DependentSchemas[k])
	}
	p.unevaluated(s, s.UnevaluatedProperties, "object", "unevaluatedProperties", d)
}

// record holds the demands on an object.
type record struct {
	*prover
	least, most int
	every       []atom
	names       []lit
	barred      map[string]bool
	// order holds the keys that are mentioned by name; only patterns distinguish the
	// others.
	known    map[string]bool
	order    []string
	patterns []*regexp.Regexp
	// wants are values or names that some key must have; extra holds those that have
	// been assigned a key, by key, and the keys that must be present.
	wants  []atom
	extra  map[string][]lit
	unsure bool
	why    reason
}

func (p *prover) object(base []atom) result {
	o := &record{prover: p, most: unlimited, barred: map[string]bool{}, known: map[string]bool{}, extra: map[string][]lit{}}
	pats := map[string]*regexp.Regexp{}
	for _, a := range base {
		switch a.op {
		case minLen:
			o.least = max(o.least, a.n)
		case maxLen:
			o.most = min(o.most, a.n)
		case required:
			o.extra[a.key] = slices.Clip(o.extra[a.key])
			o.known[a.key] = true
		case absent:
			o.barred[a.key], o.known[a.key] = true, true
		case every:
			o.every = append(o.every, a)
		case names:
			o.names = append(o.names, a.lit)
		case some:
			if a.class.named {
				o.extra[a.class.name] = append(o.extra[a.class.name], a.lit)
			} else {
				o.wants = append(o.wants, a)
			}
		case someName:
			o.wants = append(o.wants, a)
		default: // about other types, or handled already
		}
		if c := a.class; c != nil {
			if c.named {
				o.known[c.name] = true
			}
			for k := range c.names {
				o.known[k] = true
			}
			for _, re := range c.pats {
				pats[re.String()] = re
			}
			if c.re != nil {
				pats[c.re.String()] = c.re
			}
		}
	}
	if o.least > o.most || len(o.extra) > o.most {
		return result{state: empty}
	}
	for _, t := range ordered(pats) {
		o.patterns = append(o.patterns, pats[t])
	}
	o.order = ordered(o.known)
	p.charge(len(base) / 4)
	return o.solve()
}

// may returns the demands on the value at k, or reports that k cannot be present.
func (o *record) may(k string) ([]lit, bool) {
	o.charge(1 + len(o.every)/8)
	if o.barred[k] {
		return nil, false
	}
	for _, n := range o.names {
		if !o.named(n, k) {
			return nil, false
		}
	}
	var out []lit
	for _, a := range o.every {
		if a.class.has(k) {
			out = append(out, a.lit)
		}
	}
	return append(out, o.extra[k]...), true
}

// named reports whether k may be a name that l accepts.
func (o *record) named(l lit, k string) bool {
	o.depth++
	yes, sure := o.test(l, k)
	o.depth--
	if !sure {
		o.unsure = true
		o.why = o.why.or(o.wildest([]lit{l}))
	}
	return yes || !sure
}

// value looks for a value at k.
func (o *record) value(k string, more ...lit) result {
	lits, ok := o.may(k)
	if !ok {
		return result{state: empty}
	}
	r := o.sat(append(lits, more...))
	if r.state == unknown {
		o.why = o.why.or(r.why)
	}
	return r
}

func (o *record) solve() result {
	must := ordered(o.extra)
	// Keys with more demands come first: they are more likely to admit no value.
	slices.SortStableFunc(must, func(a, b string) int { return len(o.extra[b]) - len(o.extra[a]) })
	out := map[string]any{}
	whole := true
	for _, k := range must {
		r := o.value(k)
		if r.state == empty {
			return r
		}
		whole = whole && r.state == found
		out[k] = r.value
	}
	v, ok := o.assign(o.wants, out)
	switch {
	case ok && whole:
		return result{state: found, value: v}
	case ok || o.unsure:
		return result{why: o.why}
	}
	return result{state: empty}
}

// assign gives each want a key, and fills the object up.
func (o *record) assign(wants []atom, out map[string]any) (map[string]any, bool) {
	o.step()
	if len(wants) == 0 {
		return o.fill(out)
	}
	w := wants[0]
	try := func(k string) (map[string]any, bool) {
		if _, has := out[k]; !has && len(out) >= o.most || w.op == some && !w.class.has(k) {
			return nil, false
		}
		var more []lit
		if w.op == some {
			more = []lit{w.lit}
		} else if !o.named(w.lit, k) {
			return nil, false
		}
		r := o.value(k, more...)
		if r.state != found {
			o.unsure = o.unsure || r.state == unknown
			return nil, false
		}
		next := make(map[string]any, len(out)+1)
		for k, v := range out {
			next[k] = v
		}
		next[k] = r.value
		before, had := o.extra[k]
		o.extra[k] = append(before[:len(before):len(before)], more...)
		v, ok := o.assign(wants[1:], next)
		if o.extra[k] = before; !had {
			delete(o.extra, k)
		}
		return v, ok
	}
	candidates := o.order
	for _, k := range ordered(out) {
		if !o.known[k] {
			candidates = append(candidates[:len(candidates):len(candidates)], k)
		}
	}
	for _, k := range candidates {
		if v, ok := try(k); ok {
			return v, ok
		}
	}
	var name []lit
	if w.op == someName {
		name = []lit{w.lit}
	}
	var made map[string]any
	ok := false
	o.fresh(out, name, func(k string) bool {
		made, ok = try(k)
		return ok
	})
	return made, ok
}

// fill adds members until the object has enough.
func (o *record) fill(out map[string]any) (map[string]any, bool) {
	if o.least > 300 {
		o.unsure = true
		o.why = o.why.or(reason{other: "an object has too many members"})
		return nil, false
	}
	for _, k := range o.order {
		if len(out) >= o.least {
			break
		}
		if _, has := out[k]; has {
			continue
		}
		if r := o.value(k); r.state == found {
			out[k] = r.value
		} else if r.state == unknown {
			o.unsure = true
		}
	}
	for len(out) < o.least {
		before := len(out)
		o.fresh(out, nil, func(k string) bool {
			r := o.value(k)
			if r.state == found {
				out[k] = r.value
			}
			o.unsure = o.unsure || r.state == unknown
			return r.state == found
		})
		if len(out) == before {
			return nil, false
		}
	}
	return out, true
}
