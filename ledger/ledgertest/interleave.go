package ledgertest

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/task"
)

// action is one step of a worker: an operation on one of few things, so that
// workers meet.
type action struct {
	Op   string
	A, B int
	// Cut ends the operation's context after so many microseconds, 0 never: the
	// caller does not learn whether it was done, and asks again.
	Cut int
}

var operations = []string{
	"open run", "outcome", "outcome", "close run", "agent", "tool", "trust", "signer", "revoke", "plan", "authority",
	"budget", "hold", "post", "void", "expire", "approve", "refuse", "authorize", "authorize", "authorize", "authorize", "deny", "claim", "claim", "release", "settle", "lose", "abandon",
	"hypothesis", "observe", "snapshot", "append", "append", "erase", "prune", "legal hold", "lift", "integrate", "read",
}

func actions(length int) *rapid.Generator[[]action] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) action {
		return action{
			Op: rapid.SampledFrom(operations).Draw(t, "op"), A: rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "a"), B: rapid.IntRange(0, 3).Draw(t, "b"),
			Cut: max(0, rapid.IntRange(-3000, 1500).Draw(t, "cut")),
		}
	}), length, length)
}

// interleavings: whatever workers do at once, with connections that break off
// and stores that are closed and opened again, ends in the state that the log
// tells. (Rapid draws what they do; how they meet is the machine's.)
func interleavings(t *testing.T, open func() Open) {
	checks := flag.Lookup("rapid.checks")
	if before := checks.Value.String(); before == checks.DefValue {
		// A database for each.
		require.NoError(t, checks.Value.Set("4"))
		defer func() { require.NoError(t, checks.Value.Set(before)) }()
	}
	rapid.Check(t, func(r *rapid.T) {
		const workers = 5
		scripts := rapid.SliceOfN(actions(40), workers, workers).Draw(r, "scripts")
		reopen := open()
		key := Key(t)
		var mu sync.Mutex
		var failures []error
		var group sync.WaitGroup
		shared := reopen(t)
		if rapid.Bool().Draw(r, "begun") {
			// What much rests on is there from the start.
			for _, a := range []action{
				{Op: "open run"}, {Op: "approve"}, {Op: "approve", B: 2}, {Op: "budget", B: 3},
			} {
				if err := a.do(t, shared, key); err != nil {
					r.Fatal(err)
				}
			}
		}
		for w, script := range scripts {
			group.Go(func() {
				s := shared
				for i, a := range script {
					if i%20 == 10 && w%2 == 0 {
						s = reopen(t)
					}
					if err := a.do(t, s, key); err != nil {
						mu.Lock()
						failures = append(failures, fmt.Errorf("worker %d, %+v: %w", w, a, err))
						mu.Unlock()
					}
				}
			})
		}
		group.Wait()
		if err := errors.Join(failures...); err != nil {
			r.Fatal(err)
		}
		Drain(t, shared, key)
		last := reopen(t)
		Same(t, last, Replay(t, last))
	})
}

// predicted is a hypothesis of the agent of all runs, about the KPIs a and b.
func predicted(id string) ledger.Hypothesis {
	return ledger.Hypothesis{
		HypothesisID: id, AgentID: run().Agent, Inputs: json.RawMessage(`{}`), Prediction: json.RawMessage(`{"kpis":[{"variable":"a"},{"variable":"b"}]}`), RiskScore: "1e-3",
	}
}

// do does the action, and gives errors that it must not have.
func (a action) do(t testing.TB, s ledger.Store, key *ledger.Key) error {
	ctx, cancel := t.Context(), context.CancelFunc(func() {})
	if a.Cut > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(a.Cut)*time.Microsecond)
	}
	err := a.ask(ctx, t, s, key)
	cancel()
	// SQLite erases to the end when nobody reads.
	for again := 0; errors.Is(err, ledger.ErrUnavailable) && (again == 0 && a.Cut > 0 || again < 1000 && a.Op == "erase"); again++ {
		err = a.ask(t.Context(), t, s, key)
	}
	for _, allowed := range []error{ledger.ErrConflict, ledger.ErrNotFound, ledger.ErrBudget, ledger.ErrGone} {
		if errors.Is(err, allowed) && !errors.Is(err, ledger.ErrUnavailable) {
			return nil
		}
	}
	return err
}

func (a action) ask(ctx context.Context, t testing.TB, s ledger.Store, key *ledger.Key) error {
	no := func(_ any, err error) error { return err }
	id := fmt.Sprintf("x-%d", a.A)
	name := fmt.Sprintf("y-%d", a.B)
	r := run()
	r.Root = id
	if a.A == 2 {
		r.Subject = "max" // who is erased now and then
	}
	far := ledger.At(time.Unix(1<<33, 0))
	doc := json.RawMessage(fmt.Sprintf(`{"z": %d, "a": "<\u0000\u2028>", "n": 1.50e+1}`, a.B))
	measured := ledger.Observation{Hypothesis: id, Observed: json.RawMessage(fmt.Sprintf(`{%q:%d}`, []string{"a", "b", "a"}[a.A], a.B))}
	invocation := id + name[:1+a.B%2]
	switch a.Op {
	case "open run":
		return s.OpenRun(ctx, r)
	case "outcome":
		kinds := []ledger.Kind{ledger.NodeSucceeded, ledger.NodeFailed, ledger.NodeSkipped, ledger.NodeSucceeded}
		return s.RecordOutcomes(ctx, "w", id, []ledger.Outcome{
			{Node: name, Visit: a.B, Kind: kinds[a.B], Error: doc}, {Node: "again", Element: a.B, Kind: ledger.NodeSucceeded, OutputDigest: digest(name)},
		})
	case "close run":
		if a.B > 0 {
			// Little may happen after it, so that it is rare.
			return nil
		}
		states := []ledger.RunState{ledger.RunSucceeded, ledger.RunFailed, ledger.RunCancelled, ledger.RunTerminated, ledger.RunTimedOut}
		r.State, r.Failure = states[(a.A+a.Cut)%len(states)], doc
		told, _, err := s.CloseRun(ctx, r, []ledger.Outcome{{Node: "last", Kind: ledger.NodeFailed, Error: doc}})
		if err != nil {
			return err
		}
		now, err := s.Run(ctx, r.Workflow, r.Root)
		if err == nil && (now.State != told.State || *now.ClosedAt != *told.ClosedAt) {
			err = fmt.Errorf("the run has two ends, %s at %s and %s at %s", told.State, told.ClosedAt, now.State, now.ClosedAt)
		}
		return err
	case "agent":
		return s.AddAgent(ctx, ledger.Agent{AgentID: id, PersonaRef: name})
	case "tool":
		return s.RegisterTool(ctx, ledger.Tool{ToolID: id, Schema: doc, Status: "block"})
	case "trust":
		return s.TrustTools(ctx, []string{"allow_auto", "manual_review", "block"}[a.B%3], id)
	case "signer":
		return s.EnrollSigner(ctx, ledger.Signer{ID: id, Person: name, NotBefore: far, NotAfter: far})
	case "revoke":
		return s.RevokeSigner(ctx, id)
	case "plan":
		return no(s.PublishPlan(ctx, ledger.Plan{Name: id, Version: "1", Digest: digest(name), SourceDigest: digest("s"), Signature: doc}))
	case "authority":
		have, err := s.Authority(ctx)
		if err != nil {
			return err
		}
		prev := ""
		if len(have) > 0 {
			prev = ledger.BodyDigest(have[len(have)-1])
		}
		return s.StateAuthority(ctx, json.RawMessage(fmt.Sprintf(`{"n":%d,"by":%q}`, len(have), name)), prev)
	case "budget":
		b := ledger.Budget{Agent: id, Currency: "USD", Every: ledger.Forever, Limit: usd(t, int64(5*a.B))}
		if a.A > 0 && a.B > 0 {
			b.Parent = fmt.Sprintf("x-%d", a.A-1)
		}
		return s.SetBudget(ctx, b)
	case "hold":
		return no(s.OpenHold(ctx, ledger.Hold{ID: invocation, Agent: id, Amount: usd(t, int64(a.B)), Overdraft: a.B == 3, ExpiresAt: ledger.At(time.Unix(int64(a.B%2)<<33, 0))}))
	case "post":
		err := no(s.PostHold(ctx, invocation, usd(t, int64(a.B))))
		if errors.Is(err, ledger.ErrAmount) {
			return nil
		}
		return err
	case "void":
		return no(s.VoidHold(ctx, invocation))
	case "expire":
		return no(s.ExpireHolds(ctx))
	case "approve", "refuse":
		return s.RecordApproval(ctx, r, ledger.Approval{ID: id + name, Barrier: id, Accepted: a.Op == "approve", Actions: []string{digest("0"), digest("1")}, Envelope: doc})
	case "authorize", "deny":
		ask := Ask(invocation, fmt.Sprint(a.B%3))
		ask.Agent, ask.Repeatable, ask.Life = id, a.A == 1, time.Duration(a.B-1)*time.Millisecond
		ask.Approvals = []string{id + "y-0", id + name}[:a.B%3]
		if a.B > 0 {
			cost := usd(t, int64(a.B))
			ask.Cost, ask.Overdraft = &cost, a.B == 3
		}
		word := map[string]string{"authorize": ledger.Approve, "deny": "REJECT"}[a.Op]
		if a.B == 2 {
			return no(s.Authorize(ctx, r, ask, foresees(word, predicted(id))))
		}
		return no(s.Authorize(ctx, r, ask, Rule(word)))
	case "claim":
		i, err := s.Invocation(ctx, invocation)
		if err != nil {
			return err
		}
		err = no(s.Claim(ctx, invocation, i.DecisionID, name, time.Duration(a.B-2)*time.Hour))
		if errors.Is(err, ledger.ErrExpired) {
			return nil
		}
		return err
	case "release", "settle", "lose", "abandon":
		e := ended(a.B, map[string]ledger.InvocationState{"release": ledger.Released, "lose": ledger.Unknown, "abandon": ledger.Unknown}[a.Op])
		if e.Abandoned = a.Op == "abandon"; a.Op == "settle" {
			e = settled(a.B, name)
		}
		e.Token, e.Observation = name, &measured
		return no(s.Settle(ctx, invocation, e))
	case "hypothesis":
		h := predicted(id)
		h.Inputs = doc
		return s.StateHypothesis(ctx, h)
	case "observe":
		return s.ObserveHypothesis(ctx, id, measured.Observed)
	case "snapshot":
		return s.TakeSnapshot(ctx, ledger.Snapshot{Server: id, Fingerprint: name, Digest: digest(name)})
	case "append":
		d := ledger.Draft{Chain: ledger.SnapshotsChain(id), Key: name, Kind: ledger.SnapshotTaken, Data: doc, Subject: []string{"", "erika", "max", ""}[a.B]}
		e := d
		e.Chain, e.Subject = ledger.SnapshotsChain(fmt.Sprintf("x-%d", (a.A+1)%3)), []string{"max", "", "erika", ""}[a.B]
		return no(s.Append(ctx, d, e, d))
	case "erase":
		return s.EraseSubject(ctx, []string{"erika", "max", "nobody"}[a.A], "asked")
	case "prune":
		if a.B > 0 {
			// Much is to be compared, so that it is rare.
			return nil
		}
		return no(s.Prune(ctx, []ledger.Class{ledger.Operational, ledger.Evidence, ledger.Financial}[a.A], time.Now().Add(-time.Millisecond), "policy"))
	case "legal hold":
		return s.PlaceLegalHold(ctx, ledger.RunChain("w", id), "case")
	case "lift":
		return s.LiftLegalHold(ctx, ledger.RunChain("w", id), "case")
	case "integrate":
		return no((&ledger.Sequencer{Store: s, Key: key, Batch: 1 + a.B}).Integrate(ctx))
	}
	if _, err := s.Checkpoint(ctx); err != nil {
		return err
	}
	return no(s.ListTasks(ctx, task.StateSigned, ledger.Page{}))
}
