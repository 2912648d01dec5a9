package postgres_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/mutant"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/postgres"
)

// unlocked reads the clock and takes no lock.
var unlocked = [2]string{"pg_advisory_xact_lock(hashtextextended($1, 7)) IS NULL", "$1::text IS NULL"}

const (
	manyEntriesOfOneNumber = "ALTER TABLE entries DROP CONSTRAINT entries_chain_n_key"
	manyEntriesOfOneKey    = "ALTER TABLE entries DROP CONSTRAINT entries_chain_key_key"
)

var mutations = []mutant.Mutation{
	{Name: "chains are not locked", Replace: [][2]string{unlocked}, Tests: "linear|sequencer|interleavings"},
	{Name: "chains are not locked, and fork", Replace: [][2]string{unlocked}, Execute: []string{manyEntriesOfOneNumber}, Tests: "sequencer|interleavings"},
	{
		Name: "chains are not locked, and say things twice", Replace: [][2]string{unlocked},
		Execute: []string{manyEntriesOfOneNumber, manyEntriesOfOneKey}, Tests: "interleavings|permits",
	},
	{Name: "a chain is locked after it was read", Replace: [][2]string{{"hashtextextended($1, 7)", "hashtextextended($1 || random()::text, 7)"}}, Tests: "linear|sequencer|interleavings"},
	{Name: "holds pass the limit", Replace: [][2]string{{") - posted - pending >= $4", ") IS NOT NULL AND $4::bigint IS NOT NULL"}}, Tests: "exact"},
	{Name: "holds pass the limit, among others", Replace: [][2]string{{") - posted - pending >= $4", ") IS NOT NULL AND $4::bigint IS NOT NULL"}}, Tests: "linear"},
	{Name: "holds pass the limit, by what is posted", Replace: [][2]string{{") - posted - pending >= $4", ") - pending >= $4"}}, Tests: "linear|interleavings"},
	{Name: "the parent's limit counts for nothing", Replace: [][2]string{{"AND ($5 OR (SELECT lim", "AND ($5 OR agent = 'parent' OR (SELECT lim"}}, Tests: "linear"},
	{Name: "what a hold reserves is not freed", Replace: [][2]string{{"SET pending = pending - $4", "SET pending = pending - $4 + least($4, 1)"}}, Tests: "linear"},
	{Name: "running holds expire", Replace: [][2]string{{"SET status = $2, running = $3, posted = $4", "SET status = $2, running = $3 AND false, posted = $4"}}, Tests: "linear"},
	{Name: "approvals are used twice", Replace: [][2]string{{"AND accepted AND consumed_by IS NULL", "AND accepted"}}, Tests: "permits"},
	{Name: "a decision permits many", Replace: [][2]string{{"SELECT count(*) FROM invocations WHERE decision_id = $1", "SELECT 0 WHERE $1::text IS NOT NULL"}}, Tests: "permits"},
	{Name: "an end is put over another", Replace: [][2]string{{"SELECT doc, value, subject_key FROM runs", `SELECT replace(doc, '"state":"succeeded"', '"state":"running"'), value, subject_key FROM runs`}}, Tests: "ends|values"},
	{Name: "values outlive whom they are about", Replace: [][2]string{{"SET doc = $3, value = NULL", "SET doc = $3"}}, Tests: "values"},
	{Name: "values under legal hold go", Replace: [][2]string{{"|| root NOT IN (SELECT chain FROM legal_holds)", "|| root IS NOT NULL"}}, Tests: "values"},
	{Name: "open runs are passed over", Replace: [][2]string{{"ORDER BY workflow, root LIMIT", "ORDER BY serial LIMIT"}}, Tests: "ends"},
	{Name: "indexes have gaps", Replace: [][2]string{{"$2::bigint + o - 1", "$2::bigint + o * 2 - 1"}}, Tests: "tiles"},
	{Name: "entries are placed against their order", Replace: [][2]string{{"ORDER BY p.serial LIMIT", "ORDER BY p.serial DESC LIMIT"}, {"serial > lag(serial, 1, 0::bigint)", "serial <> lag(serial, 1, 0::bigint)"}}, Tests: "sequencer|interleavings"},
	{Name: "an entry is placed twice", Replace: [][2]string{{"DELETE FROM pending WHERE serial IN (SELECT serial FROM b) RETURNING serial", "SELECT serial FROM pending WHERE serial IN (SELECT serial FROM b)"}}, Execute: []string{"ALTER TABLE log_index DROP CONSTRAINT log_index_serial_key"}, Tests: "places"},
	{Name: "some entries are forgotten", Replace: [][2]string{{"SELECT serial FROM e", "SELECT serial FROM e WHERE serial % 7 <> 3"}}, Tests: "interleavings"},
	{Name: "tiles go that no other begins with", Replace: [][2]string{{"DELETE FROM log_tiles WHERE level = $1 AND n = $2 AND width < $3", "DELETE FROM log_tiles WHERE level = $1 AND n <= $2 AND width <= $3"}}, Execute: []string{"DROP TRIGGER kept ON log_tiles"}, Tests: "tiles"},
}

// broken opens the store as the mutation of this process has it.
func broken(t testing.TB, o postgres.Options, m *mutant.Mutation) ledger.Store {
	c, err := postgres.Connector(o)
	require.NoError(t, err)
	db := sql.OpenDB(mutant.Wrap(c, m))
	db.SetMaxOpenConns(16)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return postgres.On(db, o.Origin)
}

// The suite finds stores that break what it demands.
func TestFaultsAreFound(t *testing.T) {
	mutant.Run(t, mutations, "DATABASE_URL="+pgtest.URL(t))
}

// suite opens stores for the suite, broken where this process is to find that.
func suite(t testing.TB) ledgertest.Open {
	o := postgres.Options{URL: pgtest.URL(t), Origin: ledgertest.Origin}
	_, err := postgres.Open(t.Context(), o)
	require.ErrorContains(t, err, "run chimera migrate")
	n, err := postgres.Migrate(t.Context(), o)
	require.NoError(t, err)
	require.Positive(t, n)
	if m := mutant.Active(mutations); m != nil {
		for _, q := range m.Execute {
			_, err := connect(t, o).Exec(t.Context(), q)
			require.NoError(t, err)
		}
		return func(t testing.TB) ledger.Store { return broken(t, o, m) }
	}
	return func(t testing.TB) ledger.Store {
		s, err := postgres.Open(t.Context(), o)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	}
}
