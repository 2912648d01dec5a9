package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// adapter shows decoded JSON to CEL, one value at a time as it is touched.
type adapter struct{ base types.Adapter }

// NativeToValue implements [types.Adapter].
func (a adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case nil:
		return types.NullValue
	case json.Number:
		return number(v)
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case []any:
		return types.NewList[any](a, v)
	}
	return a.base.NativeToValue(v)
}

// budget bounds a result that is being built, and the steps that all its
// expressions take together.
type budget struct{ items, text, steps int }

func newBudget() *budget { return &budget{items: maxItems, text: maxText, steps: MaxCost} }

var errSteps = fmt.Errorf("the evaluation takes more than %d steps", MaxCost)

var errResult = fmt.Errorf("the result is larger than %d values or %d bytes of text", maxItems, maxText)

func (b *budget) item(depth int) error {
	if b.items--; b.items < 0 {
		return errResult
	}
	if depth > maxDepth {
		return fmt.Errorf("the result nests deeper than %d", maxDepth)
	}
	return nil
}

// spend counts the steps of an evaluation that is over. Each evaluation is
// bounded by itself, so that all take less than twice the bound.
func (b *budget) spend(n uint64) error {
	if n > uint64(b.steps) {
		return errSteps
	}
	b.steps -= int(n)
	return nil
}

func (b *budget) take(n int) error {
	if b.text -= n; b.text < 0 {
		return errResult
	}
	return nil
}

// pass counts a value that is decoded JSON already.
func (b *budget) pass(v any, depth int) error {
	if err := b.item(depth); err != nil {
		return err
	}
	switch v := v.(type) {
	case nil, bool:
	case string:
		return b.take(len(v))
	case json.Number:
		return b.take(len(v))
	case []any:
		for _, e := range v {
			if err := b.pass(e, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		for k, e := range v {
			if err := b.take(len(k)); err != nil {
				return err
			}
			if err := b.pass(e, depth+1); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("a value of Go type %T is not decoded JSON", v)
	}
	return nil
}

// result turns a CEL value into decoded JSON.
func (b *budget) result(v ref.Val, depth int) (any, error) {
	switch v := v.(type) {
	case traits.Lister:
		if whole, ok := v.Value().([]any); ok {
			return whole, b.pass(whole, depth)
		}
		return b.list(v, depth)
	case traits.Mapper:
		if whole, ok := v.Value().(map[string]any); ok {
			return whole, b.pass(whole, depth)
		}
		return b.object(v, depth)
	}
	if err := b.item(depth); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return json.Number(strconv.FormatInt(int64(v), 10)), nil
	case types.Uint:
		return json.Number(strconv.FormatUint(uint64(v), 10)), nil
	case types.Double:
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("%v is no JSON number", float64(v))
		}
		raw, err := json.Marshal(float64(v))
		return json.Number(raw), err
	case *exact:
		return v.literal, b.take(len(v.literal))
	case types.String:
		if !utf8.ValidString(string(v)) {
			return nil, errors.New("a string that is not UTF-8")
		}
		return string(v), b.take(len(v))
	case *types.Err:
		return nil, v
	}
	return nil, fmt.Errorf("%s is no JSON value", typeName(v))
}

func (b *budget) list(l traits.Lister, depth int) (any, error) {
	if err := b.item(depth); err != nil {
		return nil, err
	}
	n, _ := l.Size().(types.Int)
	if int64(n) > int64(b.items) {
		return nil, errResult
	}
	out := make([]any, 0, n)
	for i := range n {
		e, err := b.result(l.Get(i), depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func (b *budget) object(m traits.Mapper, depth int) (any, error) {
	if err := b.item(depth); err != nil {
		return nil, err
	}
	out := map[string]any{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("a map has a key of type %s; JSON has strings only", typeName(key))
		}
		v, _ := m.Find(key)
		e, err := b.result(v, depth+1)
		if err != nil {
			return nil, err
		}
		if !utf8.ValidString(string(name)) {
			return nil, errors.New("a key that is not UTF-8")
		}
		if err := b.take(len(name)); err != nil {
			return nil, err
		}
		out[string(name)] = e
	}
	return out, nil
}

// typeName is the CEL name of a value's type.
func typeName(v ref.Val) string {
	if t, ok := v.Type().(*types.Type); ok {
		return t.TypeName()
	}
	return v.Type().TypeName()
}
