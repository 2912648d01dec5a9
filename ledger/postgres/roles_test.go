package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
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
	return migrated(t, "migrated", func(postgres.Options) error { return nil })
}

// migrated returns a database that was migrated and then changed in the way that has that name.
func migrated(t testing.TB, name string, change func(postgres.Options) error) (postgres.Options, ledger.Store) {
	o := postgres.Options{Origin: ledgertest.Origin, Subjects: ledgertest.Ring(t)}
	o.URL = pgtest.Copy(t, name, func(address string) error {
		o := postgres.Options{URL: address, Origin: ledgertest.Origin}
		_, err := postgres.Migrate(t.Context(), o)
		return errors.Join(err, change(o))
	})
	s, err := postgres.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, s.Bind(t.Context()))
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

// TestOpenWithoutRole: a user who is a member of no role is told so.
func TestOpenWithoutRole(t *testing.T) {
	o, _ := database(t)
	conn := connect(t, o)
	_, err := conn.Exec(t.Context(), "CREATE ROLE chimera_stranger")
	require.NoError(t, err)
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), o.URL)
		require.NoError(t, err)
		_, err = conn.Exec(context.Background(), "DROP ROLE chimera_stranger")
		require.NoError(t, errors.Join(err, conn.Close(context.Background())))
	})
	u, err := url.Parse(o.URL)
	require.NoError(t, err)
	q := u.Query()
	q.Set("role", "chimera_stranger")
	u.RawQuery = q.Encode()
	stranger := o
	stranger.URL = u.String()
	_, err = postgres.Open(t.Context(), stranger)
	require.ErrorIs(t, err, ledger.ErrDenied)
}

func TestTablesOfTheLogAreAppendOnly(t *testing.T) {
	o, s := database(t)
	ledgertest.Story(t, s, false)
	ledgertest.Drain(t, s, ledgertest.Key(t))
	conn := connect(t, o)
	_, err := conn.Exec(t.Context(), "INSERT INTO log_cosignatures (size, checkpoint) SELECT max(grown), 'x' FROM log_batches")
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
	_, err = conn.Exec(t.Context(), `ALTER TABLE log_tiles DISABLE TRIGGER fits;
		INSERT INTO log_tiles (level, n, width, data) VALUES (5, 0, 1, '\x01'), (5, 0, 2, '\x0202'), (5, 0, 3, '\x020203');
		ALTER TABLE log_tiles ENABLE TRIGGER fits`)
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

// newInvocation inserts an invocation by hand.
const newInvocation = `INSERT INTO invocations (id, chain, origin, action_digest, decision_id, task_id, hold_id, repeatable, permit, permit_until, unused, token, state, attempt, output_digest)
	SELECT 'x', 'run/' || workflow || '/' || root, origin, 'a', 'x/1', 'x/1', '', false, '{}', 0, true, '', 'permitted', 0, '' FROM runs WHERE subject_key IS NULL LIMIT 1`

func TestRoles(t *testing.T) {
	o, owner := database(t)
	ctx := t.Context()
	roles := postgres.DefaultRoles
	for range 2 {
		require.NoError(t, postgres.Grant(ctx, o, roles))
	}
	require.ErrorIs(t, postgres.Grant(ctx, o, postgres.Roles{Engine: "a; DROP TABLE entries", Guardian: "b", Reader: "c", Tools: "d", Effects: "e", Applier: "f", Publisher: "g"}), ledger.ErrInvalid)
	require.ErrorIs(t, postgres.Grant(ctx, o, postgres.Roles{Engine: "a", Guardian: "a", Reader: "c", Tools: "d"}), ledger.ErrInvalid)
	engine, guardian, effects, reader := as(t, o, roles.Engine), as(t, o, roles.Guardian), as(t, o, roles.Effects), as(t, o, roles.Reader)
	applier, publisher := as(t, o, roles.Applier), as(t, o, roles.Publisher)
	far := ledger.At(time.Unix(1<<33, 0))
	cents, err := ledger.Minor(100, "USD")
	require.NoError(t, err)
	run := ledger.Run{Workflow: "w", Root: "r", Origin: "r", PlanDigest: ledger.BodyDigest(nil), InputDigest: ledger.BodyDigest(nil)}
	budget := ledger.Budget{Agent: "a", Currency: "USD", Every: ledger.Forever, Limit: cents}
	hold := ledger.Hold{ID: "h", Agent: "a", Amount: cents, ExpiresAt: far}
	approval := ledger.Approval{ID: "a", Barrier: "b", Accepted: true, Actions: []string{ledger.BodyDigest([]byte("action"))}, Envelope: json.RawMessage(`{}`)}
	ask := ledgertest.Ask("i", "action")
	ask.Agent, ask.Cost, ask.Approvals = "a", &cents, []string{"a"}
	other := ledgertest.Ask("j", "another")
	no := func(_ any, err error) error { return err }
	const byEngine, byGuardian, byEffects, byApplier, byPublisher = 1, 2, 4, 8, 16
	type step struct {
		name string
		do   func(s ledger.Store) error
		by   int
	}
	steps := []step{
		{"open run", func(s ledger.Store) error { return s.OpenRun(ctx, run) }, byEngine},
		{"outcomes", func(s ledger.Store) error {
			return s.RecordOutcomes(ctx, "w", "r", []ledger.Outcome{{Node: "n", Kind: ledger.NodeSucceeded}})
		}, byEngine},
		{"approval", func(s ledger.Store) error { return s.RecordApproval(ctx, run, approval) }, byGuardian},
		{"budget", func(s ledger.Store) error { return s.SetBudget(ctx, budget) }, byGuardian},
		{"hold", func(s ledger.Store) error { return no(s.OpenHold(ctx, hold)) }, byGuardian},
		{"void", func(s ledger.Store) error { return no(s.VoidHold(ctx, "h")) }, byGuardian | byEffects},
		{"authorize", func(s ledger.Store) error { return no(s.Authorize(ctx, run, ask, ledgertest.Rule(ledger.Approve))) }, byGuardian},
		{"claim", func(s ledger.Store) error { return no(s.Claim(ctx, "i", "i/1", "t", time.Minute)) }, byEffects},
		{"lose", func(s ledger.Store) error {
			return no(s.Settle(ctx, "i", ledger.Effect{Token: "t", Settlement: ledger.Settlement{Attempt: 1, State: ledger.Unknown}}))
		}, byEffects},
		{"settle", func(s ledger.Store) error {
			return no(s.Settle(ctx, "i", ledger.Effect{Settlement: ledger.Settlement{Attempt: 1, State: ledger.Settled}, Output: []byte("x")}))
		}, byEffects},
		{"authorize another", func(s ledger.Store) error {
			return no(s.Authorize(ctx, run, other, ledgertest.Rule(ledger.Approve)))
		}, byGuardian},
		{"claim it", func(s ledger.Store) error { return no(s.Claim(ctx, "j", "j/1", "t", -time.Hour)) }, byEffects},
		{"tool", func(s ledger.Store) error {
			return s.RegisterTool(ctx, ledger.Tool{ToolID: "t", Schema: json.RawMessage(`{}`), Status: "block"})
		}, byApplier},
		{"trust", func(s ledger.Store) error { return s.TrustTools(ctx, "allow_auto", "t") }, byApplier},
		{"agent", func(s ledger.Store) error { return s.AddAgent(ctx, ledger.Agent{AgentID: "a"}) }, byApplier},
		{"signer", func(s ledger.Store) error { return s.EnrollSigner(ctx, ledger.Signer{ID: "s"}) }, byApplier},
		{"revoke", func(s ledger.Store) error { return s.RevokeSigner(ctx, "s") }, byApplier},
		{"plan", func(s ledger.Store) error {
			return no(s.PublishPlan(ctx, ledger.Plan{Name: "p", Version: "1", Digest: ledger.BodyDigest(nil)}))
		}, byPublisher},
		{"blob", func(s ledger.Store) error { return no(s.PutBlob(ctx, []byte("x"))) }, byEngine | byGuardian | byEffects | byPublisher},
		{"sealed", func(s ledger.Store) error {
			return no(s.Append(ctx, ledger.Draft{Chain: "snapshots/c", Key: "snapshot.taken/0", Kind: ledger.SnapshotTaken, Subject: "erika", Data: json.RawMessage(`{}`)}))
		}, byEngine | byGuardian},
		{"authority", func(s ledger.Store) error { return s.StateAuthority(ctx, json.RawMessage(`{}`), "") }, byApplier},
	}
	consumed, err := json.Marshal(ledger.ConsumedData{Decision: "d", Invocation: "i", Action: ledger.BodyDigest(nil), Approvals: []string{"a"}})
	require.NoError(t, err)
	steps = append(steps, step{"append", func(s ledger.Store) error {
		return no(s.Append(ctx, ledger.Draft{Chain: "run/w/r", Run: "w", Key: "approval.consumed/d", Kind: ledger.ApprovalConsumed, Data: consumed}))
	}, byGuardian})
	denied := func(name string, err error) {
		t.Helper()
		require.Error(t, err, name)
		require.Regexp(t, "permission denied|row-level security", err.Error(), name)
		require.NotErrorIs(t, err, ledger.ErrUnavailable, name)
	}
	for _, step := range steps {
		require.ErrorIs(t, step.do(reader), ledger.ErrDenied, step.name)
		denied("reader: "+step.name, step.do(reader))
		for name, x := range map[string]struct {
			s  ledger.Store
			by int
		}{"engine": {engine, byEngine}, "guardian": {guardian, byGuardian}, "effects": {effects, byEffects}, "applier": {applier, byApplier}, "publisher": {publisher, byPublisher}} {
			if step.by&x.by == 0 {
				denied(name+": "+step.name, step.do(x.s))
			}
		}
		// Nothing of it exists before, so that it cannot simply be found.
		by := guardian
		switch {
		case step.by&byEffects != 0:
			by = effects
		case step.by&byEngine != 0:
			by = engine
		case step.by&byApplier != 0:
			by = applier
		case step.by&byPublisher != 0:
			by = publisher
		}
		require.NoError(t, step.do(by), step.name)
	}
	// What nobody else can end, the guardian does.
	_, err = guardian.Settle(ctx, "j", ledger.Effect{Settlement: ledger.Settlement{Attempt: 1, State: ledger.Unknown}, Orphaned: true})
	require.NoError(t, err)
	for name, s := range map[string]ledger.Store{"engine": engine, "guardian": guardian, "effects": effects, "reader": reader} {
		if name != "engine" {
			_, err := s.Prune(ctx, ledger.Operational, time.Now().Add(time.Hour), "")
			denied(name, err)
		}
		denied(name, s.PlaceLegalHold(ctx, "c", ""))
		if name == "engine" || name == "guardian" {
			denied(name, s.EraseSubject(ctx, "erika", ""))
		}
	}
	n, err := engine.Prune(ctx, ledger.Operational, time.Now().Add(time.Hour), "policy")
	require.NoError(t, err)
	require.Equal(t, 2, n, "by class and age alone: run.opened, the outcome")
	key := ledgertest.Key(t)
	ledgertest.Drain(t, engine, key)
	_, err = owner.Append(ctx, ledger.Draft{Chain: "snapshots/more", Key: "k", Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{}`)})
	require.NoError(t, err)
	for name, s := range map[string]ledger.Store{"guardian": guardian, "effects": effects, "reader": reader} {
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
	denied("reader: keys", try(roles.Reader, "SELECT wrapped FROM subject_keys"))
	lie := "INSERT INTO entries (hash, chain, n, key, kind, bytes) VALUES ('\\x01', 'forged', 100, 'x', 'node.succeeded', $1)"
	denied("an entry whose column says another kind", try(roles.Engine, lie, []byte(`{"kind":"decision.made"}`)))
	require.Error(t, try(roles.Engine, lie, []byte(`{"kind":"decision.made","kind":"node.succeeded"`)), "no JSON at all")
	denied("effects: an entry whose column says another kind", try(roles.Effects, strings.Replace(lie, "node.succeeded", "task.executed", 1), []byte(`{"kind":"decision.made"}`)))
	for _, q := range []string{
		newInvocation, "INSERT INTO consumptions (approval, action, invocation) VALUES ('a', 'b', 'c')",
		"UPDATE invocations SET action_digest = 'x'", "UPDATE invocations SET state = 'released'", "UPDATE tasks SET state = 'signed'", "UPDATE runs SET workflow = 'x'",
		"DELETE FROM bodies", "ALTER TABLE entries DISABLE TRIGGER append_only", "DROP TABLE entries", "CREATE TABLE mine (x int)",
	} {
		err := try(roles.Engine, q)
		require.Error(t, err, q)
		require.Regexp(t, "permission denied|row-level security|must be owner", err.Error(), q)
	}
}

// TestWhatRolesAdd: what a role adds to the log has the hash of its bytes and one place, and what it
// stores the digest of its bytes.
func TestWhatRolesAdd(t *testing.T) {
	ctx := t.Context()
	owner, o, _ := granted(t)
	key := ledgertest.Key(t)
	_, err := owner.Append(ctx, ledger.Draft{Chain: "snapshots/c", Key: "k", Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{}`)})
	require.NoError(t, err)
	ledgertest.Drain(t, owner, key)
	for _, role := range []string{postgres.DefaultRoles.Guardian, postgres.DefaultRoles.Effects} {
		conn := connect(t, o)
		_, err := conn.Exec(ctx, "SET ROLE "+role)
		require.NoError(t, err)
		for name, c := range map[string]struct{ query, says string }{
			"what has its place": {"INSERT INTO pending SELECT min(serial) FROM log_index", "row-level security"},
			"of another hash": {`INSERT INTO entries (hash, chain, n, key, kind, bytes) SELECT decode(repeat('00', 32), 'hex'), 'other', 0, 'k', kind, bytes FROM entries
				WHERE kind = 'snapshot.taken' LIMIT 1`, "row-level security"},
			"another's blob": {"INSERT INTO blobs (digest, bytes) VALUES ('sha256:" + strings.Repeat("0", 64) + "', 'x')", "check constraint"},
		} {
			_, err := conn.Exec(ctx, c.query)
			require.ErrorContains(t, err, c.says, "%s: %s", role, name)
		}
	}
}

// TestChangedRuns: the engine's user may change the rows of runs, and not what the log says again.
func TestChangedRuns(t *testing.T) {
	owner, o, _ := granted(t)
	conn := connect(t, o)
	_, err := conn.Exec(t.Context(), "SET ROLE "+postgres.DefaultRoles.Engine)
	require.NoError(t, err)
	ledgertest.ChangedRuns(t, owner, func(query string) {
		_, err := conn.Exec(t.Context(), query)
		require.NoError(t, err)
	})
}
