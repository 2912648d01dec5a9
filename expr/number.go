package expr

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/schemas"
)

// number gives the CEL value of a JSON number: an int where the number is whole,
// however it is written, else a double; and an exact number where neither of
// these holds it.
func number(n json.Number) ref.Val {
	s := string(n)
	if len(s) < 19 {
		// The usual case: what has only digits fits, and anything else fails here.
		if i, ok := small(s); ok {
			return types.Int(i)
		}
	}
	d, ok := parseDecimal(s)
	if !ok {
		return types.NewErr("%s is not a JSON number within bounds", excerpt.Clip(s, 40))
	}
	if i, ok := d.int64(); ok {
		return types.Int(i)
	}
	if f, ok := d.double(); ok {
		return f
	}
	return &exact{decimal: d, literal: n}
}

// small reads an integer of less than 19 bytes without fraction and exponent.
func small(s string) (i int64, ok bool) {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" {
		return 0, false
	}
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
		i = i*10 + int64(c-'0')
	}
	if len(digits) < len(s) {
		i = -i
	}
	return i, true
}

// rational gives the exact value of a JSON number.
func rational(n json.Number) (*big.Rat, bool) {
	if i, ok := small(string(n)); ok && len(n) < 19 {
		return new(big.Rat).SetInt64(i), true
	}
	return new(big.Rat).SetString(string(n))
}

// decimal is a number in the one form that a number has: digits without zeros at
// their start and end, behind a point, times ten to the power of point. Zero has
// no digits, no sign and point 0.
type decimal struct {
	negative bool
	digits   string
	point    int
}

// The digits that an int of 64 bits and a double need at most.
const (
	intDigits    = 19
	doubleDigits = 17
)

// parseDecimal reads a JSON number within the bounds of package schemas.
func parseDecimal(s string) (decimal, bool) {
	if len(s) > schemas.MaxNumber {
		return decimal{}, false
	}
	var d decimal
	d.negative = strings.HasPrefix(s, "-")
	mantissa := strings.TrimPrefix(s, "-")
	if e := strings.IndexAny(mantissa, "eE"); e >= 0 {
		exponent, err := strconv.Atoi(mantissa[e+1:])
		if err != nil || exponent > schemas.MaxExponent || exponent < -schemas.MaxExponent {
			return decimal{}, false
		}
		mantissa, d.point = mantissa[:e], exponent
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	for _, c := range []byte(whole + fraction) {
		if c < '0' || c > '9' {
			return decimal{}, false
		}
	}
	if whole == "" {
		return decimal{}, false
	}
	d.point += len(whole)
	return d.normal(whole + fraction), true
}

// normal gives d with these digits.
func (d decimal) normal(digits string) decimal {
	short := strings.TrimLeft(digits, "0")
	d.point -= len(digits) - len(short)
	d.digits = strings.TrimRight(short, "0")
	if d.digits == "" {
		return decimal{}
	}
	return d
}

func (d decimal) whole() bool { return len(d.digits) <= d.point }

// int64 gives a whole number that fits.
func (d decimal) int64() (int64, bool) {
	if !d.whole() || d.point > intDigits {
		return 0, false
	}
	i, err := strconv.ParseInt(d.text(), 10, 64)
	return i, err == nil
}

// uint64 gives a whole number that fits.
func (d decimal) uint64() (uint64, bool) {
	if !d.whole() || d.point > intDigits+1 {
		return 0, false
	}
	u, err := strconv.ParseUint(d.text(), 10, 64)
	return u, err == nil
}

// double gives a number that is not whole where a double holds it: the double's
// shortest text is that number.
func (d decimal) double() (types.Double, bool) {
	if d.whole() || len(d.digits) > doubleDigits {
		return 0, false
	}
	f, err := d.nearest()
	return f, err == nil && decimalOf(float64(f)) == d
}

// nearest gives the double that is nearest to d.
func (d decimal) nearest() (types.Double, error) {
	sign := ""
	if d.negative {
		sign = "-"
	}
	f, err := strconv.ParseFloat(sign+"."+d.digits+"0e"+strconv.Itoa(d.point), 64)
	if err != nil {
		return 0, fmt.Errorf("the number does not fit in a double")
	}
	return types.Double(f), nil
}

// text writes a whole number with all its digits.
func (d decimal) text() string {
	if d.digits == "" {
		return "0"
	}
	sign := ""
	if d.negative {
		sign = "-"
	}
	return sign + d.digits + strings.Repeat("0", d.point-len(d.digits))
}

// plain writes d with all its digits and without exponent.
func (d decimal) plain() string {
	if d.whole() {
		return d.text()
	}
	sign, head := "", "0"
	if d.negative {
		sign = "-"
	}
	if d.point > 0 {
		return sign + d.digits[:d.point] + "." + d.digits[d.point:]
	}
	return sign + head + "." + strings.Repeat("0", -d.point) + d.digits
}

// trunc gives the whole part of d.
func (d decimal) trunc() decimal {
	switch {
	case d.whole():
		return d
	case d.point <= 0:
		return decimal{}
	}
	return d.normal(d.digits[:d.point])
}

// decimalOf gives the number that a finite double stands for: the shortest that
// reads back as it.
func decimalOf(f float64) decimal {
	var buf [32]byte
	s := string(strconv.AppendFloat(buf[:0], f, 'e', -1, 64))
	d, _ := parseDecimal(s)
	return d
}

// compare orders by value. It takes time in proportion to the digits, whatever
// the exponents.
func (d decimal) compare(o decimal) int {
	switch {
	case d == o:
		return 0
	case d.sign() != o.sign():
		return cmp.Compare(d.sign(), o.sign())
	case d.negative:
		return cmp.Or(cmp.Compare(o.point, d.point), cmp.Compare(o.digits, d.digits))
	}
	// Digits are a fraction, so their order is that of their texts.
	return cmp.Or(cmp.Compare(d.point, o.point), cmp.Compare(d.digits, o.digits))
}

func (d decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	}
	return 1
}

// exact is a number that neither an int of 64 bits nor a double holds. Its type
// is int where it is whole, else double.
type exact struct {
	decimal
	literal json.Number
}

// Type implements [ref.Val].
func (e *exact) Type() ref.Type {
	if e.whole() {
		return types.IntType
	}
	return types.DoubleType
}

// Value implements [ref.Val].
func (e *exact) Value() any { return e.literal }

// Equal implements [ref.Val].
func (e *exact) Equal(other ref.Val) ref.Val {
	c, ok := compareNumbers(e, other)
	return types.Bool(ok && c == 0)
}

// IsZeroValue implements the library's trait: zero is an int.
func (e *exact) IsZeroValue() bool { return false }

// ConvertToNative implements [ref.Val].
func (e *exact) ConvertToNative(to reflect.Type) (any, error) {
	if v := reflect.ValueOf(e.literal); v.Type().AssignableTo(to) {
		return e.literal, nil
	}
	return nil, fmt.Errorf("the number %s cannot be a %v", excerpt.Clip(string(e.literal), 40), to)
}

// ConvertToType implements [ref.Val].
func (e *exact) ConvertToType(to ref.Type) ref.Val {
	switch to {
	case types.TypeType:
		t, _ := e.Type().(*types.Type)
		return t
	case types.StringType:
		if e.whole() {
			return types.String(e.text())
		}
		return types.String(e.literal)
	case types.DoubleType:
		if f, err := e.nearest(); err == nil {
			return f
		}
		return types.NewErr("the number %s does not fit in a double", excerpt.Clip(string(e.literal), 40))
	case types.IntType:
		if i, ok := e.trunc().int64(); ok {
			return types.Int(i)
		}
		return e.tooLarge()
	case types.UintType:
		if u, ok := e.trunc().uint64(); ok {
			return types.Uint(u)
		}
		return types.NewErr("the number %s does not fit in 64 bits without a sign", excerpt.Clip(string(e.literal), 40))
	}
	return types.NewErr("type conversion error from '%s' to '%s'", typeName(e), to.TypeName())
}

func (e *exact) tooLarge() ref.Val {
	return types.NewErr("the number %s does not fit in 64 bits", excerpt.Clip(string(e.literal), 40))
}

// The library takes a qualifier where an index is not of its own types.
var _ interpreter.Qualifier = (*exact)(nil)

// ID implements [interpreter.Qualifier].
func (e *exact) ID() int64 { return noPlace }

// IsOptional implements [interpreter.Qualifier].
func (e *exact) IsOptional() bool { return false }

// Qualify implements [interpreter.Qualifier]: nothing stands at such an index.
func (e *exact) Qualify(interpreter.Activation, any) (any, error) {
	return nil, fmt.Errorf("no such index: %s", excerpt.Clip(string(e.literal), 40))
}

// QualifyIfPresent implements [interpreter.Qualifier].
func (e *exact) QualifyIfPresent(vars interpreter.Activation, of any, _ bool) (any, bool, error) {
	if e.whole() {
		return nil, false, nil
	}
	_, err := e.Qualify(vars, of)
	return nil, false, err
}

// safeInt is the largest whole number below which all are doubles.
const safeInt = 1 << 53

// compareNumbers orders two numbers of any types by value; ok is false where
// they are not both numbers. A double stands for the shortest decimal number
// that reads back as it, which is what it becomes in a result.
func compareNumbers(a, b ref.Val) (order int, ok bool) {
	switch x := a.(type) {
	case types.Int:
		switch y := b.(type) {
		case types.Int:
			return cmp.Compare(x, y), true
		case types.Double:
			if -safeInt <= x && x <= safeInt && !math.IsNaN(float64(y)) {
				return cmp.Compare(types.Double(x), y), true
			}
		}
	case types.Double:
		switch y := b.(type) {
		case types.Double:
			if !math.IsNaN(float64(x)) && !math.IsNaN(float64(y)) {
				return cmp.Compare(x, y), true
			}
		case types.Int:
			if -safeInt <= y && y <= safeInt && !math.IsNaN(float64(x)) {
				return cmp.Compare(x, types.Double(y)), true
			}
		}
	}
	x, ok := decimalFrom(a)
	if !ok {
		return 0, false
	}
	y, ok := decimalFrom(b)
	if !ok {
		return 0, false
	}
	return x.compare(y), true
}

// decimalFrom gives the value of a number.
func decimalFrom(v ref.Val) (decimal, bool) {
	switch v := v.(type) {
	case *exact:
		return v.decimal, true
	case types.Int:
		return parseDecimal(strconv.FormatInt(int64(v), 10))
	case types.Uint:
		return parseDecimal(strconv.FormatUint(uint64(v), 10))
	case types.Double:
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return decimal{}, false
		}
		return decimalOf(float64(v)), true
	}
	return decimal{}, false
}
