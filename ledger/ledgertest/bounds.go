package ledgertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/task"
)

// permits: one permit lets one call be made, of one action in its run, and an approval
// counts for one invocation of each of its actions.
func permits(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	other := run()
	other.Root = "r2"
	for _, r := range []ledger.Run{run(), other} {
		require.NoError(t, s.OpenRun(ctx, r))
	}
	for i, verdict := range []string{ledger.Escalate, ledger.Reject, ledger.Escalate} {
		got, err := s.Authorize(ctx, run(), Ask("i", "action"), Rule(verdict))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint("i/", i+1), got.Decision.ID)
		require.Empty(t, got.Invocation)
		have, err := s.Task(ctx, got.Decision.ID)
		require.NoError(t, err)
		require.Equal(t, task.StateDraft, have.Base().State)
	}
	_, err := s.Invocation(ctx, "i")
	require.ErrorIs(t, err, ledger.ErrNotFound, "what was refused left nothing")
	for _, word := range []string{"", "approve", "exploded"} {
		_, err = s.Authorize(ctx, run(), Ask("i", "action"), Rule(word))
		require.ErrorIs(t, err, ledger.ErrInvalid, word)
	}
	broken := errors.New("the judge is ill")
	_, err = s.Authorize(ctx, run(), Ask("i", "action"), func(ledger.Standing) (ledger.Ruling, error) { return ledger.Ruling{}, broken })
	require.ErrorIs(t, err, broken)
	_, err = s.Decision(ctx, "i/4")
	require.ErrorIs(t, err, ledger.ErrNotFound)

	// Many ask at once; all are told the same permit, which one of them uses.
	var calls atomic.Int64
	var group sync.WaitGroup
	stores := []ledger.Store{s, open(t)}
	for w := range 8 {
		group.Go(func() {
			got, err := stores[w%2].Authorize(ctx, run(), Ask("i", "action"), Rule(ledger.Approve))
			if got.Course == ledger.Wait {
				return // another has called meanwhile
			}
			if err != nil || got.Decision.ID != "i/4" {
				t.Error(got, err)
				return
			}
			switch _, err := stores[w%2].Claim(ctx, "i", got.Decision.ID, fmt.Sprint("worker ", w), time.Hour); {
			case err == nil:
				calls.Add(1)
			case !errors.Is(err, ledger.ErrConflict):
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.Equal(t, int64(1), calls.Load())
	got, err := s.Authorize(ctx, other, Ask("i", "action"), Rule(ledger.Approve))
	require.NoError(t, err)
	require.Equal(t, ledger.Wait, got.Course)
	_, err = s.Authorize(ctx, other, Ask("i", "another"), Rule(ledger.Approve))
	require.ErrorIs(t, err, ledger.ErrConflict)

	// Digests of one invocation have one salt, which others do not have.
	salts := map[string]bool{}
	for _, id := range []string{"salted", "salted", "salted too"} {
		a := Ask(id, "")
		a.Digest = func(salt []byte) (string, error) {
			salts[string(salt)] = true
			return digest("salted " + string(salt)), nil
		}
		first, err := s.Authorize(ctx, run(), a, Rule(ledger.Approve))
		require.NoError(t, err)
		again, err := s.Authorize(ctx, run(), a, Rule(ledger.Approve))
		require.NoError(t, err)
		require.Equal(t, ledger.Stands, again.Course)
		require.Equal(t, first.Decision.ID, again.Decision.ID)
	}
	require.Len(t, salts, 2)

	// A permit is for its decision, and expires.
	a := Ask("late", "action")
	a.Life = -time.Millisecond
	first, err := permitted(ctx, s, run(), a)
	require.NoError(t, err)
	_, err = s.Claim(ctx, "late", first, "token", time.Minute)
	require.ErrorIs(t, err, ledger.ErrExpired)
	a.Life = time.Minute
	a.Digest = about("another") // it was never called
	second, err := permitted(ctx, s, other, a)
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	i, err := s.Claim(ctx, "late", first, "token", time.Minute)
	require.ErrorIs(t, err, ledger.ErrConflict)
	require.Equal(t, ledger.Permitted, i.State)
	for range 2 {
		i, err = s.Claim(ctx, "late", second, "token", time.Minute)
		require.NoError(t, err)
		require.Equal(t, 1, i.Attempt)
	}
	_, err = s.Claim(ctx, "late", second, "another", time.Minute)
	require.ErrorIs(t, err, ledger.ErrConflict)

	// Two runs want approvals of three actions for invocations of their own.
	approval := ledger.Approval{ID: "a", Barrier: "b", Accepted: true, Actions: []string{digest("one"), digest("two"), digest("three")}, Envelope: []byte(`{}`)}
	require.NoError(t, s.RecordApproval(ctx, run(), approval))
	var granted atomic.Int64
	for w := range 12 {
		a := Ask(fmt.Sprint("shared-", w), []string{"one", "two", "three", "four"}[w%4])
		a.Approvals = []string{"a", "a"}
		group.Go(func() {
			switch _, err := permitted(ctx, stores[w%2], []ledger.Run{run(), other}[w/2%2], a); {
			case err == nil:
				granted.Add(1)
			case !errors.Is(err, ledger.ErrConflict):
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.Equal(t, int64(3), granted.Load(), "an approval is used once for each of its actions")
	used, err := s.Consumptions(ctx, "a")
	require.NoError(t, err)
	require.Len(t, used, 3)

	// What an invocation has consumed counts for its later permits.
	a = Ask(used[0].Invocation, "")
	a.Digest, a.Approvals = func([]byte) (string, error) { return used[0].Action, nil }, []string{"a"}
	i, err = s.Invocation(ctx, a.ID)
	require.NoError(t, err)
	i, err = s.Claim(ctx, a.ID, i.DecisionID, "token", time.Minute)
	require.NoError(t, err)
	_, err = s.Settle(ctx, a.ID, ended(i.Attempt, ledger.Released))
	require.NoError(t, err)
	_, err = permitted(ctx, s, run(), a)
	require.NoError(t, err)

	// Another workflow's approval permits nothing.
	foreign := run()
	foreign.Workflow = "elsewhere"
	require.NoError(t, s.OpenRun(ctx, foreign))
	require.NoError(t, s.RecordApproval(ctx, run(), ledger.Approval{ID: "a2", Barrier: "b", Accepted: true, Actions: []string{digest("action")}, Envelope: []byte(`{}`)}))
	a = Ask("foreign", "action")
	a.Approvals = []string{"a2"}
	_, err = permitted(ctx, s, foreign, a)
	require.ErrorIs(t, err, ledger.ErrConflict)
	require.ErrorContains(t, err, "approval a2 is of another workflow")
	Drain(t, s, Key(t))
	Same(t, s, Replay(t, s))
}

// holds: an effect's hold is opened with its permit, runs with its call, and ends with
// it, each once; what is refused, and a permit that nobody used, hold nothing.
func holds(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	require.NoError(t, s.OpenRun(ctx, run()))
	ask := func(id string, cents int64) ledger.Authorization {
		a := Ask(id, id)
		cost := usd(t, cents)
		a.Agent, a.Cost = "payer", &cost
		return a
	}
	pending := func(want, posted int64) {
		t.Helper()
		b, err := s.Budget(ctx, "payer", "USD")
		require.NoError(t, err)
		require.Equal(t, []int64{want, posted}, []int64{b.Pending.Minor(), b.Posted.Minor()})
	}
	// judged authorizes, approves where the money is there, and returns what was found.
	judged := func(a ledger.Authorization) (found ledger.Standing, got ledger.Authorized) {
		t.Helper()
		got, err := s.Authorize(ctx, run(), a, func(st ledger.Standing) (ledger.Ruling, error) {
			found = st
			if st.Money == ledger.Reserved || st.Money == ledger.NoBudget {
				return Rule(ledger.Approve)(st)
			}
			return Rule("ESCALATE")(st)
		})
		require.NoError(t, err)
		return found, got
	}
	st, _ := judged(ask("nobody", 5))
	require.Equal(t, ledger.NoBudget, st.Money)
	require.Empty(t, st.Hold)
	require.NoError(t, s.SetBudget(ctx, ledger.Budget{Agent: "parent", Currency: "USD", Every: ledger.Forever, Limit: usd(t, 100)}))
	require.NoError(t, s.SetBudget(ctx, ledger.Budget{Agent: "payer", Currency: "USD", Every: ledger.Forever, Limit: usd(t, 1000), Parent: "parent"}))
	a := ask("unpriced", 0)
	a.Cost = nil
	st, _ = judged(a)
	require.Equal(t, ledger.Unpriced, st.Money)
	foreign := eur(t, 1)
	a.ID, a.Cost = "in euros", &foreign
	st, _ = judged(a)
	require.Equal(t, ledger.Mismatched, st.Money)
	require.Contains(t, st.Detail, "no budget in EUR")
	st, _ = judged(ask("too much", 101))
	require.Equal(t, ledger.Exceeded, st.Money)
	require.Contains(t, st.Detail, "the budget of parent")
	pending(0, 0)
	got, err := s.Authorize(ctx, run(), ask("refused", 60), Rule("REJECT"))
	require.NoError(t, err)
	require.Equal(t, "REJECT", got.Decision.Decision)
	pending(0, 0)
	require.ErrorIs(t, errOf(s.Hold(ctx, "refused/1")), ledger.ErrNotFound)

	// A permit that nobody used frees its hold with the next, or by expiring.
	a = ask("paid", 60)
	a.Life = -time.Second
	st, got = judged(a)
	require.Equal(t, "paid/1", st.Hold)
	require.Equal(t, int64(2), st.Calls, "with the one of nobody's budget")
	pending(60, 0)
	a.Life = time.Minute
	st, got = judged(a)
	require.Equal(t, "paid/2", st.Hold, "there is room for one alone")
	pending(60, 0)
	_, err = s.ExpireHolds(ctx)
	require.NoError(t, err)
	i, err := s.Claim(ctx, "paid", got.Decision.ID, "token", -time.Hour)
	require.NoError(t, err)
	h, err := s.Hold(ctx, "paid/2")
	require.NoError(t, err)
	require.True(t, h.Running)
	_, err = s.Settle(ctx, "paid", ledger.Effect{Settlement: ledger.Settlement{Attempt: i.Attempt, State: ledger.Unknown, Abandoned: true}})
	require.NoError(t, err)
	pending(60, 0)
	too := settled(i.Attempt, "x")
	over := usd(t, 61)
	too.Spent = &over
	_, err = s.Settle(ctx, "paid", too)
	require.ErrorIs(t, err, ledger.ErrAmount)
	less := usd(t, 40)
	too.Spent = &less
	for range 2 {
		_, err = s.Settle(ctx, "paid", too)
		require.NoError(t, err)
		pending(0, 40)
	}

	// What may be repeated keeps its hold from call to call.
	a = ask("again", 60)
	a.Repeatable = true
	_, got = judged(a)
	_, err = s.Claim(ctx, "again", got.Decision.ID, "token", -time.Hour)
	require.NoError(t, err)
	require.Len(t, listOf(s.Abandoned(ctx, 10)), 0, "its run is open")
	st, got = judged(a)
	require.Equal(t, "again/1", st.Hold)
	require.Equal(t, ledger.Decide, got.Course)
	require.Equal(t, ledger.Calling, got.Invocation.State)
	pending(60, 40)
	i, err = s.Claim(ctx, "again", got.Decision.ID, "token", -time.Hour)
	require.NoError(t, err)
	require.Equal(t, 2, i.Attempt)
	_, err = s.Settle(ctx, "again", ended(1, ledger.Released))
	require.ErrorIs(t, err, ledger.ErrConflict)
	r := run()
	r.State = ledger.RunTerminated
	_, _, err = s.CloseRun(ctx, r, nil)
	require.NoError(t, err)
	abandoned := listOf(s.Abandoned(ctx, 10))
	require.Len(t, abandoned, 1)
	require.Equal(t, "again", abandoned[0].ID)
	i, err = s.Settle(ctx, "again", ended(2, ledger.Released))
	require.NoError(t, err)
	require.Equal(t, ledger.Unknown, i.State, "the second call did nothing; of the first nobody knows")
	pending(60, 40)
	Drain(t, s, Key(t))
	Same(t, s, Replay(t, s))
}

// outputs: what a call answered stays with its invocation as long as a run of its origin
// is open, and as the bodies of the last; it goes with whom it is about.
func outputs(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	about := run()
	about.Workflow, about.Root, about.Origin, about.Subject = "about", "r9", "r9", "erika"
	retry := run()
	retry.Root = "r2" // of the same origin
	for _, r := range []ledger.Run{run(), retry, about} {
		require.NoError(t, s.OpenRun(ctx, r))
	}
	done(t, s, run(), Ask("i", "action"), "receipt")
	done(t, s, about, Ask("hers", "action"), "receipt")
	_, err := s.Settle(ctx, "i", ledger.Effect{Settlement: ledger.Settlement{Attempt: 1, State: ledger.Settled, OutputDigest: digest("receipt")}, Output: make([]byte, ledger.MaxRunValue+1)})
	require.ErrorIs(t, err, ledger.ErrInvalid)
	output := func(id string) string {
		t.Helper()
		i, err := s.Invocation(ctx, id)
		require.NoError(t, err)
		require.Equal(t, ledger.Settled, i.State)
		return string(i.Output)
	}
	prune := func() {
		_, err := s.Prune(ctx, ledger.Operational, time.Now().Add(time.Hour), "policy")
		require.NoError(t, err)
	}
	end := func(r ledger.Run) {
		r.State = ledger.RunFailed
		_, _, err := s.CloseRun(ctx, r, nil)
		require.NoError(t, err)
	}
	end(run())
	prune()
	require.Equal(t, "receipt", output("i"), "the retry is open")
	got, err := s.Authorize(ctx, retry, Ask("i", "action"), Rule(ledger.Approve))
	require.NoError(t, err)
	require.Equal(t, ledger.Stands, got.Course)
	require.Equal(t, "receipt", string(got.Invocation.Output))
	end(retry)
	require.NoError(t, s.PlaceLegalHold(ctx, ledger.RunChain("w", "r1"), "case"))
	prune()
	require.Equal(t, "receipt", output("i"), "it is under legal hold")
	require.NoError(t, s.LiftLegalHold(ctx, ledger.RunChain("w", "r1"), "over"))
	prune()
	require.Empty(t, output("i"))
	require.Equal(t, "receipt", output("hers"))
	require.NoError(t, s.EraseSubject(ctx, "erika", "asked"))
	require.Empty(t, output("hers"))
	_, err = permitted(ctx, s, about, Ask("more", "action"))
	require.ErrorIs(t, err, ledger.ErrGone)
	Drain(t, s, Key(t))
	Same(t, s, Replay(t, s))
}

func errOf(_ any, err error) error { return err }

func listOf[T any](list []T, err error) []T {
	if err != nil {
		panic(err)
	}
	return list
}

// pages: whatever grows with a run is listed in pages, which are bounded and
// together complete.
func pages(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	const n = 25
	require.NoError(t, s.OpenRun(ctx, run()))
	var outcomes []ledger.Outcome
	for i := range n {
		outcomes = append(outcomes, ledger.Outcome{Node: fmt.Sprint("n-", (i*7)%n), Kind: ledger.NodeSucceeded})
		require.NoError(t, s.RecordApproval(ctx, run(), ledger.Approval{ID: fmt.Sprint("a-", (i*7)%n), Barrier: "b", Accepted: true, Actions: []string{}, Envelope: []byte(`{}`)}))
	}
	require.NoError(t, s.RecordOutcomes(ctx, "w", "r1", outcomes))
	var nodes, signed []string
	var numbers []int64
	for at := 0; at <= n; at += 10 {
		page := ledger.Page{Limit: 10, Offset: at}
		o, err := s.Outcomes(ctx, "w", "r1", page)
		require.NoError(t, err)
		a, err := s.Approvals(ctx, "b", page)
		require.NoError(t, err)
		require.LessOrEqual(t, len(o), 10)
		require.LessOrEqual(t, len(a), 10)
		for i := range o {
			nodes, signed = append(nodes, o[i].Node), append(signed, a[i].ID)
		}
	}
	for i := range n {
		require.Equal(t, fmt.Sprint("n-", (i*7)%n), nodes[i])
		require.Equal(t, fmt.Sprint("a-", (i*7)%n), signed[i])
	}
	chain := ledger.RunChain("w", "r1")
	for from := int64(0); ; from += 10 {
		records, err := s.Chain(ctx, chain, from, 10)
		require.NoError(t, err)
		if len(records) == 0 {
			break
		}
		require.LessOrEqual(t, len(records), 10)
		for _, r := range records {
			e, err := ledger.DecodeEntry(r.Bytes)
			require.NoError(t, err)
			numbers = append(numbers, e.N)
		}
	}
	require.Len(t, numbers, 1+2*n)
	for i, have := range numbers {
		require.Equal(t, int64(i), have)
	}
	for _, limit := range []int{0, -1} {
		records, err := s.Chain(ctx, chain, 0, limit)
		require.NoError(t, err)
		require.Empty(t, records)
	}
	records, err := s.Chain(ctx, chain, -5, 1<<30)
	require.NoError(t, err)
	require.Len(t, records, 1+2*n)
	few, err := s.Outcomes(ctx, "w", "r1", ledger.Page{})
	require.NoError(t, err)
	require.Len(t, few, n, "a page without a limit has a hundred")
}

// tiles: of each place in the tree the store keeps the widest tile, which answers
// for the narrower ones too, and every older tree can still be proved.
func tiles(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	key := Key(t)
	const n = 600
	drafts := make([]ledger.Draft, n)
	for i := range drafts {
		drafts[i] = ledger.Draft{Chain: "snapshots/c", Key: fmt.Sprint(i), Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{}`)}
	}
	_, err := s.Append(ctx, drafts...)
	require.NoError(t, err)
	var points []ledger.Checkpoint
	tree := ledger.NewTree()
	for size, step := int64(0), 0; size < n; step++ {
		q := ledger.Sequencer{Store: s, Key: key, Batch: []int{1, 50, 7, 256, 3}[step%5]}
		placed, err := q.Integrate(ctx)
		require.NoError(t, err)
		records, err := s.Records(ctx, size, placed)
		require.NoError(t, err)
		for _, r := range records {
			require.NoError(t, tree.Add(r.Hash))
		}
		size += int64(placed)
		root, err := tree.Root()
		require.NoError(t, err)
		points = append(points, ledger.Checkpoint{Origin: Origin, Size: size, Root: root})
	}
	last := points[len(points)-1]
	records, err := s.Records(ctx, 0, n)
	require.NoError(t, err)
	for _, c := range points {
		old := ledger.OpenTree(ctx, c, s)
		for _, i := range []int64{0, c.Size / 2, c.Size - 1} {
			p, err := old.ProveEntry(i)
			require.NoError(t, err)
			require.NoError(t, ledger.Holds(c, i, records[i].Hash, p))
		}
		p, err := ledger.OpenTree(ctx, last, s).ProveExtends(c.Size)
		require.NoError(t, err)
		require.NoError(t, ledger.Extends(c, last, p))
	}
	// A tile that no other begins with is not taken for a narrower one.
	for _, x := range [][3]int{{0, 2, 89}, {0, 3, 1}, {1, 0, 3}} {
		_, err := s.Tile(ctx, x[0], int64(x[1]), x[2])
		require.ErrorIs(t, err, ledger.ErrNotFound)
	}
}

// Tiles counts the stored tiles of a log of that size: one for each place.
func Tiles(size int64) (n int) {
	for ; size > 0; size >>= ledger.TileHeight {
		n += int((size + 1<<ledger.TileHeight - 1) >> ledger.TileHeight)
	}
	return n
}
