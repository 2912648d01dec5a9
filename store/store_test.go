package store_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/postgres"
	"chimera.ai/engine/store"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func newKey(t *testing.T, name string) string {
	t.Helper()
	secret, _, err := ledger.NewKey(name)
	require.NoError(t, err)
	return secret
}

// TestTheEmbeddedLogHasAKey: it is made once, whoever comes first, and only its
// owner reads it.
func TestTheEmbeddedLogHasAKey(t *testing.T) {
	dir := t.TempDir()
	o := store.Options{Dir: filepath.Join(dir, "store"), Path: filepath.Join(dir, "ledger.db")}
	var all sync.WaitGroup
	names := make([]string, 4)
	errs := make([]error, len(names))
	for i := range names {
		all.Go(func() {
			s, err := store.Open(t.Context(), o)
			if errs[i] = err; err == nil {
				names[i] = s.Key.Public()
				errs[i] = s.Close()
			}
		})
	}
	all.Wait()
	for i := range names {
		require.NoError(t, errs[i])
		require.Equal(t, names[0], names[i], "one of them made it")
	}
	require.Contains(t, names[0], "dev.chimera.local/")
	info, err := os.Stat(filepath.Join(dir, "ledger.key"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		require.False(t, strings.HasPrefix(e.Name(), ".key-"), "nothing is left behind")
	}

	n, err := store.Migrate(t.Context(), o)
	require.NoError(t, err)
	require.Zero(t, n)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "ledger.key"), []byte("no key"), 0o600))
	_, err = store.Open(t.Context(), o)
	require.ErrorIs(t, err, store.ErrOptions)
	require.ErrorContains(t, err, "the log's key: "+filepath.Join(dir, "ledger.key")+": ")
}

// TestOneLogOneName: a database whose log has another name is refused, and so is
// a key of another log.
func TestOneLogOneName(t *testing.T) {
	o := store.Options{Dir: t.TempDir(), Key: newKey(t, "one.example.com")}
	s, err := store.Open(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, "one.example.com", s.Ledger.Origin())
	require.True(t, s.Empty)
	require.NoError(t, s.Ledger.AddAgent(t.Context(), ledger.Agent{AgentID: "a"}))
	require.NoError(t, s.Close())

	s, err = store.Open(t.Context(), o)
	require.NoError(t, err)
	require.False(t, s.Empty)
	require.NoError(t, s.Close())

	other := o
	other.Key = newKey(t, "other.example.com")
	_, err = store.Open(t.Context(), other)
	require.ErrorIs(t, err, store.ErrOptions)
	require.ErrorContains(t, err, `the database has the log "one.example.com", not "other.example.com": bring back the key of the first`)

	o.Origin = "other.example.com"
	_, err = store.Open(t.Context(), o)
	require.ErrorIs(t, err, store.ErrOptions)
	require.ErrorContains(t, err, "its key is that of")
	require.NotContains(t, err.Error(), "PRIVATE")
}

// TestKeyElsewhere: a log whose key lies elsewhere gets none beside its database, and is
// signed by those who bring the key.
func TestKeyElsewhere(t *testing.T) {
	dir := t.TempDir()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	key, err := ledger.FromSigner("example.com/log", private)
	require.NoError(t, err)
	o := store.Options{Dir: dir, Elsewhere: true}
	_, err = store.Open(t.Context(), o)
	require.ErrorContains(t, err, "its name must be said (store.origin)")
	o.Origin = "example.com/log"
	for _, o.Signer = range []*ledger.Key{nil, key} {
		s, err := store.Open(t.Context(), o)
		require.NoError(t, err)
		require.Equal(t, o.Signer, s.Key)
		require.Equal(t, o.Origin, s.Ledger.Origin())
		require.NoError(t, s.Close())
	}
	require.NoFileExists(t, filepath.Join(dir, "ledger.key"))
	o.Origin = "other.example.com"
	_, err = store.Open(t.Context(), o)
	require.ErrorContains(t, err, `the log is called "other.example.com", and its key is that of "example.com/log"`)
}

func TestOptionsThatNameNoStore(t *testing.T) {
	for name, c := range map[string]struct {
		options store.Options
		want    string
	}{
		"a driver":   {store.Options{Driver: "oracle", Dir: "x"}, `no driver "oracle"`},
		"no address": {store.Options{Driver: store.Postgres, Dir: "x"}, "store.url"},
		"no folder":  {store.Options{Driver: store.Postgres, URL: "postgres://127.0.0.1:1/x"}, "store.dir"},
		"no name":    {store.Options{Driver: store.Postgres, URL: "postgres://127.0.0.1:1/x", InDatabase: true}, "store.origin"},
		"no key":     {store.Options{Dir: "x", Key: "s3cret"}, "the log's key"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := store.Open(t.Context(), c.options)
			require.ErrorIs(t, err, store.ErrOptions)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "s3cret")
		})
	}
	o := store.Options{Driver: store.Postgres, URL: "postgres://who:s3cret@127.0.0.1:1/x", InDatabase: true, Origin: "o"}
	_, err := store.Open(t.Context(), o)
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.NotContains(t, err.Error(), "s3cret")
	require.ErrorIs(t, store.Grant(t.Context(), store.Options{Dir: t.TempDir()}), store.ErrOptions)
}

// TestOptionsKeepTheirSecrets: whatever prints them.
func TestOptionsKeepTheirSecrets(t *testing.T) {
	for _, driver := range []string{store.SQLite, store.Postgres} {
		o := store.Options{Driver: driver, URL: "postgres://who:s3cret@host/x", Key: "PRIVATE+s3cret"}
		log := new(strings.Builder)
		slog.New(slog.NewTextHandler(log, nil)).Info("x", "store", o)
		for _, printed := range []string{fmt.Sprintf("%v %+v %#v %s %q %d", o, o, o, o, o, o), log.String()} { // some verbs are wrong on purpose
			require.NotContains(t, printed, "s3cret")
			require.Contains(t, printed, driver)
		}
	}
}

// TestBlobs: large values are the same in a folder and in a database.
func TestBlobs(t *testing.T) {
	for _, inDatabase := range []bool{false, true} {
		o := store.Options{Dir: t.TempDir(), InDatabase: inDatabase}
		blobs, done, err := store.OpenBlobs(t.Context(), o)
		require.NoError(t, err)
		value := []byte(strings.Repeat("value ", 10_000))
		for range 2 {
			digest, err := blobs.Put(t.Context(), value)
			require.NoError(t, err)
			require.Equal(t, blob.Digest(value), digest)
		}
		require.NoError(t, blobs.Check(t.Context()))
		back, err := blobs.Get(t.Context(), blob.Digest(value))
		require.NoError(t, err)
		require.Equal(t, value, back)
		_, err = blobs.Get(t.Context(), blob.Digest([]byte("none")))
		require.ErrorIs(t, err, blob.ErrNotFound)
		require.NoError(t, done())
	}
}

// TestNewKey: one is made where there is none, and one of another log is not
// taken for it.
func TestNewKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "log.key")
	require.ErrorIs(t, store.NewKey(file, ""), store.ErrOptions)
	require.NoError(t, store.NewKey(file, "example.com/log"))
	first, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, store.NewKey(file, "example.com/log"))
	again, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.ErrorIs(t, store.NewKey(file, "example.com/other"), store.ErrOptions)
	require.ErrorIs(t, store.NewKey(filepath.Join(t.TempDir(), "k"), "a name with spaces"), store.ErrOptions)
	require.NoError(t, os.WriteFile(file, []byte("nonsense"), 0o600))
	err = store.NewKey(file, "example.com/log")
	require.ErrorIs(t, err, store.ErrOptions)
	require.NotContains(t, err.Error(), "nonsense")
	require.NoError(t, os.WriteFile(file, make([]byte, 1<<20), 0o600))
	require.ErrorContains(t, store.NewKey(file, "example.com/log"), "not a key file")
}

// TestMigratedPostgres: what was not migrated is refused, what was is not again.
func TestMigratedPostgres(t *testing.T) {
	o := store.Options{Driver: store.Postgres, URL: pgtest.URL(t), InDatabase: true, Origin: "example.com/log"}
	_, err := store.Open(t.Context(), o)
	require.ErrorContains(t, err, "run chimera migrate")
	n, err := store.Migrate(t.Context(), o)
	require.NoError(t, err)
	require.Positive(t, n)
	n, err = store.Migrate(t.Context(), o)
	require.NoError(t, err)
	require.Zero(t, n)
	s, err := store.Open(t.Context(), o)
	require.NoError(t, err)
	require.Nil(t, s.Key, "this process has none")
	require.NoError(t, s.Close())
}

// TestToolsReachNothingButValues of a database: with the rights of their role they
// read and add large values, and the ledger is closed to them. They need neither
// the log's key nor its name.
func TestToolsReachNothingButValues(t *testing.T) {
	o := store.Options{Driver: store.Postgres, URL: pgtest.URL(t), InDatabase: true, Key: newKey(t, "example.com/log")}
	_, err := store.Migrate(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, store.Grant(t.Context(), o))
	owner, err := store.Open(t.Context(), o)
	require.NoError(t, err)
	digest, err := owner.Blobs.Put(t.Context(), []byte("a plan"))
	require.NoError(t, err)
	require.NoError(t, owner.Close())

	u, err := url.Parse(o.URL)
	require.NoError(t, err)
	q := u.Query()
	q.Set("role", postgres.DefaultRoles.Tools)
	u.RawQuery = q.Encode()
	tools := store.Options{Driver: store.Postgres, URL: u.String(), InDatabase: true}
	s, err := store.OpenValues(t.Context(), tools)
	require.NoError(t, err)
	require.Nil(t, s.Ledger)
	b, err := s.Blobs.Get(t.Context(), digest)
	require.NoError(t, err)
	require.Equal(t, "a plan", string(b))
	_, err = s.Blobs.Put(t.Context(), []byte("a large result"))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	tools.Origin = "example.com/log"
	_, err = store.Open(t.Context(), tools)
	require.ErrorContains(t, err, "permission denied")
}
