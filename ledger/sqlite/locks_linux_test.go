package sqlite_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/sqlite"
)

// envAsked names a file that this test binary asks about.
const envAsked = "CHIMERA_TEST_ASKED"

func init() {
	if path := os.Getenv(envAsked); path != "" {
		ask(path)
		os.Exit(0)
	}
}

// ask reports, in a process of its own, whether another one has locked a database
// in the way that SQLite locks one that is open.
func ask(path string) {
	f, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: 1<<30 + 2, Len: 510}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock); err != nil {
		panic(err)
	}
	fmt.Print(lock.Type != syscall.F_UNLCK)
}

// TestAFileThatIsOpenedTwice: if a process opens its store again, the first opening
// does not lose its lock. Without that lock, a program that closes the database,
// such as a backup by sqlite3, removes the write-ahead log that the first opening
// still writes to.
func TestAFileThatIsOpenedTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	for range 2 {
		s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Origin: ledgertest.Origin})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		_, err = s.Append(t.Context(), ledger.Draft{Chain: "snapshots/c", Key: "k", Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{}`)})
		require.NoError(t, err)
		other := exec.Command(os.Args[0])
		other.Env = append(os.Environ(), envAsked+"="+path)
		locked, err := other.Output()
		require.NoError(t, err)
		require.Equal(t, "true", string(locked))
	}
}
