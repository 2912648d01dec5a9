package sqlite_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/sqlite"
)

// A connection that was opened while the file was read-only ends with that.
func TestAFileThatWasReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Origin: ledgertest.Origin})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	var n atomic.Int64
	state := func() error {
		errs := make([]error, 8) // as many as there are connections
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() {
				// Readers wait for nobody, so each takes a connection of its own.
				_, errs[i] = s.ListRuns(t.Context(), ledger.Page{})
				_, err := s.Append(t.Context(), ledger.Draft{Chain: "snapshots/c", Key: fmt.Sprint(n.Add(1)), Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{}`)})
				errs[i] = errors.Join(errs[i], err)
			})
		}
		all.Wait()
		return errors.Join(errs...)
	}
	require.NoError(t, state())
	dir := filepath.Dir(path)
	require.NoError(t, syscall.Mount(dir, dir, "", syscall.MS_BIND, ""), "a folder can be read-only only where it can be mounted: run this as root")
	back := sync.OnceFunc(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	t.Cleanup(back)
	require.NoError(t, syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	require.Eventually(t, func() bool { return errors.Is(state(), ledger.ErrUnavailable) }, 5*time.Minute, time.Millisecond)
	back()
	// A connection that has not written since is found later.
	failed := 0
	for range 100 {
		if err := state(); err != nil {
			require.ErrorIs(t, err, ledger.ErrUnavailable)
			failed++
		}
	}
	require.Less(t, failed, 10)
}
