package activities

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// invocations is a ledger with one invocation, whose moves it makes, and with others that it only
// reads. asked lists what was asked of it.
type invocations struct {
	EffectsStore
	ActingLedger
	one    ledger.Invocation
	others map[string]ledger.Invocation
	asked  []string
	ended  ledger.Effect
	// settles is called before an end is recorded, with the time until which that is tried.
	settles func(until time.Time) error
}

func (s *invocations) Invocation(_ context.Context, id string) (ledger.Invocation, error) {
	if id == s.one.ID {
		return s.one, nil
	}
	if i, ok := s.others[id]; ok {
		return i, nil
	}
	return ledger.Invocation{}, ledger.ErrNotFound
}

func (s *invocations) Claim(_ context.Context, _, decision, _ string, d time.Duration) (i ledger.Invocation, err error) {
	s.asked = append(s.asked, "claim")
	if i, err = s.one.Claim(decision, d, ledger.At(time.Now())); err == nil {
		s.one = i
	}
	return s.one, err
}

func (s *invocations) Settle(ctx context.Context, _ string, e ledger.Effect) (i ledger.Invocation, err error) {
	if s.settles != nil {
		until, _ := ctx.Deadline()
		if err := s.settles(until); err != nil {
			return s.one, err
		}
	}
	s.asked, s.ended = append(s.asked, "settle"), e
	if i, _, err = s.one.Settle(e.Settlement, ledger.At(time.Now())); err == nil {
		s.one = i
	}
	return s.one, err
}

func (s *invocations) Decision(context.Context, string) (ledger.Decision, error) {
	return ledger.Decision{}, nil
}

func (s *invocations) Packet(context.Context, string) (ledger.Packet, error) {
	return ledger.Packet{}, nil
}

func (s *invocations) Barrier(context.Context, string) (ledger.Barrier, error) {
	return ledger.Barrier{}, ledger.ErrNotFound
}

// needing is a judge that says who must approve an action, or that it is not allowed.
type needing struct {
	Judge
	word string
	rule approval.Rule
}

func (n needing) Needs(*Action, []byte, time.Time) (string, approval.Rule) { return n.word, n.rule }
func (needing) Outcome() []plan.Group                                      { return nil }
func (needing) Observes(string) bool                                       { return false }
func (needing) Inputs(ledger.Packet) ([]byte, string, error)               { return []byte(`{"to":"ann"}`), "", nil }

// outputs stores outputs as they are.
type outputs struct{}

func (outputs) Keep(_ context.Context, _ string, v json.RawMessage) ([]byte, error) { return v, nil }
func (outputs) Give(_ context.Context, _ string, v []byte) (json.RawMessage, error) { return v, nil }

// acted is a role that calls one effect, "pay", which the node "refund" undoes and "look"
// verifies. It has a permit for it.
type acted struct {
	*Effects
	store  *invocations
	effect *effect
	call   *contract.Call
	judge  needing
	// calls are the nodes that were called, and answer is what they answered.
	calls  []string
	answer func(node string) (string, error)
}

func newActed(t *testing.T) *acted {
	call := func(id string, effect plan.EffectClass) plan.Node {
		return plan.Node{ID: id, Kind: plan.KindCall, Provider: "bank", Operation: id, Effect: effect, TimeoutMS: 60_000, InputSchema: -1, OutputSchema: -1, Retry: plan.Retry{MaxAttempts: 1}}
	}
	p := &plan.Plan{Nodes: []plan.Node{{Kind: plan.KindInput, OutputSchema: -1}, call("pay", plan.Committing), call("refund", plan.Committing), call("look", plan.Pure)}}
	p.Nodes[2].Undoes = 1
	p.Index()
	a := &acted{judge: needing{word: ledger.Approve}, answer: func(string) (string, error) { return `{"paid":true}`, nil }}
	a.store = &invocations{others: map[string]ledger.Invocation{}}
	state := trust.State{Deployment: "d", Audience: trust.Dev, Guardians: map[string]trust.Guardian{}}
	key, _, err := trust.NewKey()
	require.NoError(t, err)
	state.Guardians["guardian"] = trust.Guardian{AddGuardian: trust.AddGuardian{ID: "guardian", Key: key.Public()}}
	acting := &Acting{Plans: onePlan{plan: p}, Ledger: a.store, Namespace: "default", Bench: func() Workbench {
		return Workbench{Judge: func() (Judge, error) { return a.judge, nil }}
	}}
	a.Effects = &Effects{Acting: acting, Store: a.store, Outputs: outputs{}, Caller: calls(nil)}
	a.Caller = answering(func(node string) (string, error) {
		a.calls = append(a.calls, node)
		return a.answer(node)
	})
	a.call = &contract.Call{Node: 1, Visit: 1, Run: contract.Identity{Workflow: "w", Origin: "r", Root: "r"}}
	a.effect = &effect{state: state, node: prepare(p, func(int) {}).(*prepared).node(1), input: []byte(`{"to":"ann"}`), run: ledger.Run{Workflow: "w", Root: "r", Origin: "r"}}
	a.effect.id = acting.invocation(state, a.call, a.effect.node.spec)
	now := time.Now()
	salt := []byte("salt")
	envelope, err := trust.SignPermit(key, trust.Permit{
		Deployment: "d", Audience: trust.Dev, Guardian: "guardian", Invocation: a.effect.id, Decision: "decision", Call: a.effect.call().Digest(salt),
		Issued: ledger.At(now), Expires: ledger.At(now.Add(trust.MaxPermit)),
	})
	require.NoError(t, err)
	a.call.Permit = &contract.Permit{Envelope: envelope, Salt: salt}
	a.store.one = ledger.Invocation{ID: a.effect.id, DecisionID: "decision", State: ledger.Permitted, Unused: true, PermitUntil: ledger.At(now.Add(time.Hour))}
	return a
}

// answering is a caller that answers for nodes by their ids.
type answering func(node string) (string, error)

func (f answering) Call(_ context.Context, r Request) (Answer, error) {
	text, err := f(r.Node.ID)
	return Answer{Forms: []json.RawMessage{json.RawMessage(text)}}, err
}

func (a *acted) acts(t *testing.T) (contract.Outcome, error) {
	return a.act(t.Context(), t.Context(), t.Context(), a.effect, a.call)
}

// TestAPermitIsForOneCall: the effect is called once by a permit, however often that is used.
func TestAPermitIsForOneCall(t *testing.T) {
	a := newActed(t)
	out, err := a.acts(t)
	require.NoError(t, err)
	require.NotEmpty(t, out.Output)
	require.Equal(t, []string{"pay"}, a.calls)
	require.Equal(t, ledger.Settled, a.store.one.State)
	a.store.one.Output = a.store.ended.Output // as the store returns it
	again, err := a.acts(t)
	require.NoError(t, err)
	require.Equal(t, out.Output, again.Output)
	require.Equal(t, []string{"pay"}, a.calls)
}

// TestTheCallerBelievesNoGuardian: a permit is not used for a call that the policy of this role
// does not allow, or that people must approve and have not.
func TestTheCallerBelievesNoGuardian(t *testing.T) {
	for name, c := range map[string]struct {
		judge needing
		says  string
	}{
		"rejected":           {needing{word: reject}, "the guardian permits what the policy does not allow"},
		"people must say so": {needing{word: escalate, rule: approval.Rule{Groups: []plan.Group{{Role: "editor", Min: 1}}}}, "people must approve, and nobody has"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newActed(t)
			a.judge = c.judge
			_, err := a.acts(t)
			require.Equal(t, contract.Blocked, kindOf(t.Context(), err).Kind)
			require.ErrorContains(t, err, c.says)
			require.Empty(t, a.store.asked)
			require.Empty(t, a.calls)
		})
	}
}

// TestHowCallsEnd: what a tool answers settles a call, a call that was not sent is released, and
// any other is of unknown outcome.
func TestHowCallsEnd(t *testing.T) {
	for kind, c := range map[contract.Kind]struct {
		state ledger.InvocationState
		fails contract.Kind
	}{
		contract.ToolError:     {ledger.Settled, contract.ToolError},
		contract.InvalidOutput: {ledger.Settled, contract.InvalidOutput},
		contract.Unsent:        {ledger.Released, contract.Unsent},
		contract.Throttled:     {ledger.Released, contract.Throttled},
		contract.Auth:          {ledger.Released, contract.Auth},
		contract.Drift:         {ledger.Released, contract.Drift},
		contract.Timeout:       {ledger.Unknown, contract.OutcomeUnknown},
		contract.Transport:     {ledger.Unknown, contract.OutcomeUnknown},
		contract.ServerError:   {ledger.Unknown, contract.OutcomeUnknown},
		contract.Cancelled:     {ledger.Unknown, contract.OutcomeUnknown},
		contract.TooLarge:      {ledger.Unknown, contract.OutcomeUnknown},
	} {
		t.Run(string(kind), func(t *testing.T) {
			a := newActed(t)
			a.answer = func(string) (string, error) { return "", contract.Errorf(kind, "no") }
			_, err := a.acts(t)
			require.Equal(t, c.fails, kindOf(t.Context(), err).Kind)
			require.Equal(t, []string{"claim", "settle"}, a.store.asked)
			require.Equal(t, c.state, a.store.one.State)
		})
	}
}

// TestTheEndOfACallIsRecorded: a store that is slow, or away for a while, has as long as the call
// might have taken, so that what a call has answered does not become unknown.
func TestTheEndOfACallIsRecorded(t *testing.T) {
	a := newActed(t)
	begin, away := time.Now(), 2
	a.store.settles = func(until time.Time) error {
		require.GreaterOrEqual(t, until.Sub(begin), time.Minute, "what the call may take")
		if away--; away > 0 {
			return ledger.ErrUnavailable
		}
		return nil
	}
	out, err := a.acts(t)
	require.NoError(t, err)
	require.NotEmpty(t, out.Output)
	require.Zero(t, away)
	require.Equal(t, ledger.Settled, a.store.one.State)
}

// TestTheCallOfAnotherWorker: it is waited for until its time is over, and then it is of unknown
// outcome.
func TestTheCallOfAnotherWorker(t *testing.T) {
	for name, c := range map[string]struct {
		ends  time.Duration
		state ledger.InvocationState
		kind  contract.Kind
	}{
		"it runs":  {time.Hour, ledger.Calling, contract.WorkerLost},
		"it is up": {-time.Hour, ledger.Unknown, contract.OutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			a := newActed(t)
			until := ledger.At(time.Now().Add(c.ends))
			a.store.one.State, a.store.one.Unused, a.store.one.Attempt, a.store.one.CallNotAfter = ledger.Calling, false, 1, &until
			_, err := a.acts(t)
			require.Equal(t, c.kind, kindOf(t.Context(), err).Kind)
			require.Equal(t, c.state, a.store.one.State)
			require.Empty(t, a.calls)
		})
	}
}

// TestWhatWasUndoneIsNotCalled: once something was called that undoes an effect, or may have been,
// the effect is not called any more.
func TestWhatWasUndoneIsNotCalled(t *testing.T) {
	for state, called := range map[ledger.InvocationState]bool{
		ledger.Settled: false, ledger.Unknown: false, ledger.Calling: false, ledger.Released: true, ledger.Permitted: true,
	} {
		t.Run(string(state), func(t *testing.T) {
			a := newActed(t)
			refund := a.invocation(a.effect.state, a.call, &a.effect.node.plan.Nodes[2])
			a.store.others[refund] = ledger.Invocation{ID: refund, State: state}
			_, err := a.acts(t)
			if called {
				require.NoError(t, err)
				require.Equal(t, []string{"pay"}, a.calls)
				return
			}
			require.Equal(t, contract.OutcomeUnknown, kindOf(t.Context(), err).Kind)
			require.Empty(t, a.store.asked)
			require.Empty(t, a.calls)
		})
	}
}

// granting is an authority and a ledger by which the run of an [acted] is as it should be.
type granting struct {
	*invocations
	state trust.State
	run   ledger.Run
	plan  ledger.Plan
}

func (g *granting) State(context.Context) (trust.State, error) { return g.state, nil }

func (g *granting) Run(context.Context, string, string) (ledger.Run, error) { return g.run, nil }

func (g *granting) Plan(context.Context, string) (ledger.Plan, error) { return g.plan, nil }

func (g *granting) GetBlob(context.Context, string) ([]byte, error) { return []byte("source"), nil }

// vouch gives the run a grant, and the plan an author.
func (a *acted) vouch(t *testing.T) {
	key, _, err := trust.NewKey()
	require.NoError(t, err)
	p := a.effect.node.plan
	p.Format, p.Name, p.Version, p.Agent, p.Expr = plan.Format, "pays", "1", "clerk", plan.ExprVersion
	raw, err := p.Encode()
	require.NoError(t, err)
	s := a.effect.state
	s.Agents = map[string]trust.AddAgent{"clerk": {AgentID: "clerk", Owner: "ann", Keys: []string{key.Public()}}}
	s.Publishers = map[string]trust.Publisher{"fay": {AddPublisher: trust.AddPublisher{ID: "fay", Person: "fay", Key: key.Public(), Uses: []string{trust.UsePlans}}}}
	g := &granting{invocations: a.store, state: s}
	g.plan = ledger.Plan{Name: "pays", Version: "1", Digest: plan.DigestOf(raw), SourceDigest: plan.DigestOf([]byte("source")), Author: "fay"}
	g.plan.Signature, err = trust.SignPlan(key, trust.Plan{
		Deployment: "d", Audience: trust.Dev, Author: "fay", Name: "pays", Version: "1", SourceDigest: g.plan.SourceDigest, Digest: g.plan.Digest, Issued: ledger.At(time.Now()),
	})
	require.NoError(t, err)
	now := ledger.At(time.Now())
	g.run = ledger.Run{Workflow: "w", Root: "r", Origin: "r", Agent: "clerk", Requester: "rae", PlanDigest: g.plan.Digest, InputDigest: plan.DigestOf(nil), OpenedAt: now, State: ledger.RunRunning}
	g.run.Grant, err = trust.SignGrant(key, trust.Grant{
		Deployment: "d", Audience: trust.Dev, Namespace: "default", WorkflowID: "w", Plan: g.plan.Digest, Input: g.run.InputDigest, Agent: "clerk", Requester: "rae",
		Nonce: trust.Nonce(), Issued: now, Expires: ledger.At(now.Time().Add(time.Minute)),
	})
	require.NoError(t, err)
	g.run.GrantDigest, err = trust.GrantDigest(g.run.Grant)
	require.NoError(t, err)
	a.Ledger, a.Authority, a.Values = g, g, giving{}
	bench := a.Bench()
	bench.Compile = func(string) (*plan.Plan, diag.Diagnostics) { return p, nil }
	a.Bench = func() Workbench { return bench }
	a.call.Plan = g.plan.Digest
}

type giving struct{ Values }

func (giving) Give(context.Context, string, ...*contract.Value) error { return nil }

// TestUndoingIsVerified: an effect is gone if what verifies it says so, and if nothing verifies
// it; it stands if the ledger says that it has happened.
func TestUndoingIsVerified(t *testing.T) {
	happened := func(i *ledger.Invocation) {
		i.State, i.Unused, i.Attempt, i.OutputDigest = ledger.Settled, false, 1, plan.DigestOf([]byte(`{}`))
		i.Output = []byte(`{"output":{}}`)
	}
	for name, c := range map[string]struct {
		ask    contract.Undo
		verify bool
		says   string
		is     func(*ledger.Invocation)
		held   bool
	}{
		"it has happened":        {contract.UndoAsk, true, "", happened, true},
		"it was released":        {contract.UndoAsk, true, "", func(i *ledger.Invocation) { i.State, i.Unused = ledger.Released, false }, false},
		"it still stands":        {contract.UndoVerify, true, `{"there":true}`, happened, false},
		"it is gone":             {contract.UndoVerify, true, `{"there":false}`, happened, true},
		"nothing verifies it":    {contract.UndoVerify, false, "", happened, true},
		"it was never permitted": {contract.UndoVerify, true, "", func(i *ledger.Invocation) { i.ID = "another" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := newActed(t)
			if c.verify {
				a.effect.node.spec.Commit = &plan.Commit{Barrier: -1, Verify: &plan.Verify{Node: 3, With: json.RawMessage(`{"to":"${args.to}"}`), Executed: "value.there"}}
			}
			a.vouch(t)
			c.is(&a.store.one)
			a.answer = func(node string) (string, error) {
				if node != "look" {
					return "", errors.New("only that is called")
				}
				return c.says, nil
			}
			a.call.Permit, a.call.Undo = nil, c.ask
			out, err := a.undo(t.Context(), t.Context(), a.call)
			require.NoError(t, err)
			require.Equal(t, []bool{c.held}, out.Held)
			require.Equal(t, c.says != "", len(a.calls) == 1)
		})
	}
}
