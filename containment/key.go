package containment

import (
	"encoding/binary"
	"slices"
)

// maxPatterns bounds the patterns that distinguish the keys of one object.
const maxPatterns = 10

// fresh visits, for each set of patterns that a key can match, one key that is neither
// known nor in out, until visit returns true.
func (o *record) fresh(out map[string]any, name []lit, visit func(k string) bool) {
	if len(o.patterns) > maxPatterns {
		o.unsure = true
		o.why = o.why.or(reason{other: "too many patterns distinguish the members of an object"})
		return
	}
	o.charge(1 + len(out)/4)
	var taken []string
	for _, k := range ordered(out) {
		if !o.known[k] {
			taken = append(taken, k)
		}
	}
	var choose func(signs []atom) bool
	choose = func(signs []atom) bool {
		r := o.key(signs, name, taken)
		if r.state == empty {
			return false
		}
		if len(signs) < len(o.patterns) {
			re := o.patterns[len(signs)]
			signs = slices.Clip(signs)
			return choose(append(signs, atom{op: notMatches, re: re})) || choose(append(signs, atom{op: matches, re: re}))
		}
		if r.state == unknown {
			o.unsure = true
			o.why = o.why.or(r.why)
			return false
		}
		return visit(r.value.(string))
	}
	choose(nil)
}

// key looks for a name for a new member.
func (o *record) key(signs []atom, name []lit, taken []string) result {
	goal := slices.Concat(o.names, name)
	goal = o.normal(goal)
	b := append([]byte(nil), o.buf...)
	b = append(b, 0xff, 0xff)
	for _, a := range signs {
		b = binary.AppendUvarint(append(b, byte(a.op)), uint64(len(a.re.String())))
		b = append(b, a.re.String()...)
	}
	for _, l := range [][]string{o.order, taken} {
		b = append(b, 0xff)
		for _, k := range l {
			b = append(binary.AppendUvarint(b, uint64(len(k))), k...)
		}
	}
	o.charge(1 + len(b)/256 + (len(o.order)+len(taken))/8)
	if r, ok := o.keys[string(b)]; ok {
		return r
	}
	has := make(map[string]bool, len(taken))
	for _, k := range taken {
		has[k] = true
	}
	c := newConj("string", goal)
	c.units = append(c.units, signs...)
	for _, l := range [][]string{o.order, taken} {
		for _, k := range l {
			c.units = append(c.units, atom{op: notValue, value: k})
		}
	}
	c.pass = func(v any) bool {
		k, ok := v.(string)
		return ok && !o.known[k] && !has[k] && !slices.ContainsFunc(signs, func(a atom) bool {
			return a.re.MatchString(k) != (a.op == matches)
		})
	}
	o.depth++
	r := o.expand(c)
	o.depth--
	if o.keys == nil {
		o.keys = map[string]result{}
	}
	o.keys[string(b)] = r
	return r
}
