package approval_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// delegation returns the envelope of a delegation, signed by a key, by which a delegate may
// sign for a delegator in the role finance.
func (w *world) delegation(by, delegator, delegate string, edits ...func(*approval.Delegation)) string {
	w.t.Helper()
	return string(w.sealed(w.given(delegator, delegate, edits...), by))
}

func (w *world) given(delegator, delegate string, edits ...func(*approval.Delegation)) *trust.Envelope {
	w.t.Helper()
	d := &approval.Delegation{
		Deployment: deployment, Audience: w.state.Audience, Delegator: delegator, Delegate: delegate, Roles: []string{"finance"},
		Nonce: strings.Repeat("ab", 16), NotBefore: days(-1), Expires: days(1),
	}
	for _, edit := range edits {
		edit(d)
	}
	e, err := d.Unsigned()
	require.NoError(w.t, err)
	return e
}

// withDelegation makes an attempt one of Dan, for Ben.
func withDelegation(edits ...func(*approval.Delegation)) func(*attempt) {
	return func(a *attempt) { a.forBen(a.delegation("ben", "ben", "dan", edits...)) }
}

func (a *attempt) forBen(delegation string) {
	a.by, a.payload.Signer, a.payload.Role, a.payload.Delegation = "dan", "dan", "finance", delegation
}

func TestDelegation(t *testing.T) {
	audiences(t, func(t *testing.T, w *world) {
		// Delegators and delegates have keys of all types.
		for _, c := range []struct{ delegator, delegate, role string }{
			{"ben", "dan", "finance"}, {"ben", "dan", "legal"}, {"cleo", "eli", "legal"}, {"ada", "eli", "finance"}, {"ada-2", "dan", "finance"}, {"ada", "cleo", "finance"}, {"ben", "ada", "finance"},
		} {
			t.Run(c.delegate+" for "+c.delegator+" as "+c.role, func(t *testing.T) {
				a := newAttempt(w)
				a.by, a.payload = c.delegate, payload(a.request, a.digest, c.delegate, c.role)
				a.payload.Delegation = a.delegation(c.delegator, c.delegator, c.delegate, func(d *approval.Delegation) { d.Roles = []string{"finance", "legal"} })
				for _, at := range []time.Time{noon, {}} {
					a.at = at
					v, err := a.verify()
					require.NoError(t, err)
					require.Equal(t, c.delegate, v.Signer)
					require.Equal(t, w.state.Signers[c.delegate].SigType, v.SigType)
					require.Equal(t, c.role, v.Role)
					require.Equal(t, []string{w.state.Signers[c.delegate].Person, w.state.Signers[c.delegator].Person}, v.Persons)
				}
			})
		}
	})
	pass(t, map[string]func(*attempt){
		"for this agent":       withDelegation(func(d *approval.Delegation) { d.Agents = []string{"auditor", "bookkeeper"} }),
		"for several roles":    withDelegation(func(d *approval.Delegation) { d.Roles = []string{"legal", "finance"} }),
		"as long as may be":    withDelegation(func(d *approval.Delegation) { d.Expires = ledger.At(d.NotBefore.Time().Add(approval.MaxDelegation)) }),
		"at its first instant": withDelegation(func(d *approval.Delegation) { d.NotBefore = minutes(0) }),
		"at its last instant":  withDelegation(func(d *approval.Delegation) { d.Expires = ledger.At(noon.Add(time.Millisecond)) }),
		"laid out in another way": func(a *attempt) {
			var b bytes.Buffer
			require.NoError(a.t, json.Indent(&b, []byte(a.delegation("ben", "ben", "dan")), "", " "))
			a.forBen(b.String())
		},
		"a rejection for another": func(a *attempt) {
			withDelegation()(a)
			a.payload.Decision, a.payload.Reason = approval.Reject, "no"
		},
		"the delegate gets the role too": func(a *attempt) {
			withDelegation()(a)
			a.must(&trust.GrantRoles{Signer: "dan", Roles: []string{"finance"}})
		},
	})
}

func TestDelegationRefused(t *testing.T) {
	fail(t, []attack{
		{"none", approval.Ineligible, "does not have the role finance", func(a *attempt) { a.by, a.payload.Signer = "dan", "dan" }},
		// What a delegation is for.
		{"not for this role", approval.BadDelegation, "not for the role finance", withDelegation(func(d *approval.Delegation) { d.Roles = []string{"legal"} })},
		{"for no role", approval.BadDelegation, "not for the role finance", withDelegation(func(d *approval.Delegation) { d.Roles = []string{} })},
		{"for all roles, by null", approval.BadDelegation, "not for the role finance", withDelegation(func(d *approval.Delegation) { d.Roles = nil })},
		{"for a role in upper case", approval.BadDelegation, "not for the role finance", withDelegation(func(d *approval.Delegation) { d.Roles = []string{"FINANCE"} })},
		{"in a role that nobody asks for", approval.Ineligible, `the role "intern"`, func(a *attempt) {
			a.must(&trust.GrantRoles{Signer: "ben", Roles: []string{"intern"}})
			withDelegation(func(d *approval.Delegation) { d.Roles = []string{"intern"} })(a)
			a.payload.Role = "intern"
		}},
		{"not for this agent", approval.BadDelegation, `the agent "bookkeeper"`, withDelegation(func(d *approval.Delegation) { d.Agents = []string{"auditor"} })},
		{"for the agent in upper case", approval.BadDelegation, "the agent", withDelegation(func(d *approval.Delegation) { d.Agents = []string{"Bookkeeper"} })},
		{"of another deployment", approval.BadDelegation, "deployment", withDelegation(func(d *approval.Delegation) { d.Deployment = "rival" })},
		{"of another audience", approval.BadDelegation, "audience", withDelegation(func(d *approval.Delegation) { d.Audience = "test" })},
		{"forbidden", approval.BadDelegation, "nobody signs for another", func(a *attempt) {
			a.ask(func(r *approval.Request) { r.Rule.Alone = true })
			withDelegation()(a)
		}},
		{"forbidden, for who has the role too", approval.BadDelegation, "nobody signs for another", func(a *attempt) {
			a.ask(func(r *approval.Request) { r.Rule.Alone = true })
			a.payload.Delegation = a.delegation("ben", "ben", "ada")
		}},
		// When.
		{"not yet valid", approval.BadDelegation, "it is valid from", withDelegation(func(d *approval.Delegation) { d.NotBefore = ledger.At(noon.Add(time.Millisecond)) })},
		{"expired", approval.BadDelegation, "it is valid from", withDelegation(func(d *approval.Delegation) { d.Expires = minutes(0) })},
		{"never valid", approval.BadDelegation, "it is valid for", withDelegation(func(d *approval.Delegation) { d.Expires = d.NotBefore })},
		{"valid backwards", approval.BadDelegation, "it is valid for", withDelegation(func(d *approval.Delegation) { d.NotBefore, d.Expires = d.Expires, d.NotBefore })},
		{"valid for too long", approval.BadDelegation, "at most", withDelegation(func(d *approval.Delegation) {
			d.Expires = ledger.At(d.NotBefore.Time().Add(approval.MaxDelegation + time.Millisecond))
		})},
		{"valid for ever", approval.BadDelegation, "at most", withDelegation(func(d *approval.Delegation) {
			d.NotBefore, d.Expires = ledger.Time{}, ledger.At(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))
		})},
		{"expired on the way", approval.BadDelegation, "it is valid from", func(a *attempt) {
			withDelegation(func(d *approval.Delegation) { d.Expires = minutes(5) })(a)
			a.at = minutes(5).Time()
		}},
		{"expired, signature dated back", approval.BadDelegation, "it is valid from", func(a *attempt) {
			withDelegation(func(d *approval.Delegation) { d.Expires = minutes(-5) })(a)
			a.payload.Issued = minutes(-10)
		}},
		{"expired long ago, signature dated back", approval.NotValid, "before anybody was asked", func(a *attempt) {
			withDelegation(func(d *approval.Delegation) { d.NotBefore, d.Expires = days(-9), days(-8) })(a)
			a.payload.Issued = days(-9)
		}},
		{"expired when it signed, looked at again", approval.BadDelegation, "it is valid from", func(a *attempt) {
			withDelegation(func(d *approval.Delegation) { d.Expires = minutes(0) })(a)
			a.at = time.Time{}
		}},
		// Who.
		{"to another", approval.BadDelegation, `lets "eli" sign, not dan`, func(a *attempt) { a.forBen(a.delegation("ben", "ben", "eli")) }},
		{"to a person, not to a key", approval.BadDelegation, `lets "DAN" sign, not dan`, func(a *attempt) { a.forBen(a.delegation("ben", "ben", "DAN")) }},
		{"to nobody", approval.BadDelegation, `lets "" sign`, func(a *attempt) { a.forBen(a.delegation("ben", "ben", "")) }},
		{"to oneself", approval.BadDelegation, "sign, not ben", func(a *attempt) {
			a.forBen(a.delegation("ben", "ben", "ben"))
			a.by, a.payload.Signer = "ben", "ben"
		}},
		{"by who does not have the role", approval.BadDelegation, "cleo, who gives it, does not have the role", func(a *attempt) { a.forBen(a.delegation("cleo", "cleo", "dan")) }},
		{"by who had the role", approval.BadDelegation, "ben, who gives it, does not have the role", func(a *attempt) {
			withDelegation()(a)
			a.must(&trust.RevokeRoles{Signer: "ben", Roles: []string{"finance"}})
		}},
		{"by nobody", approval.BadDelegation, "unknown_signer", func(a *attempt) { a.forBen(a.delegation("ben", "zed", "dan")) }},
		{"by who is revoked", approval.BadDelegation, "revoked", func(a *attempt) {
			withDelegation()(a)
			a.must(&trust.RevokeSigner{ID: "ben"})
		}},
		{"by who is revoked since it counted", approval.BadDelegation, "revoked", func(a *attempt) {
			withDelegation()(a)
			_, err := a.verify()
			require.NoError(a.t, err)
			a.must(&trust.RevokeSigner{ID: "ben"})
			a.at = time.Time{}
		}},
		{"by a key that has expired", approval.BadDelegation, "not_valid", func(a *attempt) {
			fay := a.signer("fay", "fay", trust.SigToken, "finance")
			fay.NotAfter = minutes(0)
			a.must(fay)
			a.forBen(a.delegation("fay", "fay", "dan"))
		}},
		{"by a key that has expired since it signed", approval.BadDelegation, "not_valid", func(a *attempt) {
			fay := a.signer("fay", "fay", trust.SigToken, "finance")
			fay.NotAfter = minutes(5)
			a.must(fay)
			a.forBen(a.delegation("fay", "fay", "dan"))
			a.at = minutes(5).Time()
		}},
		{"by a key that has expired, dated back", approval.BadDelegation, "not_valid", func(a *attempt) {
			fay := a.signer("fay", "fay", trust.SigToken, "finance")
			fay.NotAfter = minutes(-5)
			a.must(fay)
			a.forBen(a.delegation("fay", "fay", "dan"))
			a.payload.Issued = minutes(-10)
		}},
		{"to who is revoked", approval.Revoked, "the signer dan", func(a *attempt) {
			withDelegation()(a)
			a.must(&trust.RevokeSigner{ID: "dan"})
		}},
		{"by who is excluded", approval.Excluded, "rae must not approve", func(a *attempt) { a.forBen(a.delegation("rae", "rae", "dan")) }},
		{"by who is excluded in another spelling", approval.Excluded, "ben must not approve", func(a *attempt) {
			a.ask(func(r *approval.Request) { r.Rule.Excluded = []string{"ben"} })
			withDelegation()(a)
		}},
		{"to who is excluded", approval.Excluded, "rae must not approve", func(a *attempt) {
			a.forBen(a.delegation("ben", "ben", "rae"))
			a.by, a.payload.Signer = "rae", "rae"
		}},
		{"to who is excluded and lacks the role", approval.Excluded, "dan must not approve", func(a *attempt) {
			a.ask(func(r *approval.Request) { r.Rule.Excluded = []string{"dan"} })
			withDelegation()(a)
		}},
		// Not transitive.
		{"by who has it from another", approval.BadDelegation, "dan, who gives it, does not have the role", func(a *attempt) {
			a.forBen(a.delegation("dan", "dan", "eli"))
			a.by, a.payload.Signer = "eli", "eli"
		}},
		{"handed on as it is", approval.BadDelegation, `lets "dan" sign, not eli`, func(a *attempt) {
			withDelegation()(a)
			a.by, a.payload.Signer = "eli", "eli"
		}},
		{"handed on inside another", approval.BadDelegation, "unknown field", func(a *attempt) {
			e := a.given("dan", "eli")
			inner, err := json.Marshal(a.delegation("ben", "ben", "dan"))
			require.NoError(a.t, err)
			e.Payload = []byte(`{"delegation":` + string(inner) + `,` + string(e.Payload[1:]))
			a.forBen(string(a.sealed(e, "dan")))
			a.by, a.payload.Signer = "eli", "eli"
		}},
		{"handed on in the name of the first", approval.BadDelegation, "has not signed it", func(a *attempt) {
			a.forBen(a.delegation("dan", "ben", "eli"))
			a.by, a.payload.Signer = "eli", "eli"
		}},
		// Forged.
		{"signed by the delegate", approval.BadDelegation, "ben, who is said to give it, has not signed it", func(a *attempt) { a.forBen(a.delegation("dan", "ben", "dan")) }},
		{"signed by an admin", approval.BadDelegation, "has not signed it", func(a *attempt) {
			e := a.given("ben", "dan")
			require.NoError(a.t, e.Sign(a.admins[0]))
			a.forBen(string(encoded(a.t, e)))
		}},
		{"another key of the delegator's person", approval.BadDelegation, "ada, who is said to give it, has not signed it", func(a *attempt) { a.forBen(a.delegation("ada-2", "ada", "dan")) }},
		{"widened after it was signed", approval.BadDelegation, "has not signed it", func(a *attempt) {
			e, err := trust.ParseEnvelope([]byte(a.delegation("ben", "ben", "dan", func(d *approval.Delegation) { d.Roles = []string{"legal"} })), approval.DelegationType)
			require.NoError(a.t, err)
			e.Payload = bytes.Replace(e.Payload, []byte("legal"), []byte("finance"), 1)
			a.forBen(string(encoded(a.t, e)))
		}},
		{"prolonged after it was signed", approval.BadDelegation, "has not signed it", func(a *attempt) {
			e, err := trust.ParseEnvelope([]byte(a.delegation("ben", "ben", "dan", func(d *approval.Delegation) { d.Expires = minutes(-30) })), approval.DelegationType)
			require.NoError(a.t, err)
			e.Payload = a.given("ben", "dan").Payload
			a.forBen(string(encoded(a.t, e)))
		}},
		{"signed under the type of approvals", approval.BadDelegation, "has not signed it", func(a *attempt) {
			e := a.given("ben", "dan")
			e.Type = approval.Type
			a.sign["ben"](e)
			e.Type = approval.DelegationType
			a.forBen(string(encoded(a.t, e)))
		}},
		{"put into a signed payload", approval.Forged, "the signer dan", func(a *attempt) {
			a.by, a.payload.Signer = "dan", "dan"
			a.forge(func(p *approval.Payload) { p.Delegation = a.delegation("ben", "ben", "dan") })
		}},
		{"exchanged in a signed payload", approval.Forged, "the signer dan", func(a *attempt) {
			withDelegation()(a)
			a.forge(func(p *approval.Payload) { p.Delegation = a.delegation("ada", "ada", "dan") })
		}},
		// Malformed.
		{"not an envelope", approval.BadDelegation, "the envelope", func(a *attempt) { a.forBen("ben") }},
		{"an approval", approval.BadDelegation, "the payload's type", func(a *attempt) {
			a.forBen(string(a.seal(payload(a.request, a.digest, "ben", "finance"), "ben")))
		}},
		{"without a signature", approval.BadDelegation, "0 signatures", func(a *attempt) { a.forBen(string(encoded(a.t, a.given("ben", "dan")))) }},
		{"of another format", approval.BadDelegation, "another form", func(a *attempt) {
			e := a.given("ben", "dan")
			e.Payload = bytes.Replace(e.Payload, []byte("/v1"), []byte("/v2"), 1)
			a.forBen(string(a.sealed(e, "ben")))
		}},
		{"with an unknown field", approval.BadDelegation, "unknown field", func(a *attempt) {
			e := a.given("ben", "dan")
			e.Payload = append([]byte(`{"also":1,`), e.Payload[1:]...)
			a.forBen(string(a.sealed(e, "ben")))
		}},
		{"with a field twice", approval.BadDelegation, "delegate", func(a *attempt) {
			e := a.given("ben", "eli")
			e.Payload = append([]byte(`{"delegate":"dan",`), e.Payload[1:]...)
			a.forBen(string(a.sealed(e, "ben")))
		}},
		{"for an empty list of agents", approval.BadDelegation, "a field is missing, empty", func(a *attempt) {
			e := a.given("ben", "dan")
			e.Payload = append([]byte(`{"agents":[],`), e.Payload[1:]...)
			a.forBen(string(a.sealed(e, "ben")))
		}},
		{"with no nonce", approval.BadDelegation, "nonce", withDelegation(func(d *approval.Delegation) { d.Nonce = "" })},
		{"with a short nonce", approval.BadDelegation, "nonce", withDelegation(func(d *approval.Delegation) { d.Nonce = strings.Repeat("a", 31) })},
		{"with a nonce in upper case", approval.BadDelegation, "nonce", withDelegation(func(d *approval.Delegation) { d.Nonce = strings.Repeat("A", 32) })},
		{"oversize", approval.BadDelegation, "more than 16384", withDelegation(func(d *approval.Delegation) {
			d.Agents = []string{"bookkeeper", strings.Repeat("x", 16<<10)}
		})},
	})
}

// TestDelegatesCount: a delegate and who is signed for are one person over all groups.
func TestDelegatesCount(t *testing.T) {
	audiences(t, func(t *testing.T, w *world) {
		r, d := w.request()
		both := func(d *approval.Delegation) { d.Roles = []string{"finance", "legal"} }
		own := func(signer, role string) approval.Vote { return w.vote(r, d, payload(r, d, signer, role)) }
		of := func(delegate, delegator, role string) approval.Vote {
			p := payload(r, d, delegate, role)
			p.Delegation = w.delegation(delegator, delegator, delegate, both)
			return w.vote(r, d, p)
		}
		for _, c := range []struct {
			name  string
			votes []approval.Vote
			// counts is how many persons count.
			counts int
		}{
			{"Dan for Ben", []approval.Vote{of("dan", "ben", "finance")}, 1},
			{"Dan for Ben in both roles", []approval.Vote{of("dan", "ben", "finance"), of("dan", "ben", "legal")}, 1},
			{"Dan for Ben, and Ben in the same role", []approval.Vote{of("dan", "ben", "finance"), own("ben", "finance")}, 1},
			{"Dan for Ben, and Ben in another role", []approval.Vote{of("dan", "ben", "finance"), own("ben", "legal")}, 1},
			{"Dan and Eli for Ben", []approval.Vote{of("dan", "ben", "finance"), of("eli", "ben", "legal")}, 1},
			{"Dan for Ben and for Cleo", []approval.Vote{of("dan", "ben", "finance"), of("dan", "cleo", "legal")}, 1},
			{"Ben for Ada, who signs with her other key", []approval.Vote{of("ben", "ada", "finance"), own("ada-2", "legal")}, 1},
			{"Ada's other key for hers", []approval.Vote{of("ada-2", "ada", "finance"), own("ada", "finance")}, 1},
			{"Ben for Ada, and himself", []approval.Vote{of("ben", "ada", "finance"), own("ben", "legal")}, 1},
			{"a chain of three", []approval.Vote{of("ben", "ada", "finance"), of("dan", "ben", "finance"), own("ada", "finance")}, 1},
			{"Dan for Ben, and Ada", []approval.Vote{of("dan", "ben", "finance"), own("ada", "finance")}, 2},
			{"Dan for Ben, Eli for Ada, and Cleo", []approval.Vote{of("dan", "ben", "finance"), of("eli", "ada", "finance"), own("cleo", "legal")}, 3},
			// Two who have signed for themselves count once since one signs for the other too.
			{"Ada and Ben, before one signs for the other", []approval.Vote{own("ada", "finance"), own("ben", "finance")}, 2},
			{"Ada and Ben, after one signs for the other", []approval.Vote{own("ada", "finance"), own("ben", "finance"), of("ben", "ada", "finance")}, 1},
		} {
			t.Run(c.name, func(t *testing.T) {
				tally := r.Rule.Count(c.votes)
				require.Len(t, tally.Counted, c.counts)
				require.Equal(t, 3-c.counts, seats(tally.Missing))
				require.Equal(t, c.counts == 3, tally.Met())
			})
		}
	})
}

// TestUnsigned: who makes a delegation or an approval need not know its format and type.
func TestUnsigned(t *testing.T) {
	w := newWorld(t, trust.Dev)
	e := w.given("ben", "dan")
	require.Equal(t, approval.DelegationType, e.Type)
	require.Empty(t, e.Signatures)
	var d approval.Delegation
	require.NoError(t, trust.Decode(e.Payload, &d))
	require.Equal(t, approval.DelegationFormat, d.Format)
	r, digest := w.request()
	p := payload(r, digest, "ada", "finance")
	e, err := p.Unsigned()
	require.NoError(t, err)
	require.Equal(t, approval.Type, e.Type)
	require.Empty(t, e.Signatures)
	require.Equal(t, plan.DigestOf(e.Payload), e.Digest())
	for name, edit := range map[string]func(*approval.Payload){
		"reason": func(p *approval.Payload) { p.Reason = "fine\xff" }, "action": func(p *approval.Payload) { p.Actions[1] = "\xff" },
		"signer": func(p *approval.Payload) { p.Signer = "\xc3" }, "delegation": func(p *approval.Payload) { p.Delegation = "{\xff" },
	} {
		bad := payload(r, digest, "ada", "finance")
		edit(&bad)
		_, err := bad.Unsigned()
		require.ErrorIs(t, err, trust.ErrInvalid, "%s: what is signed is what was meant", name)
	}
	far := ledger.At(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))
	p.Expires, d.Expires = far, far
	_, err = p.Unsigned()
	require.ErrorIs(t, err, trust.ErrInvalid)
	_, err = d.Unsigned()
	require.ErrorIs(t, err, trust.ErrInvalid)
}

// TestDelegationCheck: what is made for others is checked before it is signed, and then counts.
func TestDelegationCheck(t *testing.T) {
	w := newWorld(t, trust.Prod)
	made := func(edit func(*approval.Delegation)) *approval.Delegation {
		d := &approval.Delegation{Delegator: "ben", Delegate: "dan", Roles: []string{"finance", "legal"}, NotBefore: ledger.At(noon), Expires: days(10)}
		edit(d)
		return d
	}
	require.NoError(t, made(func(*approval.Delegation) {}).Check(w.state), "as long as the key is valid")
	for want, edit := range map[string]func(*approval.Delegation){
		`sign for "ben"`:                func(d *approval.Delegation) { d.Delegate = "ben" },
		"in 0 roles":                    func(d *approval.Delegation) { d.Roles = nil },
		"does not have the role intern": func(d *approval.Delegation) { d.Roles = []string{"finance", "intern"} },
		"it is valid for 0s":            func(d *approval.Delegation) { d.Expires = d.NotBefore },
		"at most 2160h":                 func(d *approval.Delegation) { d.Expires = days(91) },
		"who gives it: not_valid":       func(d *approval.Delegation) { d.Expires = ledger.At(days(10).Time().Add(time.Millisecond)) },
		"who gives it: unknown_signer":  func(d *approval.Delegation) { d.Delegator = "nobody" },
		`no signer "nobody"`:            func(d *approval.Delegation) { d.Delegate = "nobody" },
	} {
		err := made(edit).Check(w.state)
		require.ErrorContains(t, err, want)
		require.Equal(t, approval.BadDelegation, approval.Refused(err).Code)
	}
	w.must(&trust.RevokeSigner{ID: "dan"})
	require.ErrorContains(t, made(func(*approval.Delegation) {}).Check(w.state), "who gets it: revoked")
}
