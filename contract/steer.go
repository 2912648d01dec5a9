package contract

import (
	"bytes"
	"encoding/json"
	"io"
	"unicode/utf8"
)

// UpdatePause is the update that lets a run start nothing new, and UpdateResume the one that
// lets it go on. Both have one argument, which [ReadOrder] reads, and answer with a
// [Steering].
const (
	UpdatePause  = "chimera.pause"
	UpdateResume = "chimera.resume"
)

// Order is what a run is told by such an update.
type Order string

// The orders.
const (
	OrderPause  Order = "pause"
	OrderResume Order = "resume"
)

// Bounds of the argument, in bytes: of all of it, and of its texts.
const (
	MaxOrderBytes  = 16 << 10
	MaxOrderBy     = 256
	MaxOrderReason = 1000
)

// Asked is the argument of an order that nobody has signed: who gives it, and why. Both may
// be empty, and nobody verifies them.
type Asked struct {
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// ReadOrder reads the argument of an order: an [Asked], or the envelope of a signed one
// (package trust), for which signed is true. ok is false for anything else.
func ReadOrder(raw json.RawMessage) (asked Asked, signed, ok bool) {
	if len(raw) > MaxOrderBytes || !utf8.Valid(raw) {
		return asked, false, false
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || fields == nil {
		return asked, false, false
	}
	if _, signed = fields["payload"]; signed {
		return asked, true, true
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if d.Decode(&asked) != nil || len(asked.By) > MaxOrderBy || len(asked.Reason) > MaxOrderReason {
		return Asked{}, false, false
	}
	_, err := d.Token()
	return asked, false, err == io.EOF
}

// SteerRequest asks engine/steer to verify an order, and to record it in the ledger.
type SteerRequest struct {
	Run Identity `json:"run"`
	// Plan and Input are as in [JournalRequest].
	Plan  string `json:"plan"`
	Input string `json:"input"`
	// Request names this request, and is repeated by the answer.
	Request string `json:"request"`
	// Order has the number N among the run's, from 1, and Argument is as it arrived, at
	// ArrivedMS in Unix milliseconds.
	Order     Order           `json:"order"`
	N         int             `json:"n"`
	Argument  json.RawMessage `json:"argument"`
	ArrivedMS int64           `json:"arrived_ms"`
}

// Steered is the answer of engine/steer.
type Steered struct {
	Request string `json:"request"`
	// Refused says why the order does not count, for people; "" if it is recorded.
	Refused string `json:"refused,omitempty"`
	// Pause is who has given the order, and why. It has no Since: the run knows when the order
	// arrived.
	Pause Pause `json:"pause"`
}

// Pause says who has paused a run, and why.
type Pause struct {
	// Since is when the order arrived, in RFC 3339.
	Since  string `json:"since,omitempty"`
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Verified reports that By has signed the order, with the key of the signer of that id,
	// or, without one, that a key has that acts for the agent.
	Verified bool   `json:"verified"`
	Signer   string `json:"signer,omitempty"`
}

// Steering says what became of an order to a run.
type Steering struct {
	Accepted bool `json:"accepted"`
	// State is that of the run now: RunPaused or RunRunning, or another if it ends.
	State RunState `json:"state,omitempty"`
	// Verified reports that a signature says who has given the order.
	Verified bool `json:"verified"`
	// Code and Detail say why it was not accepted.
	Code   string `json:"code,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// The codes of orders that were not accepted, besides [CodeAgain]. An update that changes
// nothing is refused before it gets into the history, with an application error that has
// the code as its type.
const (
	// CodeUnchanged: the run is paused already, or is not paused.
	CodeUnchanged = "unchanged"
	// CodeRefused: the signature or the ledger does not let it count.
	CodeRefused = "refused"
	// CodeMalformed: the argument is neither an [Asked] nor an envelope.
	CodeMalformed = "malformed"
	// CodeEnding: the run ends.
	CodeEnding = "ending"
	// CodeUnsigned: the run was paused so often without a signature that another pause must
	// have one.
	CodeUnsigned = "unsigned"
)
