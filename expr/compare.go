package expr

import (
	"cmp"
	"slices"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

func equals(m meter, a, b ref.Val) ref.Val { return types.Bool(m.equal(a, b)) }

func notEquals(m meter, a, b ref.Val) ref.Val { return types.Bool(!m.equal(a, b)) }

func hasValue(m meter, args []ref.Val) ref.Val {
	o, ok := args[0].(*types.Optional)
	switch {
	case !ok || len(args) > 2:
		return mismatch("hasValue", args...)
	case len(args) == 1:
		return types.Bool(o.HasValue())
	}
	return types.Bool(o.HasValue() && m.equal(o.GetValue(), args[1]))
}

// equal is CEL's equality: numbers by value, everything else by type and value.
func (m meter) equal(a, b ref.Val) bool {
	m.charge(1)
	switch a := a.(type) {
	case traits.Lister:
		b, ok := b.(traits.Lister)
		return ok && m.equalLists(a, b)
	case traits.Mapper:
		b, ok := b.(traits.Mapper)
		return ok && m.equalMaps(a, b)
	case *types.Optional:
		b, ok := b.(*types.Optional)
		if !ok || a.HasValue() != b.HasValue() {
			return false
		}
		return !a.HasValue() || m.equal(a.GetValue(), b.GetValue())
	case types.String:
		b, ok := b.(types.String)
		if ok {
			m.text(min(len(a), len(b)))
		}
		return ok && a == b
	case types.Int, types.Uint, types.Double, *exact:
		m.number(a, b)
		order, ok := compareNumbers(a, b)
		return ok && order == 0
	}
	if types.IsError(a) || types.IsError(b) {
		return false
	}
	return types.Equal(a, b) == types.True
}

func (m meter) equalLists(a, b traits.Lister) bool {
	n, _ := a.Size().(types.Int)
	if a.Size().Equal(b.Size()) != types.True {
		return false
	}
	for i := range n {
		if !m.equal(a.Get(i), b.Get(i)) {
			return false
		}
	}
	return true
}

// equalMaps compares in the order of keys, so that the cost is the same each time.
func (m meter) equalMaps(a, b traits.Mapper) bool {
	if a.Size().Equal(b.Size()) != types.True {
		return false
	}
	for _, key := range m.keys(a) {
		other, found := b.Find(key)
		if !found || types.IsError(other) {
			return false
		}
		own, _ := a.Find(key)
		if !m.equal(own, other) {
			return false
		}
	}
	return true
}

// keys lists the keys of a map in an order that is the same each time.
func (m meter) keys(a traits.Mapper) []ref.Val {
	n, _ := a.Size().(types.Int)
	m.charge(2 * int(n))
	keys := make([]ref.Val, 0, n)
	for it := a.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, it.Next())
	}
	slices.SortFunc(keys, func(x, y ref.Val) int {
		if c := cmp.Compare(typeName(x), typeName(y)); c != 0 {
			return c
		}
		if c, ok := x.(traits.Comparer); ok {
			if r, ok := c.Compare(y).(types.Int); ok {
				return int(r)
			}
		}
		return 0
	})
	return keys
}

func in(m meter, one, of ref.Val) ref.Val {
	switch all := of.(type) {
	case traits.Lister:
		n, _ := all.Size().(types.Int)
		for i := range n {
			if m.equal(one, all.Get(i)) {
				return types.True
			}
		}
		return types.False
	case traits.Mapper:
		_, found := all.Find(one)
		return types.Bool(found)
	}
	return mismatch("in", one, of)
}
