package trust

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/plan"
)

func TestPlan(t *testing.T) {
	w := newWorld(t)
	author, other := ed(t), ed(t)
	s := w.state(w.sign(w.state().Draft(day, &AddPublisher{"fay", "fay", author.Public(), []string{"plans"}, nil}, &AddPublisher{"gus", "gus", other.Public(), []string{"manifests"}, nil})))
	p := Plan{Deployment: "example", Audience: Prod, Author: "fay", Name: "pay", Version: "1.0.0", SourceDigest: plan.DigestOf([]byte("s")), Digest: plan.DigestOf([]byte("d")), Issued: at(1)}
	raw, err := SignPlan(author, p)
	require.NoError(t, err)
	have, since, err := authored(s, raw, p)
	require.NoError(t, err)
	require.Nil(t, since)
	p.Format = PlanFormat
	require.Equal(t, p, have)

	for name, f := range map[string]func(*Plan){
		"version": func(p *Plan) { p.Version = "2.0.0" }, "name": func(p *Plan) { p.Name = "x" }, "author": func(p *Plan) { p.Author = "gus" },
		"source": func(p *Plan) { p.SourceDigest = p.Digest }, "plan": func(p *Plan) { p.Digest = p.SourceDigest },
		"deployment": func(p *Plan) { p.Deployment = "x" }, "audience": func(p *Plan) { p.Audience = Dev },
	} {
		bad := p
		f(&bad)
		raw, err := SignPlan(author, bad)
		require.NoError(t, err)
		_, _, err = authored(s, raw, p)
		require.ErrorIs(t, err, ErrInvalid, name)
	}
	raw2, err := SignPlan(other, p)
	require.NoError(t, err)
	_, _, err = authored(s, raw2, p)
	require.ErrorContains(t, err, "has not signed it")
	gus := p
	gus.Author = "gus"
	raw3, err := SignPlan(other, gus)
	require.NoError(t, err)
	_, _, err = authored(s, raw3, gus)
	require.ErrorContains(t, err, "does not sign plans")
	revoked, err := s.Next(w.sign(s.Draft(day, &RevokePublisher{"fay"})))
	require.NoError(t, err)
	_, since, err = authored(revoked, raw, p)
	require.NoError(t, err)
	require.NotNil(t, since)
}

func TestGrant(t *testing.T) {
	w := newWorld(t)
	key := p256(t)
	bot := agent("bot")
	bot.Keys = []string{key.Public()}
	s := w.state(w.sign(w.state().Draft(day, bot, agent("other"))))
	g := Grant{
		Deployment: "example", Audience: Prod, Namespace: "default", WorkflowID: "run-1", Plan: plan.DigestOf([]byte("p")), Input: plan.DigestOf([]byte("i")),
		Agent: "bot", Requester: "rae", Nonce: "00112233445566778899aabbccddeeff", Issued: at(1), Expires: at(2),
	}
	now := at(1).Time().Add(time.Minute)
	raw, err := SignGrant(key, g)
	require.NoError(t, err)
	have, err := VerifyGrant(s, raw, g, now)
	require.NoError(t, err)
	require.Equal(t, "rae", have.Requester)
	_, err = VerifyGrant(s, raw, g, at(2).Time())
	require.ErrorContains(t, err, "expired")
	_, err = VerifyGrant(s, raw, g, day)
	require.ErrorContains(t, err, "not valid before")
	for name, f := range map[string]func(*Grant){
		"workflow": func(g *Grant) { g.WorkflowID = "run-2" }, "plan": func(g *Grant) { g.Plan = g.Input }, "input": func(g *Grant) { g.Input = g.Plan },
		"agent": func(g *Grant) { g.Agent = "other" }, "namespace": func(g *Grant) { g.Namespace = "x" }, "deployment": func(g *Grant) { g.Deployment = "x" },
		"audience": func(g *Grant) { g.Audience = Dev },
	} {
		bad := g
		f(&bad)
		raw, err := SignGrant(key, bad)
		require.NoError(t, err)
		_, err = VerifyGrant(s, raw, g, now)
		require.ErrorIs(t, err, ErrInvalid, name)
	}
	other := g
	other.Agent = "other"
	raw, err = SignGrant(key, other)
	require.NoError(t, err)
	_, err = VerifyGrant(s, raw, other, now)
	require.ErrorContains(t, err, "no key that may act for other")
	for name, f := range map[string]func(*Grant){
		"for ever": func(g *Grant) { g.Expires = at(26) }, "for nothing": func(g *Grant) { g.Expires = g.Issued },
		"nonce": func(g *Grant) { g.Nonce = "x" }, "requester": func(g *Grant) { g.Requester = "" },
	} {
		bad := g
		f(&bad)
		_, err := SignGrant(key, bad)
		require.ErrorIs(t, err, ErrInvalid, name)
	}
	// The signature of a plan is no grant, whoever made it.
	p, err := SignPlan(key, Plan{Deployment: "example", Audience: Prod, Author: "a", Name: "n", Version: "1", SourceDigest: g.Plan, Digest: g.Plan, Issued: at(0)})
	require.NoError(t, err)
	_, err = VerifyGrant(s, p, g, now)
	require.ErrorContains(t, err, "the payload's type")
}
