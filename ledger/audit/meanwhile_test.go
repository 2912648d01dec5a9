package audit_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
)

// TestExportsMeanwhile: exports that are made while runs are stated, bodies pruned,
// persons erased, and holds placed and lifted, verify.
func TestExportsMeanwhile(t *testing.T) { onBoth(t, exportsMeanwhile) }

func exportsMeanwhile(t *testing.T, w *world) {
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	// again repeats something until the exports exist.
	again := func(do func(i int) error) {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := do(i); err != nil && ctx.Err() == nil && !errors.Is(err, ledger.ErrConflict) && !errors.Is(err, ledger.ErrNotFound) && !errors.Is(err, ledger.ErrUnavailable) {
					t.Error(err)
					return
				}
			}
		})
	}
	chain := func(i int) string { return ledger.RunChain(fmt.Sprint("busy-", i), "r") }
	again(func(i int) error {
		r := ledger.Run{Workflow: fmt.Sprint("busy-", i), Root: "r", Origin: "r", PlanDigest: ledger.BodyDigest(nil), InputDigest: ledger.BodyDigest(nil), Agent: "agent-42"}
		if i%2 == 0 {
			r.Subject = fmt.Sprint("person-", i%8)
		}
		if err := w.store.OpenRun(ctx, r); err != nil {
			return err
		}
		if err := w.store.RecordOutcomes(ctx, r.Workflow, r.Root, []ledger.Outcome{{Node: "a", Kind: ledger.NodeSucceeded}, {Node: "b", Kind: ledger.NodeFailed}}); err != nil {
			return err
		}
		r.State = ledger.RunSucceeded
		_, _, err := w.store.CloseRun(ctx, r, nil)
		return err
	})
	// An export settles where pruning does, as its acts must be in the log.
	prune := make(chan struct{})
	again(func(i int) error {
		select {
		case <-prune:
		case <-ctx.Done():
			return nil
		}
		_, err := w.store.Prune(ctx, ledger.Operational, time.Now().Add(-time.Duration(i%5)*50*time.Millisecond), "policy")
		return err
	})
	again(func(i int) error {
		return errors.Join(w.store.EraseSubject(ctx, fmt.Sprint("person-", i%8), "asked"), ctx.Err())
	})
	again(func(i int) error {
		if err := w.store.PlaceLegalHold(ctx, chain(3*i), "case"); err != nil {
			return err
		}
		return w.store.LiftLegalHold(ctx, chain(3*i), "over")
	})
	again(func(int) error {
		_, err := (&ledger.Sequencer{Store: w.store, Key: w.key, Batch: 50}).Integrate(ctx)
		return err
	})
	missing, sealed := int64(0), int64(0)
	least := 8
	if testing.Short() {
		least = 2
	}
	// A machine that is busy has done little of all that by the last of these.
	for i := 0; i < least || i < 100 && (missing == 0 || sealed == 0); i++ {
		w.dir = filepath.Join(t.TempDir(), fmt.Sprint("export-", i))
		all.Go(func() {
			for range 20 {
				select {
				case prune <- struct{}{}:
				case <-ctx.Done():
					return
				}
			}
		})
		_, err := audit.Export(t.Context(), w.store, w.dir)
		require.NoError(t, err)
		r := w.verify(t, nil)
		require.True(t, r.OK, "%v", r.Problems)
		missing, sealed = max(missing, r.Missing), max(sealed, r.Sealed)
	}
	require.Positive(t, missing)
	require.Positive(t, sealed)
}
