package approval

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

const (
	// Format is the format of payloads, and Type the type of their envelopes.
	Format = "chimera.ai/approval/v1"
	Type   = "application/vnd.chimera.approval.v1+json"
	// MaxEnvelope bounds an envelope, in bytes.
	MaxEnvelope = trust.MaxEnvelope
	// MaxReason bounds the reason of a decision, in bytes.
	MaxReason = 1000
	// skew is how far the clock of a signer may be ahead.
	skew = time.Minute
)

// Decision is what a person decides.
type Decision string

// The decisions about what is asked for approval.
const (
	Approve Decision = "approve"
	Reject  Decision = "reject"
)

// The decisions about a call of unknown outcome: it had its effect, or it had none.
const (
	Executed    Decision = "executed"
	NotExecuted Decision = "not_executed"
)

// States reports whether the decision is a statement about a call that was made.
func (d Decision) States() bool { return d == Executed || d == NotExecuted }

// Payload is what a person signs.
type Payload struct {
	Format string `json:"format"`
	// Request is the digest of the request. What follows repeats parts of it.
	Request    string         `json:"request"`
	Deployment string         `json:"deployment"`
	Audience   trust.Audience `json:"audience"`
	Namespace  string         `json:"namespace"`
	Workflow   string         `json:"workflow"`
	Barrier    string         `json:"barrier"`
	Plan       string         `json:"plan"`
	Actions    []string       `json:"actions"`
	Text       string         `json:"text"`

	Decision Decision `json:"decision"`
	// Reason is for people; whatever is not an approval has one.
	Reason string `json:"reason,omitempty"`
	// Signer is the id of the key, and Role the one in which it signs.
	Signer string `json:"signer"`
	Role   string `json:"role"`
	// Delegation lets the signer sign in a role of another: an envelope with a [Delegation].
	Delegation string `json:"delegation,omitempty"`
	// Nonce is 32 hex digits.
	Nonce     string      `json:"nonce"`
	Issued    ledger.Time `json:"issued"`
	NotBefore ledger.Time `json:"not_before"`
	Expires   ledger.Time `json:"expires"`
}

// Payload returns a decision on the request, whose digest is given, without signer, role,
// nonce and times.
func (r *Request) Payload(digest string, d Decision) Payload {
	return Payload{
		Format: Format, Request: digest, Deployment: r.Deployment, Audience: r.Audience, Namespace: r.Namespace, Workflow: r.Workflow,
		Barrier: r.Barrier, Plan: r.Plan, Actions: r.Digests(), Text: r.Text, Decision: d,
	}
}

// Unsigned returns the envelope of a payload without a signature.
func (p *Payload) Unsigned() (*trust.Envelope, error) {
	raw, err := trust.Encode(p)
	if err != nil {
		return nil, err
	}
	return &trust.Envelope{Type: Type, Payload: raw}, nil
}

// form says what is wrong with the form of a payload by itself, or nil.
func (p *Payload) form() error {
	switch {
	case p.Format != Format:
		return refuse(Malformed, "the format is %.80q, not %s", p.Format, Format)
	case p.Decision != Approve && p.Decision != Reject && !p.Decision.States():
		return refuse(Malformed, "the decision is %.40q, which is neither approve nor reject, nor says what a call did", string(p.Decision))
	case p.Decision == Reject && strings.TrimSpace(p.Reason) == "":
		return refuse(Malformed, "a rejection has no reason")
	case p.Decision.States() && strings.TrimSpace(p.Reason) == "":
		return refuse(Malformed, "a statement about a call has no reason")
	case len(p.Reason) > MaxReason || !utf8.ValidString(p.Reason):
		return refuse(Malformed, "the reason has more than %d bytes, or is not UTF-8", MaxReason)
	case !trust.IsNonce(p.Nonce):
		return refuse(Malformed, "the nonce is not 32 hex digits")
	case !p.NotBefore.Time().Before(p.Expires.Time()):
		return refuse(Malformed, "it is never valid")
	}
	return nil
}

// about says in what a payload differs from the request, or nil.
func (p *Payload) about(r *Request, digest string) error {
	want := r.Payload(digest, p.Decision)
	for _, f := range []struct{ what, have, want string }{
		{"deployment", p.Deployment, want.Deployment}, {"audience", string(p.Audience), string(want.Audience)},
		{"namespace", p.Namespace, want.Namespace}, {"workflow", p.Workflow, want.Workflow}, {"barrier", p.Barrier, want.Barrier},
		{"plan", p.Plan, want.Plan}, {"text", p.Text, want.Text},
	} {
		if f.have != f.want {
			return refuse(Foreign, "it is about the %s %.120q, not %.120q", f.what, f.have, f.want)
		}
	}
	if !slices.Equal(p.Actions, want.Actions) {
		return refuse(Foreign, "it is about other actions")
	}
	if p.Request != digest {
		return refuse(Foreign, "it is about another request")
	}
	if p.Decision.States() != (r.Kind == Outcome) {
		return refuse(Malformed, "the decision is %s, which does not answer what is asked", p.Decision)
	}
	if p.Expires.Time().After(r.Expires.Time()) {
		return refuse(Malformed, "it expires at %s, after the barrier (%s)", p.Expires, r.Expires)
	}
	return nil
}
