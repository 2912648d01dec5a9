package containment

import (
	"maps"
	"slices"
)

// exclusive reports whether a look at types and constants shows that no value of type
// kind satisfies two alternatives of s.OneOf: only one of them admits the type, or they
// are objects, and each lists values of its own for one key.
func (p *prover) exclusive(s *schema, kind string) bool {
	k := exclusion{s, kind}
	if yes, ok := p.apart[k]; ok {
		return yes
	}
	if p.apart == nil {
		p.apart = map[exclusion]bool{}
	}
	var admitted []*schema
	for _, c := range s.OneOf {
		p.step()
		if admits(c, kind) {
			admitted = append(admitted, c)
		}
	}
	yes := len(admitted) <= 1 || kind == "object" && p.discriminated(admitted)
	p.apart[k] = yes
	return yes
}

type exclusion struct {
	s    *schema
	kind string
}

func (p *prover) discriminated(all []*schema) bool {
	own := make([]*schema, len(all))
	for i, s := range all {
		for range 8 {
			if !onlyRef(s) {
				break
			}
			s = s.Ref
		}
		own[i] = s
	}
	for _, k := range own[0].Required {
		if p.tells(own, k) {
			return true
		}
	}
	return false
}

// tells reports whether each alternative demands a value at k that no other accepts.
func (p *prover) tells(all []*schema, k string) bool {
	seen := map[string]bool{}
	for _, s := range all {
		c := s.Properties[k]
		if c == nil || !slices.Contains(s.Required, k) {
			return false
		}
		vs, ok := p.finite(lit{c, false})
		if !ok {
			return false
		}
		mine := map[string]bool{}
		for _, v := range vs {
			p.step()
			text := canonical(v)
			if seen[text] {
				return false
			}
			mine[text] = true
		}
		maps.Copy(seen, mine)
	}
	return true
}
