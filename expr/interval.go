package expr

import (
	"encoding/json"
	"math"
	"math/big"

	"chimera.ai/engine/schemas"
)

// interval contains the numbers from lo to hi; nil means no bound. An open end does
// not belong to it. An empty interval contains none.
type interval struct {
	lo, hi         *big.Rat
	loOpen, hiOpen bool
	empty          bool
}

var (
	minInt64  = new(big.Rat).SetInt64(math.MinInt64)
	maxInt64  = new(big.Rat).SetInt64(math.MaxInt64)
	maxUint64 = new(big.Rat).SetInt(new(big.Int).SetUint64(math.MaxUint64))
	maxDouble = new(big.Rat).SetFloat64(math.MaxFloat64)
	minDouble = new(big.Rat).Neg(maxDouble)
	zero      = new(big.Rat)
	one       = big.NewRat(1, 1)

	int64s  = interval{lo: minInt64, hi: maxInt64}
	uint64s = interval{lo: zero, hi: maxUint64}
	doubles = interval{lo: minDouble, hi: maxDouble}
)

func between(lo, hi int64) interval {
	return interval{lo: new(big.Rat).SetInt64(lo), hi: new(big.Rat).SetInt64(hi)}
}

// meet is what both hold.
func (i interval) meet(o interval) interval {
	if i.empty || o.empty {
		return interval{empty: true}
	}
	if o.lo != nil && (i.lo == nil || compare(i.lo, o.lo) < 0 || compare(i.lo, o.lo) == 0 && o.loOpen) {
		i.lo, i.loOpen = o.lo, o.loOpen
	}
	if o.hi != nil && (i.hi == nil || compare(i.hi, o.hi) > 0 || compare(i.hi, o.hi) == 0 && o.hiOpen) {
		i.hi, i.hiOpen = o.hi, o.hiOpen
	}
	if i.lo != nil && i.hi != nil {
		if c := compare(i.lo, i.hi); c > 0 || c == 0 && (i.loOpen || i.hiOpen) {
			return interval{empty: true}
		}
	}
	return i
}

// hull is the least interval that holds both.
func (i interval) hull(o interval) interval {
	if i.empty {
		return o
	}
	if o.empty {
		return i
	}
	if i.lo != nil && (o.lo == nil || compare(o.lo, i.lo) < 0 || compare(o.lo, i.lo) == 0 && !o.loOpen) {
		i.lo, i.loOpen = o.lo, o.loOpen
	}
	if i.hi != nil && (o.hi == nil || compare(o.hi, i.hi) > 0 || compare(o.hi, i.hi) == 0 && !o.hiOpen) {
		i.hi, i.hiOpen = o.hi, o.hiOpen
	}
	return i
}

// inside reports whether o holds all of i.
func (i interval) inside(o interval) bool {
	if i.empty {
		return true
	}
	below := o.lo == nil || i.lo != nil && (compare(i.lo, o.lo) > 0 || compare(i.lo, o.lo) == 0 && (i.loOpen || !o.loOpen))
	above := o.hi == nil || i.hi != nil && (compare(i.hi, o.hi) < 0 || compare(i.hi, o.hi) == 0 && (i.hiOpen || !o.hiOpen))
	return below && above
}

// holds reports whether x lies in it.
func (i interval) holds(x *big.Rat) bool { return interval{lo: x, hi: x}.inside(i) && !i.empty }

// whole gives the least interval with closed ends for the whole numbers in it.
func (i interval) whole() interval {
	if i.empty {
		return i
	}
	if i.lo != nil && (i.loOpen || !i.lo.IsInt()) {
		n := floor(i.lo)
		n.Add(n, big.NewInt(1))
		i.lo, i.loOpen = new(big.Rat).SetInt(n), false
	}
	if i.hi != nil && (i.hiOpen || !i.hi.IsInt()) {
		n := floor(i.hi)
		if i.hi.IsInt() {
			n.Sub(n, big.NewInt(1))
		}
		i.hi, i.hiOpen = new(big.Rat).SetInt(n), false
	}
	return i.meet(interval{})
}

// compare is a.Cmp(b), which takes memory also for whole numbers.
func compare(a, b *big.Rat) int {
	if a.IsInt() && b.IsInt() {
		return a.Num().Cmp(b.Num())
	}
	return a.Cmp(b)
}

func floor(r *big.Rat) *big.Int { return new(big.Int).Div(r.Num(), r.Denom()) }

// rounded gives the interval of the nearest doubles, each of which stands for
// the shortest decimal that reads back as it. It must be inside doubles.
func (i interval) rounded() interval {
	if i.empty {
		return i
	}
	return interval{lo: shortest(i.lo), hi: shortest(i.hi)}
}

// binary gives the interval of the nearest doubles with the values by which they
// are calculated with.
func (i interval) binary() interval {
	if i.empty {
		return i
	}
	value := func(r *big.Rat) *big.Rat {
		if r == nil {
			return nil
		}
		return new(big.Rat).SetFloat64(nearestDouble(r))
	}
	return interval{lo: value(i.lo), hi: value(i.hi)}
}

// nearestDouble is always finite.
func nearestDouble(r *big.Rat) float64 {
	f, _ := r.Float64()
	if math.IsInf(f, 0) {
		f = math.Copysign(math.MaxFloat64, f)
	}
	return f
}

func shortest(r *big.Rat) *big.Rat {
	if r == nil {
		return nil
	}
	text, err := json.Marshal(nearestDouble(r))
	if err != nil {
		return r
	}
	out, ok := new(big.Rat).SetString(string(text))
	if !ok {
		return r
	}
	return out
}

// schema is the schema of the numbers in it, whole ones or all.
func (i interval) schema(whole bool) *schemas.Schema {
	if i.empty {
		return nothing
	}
	if i.lo != nil && i.hi != nil && compare(i.lo, i.hi) == 0 {
		if n, ok := literalOf(i.lo); ok {
			return exactly(n)
		}
	}
	k := schemas.Keywords{Types: []string{"number"}}
	if whole {
		k.Types = []string{"integer"}
	}
	i.bounds(&k)
	return schemas.Make(k)
}

// bounds writes the interval as keywords.
func (i interval) bounds(k *schemas.Keywords) {
	if i.loOpen {
		k.ExclusiveMinimum = i.lo
	} else {
		k.Minimum = i.lo
	}
	if i.hiOpen {
		k.ExclusiveMaximum = i.hi
	} else {
		k.Maximum = i.hi
	}
}

// String writes the interval for a message.
func (i interval) String() string {
	write := func(r *big.Rat) string {
		if n, ok := literalOf(r); ok && len(n) <= 24 {
			return string(n)
		}
		return new(big.Float).SetRat(r).Text('g', 4)
	}
	switch {
	case i.empty:
		return "no number"
	case i.lo == nil && i.hi == nil:
		return "any number"
	case i.lo == nil:
		return "at most " + write(i.hi)
	case i.hi == nil:
		return "at least " + write(i.lo)
	}
	return "from " + write(i.lo) + " to " + write(i.hi)
}

// numbers gives an interval that holds all numbers of s.
func (j *judge) numbers(s *schemas.Schema) interval {
	left := fuel
	i := numbersOf(s, &left)
	if j.kinds(s)&isFraction == 0 {
		i = i.whole()
	}
	return i
}

func numbersOf(s *schemas.Schema, left *int) interval {
	if *left--; *left < 0 {
		return interval{}
	}
	c := s.Compiled()
	if c.Always != nil {
		return interval{empty: !*c.Always}
	}
	if len(c.Types) > 0 {
		some := kinds(0)
		for _, name := range c.Types {
			some |= kindOfName(name)
		}
		if some&isNumber == 0 {
			return interval{empty: true}
		}
	}
	all := interval{}
	for _, values := range [][]any{c.Constant, c.Enum} {
		if len(values) > 0 {
			some := interval{empty: true}
			for _, v := range values {
				if n, ok := v.(json.Number); ok {
					r, ok := rational(n)
					if !ok {
						return interval{}
					}
					some = some.hull(interval{lo: r, hi: r})
				}
			}
			all = all.meet(some)
		}
	}
	all = all.meet(interval{lo: c.Minimum, hi: c.Maximum})
	if c.ExclusiveMinimum != nil {
		all = all.meet(interval{lo: c.ExclusiveMinimum, loOpen: true})
	}
	if c.ExclusiveMaximum != nil {
		all = all.meet(interval{hi: c.ExclusiveMaximum, hiOpen: true})
	}
	if c.Ref != nil {
		all = all.meet(numbersOf(schemas.Wrap(c.Ref), left))
	}
	for _, a := range c.AllOf {
		all = all.meet(numbersOf(schemas.Wrap(a), left))
	}
	some := interval{empty: true}
	for _, a := range c.AnyOf {
		some = some.hull(numbersOf(schemas.Wrap(a), left))
	}
	if len(c.AnyOf) > 0 {
		all = all.meet(some)
	}
	some = interval{empty: true}
	for _, a := range c.OneOf {
		some = some.hull(numbersOf(schemas.Wrap(a), left))
	}
	if len(c.OneOf) > 0 {
		all = all.meet(some)
	}
	return all
}

// lengths gives an interval that holds the lengths of all strings, lists or
// maps of s: kind is one of isText, isList and isMap.
func (j *judge) lengths(s *schemas.Schema, kind kinds) interval {
	left := fuel
	most := int64(maxText)
	if kind != isText {
		most = maxItems
	}
	return lengthsOf(s, kind, &left).meet(between(0, most))
}

func lengthsOf(s *schemas.Schema, kind kinds, left *int) interval {
	if *left--; *left < 0 {
		return interval{}
	}
	c := s.Compiled()
	if c.Always != nil {
		return interval{empty: !*c.Always}
	}
	all := interval{}
	if len(c.Types) > 0 {
		some := kinds(0)
		for _, name := range c.Types {
			some |= kindOfName(name)
		}
		if some&kind == 0 {
			return interval{empty: true}
		}
	}
	for _, values := range [][]any{c.Constant, c.Enum} {
		if len(values) > 0 {
			some := interval{empty: true}
			for _, v := range values {
				if n := lengthOf(v); n >= 0 && kindOfValue(v) == kind {
					some = some.hull(between(n, n))
				}
			}
			all = all.meet(some)
		}
	}
	lo, hi := c.MinLength, c.MaxLength
	switch kind {
	case isText:
		if c.Pattern != nil {
			least, most := schemas.PatternLengths(c.Pattern)
			lo = max(lo, least)
			if most >= 0 && (hi < 0 || hi > most) {
				hi = most
			}
		}
	case isList:
		lo, hi = c.MinItems, c.MaxItems
		if no := c.Items2020; no != nil && no.Always != nil && !*no.Always && (hi < 0 || hi > len(c.PrefixItems)) {
			hi = len(c.PrefixItems)
		}
	case isMap:
		lo, hi = max(c.MinProperties, len(c.Required)), c.MaxProperties
		if no, ok := c.AdditionalProperties.(bool); ok && !no && len(c.PatternProperties) == 0 && (hi < 0 || hi > len(c.Properties)) {
			hi = len(c.Properties)
		}
	}
	if lo > 0 {
		all = all.meet(interval{lo: new(big.Rat).SetInt64(int64(lo))})
	}
	if hi >= 0 {
		all = all.meet(interval{hi: new(big.Rat).SetInt64(int64(hi))})
	}
	if c.Ref != nil {
		all = all.meet(lengthsOf(schemas.Wrap(c.Ref), kind, left))
	}
	for _, a := range c.AllOf {
		all = all.meet(lengthsOf(schemas.Wrap(a), kind, left))
	}
	some := interval{empty: true}
	for _, a := range c.AnyOf {
		some = some.hull(lengthsOf(schemas.Wrap(a), kind, left))
	}
	if len(c.AnyOf) > 0 {
		all = all.meet(some)
	}
	some = interval{empty: true}
	for _, a := range c.OneOf {
		some = some.hull(lengthsOf(schemas.Wrap(a), kind, left))
	}
	if len(c.OneOf) > 0 {
		all = all.meet(some)
	}
	return all
}

// lengthOf is the length of a value that has one, else -1.
func lengthOf(v any) int64 {
	switch v := v.(type) {
	case string:
		return int64(runes(v))
	case []any:
		return int64(len(v))
	case map[string]any:
		return int64(len(v))
	}
	return -1
}
