package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/mutant"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/sqlite"
)

// Statements are as SQLite gets them: "?" stands for every argument.
var mutations = []mutant.Mutation{
	{Name: "holds pass the limit", Replace: [][2]string{{") - posted - pending >= ?", ") IS NOT NULL AND ? IS NOT NULL"}}, Tests: "exact|linear"},
	{Name: "the parent's limit counts for nothing", Replace: [][2]string{{"AND (? OR (SELECT lim", "AND (? OR agent = 'parent' OR (SELECT lim"}}, Tests: "linear"},
	{Name: "what a hold reserves is not freed", Replace: [][2]string{{"SET pending = pending - ?", "SET pending = pending - ? + 1"}}, Tests: "linear"},
	{Name: "approvals are used twice", Replace: [][2]string{{"SELECT invocation FROM consumptions WHERE approval = ? AND action = ?", "SELECT max('') FROM consumptions WHERE approval = ? AND action = ?"}}, Tests: "permits"},
	{Name: "what undoes nothing that has happened is approved", Replace: [][2]string{{"SELECT action_digest, state FROM invocations", "SELECT action_digest, 'settled' FROM invocations"}}, Tests: "undo"},
	{Name: "statements count while people are asked", Replace: [][2]string{{"SELECT state, refused, doc FROM barriers WHERE id", "SELECT CASE WHEN id LIKE '%/%' THEN state ELSE 'approved' END, refused, doc FROM barriers WHERE id"}}, Tests: "outcomes"},
	{Name: "an escalation is forgotten", Replace: [][2]string{{"UPDATE barriers SET doc = ? WHERE id = ?", "UPDATE barriers SET doc = ? WHERE id = ? || 'no'"}}, Tests: "followups"},
	{Name: "checks are made for what nobody has approved", Replace: [][2]string{{"SELECT state, origin FROM barriers", "SELECT 'approved', origin FROM barriers"}}, Tests: "checks"},
	{Name: "the first check counts", Replace: [][2]string{{"ORDER BY number DESC", "ORDER BY number"}}, Tests: "checks"},
	{Name: "a permit is used twice", Replace: [][2]string{{"call_not_after = ?, unused = FALSE", "call_not_after = ?"}}, Tests: "permits|holds"},
	{Name: "outputs go while a run is open", Replace: [][2]string{{"runs.closed_at IS NULL OR runs.closed_at >= ?", "runs.closed_at >= ?"}}, Tests: "outputs"},
	{Name: "indexes have gaps", Replace: [][2]string{{"INSERT INTO log_index (place, serial) SELECT ?, serial", "INSERT INTO log_index (place, serial) SELECT ? * 2, serial"}}, Tests: "tiles"},
	{Name: "prob nodes of a run cost what they like", Replace: [][2]string{{"WHERE origin = ? AND prob AND currency", "WHERE origin = ? || 'no' AND prob AND currency"}}, Tests: "calls"},
	{Name: "a run that is reset counts its calls anew", Replace: [][2]string{{"FROM invocations WHERE origin = ? AND id", "FROM invocations WHERE chain LIKE '%/' || ? AND id"}}, Tests: "origins"},
	{Name: "prob nodes of a run that is reset cost anew", Replace: [][2]string{{"WHERE origin = ? AND prob AND currency", "WHERE root = ? AND prob AND currency"}}, Tests: "origins"},
	{Name: "holds of open runs are posted", Replace: [][2]string{{"runs.origin = holds.origin AND runs.state = 'running'", "runs.origin = holds.origin AND runs.state = 'no'"}}, Tests: "calls"},
	{Name: "an end is put over another", Replace: [][2]string{{"SELECT doc, value, subject_key, (SELECT", `SELECT replace(doc, '"state":"succeeded"', '"state":"running"'), value, subject_key, (SELECT`}}, Tests: "ends|values"},
	{Name: "values outlive whom they are about", Replace: [][2]string{{"SET doc = ?, value = NULL", "SET doc = ?"}}, Tests: "values"},
	{Name: "values under legal hold go", Replace: [][2]string{{"|| root NOT IN (SELECT chain FROM legal_holds)", "|| root IS NOT NULL"}}, Tests: "values"},
	{Name: "an envelope counts twice", Replace: [][2]string{{"root = ? AND digest = ?", "root = ? AND digest = ? || 'no'"}}, Tests: "orders"},
	{Name: "forecasts outlive whom they are about", Replace: [][2]string{{"DELETE FROM causal_hypothesis WHERE subject_key = ?", "DELETE FROM causal_hypothesis WHERE subject_key = ? || 'no'"}}, Tests: "hypotheses"},
	{Name: "decisions that permitted nothing are calls", Replace: [][2]string{{"AND i.decision_id = d.id", ""}}, Tests: "history"},
	{Name: "a paused run is paused", Replace: [][2]string{{"SELECT n, kind FROM orders", "SELECT n, kind || 'no' FROM orders"}}, Tests: "orders"},
	{Name: "open runs are passed over", Replace: [][2]string{{"ORDER BY workflow, root LIMIT", "ORDER BY serial LIMIT"}}, Tests: "ends"},
	{
		Name: "chains fork", Replace: [][2]string{{"ORDER BY n DESC LIMIT 1) AS head", "ORDER BY n DESC LIMIT 1 OFFSET 1) AS head"}},
		Execute: []string{"DROP TRIGGER entries_replace"}, Tests: "interleavings|life",
	},
	{
		Name: "tiles go that no other begins with", Replace: [][2]string{{"DELETE FROM log_tiles WHERE level = ? AND n = ? AND width < ?", "DELETE FROM log_tiles WHERE level = ? AND n <= ? AND width <= ?"}},
		Execute: []string{"DROP TRIGGER log_tiles_delete"}, Tests: "tiles",
	},
}

// The suite finds stores that break what it demands.
func TestFaultsAreFound(t *testing.T) {
	lengthy.Skip(t)
	mutant.Run(t, mutations)
}

// suite opens stores for the suite, broken where this process is to find that.
func suite(t testing.TB) ledgertest.Open {
	o := sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Origin: ledgertest.Origin, Subjects: ledgertest.Ring(t)}
	m := mutant.Active(mutations)
	if m != nil {
		s, err := sqlite.Open(t.Context(), o)
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	d, name, err := sqlite.Source(o)
	require.NoError(t, err)
	if m != nil {
		db := sql.OpenDB(mutant.Source{To: d, Name: name})
		for _, q := range m.Execute {
			_, err := db.Exec(q)
			require.NoError(t, err)
		}
		require.NoError(t, db.Close())
	}
	return func(t testing.TB) ledger.Store {
		if m != nil {
			return broken(t, o, m)
		}
		s, err := sqlite.Open(t.Context(), o)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	}
}

// broken opens the store as a mutation has it.
func broken(t testing.TB, o sqlite.Options, m *mutant.Mutation) ledger.Store {
	d, name, err := sqlite.Source(o)
	require.NoError(t, err)
	db := sql.OpenDB(mutant.Wrap(mutant.Source{To: d, Name: name}, m))
	db.SetMaxOpenConns(8)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return sqlite.On(db, o.Origin)
}
