package contract

// Unread stands where a start's argument would, if the history has it by
// reference: only engine/load reads it, which can wait for a store, and end the
// run where the value is in none.
type Unread struct {
	// Reference is the reference, as package payload writes it.
	Reference []byte `json:"chimera.unread"`
}

// Loading is what is known of a run whose plan was not loaded, in
// [ErrorDetails]: what its search attributes can say.
type Loading struct {
	// Plan is name@version and Agent the plan's agent, as far as they are known.
	Plan  string `json:"plan,omitempty"`
	Agent string `json:"agent,omitempty"`
	// Attributes are the search attributes that the server knows.
	Attributes []string `json:"attributes,omitempty"`
}
