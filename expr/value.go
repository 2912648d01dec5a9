package expr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// adapter turns decoded JSON into CEL values, element by element as they are read.
type adapter struct{}

func (a adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case nil:
		return types.NullValue
	case json.Number:
		return number(v)
	case map[string]any:
		return sortedMap{types.NewStringInterfaceMap(a, v)}
	case []any:
		return types.NewDynamicList(a, v)
	}
	return types.DefaultTypeAdapter.NativeToValue(v)
}

func number(n json.Number) ref.Val {
	text := n.String()
	if !strings.ContainsAny(text, ".eE") {
		i, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return types.NewErr("the integer %.40s does not fit in 64 bits", text)
		}
		return types.Int(i)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return types.NewErr("the number %.40s does not fit in a double", text)
	}
	return types.Double(f)
}

// sortedMap is a map that iterates in the order of its keys. Its keys are of
// the types that CEL has keys of.
type sortedMap struct{ traits.Mapper }

func (m sortedMap) Iterator() traits.Iterator {
	var keys []ref.Val
	for it := m.Mapper.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, it.Next())
	}
	slices.SortFunc(keys, func(a, b ref.Val) int {
		if c := strings.Compare(a.Type().TypeName(), b.Type().TypeName()); c != 0 {
			return c
		}
		if comparer, ok := a.(traits.Comparer); ok {
			if c, ok := comparer.Compare(b).(types.Int); ok {
				return int(c)
			}
		}
		return strings.Compare(fmt.Sprint(a.Value()), fmt.Sprint(b.Value()))
	})
	return types.NewRefValList(adapter{}, keys).Iterator()
}

// Fold implements traits.Foldable in the order of the keys.
func (m sortedMap) Fold(f traits.Folder) {
	for it := m.Iterator(); it.HasNext() == types.True; {
		k := it.Next()
		if !f.FoldEntry(k, m.Get(k)) {
			return
		}
	}
}

// Equal compares with the map inside.
func (m sortedMap) Equal(other ref.Val) ref.Val {
	if o, ok := other.(sortedMap); ok {
		other = o.Mapper
	}
	return m.Mapper.Equal(other)
}

// ConvertToNative converts the map inside.
func (m sortedMap) ConvertToNative(t reflect.Type) (any, error) { return m.Mapper.ConvertToNative(t) }

var errResult = errors.New("the result is too large")

// result turns a CEL value into decoded JSON. room is what its strings may
// still take, in bytes.
func result(v ref.Val, room *int, depth int) (any, error) {
	if depth > MaxNesting*4 {
		return nil, errors.New("the result is nested too deeply")
	}
	if *room--; *room < 0 {
		return nil, errResult
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
		return double(float64(v))
	case types.String:
		if !utf8.ValidString(string(v)) {
			return nil, errors.New("the result holds a string that is not UTF-8")
		}
		if *room -= len(v); *room < 0 {
			return nil, errResult
		}
		return string(v), nil
	case *types.Optional:
		if !v.HasValue() {
			return nil, errors.New("the result is an optional without a value; say what it is then, with .orValue(…)")
		}
		return result(v.GetValue(), room, depth+1)
	case traits.Mapper:
		return object(v, room, depth)
	case traits.Lister:
		return list(v, room, depth)
	case *types.Err:
		return nil, v
	}
	return nil, fmt.Errorf("the result is of type %s, which JSON does not have", v.Type().TypeName())
}

// object converts a map. A map of the input is kept as it is, so that nothing
// in it changes.
func object(m traits.Mapper, room *int, depth int) (any, error) {
	if raw, ok := m.Value().(map[string]any); ok {
		return raw, spend(raw, room)
	}
	out := map[string]any{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		k := it.Next()
		key, ok := k.(types.String)
		if !ok {
			return nil, fmt.Errorf("the result has a key of type %s; JSON has strings only", k.Type().TypeName())
		}
		if *room -= len(key); *room < 0 {
			return nil, errResult
		}
		v, err := result(m.Get(k), room, depth+1)
		if err != nil {
			return nil, err
		}
		out[string(key)] = v
	}
	return out, nil
}

func list(l traits.Lister, room *int, depth int) (any, error) {
	if raw, ok := l.Value().([]any); ok {
		return raw, spend(raw, room)
	}
	out := []any{}
	for it := l.Iterator(); it.HasNext() == types.True; {
		v, err := result(it.Next(), room, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// spend counts what a value of the input takes of the room.
func spend(v any, room *int) error {
	if *room--; *room < 0 {
		return errResult
	}
	switch v := v.(type) {
	case string:
		*room -= len(v)
	case []any:
		for _, e := range v {
			if err := spend(e, room); err != nil {
				return err
			}
		}
	case map[string]any:
		// Whether the room suffices does not depend on the order.
		for k := range maps.Keys(v) {
			*room -= len(k)
			if err := spend(v[k], room); err != nil {
				return err
			}
		}
	}
	if *room < 0 {
		return errResult
	}
	return nil
}

// double writes a double in the form that encoding/json gives it.
func double(f float64) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, errors.New("the result is not a finite number")
	}
	b, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("write a number: %w", err)
	}
	return json.Number(bytes.TrimSpace(b)), nil
}
