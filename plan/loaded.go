package plan

import "chimera.ai/engine/contract"

// Loaded is what the activity engine/load returns: a compiled plan with an
// admitted input, and the settings of the run that must be the same in every
// replay.
//
// It crosses to the workflow as one payload: [Head], and the canonical bytes of the
// plan if the store does not have them, so that a process decodes each plan once
// (package payload).
type Loaded struct {
	Plan *Plan
	Head Head
	// Err is why a plan that travels as its digest could not be read from the
	// store, if Plan is nil. It may be read later.
	Err error
	// SealedWith is the id of the payload key with which this was sealed when
	// it was read, or "".
	SealedWith string
}

// Head is the part of [Loaded] that differs from run to run.
type Head struct {
	// Digest is the plan's digest.
	Digest string `json:"digest"`
	// Input is the outcome of the virtual node $input.
	Input contract.Outcome `json:"input"`
	// Whole is the plan's whole input, if an expression of the plan reads it.
	Whole contract.Value `json:"whole,omitempty"`
	// InputDigest is the digest of the plan's input, as canonical JSON.
	InputDigest string `json:"input_digest,omitempty"`
	// Attributes are the search attributes that the server knows.
	Attributes []string `json:"attributes,omitempty"`
	// Policy is the digest of the operator's bundle with which the plan was
	// compiled, or "" if there is none. It reveals workers of one deployment
	// that read different bundles.
	Policy string `json:"policy,omitempty"`
	// Catalog is the digest of the operator's catalog, with the operations of skills, with which the plan was
	// compiled, or "" if it has none.
	Catalog string `json:"catalog,omitempty"`
	// ToolsQueue is the task queue of calls that are not in-process; "" means
	// contract.QueueTools.
	ToolsQueue string `json:"tools_queue,omitempty"`
	// ContinueAfter is the number of history events after which the run
	// continues as new.
	ContinueAfter int `json:"continue_after"`
}
