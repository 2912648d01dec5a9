package approval

import (
	"errors"
	"fmt"
	"time"

	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// Code says why a signature does not count. The set is closed.
type Code string

// The codes.
const (
	// Malformed: it is not an approval.
	Malformed Code = "malformed"
	// Foreign: it is about something else: another barrier, action, text or deployment.
	Foreign Code = "foreign"
	// Unknown: nobody has enrolled the signer. Revoked: the signer is revoked.
	Unknown Code = "unknown_signer"
	Revoked Code = "revoked"
	// NotValid: at this time neither key nor signature counts.
	NotValid Code = "not_valid"
	// Forged: the signature is not that of the signer's key.
	Forged Code = "forged"
	// Ineligible: nobody asks for the role, or the signer does not have it.
	Ineligible Code = "ineligible"
	// Excluded: the person must not approve this.
	Excluded Code = "excluded"
	// BadDelegation: the signer may not sign for the other.
	BadDelegation Code = "bad_delegation"
	// Late: the barrier is closed. Twice: the person has signed before.
	Late  Code = "late"
	Twice Code = "twice"
)

// Refusal says why a signature does not count.
type Refusal struct {
	Code   Code
	Detail string
}

// Error returns the refusal as a sentence.
func (r *Refusal) Error() string { return string(r.Code) + ": " + r.Detail }

// maxDetail bounds the detail of a refusal, in bytes: the log has it.
const maxDetail = 400

func refuse(code Code, format string, args ...any) error {
	return &Refusal{code, excerpt.Bytes(fmt.Sprintf(format, args...), maxDetail)}
}

// Refused returns the refusal that an error is, or nil.
func Refused(err error) *Refusal {
	var r *Refusal
	if errors.As(err, &r) {
		return r
	}
	return nil
}

// Vote is a signature that counts.
type Vote struct {
	// ID identifies what was signed: the digest of the payload.
	ID       string
	Decision Decision
	Reason   string
	Signer   string
	SigType  string
	Role     string
	// Persons are the signer's, and that of whom the signer signs for.
	Persons []string
	Nonce   string
}

// Verify verifies an approval of a request in a state. The barrier's signatures arrive at
// an instant; one that has counted already is verified with its zero value, which leaves out
// only whether the signature has expired. The error is a [Refusal].
func Verify(s trust.State, r *Request, digest string, envelope []byte, at time.Time) (Vote, error) {
	e, p, err := read(envelope)
	if err != nil {
		return Vote{}, err
	}
	if err := p.about(r, digest); err != nil {
		return Vote{}, err
	}
	switch {
	case s.Deployment != r.Deployment || s.Audience != r.Audience:
		return Vote{}, refuse(Foreign, "the request is of the deployment %.80q (%s)", r.Deployment, r.Audience)
	case p.Issued.Time().Add(skew).Before(r.Opened.Time()):
		return Vote{}, refuse(NotValid, "it was signed at %s, before anybody was asked", p.Issued)
	case at.IsZero():
	case at.Add(skew).Before(p.Issued.Time()), at.Before(p.NotBefore.Time()):
		return Vote{}, refuse(NotValid, "it is not valid before %s", p.NotBefore)
	case !at.Before(p.Expires.Time()):
		return Vote{}, refuse(NotValid, "it has expired at %s", p.Expires)
	}
	v, err := enrolled(s, p.Signer, p.Issued.Time(), at)
	if err != nil {
		return Vote{}, err
	}
	if !v.Signed(e) {
		return Vote{}, refuse(Forged, "the key of the signer %s has not signed it", p.Signer)
	}
	vote := Vote{
		ID: e.Digest(), Decision: p.Decision, Reason: p.Reason, Signer: p.Signer, SigType: v.SigType, Role: p.Role,
		Persons: []string{v.Person}, Nonce: p.Nonce,
	}
	if err := eligible(s, r, &p, v, at, &vote); err != nil {
		return Vote{}, err
	}
	for _, person := range vote.Persons {
		if r.Rule.Excludes(person) {
			return Vote{}, refuse(Excluded, "%s must not approve this", person)
		}
	}
	return vote, nil
}

// read reads an envelope and its payload.
func read(envelope []byte) (*trust.Envelope, Payload, error) {
	var p Payload
	if len(envelope) > MaxEnvelope {
		return nil, p, refuse(Malformed, "an envelope of %d bytes, more than %d", len(envelope), MaxEnvelope)
	}
	e, err := trust.ParseEnvelope(envelope, Type)
	if err != nil {
		return nil, p, refuse(Malformed, "%s", err)
	}
	if len(e.Signatures) != 1 {
		return nil, p, refuse(Malformed, "an approval has one signature, and this has %d", len(e.Signatures))
	}
	if err := trust.Decode(e.Payload, &p); err != nil {
		return nil, p, refuse(Malformed, "the payload: %s", err)
	}
	return e, p, p.form()
}

// enrolled returns a signer whose key counts when it signed and now.
func enrolled(s trust.State, id string, signed, at time.Time) (trust.Signer, error) {
	v, ok := s.Signers[id]
	switch {
	case !ok:
		return v, refuse(Unknown, "there is no signer %.120q", id)
	case v.Revoked != nil:
		return v, refuse(Revoked, "the signer %s was revoked at %s", id, *v.Revoked)
	}
	times := []time.Time{signed}
	if !at.IsZero() {
		times = append(times, at)
	}
	for _, t := range times {
		if t.Add(skew).Before(v.NotBefore.Time()) || !t.Before(v.NotAfter.Time()) {
			return v, refuse(NotValid, "the key of the signer %s is valid from %s to %s", id, v.NotBefore, v.NotAfter)
		}
	}
	return v, nil
}

// eligible checks that the signer may sign in the role, and completes the vote's persons.
func eligible(s trust.State, r *Request, p *Payload, v trust.Signer, at time.Time, vote *Vote) error {
	if err := r.asks(p); err != nil {
		return err
	}
	switch {
	case p.Delegation != "":
		_, from, err := Delegator(s, r, []byte(p.Delegation), p.Signer, p.Role, p.Issued.Time(), at)
		if err != nil {
			return err
		}
		vote.Persons = append(vote.Persons, from.Person)
		return nil
	case !v.Has(p.Role):
		return refuse(Ineligible, "the signer %s does not have the role %s", p.Signer, p.Role)
	}
	return nil
}

// Peek reads what an envelope says without verifying it: who is said to have signed, and
// what.
func Peek(envelope []byte) (Payload, error) {
	_, p, err := read(envelope)
	return p, err
}

// ID identifies an envelope as it arrived.
func ID(envelope []byte) string { return plan.DigestOf(envelope) }
