package contract

// SealedWith is the key of a value of a workflow's context: the id of the payload
// key, a string, that requests are sealed with there. Their answers are taken only
// if they are sealed with the same.
//
// An execution of a run has one such key, the one that its plan is sealed with. So
// the history alone decides which answers are taken, whatever keys a worker has,
// and nobody can hold a run up with an answer that names a key that nobody has.
type SealedWith struct{}

// SealedError is the failure of an activity whose text was sealed. Its reader
// compares the key with that of the request.
type SealedError struct {
	// Key is the id of the payload key with which the failure was sealed.
	Key string
	// Local reports that the workflow's own worker reports it for a local
	// activity, with whatever key it seals.
	Local bool
	// Kind is the kind beside the sealed text, which is not authenticated.
	Kind Kind
	// Missing reports that this process does not have the key, as Err says.
	Missing bool
	Err     error
}

// Error implements error.
func (e *SealedError) Error() string { return e.Err.Error() }

// Unwrap gives the failure.
func (e *SealedError) Unwrap() error { return e.Err }
