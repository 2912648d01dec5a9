package contract

// SealedWith is the key of a value of a workflow's context: the id of the payload
// key, a string, that requests are sealed with there. Their answers are taken only
// if they are sealed with the same.
//
// An execution of a run has one such key, the one that its plan is sealed with. So
// the history alone decides which answers are taken, whatever keys a worker has,
// and nobody can hold a run up with an answer that names a key that nobody has.
type SealedWith struct{}

// SealedError is the failure of an activity whose words were sealed. Who reads it
// compares the key with that of the request.
type SealedError struct {
	// Key is the id of the payload key that the failure was sealed with.
	Key string
	// Local: the workflow's own worker says so of a local activity, by whatever key it
	// seals with.
	Local bool
	// Kind is what stands beside the sealed words, which nobody vouches for.
	Kind Kind
	// Missing: this process does not have the key, and Err says so.
	Missing bool
	Err     error
}

// Error implements error.
func (e *SealedError) Error() string { return e.Err.Error() }

// Unwrap gives the failure.
func (e *SealedError) Unwrap() error { return e.Err }
