package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// PermitFormat is the format of permits, and PermitType the type of their envelopes.
const (
	PermitFormat = "chimera.ai/trust/permit/v1"
	PermitType   = "application/vnd.chimera.permit.v1+json"
)

// MaxPermit bounds how long a permit may be used.
const MaxPermit = time.Minute

// maxPermitBytes bounds the envelope of a permit.
const maxPermitBytes = 8 << 10

// Permit allows one call of one effect, which a guardian has decided on.
type Permit struct {
	Format     string   `json:"format"`
	Deployment string   `json:"deployment"`
	Audience   Audience `json:"audience"`
	// Guardian is the id of the key that signs it.
	Guardian string `json:"guardian"`
	// Invocation is the effect, and Decision the one that approves it.
	Invocation string `json:"invocation"`
	Decision   string `json:"decision"`
	// Call is the digest of what may be sent: see [Call.Digest].
	Call    string      `json:"call"`
	Issued  ledger.Time `json:"issued"`
	Expires ledger.Time `json:"expires"`
}

func (p *Permit) check() error {
	if p.Format != PermitFormat {
		return invalid("the format is %.80q, not %s", p.Format, PermitFormat)
	}
	for _, s := range []string{p.Deployment, p.Guardian, p.Invocation, p.Decision} {
		if err := name("a part of the permit", s); err != nil {
			return err
		}
	}
	if d := p.Expires.Time().Sub(p.Issued.Time()); d <= 0 || d > MaxPermit {
		return invalid("a permit must be valid for some time, and at most for %s", MaxPermit)
	}
	return digest("the call", p.Call)
}

// Call is what a permit lets be sent.
type Call struct {
	// Operation is "provider/operation", Fingerprint what the plan pins of an MCP tool,
	// or "".
	Operation, Fingerprint string
	// Input is the bytes of the arguments, with the idempotency key if there is one.
	Input []byte
}

// Digest identifies a call: "sha256:" and 64 hex digits. The salt keeps those who have
// the permit alone from guessing the arguments.
func (c Call) Digest(salt []byte) string {
	sum := sha256.Sum256(c.Input)
	return plan.DigestOf(fmt.Appendf(nil, "chimera-call/1\x00%x\x00%q\x00%q\x00%s", salt, c.Operation, c.Fingerprint, hex.EncodeToString(sum[:])))
}

// SignPermit signs a permit. The format may be left out.
func SignPermit(k *Key, p Permit) ([]byte, error) {
	p.Format = PermitFormat
	if err := p.check(); err != nil {
		return nil, err
	}
	return seal(PermitType, &p, k)
}

// ReadPermit reads a permit without verifying its signature: see [VerifyPermit].
func ReadPermit(envelope []byte) (Permit, error) {
	_, p, err := readPermit(envelope)
	return p, err
}

func readPermit(envelope []byte) (*Envelope, Permit, error) {
	if len(envelope) > maxPermitBytes {
		return nil, Permit{}, invalid("a permit of %d bytes, more than %d", len(envelope), maxPermitBytes)
	}
	e, err := ParseEnvelope(envelope, PermitType)
	if err != nil {
		return nil, Permit{}, err
	}
	var p Permit
	if _, err := exact(e.Payload, &p); err != nil {
		return nil, Permit{}, invalid("the permit: %s", bare(err))
	}
	return e, p, p.check()
}

// ErrExpired reports a permit that would be valid if it had been used in time.
var ErrExpired = errors.New("expired")

// VerifyPermit verifies a permit in a state at an instant: a guardian whose key counts
// there must have signed it, for exactly this invocation and call. want names them. The error
// is [ErrInvalid], and [ErrExpired] too if only the permit's time has passed.
// Whether it has been used is for the store to say.
func VerifyPermit(s State, envelope []byte, want Permit, at time.Time) (Permit, error) {
	e, p, err := readPermit(envelope)
	if err != nil {
		return Permit{}, err
	}
	for _, f := range []struct{ what, have, want string }{
		{"deployment", p.Deployment, s.Deployment}, {"audience", string(p.Audience), string(s.Audience)},
		{"invocation", p.Invocation, want.Invocation}, {"call", p.Call, want.Call},
	} {
		if f.have != f.want {
			return Permit{}, invalid("the permit is for the %s %.120q, not %.120q", f.what, f.have, f.want)
		}
	}
	if at.Add(skew).Before(p.Issued.Time()) {
		return Permit{}, invalid("the permit is not valid before %s", p.Issued)
	}
	g, ok := s.Guardians[p.Guardian]
	switch {
	case !ok:
		return Permit{}, invalid("there is no guardian %.120q", p.Guardian)
	case g.Revoked != nil:
		return Permit{}, invalid("the guardian %s was revoked at %s", p.Guardian, *g.Revoked)
	}
	key, err := ParsePublic(g.Key)
	if err != nil {
		return Permit{}, err
	}
	if len(e.By([]Public{key})) == 0 {
		return Permit{}, invalid("the guardian %s has not signed the permit", p.Guardian)
	}
	if at.Add(-skew).After(p.Expires.Time()) {
		return Permit{}, fmt.Errorf("%w: the permit has %w at %s", ErrInvalid, ErrExpired, p.Expires)
	}
	return p, nil
}

// Signs returns the id under which the admins let a guardian's public key sign permits, if they do.
func (s State) Signs(key string) (id string, ok bool) {
	for _, id := range sorted(s.Guardians) {
		if g := s.Guardians[id]; g.Key == key && g.Revoked == nil {
			return id, true
		}
	}
	return "", false
}
