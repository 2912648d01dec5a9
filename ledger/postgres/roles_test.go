package postgres_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/postgres"
)

// database returns a migrated database, and a store on it.
func database(t testing.TB) (postgres.Options, ledger.Store) {
	o := postgres.Options{URL: pgtest.URL(t), Origin: ledgertest.Origin}
	_, err := postgres.Migrate(t.Context(), o)
	require.NoError(t, err)
	s, err := postgres.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return o, s
}

func connect(t testing.TB, o postgres.Options) *pgx.Conn {
	conn, err := pgx.Connect(t.Context(), o.URL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

// as returns a store that does everything in a role.
func as(t testing.TB, o postgres.Options, role string) ledger.Store {
	u, err := url.Parse(o.URL)
	require.NoError(t, err)
	q := u.Query()
	q.Set("role", role)
	u.RawQuery = q.Encode()
	o.URL = u.String()
	s, err := postgres.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestTablesOfTheLogAreAppendOnly(t *testing.T) {
	o, s := database(t)
	ledgertest.Story(t, s, false)
	ledgertest.Drain(t, s, ledgertest.Key(t))
	conn := connect(t, o)
	_, err := conn.Exec(t.Context(), "INSERT INTO log_cosignatures (size, checkpoint) VALUES (1, 'x')")
	require.NoError(t, err)
	for table, column := range map[string]string{
		"entries": "kind", "log_batches": "size", "log_index": "place", "log_tiles": "width", "log_cosignatures": "size", "authority": "prev", "bodies": "chain",
	} {
		var n int
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
		require.Positive(t, n, table)
		for _, q := range []string{"UPDATE " + table + " SET " + column + " = " + column, "DELETE FROM " + table, "TRUNCATE " + table + " CASCADE"} {
			if table == "bodies" && strings.HasPrefix(q, "DELETE") {
				q += " WHERE class = 'permanent'"
			}
			_, err := conn.Exec(t.Context(), q)
			require.ErrorContains(t, err, "of the ledger", q)
		}
		var after int
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&after))
		require.Equal(t, n, after, table)
	}
	// One tile is stored for each place, and none is deleted whose successor
	// disagrees with it.
	records, err := s.Records(t.Context(), 0, 10_000)
	require.NoError(t, err)
	var n int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM log_tiles").Scan(&n))
	require.Equal(t, ledgertest.Tiles(int64(len(records))), n)
	_, err = conn.Exec(t.Context(), `INSERT INTO log_tiles (level, n, width, data) VALUES (5, 0, 1, '\x01'), (5, 0, 2, '\x0202'), (5, 0, 3, '\x020203')`)
	require.NoError(t, err)
	for width, taken := range map[int]bool{1: false, 2: true, 3: false} {
		_, err := conn.Exec(t.Context(), "DELETE FROM log_tiles WHERE level = 5 AND width = $1", width)
		if taken {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "of the ledger", width)
		}
	}
	require.NoError(t, s.PlaceLegalHold(t.Context(), "run/w/r1", "case"))
	_, err = conn.Exec(t.Context(), "DELETE FROM bodies WHERE chain = 'run/w/r1'")
	require.ErrorContains(t, err, "of the ledger is kept")
}

func TestRoles(t *testing.T) {
	o, owner := database(t)
	ctx := t.Context()
	roles := postgres.DefaultRoles
	for range 2 {
		require.NoError(t, postgres.Grant(ctx, o, roles))
	}
	require.ErrorIs(t, postgres.Grant(ctx, o, postgres.Roles{Engine: "a; DROP TABLE entries", Guardian: "b", Reader: "c", Tools: "d"}), ledger.ErrInvalid)
	require.ErrorIs(t, postgres.Grant(ctx, o, postgres.Roles{Engine: "a", Guardian: "a", Reader: "c", Tools: "d"}), ledger.ErrInvalid)
	engine, guardian, reader := as(t, o, roles.Engine), as(t, o, roles.Guardian), as(t, o, roles.Reader)
	far := ledger.At(time.Unix(1<<33, 0))
	cents, err := ledger.Minor(100, "USD")
	require.NoError(t, err)
	run := ledger.Run{Workflow: "w", Root: "r", Origin: "r", PlanDigest: ledger.BodyDigest(nil), InputDigest: ledger.BodyDigest(nil)}
	decision := ledger.Decision{ID: "d", ActionDigest: ledger.BodyDigest(nil), PolicyDigest: ledger.BodyDigest(nil), Decision: "APPROVE", Record: json.RawMessage(`{}`)}
	budget := ledger.Budget{Agent: "a", Currency: "USD", Every: ledger.Forever, Limit: cents}
	hold := ledger.Hold{ID: "i", Agent: "a", Amount: cents, ExpiresAt: far}
	approval := ledger.Approval{ID: "a", Barrier: "b", Accepted: true, Envelope: json.RawMessage(`{}`)}
	invocation := ledger.Invocation{ID: "i", ActionDigest: ledger.BodyDigest(nil), DecisionID: "d"}
	no := func(_ any, err error) error { return err }
	steps := []struct {
		name             string
		do               func(s ledger.Store) error
		engine, guardian bool
	}{
		{"open run", func(s ledger.Store) error { return s.OpenRun(ctx, run) }, true, false},
		{"outcomes", func(s ledger.Store) error {
			return s.RecordOutcomes(ctx, "w", "r", []ledger.Outcome{{Node: "n", Kind: ledger.NodeSucceeded}})
		}, true, false},
		{"approval", func(s ledger.Store) error { return s.RecordApproval(ctx, run, approval) }, true, true},
		{"budget", func(s ledger.Store) error { return s.SetBudget(ctx, budget) }, false, true},
		{"decision", func(s ledger.Store) error { return s.RecordDecision(ctx, run, decision) }, false, true},
		{"hold", func(s ledger.Store) error { return no(s.OpenHold(ctx, hold)) }, false, true},
		{"run hold", func(s ledger.Store) error { return s.RunHold(ctx, "i") }, false, true},
		{"permit", func(s ledger.Store) error { return no(s.Permit(ctx, run, invocation, []string{"a"})) }, false, true},
		{"claim", func(s ledger.Store) error { return no(s.Claim(ctx, "i", time.Minute)) }, true, false},
		{"settle", func(s ledger.Store) error { return no(s.Settle(ctx, "i", 1, "")) }, true, true},
		{"post", func(s ledger.Store) error { return no(s.PostHold(ctx, "i", cents)) }, false, true},
		{"tool", func(s ledger.Store) error {
			return s.RegisterTool(ctx, ledger.Tool{ToolID: "t", Schema: json.RawMessage(`{}`)})
		}, true, false},
		{"sealed", func(s ledger.Store) error {
			return no(s.Append(ctx, ledger.Draft{Chain: "c", Key: "k", Kind: ledger.SnapshotTaken, Subject: "erika", Data: json.RawMessage(`{}`)}))
		}, true, true},
		{"authority", func(s ledger.Store) error { return s.StateAuthority(ctx, json.RawMessage(`{}`), "") }, true, false},
	}
	for _, kind := range []ledger.Kind{ledger.DecisionMade, ledger.ApprovalConsumed, ledger.InvocationPermitted, ledger.HoldOpened, ledger.HoldPosted, ledger.BudgetSet} {
		steps = append(steps, struct {
			name             string
			do               func(s ledger.Store) error
			engine, guardian bool
		}{"append " + string(kind), func(s ledger.Store) error {
			return no(s.Append(ctx, ledger.Draft{Chain: "forged", Key: string(kind), Kind: kind}))
		}, false, true})
	}
	denied := func(name string, err error) {
		t.Helper()
		require.Error(t, err, name)
		require.Regexp(t, "permission denied|row-level security", err.Error(), name)
		require.NotErrorIs(t, err, ledger.ErrUnavailable, name)
	}
	for _, step := range steps {
		denied("reader: "+step.name, step.do(reader))
		if !step.engine {
			denied("engine: "+step.name, step.do(engine))
		}
		if !step.guardian && step.engine {
			// Nothing of it exists yet, so that it cannot simply be found.
			if step.name != "claim" {
				denied("guardian: "+step.name, step.do(guardian))
			}
			require.NoError(t, step.do(engine), step.name)
			continue
		}
		require.NoError(t, step.do(guardian), step.name)
	}
	for name, s := range map[string]ledger.Store{"engine": engine, "guardian": guardian, "reader": reader} {
		if name != "engine" {
			_, err := s.Prune(ctx, ledger.Operational, time.Now().Add(time.Hour), "")
			denied(name, err)
		}
		denied(name, s.PlaceLegalHold(ctx, "c", ""))
		if name != "reader" {
			denied(name, s.EraseSubject(ctx, "erika", ""))
		}
	}
	n, err := engine.Prune(ctx, ledger.Operational, time.Now().Add(time.Hour), "policy")
	require.NoError(t, err)
	require.Equal(t, 2, n, "by class and age alone: run.opened, the outcome")
	key := ledgertest.Key(t)
	ledgertest.Drain(t, engine, key)
	_, err = owner.Append(ctx, ledger.Draft{Chain: "more", Key: "k", Kind: ledger.SnapshotTaken})
	require.NoError(t, err)
	for name, s := range map[string]ledger.Store{"guardian": guardian, "reader": reader} {
		_, err := (&ledger.Sequencer{Store: s, Key: key}).Integrate(ctx)
		denied(name, err)
	}
	_, err = reader.Run(ctx, "w", "")
	require.NoError(t, err, "readers read")
	records, err := reader.Records(ctx, 0, 1000)
	require.NoError(t, err)
	require.NotEmpty(t, records)

	// By hand, in the role: what the tables and the log refuse.
	conn := connect(t, o)
	try := func(role, q string, args ...any) error {
		_, err := conn.Exec(ctx, "SET ROLE "+role)
		require.NoError(t, err)
		_, err = conn.Exec(ctx, q, args...)
		_, reset := conn.Exec(ctx, "RESET ROLE")
		require.NoError(t, reset)
		return err
	}
	denied("reader: keys", try(roles.Reader, "SELECT key FROM subject_keys"))
	lie := "INSERT INTO entries (hash, chain, n, key, kind, bytes) VALUES ('\\x01', 'forged', 100, 'x', 'node.succeeded', $1)"
	denied("an entry whose column says another kind", try(roles.Engine, lie, []byte(`{"kind":"decision.made"}`)))
	require.Error(t, try(roles.Engine, lie, []byte(`{"kind":"decision.made","kind":"node.succeeded"`)), "no JSON at all")
	for _, q := range []string{
		"INSERT INTO invocations (id, chain, action_digest, decision_id, state, attempt, output_digest) VALUES ('x','c','a','d','permitted',0,'')",
		"INSERT INTO approvals (id, chain, barrier, received_at, accepted, consumed_by, doc) VALUES ('x','c','b',0,true,'i','{}')",
		"UPDATE approvals SET consumed_by = NULL", "UPDATE invocations SET action_digest = 'x'", "UPDATE runs SET workflow = 'x'",
		"DELETE FROM bodies", "ALTER TABLE entries DISABLE TRIGGER append_only", "DROP TABLE entries", "CREATE TABLE mine (x int)",
	} {
		err := try(roles.Engine, q)
		require.Error(t, err, q)
		require.Regexp(t, "permission denied|row-level security|must be owner", err.Error(), q)
	}
}
