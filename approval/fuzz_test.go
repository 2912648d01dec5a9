package approval_test

import (
	"bytes"
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/trust"
)

// FuzzVerify: whatever arrives, it is refused, or a person has signed these very bytes. And
// whatever a signer signs, it counts only if it is about this request.
func FuzzVerify(f *testing.F) {
	w := newWorld(f, trust.Dev)
	r, d := w.request()
	// honest are the payloads that people have signed, by digest, with their signers.
	honest := map[string]string{}
	var seeds [][]byte
	sign := func(p approval.Payload) {
		raw := w.seal(p, p.Signer)
		honest[parsedEnvelope(f, raw).Digest()] = p.Signer
		seeds = append(seeds, raw)
	}
	for _, signer := range []string{"ada", "ada-2", "ben", "rae"} {
		sign(payload(r, d, signer, "finance"))
	}
	sign(payload(r, d, "cleo", "legal"))
	reject := payload(r, d, "ben", "legal")
	reject.Decision, reject.Reason = approval.Reject, "too much"
	sign(reject)
	delegated := payload(r, d, "dan", "finance")
	delegated.Delegation = w.delegation("ben", "ben", "dan")
	sign(delegated)
	other, otherDigest := w.request(func(r *approval.Request) { r.Workflow = "run-8" })
	sign(payload(other, otherDigest, "ada", "finance"))
	for _, raw := range seeds {
		f.Add(raw)
		f.Add(parsedEnvelope(f, raw).Payload)
		f.Add(bytes.Replace(raw, []byte(`"payload":"`), []byte(`"payload":"e30`), 1))
	}
	f.Add([]byte(`{"payload":"e30=","payloadType":"` + approval.Type + `","signatures":[{"sig":"AAAA"}]}`))
	f.Add([]byte(delegated.Delegation))
	f.Add(w.chain[0])
	f.Add([]byte(`{"decision":"approve","Decision":"reject"}`))
	f.Add([]byte(nil))

	// right requires that a vote is one on the request by the signer, in a role of it.
	right := func(t *testing.T, v approval.Vote, signer string, payload []byte) {
		require.Equal(t, plan.DigestOf(payload), v.ID)
		require.Equal(t, signer, v.Signer)
		require.Equal(t, w.state.Signers[signer].Person, v.Persons[0])
		require.NotContains(t, v.Persons, "rae")
		require.True(t, v.Role == "finance" || v.Role == "legal")
		require.True(t, v.Decision == approval.Approve || v.Decision == approval.Reject && strings.TrimSpace(v.Reason) != "")
		var p approval.Payload
		require.NoError(t, trust.Decode(payload, &p))
		require.Equal(t, d, p.Request)
		require.Equal(t, r.Digests(), p.Actions)
		require.Equal(t, r.Text, p.Text)
		require.Equal(t, signer, p.Signer)
		if len(v.Persons) == 1 {
			require.Contains(t, w.state.Signers[signer].Now, v.Role)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		w.t = t
		for _, at := range []time.Time{noon, {}} {
			v, err := approval.Verify(w.state, r, d, raw, at)
			if err != nil {
				require.NotNil(t, approval.Refused(err))
				require.Zero(t, v)
				continue
			}
			e := parsedEnvelope(t, raw)
			require.Equal(t, honest[e.Digest()], v.Signer, "nobody has signed this: %s", e.Payload)
			right(t, v, v.Signer, e.Payload)
			// Verified once more, by other means than the package has.
			if s := w.state.Signers[v.Signer]; s.SigType == trust.SigDev {
				public, ok := ed25519.NewKeyFromSeed(seed(v.Signer)).Public().(ed25519.PublicKey)
				require.True(t, ok && ed25519.Verify(public, trust.PAE(approval.Type, e.Payload), e.Signatures[0].Sig))
			}
			peeked, err := approval.Peek(raw)
			require.NoError(t, err)
			require.Equal(t, v.Nonce, peeked.Nonce)
		}
		_, _ = approval.Peek(raw)

		// The same bytes as a payload, or as a delegation, by a signer who means it.
		if len(raw) > approval.MaxEnvelope/2 {
			return
		}
		for _, signer := range []string{"ada", "dan", "rae"} {
			e := &trust.Envelope{Type: approval.Type, Payload: raw}
			v, err := approval.Verify(w.state, r, d, w.sealed(e, signer), noon)
			if err == nil {
				right(t, v, signer, raw)
			}
		}
		p := payload(r, d, "dan", "finance")
		p.Delegation = string(raw)
		e, err := p.Unsigned()
		if err != nil {
			return
		}
		if v, err := approval.Verify(w.state, r, d, w.sealed(e, "dan"), noon); err == nil {
			require.Equal(t, []string{"dan", "ben"}, v.Persons, "only Ben has given that")
			given, err := trust.ParseEnvelope(raw, approval.DelegationType)
			require.NoError(t, err)
			require.Equal(t, w.given("ben", "dan").Digest(), given.Digest())
		}
	})
}

// FuzzParseRequest: whatever is read as a request is written in the same bytes again, and
// can be counted and shown.
func FuzzParseRequest(f *testing.F) {
	w := newWorld(f, trust.Prod)
	r, _ := w.request()
	raw, err := r.Encode()
	require.NoError(f, err)
	f.Add(raw)
	f.Add(bytes.Replace(raw, []byte(`"min":2`), []byte(`"min":2.0`), 1))
	f.Add(bytes.Replace(raw, []byte(`"min":2`), []byte(`"min":-2`), 1))
	f.Add(bytes.Replace(raw, []byte(`"min":2`), []byte(`"min":99999999999999999999`), 1))
	f.Add(bytes.Replace(raw, []byte(`"excluded":["owen","rae"]`), []byte(`"excluded":null`), 1))
	f.Add(bytes.Replace(raw, []byte(`{`), []byte(`{"Agent":"x",`), 1))
	f.Add(bytes.Replace(raw, []byte(`"agent"`), []byte(`"\u0061gent"`), 1))
	f.Add([]byte(`{}`))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		w.t = t
		r, d, err := approval.ParseRequest(raw)
		if err != nil {
			require.ErrorIs(t, err, approval.ErrInvalid)
			require.Nil(t, r)
			require.Empty(t, d)
			return
		}
		require.Equal(t, plan.DigestOf(raw), d)
		require.Equal(t, approval.RequestFormat, r.Format)
		require.NotEmpty(t, r.Actions)
		require.NotEmpty(t, r.Rule.Groups)
		written, err := r.Encode()
		require.NoError(t, err)
		require.Equal(t, string(raw), string(written), "a request has one text")

		require.NoError(t, r.Rule.AtLeast(r.Rule))
		require.Equal(t, canonical(t, r.Rule.Join(r.Rule)), canonical(t, r.Rule.Join(r.Rule).Join(r.Rule)))
		wanted := 0
		for _, g := range r.Rule.Groups {
			require.Positive(t, g.Min)
			require.LessOrEqual(t, g.Min, policy.MaxSigners)
			// Count makes a seat for each.
			if wanted += g.Min; wanted > 1000 {
				return
			}
		}
		require.False(t, r.Rule.Count(nil).Met(), "nobody is not enough")
		require.Equal(t, wanted, seats(r.Rule.Count(nil).Missing))
		if text, digest, err := approval.Text(r, make([]approval.Shown, len(r.Actions))); err == nil {
			require.Equal(t, plan.DigestOf([]byte(text)), digest)
		}
		// Nobody signs for it who is not asked.
		p := payload(r, d, "dan", "intern")
		p.Expires = r.Expires
		_, _ = approval.Verify(w.state, r, d, w.seal(p, "dan"), noon)
	})
}
