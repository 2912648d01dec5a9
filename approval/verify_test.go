package approval_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// TestVotes: everybody who may sign does, with a key of each type, and the vote says who.
func TestVotes(t *testing.T) {
	audiences(t, func(t *testing.T, w *world) {
		r, d := w.request()
		for _, c := range []struct{ signer, person, role string }{
			{"ada", "ada", "finance"}, {"ada-2", "ada", "finance"}, {"ada-2", "ada", "legal"}, {"ben", "ben", "finance"}, {"cleo", "cleo", "legal"},
		} {
			for _, decision := range []approval.Decision{approval.Approve, approval.Reject} {
				t.Run(c.signer+"/"+c.role+"/"+string(decision), func(t *testing.T) {
					p := payload(r, d, c.signer, c.role)
					p.Decision, p.Reason = decision, "because"
					raw := w.seal(p, c.signer)
					e := parsedEnvelope(t, raw)
					for _, at := range []time.Time{noon, {}} {
						v, err := approval.Verify(w.state, r, d, raw, at)
						require.NoError(t, err)
						require.Equal(t, approval.Vote{
							ID: plan.DigestOf(e.Payload), Decision: decision, Reason: "because", Signer: c.signer, SigType: w.state.Signers[c.signer].SigType,
							Role: c.role, Persons: []string{c.person}, Nonce: p.Nonce,
						}, v)
					}
					peeked, err := approval.Peek(raw)
					require.NoError(t, err)
					require.Equal(t, p, peeked)
					require.Equal(t, plan.DigestOf(raw), approval.ID(raw))
				})
			}
		}
		types := map[string]bool{}
		for _, s := range w.state.Signers {
			types[s.SigType] = true
		}
		if w.state.Audience == trust.Dev {
			require.Equal(t, map[string]bool{trust.SigDev: true, trust.SigSSH: true, trust.SigToken: true}, types)
		} else {
			require.Equal(t, map[string]bool{trust.SigSSHHardware: true, trust.SigToken: true}, types)
		}
	})
}

// TestSameSignature: one payload has one ID, however often it is signed, wrapped and sent.
func TestSameSignature(t *testing.T) {
	audiences(t, func(t *testing.T, w *world) {
		for _, signer := range []string{"ada", "ada-2"} {
			a := newAttempt(w)
			a.by, a.payload.Signer = signer, signer
			first := a.honest()
			var pretty bytes.Buffer
			require.NoError(t, json.Indent(&pretty, first, "", "\t"))
			named := parsedEnvelope(t, first)
			named.Signatures[0].KeyID = "another"
			envelopes := [][]byte{first, first, a.honest(), pretty.Bytes(), encoded(t, named)}
			if w.state.Signers[signer].SigType == trust.SigToken {
				// ECDSA has many signatures: a random one, and for each of them its mirror image.
				e := parsedEnvelope(t, first)
				e.Signatures[0].Sig = rawP256(t, signer, trust.PAE(e.Type, e.Payload))
				envelopes = append(envelopes, encoded(t, e))
			}
			var votes []approval.Vote
			for _, raw := range envelopes {
				v, err := approval.Verify(w.state, a.request, a.digest, raw, noon)
				require.NoError(t, err)
				require.Equal(t, plan.DigestOf(named.Payload), v.ID)
				votes = append(votes, v)
			}
			for _, v := range votes {
				require.Equal(t, votes[0], v)
			}
			require.NotEqual(t, approval.ID(first), approval.ID(pretty.Bytes()), "envelopes are identified as they arrive")
			require.Equal(t, []string{votes[0].ID}, a.request.Rule.Count(votes).Counted)
		}
		// Another nonce makes another one, which counts no second time either.
		a := newAttempt(w)
		one := w.vote(a.request, a.digest, a.payload)
		a.payload.Nonce = strings.Repeat("1", 32)
		two := w.vote(a.request, a.digest, a.payload)
		require.NotEqual(t, one.ID, two.ID)
		require.Len(t, a.request.Rule.Count([]approval.Vote{one, two}).Counted, 1)
	})
}

// TestTwoKeysOfOnePerson: a person counts once, under whatever key, role and spelling.
func TestTwoKeysOfOnePerson(t *testing.T) {
	audiences(t, func(t *testing.T, w *world) {
		r, d := w.request()
		vote := func(signer, role string) approval.Vote { return w.vote(r, d, payload(r, d, signer, role)) }
		ada, adaAgain, adaLegal := vote("ada", "finance"), vote("ada-2", "finance"), vote("ada-2", "legal")
		ben, cleo := vote("ben", "finance"), vote("cleo", "legal")
		for _, c := range []struct {
			name    string
			votes   []approval.Vote
			missing []plan.Group
		}{
			{"nobody", nil, r.Rule.Groups},
			{"two keys of Ada", []approval.Vote{ada, adaAgain}, []plan.Group{{Role: "finance", Min: 1}, {Role: "legal", Min: 1}}},
			{"Ada in both roles", []approval.Vote{ada, adaLegal}, []plan.Group{{Role: "finance", Min: 1}, {Role: "legal", Min: 1}}},
			{"Ada in both roles, and Ben", []approval.Vote{ada, adaLegal, ben}, []plan.Group{{Role: "legal", Min: 1}}},
			{"Ada in both roles, and Cleo", []approval.Vote{adaLegal, ada, adaAgain, cleo}, []plan.Group{{Role: "finance", Min: 1}}},
			{"Ada, Ben and Cleo", []approval.Vote{ada, adaAgain, adaLegal, ben, cleo}, nil},
		} {
			t.Run(c.name, func(t *testing.T) {
				tally := r.Rule.Count(c.votes)
				require.Equal(t, c.missing == nil, tally.Met())
				// Of several ways to say who is missing, any is right.
				require.Equal(t, seats(c.missing), seats(tally.Missing))
			})
		}
	})
}

func seats(groups []plan.Group) int {
	n := 0
	for _, g := range groups {
		n += g.Min
	}
	return n
}

// TestLargestBarrier: what people are asked at once can also be approved, with all that an
// approval may carry.
func TestLargestBarrier(t *testing.T) {
	w := newWorld(t, trust.Prod)
	r, d := w.request(func(r *approval.Request) {
		r.Actions, r.Text = nil, digest("text")
		for i := range ledger.MaxAwaited {
			r.Actions = append(r.Actions, approval.Action{Invocation: fmt.Sprintf("inv-%04d", i), Action: digest(fmt.Sprint(i)), Effect: plan.Committing})
		}
	})
	a := &attempt{world: w, request: r, digest: d, payload: payload(r, d, "dan", "finance"), by: "dan", at: noon}
	a.payload.Reason = strings.Repeat("r", approval.MaxReason)
	a.payload.Delegation = a.delegation("ben", "ben", "dan", func(d *approval.Delegation) {
		d.Agents = []string{r.Agent}
		for i := range 64 {
			d.Agents = append(d.Agents, fmt.Sprintf("%0100d", i))
		}
	})
	v, err := a.verify()
	require.NoError(t, err)
	require.Equal(t, []string{"dan", "ben"}, v.Persons)
}

// TestRefusalsAreShort: a hostile value does not flood logs through the refusal.
func TestRefusalsAreShort(t *testing.T) {
	long := strings.Repeat("x", 50_000)
	for name, edit := range map[string]func(*attempt){
		"format":                func(a *attempt) { a.payload.Format = long },
		"decision":              func(a *attempt) { a.payload.Decision = approval.Decision(long) },
		"workflow":              func(a *attempt) { a.payload.Workflow = long },
		"signer":                func(a *attempt) { a.payload.Signer = long },
		"role":                  func(a *attempt) { a.payload.Role = long },
		"delegation":            func(a *attempt) { a.payload.Delegation = long },
		"field of the envelope": func(a *attempt) { a.envelope = []byte(`{"` + long + `":1,` + string(a.honest()[1:])) },
		"field of the payload":  func(a *attempt) { a.rewrite(func(p string) string { return `{"` + long + `":1,` + p[1:] }) },
		"field of the delegation": func(a *attempt) {
			e := a.given("ben", "dan")
			e.Payload = []byte(`{"` + long[:8000] + `":1,` + string(e.Payload[1:]))
			a.forBen(string(a.sealed(e, "ben")))
		},
		"field that is not ASCII": func(a *attempt) {
			a.rewrite(func(p string) string { return `{"` + strings.Repeat("é", 20_000) + `":1,` + p[1:] })
		},
		"type": func(a *attempt) {
			a.envelope = []byte(`{"payload":"e30=","payloadType":"` + long + `","signatures":[{"sig":"AAAA"}]}`)
		},
		"payload": func(a *attempt) {
			a.envelope = []byte(`{"payload":"` + base64.StdEncoding.EncodeToString([]byte(`"`+long+`"`)) + `","payloadType":"` + approval.Type + `","signatures":[{"sig":"AAAA"}]}`)
		},
		"delegate": func(a *attempt) {
			a.payload.Delegation = a.delegation("ben", "ben", long[:5000])
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAttempt(newWorld(t, trust.Dev))
			edit(a)
			_, err := a.verify()
			require.NotNil(t, approval.Refused(err))
			require.Less(t, len(err.Error()), 500)
			require.True(t, utf8.ValidString(err.Error()))
		})
	}
	require.Nil(t, approval.Refused(nil))
	require.Nil(t, approval.Refused(approval.ErrInvalid))
	require.NotNil(t, approval.Refused(fmt.Errorf("at the barrier: %w", &approval.Refusal{Code: approval.Late})))
	require.Len(t, slices.Compact([]approval.Code{
		approval.BadDelegation, approval.Excluded, approval.Foreign, approval.Forged, approval.Ineligible, approval.Late, approval.Malformed,
		approval.NotValid, approval.Revoked, approval.Twice, approval.Unknown,
	}), 11, "codes differ")
}
