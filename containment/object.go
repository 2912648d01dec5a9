package containment

import (
	"maps"
	"regexp"
	"slices"
)

// class is a set of keys: one name, those that a pattern finds, or the rest.
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

func patternsOf(s *schema) []*regexp.Regexp {
	return slices.SortedFunc(maps.Keys(s.PatternProperties), func(a, b *regexp.Regexp) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
}

func (p *prover) object(base []atom) result {
	least, most := 0, unlimited
	must, barred, known := map[string][]lit{}, map[string]bool{}, map[string]bool{}
	var wants []atom
	pats := map[string]*regexp.Regexp{}
	for _, a := range base {
		switch a.op {
		case minLen:
			least = max(least, a.n)
		case maxLen:
			most = min(most, a.n)
		case required:
			must[a.key], known[a.key] = nil, true
		case absent:
			barred[a.key], known[a.key] = true, true
		case some, someName:
			wants = append(wants, a)
		}
		if c := a.class; c != nil {
			if c.named {
				known[c.name] = true
			}
			for k := range c.names {
				known[k] = true
			}
			for _, re := range c.pats {
				pats[re.String()] = re
			}
			if c.re != nil {
				pats[c.re.String()] = c.re
			}
		}
	}
	if least > most || len(must) > most {
		return result{state: empty}
	}
	lits := func(k string) (out []lit, ok bool) {
		p.step()
		if barred[k] {
			return nil, false
		}
		for _, a := range base {
			if a.op == every && a.class.has(k) {
				out = append(out, a.lit)
			}
			if a.op == names {
				if yes, sure := a.lit.holds(k); sure && !yes {
					return nil, false
				}
			}
		}
		return out, true
	}
	value := func(k string, extra []lit) result {
		l, ok := lits(k)
		if !ok {
			return result{state: empty}
		}
		return p.sat(append(l, extra...))
	}
	out := map[string]any{}
	unsure := false
	for _, k := range slices.Sorted(maps.Keys(must)) {
		r := value(k, nil)
		if r.state == empty {
			return result{state: empty}
		}
		unsure = unsure || r.state == unknown
		out[k] = r.value
	}
	order := slices.Sorted(maps.Keys(known))
	// fresh visits a new key of each kind that the patterns tell apart.
	fresh := func(extra []lit, visit func(k string) bool) (sure bool) {
		res := slices.Sorted(maps.Keys(pats))
		if len(res) > 5 {
			return false
		}
		sure = true
		for signs := range 1 << len(res) {
			c := &conj{kind: "string"}
			for _, a := range base {
				if a.op == names {
					c.units = append(c.units, atom{op: literal, lit: a.lit})
					c.goal = append(c.goal, a.lit)
				}
			}
			for _, l := range extra {
				c.units = append(c.units, atom{op: literal, lit: l})
				c.goal = append(c.goal, l)
			}
			for i, s := range res {
				o := notMatches
				if signs>>i&1 == 1 {
					o = matches
				}
				c.units = append(c.units, atom{op: o, re: pats[s]})
			}
			for _, k := range order {
				c.units = append(c.units, atom{op: notValue, value: k})
			}
			for k := range out {
				if !known[k] {
					c.units = append(c.units, atom{op: notValue, value: k})
				}
			}
			// Values that an enum lists are tried without regard to the rest.
			if slices.ContainsFunc(c.goal, func(l lit) bool { return listed(l.s) }) {
				sure = false
			}
			r := p.expand(c)
			if r.state == unknown {
				sure = false
			}
			if k, ok := r.value.(string); ok && r.state == found {
				if _, taken := out[k]; !taken && !known[k] && visit(k) {
					return true
				}
			}
		}
		return sure
	}
	made := false
	for _, w := range wants {
		var extra, name []lit
		if w.op == some {
			extra = []lit{w.lit}
		} else {
			name = []lit{w.lit}
		}
		ok := false
		try := func(k string) bool {
			if w.op == some && !w.class.has(k) {
				return false
			}
			if w.op == someName {
				if yes, sure := w.lit.holds(k); !yes || !sure {
					unsure = unsure || !sure
					return false
				}
			}
			if _, has := out[k]; !has && len(out) >= most {
				unsure = unsure || len(wants) > 1
				return false
			}
			r := value(k, append(slices.Clone(extra), must[k]...))
			if r.state == found {
				out[k], ok = r.value, true
				must[k] = append(must[k], extra...)
			}
			unsure = unsure || r.state == unknown
			return ok
		}
		if !slices.ContainsFunc(order, try) && (w.op != some || !w.class.named) {
			if !fresh(name, try) {
				unsure = true
			}
		}
		if !ok {
			if unsure || made {
				return result{}
			}
			return result{state: empty}
		}
		made = true
	}
	for _, k := range order {
		if len(out) >= least {
			break
		}
		if _, has := out[k]; has {
			continue
		}
		r := value(k, nil)
		unsure = unsure || r.state == unknown
		if r.state == found {
			out[k] = r.value
		}
	}
	for len(out) < least && len(out) < 200 {
		before := len(out)
		sure := fresh(nil, func(k string) bool {
			r := value(k, nil)
			unsure = unsure || r.state == unknown
			if r.state == found {
				out[k] = r.value
			}
			return r.state == found
		})
		if len(out) == before {
			if sure && !unsure && !made && before <= len(order) {
				return result{state: empty}
			}
			return result{}
		}
	}
	if unsure || len(out) < least {
		return result{}
	}
	return result{state: found, value: out}
}
