package containment

import (
	"math/big"
	"slices"

	"chimera.ai/engine/schemas"
)

// bounds are the demands on numbers of a schema and of those that it applies to the
// same value. A bound is nil if there is none.
type bounds struct {
	lo, hi            *big.Rat
	openLow, openHigh bool
	// only is set if numbers alone are accepted, whole if only whole ones are.
	only, whole bool
}

// maxTogether bounds the schemas that together visits. It ignores any more, so what
// it finds exists, but what it misses may exist too.
const maxTogether = 16

// together visits s and the schemas that it applies to the same value through
// references and allOf, until visit returns true.
func together(s *schema, left *int, visit func(s *schema) bool) bool {
	if *left--; *left < 0 {
		return false
	}
	if visit(s) || s.Ref != nil && together(s.Ref, left, visit) {
		return true
	}
	return slices.ContainsFunc(s.AllOf, func(c *schema) bool { return together(c, left, visit) })
}

// boundsOf gathers the bounds of s through references and allOf.
func boundsOf(s *schema) bounds {
	var b bounds
	left := maxTogether
	together(s, &left, func(s *schema) bool {
		b.gather(s)
		return false
	})
	if b.whole {
		b.tighten()
	}
	return b
}

// gather adds what s itself asks.
func (b *bounds) gather(s *schema) {
	if len(s.Types) > 0 {
		b.only = b.only || !slices.ContainsFunc(s.Types, func(t string) bool { return t != "number" && t != "integer" })
		b.whole = b.whole || !slices.Contains(s.Types, "number")
	}
	b.above(s.Minimum, false)
	b.above(s.ExclusiveMinimum, true)
	b.below(s.Maximum, false)
	b.below(s.ExclusiveMaximum, true)
}

func (b *bounds) above(x *big.Rat, open bool) {
	if x == nil {
		return
	}
	if b.lo == nil || compare(x, b.lo) > 0 || open && compare(x, b.lo) == 0 {
		b.lo, b.openLow = x, open
	}
}

func (b *bounds) below(x *big.Rat, open bool) {
	if x == nil {
		return
	}
	if b.hi == nil || compare(x, b.hi) < 0 || open && compare(x, b.hi) == 0 {
		b.hi, b.openHigh = x, open
	}
}

// tighten moves the bounds of whole numbers to the first and the last of them.
func (b *bounds) tighten() {
	if b.lo != nil && (b.openLow || !b.lo.IsInt()) {
		n := new(big.Int).Div(b.lo.Num(), b.lo.Denom())
		b.lo, b.openLow = new(big.Rat).SetInt(n.Add(n, one.Num())), false
	}
	if b.hi != nil && (b.openHigh || !b.hi.IsInt()) {
		n := new(big.Int).Div(b.hi.Num(), b.hi.Denom())
		if b.hi.IsInt() {
			n.Sub(n, one.Num())
		}
		b.hi, b.openHigh = new(big.Rat).SetInt(n), false
	}
}

// numbersWithin reports whether a accepts only numbers, and b demands nothing of them
// but bounds that contain those of a.
func numbersWithin(a, b *schema) bool {
	if len(b.Types) > 0 && !slices.Contains(b.Types, "number") && !slices.Contains(b.Types, "integer") || b.MultipleOf != nil || !plainSchema(b) || b.RegexProperties {
		return false
	}
	in := boundsOf(a)
	if !in.only || len(b.Types) > 0 && !slices.Contains(b.Types, "number") && !in.whole {
		return false
	}
	least := func(x *big.Rat, open bool) bool {
		if x == nil {
			return true
		}
		if in.lo == nil {
			return false
		}
		c := compare(in.lo, x)
		return c > 0 || c == 0 && (in.openLow || !open)
	}
	most := func(x *big.Rat, open bool) bool {
		if x == nil {
			return true
		}
		if in.hi == nil {
			return false
		}
		c := compare(in.hi, x)
		return c < 0 || c == 0 && (in.openHigh || !open)
	}
	return least(b.Minimum, false) && least(b.ExclusiveMinimum, true) && most(b.Maximum, false) && most(b.ExclusiveMaximum, true)
}

// Nonempty reports whether s obviously has a value: it demands nothing but types, and
// bounds that some number satisfies. False means nothing. Nonempty is for callers that
// need no witness, which takes a search and the validator.
func Nonempty(s *schemas.Schema) bool {
	if s == nil {
		return false
	}
	left := maxTogether
	if together(s.Compiled(), &left, func(c *schema) bool { return !admits(c, "number") || !boundsOnly(c) }) || left < 0 {
		return false
	}
	in := boundsOf(s.Compiled())
	if in.lo == nil || in.hi == nil {
		return true
	}
	c := compare(in.lo, in.hi)
	return c < 0 || c == 0 && !in.openLow && !in.openHigh
}

// boundsOnly reports whether s itself demands nothing of numbers but the bounds that
// boundsOf gathers.
func boundsOnly(s *schema) bool {
	return s.RecursiveRef == nil && s.DynamicRef == nil && s.Not == nil && len(s.AnyOf)+len(s.OneOf) == 0 && s.If == nil &&
		s.MultipleOf == nil && len(s.Enum)+len(s.Constant)+len(s.Extensions) == 0
}

// compare is a.Cmp(b) without the memory that Cmp allocates even for whole numbers.
func compare(a, b *big.Rat) int {
	if a.IsInt() && b.IsInt() {
		return a.Num().Cmp(b.Num())
	}
	return a.Cmp(b)
}
