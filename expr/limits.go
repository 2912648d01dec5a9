package expr

import "chimera.ai/engine/schemas"

// Bounds of expressions.
const (
	// MaxSource is the length of one expression, in bytes.
	MaxSource = 8 << 10
	// MaxNesting is how deep an expression may nest.
	MaxNesting = 64
	// MaxPattern is the size of a pattern's program, in instructions.
	MaxPattern = 2 << 10
	// MaxEstimate bounds the steps of an expression as they are estimated when it
	// is compiled, where a list of unknown length counts as 1,000.
	MaxEstimate = 100_000_000
	// MaxCost bounds the evaluation of one predicate or one template, in steps of
	// about 100 ns; text counts a step for 16 bytes, a matched pattern for 32
	// instructions times bytes.
	MaxCost = 2_000_000
)

// Bounds of values that evaluation builds; they are those of JSON texts.
const (
	maxText  = schemas.MaxBytes
	maxItems = schemas.MaxNodes
	maxDepth = schemas.MaxDepth
)

const (
	maxNodes    = 4 << 10
	assumedSize = 1000
)
