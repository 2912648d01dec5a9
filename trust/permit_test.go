package trust

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

func TestPermit(t *testing.T) {
	w := newWorld(t)
	key, other := ed(t), p256(t)
	s := w.state(w.sign(w.state().Draft(day, &AddGuardian{ID: "g", Key: key.Public()}, &AddGuardian{ID: "h", Key: other.Public()})))
	after := func(d time.Duration) ledger.Time { return ledger.At(day.Add(d)) }
	call := Call{Operation: "bank/pay", Input: []byte(`{"to":"x"}`)}
	p := Permit{
		Deployment: "example", Audience: Prod, Guardian: "g", Invocation: "i", Decision: "i/1", Call: call.Digest([]byte("salt")),
		Issued: at(0), Expires: after(30 * time.Second),
	}
	raw, err := SignPermit(key, p)
	require.NoError(t, err)
	now := p.Issued.Time()
	have, err := VerifyPermit(s, raw, p, now)
	require.NoError(t, err)
	p.Format = PermitFormat
	require.Equal(t, p, have)

	for name, f := range map[string]func(*Permit){
		"invocation": func(p *Permit) { p.Invocation = "j" }, "call": func(p *Permit) { p.Call = call.Digest([]byte("other")) },
		"deployment": func(p *Permit) { p.Deployment = "x" }, "audience": func(p *Permit) { p.Audience = Dev },
		"guardian": func(p *Permit) { p.Guardian = "h" }, "nobody": func(p *Permit) { p.Guardian = "nobody" },
	} {
		bad := p
		f(&bad)
		raw, err := SignPermit(key, bad)
		require.NoError(t, err)
		_, err = VerifyPermit(s, raw, p, now)
		require.ErrorIs(t, err, ErrInvalid, name)
	}
	for name, f := range map[string]func(*Permit){
		"too long": func(p *Permit) { p.Expires = after(61 * time.Second) }, "no time": func(p *Permit) { p.Expires = p.Issued }, "no call": func(p *Permit) { p.Call = "" },
	} {
		bad := p
		f(&bad)
		_, err := SignPermit(key, bad)
		require.ErrorIs(t, err, ErrInvalid, name)
	}
	forged, err := SignPermit(other, p)
	require.NoError(t, err)
	_, err = VerifyPermit(s, forged, p, now)
	require.ErrorContains(t, err, "has not signed")
	_, err = VerifyPermit(s, raw, p, p.Expires.Time().Add(skew+time.Second))
	require.ErrorContains(t, err, "has expired")
	require.ErrorIs(t, err, ErrExpired)
	require.ErrorIs(t, err, ErrInvalid)
	_, err = VerifyPermit(s, forged, p, p.Expires.Time().Add(skew+time.Second))
	require.NotErrorIs(t, err, ErrExpired, "only what would be valid has expired")
	_, err = VerifyPermit(s, raw, p, now.Add(-skew-time.Second))
	require.ErrorContains(t, err, "not valid before")
	revoked, err := s.Next(w.sign(s.Draft(day, &RevokeGuardian{ID: "g"})))
	require.NoError(t, err)
	_, err = VerifyPermit(revoked, raw, p, now)
	require.ErrorContains(t, err, "was revoked")

	// The digest of a call depends on each part of it, wherever one ends.
	digests := map[string]bool{}
	for _, c := range []Call{call, {"bank/pay", "f", call.Input}, {"bank/payf", "", call.Input}, {"bank", "/pay", call.Input}, {"bank/pay", "", []byte(`{"to": "x"}`)}} {
		digests[c.Digest([]byte("salt"))] = true
	}
	require.Len(t, digests, 5)
}
