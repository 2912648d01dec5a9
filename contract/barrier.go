package contract

import (
	"encoding/json"
	"unicode/utf8"
)

// SignalSignature is the signal that brings a signature, and UpdateSign the update that
// does, and answers with a [Verdict]. Both have one argument: an envelope with an approval
// (package approval).
const (
	SignalSignature = "chimera.signature"
	UpdateSign      = "chimera.sign"
)

// Argument is the JSON of an update's argument. It is sent as it is, whatever its size: a run
// reads no references of those who send updates.
type Argument json.RawMessage

// MarshalJSON returns the argument.
func (a Argument) MarshalJSON() ([]byte, error) { return json.RawMessage(a).MarshalJSON() }

// Bounds of signatures that a run passes on to the guardian in one request.
const (
	MaxSignatures     = 100
	MaxSignatureBytes = 1 << 20
	// MaxSignature bounds one envelope, in bytes.
	MaxSignature = 192 << 10
)

// IsSignature reports whether the argument of a signal or update can be an envelope.
func IsSignature(raw json.RawMessage) bool {
	return len(raw) > 1 && len(raw) <= MaxSignature && raw[0] == '{' && utf8.Valid(raw)
}

// Waiting is an action that the guardian has decided on, and that waits for people.
type Waiting struct {
	// Decision is the id of the decision by which it waits.
	Decision string `json:"decision"`
	// Outcome reports that people are asked what the call did that the decision has permitted.
	Outcome bool `json:"outcome,omitempty"`
}

// OpenRequest asks guard.open to open a barrier for actions that wait.
type OpenRequest struct {
	Run Identity `json:"run"`
	// Plan is the plan's digest, and Name the name of the barrier there: that of a shared
	// one, or of the node.
	Plan string `json:"plan"`
	Name string `json:"name"`
	// Outcome asks what the call did that the one decision has permitted.
	Outcome bool `json:"outcome,omitempty"`
	// Request names this request, and is repeated by the answer.
	Request string `json:"request"`
	// Decisions are those by which the actions wait.
	Decisions []string `json:"decisions"`
}

// Opened is the answer of guard.open.
type Opened struct {
	Request string  `json:"request"`
	Barrier Barrier `json:"barrier"`
	// Unopened is as in [Decided].
	Unopened bool `json:"unopened,omitempty"`
	// Known reports that there is no need to ask what the call did, by now.
	Known bool `json:"known,omitempty"`
}

// Barrier is where a barrier stands.
type Barrier struct {
	ID    string       `json:"id"`
	State BarrierState `json:"state"`
	// ExpiresMS is when it expires, in Unix milliseconds.
	ExpiresMS int64 `json:"expires_ms"`
	// Missing are those who still have to sign.
	Missing []Group `json:"missing,omitempty"`
	// Reason says why it is closed, for people.
	Reason string `json:"reason,omitempty"`
	// NextMS is when the guardian is to be asked about it before it expires, in Unix
	// milliseconds; 0 is never. Followed is what has followed so far.
	NextMS   int64    `json:"next_ms,omitempty"`
	Followed Followed `json:"followed,omitzero"`
}

// Followed is what has followed at a barrier, while people have not approved. Times are in
// Unix milliseconds; 0 is never.
type Followed struct {
	// Reminded counts the reminders, the last of which was at RemindedMS.
	Reminded   int   `json:"reminded,omitempty"`
	RemindedMS int64 `json:"reminded_ms,omitempty"`
	// EscalatedMS is when the groups in To were asked, too.
	EscalatedMS int64   `json:"escalated_ms,omitempty"`
	To          []Group `json:"to,omitempty"`
}

// BarrierState says where a barrier stands.
type BarrierState string

// The states of a barrier.
const (
	BarrierOpen      BarrierState = "open"
	BarrierApproved  BarrierState = "approved"
	BarrierRejected  BarrierState = "rejected"
	BarrierExpired   BarrierState = "expired"
	BarrierWithdrawn BarrierState = "withdrawn"
)

// Group asks for so many persons of a role.
type Group struct {
	Role string `json:"role"`
	Min  int    `json:"min"`
}

// SignRequest asks guard.sign to verify signatures, and how barriers stand.
type SignRequest struct {
	Run Identity `json:"run"`
	// Request names this request, and is repeated by the answer.
	Request string `json:"request"`
	// Barriers are the ids of those of the run that are open.
	Barriers []string `json:"barriers"`
	// Envelopes are signatures as they came.
	Envelopes []json.RawMessage `json:"envelopes,omitempty"`
	// Withdraw closes the barriers: the run ends, for that reason.
	Withdraw string `json:"withdraw,omitempty"`
}

// Signed is the answer of guard.sign.
type Signed struct {
	Request string `json:"request"`
	// Unopened is as in [Decided].
	Unopened bool `json:"unopened,omitempty"`
	// Verdicts has one for each of the envelopes.
	Verdicts []Verdict `json:"verdicts,omitempty"`
	// Barriers has one for each of the request's.
	Barriers []Barrier `json:"barriers,omitempty"`
}

// Verdict says what became of a signature.
type Verdict struct {
	Accepted bool `json:"accepted"`
	// Code and Detail say why one was refused; Code is of package approval, or "again": it
	// was not looked at, and may be sent again.
	Code   string `json:"code,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Barrier is where it counts, and how that stands now.
	Barrier string       `json:"barrier,omitempty"`
	State   BarrierState `json:"state,omitempty"`
	Missing []Group      `json:"missing,omitempty"`
}

// CodeAgain is the code of a signature that was not looked at.
const CodeAgain = "again"
