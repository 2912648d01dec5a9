package activities

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// decider is a judge that decides on actions as a test says: approved holds for actions that
// people have approved, and plain for all others.
type decider struct {
	Judge
	approved, plain Verdict
}

func (d *decider) Decide(a *Action, _ ledger.Standing) (Verdict, error) {
	if a.Approved {
		return d.approved, nil
	}
	return d.plain, nil
}

func decides(word string, awaits bool, groups ...plan.Group) Verdict {
	return Verdict{Decision: ledger.Decision{Decision: word}, Awaits: awaits, Rule: approval.Rule{Groups: groups}}
}

const escalate, reject = "ESCALATE", "REJECT"

// TestAnApprovalIsOfTheRuleOfNow: what people have approved counts if as many were asked as the
// policy, the plan and the run ask for by now, without those whom these exclude.
func TestAnApprovalIsOfTheRuleOfNow(t *testing.T) {
	one, two := plan.Group{Role: "editor", Min: 1}, plan.Group{Role: "editor", Min: 2}
	for name, c := range map[string]struct {
		asked, least approval.Rule
		needs        plan.Group
		counts       bool
	}{
		"as many":                {approval.Rule{Groups: []plan.Group{one}}, approval.Rule{}, one, true},
		"more":                   {approval.Rule{Groups: []plan.Group{two}}, approval.Rule{}, one, true},
		"fewer":                  {approval.Rule{Groups: []plan.Group{one}}, approval.Rule{}, two, false},
		"whom the run excludes":  {approval.Rule{Groups: []plan.Group{one}}, approval.Rule{Excluded: []string{"ada"}}, one, false},
		"excluded then as well":  {approval.Rule{Groups: []plan.Group{one}, Excluded: []string{"ada"}}, approval.Rule{Excluded: []string{"ada"}}, one, true},
		"each for others":        {approval.Rule{Groups: []plan.Group{one}}, approval.Rule{Alone: true}, one, false},
		"another role than asks": {approval.Rule{Groups: []plan.Group{{Role: "cfo", Min: 1}}}, approval.Rule{}, one, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := &decider{approved: decides(ledger.Approve, false, c.needs), plain: decides(escalate, true, c.needs)}
			v, counts, err := verdict(d, &Action{Approved: true}, &approved{request: &approval.Request{Rule: c.asked}, least: c.least}, ledger.Standing{})
			require.NoError(t, err)
			require.Equal(t, c.counts, counts)
			require.Equal(t, c.counts, v.Decision.Decision == ledger.Approve)
		})
	}
}

// deciding is a guardian and an effect on which it decides.
func deciding(t *testing.T) (*Guardian, *effect) {
	key, _, err := trust.NewKey()
	require.NoError(t, err)
	p := &plan.Plan{Nodes: []plan.Node{{}, {ID: "pay", Kind: plan.KindCall, Provider: "bank", Operation: "pay", Effect: plan.Committing}}}
	p.Index()
	return &Guardian{Acting: &Acting{}, Key: key}, &effect{
		id: "i", state: trust.State{Deployment: "d", Audience: trust.Dev}, node: &node{plan: p, index: 1, spec: &p.Nodes[1]},
		input: []byte(`{}`), run: ledger.Run{OpenedAt: ledger.At(time.Now())},
	}
}

// TestTheStricterOfTwoPoliciesDecides: the policy by which people were asked, and the one that
// is active by now.
func TestTheStricterOfTwoPoliciesDecides(t *testing.T) {
	group := plan.Group{Role: "editor", Min: 1}
	verdicts := map[string]Verdict{ledger.Approve: decides(ledger.Approve, false, group), escalate: decides(escalate, true, group), reject: decides(reject, false, group)}
	strict := []string{ledger.Approve, escalate, reject}
	for n, now := range strict {
		for m, then := range strict {
			t.Run(now+" now, "+then+" then", func(t *testing.T) {
				g, e := deciding(t)
				said := &approved{
					request: &approval.Request{Rule: approval.Rule{Groups: []plan.Group{group}}}, policy: "sha256:then",
					then: &decider{approved: verdicts[then], plain: verdicts[then]},
				}
				st := ledger.Standing{At: ledger.At(time.Now()), Until: ledger.At(time.Now().Add(time.Second)), Decision: "i/1", Salt: []byte("salt")}
				a := &Action{Approved: true, Rules: []ledger.RulesData{{Digest: "sha256:now"}, {}}}
				r, err := g.judge(&decider{approved: verdicts[now], plain: verdicts[now]}, e, a, "guardian", said, st)
				require.NoError(t, err)
				require.Equal(t, strict[max(n, m)], r.Decision.Decision)
				require.Equal(t, max(n, m) == 0, r.Permit != nil)
			})
		}
	}
}

// TestInputsAreTaintedUnlessVouchedFor: the input of a run taints the ports that it fills, and
// whether the call is made, unless a key has vouched for it that may.
func TestInputsAreTaintedUnlessVouchedFor(t *testing.T) {
	vouching, _, err := trust.NewKey()
	require.NoError(t, err)
	other, _, err := trust.NewKey()
	require.NoError(t, err)
	state := trust.State{Deployment: "d", Audience: trust.Prod, Agents: map[string]trust.AddAgent{
		"clerk": {AgentID: "clerk", Keys: []string{vouching.Public(), other.Public()}, Vouching: []string{vouching.Public()}},
	}}
	spec := &plan.Node{Taint: &plan.Taint{Ports: []string{"b"}, InputPorts: []string{"a"}, InputDecision: true}}
	of := func(s trust.State, key *trust.Key) plan.Taint {
		now := time.Now()
		grant, err := trust.SignGrant(key, trust.Grant{
			Deployment: "d", Audience: s.Audience, Namespace: "default", WorkflowID: "w", Plan: plan.DigestOf(nil), Input: plan.DigestOf(nil), Agent: "clerk",
			Requester: "rae", Nonce: trust.Nonce(), Issued: ledger.At(now), Expires: ledger.At(now.Add(time.Minute)),
		})
		require.NoError(t, err)
		got, err := taint(&effect{state: s, run: ledger.Run{Grant: grant}, node: &node{spec: spec}})
		require.NoError(t, err)
		return got
	}
	require.Equal(t, plan.Taint{Ports: []string{"b"}}, of(state, vouching))
	require.Equal(t, plan.Taint{Ports: []string{"a", "b"}, Decision: true}, of(state, other))
	dev := state
	dev.Audience = trust.Dev
	require.Equal(t, plan.Taint{Ports: []string{"b"}}, of(dev, other), "in development every key vouches")
}

// TestOnlyWordsMayDiffer: a definition that a server lists in place of the pinned one stands in
// for it only if they differ in their words alone.
func TestOnlyWordsMayDiffer(t *testing.T) {
	const pinned = `{"name":"pay","description":"Pays.","inputSchema":{"type":"object","properties":{"to":{"type":"string"}}}}`
	is, err := fingerprint.Tool(json.RawMessage(pinned))
	require.NoError(t, err)
	spec := &plan.Node{ID: "pay", ProviderType: plan.MCP, Provider: "bank", Operation: "pay", Fingerprint: is.Digest}
	a := &Acting{Bench: func() Workbench {
		return Workbench{Definition: func(operation, print string) json.RawMessage {
			require.Equal(t, "bank/pay", operation)
			require.Equal(t, is.Digest, print)
			return json.RawMessage(pinned)
		}}
	}}
	for name, c := range map[string]struct {
		from, to string
		kind     contract.Kind
		listed   bool
	}{
		"the same":       {"Pays.", "Pays.", "", false},
		"other words":    {"Pays.", "Pays at once.", "", true},
		"another schema": {`"to":{"type":"string"}`, `"to":{"type":"string"},"amount":{"type":"number"}`, contract.Drift, false},
		"another name":   {`"pay"`, `"steal"`, contract.Drift, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := &effect{node: &node{spec: spec}}
			err := a.reworded(e, json.RawMessage(strings.Replace(pinned, c.from, c.to, 1)))
			require.Equal(t, c.listed, e.listed != nil)
			if c.kind == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, c.kind, kindOf(t.Context(), err).Kind)
		})
	}
}

// TestOnlyTheActivePolicyDecides: a worker with another policy than the one that the admins have
// activated decides nothing.
func TestOnlyTheActivePolicyDecides(t *testing.T) {
	for name, c := range map[string]struct {
		audience    trust.Audience
		active, has string
		kind        contract.Kind
	}{
		"the active one":  {trust.Prod, "sha256:1", "sha256:1", ""},
		"another":         {trust.Prod, "sha256:1", "sha256:2", contract.WorkerLost},
		"none is active":  {trust.Prod, "", "sha256:1", contract.Blocked},
		"none at all":     {trust.Prod, "", "", contract.Blocked},
		"in development":  {trust.Dev, "", "sha256:1", ""},
		"it has none yet": {trust.Prod, "sha256:1", "", contract.WorkerLost},
	} {
		t.Run(name, func(t *testing.T) {
			err := activated(trust.State{Audience: c.audience, Bundle: c.active}, &Workbench{Policy: c.has})
			if c.kind == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, c.kind, kindOf(t.Context(), err).Kind)
		})
	}
}

// checked has the last checks of nodes, by node and barrier.
type checked struct {
	ActingLedger
	last map[[2]string]ledger.CheckState
}

func (c checked) Invocation(context.Context, string) (ledger.Invocation, error) {
	return ledger.Invocation{}, ledger.ErrNotFound
}

func (c checked) LastCheck(_ context.Context, _, _, node string, _ int, barrier string) (ledger.Check, error) {
	state, ok := c.last[[2]string{node, barrier}]
	if !ok {
		return ledger.Check{}, ledger.ErrNotFound
	}
	return ledger.Check{State: state, OutputDigest: "sha256:" + node}, nil
}

// TestPrechecksMustSucceed: an effect needs all of its prechecks to have succeeded last, and each
// to have been called once more for the barrier at which people have approved it.
func TestPrechecksMustSucceed(t *testing.T) {
	p := &plan.Plan{Nodes: []plan.Node{{}, {ID: "a"}, {ID: "b"}, {ID: "pay", Effect: plan.Committing, Commit: &plan.Commit{Barrier: -1, Prechecks: []int{1, 2}}}}}
	p.Index()
	const at = "barrier/1"
	for name, c := range map[string]struct {
		last  map[[2]string]ledger.CheckState
		ok    bool
		again bool
	}{
		"both":                {map[[2]string]ledger.CheckState{{"a", ""}: ledger.CheckSucceeded, {"b", ""}: ledger.CheckSucceeded}, true, false},
		"one has failed":      {map[[2]string]ledger.CheckState{{"a", ""}: ledger.CheckSucceeded, {"b", ""}: ledger.CheckFailed}, false, false},
		"one is not stated":   {map[[2]string]ledger.CheckState{{"a", ""}: ledger.CheckSucceeded}, false, false},
		"both, and again":     {map[[2]string]ledger.CheckState{{"a", ""}: ledger.CheckSucceeded, {"b", ""}: ledger.CheckSucceeded, {"a", at}: ledger.CheckSucceeded, {"b", at}: ledger.CheckSucceeded}, true, true},
		"both, and one again": {map[[2]string]ledger.CheckState{{"a", ""}: ledger.CheckSucceeded, {"b", ""}: ledger.CheckSucceeded, {"a", at}: ledger.CheckSucceeded}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			acting := &Acting{Ledger: checked{last: c.last}}
			e := &effect{node: &node{plan: p, index: 3, spec: &p.Nodes[3]}}
			all, err := acting.prechecks(t.Context(), nil, e, &contract.Call{})
			if !c.ok {
				require.Equal(t, contract.Blocked, kindOf(t.Context(), err).Kind)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []Precheck{{"a", "sha256:a"}, {"b", "sha256:b"}}, all)
			again, err := acting.rechecked(t.Context(), e, &contract.Call{}, at)
			require.NoError(t, err)
			require.Equal(t, c.again, again)
		})
	}
}
