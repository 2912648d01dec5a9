package containment

import "strings"

func textKeywords(s *schema, d *demands) {
	if s.MinLength > 0 {
		d.both(atom{op: minLen, n: s.MinLength}, atom{op: maxLen, n: s.MinLength - 1})
	}
	if s.MaxLength >= 0 {
		d.both(atom{op: maxLen, n: s.MaxLength}, atom{op: minLen, n: s.MaxLength + 1})
	}
	if s.Pattern != nil {
		d.both(atom{op: matches, re: s.Pattern}, atom{op: notMatches, re: s.Pattern})
	}
}

// longestText bounds the strings that are built, in code points.
const longestText = 20_000

func (p *prover) text(base []atom) result {
	least, most := 0, unlimited
	var langs []*lang
	var signs []bool
	var lost reason
	avoid := map[string]bool{}
	for _, a := range base {
		switch a.op {
		case minLen:
			least = max(least, a.n)
		case maxLen:
			most = min(most, a.n)
		case matches, notMatches:
			if l := p.language(a.re); l != nil {
				langs = append(langs, l)
				signs = append(signs, a.op == matches)
			} else {
				lost = reason{other: "a pattern is too large"}
			}
		case notValue:
			if s, ok := a.value.(string); ok {
				avoid[s] = true
			}
		default: // about other types, or handled already
		}
	}
	switch {
	case least > most:
		return result{state: empty}
	case least > longestText:
		return result{why: lost.or(reason{other: "a string is too long"})}
	}
	var r result
	if len(langs) > 0 {
		r = p.words(langs, signs, least, most, avoid)
	} else {
		r = p.letters(least, most, avoid)
	}
	// What was found without a pattern may not hold: then this is why.
	r.why = r.why.or(lost)
	return r
}

// letters returns a string with a length within bounds that is not to be avoided.
func (p *prover) letters(least, most int, avoid map[string]bool) result {
	if least == 0 && !avoid[""] {
		return result{state: found, value: ""}
	}
	if most == 0 {
		return result{state: empty}
	}
	n := max(least, 1)
	p.charge(n / 64)
	head := strings.Repeat("a", n-1)
	// There are more strings of one length than strings to avoid, so one is left.
	for i := range len(avoid) + 1 {
		p.charge(1 + n/64)
		s := head + string(letter(i))
		if !avoid[s] {
			return result{state: found, value: s}
		}
	}
	return result{why: reason{other: "too many strings are to be avoided"}}
}

// letter returns the i-th code point from "a" on; unassigned ones come last.
func letter(i int) rune {
	if i < 26 {
		return 'a' + rune(i)
	}
	return 0x4e00 + rune(i-26)%20_000
}
