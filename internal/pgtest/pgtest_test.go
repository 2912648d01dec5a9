package pgtest_test

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func TestURL(t *testing.T) {
	for range 2 {
		conn, err := pgx.Connect(t.Context(), pgtest.URL(t))
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), "CREATE TABLE t (x int)")
		require.NoError(t, err, "each database is empty at first")
		require.NoError(t, conn.Close(t.Context()))
	}
}

func TestCopy(t *testing.T) {
	filled := 0
	for range 2 {
		conn, err := pgx.Connect(t.Context(), pgtest.Copy(t, "with a table", func(address string) error {
			filled++
			conn, err := pgx.Connect(t.Context(), address)
			require.NoError(t, err)
			_, err = conn.Exec(t.Context(), "CREATE TABLE t (x int)")
			require.NoError(t, err)
			return conn.Close(t.Context())
		}))
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), "ALTER TABLE t RENAME TO u")
		require.NoError(t, err, "each database is as it was filled")
		require.NoError(t, conn.Close(t.Context()))
	}
	require.Equal(t, 1, filled)
}

func TestKill(t *testing.T) {
	c, err := pgtest.Start(t.Context(), t.TempDir())
	require.NoError(t, err)
	defer func() { c.Kill() }()
	conn, err := pgx.Connect(t.Context(), c.URL("postgres"))
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "CREATE TABLE t AS SELECT 7 AS x")
	require.NoError(t, err)
	c.Kill()
	_, err = conn.Exec(t.Context(), "SELECT 1")
	require.Error(t, err)
	require.NoError(t, c.Restart(t.Context()))
	conn, err = pgx.Connect(t.Context(), c.URL("postgres"))
	require.NoError(t, err)
	var x int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT x FROM t").Scan(&x))
	require.Equal(t, 7, x, "what was committed is there")
	require.NoError(t, conn.Close(t.Context()))
}
