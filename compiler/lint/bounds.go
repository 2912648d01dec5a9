package lint

import "chimera.ai/engine/internal/fields"

// Bounds of the plan language. They keep compilation and runs within known
// memory and time; what lies beyond is refused with plan/limits (numbers and
// sizes) or plan/schema (names).
const (
	// MaxNodes and MaxEdges bound one plan.
	MaxNodes = 100_000
	MaxEdges = 400_000
	// MaxDocuments bounds the plans in one file: the root and its sub-plans.
	MaxDocuments = 64
	// MaxDeadlineMS bounds limits.deadline_ms: 366 days.
	MaxDeadlineMS = 366 * 24 * 60 * 60 * 1000
	// MaxParallel bounds limits.max_parallel and for_each.max_parallel.
	MaxParallel = 10_000
	// MaxIterations bounds cycles.max_iterations.
	MaxIterations = 10_000
	// MaxItems bounds for_each.max_items.
	MaxItems = 100_000
	// MaxExpiresMS bounds an approval's expires_in_ms: 90 days.
	MaxExpiresMS = 90 * 24 * 60 * 60 * 1000
	// MaxUndo bounds the effects that undo one effect.
	MaxUndo = 64
	// MaxBarriers bounds the barriers of one plan.
	MaxBarriers = 256
	// MaxMembers bounds the nodes that share a barrier, as stores do: one signature is for
	// the actions of all of them.
	MaxMembers = 256
	// MaxExcluded bounds the excluded persons of an approval: all of them are shown to those
	// who sign.
	MaxExcluded = 60
	// MaxDefinitions bounds the entries of a plan's defs, MaxUses those that one of
	// them, or a schema, reaches through references.
	MaxDefinitions = 10_000
	MaxUses        = 256
	// MaxText bounds a description, a reason and the like, in bytes.
	MaxText = fields.MaxText
	// MaxFindings bounds the diagnostics of one compilation; the last one then
	// says that there are more.
	MaxFindings = fields.MaxFindings
	// MaxAtoms is the number of conditions up to which the certainty of $output
	// is exact.
	MaxAtoms = 16
)

// Defaults of fields that a plan may leave out.
const (
	// DefaultParallel is limits.max_parallel.
	DefaultParallel = 32
	// DefaultDeadlineMS is limits.deadline_ms: one day.
	DefaultDeadlineMS = 24 * 60 * 60 * 1000
	// LocalTimeoutMS is the longest timeout_ms of a node that runs as a local activity.
	LocalTimeoutMS = 1000
)
