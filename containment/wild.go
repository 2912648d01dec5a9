package containment

import "slices"

// survey finds the schemas below s whose meaning is not determined by the schema alone:
// those with a $dynamicRef or $recursiveRef whose target depends on how it was reached,
// and those with extensions. wild holds them and all schemas that lead to them.
func (p *prover) survey(s *schema) {
	var order []*schema
	parents := map[*schema][]*schema{}
	anchors := 0
	seen := map[*schema]bool{s: true}
	order = append(order, s)
	for i := 0; i < len(order); i++ {
		at := order[i]
		if at.RecursiveAnchor {
			anchors++
		}
		p.depends = p.depends || len(at.Dependencies) > 0
		children(at, func(c *schema) {
			parents[c] = append(parents[c], at)
			if !seen[c] {
				seen[c] = true
				order = append(order, c)
			}
		})
	}
	p.charge(len(order) / 4)
	var queue []*schema
	for _, at := range order {
		dynamic := at.DynamicRef != nil && (at.DynamicRef.DynamicAnchor != "" || p.part) ||
			at.RecursiveRef != nil && (at.RecursiveRef.RecursiveAnchor && anchors > 1 || p.part)
		if dynamic || len(at.Extensions) > 0 || at.RegexProperties {
			queue = append(queue, at)
		}
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if p.wild[at] {
			continue
		}
		if p.wild == nil {
			p.wild = map[*schema]bool{}
		}
		p.wild[at] = true
		queue = append(queue, parents[at]...)
	}
}

// references returns the schemas that s applies to the same value by reference,
// and the keyword of one that is not known.
func (p *prover) references(s *schema) (refs []*schema, lost string) {
	if s.Ref != nil {
		refs = append(refs, s.Ref)
	}
	if s.RecursiveRef != nil {
		// If only the target itself is an anchor, the reference always leads to it. A
		// schema is also wild if only the target of its reference is.
		if p.wild[s] && (s.RecursiveRef.RecursiveAnchor || p.part) {
			lost = "$recursiveRef"
		} else {
			refs = append(refs, s.RecursiveRef)
		}
	}
	if s.DynamicRef != nil {
		// A target that is not a dynamic anchor is never replaced by another.
		if s.DynamicRef.DynamicAnchor != "" || p.part {
			lost = "$dynamicRef"
		} else {
			refs = append(refs, s.DynamicRef)
		}
	}
	return refs, lost
}

// wildest returns the reason why the validator was not asked about lits: the first one
// by its location.
func (p *prover) wildest(lits []lit) reason {
	var first reason
	seen := map[*schema]bool{}
	var visit func(s *schema)
	visit = func(s *schema) {
		if seen[s] || !p.wild[s] {
			return
		}
		seen[s] = true
		r := reason{s: s}
		if _, r.keyword = p.references(s); r.keyword != "" || len(s.Extensions) > 0 || s.RegexProperties {
			if first.s == nil || s.Location < first.s.Location {
				first = r
			}
		}
		children(s, visit)
	}
	for _, l := range lits {
		visit(l.s)
	}
	if i := slices.IndexFunc(lits, func(l lit) bool { return l.s.Location != made }); first.s == nil && i >= 0 {
		first.s = lits[i].s
	}
	return first
}

// dynamic reports whether one of all leads to what survey looks for, if the target of
// every dynamic reference depends on how it was reached.
func (p *prover) dynamic(all ...*schema) bool {
	seen := map[*schema]bool{}
	yes := slices.ContainsFunc(all, func(s *schema) bool { return dynamic(s, seen) })
	p.spent += len(seen) / 4
	return yes
}

func dynamic(s *schema, seen map[*schema]bool) bool {
	if seen[s] {
		return false
	}
	seen[s] = true
	if s.DynamicRef != nil || s.RecursiveRef != nil || len(s.Extensions) > 0 || s.RegexProperties {
		return true
	}
	found := false
	children(s, func(c *schema) { found = found || dynamic(c, seen) })
	return found
}

// children visits the schemas that s leads to, in no particular order.
func children(s *schema, visit func(*schema)) {
	for _, c := range [...]*schema{s.Ref, s.RecursiveRef, s.DynamicRef, s.Not, s.If, s.Then, s.Else, s.PropertyNames, s.UnevaluatedProperties, s.Items2020, s.Contains, s.UnevaluatedItems} {
		if c != nil {
			visit(c)
		}
	}
	for _, l := range [...][]*schema{s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems} {
		for _, c := range l {
			visit(c)
		}
	}
	for _, c := range s.Properties {
		visit(c)
	}
	for _, c := range s.DependentSchemas {
		visit(c)
	}
	for _, c := range s.PatternProperties {
		visit(c)
	}
	for _, d := range s.Dependencies {
		if c, ok := d.(*schema); ok {
			visit(c)
		}
	}
	for _, a := range [...]any{s.AdditionalProperties, s.AdditionalItems, s.Items} {
		switch c := a.(type) {
		case *schema:
			visit(c)
		case []*schema:
			for _, e := range c {
				visit(e)
			}
		}
	}
}
