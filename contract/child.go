package contract

// ChildCall is the argument of a child workflow of type [WorkflowCall].
type ChildCall struct {
	// Call is the call to make, by an activity of that type on that queue.
	Call     Call   `json:"call"`
	Activity string `json:"activity"`
	Queue    string `json:"queue"`
	// ActivityID and Summary are those of the activity.
	ActivityID string `json:"activity_id"`
	Summary    string `json:"summary"`
	// The activity's timeouts and retry policy, in milliseconds and thousandths;
	// Attempts 0 is no bound.
	StartMS         int64    `json:"start_ms"`
	TimeoutMS       int64    `json:"timeout_ms"`
	HeartbeatMS     int64    `json:"heartbeat_ms,omitempty"`
	Attempts        int32    `json:"attempts,omitempty"`
	InitialMS       int64    `json:"initial_ms"`
	MultiplierMilli int64    `json:"multiplier_milli"`
	MaxMS           int64    `json:"max_ms"`
	NonRetryable    []string `json:"non_retryable,omitempty"`
	// SealedWith is the id of the payload key that this was sealed with, or "".
	SealedWith string `json:"-"`
}

// Report is the result of a child workflow: either Outcome or Failure, or neither
// in a signal that would be too large with it, after which the child returns the
// rest.
type Report struct {
	// Request is that of the [Call], and Child the workflow that made it.
	Request string       `json:"request"`
	Child   Child        `json:"child"`
	Outcome *Outcome     `json:"outcome,omitempty"`
	Failure *CallFailure `json:"failure,omitempty"`
	// SealedWith is the id of the payload key that this was or is to be sealed with, or
	// "". Err says, in workflow code, that this process does not have that key: all else is
	// empty then.
	SealedWith string `json:"-"`
	Err        error  `json:"-"`
}

// CallFailure is the failure of a call as its workflow has read it.
type CallFailure struct {
	Error ErrorPayload `json:"error"`
	// Spent counts the contract's attempts that were used up, and WaitMS is how long
	// to wait before the next, in milliseconds.
	Spent  int   `json:"spent,omitempty"`
	WaitMS int64 `json:"wait_ms,omitempty"`
	// Unstarted reports that no worker took the call, and WrongQueue that the
	// worker does not call tools.
	Unstarted  bool `json:"unstarted,omitempty"`
	WrongQueue bool `json:"wrong_queue,omitempty"`
	// Snapshots and Listed are as in [ErrorDetails].
	Snapshots *Snapshots `json:"snapshots,omitempty"`
	Listed    Value      `json:"listed,omitempty"`
}

// ChildRequest asks engine/child what has become of a child workflow.
type ChildRequest struct {
	Run   Identity `json:"run"`
	Child Child    `json:"child"`
	// Request is that of the child's [Call].
	Request string `json:"request"`
	// Ended reports that the child has announced its end.
	Ended bool `json:"ended,omitempty"`
}

// ChildResult is the answer to a [ChildRequest].
type ChildResult struct {
	Request string `json:"request"`
	// Running reports that the child has not ended. Otherwise Report is what it
	// returned, or nil if it was ended from outside or is not known.
	Running bool    `json:"running,omitempty"`
	Report  *Report `json:"report,omitempty"`
}

// Child names a child workflow that makes one call of a run.
type Child struct {
	Workflow string `json:"workflow"`
	Run      string `json:"run"`
}
