package postgres_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/lengthy"
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

// redefined is a statement that replaces a text in a function.
func redefined(function, text, by string) string {
	return "DO $$ BEGIN EXECUTE replace(pg_get_functiondef('" + function + "'::regproc), '" + text + "', '" + by + "'); END $$"
}

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
	{Name: "what a hold reserves is not freed", Execute: []string{redefined("move_hold", "u.pending - h.amount", "u.pending - h.amount + least(h.amount, 1)")}, Tests: "linear"},
	{Name: "running holds expire", Execute: []string{redefined("move_hold", "running = runs", "running = runs AND false")}, Tests: "holds"},
	{Name: "approvals are used twice", Replace: [][2]string{{"SELECT invocation FROM consumptions WHERE approval = $1 AND action = $2", "SELECT max(id) FROM invocations WHERE $1::text = $1 AND $2::text = $2"}, {"ON CONFLICT (approval, action) DO NOTHING", ""}}, Execute: []string{"ALTER TABLE consumptions DROP CONSTRAINT consumptions_pkey"}, Tests: "permits"},
	{Name: "statements count while people are asked", Replace: [][2]string{{"SELECT state, refused, doc FROM barriers WHERE id", "SELECT CASE WHEN id LIKE '%/%' THEN state ELSE 'approved' END, refused, doc FROM barriers WHERE id"}}, Tests: "outcomes"},
	{Name: "an escalation is forgotten", Replace: [][2]string{{"UPDATE barriers SET doc = $2 WHERE id = $1", "UPDATE barriers SET doc = $2 WHERE id = $1 || 'no'"}}, Tests: "followups"},
	{Name: "invocations are not locked", Replace: [][2]string{{"hashtextextended($1, 7)", "hashtextextended($1 || CASE WHEN $1 LIKE 'invocation %' OR $1 LIKE 'run/%' THEN random()::text ELSE '' END, 7)"}}, Tests: "permits|interleavings"},
	{Name: "checks are made for what nobody has approved", Replace: [][2]string{{"SELECT state, origin FROM barriers", "SELECT 'approved', origin FROM barriers"}}, Tests: "checks"},
	{Name: "the first check counts", Replace: [][2]string{{"ORDER BY number DESC", "ORDER BY number"}}, Tests: "checks"},
	{Name: "a permit is used twice", Replace: [][2]string{{"call_not_after = $4, unused = FALSE", "call_not_after = $4"}}, Tests: "permits|holds|interleavings"},
	{Name: "settled calls are called", Replace: [][2]string{{"SET state = $2, unused = FALSE, output_digest = $3", "SET state = CASE WHEN $2 = 'settled' THEN 'released' ELSE $2 END, unused = FALSE, output_digest = $3"}}, Tests: "life|again"},
	{Name: "what was refused stays reserved", Replace: [][2]string{{"SET pending = pending - $4, posted = posted + $5", "SET pending = pending - CASE WHEN $5 > 0 THEN $4 ELSE 0 END, posted = posted + $5"}}, Tests: "holds"},
	{Name: "outputs go while a run is open", Replace: [][2]string{{"runs.closed_at IS NULL OR runs.closed_at >= $1", "runs.closed_at >= $1"}}, Tests: "outputs"},
	{Name: "calls of open runs are abandoned", Replace: [][2]string{{"AND runs.state = 'running') ORDER BY random()", "AND runs.state = 'no') ORDER BY random()"}}, Tests: "holds"},
	{Name: "prob nodes of a run cost what they like", Replace: [][2]string{{"WHERE origin = $1 AND prob AND currency", "WHERE origin = $1 || 'no' AND prob AND currency"}}, Tests: "calls"},
	{Name: "a run that is reset counts its calls anew", Replace: [][2]string{{"FROM invocations WHERE origin = $1 AND id", "FROM invocations WHERE chain LIKE '%/' || $1 AND id"}}, Tests: "origins"},
	{Name: "prob nodes of a run that is reset cost anew", Replace: [][2]string{{"WHERE origin = $1 AND prob AND currency", "WHERE root = $1 AND prob AND currency"}}, Tests: "origins"},
	{Name: "holds of open runs are posted", Replace: [][2]string{{"runs.origin = holds.origin AND runs.state = 'running'", "runs.origin = holds.origin AND runs.state = 'no'"}}, Tests: "calls"},
	{Name: "an end is put over another", Replace: [][2]string{{"SELECT doc, value, subject_key, (SELECT", `SELECT replace(doc, '"state":"succeeded"', '"state":"running"'), value, subject_key, (SELECT`}}, Tests: "ends|values"},
	{Name: "values outlive whom they are about", Replace: [][2]string{{"SET doc = $3, value = NULL", "SET doc = $3"}}, Tests: "values"},
	{Name: "values under legal hold go", Replace: [][2]string{{"|| root NOT IN (SELECT chain FROM legal_holds)", "|| root IS NOT NULL"}}, Tests: "values"},
	{Name: "an envelope counts twice", Replace: [][2]string{{"root = $2 AND digest = $3", "root = $2 AND digest = $3 || 'no'"}}, Tests: "orders"},
	{Name: "forecasts outlive whom they are about", Replace: [][2]string{{"DELETE FROM causal_hypothesis WHERE subject_key = $1", "DELETE FROM causal_hypothesis WHERE subject_key = $1 || 'no'"}}, Tests: "hypotheses"},
	{Name: "decisions that permitted nothing are calls", Replace: [][2]string{{"AND i.decision_id = d.id", ""}}, Tests: "history"},
	{Name: "a paused run is paused", Replace: [][2]string{{"SELECT n, kind FROM orders", "SELECT n, kind || 'no' FROM orders"}}, Tests: "orders"},
	{Name: "open runs are passed over", Replace: [][2]string{{"ORDER BY workflow, root LIMIT", "ORDER BY serial LIMIT"}}, Tests: "ends"},
	{Name: "indexes have gaps", Replace: [][2]string{{"$2::bigint + o - 1", "$2::bigint + o * 2 - 1"}}, Tests: "tiles"},
	{Name: "entries are placed against their order", Replace: [][2]string{{"ORDER BY p.serial LIMIT", "ORDER BY p.serial DESC LIMIT"}, {"serial > lag(serial)", "serial <> lag(serial)"}}, Tests: "places"},
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
	lengthy.Skip(t)
	mutant.Run(t, mutations, "DATABASE_URL="+pgtest.URL(t))
}

// suite opens stores for the suite, broken where this process is to find that.
func suite(t testing.TB) ledgertest.Open {
	m := mutant.Active(mutations)
	if m == nil {
		o, _ := database(t)
		return func(t testing.TB) ledger.Store {
			s, err := postgres.Open(t.Context(), o)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			return s
		}
	}
	o, _ := migrated(t, m.Name, func(o postgres.Options) error {
		conn, err := pgx.Connect(t.Context(), o.URL)
		if err != nil {
			return err
		}
		for _, q := range m.Execute {
			if _, wrong := conn.Exec(t.Context(), q); err == nil {
				err = wrong
			}
		}
		return errors.Join(err, conn.Close(t.Context()))
	})
	return func(t testing.TB) ledger.Store { return broken(t, o, m) }
}
