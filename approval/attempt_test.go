package approval_test

import (
	"testing"
	"time"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/trust"
)

// attempt is one signature that arrives at a barrier. Ada approves, in the role finance, and
// that counts; an attack changes something.
type attempt struct {
	*world
	request *approval.Request
	digest  string
	payload approval.Payload
	// by is whose key signs the payload.
	by string
	// envelope is what arrives; if it is nil, the payload is sealed.
	envelope []byte
	at       time.Time
}

func newAttempt(w *world) *attempt {
	r, d := w.request()
	return &attempt{world: w, request: r, digest: d, payload: payload(r, d, "ada", "finance"), by: "ada", at: noon}
}

// ask changes the request, as if that had been asked from the beginning.
func (a *attempt) ask(edit func(*approval.Request)) {
	a.t.Helper()
	a.request, a.digest = a.world.request(edit)
	p := payload(a.request, a.digest, a.payload.Signer, a.payload.Role)
	p.Delegation = a.payload.Delegation
	a.payload = p
}

// honest returns the envelope of the payload as it is now.
func (a *attempt) honest() []byte {
	a.t.Helper()
	return a.seal(a.payload, a.by)
}

// forge edits the payload of an envelope that was signed, and keeps the signature.
func (a *attempt) forge(edit func(*approval.Payload)) {
	a.t.Helper()
	e := parsedEnvelope(a.t, a.honest())
	edit(&a.payload)
	unsigned, err := a.payload.Unsigned()
	if err != nil {
		a.t.Fatal(err)
	}
	e.Payload = unsigned.Payload
	a.envelope = encoded(a.t, e)
}

// rewrite signs a payload that no Payload can be.
func (a *attempt) rewrite(edit func(string) string) {
	a.t.Helper()
	e, err := a.payload.Unsigned()
	if err != nil {
		a.t.Fatal(err)
	}
	before := string(e.Payload)
	e.Payload = []byte(edit(before))
	if string(e.Payload) == before {
		a.t.Fatalf("nothing is changed in %s", before)
	}
	a.envelope = a.sealed(e, a.by)
}

func (a *attempt) verify() (approval.Vote, error) {
	a.t.Helper()
	if a.envelope == nil {
		a.envelope = a.honest()
	}
	return approval.Verify(a.state, a.request, a.digest, a.envelope, a.at)
}

// attack is an attempt that must fail.
type attack struct {
	name string
	code approval.Code
	// says is part of why.
	says string
	edit func(*attempt)
}

func (c attack) run(t *testing.T, audience trust.Audience) {
	t.Run(c.name, func(t *testing.T) {
		a := newAttempt(newWorld(t, audience))
		c.edit(a)
		v, err := a.verify()
		refused(t, c.code, c.says, v, err)
	})
}

// fail runs attacks in both audiences.
func fail(t *testing.T, attacks []attack) {
	for _, audience := range []trust.Audience{trust.Dev, trust.Prod} {
		t.Run(string(audience), func(t *testing.T) {
			for _, c := range attacks {
				c.run(t, audience)
			}
		})
	}
}

// pass runs attempts that must succeed: the other side of the bound that an attack is
// beyond.
func pass(t *testing.T, attempts map[string]func(*attempt)) {
	for _, audience := range []trust.Audience{trust.Dev, trust.Prod} {
		for name, edit := range attempts {
			t.Run(string(audience)+"/"+name, func(t *testing.T) {
				a := newAttempt(newWorld(t, audience))
				edit(a)
				if _, err := a.verify(); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}
