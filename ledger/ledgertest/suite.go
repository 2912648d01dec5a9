package ledgertest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/task"
)

func life(t *testing.T, open Open) {
	s := open(t)
	key := Key(t)
	Story(t, s, false)
	Drain(t, s, key)
	m := Replay(t, s)
	Same(t, s, m)
	require.Equal(t, ledger.TxVoided, m.Holds["inv-1/2"].Status)
	require.Equal(t, ledger.TxPosted, m.Holds["inv-1/3"].Status)
	require.Equal(t, "3.99", m.Uses[useKey("org")].Posted.Amount())
	require.Equal(t, ledger.Settled, m.Invocations["inv-1"].State)
	require.Equal(t, task.StateExecuted, m.Tasks["inv-1/3"].Base().State)
	run, err := s.Run(t.Context(), "w", "")
	require.NoError(t, err)
	require.Equal(t, ledger.RunSucceeded, run.State)
	chain, err := s.Chain(t.Context(), run.Chain(), 0, everything.Limit)
	require.NoError(t, err)
	last, err := ledger.DecodeEntry(chain[len(chain)-1].Bytes)
	require.NoError(t, err)
	require.Equal(t, ledger.RunClosed, last.Kind)
}

func again(t *testing.T, open Open) {
	s := open(t)
	Story(t, s, true)
	Drain(t, s, Key(t))
	Same(t, s, Replay(t, s))
	chain, err := s.Chain(t.Context(), ledger.RunChain("w", "r1"), 0, everything.Limit)
	require.NoError(t, err)
	// run, outcomes, orders, a check, approvals; a rejection with its draft, which is closed;
	// twice a decision, a consumption, a task of two stages, a permit, a call and its end; the
	// last resolved, with its task; the end of the run.
	require.Len(t, chain, 1+3+2+1+2+3+2*7+2+1, "nothing is said twice")
}

func refusals(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	Story(t, s, false)
	fails := func(want error, f func() error) {
		t.Helper()
		require.ErrorIs(t, f(), want)
	}
	no := func(_ any, err error) error { return err }
	fails(ledger.ErrConflict, func() error {
		return no(s.PublishPlan(ctx, ledger.Plan{Name: "pay", Version: "1.0", Digest: digest("other")}))
	})
	fails(ledger.ErrConflict, func() error { r := run(); r.InputDigest = digest("x"); return s.OpenRun(ctx, r) })
	fails(ledger.ErrConflict, func() error {
		return s.RecordOutcomes(ctx, "w", "r1", []ledger.Outcome{{Node: "a", Kind: ledger.NodeFailed}})
	})
	fails(ledger.ErrConflict, func() error {
		return s.RecordOutcomes(ctx, "w", "r1", []ledger.Outcome{{Node: "late", Kind: ledger.NodeSucceeded}})
	})
	fails(ledger.ErrNotFound, func() error { return s.RecordOutcomes(ctx, "nowhere", "r1", nil) })
	fails(ledger.ErrBudget, func() error {
		return no(s.OpenHold(ctx, ledger.Hold{ID: "inv-2", Agent: "agent-42", Amount: usd(t, 200)}))
	})
	fails(ledger.ErrNotFound, func() error {
		return no(s.OpenHold(ctx, ledger.Hold{ID: "inv-2", Agent: "nobody", Amount: usd(t, 2)}))
	})
	fails(ledger.ErrConflict, func() error { return no(s.VoidHold(ctx, "inv-1/3")) })
	going := run()
	going.Root = "going"
	fails(ledger.ErrNotFound, func() error { return no(permitted(ctx, s, going, Ask("inv-3", "action"))) })
	fails(ledger.ErrConflict, func() error { return no(permitted(ctx, s, run(), Ask("inv-3", "action"))) })
	require.NoError(t, s.OpenRun(ctx, going))
	fails(ledger.ErrConflict, func() error { return no(permitted(ctx, s, going, Ask("inv-1", "other"))) })
	for _, used := range []string{"a-1", "a-2", "a-3"} {
		a := Ask("inv-3", "action")
		a.Approvals = []string{used}
		_, err := permitted(ctx, s, going, a)
		require.ErrorIs(t, err, ledger.ErrConflict)
		require.ErrorContains(t, err, "approval "+used)
	}
	fails(ledger.ErrNotFound, func() error { return no(s.Decision(ctx, "inv-3/1")) })
	fails(ledger.ErrNotFound, func() error { return no(s.Invocation(ctx, "inv-3")) })
	fails(ledger.ErrNotFound, func() error { return no(s.Claim(ctx, "inv-3", "inv-3/1", "token", 0)) })
	fails(ledger.ErrConflict, func() error { return no(s.Claim(ctx, "inv-1", "inv-1/3", "another", 0)) })
	fails(ledger.ErrConflict, func() error { return no(s.Settle(ctx, "inv-1", ended(2, ledger.Released))) })
	fails(ledger.ErrInvalid, func() error { return no(s.Settle(ctx, "inv-1", ended(2, ledger.Calling))) })
	fails(ledger.ErrConflict, func() error { return s.StateAuthority(ctx, json.RawMessage(`{"payload":"2"}`), "") })
	fails(ledger.ErrInvalid, func() error { return no(s.Prune(ctx, ledger.Permanent, run().OpenedAt.Time(), "")) })
	fails(ledger.ErrNotFound, func() error { return no(s.GetBlob(ctx, digest("none"))) })
	over, err := s.OpenHold(ctx, ledger.Hold{ID: "inv-4", Agent: "agent-42", Amount: usd(t, 2000), Overdraft: true})
	require.NoError(t, err)
	require.True(t, over.Overdraft)
	n, err := s.ExpireHolds(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	Drain(t, s, Key(t))
	Same(t, s, Replay(t, s))
}

// sequencer: many writers and two sequencers at once. No entry is lost, none is
// there twice, and the tree only grows.
func sequencer(t *testing.T, open Open) {
	s := open(t)
	key := Key(t)
	ctx, cancel := context.WithCancel(t.Context())
	var checkpoints [][]byte
	var mu sync.Mutex
	var sequencers, writers sync.WaitGroup
	for range 2 {
		q := &ledger.Sequencer{Store: s, Key: key, Batch: 16, Integrated: func(c []byte) {
			mu.Lock()
			defer mu.Unlock()
			checkpoints = append(checkpoints, c)
		}, Failed: func(err error) { t.Error(err) }}
		sequencers.Go(func() {
			if err := q.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	const chains, each = 6, 30
	for c := range chains {
		writers.Go(func() {
			for i := range each {
				_, err := s.Append(t.Context(), ledger.Draft{Chain: fmt.Sprintf("snapshots/%d", c%3), Key: fmt.Sprintf("%d/%d", c, i), Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{"server":"s"}`)})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	require.Eventually(t, func() bool {
		records, err := s.Records(t.Context(), chains*each-1, 1)
		return t.Failed() || err == nil && len(records) == 1
	}, waitFor, tick)
	cancel()
	sequencers.Wait()
	if t.Failed() {
		return
	}
	Replay(t, s)
	signers := ledger.Signers{Log: key.Public()}
	tree := ledger.NewTree()
	records, err := s.Records(t.Context(), 0, 1000)
	require.NoError(t, err)
	require.Len(t, records, chains*each)
	last, err := s.Checkpoint(t.Context())
	require.NoError(t, err)
	// A sequencer that ends may not say that it has integrated.
	checkpoints = append(checkpoints, last)
	for _, raw := range checkpoints {
		c, err := signers.Open(raw)
		require.NoError(t, err)
		for tree.Size() < c.Size {
			require.NoError(t, tree.Add(records[tree.Size()].Hash))
		}
		root, err := tree.Root()
		require.NoError(t, err)
		require.Equal(t, root, c.Root)
	}
	require.EqualValues(t, chains*each, tree.Size())
}
