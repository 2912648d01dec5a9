package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// stated is an authority with the statements that a test wants.
type stated struct {
	state trust.State
	err   error
}

func (s *stated) State(context.Context) (trust.State, error) { return s.state, s.err }

// signer is a publisher of plans, with the statement about it.
func signer(t *testing.T) (*trust.Key, *stated) {
	key, _, err := trust.NewKey()
	require.NoError(t, err)
	return key, &stated{state: trust.State{
		Deployment: "d", Audience: trust.Prod,
		Publishers: map[string]trust.Publisher{"fay": {AddPublisher: trust.AddPublisher{ID: "fay", Key: key.Public(), Uses: []string{trust.UsePlans}}}},
	}}
}

// TestLoadVerifiesTheAuthor: where there is a root of trust, a row counts only
// with the signature of a publisher; where there is none, only as what was asked
// for.
func TestLoadVerifiesTheAuthor(t *testing.T) {
	key, authority := signer(t)
	l := load(shape{}.plan(t))
	raw, err := l.plan.Encode()
	require.NoError(t, err)
	text := []byte("the source")
	row := ledger.Plan{Name: l.plan.Name, Version: l.plan.Version, Digest: plan.DigestOf(raw), SourceDigest: plan.DigestOf(text), Author: "fay"}
	ref := row.Name + "@" + row.Version
	signed := row
	signed.Signature, err = trust.SignPlan(key, trust.Plan{
		Deployment: "d", Audience: trust.Prod, Author: "fay", Name: row.Name, Version: row.Version, SourceDigest: row.SourceDigest, Digest: row.Digest,
	})
	require.NoError(t, err)
	l.recordingLedger.blobs = map[string][]byte{row.SourceDigest: text}
	start := func(ref string, row ledger.Plan) *failure {
		l.recordingLedger.plans = map[string]ledger.Plan{ref: row}
		_, f := l.start(t, fmt.Sprintf(`{"plan":%q}`, ref))
		return f
	}
	require.Nil(t, start(ref, row), "nothing says whom to trust")
	f := start("other@1", row)
	require.Equal(t, contract.Blocked, f.kind)
	require.Contains(t, f.message, "the store gives the plan")

	l.engine.Authority = authority
	bench := activities.Workbench{Compile: l.engine.Compile, Stated: func(trust.State, *plan.Node) error { return nil }}
	l.engine.Renew = func() activities.Workbench { return bench }
	require.Nil(t, start(ref, signed))
	require.Nil(t, start(row.Digest, signed))
	for want, f := range map[string]*failure{
		"without its author's signature": start(ref, row),
		"the store gives the plan":       start("other@1", signed),
	} {
		require.NotNil(t, f)
		require.Equal(t, contract.Blocked, f.kind)
		require.Contains(t, f.message, want)
		require.False(t, f.retried)
	}

	authority.err = fmt.Errorf("read authority: %w", ledger.ErrUnavailable)
	f = start(ref, signed)
	require.Equal(t, contract.StoreUnavailable, f.kind)
	require.True(t, f.retried, "nobody was lied to")
	authority.err = fmt.Errorf("read authority: %w", trust.ErrInvalid)
	f = start(ref, signed)
	require.Equal(t, contract.Blocked, f.kind)
	require.False(t, f.retried)
	own := load(shape{}.plan(t))
	own.plan.Nodes[source].InProcess, own.plan.Nodes[target].InProcess = true, true
	own.engine.Authority = authority
	_, f = own.start(t, `{"source":"the source"}`)
	require.Nil(t, f, "a source rests on no publication")
}

// TestFactsNeedAStatement: in production a plan that calls what the admins have not stated does
// not run, wherever no permit is asked for later.
func TestFactsNeedAStatement(t *testing.T) {
	_, authority := signer(t)
	start := func(change func(*plan.Node)) (asked []string, f *failure) {
		l := load(shape{}.plan(t))
		l.plan.Nodes[source].InProcess = true
		change(&l.plan.Nodes[target])
		l.engine.Authority = authority
		bench := activities.Workbench{Compile: l.engine.Compile, Stated: func(_ trust.State, n *plan.Node) error {
			asked = append(asked, n.ID)
			return errors.New("nobody has stated it")
		}}
		l.engine.Renew = func() activities.Workbench { return bench }
		_, f = l.start(t, `{"source":"s"}`)
		return asked, f
	}
	outside := func(*plan.Node) {}
	asked, f := start(outside)
	require.Equal(t, []string{"target"}, asked)
	require.Equal(t, contract.Blocked, f.kind)
	require.Equal(t, "the node target: nobody has stated it", f.message)
	require.False(t, f.retried)

	asked, f = start(func(n *plan.Node) { n.InProcess = true })
	require.Empty(t, asked)
	require.Nil(t, f)
	authority.state.Audience = trust.Dev
	asked, f = start(outside)
	require.Empty(t, asked)
	require.Nil(t, f)
}

// TestEffectsNeedAGrant: a plan with effects is refused at once where nobody has
// granted its start, whatever compiled it.
func TestEffectsNeedAGrant(t *testing.T) {
	for _, effect := range []plan.EffectClass{plan.Staged, plan.Committing, plan.Irreversible} {
		p := shape{}.plan(t)
		p.Nodes[target].Effect = effect
		_, f := load(p).start(t, `{"source":"s"}`)
		require.NotNil(t, f)
		require.Equal(t, contract.Blocked, f.kind)
		require.Equal(t, fmt.Sprintf("the node target has the effect class %s: a run without a start grant may hold pure nodes only; a grant is for the agent that the plan names in `agent`", effect), f.message)
		require.False(t, f.retried)
	}
}

// TestGrants: a start grant is for one run, by a key that may act for its agent.
func TestGrants(t *testing.T) {
	key, authority := signer(t)
	other, _, err := trust.NewKey()
	require.NoError(t, err)
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	l := load(shape{}.plan(t))
	l.plan.Agent = "bot"
	raw, err := l.plan.Encode()
	require.NoError(t, err)
	agent := l.plan.Agent
	authority.state.Agents = map[string]trust.AddAgent{agent: {AgentID: agent, Owner: "ada", Keys: []string{key.Public()}}}
	l.engine.Authority, l.engine.Namespace = authority, "default"
	bench := activities.Workbench{Compile: l.engine.Compile, Stated: func(trust.State, *plan.Node) error { return nil }}
	l.engine.Renew = func() activities.Workbench { return bench }
	l.engine.Now = func() time.Time { return now }
	good := trust.Grant{
		Deployment: "d", Audience: trust.Prod, Namespace: "default", WorkflowID: "w", Plan: plan.DigestOf(raw), Input: plan.DigestOf([]byte(`{}`)),
		Agent: agent, Requester: "rae", Nonce: strings.Repeat("0f", 16), Issued: ledger.At(now), Expires: ledger.At(now.Add(time.Hour)),
	}
	grant := func(k *trust.Key, change func(*trust.Grant)) json.RawMessage {
		g := good
		change(&g)
		raw, err := trust.SignGrant(k, g)
		require.NoError(t, err)
		return raw
	}
	start := func(g json.RawMessage) *failure {
		l.recordingLedger.open = nil
		_, f := l.start(t, fmt.Sprintf(`{"source":"s","grant":%s}`, g))
		return f
	}
	same := func(*trust.Grant) {}
	envelope := grant(key, same)
	require.Nil(t, start(envelope))
	digest, err := trust.GrantDigest(envelope)
	require.NoError(t, err)
	require.Len(t, l.recordingLedger.open, 1)
	opened := l.recordingLedger.open[0]
	require.Equal(t, "rae", opened.Requester)
	require.Equal(t, digest, opened.GrantDigest)
	require.JSONEq(t, string(envelope), string(opened.Grant))

	changed := append(json.RawMessage(nil), envelope...)
	i := strings.Index(string(changed), `"payload":"`) + len(`"payload":"`) + 40
	changed[i] ^= 1
	for name, c := range map[string]struct {
		grant json.RawMessage
		want  string
	}{
		"another workflow":   {grant(key, func(g *trust.Grant) { g.WorkflowID = "v" }), `the grant is for the workflow "v", not "w"`},
		"another plan":       {grant(key, func(g *trust.Grant) { g.Plan = g.Input }), "the grant is for the plan"},
		"another input":      {grant(key, func(g *trust.Grant) { g.Input = g.Plan }), "the grant is for the input"},
		"another namespace":  {grant(key, func(g *trust.Grant) { g.Namespace = "x" }), "the grant is for the namespace"},
		"another deployment": {grant(key, func(g *trust.Grant) { g.Deployment = "x" }), "the grant is for the deployment"},
		"another audience":   {grant(key, func(g *trust.Grant) { g.Audience = trust.Dev }), `the grant is for the audience "dev", not "prod"`},
		"another agent":      {grant(key, func(g *trust.Grant) { g.Agent = "x" }), "the grant is for the agent"},
		"expired": {grant(key, func(g *trust.Grant) {
			g.Issued, g.Expires = ledger.At(now.Add(-2*time.Hour)), ledger.At(now)
		}), "the grant has expired at 2026-11-01T12:00:00.000Z"},
		"of tomorrow": {grant(key, func(g *trust.Grant) {
			g.Issued, g.Expires = ledger.At(now.Add(time.Hour)), ledger.At(now.Add(2*time.Hour))
		}), "the grant is not valid before"},
		"a stranger's": {grant(other, same), "no key that may act for " + agent},
		"changed":      {changed, ""},
		"nothing":      {json.RawMessage(`{}`), "the envelope"},
		"a text":       {json.RawMessage(`"x"`), "the envelope"},
		"beyond size":  {json.RawMessage(`"` + strings.Repeat("x", 20_000) + `"`), "a grant of 20002 bytes, more than 16384"},
	} {
		f := start(c.grant)
		require.NotNil(t, f, name)
		require.Equal(t, contract.Blocked, f.kind, name)
		require.Contains(t, f.message, c.want, name)
		require.False(t, f.retried, name)
		require.Empty(t, l.recordingLedger.open, name)
	}

	// The key may no longer act for the agent.
	authority.state.Agents[agent] = trust.AddAgent{AgentID: agent, Owner: "ada", Keys: []string{other.Public()}}
	f := start(envelope)
	require.Equal(t, contract.Blocked, f.kind)
	delete(authority.state.Agents, agent)
	f = start(envelope)
	require.Contains(t, f.message, "there is no agent")
	authority.err = ledger.ErrUnavailable
	f = start(envelope)
	require.Equal(t, contract.StoreUnavailable, f.kind)
	require.True(t, f.retried)
	authority.err = nil
	l.recordingLedger.err = ledger.ErrConflict
	authority.state.Agents[agent] = trust.AddAgent{AgentID: agent, Owner: "ada", Keys: []string{key.Public()}}
	f = start(envelope)
	require.Equal(t, contract.Conflict, f.kind, "the store says that it was used")
}

// TestWriteInherits: a run that goes on with another, and that nothing was stated
// about yet, was asked for by the same person.
func TestWriteInherits(t *testing.T) {
	b := &recordingLedger{open: []ledger.Run{{Workflow: identity.Workflow, Root: identity.Origin, Origin: identity.Origin, Requester: "rae", Grant: []byte(`{}`), GrantDigest: plan.DigestOf(nil)}}}
	request := func(d string) contract.JournalRequest {
		return contract.JournalRequest{Run: identity, Plan: d, Input: plan.DigestOf(nil), Entries: []contract.JournalEntry{{Node: target, Visit: 1, State: contract.Skipped}}}
	}
	// The ledger in memory knows its first run alone, so the second stays unknown.
	require.NotNil(t, journal(t, b, request))
	require.Len(t, b.open, 2)
	require.Equal(t, identity.Root, b.open[1].Root)
	require.Equal(t, "rae", b.open[1].Requester)
	require.Equal(t, plan.DigestOf(nil), b.open[1].GrantDigest)
	require.JSONEq(t, `{}`, string(b.open[1].Grant))
}
