// Package expr is the expressions of plans: CEL predicates and JSON templates
// whose strings hold CEL in ${…}.
//
// An expression is a pure function of the names in its [Scope]. There is no
// clock, no randomness and no time zone; maps are iterated in the order of
// their keys; the work and the memory of an evaluation are bounded by CEL's own
// cost model, so the bound is the same on every machine.
//
// Numbers: a JSON integer is a CEL int, and comes back as the same digits. An
// integer that does not fit in 64 bits passes through an expression that only
// hands it on inside an object or a list; to compute with it is an error. Every
// other number is a double. A result that is NaN or infinite is an error.
//
// Names are dynamically typed: what an expression is applied to is checked when
// it is evaluated.
package expr

// Scope says which names an expression may read.
type Scope int

// The scopes.
const (
	// When: predicate of a conditional edge; value, output, input.
	When Scope = iota
	// Transform: transform of a data or conditional edge; value, output, input.
	Transform
	// With: input.
	With
	// ErrorWhen: predicate of an error edge; error, input.
	ErrorWhen
	// ErrorTransform: value, error, input; value is the error payload.
	ErrorTransform
	// Compensate: args, output, error, input.
	Compensate
)

// Names lists what an expression of the scope may read.
func (s Scope) Names() []string {
	switch s {
	case When, Transform:
		return []string{"value", "output", "input"}
	case With:
		return []string{"input"}
	case ErrorWhen:
		return []string{"error", "input"}
	case ErrorTransform:
		return []string{"value", "error", "input"}
	case Compensate:
		return []string{"args", "output", "error", "input"}
	}
	return nil
}

// Vars are the values of names: decoded JSON with json.Number. A name that is
// missing is an error only where it is read.
type Vars map[string]any

// Error is what is wrong with an expression.
type Error struct {
	// Offset counts bytes in the expression's text.
	Offset  int
	Message string
}

func (e *Error) Error() string { return e.Message }

// Bounds of expressions.
const (
	// MaxSource bounds the text of one expression, in bytes.
	MaxSource = 8 << 10
	// MaxNodes and MaxNesting bound its syntax tree.
	MaxNodes   = 4_000
	MaxNesting = 64
	// MaxCost bounds one evaluation, in units of CEL's cost model.
	MaxCost = 1_000_000
	// MaxElements bounds the values that one evaluation holds, in elements.
	MaxElements = 1_000_000
	// MaxResult bounds the text of one result, in bytes of its strings.
	MaxResult = 16 << 20
	// maxRegexp bounds the compiled size of a pattern.
	maxRegexp = 2_000
)
