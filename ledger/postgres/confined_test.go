package postgres_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/postgres"
)

// next is the next entry of a chain, of a kind.
func next(t testing.TB, s ledger.Store, chain string, kind ledger.Kind) *ledger.Entry {
	t.Helper()
	records, err := s.Chain(t.Context(), chain, 0, 10_000)
	require.NoError(t, err)
	n, prev := int64(len(records)), ledger.Hash{}
	if n > 0 {
		prev = records[n-1].Hash
	}
	d := ledger.Draft{Chain: chain, Key: fmt.Sprintf("%s/%d", kind, n), Kind: kind}
	return d.Entry(ledgertest.Origin, n, prev, ledger.At(time.Now()), ledger.BodyDigest([]byte("body")))
}

// session is a connection in a role, whose statements are transactions of their own.
func session(t testing.TB, o postgres.Options, role string) func(query string, args ...any) error {
	t.Helper()
	conn := connect(t, o)
	_, err := conn.Exec(t.Context(), "SET ROLE "+role)
	require.NoError(t, err)
	return func(query string, args ...any) error {
		// The simple protocol takes several statements, as one transaction.
		_, err := conn.Exec(t.Context(), query, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
		return err
	}
}

// TestEntriesFollow: what a role states is what its bytes say, now, and the next of its chain.
func TestEntriesFollow(t *testing.T) {
	ctx := t.Context()
	s, o, _ := granted(t)
	require.NoError(t, s.OpenRun(ctx, ledger.Run{Workflow: "w", Root: "r", Origin: "r", PlanDigest: ledger.BodyDigest(nil), InputDigest: ledger.BodyDigest(nil)}))
	do := session(t, o, postgres.DefaultRoles.Engine)
	insert := func(e *ledger.Entry, columns *ledger.Entry) error {
		raw, err := e.Encode()
		require.NoError(t, err)
		return do("INSERT INTO entries (hash, chain, n, key, kind, bytes) VALUES (sha256('\\x00'::bytea || $5::bytea), $1, $2, $3, $4, $5::bytea)",
			columns.Chain, columns.N, columns.Key, string(columns.Kind), raw)
	}
	fresh := func() *ledger.Entry { return next(t, s, "run/w/r", ledger.NodeSucceeded) }
	for name, lie := range map[string]func(e *ledger.Entry){
		"a gap":                       func(e *ledger.Entry) { e.N += 7 },
		"another entry before":        func(e *ledger.Entry) { e.Prev = ledger.LeafHash([]byte("x")) },
		"of the year 9999":            func(e *ledger.Entry) { e.At = ledger.At(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)) },
		"of yesterday":                func(e *ledger.Entry) { e.At = ledger.At(time.Now().Add(-24 * time.Hour)) },
		"the key of another kind":     func(e *ledger.Entry) { e.Key = "decision.made/i/1" },
		"the first that is no start":  func(e *ledger.Entry) { e.Chain, e.N, e.Prev = "run/w/q", 0, ledger.Hash{} },
		"of another chain that it is": func(e *ledger.Entry) { e.Chain = "run/w/q" },
	} {
		e := fresh()
		lie(e)
		require.ErrorContains(t, insert(e, e), "row-level security", name)
	}
	for name, lie := range map[string]func(e *ledger.Entry){
		"chain": func(e *ledger.Entry) { e.Chain = "run/w/q" },
		"place": func(e *ledger.Entry) { e.N++ },
		"key":   func(e *ledger.Entry) { e.Key += "x" },
		"kind":  func(e *ledger.Entry) { e.Kind = ledger.RunClosed },
	} {
		said := *fresh()
		lie(&said)
		require.ErrorContains(t, insert(fresh(), &said), "row-level security", name)
	}
	e := fresh()
	require.NoError(t, insert(e, e))
	require.ErrorContains(t, do("INSERT INTO pending VALUES (1000000)"), "row-level security", "the number of an entry to come")
	require.ErrorContains(t, do("INSERT INTO bodies (digest, chain, class, at, bytes) VALUES ('sha256:00', 'run/w/r', 'operational', 0, 'x')"), "check constraint")
}

// TestManyAtOnce: a role states many entries in one transaction.
func TestManyAtOnce(t *testing.T) {
	s, o, _ := granted(t)
	engine := as(t, o, postgres.DefaultRoles.Engine)
	require.NoError(t, engine.OpenRun(t.Context(), ledger.Run{Workflow: "w", Root: "r", Origin: "r", PlanDigest: ledger.BodyDigest(nil), InputDigest: ledger.BodyDigest(nil)}))
	var all []ledger.Outcome
	for i := range 600 {
		all = append(all, ledger.Outcome{Node: fmt.Sprint("n", i), Kind: ledger.NodeSucceeded})
	}
	require.NoError(t, engine.RecordOutcomes(t.Context(), "w", "r", all))
	records, err := s.Chain(t.Context(), "run/w/r", 0, 1000)
	require.NoError(t, err)
	require.Len(t, records, 601)
	pending, err := s.Pending(t.Context(), 1000)
	require.NoError(t, err)
	require.Len(t, pending, 601)
}

// TestPruningIsStated: what is pruned is stated, and what is stated was pruned.
func TestPruningIsStated(t *testing.T) {
	ctx := t.Context()
	o, s := database(t)
	ledgertest.Story(t, s, false)
	require.NoError(t, postgres.Grant(ctx, o, postgres.DefaultRoles))
	do := session(t, o, postgres.DefaultRoles.Engine)
	require.ErrorContains(t, do("SELECT prune_bodies('operational', 1::bigint << 60)"), "is stated")
	count := func(class ledger.Class) (n int) {
		require.NoError(t, connect(t, o).QueryRow(ctx, "SELECT count(*) FROM bodies WHERE class = $1", string(class)).Scan(&n))
		return n
	}
	there := count(ledger.Operational)
	require.Positive(t, there)
	e := next(t, s, ledger.LedgerChain, ledger.BodyPruned)
	body := ledger.Body{Data: fmt.Appendf(nil, `{"before":"2100-01-01T00:00:00.000Z","class":"operational","count":%d,"reason":"x"}`, there)}
	raw, err := body.Encode()
	require.NoError(t, err)
	e.Body = ledger.BodyDigest(raw)
	entry, err := e.Encode()
	require.NoError(t, err)
	const state = `INSERT INTO bodies (digest, chain, class, at, bytes) SELECT $6, $1, e.class, floor(extract(epoch FROM e.at) * 1000), $7::bytea
			FROM json_to_record(convert_from($5::bytea, 'UTF8')::json) AS e (class TEXT, at TIMESTAMPTZ);
		INSERT INTO entries (hash, chain, n, key, kind, bytes) VALUES (sha256('\x00'::bytea || $5::bytea), $1, $2, $3, $4, $5::bytea)`
	args := []any{e.Chain, e.N, e.Key, string(e.Kind), entry, e.Body, raw}
	require.ErrorContains(t, do(state, args...), "nothing of the ledger was pruned")
	require.ErrorContains(t, do("SELECT prune_bodies('financial', 4102444800000);"+state, args...), "is stated", "something else was")
	require.Equal(t, there, count(ledger.Operational))
	require.NoError(t, do("SELECT prune_bodies('operational', 4102444800000);"+state, args...))
	require.Zero(t, count(ledger.Operational))
	engine := as(t, o, postgres.DefaultRoles.Engine)
	n, err := engine.Prune(ctx, ledger.Evidence, time.Now().Add(time.Hour), "policy")
	require.NoError(t, err)
	require.Positive(t, n)
}

// TestCallsMove: nobody makes a call that may have happened, or has, one that can be made, and
// nobody but effects says what a call has answered.
func TestCallsMove(t *testing.T) {
	ctx := t.Context()
	s, o, _ := granted(t)
	run := ledger.Run{Workflow: "w", Root: "r", Origin: "r", PlanDigest: ledger.BodyDigest(nil), InputDigest: ledger.BodyDigest(nil)}
	require.NoError(t, s.OpenRun(ctx, run))
	for _, id := range []string{"permitted", "calling", "unknown", "settled"} {
		ask := ledgertest.Ask(id, id)
		ask.Repeatable = false
		_, err := s.Authorize(ctx, run, ask, ledgertest.Rule(ledger.Approve))
		require.NoError(t, err)
		if id == "permitted" {
			continue
		}
		_, err = s.Claim(ctx, id, id+"/1", "t", time.Hour)
		require.NoError(t, err)
		end := ledger.Effect{Token: "t", Settlement: ledger.Settlement{Attempt: 1, State: ledger.InvocationState(id)}}
		if id == "settled" {
			end.Output = []byte("output")
		}
		if id != "calling" {
			_, err = s.Settle(ctx, id, end)
			require.NoError(t, err)
		}
	}
	engine, guardian, effects := session(t, o, postgres.DefaultRoles.Engine), session(t, o, postgres.DefaultRoles.Guardian), session(t, o, postgres.DefaultRoles.Effects)
	for _, q := range []string{
		"UPDATE invocations SET state = 'permitted', unused = true WHERE id = 'calling'",
		"UPDATE invocations SET state = 'permitted', unused = true WHERE id = 'unknown'",
		"UPDATE invocations SET unused = true WHERE id = 'unknown'",
		"UPDATE invocations SET repeatable = true WHERE id = 'unknown'",
		"UPDATE invocations SET repeatable = true, unused = true, decision_id = 'x' WHERE id = 'calling'",
		"UPDATE invocations SET state = 'calling' WHERE id = 'permitted'",
		"UPDATE invocations SET state = 'unknown' WHERE id = 'calling'",
		"UPDATE invocations SET state = 'released' WHERE id = 'calling'",
		"UPDATE invocations SET state = 'settled' WHERE id = 'calling'",
		"UPDATE invocations SET output = 'x' WHERE id = 'calling'",
	} {
		err := guardian(q)
		require.Error(t, err, q)
		require.Regexp(t, "row-level security|of the ledger is", err.Error(), q)
	}
	require.NoError(t, guardian("UPDATE invocations SET state = 'permitted', unused = true, repeatable = true WHERE id = 'settled'"))
	i, err := s.Invocation(ctx, "settled")
	require.NoError(t, err)
	require.Equal(t, ledger.Settled, i.State, "it does not find it")
	require.NoError(t, effects("UPDATE invocations SET state = 'permitted', output = 'x' WHERE id = 'settled'"))
	i, err = s.Invocation(ctx, "settled")
	require.NoError(t, err)
	require.Equal(t, ledger.Settled, i.State, "it does not find it")
	require.Equal(t, "output", string(i.Output))
	require.ErrorContains(t, engine("UPDATE invocations SET output = 'x' WHERE id = 'calling'"), "of the ledger is")
	require.NoError(t, engine("UPDATE invocations SET output = NULL WHERE id = 'settled'"))

	_, _, err = s.CloseRun(ctx, ledger.Run{Workflow: "w", Root: "r", State: ledger.RunFailed}, nil)
	require.NoError(t, err)
	require.ErrorContains(t, engine("UPDATE runs SET state = 'running', closed_at = NULL"), "has ended")
}

// TestHoldsEndOnce: effects ends each hold once, spends no more than it holds, and moves no
// budget otherwise.
func TestHoldsEndOnce(t *testing.T) {
	ctx := t.Context()
	s, o, _ := granted(t)
	cents, err := ledger.Minor(100, "USD")
	require.NoError(t, err)
	require.NoError(t, s.SetBudget(ctx, ledger.Budget{Agent: "a", Currency: "USD", Every: ledger.Forever, Limit: cents}))
	_, err = s.OpenHold(ctx, ledger.Hold{ID: "h", Agent: "a", Amount: cents, ExpiresAt: ledger.At(time.Unix(1<<33, 0))})
	require.NoError(t, err)
	conn, err := connect(t, o).Begin(ctx)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, "SET LOCAL ROLE "+postgres.DefaultRoles.Effects)
	require.NoError(t, err)
	for _, c := range []struct {
		call  string
		moved int
	}{
		{"'h', 'posted', true, 101", 0}, {"'h', 'posted', true, -1", 0}, {"'h', 'posted', true, NULL", 0}, {"'h', 'voided', true, 1", 0}, {"'h', 'odd', true, NULL", 0},
		{"'h', 'pending', true, NULL", 0}, {"'h', 'posted', true, 60", 1}, {"'h', 'voided', true, NULL", 0}, {"'x', 'voided', true, NULL", 0},
	} {
		var n int
		require.NoError(t, conn.QueryRow(ctx, "SELECT move_hold("+c.call+")").Scan(&n), c.call)
		require.Equal(t, c.moved, n, c.call)
	}
	var pending, posted int64
	require.NoError(t, conn.QueryRow(ctx, "SELECT pending, posted FROM budget_use").Scan(&pending, &posted))
	require.Equal(t, []int64{0, 60}, []int64{pending, posted})
	require.ErrorContains(t, conn.Commit(ctx), "no entry of the ledger says that the hold h is posted")
	b, err := s.Budget(ctx, "a", "USD")
	require.NoError(t, err)
	require.Equal(t, int64(100), b.Pending.Minor())
}

// TestPruningOfAnotherLog: an entry that states a pruning, and that the sequencer would set aside,
// states none.
func TestPruningOfAnotherLog(t *testing.T) {
	ctx := t.Context()
	o, s := database(t)
	ledgertest.Story(t, s, false)
	key := ledgertest.Key(t)
	ledgertest.Drain(t, s, key)
	require.NoError(t, postgres.Grant(ctx, o, postgres.DefaultRoles))
	do := session(t, o, postgres.DefaultRoles.Engine)
	var there int
	require.NoError(t, connect(t, o).QueryRow(ctx, "SELECT count(*) FROM bodies WHERE class = 'operational'").Scan(&there))
	for name, c := range map[string]struct{ origin, data, from, to string }{
		"of another log":      {"elsewhere.example.com", "", "", ""},
		"not canonical":       {"", "", `,"key"`, `, "key"`},
		"with a body that is": {"", ` `, "", ""},
	} {
		e := next(t, s, ledger.LedgerChain, ledger.BodyPruned)
		if c.origin != "" {
			e.Origin = c.origin
		}
		body := ledger.Body{Data: fmt.Appendf(nil, `{"before":"2100-01-01T00:00:00.000Z","class":"operational","count":%d,"reason":"x"}`, there)}
		raw, err := body.Encode()
		require.NoError(t, err)
		raw = append(raw, c.data...)
		e.Body = ledger.BodyDigest(raw)
		entry, err := e.Encode()
		require.NoError(t, err)
		entry = bytes.Replace(entry, []byte(c.from), []byte(c.to), 1)
		require.ErrorContains(t, do(`SELECT prune_bodies('operational', 4102444800000);INSERT INTO bodies (digest, chain, class, at, bytes) VALUES ($6, $1, 'permanent', 0, $7::bytea);
			INSERT INTO entries (hash, chain, n, key, kind, bytes) VALUES (sha256('\x00'::bytea || $5::bytea), $1, $2, $3, $4, $5::bytea);
			INSERT INTO pending SELECT max(serial) FROM entries`, e.Chain, e.N, e.Key, string(e.Kind), entry, e.Body, raw), "is stated", name)
	}
	_, err := s.Prune(ctx, ledger.Evidence, time.Now().Add(time.Hour), "a \"policy\" <\\>\n\té")
	require.NoError(t, err)
	ledgertest.Drain(t, s, key)
	aside, err := s.Asides(ctx, math.MinInt64, 10)
	require.NoError(t, err)
	require.Empty(t, aside)
}

// TestOldTransactions: who holds a transaction open writes no entry of its time later.
func TestOldTransactions(t *testing.T) {
	ctx := t.Context()
	o, s := database(t)
	ledgertest.Story(t, s, false)
	require.NoError(t, postgres.Grant(ctx, o, postgres.DefaultRoles))
	conn := connect(t, o)
	insert := func() error {
		tx, err := conn.Begin(ctx)
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback(ctx)) }()
		_, err = tx.Exec(ctx, "SET LOCAL ROLE "+postgres.DefaultRoles.Engine)
		require.NoError(t, err)
		e := next(t, s, "snapshots/s", ledger.SnapshotTaken)
		raw, err := e.Encode()
		require.NoError(t, err)
		_, err = tx.Exec(ctx, insertEntry, e.Chain, e.N, e.Key, string(e.Kind), raw)
		return err
	}
	require.NoError(t, insert())
	_, err := conn.Exec(ctx, redefined("entry_follows", "clock_timestamp()", "(clock_timestamp() + interval ''14 minutes'')"))
	require.NoError(t, err)
	require.NoError(t, insert(), "one that has waited for others")
	_, err = conn.Exec(ctx, redefined("entry_follows", "14 minutes", "16 minutes"))
	require.NoError(t, err)
	require.ErrorContains(t, insert(), "row-level security")
}
