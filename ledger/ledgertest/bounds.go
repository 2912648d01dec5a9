package ledgertest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// permits: an invocation is permitted by an approving decision on its very
// action, in its run, and by each decision one.
func permits(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	other := run()
	other.Root = "r2"
	for _, r := range []ledger.Run{run(), other} {
		require.NoError(t, s.OpenRun(ctx, r))
	}
	for _, verdict := range []string{"ESCALATE", "REJECT", ""} {
		d := approved("not "+verdict, "action")
		d.Decision = verdict
		require.NoError(t, s.RecordDecision(ctx, run(), d))
	}
	require.NoError(t, s.RecordDecision(ctx, run(), approved("d", "action")))
	require.NoError(t, s.RecordDecision(ctx, other, approved("elsewhere", "action")))
	permit := func(r ledger.Run, id, action, decision string) error {
		_, err := s.Permit(ctx, r, ledger.Invocation{ID: id, ActionDigest: digest(action), DecisionID: decision}, nil)
		return err
	}
	for _, c := range []struct{ action, decision, says string }{
		{"action", "not ESCALATE", `is "ESCALATE"`}, {"action", "not REJECT", `is "REJECT"`}, {"action", "not ", `is ""`},
		{"action", "none", "there is no decision"}, {"other", "d", "about another action"}, {"action", "elsewhere", "about another action"},
	} {
		err := permit(run(), "i", c.action, c.decision)
		require.ErrorIs(t, err, ledger.ErrConflict, c.decision)
		require.ErrorContains(t, err, c.says)
	}
	_, err := s.Invocation(ctx, "i")
	require.ErrorIs(t, err, ledger.ErrNotFound, "what was refused left nothing")

	// Many ask at once, for as many invocations, by one decision.
	var granted atomic.Int64
	var group sync.WaitGroup
	for w := range 8 {
		group.Go(func() {
			switch err := permit(run(), fmt.Sprint("i-", w), "action", "d"); {
			case err == nil:
				granted.Add(1)
			case !errors.Is(err, ledger.ErrConflict):
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.Equal(t, int64(1), granted.Load())

	// And by decisions of their own, in two runs, with the same approval.
	approval := ledger.Approval{ID: "a", Barrier: "b", Accepted: true, Envelope: []byte(`{}`)}
	require.NoError(t, s.RecordApproval(ctx, run(), approval))
	stores := []ledger.Store{s, open(t)}
	granted.Store(0)
	for w := range 8 {
		r := []ledger.Run{run(), other}[w%2]
		id := fmt.Sprint("shared-", w)
		require.NoError(t, s.RecordDecision(ctx, r, approved(id, "action")))
		group.Go(func() {
			_, err := stores[w/2%2].Permit(ctx, r, ledger.Invocation{ID: id, ActionDigest: digest("action"), DecisionID: id}, []string{"a"})
			switch {
			case err == nil:
				granted.Add(1)
			case !errors.Is(err, ledger.ErrConflict):
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.Equal(t, int64(1), granted.Load(), "an approval is used once")

	// Another workflow's approval permits nothing.
	foreign := run()
	foreign.Workflow = "elsewhere"
	require.NoError(t, s.OpenRun(ctx, foreign))
	require.NoError(t, s.RecordDecision(ctx, foreign, approved("foreign", "action")))
	require.NoError(t, s.RecordApproval(ctx, run(), ledger.Approval{ID: "a2", Barrier: "b", Accepted: true, Envelope: []byte(`{}`)}))
	_, err = s.Permit(ctx, foreign, ledger.Invocation{ID: "foreign", ActionDigest: digest("action"), DecisionID: "foreign"}, []string{"a2"})
	require.ErrorIs(t, err, ledger.ErrConflict)
	require.ErrorContains(t, err, "approval a2 is of another workflow")
	Drain(t, s, Key(t))
	Same(t, s, Replay(t, s))
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
		require.NoError(t, s.RecordApproval(ctx, run(), ledger.Approval{ID: fmt.Sprint("a-", (i*7)%n), Barrier: "b", Envelope: []byte(`{}`)}))
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
		drafts[i] = ledger.Draft{Chain: "c", Key: fmt.Sprint(i), Kind: ledger.SnapshotTaken}
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
