package model_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/model"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/task"
)

// fact is an entry to be, with its data.
type fact struct {
	kind       ledger.Kind
	chain, key string
	node       string
	visit      int
	// data are encoded; json.RawMessage is taken as it is, and nil has no body.
	data any
	// gone: the body was pruned.
	gone bool
}

// log gives facts their places, and applies them.
type log struct {
	*model.State
	next map[string]int64
}

func start() *log { return &log{model.New(), map[string]int64{}} }

func entry(f fact, n int64) (*ledger.Entry, json.RawMessage, error) {
	d := ledger.Draft{Chain: f.chain, Key: f.key, Kind: f.kind, Node: f.node, Visit: f.visit}
	switch f.kind {
	case ledger.RunOpened, ledger.RunClosed, ledger.RunPaused, ledger.RunResumed, ledger.NodeSucceeded, ledger.NodeFailed, ledger.NodeSkipped:
		d.Plan = sum("p")
	case ledger.HoldOpened, ledger.HoldRunning, ledger.HoldPosted, ledger.HoldVoided, ledger.HoldExpired:
		d.Agent = "a"
		if h, ok := f.data.(ledger.Hold); ok {
			d.Agent = h.Agent
		}
	default: // what else entries say beside their bodies is held against nothing
	}
	var data json.RawMessage
	digest := ""
	if f.data != nil {
		raw, ok := f.data.(json.RawMessage)
		if !ok {
			var err error
			if raw, err = json.Marshal(f.data); err != nil {
				return nil, nil, err
			}
		}
		if stored, err := (ledger.Body{Data: raw}).Encode(); err == nil && !ok {
			body, err := ledger.DecodeBody(stored)
			if err != nil {
				return nil, nil, err
			}
			raw = body.Data
		}
		data, digest = raw, ledger.BodyDigest(raw)
	}
	prev := ledger.Hash{}
	if n > 0 {
		prev = ledger.LeafHash([]byte(fmt.Sprint(f.chain, n)))
	}
	return d.Entry("o", n, prev, at(0), digest), data, nil
}

func (l *log) say(f fact) error {
	e, data, err := entry(f, l.next[f.chain])
	if err != nil {
		return err
	}
	raw, err := e.Encode()
	if err != nil {
		return err
	}
	l.next[f.chain]++
	if f.gone {
		data = nil
	}
	return l.Apply(e, ledger.LeafHash(raw), data)
}

func at(second int64) ledger.Time { return ledger.At(time.Unix(1_800_000_000+second, 0)) }

func cents(n int64) ledger.Money {
	m, err := ledger.Minor(n, "USD")
	if err != nil {
		panic(err)
	}
	return m
}

func sum(s string) string { return ledger.BodyDigest([]byte(s)) }

const chain, budgetChain = "run/w/r", "budget/USD"

func aRun() ledger.Run {
	return ledger.Run{Workflow: "w", Root: "r", Origin: "r", PlanDigest: sum("p"), InputDigest: sum("i"), State: ledger.RunRunning, OpenedAt: at(0)}
}

func closed() ledger.Run {
	r, t := aRun(), at(9)
	r.State, r.ClosedAt, r.OutputDigest = ledger.RunSucceeded, &t, sum("o")
	return r
}

func aDraft(id string) task.Draft {
	return task.Draft{TaskID: id, AgentID: "a", Description: "d", Resources: []string{}, CostEstimate: "1", Priority: task.High, State: task.StateDraft, CreatedAt: at(0).Time()}
}

func aSigned(id string) task.Signed {
	s, err := aDraft(id).Sign(task.Signature{SignerID: "b", SigType: "dev", Signature: "s", SignedAt: at(1).Time()})
	if err != nil {
		panic(err)
	}
	return s
}

func attempt(kind ledger.Kind, n int, end string) fact {
	d := ledger.AttemptData{ID: "i", Attempt: n}
	if t := at(5); kind == ledger.InvocationCalling {
		d.DecisionID, d.CallNotAfter = fmt.Sprint("i/", n), &t
	}
	if kind == ledger.InvocationSettled {
		d.OutputDigest = sum("o")
	}
	return fact{kind: kind, chain: chain, key: fmt.Sprintf("%s/i/%d%s", kind, n, end), data: d}
}

func about(kind ledger.Kind, chain, id string, data any) fact {
	return fact{kind: kind, chain: chain, key: string(kind) + "/" + id, data: data}
}

func node(name string, kind ledger.Kind) fact {
	return fact{kind: kind, chain: chain, key: "node/" + name + "/0/0", node: name, data: ledger.Outcome{Node: name, Kind: kind}}
}

// check is the call of a number of the node x.
func check(n int) fact {
	f := about(ledger.CheckMade, chain, fmt.Sprint("x/1/", n), ledger.Check{
		Workflow: "w", Root: "r", Origin: "r", Node: "x", Visit: 1, Number: n, State: ledger.CheckSucceeded, OutputDigest: sum("o"), MadeAt: at(0),
	})
	f.node, f.visit = "x", 1
	return f
}

func opened(id string) fact {
	return about(ledger.HoldOpened, budgetChain, id, ledger.Hold{ID: id, Agent: "a", Charges: forever("a"), Amount: cents(10), Status: ledger.TxPending, ExpiresAt: at(9)})
}

func decision(id string) fact {
	return about(ledger.DecisionMade, chain, id, ledger.Decision{ID: id, Invocation: "i", ActionDigest: sum("a"), PolicyDigest: sum("q"), Decision: ledger.Approve, Record: json.RawMessage(`{}`), DecidedAt: at(0)})
}

// waiting is a decision by which an action waits.
func waiting(id string) fact {
	return about(ledger.DecisionMade, chain, id, ledger.Decision{ID: id, Invocation: "m", ActionDigest: sum("a"), PolicyDigest: sum("q"), Decision: "ESCALATE", Record: json.RawMessage(`{}`), DecidedAt: at(0)})
}

func permit(id string) fact {
	i := ledger.Invocation{ID: "i", Origin: "r", ActionDigest: sum("a"), DecisionID: id, TaskID: id, HoldID: id, Permit: json.RawMessage(`{}`), PermitUntil: at(60), Unused: true, State: ledger.Permitted}
	if id == "i/2" {
		t := at(5)
		i.Attempt, i.CallNotAfter = 1, &t
	}
	return about(ledger.InvocationPermitted, chain, id, i)
}

// until is the life before an entry.
func until(key string) []fact {
	l := life()
	return l[:slices.IndexFunc(l, func(f fact) bool { return f.key == key })]
}

// life has an entry of every kind, each where it may stand.
func life() []fact {
	one, due := cents(1), at(0)
	return []fact{
		about(ledger.AuthorityStated, ledger.AuthorityChain, "x", ledger.AuthorityData{Statement: json.RawMessage(`{}`)}),
		about(ledger.PlanPublished, "plans", "p@1", ledger.Plan{Name: "p", Version: "1", Digest: sum("p"), SourceDigest: sum("s"), PublishedAt: at(0)}),
		about(ledger.AgentAdded, "agents", "a", ledger.Agent{AgentID: "a", CreatedAt: at(0)}),
		about(ledger.SignerEnrolled, "authority", "s", ledger.Signer{ID: "s", Person: "b", NotBefore: at(0), NotAfter: at(9)}),
		about(ledger.ToolRegistered, "tools", "u", ledger.Tool{ToolID: "u", Schema: json.RawMessage(`{}`), Status: "block", RegisteredAt: at(0)}),
		about(ledger.ToolTrusted, "tools", "u/1", ledger.TrustedData{ToolID: "u", Status: "block"}),
		about(ledger.BudgetSet, budgetChain, "a/p/0", ledger.BudgetData{Agent: "a", Currency: "USD", Every: ledger.Forever, Limit: cents(10)}),
		{kind: ledger.RunOpened, chain: chain, key: "run.opened", data: aRun()},
		node("x", ledger.NodeSucceeded), node("y", ledger.NodeFailed), node("z", ledger.NodeSkipped),
		about(ledger.RunPaused, chain, "1", ledger.Order{Kind: ledger.RunPaused, N: 1, By: "b", Signed: json.RawMessage(`{"payload":"e30="}`), Signer: "s"}),
		about(ledger.RunResumed, chain, "2", ledger.Order{Kind: ledger.RunResumed, N: 2}),
		opened("i/1"), decision("i/1"),
		waiting("m/1"), about(ledger.TaskDrafted, chain, "m/1", aDraft("m/1")),
		about(ledger.BarrierOpened, chain, "b/1", ledger.Barrier{ID: "b/1", Name: "b", Actions: []ledger.Awaited{{Invocation: "m", Action: sum("a"), Decision: "m/1"}},
			Request: json.RawMessage(`{}`), OpenedAt: at(0), ExpiresAt: at(60), State: ledger.BarrierOpen, RemindEveryMS: 1, EscalatesAt: &due, Workflow: "w", Root: "r"}),
		about(ledger.BarrierReminded, chain, "b/1/1", ledger.RemindedData{ID: "b/1", Number: 1}),
		about(ledger.BarrierEscalated, chain, "b/1", ledger.EscalatedData{ID: "b/1"}),
		about(ledger.BarrierClosed, chain, "b/1", ledger.BarrierData{ID: "b/1", State: ledger.BarrierRejected, Reason: "no"}),
		about(ledger.TaskClosed, chain, "m/1", ledger.TaskClosedData{TaskID: "m/1", Reason: "no"}),
		about(ledger.ApprovalAccepted, chain, "v", ledger.Approval{ID: "v", Barrier: "i", Signer: "s", Accepted: true, Actions: []string{sum("a")}, Envelope: json.RawMessage(`{}`), ReceivedAt: at(0)}),
		about(ledger.ApprovalRefused, chain, "w", ledger.Approval{ID: "w", Barrier: "i", Signer: "s", Actions: []string{}, Envelope: json.RawMessage(`{}`), ReceivedAt: at(0)}),
		about(ledger.ApprovalConsumed, chain, "i/1", ledger.ConsumedData{Decision: "i/1", Invocation: "i", Action: sum("a"), Approvals: []string{"v"}}),
		about(ledger.TaskDrafted, chain, "i/1", aDraft("i/1")), about(ledger.TaskSigned, chain, "i/1", aSigned("i/1")),
		permit("i/1"), about(ledger.HoldRunning, budgetChain, "i/1", ledger.HoldData{ID: "i/1"}), attempt(ledger.InvocationCalling, 1, ""),
		about(ledger.HoldVoided, budgetChain, "i/1", ledger.HoldData{ID: "i/1"}), attempt(ledger.InvocationReleased, 1, ""),
		opened("i/2"), decision("i/2"),
		about(ledger.TaskDrafted, chain, "i/2", aDraft("i/2")), about(ledger.TaskSigned, chain, "i/2", aSigned("i/2")), permit("i/2"),
		about(ledger.HoldRunning, budgetChain, "i/2", ledger.HoldData{ID: "i/2"}), attempt(ledger.InvocationCalling, 2, ""),
		attempt(ledger.InvocationUnknown, 2, ""),
		about(ledger.HoldPosted, budgetChain, "i/2", ledger.HoldData{ID: "i/2", Posted: &one}),
		about(ledger.TaskExecuted, chain, "i/2", ledger.ExecutedData{TaskID: "i/2", ExecutedAt: at(6), Result: json.RawMessage(`{}`)}),
		attempt(ledger.InvocationSettled, 2, "/resolved"),
		about(ledger.HoldOpened, budgetChain, "j", ledger.Hold{ID: "j", Agent: "a", Charges: forever("a"), Amount: cents(9), Status: ledger.TxPending, ExpiresAt: at(9)}),
		about(ledger.HoldVoided, budgetChain, "j", ledger.HoldData{ID: "j"}),
		about(ledger.HoldOpened, budgetChain, "k", ledger.Hold{ID: "k", Agent: "a", Charges: forever("a"), Amount: cents(9), Status: ledger.TxPending, ExpiresAt: at(0)}),
		about(ledger.HoldExpired, budgetChain, "k", ledger.HoldData{ID: "k"}),
		about(ledger.HypothesisStated, "hypotheses/a", "h", ledger.Hypothesis{HypothesisID: "h", AgentID: "a", Inputs: json.RawMessage(`{}`), Prediction: json.RawMessage(`{"kpis":[{"variable":"a"},{"variable":"b"}]}`), RiskScore: "0.5", State: ledger.HypothesisOpen, CreatedAt: at(0)}),
		about(ledger.HypothesisObserved, "hypotheses/a", "h/1", ledger.ObservedData{HypothesisID: "h", Observed: json.RawMessage(`{"a":1}`)}),
		about(ledger.HypothesisObserved, "hypotheses/a", "h/2", ledger.ObservedData{HypothesisID: "h", Observed: json.RawMessage(`{"b":"late"}`)}),
		about(ledger.SnapshotTaken, "snapshots/m", "0", ledger.Snapshot{Server: "m", TakenAt: at(0)}),
		about(ledger.RulesKept, "rules", plan.DigestOf([]byte(`{}`)), ledger.RulesData{Digest: plan.DigestOf([]byte(`{}`)), Rules: json.RawMessage(`{}`)}),
		check(1), {kind: ledger.RunClosed, chain: chain, key: "run.closed/9", data: closed()},
		about(ledger.SignerRevoked, "authority", "s", ledger.RevokedData{ID: "s", RevokedAt: at(7)}),
		about(ledger.LegalHoldPlaced, "ledger", "0", ledger.LegalHoldData{Chain: chain, Reason: "case"}),
		about(ledger.LegalHoldLifted, "ledger", "1", ledger.LegalHoldData{Chain: chain, Reason: "case"}),
		about(ledger.BodyPruned, "ledger", "2", ledger.PrunedData{Class: ledger.Evidence, Before: at(0), Reason: "policy"}),
		about(ledger.SubjectErased, "ledger", "3", ledger.ErasedData{Key: "k", Reason: "asked"}),
	}
}

// forever are the charges of a hold whose budgets have one period each.
func forever(agents ...string) (out []ledger.Charge) {
	for _, a := range agents {
		out = append(out, ledger.Charge{Agent: a, Period: string(ledger.Forever)})
	}
	return out
}

// Every kind is in it once at least, and it can have happened.
func TestLife(t *testing.T) {
	l := start()
	seen := map[ledger.Kind]bool{}
	for _, f := range life() {
		require.NoError(t, l.say(f), "%s", f.key)
		seen[f.kind] = true
	}
	require.Equal(t, ledger.Kinds(), slices.Sorted(maps.Keys(seen)))
	require.Equal(t, ledger.Settled, l.Invocations["i"].State)
	require.Equal(t, cents(1), l.Uses[model.UseKey{BudgetKey: model.BudgetKey{Agent: "a", Currency: "USD"}, Period: "forever"}].Posted)
	require.Equal(t, task.StateExecuted, l.Tasks["i/2"].Base().State)
	require.Len(t, l.Runs[chain].Outcomes, 3)
	brief := start()
	brief.Brief = true
	for _, f := range life() {
		require.NoError(t, brief.say(f))
	}
	require.Empty(t, brief.Runs[chain].Outcomes)
	for _, f := range []fact{node("x", ledger.NodeSucceeded), node("n", ledger.NodeSucceeded)} {
		require.ErrorIs(t, brief.say(f), model.ErrImpossible)
	}
}

// alone are the kinds that need nothing before them.
var alone = map[ledger.Kind]bool{
	ledger.AuthorityStated: true, ledger.PlanPublished: true, ledger.AgentAdded: true, ledger.SignerEnrolled: true, ledger.ToolRegistered: true,
	ledger.BudgetSet: true, ledger.RunOpened: true, ledger.HypothesisStated: true, ledger.SnapshotTaken: true, ledger.RulesKept: true, ledger.LegalHoldPlaced: true,
	ledger.BodyPruned: true, ledger.SubjectErased: true,
}

// repeatable are those that may be said again, of the same thing.
var repeatable = map[ledger.Kind]bool{
	ledger.AuthorityStated: true, ledger.ToolTrusted: true, ledger.BudgetSet: true, ledger.SnapshotTaken: true, ledger.RulesKept: true, ledger.BodyPruned: true,
	ledger.SubjectErased: true, ledger.RunClosed: true, ledger.HoldRunning: true, ledger.ApprovalConsumed: true,
}

// A kind that needs another before it is refused at the beginning, and a fact that
// may be stated once is refused a second time.
func TestOutOfOrder(t *testing.T) {
	for i, f := range life() {
		err := start().say(f)
		if alone[f.kind] {
			require.NoError(t, err, "%s first", f.key)
		} else {
			require.ErrorIs(t, err, model.ErrImpossible, "%s first", f.key)
		}
		l := start()
		for _, before := range life()[:i+1] {
			require.NoError(t, l.say(before))
		}
		err = l.say(f)
		if repeatable[f.kind] {
			require.NoError(t, err, "%s again", f.key)
		} else {
			require.ErrorIs(t, err, model.ErrImpossible, "%s again", f.key)
		}
	}
}

// needs says which entries cannot stand without another one of the life, by their
// keys.
var needs = map[string][]string{
	"signer.enrolled/s": {"signer.revoked/s"},
	"tool.registered/u": {"tool.trusted/u/1"},
	"budget.set/a/p/0": {
		"hold.opened/i/1", "invocation.permitted/i/1", "hold.running/i/1", "invocation.calling/i/1", "hold.voided/i/1", "invocation.released/i/1",
		"hold.opened/i/2", "invocation.permitted/i/2", "hold.running/i/2", "invocation.calling/i/2", "invocation.unknown/i/2", "hold.posted/i/2",
		"invocation.settled/i/2/resolved", "hold.opened/j", "hold.voided/j", "hold.opened/k", "hold.expired/k",
	},
	"run.opened": {
		"node/x/0/0", "node/y/0/0", "node/z/0/0", "run.paused/1", "run.resumed/2", "decision.made/i/1", "decision.made/m/1", "task.drafted/m/1", "barrier.opened/b/1",
		"barrier.reminded/b/1/1", "barrier.escalated/b/1", "barrier.closed/b/1", "task.closed/m/1", "approval.accepted/v", "approval.refused/w",
		"approval.consumed/i/1", "task.drafted/i/1", "task.signed/i/1", "invocation.permitted/i/1", "invocation.calling/i/1", "invocation.released/i/1",
		"decision.made/i/2", "task.drafted/i/2", "task.signed/i/2", "invocation.permitted/i/2", "invocation.calling/i/2", "invocation.unknown/i/2",
		"task.executed/i/2", "invocation.settled/i/2/resolved", "check.made/x/1/1", "run.closed/9",
	},
	"hold.opened/i/1": {
		"invocation.permitted/i/1", "hold.running/i/1", "invocation.calling/i/1", "hold.voided/i/1", "invocation.released/i/1", "invocation.permitted/i/2",
		"invocation.calling/i/2", "invocation.unknown/i/2", "invocation.settled/i/2/resolved",
	},
	"decision.made/i/1": {
		"invocation.permitted/i/1", "invocation.calling/i/1", "invocation.released/i/1", "invocation.permitted/i/2", "invocation.calling/i/2", "invocation.unknown/i/2",
		"invocation.settled/i/2/resolved",
	},
	"approval.accepted/v": {"approval.consumed/i/1"},
	"task.drafted/i/1": {
		"task.signed/i/1", "invocation.permitted/i/1", "invocation.calling/i/1", "invocation.released/i/1", "invocation.permitted/i/2", "invocation.calling/i/2",
		"invocation.unknown/i/2", "invocation.settled/i/2/resolved",
	},
	"task.signed/i/1": {
		"invocation.permitted/i/1", "invocation.calling/i/1", "invocation.released/i/1", "invocation.permitted/i/2", "invocation.calling/i/2", "invocation.unknown/i/2",
		"invocation.settled/i/2/resolved",
	},
	"invocation.permitted/i/1": {"invocation.calling/i/1", "invocation.released/i/1", "invocation.permitted/i/2", "invocation.calling/i/2", "invocation.unknown/i/2", "invocation.settled/i/2/resolved"},
	"hold.running/i/1":         {"invocation.calling/i/1", "invocation.released/i/1", "invocation.permitted/i/2", "invocation.calling/i/2", "invocation.unknown/i/2", "task.executed/i/2", "invocation.settled/i/2/resolved"},
	"invocation.calling/i/1":   {"invocation.released/i/1", "invocation.permitted/i/2", "invocation.calling/i/2", "invocation.unknown/i/2", "task.executed/i/2", "invocation.settled/i/2/resolved"},
	"hold.voided/i/1": {
		"invocation.released/i/1", "hold.opened/i/2", "invocation.permitted/i/2", "hold.running/i/2", "invocation.calling/i/2", "invocation.unknown/i/2",
		"hold.posted/i/2", "task.executed/i/2", "invocation.settled/i/2/resolved", "hold.opened/j", "hold.voided/j", "hold.opened/k", "hold.expired/k",
	},
	"invocation.released/i/1":  {"invocation.permitted/i/2", "invocation.calling/i/2", "invocation.unknown/i/2", "task.executed/i/2", "invocation.settled/i/2/resolved"},
	"hold.opened/i/2":          {"invocation.permitted/i/2", "hold.running/i/2", "invocation.calling/i/2", "invocation.unknown/i/2", "hold.posted/i/2", "task.executed/i/2", "invocation.settled/i/2/resolved"},
	"decision.made/i/2":        {"invocation.permitted/i/2", "invocation.calling/i/2", "invocation.unknown/i/2", "task.executed/i/2", "invocation.settled/i/2/resolved"},
	"task.drafted/i/2":         {"task.signed/i/2", "invocation.permitted/i/2", "invocation.calling/i/2", "invocation.unknown/i/2", "task.executed/i/2", "invocation.settled/i/2/resolved"},
	"task.signed/i/2":          {"invocation.permitted/i/2", "invocation.calling/i/2", "invocation.unknown/i/2", "task.executed/i/2", "invocation.settled/i/2/resolved"},
	"invocation.permitted/i/2": {"invocation.calling/i/2", "invocation.unknown/i/2", "task.executed/i/2", "invocation.settled/i/2/resolved"},
	"hold.running/i/2":         {"invocation.calling/i/2", "invocation.unknown/i/2", "invocation.settled/i/2/resolved"},
	"invocation.calling/i/2":   {"invocation.unknown/i/2", "invocation.settled/i/2/resolved"},
	"hold.posted/i/2":          {"invocation.settled/i/2/resolved", "hold.opened/j", "hold.voided/j", "hold.opened/k", "hold.expired/k"},
	"task.executed/i/2":        {"invocation.settled/i/2/resolved"},
	"decision.made/m/1":        {"barrier.opened/b/1", "barrier.reminded/b/1/1", "barrier.escalated/b/1", "barrier.closed/b/1"},
	"task.drafted/m/1":         {"barrier.opened/b/1", "barrier.reminded/b/1/1", "barrier.escalated/b/1", "barrier.closed/b/1", "task.closed/m/1"},
	"barrier.opened/b/1":       {"barrier.reminded/b/1/1", "barrier.escalated/b/1", "barrier.closed/b/1"},
	"hold.opened/j":            {"hold.voided/j"},
	"hold.voided/j":            {"hold.opened/k", "hold.expired/k"},
	"hold.opened/k":            {"hold.expired/k"},
	"hypothesis.stated/h":      {"hypothesis.observed/h/1", "hypothesis.observed/h/2"},
	"hypothesis.observed/h/1":  {"hypothesis.observed/h/2"},
	"legal-hold.placed/0":      {"legal-hold.lifted/1"},
	"run.paused/1":             {"run.resumed/2"},
}

// If a life lacks one entry, exactly the entries that depend on it are refused.
func TestWhatRestsOnWhat(t *testing.T) {
	for i, missing := range life() {
		l := start()
		var refused []string
		for j, f := range life() {
			if i == j {
				continue
			}
			if err := l.say(f); err != nil {
				require.ErrorIs(t, err, model.ErrImpossible)
				refused = append(refused, f.key)
			}
		}
		require.Equal(t, needs[missing.key], refused, "without %s", missing.key)
	}
}

// The content of a body that is gone is unknown, and nothing about the same thing
// is refused for that.
func TestGone(t *testing.T) {
	for i := range life() {
		l := start()
		for j, f := range life() {
			f.gone = i == j
			require.NoError(t, l.say(f), "%s, without the body of %s", f.key, life()[i].key)
		}
	}
	l := start()
	for _, f := range life() {
		f.gone = true
		require.NoError(t, l.say(f))
	}
	require.Empty(t, l.Runs)
	require.Empty(t, l.Tasks)
	require.Empty(t, l.Invocations)
}

// with returns a fact with other data.
func with[T any](f fact, change func(*T)) fact {
	v := f.data.(T)
	change(&v)
	f.data = v
	return f
}

// What contradicts the state, or its own key, is refused for what is wrong.
func TestRefused(t *testing.T) {
	byKey := map[string]fact{}
	place := map[string]int{}
	for i, f := range life() {
		byKey[f.key], place[f.key] = f, i
	}
	two := cents(20)
	minus := cents(-1)
	for _, c := range []struct {
		name string
		// before is the key of the entry in whose place it comes, "" at the end.
		before string
		f      fact
		says   string
	}{
		{"a run in another's chain", "run.opened", with(byKey["run.opened"], func(r *ledger.Run) { r.Root = "q" }), "does not open its chain"},
		{"a run that begins with its end", "run.opened", with(byKey["run.opened"], func(r *ledger.Run) { r.State = ledger.RunFailed }), "is not the state of a run that is opened"},
		{"an outcome under another node's name", "node/x/0/0", with(byKey["node/x/0/0"], func(o *ledger.Outcome) { o.Node = "q" }), "about something else"},
		{"an outcome of another visit", "node/x/0/0", with(byKey["node/x/0/0"], func(o *ledger.Outcome) { o.Visit = 1 }), "about something else"},
		{"a check of another visit", "check.made/x/1/1", with(byKey["check.made/x/1/1"], func(c *ledger.Check) { c.Visit = 2 }), "its key is not that of"},
		{"a check of another run", "check.made/x/1/1", with(byKey["check.made/x/1/1"], func(c *ledger.Check) { c.Root = "q" }), "about something else"},
		{"a check of another origin", "check.made/x/1/1", with(byKey["check.made/x/1/1"], func(c *ledger.Check) { c.Origin = "q" }), "another origin"},
		{"a check that says nothing", "check.made/x/1/1", with(byKey["check.made/x/1/1"], func(c *ledger.Check) { c.OutputDigest = "" }), "a check that ends as"},
		{"a check that leaves one out", "run.closed/9", check(3), "check 3 of x follows check 1"},
		{"a check for what was rejected", "run.closed/9", with(check(2), func(c *ledger.Check) { c.Barrier = "b/1" }), "nobody has approved what waits at the barrier b/1"},
		{"a check after the end", "", check(2), "the run has ended"},
		{"an outcome after the end", "", node("late", ledger.NodeSucceeded), "the run has ended"},
		{"an order after the end", "", about(ledger.RunPaused, chain, "3", ledger.Order{Kind: ledger.RunPaused, N: 3}), "the run has ended"},
		{"an order under another's number", "run.paused/1", with(byKey["run.paused/1"], func(o *ledger.Order) { o.N = 2 }), "its key is not that of 2"},
		{"an order of another kind", "run.paused/1", with(byKey["run.paused/1"], func(o *ledger.Order) { o.Kind = ledger.RunResumed }), "is not the order that its entry states"},
		{"a signer without a signature", "run.paused/1", with(byKey["run.paused/1"], func(o *ledger.Order) { o.Signed = nil }), "nothing that was signed"},
		{"a pause of a paused run", "run.resumed/2", about(ledger.RunPaused, chain, "2", ledger.Order{Kind: ledger.RunPaused, N: 2}), "paused already"},
		{"an order that has counted before, with other signatures", "run.resumed/2", with(byKey["run.resumed/2"], func(o *ledger.Order) {
			o.Signed = json.RawMessage(`{"payload":"e30=","signatures":[2]}`)
		}), "has counted before"},
		{"a resumption of a run that goes on", "run.paused/1", about(ledger.RunResumed, chain, "1", ledger.Order{Kind: ledger.RunResumed, N: 1}), "is not paused"},
		{"a decision after the end", "", about(ledger.DecisionMade, chain, "e", ledger.Decision{ID: "e", Decision: ledger.Reject, Record: json.RawMessage(`{}`)}), "the run has ended as succeeded"},
		{"an end that ends nothing", "run.closed/9", with(byKey["run.closed/9"], func(r *ledger.Run) { r.State = ledger.RunRunning }), "is not the state of a run that has ended"},
		{"an end without a time", "run.closed/9", with(byKey["run.closed/9"], func(r *ledger.Run) { r.ClosedAt = nil }), "when the run has ended"},
		{"an end of another plan", "run.closed/9", with(byKey["run.closed/9"], func(r *ledger.Run) { r.PlanDigest = sum("q") }), "about another run"},
		{"another end", "", with(byKey["run.closed/9"], func(r *ledger.Run) { r.State = ledger.RunFailed }), "the run has ended as succeeded"},
		{"a plan under another name", "plan.published/p@1", with(byKey["plan.published/p@1"], func(p *ledger.Plan) { p.Version = "2" }), "its key is not that of"},
		{"a signer that is revoked from the start", "signer.enrolled/s", with(byKey["signer.enrolled/s"], func(s *ledger.Signer) { t := at(1); s.RevokedAt = &t }), "revoked from the start"},
		{"a budget in another currency", "budget.set/a/p/0", with(byKey["budget.set/a/p/0"], func(b *ledger.BudgetData) { b.Currency = "EUR" }), "on a budget of EUR"},
		{"a limit below zero", "budget.set/a/p/0", with(byKey["budget.set/a/p/0"], func(b *ledger.BudgetData) { b.Limit = minus }), "a limit of"},
		{"a budget without its parent's", "budget.set/a/p/0", with(byKey["budget.set/a/p/0"], func(b *ledger.BudgetData) { b.Parent = "org" }), "org has no budget"},
		{"a budget that is its own parent", "hold.opened/i/1", with(byKey["budget.set/a/p/0"], func(b *ledger.BudgetData) { b.Parent = "a" }), "each other for parents"},
		{"a hold over the limit", "hold.opened/i/1", with(byKey["hold.opened/i/1"], func(h *ledger.Hold) { h.Amount = two }), "does not fit"},
		{"a hold below zero", "hold.opened/i/1", with(byKey["hold.opened/i/1"], func(h *ledger.Hold) { h.Amount = minus }), "is not a new one"},
		{"a hold that is posted from the start", "hold.opened/i/1", with(byKey["hold.opened/i/1"], func(h *ledger.Hold) { h.Status = ledger.TxPosted }), "is not a new one"},
		{"a hold of nobody's", "hold.opened/i/1", with(byKey["hold.opened/i/1"], func(h *ledger.Hold) { h.Agent = "b" }), "b has no budget"},
		{"more spent than held", "hold.posted/i/2", with(byKey["hold.posted/i/2"], func(h *ledger.HoldData) { h.Posted = &two }), "is posted with"},
		{"less than nothing spent", "hold.posted/i/2", with(byKey["hold.posted/i/2"], func(h *ledger.HoldData) { h.Posted = &minus }), "is posted with"},
		{"spent without an amount", "hold.posted/i/2", with(byKey["hold.posted/i/2"], func(h *ledger.HoldData) { h.Posted = nil }), "without an amount"},
		{"a running hold that expires", "hold.posted/i/2", about(ledger.HoldExpired, budgetChain, "i/2", ledger.HoldData{ID: "i/2"}), "of a running effect expires"},
		{"a hold that is voided after it was posted", "", about(ledger.HoldVoided, budgetChain, "i/2", ledger.HoldData{ID: "i/2"}), "is not pending"},
		{"an approval that says otherwise", "approval.accepted/v", with(byKey["approval.accepted/v"], func(a *ledger.Approval) { a.Accepted = false }), "say otherwise"},
		{"a reminder before its time", "barrier.reminded/b/1/1", about(ledger.BarrierReminded, chain, "b/1/2", ledger.RemindedData{ID: "b/1", Number: 2}), "reminder 2 of barrier b/1 follows 0"},
		{"a reminder without a number", "barrier.reminded/b/1/1", about(ledger.BarrierReminded, chain, "b/1/0", ledger.RemindedData{ID: "b/1"}), "reminder 0 of barrier b/1 follows 0"},
		{"an escalation of a barrier that never escalates", "barrier.opened/b/1", with(byKey["barrier.opened/b/1"], func(b *ledger.Barrier) { b.EscalatedAt = b.EscalatesAt }), "is not a new one"},
		{"a refused approval that is used", "approval.consumed/i/1", with(byKey["approval.consumed/i/1"], func(c *ledger.ConsumedData) { c.Approvals = []string{"w"} }), "approval w cannot be used"},
		{"an approval that is used twice", "approval.consumed/i/1", with(byKey["approval.consumed/i/1"], func(c *ledger.ConsumedData) { c.Approvals = []string{"v", "v"} }), "approval v cannot be used"},
		{"an approval of another action", "approval.consumed/i/1", with(byKey["approval.consumed/i/1"], func(c *ledger.ConsumedData) { c.Action = sum("b") }), "decision i/1 is about another action"},
		{"an approval under another's decision", "approval.consumed/i/1", with(byKey["approval.consumed/i/1"], func(c *ledger.ConsumedData) { c.Invocation = "j" }), "decision i/1 is about another action"},
		{"an approval of another action under no decision", "approval.consumed/i/1", about(ledger.ApprovalConsumed, chain, "j/1", ledger.ConsumedData{Decision: "j/1", Invocation: "j", Action: sum("b"), Approvals: []string{"v"}}), "approval v cannot be used"},
		{"an approval that another has used", "invocation.permitted/i/1", about(ledger.ApprovalConsumed, chain, "j/1", ledger.ConsumedData{Decision: "j/1", Invocation: "j", Action: sum("a"), Approvals: []string{"v"}}), "approval v is used up"},
		{"a decision about another invocation", "decision.made/i/1", with(byKey["decision.made/i/1"], func(d *ledger.Decision) { d.Invocation = "j" }), "is not one about j"},
		{"a permit of another action", "invocation.permitted/i/1", with(byKey["invocation.permitted/i/1"], func(i *ledger.Invocation) { i.ActionDigest = sum("b") }), "about another action"},
		{"a permit by no decision", "invocation.permitted/i/1", about(ledger.InvocationPermitted, chain, "i/7", with(permit("i/1"), func(i *ledger.Invocation) { i.DecisionID = "i/7" }).data), "no decision i/7"},
		{"a permit of another's decision", "invocation.permitted/i/1", with(byKey["invocation.permitted/i/1"], func(i *ledger.Invocation) { i.ID = "j" }), "is not one about j"},
		{"a permit without its hold", "invocation.permitted/i/1", with(byKey["invocation.permitted/i/1"], func(i *ledger.Invocation) { i.HoldID = "i/7" }), "without its hold"},
		{"a permit that is called from the start", "invocation.permitted/i/1", with(byKey["invocation.permitted/i/1"], func(i *ledger.Invocation) { i.State = ledger.Calling }), "makes something else"},
		{"a second permit by one decision", "hold.opened/i/2", with(byKey["invocation.permitted/i/1"], func(i *ledger.Invocation) { t := at(5); i.Attempt, i.CallNotAfter = 1, &t; i.HoldID = "" }), "has given a permit before"},
		{"a permit for what is settled", "hold.opened/j", about(ledger.InvocationPermitted, chain, "i/3", with(permit("i/2"), func(i *ledger.Invocation) { i.DecisionID = "i/3" }).data), "the invocation is settled"},
		{"a call by another permit", "invocation.calling/i/1", with(byKey["invocation.calling/i/1"], func(a *ledger.AttemptData) { a.DecisionID = "i/2" }), "has another permit"},
		{"a call after the permit", "hold.running/i/1", with(byKey["invocation.calling/i/1"], func(a *ledger.AttemptData) {}), "before its hold runs"},
		{"an attempt that skips one", "invocation.calling/i/1", with(attempt(ledger.InvocationCalling, 2, ""), func(a *ledger.AttemptData) { a.DecisionID = "i/1" }), "attempt 2 of i follows attempt 0"},
		{"a call without an end", "invocation.calling/i/1", with(byKey["invocation.calling/i/1"], func(a *ledger.AttemptData) { a.CallNotAfter = nil }), "not those of a call"},
		{"an end of another attempt", "invocation.unknown/i/2", attempt(ledger.InvocationSettled, 1, ""), "attempt 1 has ended, now is 2"},
		{"an end that keeps its hold", "hold.voided/i/1", attempt(ledger.InvocationReleased, 1, ""), "is released, and its hold is pending"},
		{"an end that says when it is called", "hold.voided/i/1", with(attempt(ledger.InvocationReleased, 1, ""), func(a *ledger.AttemptData) { a.DecisionID = "i/1" }), "not those of an end"},
		{"an end under another's key", "invocation.unknown/i/2", about(ledger.InvocationSettled, chain, "q/2", ledger.AttemptData{ID: "i", Attempt: 2}), "its key is not that of i"},
		{"a task that is signed as another", "task.signed/i/1", with(byKey["task.signed/i/1"], func(s *task.Signed) { s.Description = "other" }), "is not what was drafted"},
		{"a draft that is said to be signed", "task.signed/i/1", about(ledger.TaskSigned, chain, "i/1", aDraft("i/1")), "it is a draft"},
		{"a task that is executed before it was signed", "task.executed/i/2", with(byKey["task.executed/i/2"], func(x *ledger.ExecutedData) { x.ExecutedAt = at(-1) }), "signed_at"},
		{"a hypothesis under another's key", "hypothesis.observed/h/1", with(byKey["hypothesis.observed/h/1"], func(o *ledger.ObservedData) { o.HypothesisID = "q" }), "its key is not that of q"},
		{"an observation that changes one", "hypothesis.observed/h/2", with(byKey["hypothesis.observed/h/2"], func(o *ledger.ObservedData) { o.Observed = json.RawMessage(`{"a":2}`) }), "something else was observed"},
		{"an observation that repeats one", "hypothesis.observed/h/2", with(byKey["hypothesis.observed/h/2"], func(o *ledger.ObservedData) { o.Observed = json.RawMessage(`{"a":1,"b":2}`) }), "was observed before"},
		{"an observation of what was not predicted", "hypothesis.observed/h/2", with(byKey["hypothesis.observed/h/2"], func(o *ledger.ObservedData) { o.Observed = json.RawMessage(`{"c":1}`) }), "has no KPI"},
		{"an observation that counts more than there are", "hypothesis.observed/h/2", with(byKey["hypothesis.observed/h/2"], func(o *ledger.ObservedData) { o.Observed = json.RawMessage(`{}`) }), "its key is not that of h/1"},
		{"a hold that is placed twice", "legal-hold.lifted/1", about(ledger.LegalHoldPlaced, "ledger", "9", ledger.LegalHoldData{Chain: chain, Reason: "x"}), "in that state already"},
		{"data of another kind", "plan.published/p@1", about(ledger.PlanPublished, "plans", "p@1", ledger.HoldData{ID: "i"}), "are not written as those of its kind"},
		{"a field that nobody knows", "hold.running/i/1", about(ledger.HoldRunning, budgetChain, "i/1", json.RawMessage(`{"id":"i","x":1}`)), "are not written as"},
		{"a field in another case", "hold.running/i/1", about(ledger.HoldRunning, budgetChain, "i/1", json.RawMessage(`{"ID":"i"}`)), "are not written as"},
		{"a field that is there twice", "hold.running/i/1", about(ledger.HoldRunning, budgetChain, "i/1", json.RawMessage(`{"id":"j","id":"i"}`)), "are not written as"},
		{"white space", "hold.running/i/1", about(ledger.HoldRunning, budgetChain, "i/1", json.RawMessage(`{"id": "i"}`)), "are not written as"},
		{"no object", "hold.running/i/1", about(ledger.HoldRunning, budgetChain, "i/1", json.RawMessage(`7`)), "are not those of its kind"},
	} {
		t.Run(c.name, func(t *testing.T) {
			end := len(life())
			if c.before != "" {
				var ok bool
				end, ok = place[c.before]
				require.True(t, ok, c.before)
			}
			l, before := start(), start()
			for _, f := range life()[:end] {
				require.NoError(t, l.say(f), "%s", f.key)
				require.NoError(t, before.say(f))
			}
			err := l.say(c.f)
			require.ErrorIs(t, err, model.ErrImpossible)
			require.ErrorContains(t, err, c.says)
			require.Equal(t, before.State, l.State, "what is refused changes nothing")
		})
	}
}

// Only an APPROVE permits, and only in its own run.
func TestPermitsRestOnDecisions(t *testing.T) {
	for _, verdict := range []string{ledger.Escalate, ledger.Reject} {
		l := start()
		var refused []string
		for _, f := range life() {
			if f.kind == ledger.DecisionMade {
				f = with(f, func(d *ledger.Decision) { d.Decision = verdict })
			}
			if err := l.say(f); err != nil {
				refused = append(refused, f.key)
			}
		}
		require.Equal(t, needs["invocation.permitted/i/1"][1:], refused[2:], verdict)
	}
	l := start()
	for _, f := range until("invocation.permitted/i/1") {
		require.NoError(t, l.say(f))
	}
	other := aRun()
	other.Root = "q"
	require.NoError(t, l.say(fact{kind: ledger.RunOpened, chain: other.Chain(), key: "run.opened", data: other}))
	elsewhere := permit("i/1")
	elsewhere.chain = other.Chain()
	require.ErrorContains(t, l.say(elsewhere), "about another action")
}
