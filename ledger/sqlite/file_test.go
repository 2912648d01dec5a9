package sqlite_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/sqlite"
)

// file opens a new store, and its file beside it.
func file(t testing.TB) (ledger.Store, *sql.DB, string) {
	path := filepath.Join(t.TempDir(), "a folder?", "led#ger%.db")
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Origin: ledgertest.Origin, Subjects: ledgertest.Ring(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	db, err := sql.Open("sqlite", "file:"+strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)+"?_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return s, db, path
}

func TestTablesOfTheLogAreAppendOnly(t *testing.T) {
	s, db, _ := file(t)
	ledgertest.Story(t, s, false)
	ledgertest.Drain(t, s, ledgertest.Key(t))
	_, err := db.Exec("INSERT INTO log_cosignatures (size, checkpoint) SELECT max(grown), x'00' FROM log_batches")
	require.NoError(t, err)
	for table, column := range map[string]string{
		"entries": "kind", "log_batches": "size", "log_index": "place", "log_tiles": "width", "log_cosignatures": "size", "authority": "prev", "bodies": "chain",
	} {
		var n, after int
		require.NoError(t, db.QueryRow("SELECT count(*) FROM "+table).Scan(&n))
		require.Positive(t, n, table)
		for _, q := range []string{
			"UPDATE " + table + " SET " + column + " = " + column, "DELETE FROM " + table,
			"INSERT OR REPLACE INTO " + table + " SELECT * FROM " + table,
			"UPDATE OR REPLACE " + table + " SET " + column + " = " + column,
		} {
			if table == "bodies" && strings.HasPrefix(q, "DELETE") {
				q += " WHERE class = 'permanent'"
			}
			_, err := db.Exec(q)
			require.ErrorContains(t, err, "of the ledger", q)
		}
		require.NoError(t, db.QueryRow("SELECT count(*) FROM "+table).Scan(&after))
		require.Equal(t, n, after, table)
	}
	checkTiles(t, s, db)
	require.NoError(t, s.PlaceLegalHold(t.Context(), "run/w/r1", "case"))
	_, err = db.Exec("DELETE FROM bodies WHERE chain = 'run/w/r1'")
	require.ErrorContains(t, err, "of the ledger is kept")
}

// checkTiles: one tile is stored for each place, and none is deleted whose
// successor disagrees with it.
func checkTiles(t *testing.T, s ledger.Store, db *sql.DB) {
	records, err := s.Records(t.Context(), 0, 10_000)
	require.NoError(t, err)
	var n int
	require.NoError(t, db.QueryRow("SELECT count(*) FROM log_tiles").Scan(&n))
	require.Equal(t, ledgertest.Tiles(int64(len(records))), n)
	_, err = db.Exec("INSERT INTO log_tiles (level, n, width, data) VALUES (5, 0, 1, x'01'), (5, 0, 2, x'0202'), (5, 0, 3, x'020203')")
	require.NoError(t, err)
	for width, taken := range map[int]bool{1: false, 2: true, 3: false} {
		_, err := db.Exec("DELETE FROM log_tiles WHERE level = 5 AND width = ?", width)
		if taken {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "of the ledger", width)
		}
	}
}

// The files are their owner's alone, those that SQLite makes beside it too.
func TestFilesArePrivate(t *testing.T) {
	s, _, path := file(t)
	ledgertest.Story(t, s, false)
	found, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(found), 3, "the database, its log and its index")
	for _, f := range found {
		info, err := os.Stat(f)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), f)
	}
}

// Nothing about a person is in the files in the clear, nor a key of one who was erased.
func TestErasure(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dir, 0o700))
	o := sqlite.Options{Path: filepath.Join(dir, "ledger.db"), Origin: ledgertest.Origin, Subjects: ledgertest.Ring(t)}
	s, err := sqlite.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	ledgertest.Erasure(t, s, o.Subjects, dir, func() {})
}

// Programs that start together migrate once, and each finds the whole.
func TestOpenTogether(t *testing.T) {
	o := sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Origin: ledgertest.Origin, Subjects: ledgertest.Ring(t)}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			s, err := sqlite.Open(t.Context(), o)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := s.PutBlob(t.Context(), []byte("x")); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

// A database that a newer program has migrated is not touched.
func TestNewerDatabase(t *testing.T) {
	s, db, path := file(t)
	ledgertest.Story(t, s, false)
	_, err := db.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)")
	require.NoError(t, err)
	_, err = sqlite.Open(t.Context(), sqlite.Options{Path: path, Origin: ledgertest.Origin, Subjects: ledgertest.Ring(t)})
	require.ErrorContains(t, err, "use a newer one")
}

// A database of a build from before the first release is not touched.
func TestEarlierDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	for _, statement := range []string{
		"CREATE TABLE goose_db_version (id INTEGER PRIMARY KEY AUTOINCREMENT, version_id INTEGER NOT NULL, is_applied INTEGER NOT NULL, tstamp TIMESTAMP DEFAULT (datetime('now')))",
		"INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, 1), (1, 1), (8, 1)",
	} {
		_, err := db.Exec(statement)
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())
	_, err = sqlite.Open(t.Context(), sqlite.Options{Path: path, Origin: ledgertest.Origin, Subjects: ledgertest.Ring(t)})
	require.ErrorContains(t, err, "begin with an empty database")
}

// A file that is not a database is refused, and not touched.
func TestNoDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	text := bytes.Repeat([]byte("no database "), 400)
	require.NoError(t, os.WriteFile(path, text, 0o600))
	_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Origin: ledgertest.Origin, Subjects: ledgertest.Ring(t)})
	require.ErrorContains(t, err, "open the SQLite store "+path+": ")
	now, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, text, now)
}

// More statements than a reader can hold are refused, whoever has put them there.
func TestAuthorityIsBounded(t *testing.T) {
	s, db, _ := file(t)
	require.NoError(t, s.StateAuthority(t.Context(), json.RawMessage(`{"n":1}`), ""))
	most := 2 * ledger.MaxBodyBytes
	add := "WITH RECURSIVE u (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM u WHERE n < ?) INSERT INTO authority (n, digest, prev, statement) SELECT n, 'd' || n, 'p' || n, ? FROM u"
	_, err := db.Exec(add, 2, strings.Repeat("x", most+1))
	require.ErrorContains(t, err, "CHECK constraint failed")
	rows := ledger.MaxAuthority/most + 1
	_, err = db.Exec(add, rows, strings.Repeat("x", most))
	require.NoError(t, err)
	_, err = s.Authority(t.Context())
	require.ErrorIs(t, err, ledger.ErrInvalid)
	require.ErrorContains(t, err, "list authority: ")
	err = s.StateAuthority(t.Context(), json.RawMessage(`{"n":3}`), fmt.Sprint("d", rows))
	require.ErrorIs(t, err, ledger.ErrInvalid)
	require.ErrorContains(t, err, fmt.Sprintf("the chain of statements is full: %d of 100000", rows))
}

// A database whose file is removed or replaced beneath the store is away: nothing is
// written into a file that nobody finds, and none is made anew.
func TestAFileThatIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	o := sqlite.Options{Path: filepath.Join(dir, "ledger.db"), Origin: ledgertest.Origin, Subjects: ledgertest.Ring(t)}
	s, err := sqlite.Open(t.Context(), o)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	n := 0
	state := func() error {
		n++
		_, err := s.Append(t.Context(), ledger.Draft{Chain: "snapshots/c", Key: fmt.Sprint(n), Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{}`)})
		return err
	}
	require.NoError(t, state())
	away := func(why string) {
		t.Helper()
		_, pending := s.Pending(t.Context(), 1)
		_, checkpoint := s.Checkpoint(t.Context())
		_, body := s.Body(t.Context(), "sha256:none")
		for _, err := range []error{state(), pending, checkpoint, body} {
			require.ErrorIs(t, err, ledger.ErrUnavailable)
			require.ErrorContains(t, err, why)
		}
	}
	require.NoError(t, os.Rename(dir, dir+".away"))
	away("the database's file is gone")
	require.NoDirExists(t, dir)
	other, err := sqlite.Open(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, other.Close())
	away("is another file than the one that was opened")
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.Rename(dir+".away", dir))
	require.NoError(t, state())
	pending, err := s.Pending(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, pending, 2)
}

// So is one whose journal is removed: what would be acknowledged would be lost with
// the process. After a restart everything is there.
func TestAJournalThatIsGone(t *testing.T) {
	for _, suffix := range []string{"-wal", "-shm"} {
		t.Run(suffix, func(t *testing.T) {
			o := sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Origin: ledgertest.Origin, Subjects: ledgertest.Ring(t)}
			s, err := sqlite.Open(t.Context(), o)
			require.NoError(t, err)
			state := func(key string) error {
				_, err := s.Append(t.Context(), ledger.Draft{Chain: "snapshots/c", Key: key, Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{}`)})
				return err
			}
			require.NoError(t, state("a"))
			require.NoError(t, os.Remove(o.Path+suffix))
			for range 3 {
				require.ErrorIs(t, state("b"), ledger.ErrUnavailable)
			}
			require.NoError(t, s.Close())
			s, err = sqlite.Open(t.Context(), o)
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			require.NoError(t, state("b"))
			chain, err := s.Chain(t.Context(), "snapshots/c", 0, 10)
			require.NoError(t, err)
			require.Len(t, chain, 2)
		})
	}
}

// A link to the file does as well, for as long as it leads there.
func TestALinkToTheFile(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "ledger.db"), filepath.Join(t.TempDir(), "link.db")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Symlink(path, link))
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: link, Origin: ledgertest.Origin, Subjects: ledgertest.Ring(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	state := func(key string) error {
		_, err := s.Append(t.Context(), ledger.Draft{Chain: "snapshots/c", Key: key, Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{}`)})
		return err
	}
	require.NoError(t, state("a"))
	require.FileExists(t, path+"-wal")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other.db"), nil, 0o600))
	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink(filepath.Join(dir, "other.db"), link))
	require.ErrorIs(t, state("b"), ledger.ErrUnavailable)
}

// TestChangedRuns: whoever changes the rows of runs does not change what the log says again.
func TestChangedRuns(t *testing.T) {
	s, db, _ := file(t)
	ledgertest.ChangedRuns(t, s, func(query string) {
		_, err := db.Exec(query)
		require.NoError(t, err)
	})
}
