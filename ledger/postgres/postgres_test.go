package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/crash"
	"chimera.ai/engine/internal/mutant"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/postgres"
)

func TestMain(m *testing.M) {
	crash.Main(func(address string) (ledger.Store, error) {
		return postgres.Open(context.Background(), postgres.Options{URL: address, Origin: ledgertest.Origin})
	})
	os.Exit(pgtest.Main(m))
}

func TestCrash(t *testing.T) {
	c, err := pgtest.Start(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(c.Kill)
	o := postgres.Options{URL: c.URL("postgres"), Origin: ledgertest.Origin, Subjects: ledgertest.Ring(t)}
	_, err = postgres.Migrate(t.Context(), o)
	require.NoError(t, err)
	crash.Run(t, crash.Config{
		Address: o.URL,
		Open: func(t testing.TB) ledger.Store {
			s, err := postgres.Open(t.Context(), o)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			return s
		},
		KillServer: func() {
			c.Kill()
			require.NoError(t, c.Restart(t.Context()))
		},
	})
}

// A database that lacks migrations is opened once it has them.
func TestMigrate(t *testing.T) {
	o := postgres.Options{URL: pgtest.URL(t), Origin: ledgertest.Origin, Subjects: ledgertest.Ring(t)}
	_, err := postgres.Open(t.Context(), o)
	require.ErrorContains(t, err, "run chimera migrate")
	n, err := postgres.Migrate(t.Context(), o)
	require.NoError(t, err)
	require.Positive(t, n)
	n, err = postgres.Migrate(t.Context(), o)
	require.NoError(t, err)
	require.Zero(t, n, "again does nothing")
	s, err := postgres.Open(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

func TestSuite(t *testing.T) { ledgertest.Run(t, suite) }

// More statements than a reader can hold are refused, whoever has put them there.
func TestAuthorityIsBounded(t *testing.T) {
	o, s := database(t)
	require.NoError(t, s.StateAuthority(t.Context(), json.RawMessage(`{"n":1}`), ""))
	conn, err := pgx.Connect(t.Context(), o.URL)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	add := "INSERT INTO authority (n, digest, prev, statement) SELECT n, 'd' || n, 'p' || n, repeat('x', $2) FROM generate_series(2, $1) AS u (n)"
	most := 2 * ledger.MaxBodyBytes
	_, err = conn.Exec(t.Context(), add, 2, most+1)
	require.ErrorContains(t, err, "authority_statement_check")
	rows := ledger.MaxAuthority/most + 1
	_, err = conn.Exec(t.Context(), add, rows, most)
	require.NoError(t, err)
	_, err = s.Authority(t.Context())
	require.ErrorIs(t, err, ledger.ErrInvalid)
	err = s.StateAuthority(t.Context(), json.RawMessage(`{"n":3}`), fmt.Sprint("d", rows))
	require.ErrorIs(t, err, ledger.ErrInvalid)
	require.ErrorContains(t, err, fmt.Sprintf("the chain of statements is full: %d of 100000", rows))
}

func TestPeriods(t *testing.T) {
	o, _ := database(t)
	ledgertest.Periods(t, func(t testing.TB) ledger.Store {
		s, err := postgres.Open(t.Context(), o)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	}, func(t testing.TB) ledger.Store {
		return broken(t, o, &mutant.Mutation{Replace: [][2]string{{"clock_timestamp()", "(clock_timestamp() + interval '40 days')"}}})
	})
}

// Nothing about a person is in the files of the server in the clear, its write-ahead log
// included, nor a key of one who was erased.
func TestErasure(t *testing.T) {
	dir := t.TempDir()
	c, err := pgtest.Start(t.Context(), dir)
	require.NoError(t, err)
	t.Cleanup(c.Kill)
	o := postgres.Options{URL: c.URL("postgres"), Origin: ledgertest.Origin, Subjects: ledgertest.Ring(t)}
	_, err = postgres.Migrate(t.Context(), o)
	require.NoError(t, err)
	s, err := postgres.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	conn, err := pgx.Connect(t.Context(), o.URL)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) })
	ledgertest.Erasure(t, s, o.Subjects, dir, func() {
		_, err := conn.Exec(t.Context(), "CHECKPOINT")
		require.NoError(t, err)
	})
}
