package ledger

// HypothesisFilter says which hypotheses are listed: those to which each of its fields applies that is
// not its zero value.
type HypothesisFilter struct {
	Agent string
	// Tool is the operation that was simulated.
	Tool  string
	State HypothesisState
	// Since is when they were stated at the earliest.
	Since Time
}

// PastCall is the last call of an effect.
type PastCall struct {
	Invocation string
	State      InvocationState
	Attempt    int
	// DecidedAt is when it was permitted.
	DecidedAt Time
	// ClaimedAt is when the call began, and EndedAt when whoever made it said how it has ended; or nil,
	// if there is no such entry.
	ClaimedAt, EndedAt *Time
	// Succeeded: it is settled, and has an output. Failure is the kind of the failure that the tool has
	// answered instead, as far as that can be read.
	Succeeded bool
	Failure   string
	// Posted is what it has cost, or nil: nothing was held for it, or that is not posted.
	Posted *Money
}
