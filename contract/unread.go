package contract

// Unread takes the place of a start's argument that the history has by reference.
// Only engine/load reads it, which can wait for a store, and end the run if the
// store does not have the value.
type Unread struct {
	// Reference is the reference, as package payload writes it.
	Reference []byte `json:"chimera.unread"`
}

// Loading is what is known about a run whose plan was not loaded, in
// [ErrorDetails], for its search attributes.
type Loading struct {
	// Plan is name@version and Agent the plan's agent, as far as they are known.
	Plan  string `json:"plan,omitempty"`
	Agent string `json:"agent,omitempty"`
	// Attributes are the search attributes that the server knows.
	Attributes []string `json:"attributes,omitempty"`
}
