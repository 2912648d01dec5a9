package expr

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"chimera.ai/engine/schemas"
)

// functionList guards the operand of a comprehension. No source can contain its
// name.
const functionList = "@list"

// functionDecimal moves the point of a whole number to the left: decimal(1250, 2)
// is 12.5. It is ours, for amounts in minor units.
const functionDecimal = "decimal"

// functions declares what the standard library does not. Names and meaning are
// those of CEL's strings extension, but for decimal; indexes count code points. All of them are
// metered, so what is declared here is never called itself.
func functions() []cel.EnvOption {
	listOf := cel.ListType(cel.TypeParamType("A"))
	text, whole, texts := cel.StringType, cel.IntType, cel.ListType(cel.StringType)
	unplanned := cel.FunctionBinding(func(...ref.Val) ref.Val {
		return types.NewErr("a function was planned without its meter")
	})
	member := func(id string, result *cel.Type, args ...*cel.Type) cel.FunctionOpt {
		return cel.MemberOverload(id, args, result, unplanned)
	}
	return []cel.EnvOption{
		cel.Function(functionList, cel.Overload("list_guard", []*cel.Type{listOf}, listOf, unplanned)),
		cel.Function("lowerAscii", member("string_lower_ascii", text, text)),
		cel.Function("upperAscii", member("string_upper_ascii", text, text)),
		cel.Function("trim", member("string_trim", text, text)),
		cel.Function("split", member("string_split_string", texts, text, text)),
		cel.Function("join", member("list_join", text, texts), member("list_join_string", text, texts, text)),
		cel.Function("replace", member("string_replace_string_string", text, text, text, text)),
		cel.Function("substring", member("string_substring_int", text, text, whole), member("string_substring_int_int", text, text, whole, whole)),
		cel.Function("indexOf", member("string_index_of_string", whole, text, text)),
		cel.Function(functionDecimal, cel.Overload("decimal_int_int", []*cel.Type{whole, whole}, cel.DynType, unplanned)),
	}
}

// add is "+". Lists are copied, so that no list is a tree of others.
func add(m meter, left, right ref.Val) ref.Val {
	switch a := left.(type) {
	case types.String:
		b, ok := right.(types.String)
		if !ok {
			return mismatch("+", left, right)
		}
		if len(a)+len(b) > maxText {
			return tooLong("a string", maxText)
		}
		m.text(len(a) + len(b))
		return a + b
	case types.Bytes:
		b, ok := right.(types.Bytes)
		if !ok {
			return mismatch("+", left, right)
		}
		if len(a)+len(b) > maxText {
			return tooLong("a byte sequence", maxText)
		}
		m.text(len(a) + len(b))
		return a.Add(b)
	case traits.Lister:
		b, ok := right.(traits.Lister)
		if !ok {
			return mismatch("+", left, right)
		}
		return m.concat(a, b)
	}
	return sum(m, left, right)
}

func (m meter) concat(a, b traits.Lister) ref.Val {
	na, _ := a.Size().(types.Int)
	nb, _ := b.Size().(types.Int)
	if na+nb > maxItems {
		return tooLong("a list", maxItems)
	}
	if _, building := a.(traits.MutableLister); building {
		// A comprehension's own list, which grows in place.
		m.charge(int(nb))
		return a.Add(b)
	}
	m.charge(int(na + nb))
	all := make([]ref.Val, 0, na+nb)
	for i := range na {
		all = append(all, a.Get(i))
	}
	for i := range nb {
		all = append(all, b.Get(i))
	}
	return types.NewRefValList(adapter{types.DefaultTypeAdapter}, all)
}

// matches is planned with its pattern, which is known to be a constant.
func matches(call interpreter.InterpretableCall) (operation, error) {
	args := call.Args()
	pattern := ""
	if c, ok := args[len(args)-1].(interpreter.InterpretableConst); ok {
		s, _ := c.Value().(types.String)
		pattern = string(s)
	}
	n, err := schemas.PatternSize(pattern)
	if err != nil {
		return nil, fmt.Errorf("plan matches: %w", err)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("plan matches: %w", err)
	}
	return func(m meter, args []ref.Val) ref.Val {
		s, ok := args[0].(types.String)
		if !ok {
			return mismatch("matches", args...)
		}
		m.charge(len(s) * n / 32)
		return types.Bool(re.MatchString(string(s)))
	}, nil
}

// texts gives the arguments as strings, and charges for their length.
func (m meter) texts(args []ref.Val, n int) ([]string, bool) {
	if len(args) != n {
		return nil, false
	}
	out := make([]string, n)
	for i, arg := range args {
		s, ok := arg.(types.String)
		if !ok {
			return nil, false
		}
		m.text(len(s))
		out[i] = string(s)
	}
	return out, true
}

func lowerASCII(m meter, args []ref.Val) ref.Val {
	s, ok := m.texts(args, 1)
	if !ok {
		return mismatch("lowerAscii", args...)
	}
	return types.String(strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s[0]))
}

func upperASCII(m meter, args []ref.Val) ref.Val {
	s, ok := m.texts(args, 1)
	if !ok {
		return mismatch("upperAscii", args...)
	}
	return types.String(strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			r -= 'a' - 'A'
		}
		return r
	}, s[0]))
}

func trim(m meter, args []ref.Val) ref.Val {
	s, ok := m.texts(args, 1)
	if !ok {
		return mismatch("trim", args...)
	}
	return types.String(strings.TrimSpace(s[0]))
}

func split(m meter, args []ref.Val) ref.Val {
	s, ok := m.texts(args, 2)
	if !ok {
		return mismatch("split", args...)
	}
	n := strings.Count(s[0], s[1]) + 1
	if n > maxItems {
		return tooLong("a list", maxItems)
	}
	m.charge(n)
	parts := make([]ref.Val, 0, n)
	for _, p := range strings.Split(s[0], s[1]) {
		parts = append(parts, types.String(p))
	}
	return types.NewRefValList(adapter{types.DefaultTypeAdapter}, parts)
}

func join(m meter, args []ref.Val) ref.Val {
	list, ok := args[0].(traits.Lister)
	if !ok || len(args) > 2 {
		return mismatch("join", args...)
	}
	sep := types.String("")
	if len(args) == 2 {
		if sep, ok = args[1].(types.String); !ok {
			return mismatch("join", args...)
		}
	}
	var sb strings.Builder
	n, _ := list.Size().(types.Int)
	for i := range n {
		s, ok := list.Get(i).(types.String)
		if !ok {
			return types.NewErr("join takes a list of strings; item %d is of type %s", i, typeName(list.Get(i)))
		}
		if i > 0 {
			sb.WriteString(string(sep))
		}
		sb.WriteString(string(s))
		if sb.Len() > maxText {
			return tooLong("a string", maxText)
		}
		m.charge(1 + (len(s)+len(sep))/bytesPerStep)
	}
	return types.String(sb.String())
}

func replace(m meter, args []ref.Val) ref.Val {
	s, ok := m.texts(args, 3)
	if !ok {
		return mismatch("replace", args...)
	}
	n := len(s[0]) + strings.Count(s[0], s[1])*(len(s[2])-len(s[1]))
	if n > maxText {
		return tooLong("a string", maxText)
	}
	m.text(n)
	return types.String(strings.ReplaceAll(s[0], s[1], s[2]))
}

func substring(m meter, args []ref.Val) ref.Val {
	s, ok := args[0].(types.String)
	if !ok || len(args) > 3 {
		return mismatch("substring", args...)
	}
	m.text(len(s))
	ends := []int{0, utf8.RuneCountInString(string(s))}
	for i, arg := range args[1:] {
		n, ok := arg.(types.Int)
		if !ok {
			return mismatch("substring", args...)
		}
		if n < 0 || n > types.Int(utf8.RuneCountInString(string(s))) {
			return types.NewErr("index out of range: %d", n)
		}
		ends[i] = int(n)
	}
	if ends[0] > ends[1] {
		return types.NewErr("invalid substring range: %d to %d", ends[0], ends[1])
	}
	return s[byteOffset(string(s), ends[0]):byteOffset(string(s), ends[1])]
}

func indexOf(m meter, args []ref.Val) ref.Val {
	s, ok := m.texts(args, 2)
	if !ok {
		return mismatch("indexOf", args...)
	}
	n := strings.Index(s[0], s[1])
	if n < 0 {
		return types.Int(-1)
	}
	return types.Int(utf8.RuneCountInString(s[0][:n]))
}

// maxPlaces is how far decimal moves the point: an int has no more digits.
const maxPlaces = 18

// moved is decimal. Its result is exact: an int, a double, or a number that
// neither of them holds.
func moved(_ meter, args []ref.Val) ref.Val {
	n, ok := args[0].(types.Int)
	places, whole := args[1].(types.Int)
	if !ok || !whole {
		return mismatch(functionDecimal, args...)
	}
	if places < 0 || places > maxPlaces {
		return types.NewErr("decimal moves the point by 0 to %d places, not by %d", maxPlaces, places)
	}
	d, _ := decimalFrom(n)
	if d.digits != "" {
		d.point -= int(places)
	}
	return number(json.Number(d.plain()))
}
