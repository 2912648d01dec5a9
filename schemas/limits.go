package schemas

import (
	"encoding/json"
	"errors"
	"fmt"

	"chimera.ai/engine/internal/excerpt"
)

// Bounds of JSON texts. They are far above what people and tools write, and low enough
// that the worst document costs milliseconds, and little memory.
const (
	// MaxBytes is the length of a JSON text, in bytes.
	MaxBytes = 16 << 20
	// MaxNodes is the number of values in a JSON text, keys not counted.
	MaxNodes = 1 << 20
	// MaxDepth is how deep lists and objects may nest.
	MaxDepth = 128
	// MaxNumber is the length of a number's literal, in bytes.
	MaxNumber = 512
	// MaxExponent is the largest absolute value of a number's exponent. It
	// covers every float64, and keeps exact rationals small.
	MaxExponent = 400
)

// Bounds of schemas.
const (
	// MaxSchemaBytes is the length of a schema's text, in bytes.
	MaxSchemaBytes = 1 << 20
	// MaxSubschemas is the number of subschemas in one document, itself included.
	MaxSubschemas = 4096
	// MaxJoined is the number of subschemas in a schema that [Make] put together
	// from others, all of theirs included.
	MaxJoined = 16 * MaxSubschemas
	// MaxPattern is the length of one pattern, in bytes.
	MaxPattern = 8 << 10
	// MaxPatternSize is the size of one pattern's program, in instructions.
	MaxPatternSize = 8 << 10
	// MaxPatternTotal is the size of all patterns of a document together.
	MaxPatternTotal = 64 << 10
	// MaxChain is how many schemas can apply to one value one inside the other,
	// by $ref, allOf and the like.
	MaxChain = 64
	// MaxCount is the largest count (minLength, maxItems and so on). The library reads
	// counts as float64, which holds integers up to it exactly.
	MaxCount = 1 << 53
	// MaxWork bounds one validation, in units of about 10 ns.
	MaxWork = 100_000_000
)

// ErrTooLarge reports, by [errors.Is], a value or schema beyond a bound: it may be valid,
// but it is too large, too deep or too expensive to check.
var ErrTooLarge = errors.New("too large")

func tooLarge(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrTooLarge, fmt.Sprintf(format, args...))
}

// size is the measure of a decoded value.
type size struct {
	// nodes counts values.
	nodes int
	// bytes counts the bytes of strings, keys and numbers. A number counts its
	// exponent too, for that is how long it becomes as a rational.
	bytes int
	// depth is the deepest nesting of lists and objects.
	depth int
}

// measure returns the size of a decoded value. It refuses whatever is not JSON as
// [Decode] returns it.
func measure(v any) (size, error) {
	var sz size
	if err := sz.add(v, 0); err != nil {
		return size{}, err
	}
	return sz, nil
}

func (sz *size) add(v any, depth int) error {
	sz.nodes++
	if sz.nodes > MaxNodes {
		return tooLarge("more than %d values", MaxNodes)
	}
	switch v := v.(type) {
	case nil, bool:
	case string:
		sz.bytes += len(v)
	case json.Number:
		weight, err := checkNumber(string(v))
		if err != nil {
			return err
		}
		sz.bytes += weight
	case []any:
		if err := sz.enter(depth); err != nil {
			return err
		}
		for _, e := range v {
			if err := sz.add(e, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		if err := sz.enter(depth); err != nil {
			return err
		}
		for k, e := range v {
			sz.bytes += len(k)
			if err := sz.add(e, depth+1); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("a value of Go type %T is not decoded JSON", v)
	}
	if sz.bytes > MaxBytes {
		return tooLarge("more than %d bytes of text", MaxBytes)
	}
	return nil
}

func (sz *size) enter(depth int) error {
	if depth >= MaxDepth {
		return tooLarge("nested deeper than %d", MaxDepth)
	}
	sz.depth = max(sz.depth, depth+1)
	return nil
}

// checkNumber checks that s is one JSON number within bounds, and returns its
// weight: its length and what its exponent adds.
func checkNumber(s string) (int, error) {
	n, exponent, ok := scanNumber(s)
	switch {
	case len(s) > MaxNumber:
		return 0, tooLarge("a number of %d digits, more than %d", len(s), MaxNumber)
	case !ok || n != len(s):
		return 0, fmt.Errorf("%q is not a JSON number", s)
	case exponent > MaxExponent:
		return 0, tooLarge("the exponent of %s is beyond %d", excerpt.Clip(s, 40), MaxExponent)
	}
	return len(s) + exponent, nil
}

// scanNumber reads a JSON number at the start of s: its length and the absolute
// value of its exponent, which saturates.
func scanNumber[T string | []byte](s T) (n, exponent int, ok bool) {
	digits := func() bool {
		start := n
		for n < len(s) && '0' <= s[n] && s[n] <= '9' {
			n++
		}
		return n > start
	}
	if n < len(s) && s[n] == '-' {
		n++
	}
	if n < len(s) && s[n] == '0' {
		n++
	} else if !digits() {
		return n, 0, false
	}
	if n < len(s) && s[n] == '.' {
		n++
		if !digits() {
			return n, 0, false
		}
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		n++
		if n < len(s) && (s[n] == '+' || s[n] == '-') {
			n++
		}
		start := n
		if !digits() {
			return n, 0, false
		}
		for _, c := range []byte(s[start:n]) {
			exponent = min(exponent*10+int(c-'0'), 1<<30)
		}
	}
	return n, exponent, true
}
