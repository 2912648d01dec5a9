package approval_test

import (
	"bytes"
	"crypto/ed25519"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/trust"
	"chimera.ai/engine/trust/sshsig"
)

// TestEveryFieldOfAPayload: a payload that is edited after it was signed is refused, and if
// the edited one could be an approval, it is forged.
func TestEveryFieldOfAPayload(t *testing.T) {
	audiences(t, func(t *testing.T, w *world) {
		for _, signer := range []string{"ada", "ada-2"} {
			for i := 0; ; i++ {
				a := newAttempt(w)
				a.by, a.payload.Signer, a.payload.Reason, a.payload.Delegation = signer, signer, "a", ""
				var field string
				a.forge(func(p *approval.Payload) { field = alter(reflect.ValueOf(p).Elem(), "payload", i) })
				if field == "" {
					break
				}
				t.Run(signer+"/"+field, func(t *testing.T) {
					v, err := a.verify()
					code := approval.Forged
					switch strings.TrimPrefix(field, "payload.") {
					case "Format", "Decision", "Nonce":
						code = approval.Malformed
					case "Request", "Deployment", "Audience", "Namespace", "Workflow", "Barrier", "Plan", "Text", "Actions[0]", "Actions[1]":
						code = approval.Foreign
					case "Signer":
						code = approval.Unknown
					}
					refused(t, code, "", v, err)
				})
			}
		}
	})
}

// TestForged: only the key of the signer, over these very bytes under this type, signs.
func TestForged(t *testing.T) {
	// with exchanges the signatures of the honest envelope.
	with := func(make func(a *attempt, e *trust.Envelope) []byte) func(*attempt) {
		return func(a *attempt) {
			e := parsedEnvelope(a.t, a.honest())
			e.Signatures[0].Sig = make(a, e)
			a.envelope = encoded(a.t, e)
		}
	}
	ada2 := func(make func(a *attempt, e *trust.Envelope) []byte) func(*attempt) {
		return func(a *attempt) {
			a.by, a.payload.Signer = "ada-2", "ada-2"
			with(make)(a)
		}
	}
	// key is that of Ada's second signer.
	key := func() *token { return &token{ed25519.NewKeyFromSeed(seed("ada-2")), 0x05} }
	fail(t, []attack{
		{"a rejection made an approval", approval.Forged, "has not signed", func(a *attempt) {
			a.payload.Decision, a.payload.Reason = approval.Reject, "too much"
			a.forge(func(p *approval.Payload) { p.Decision = approval.Approve })
		}},
		{"an approval made a rejection", approval.Forged, "has not signed", func(a *attempt) {
			a.forge(func(p *approval.Payload) { p.Decision, p.Reason = approval.Reject, "too much" })
		}},
		{"a replay with the digest of this request", approval.Forged, "has not signed", func(a *attempt) {
			want := a.payload
			r, d := a.world.request(func(r *approval.Request) { r.Workflow = "run-8" })
			a.payload = payload(r, d, "ada", "finance")
			a.forge(func(p *approval.Payload) { *p = want })
		}},
		{"a longer life", approval.Forged, "has not signed", func(a *attempt) {
			a.forge(func(p *approval.Payload) { p.Expires = minutes(60) })
		}},
		{"another role", approval.Forged, "has not signed", func(a *attempt) {
			a.by, a.payload.Signer = "ada-2", "ada-2"
			a.forge(func(p *approval.Payload) { p.Role = "legal" })
		}},
		{"another signer's name", approval.Forged, "signer ben", func(a *attempt) {
			a.forge(func(p *approval.Payload) { p.Signer = "ben" })
		}},
		{"another signer's key", approval.Forged, "signer ada", func(a *attempt) { a.by = "cleo" }},
		{"another key of the same person", approval.Forged, "signer ada", func(a *attempt) { a.by = "ada-2" }},
		{"an admin's key", approval.Forged, "signer ada", func(a *attempt) {
			e, err := a.payload.Unsigned()
			require.NoError(a.t, err)
			require.NoError(a.t, e.Sign(a.admins[0]))
			a.envelope = encoded(a.t, e)
		}},
		{"a stranger's key under the signer's key id", approval.Forged, "signer ada", func(a *attempt) {
			id := parsedEnvelope(a.t, a.honest()).Signatures[0].KeyID
			e, err := a.payload.Unsigned()
			require.NoError(a.t, err)
			require.NoError(a.t, e.Sign(software(a.t, "stranger")))
			e.Signatures[0].KeyID = id
			a.envelope = encoded(a.t, e)
		}},
		{"signed under another payload type", approval.Forged, "has not signed", func(a *attempt) {
			e, err := a.payload.Unsigned()
			require.NoError(a.t, err)
			e.Type = approval.DelegationType
			a.sign["ada"](e)
			e.Type = approval.Type
			a.envelope = encoded(a.t, e)
		}},
		{"signed without its type", approval.Forged, "has not signed", ada2(func(a *attempt, e *trust.Envelope) []byte {
			return rawSSH(a.t, key(), e.Payload, sshsig.Namespace)
		})},
		{"a payload with a space more", approval.Forged, "has not signed", func(a *attempt) {
			e := parsedEnvelope(a.t, a.honest())
			e.Payload = append(e.Payload, ' ')
			a.envelope = encoded(a.t, e)
		}},
		{"a bit of the signature", approval.Forged, "has not signed", with(func(_ *attempt, e *trust.Envelope) []byte {
			sig := bytes.Clone(e.Signatures[0].Sig)
			sig[len(sig)-1] ^= 1
			return sig
		})},
		{"a byte more of the signature", approval.Forged, "has not signed", with(func(_ *attempt, e *trust.Envelope) []byte {
			return append(bytes.Clone(e.Signatures[0].Sig), 0)
		})},
		{"a signature of zeros", approval.Forged, "has not signed", with(func(*attempt, *trust.Envelope) []byte { return make([]byte, 64) })},
		{"ssh: armored", approval.Forged, "has not signed", ada2(func(_ *attempt, e *trust.Envelope) []byte { return sshsig.Armor(e.Signatures[0].Sig) })},
		{"ssh: made for files", approval.Forged, "has not signed", ada2(func(a *attempt, e *trust.Envelope) []byte {
			return rawSSH(a.t, key(), trust.PAE(e.Type, e.Payload), "file")
		})},
		{"ssh: another key under this signer's name", approval.Forged, "has not signed", ada2(func(a *attempt, e *trust.Envelope) []byte {
			sig, err := sshsig.Sign(sshKey(a.t, "ben", a.state.Audience == trust.Prod), trust.PAE(e.Type, e.Payload))
			require.NoError(a.t, err)
			return sig
		})},
		{"ssh: of a token where one in a file is enrolled, and the other way round", approval.Forged, "has not signed", ada2(func(a *attempt, e *trust.Envelope) []byte {
			sig, err := sshsig.Sign(sshKey(a.t, "ada-2", a.state.Audience != trust.Prod), trust.PAE(e.Type, e.Payload))
			require.NoError(a.t, err)
			return sig
		})},
		{"ssh: bare Ed25519", approval.Forged, "has not signed", ada2(func(a *attempt, e *trust.Envelope) []byte {
			return ed25519.Sign(key().key, trust.PAE(e.Type, e.Payload))
		})},
	})
	// A token says whether it saw its user, and verified who that is.
	for name, flags := range map[string]byte{"nobody touched the token": 0x04, "a touch without PIN": 0x01, "nobody was there": 0x00, "unknown flags": 0x45} {
		attack{name, approval.Forged, "has not signed", ada2(func(a *attempt, e *trust.Envelope) []byte {
			k := key()
			k.flags = flags
			return rawSSH(a.t, k, trust.PAE(e.Type, e.Payload), sshsig.Namespace)
		})}.run(t, trust.Prod)
	}
}
