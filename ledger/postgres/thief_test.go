package postgres_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/postgres"
	"chimera.ai/engine/task"
)

func granting(o postgres.Options) error {
	return postgres.Grant(context.Background(), o, postgres.DefaultRoles)
}

// granted is a database with the roles, and what a user of one of them runs.
func granted(t *testing.T) (s ledger.Store, o postgres.Options, user func(role string) func(string, ...any) error) {
	t.Helper()
	o, opened := migrated(t, "granted", granting)
	return opened, o, func(role string) func(string, ...any) error { return session(t, o, role) }
}

func runAbout(workflow, subject string) ledger.Run {
	return ledger.Run{Workflow: workflow, Root: "r", Origin: "r of " + workflow, PlanDigest: ledger.BodyDigest(nil), InputDigest: ledger.BodyDigest(nil), Subject: subject}
}

// like is the entry that follows the last of a chain and says what that says, with its body.
func like(t *testing.T, s ledger.Store, last ledger.Record, n int64, prev ledger.Hash, key string) (e *ledger.Entry, raw, body []byte) {
	t.Helper()
	e, err := ledger.DecodeEntry(last.Bytes)
	require.NoError(t, err)
	said, err := s.Body(t.Context(), e.Body)
	require.NoError(t, err)
	b, err := ledger.DecodeBody(said)
	require.NoError(t, err)
	b.Salt[0] += byte(n)
	body, err = b.Encode()
	require.NoError(t, err)
	e.N, e.Prev, e.Key, e.At, e.Body = n, prev, key, ledger.At(time.Now()), ledger.BodyDigest(body)
	raw, err = e.Encode()
	require.NoError(t, err)
	return e, raw, body
}

// Entries get their numbers in the order of their chain: a statement that adds two the other way
// round would have the second set aside, and whatever others state behind it.
func TestThiefNumbersBackwards(t *testing.T) {
	s, o, _ := granted(t)
	key := ledgertest.Key(t)
	snapshot := ledger.Snapshot{Server: "s", Fingerprint: ledger.BodyDigest([]byte("0")), Digest: ledger.BodyDigest([]byte("0"))}
	require.NoError(t, s.TakeSnapshot(t.Context(), snapshot))
	ledgertest.Drain(t, s, key)
	records, err := s.Chain(t.Context(), "snapshots/s", 0, 10)
	require.NoError(t, err)
	a, rawA, bodyA := like(t, s, records[0], 1, records[0].Hash, "snapshot.taken/1")
	c, rawC, bodyC := like(t, s, records[0], 2, ledger.LeafHash(rawA), "snapshot.taken/2")
	ha, hc := ledger.LeafHash(rawA), ledger.LeafHash(rawC)
	conn := connect(t, o)
	_, err = conn.Exec(t.Context(), "SET ROLE "+postgres.DefaultRoles.Effects)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `WITH a AS (INSERT INTO entries (hash, chain, n, key, kind, bytes) VALUES ($1, $2, $3, $4, $5, $6) RETURNING hash),
		b AS (INSERT INTO bodies (digest, chain, class, at, bytes) VALUES ($7, $2, $8, $9, $10), ($15, $2, $8, $16, $17))
		INSERT INTO entries (hash, chain, n, key, kind, bytes) SELECT $11, $2, $12, $13, $5, CASE WHEN (SELECT count(*) FROM a) = 1 THEN $14::bytea END`,
		ha[:], a.Chain, a.N, a.Key, string(a.Kind), rawA, a.Body, string(a.Class), a.At.Time().UnixMilli(), bodyA,
		hc[:], c.N, c.Key, rawC, c.Body, c.At.Time().UnixMilli(), bodyC)
	require.ErrorContains(t, err, "row-level security")
}

// What is numbered by its place gets no number to come.
func TestThiefTakesAKey(t *testing.T) {
	s, o, _ := granted(t)
	snapshot := ledger.Snapshot{Server: "s", Fingerprint: ledger.BodyDigest([]byte("0")), Digest: ledger.BodyDigest([]byte("0"))}
	require.NoError(t, s.TakeSnapshot(t.Context(), snapshot))
	records, err := s.Chain(t.Context(), "snapshots/s", 0, 10)
	require.NoError(t, err)
	conn := connect(t, o)
	_, err = conn.Exec(t.Context(), "SET ROLE "+postgres.DefaultRoles.Effects)
	require.NoError(t, err)
	for key, fits := range map[string]bool{"snapshot.taken/2": false, "snapshot.taken/1/x": false, "snapshot.taken/1": true} {
		e, raw, _ := like(t, s, records[0], 1, records[0].Hash, key)
		_, err = conn.Exec(t.Context(), insertEntry, e.Chain, e.N, e.Key, string(e.Kind), raw)
		if fits {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "row-level security", key)
	}
}

// Bodies that no entry has keep nobody from being erased, whatever key and chain they name.
func TestThiefBlocksErasures(t *testing.T) {
	s, _, user := granted(t)
	ctx := t.Context()
	require.NoError(t, s.OpenRun(ctx, runAbout("w", "erika")))
	require.NoError(t, s.OpenRun(ctx, runAbout("other", "")))
	require.NoError(t, s.PlaceLegalHold(ctx, "run/other/r", "another case"))
	for _, role := range []string{postgres.DefaultRoles.Publisher, postgres.DefaultRoles.Guardian} {
		require.NoError(t, user(role)(`INSERT INTO bodies (digest, chain, class, at, subject_key, bytes)
			SELECT 'sha256:' || encode(sha256(b), 'hex'), h.chain, 'permanent', 0, k, b
			FROM (SELECT subject_key k, convert_to('{"sealed":{"key":"' || subject_key || '"`+role+`', 'UTF8') b FROM runs WHERE subject_key IS NOT NULL) x, legal_holds h`))
	}
	require.NoError(t, user(postgres.DefaultRoles.Guardian)(`INSERT INTO subject_keys (id, lookup, generation, wrapped) VALUES (repeat('0', 32), repeat('0', 64), '00000009-0000000000000000', '\x00')`))
	require.NoError(t, s.EraseSubject(ctx, "erika", "asked"))
	require.NoError(t, s.EraseLost(ctx, "somebody has added a row"))
}

// A hold keeps a run about a person also once its bodies are pruned.
func TestHeldAndPruned(t *testing.T) {
	s, _, _ := granted(t)
	r := runAbout("w", "erika")
	require.NoError(t, s.OpenRun(t.Context(), r))
	_, err := s.Prune(t.Context(), ledger.RunOpened.Class(), time.Now().Add(time.Hour), "policy")
	require.NoError(t, err)
	require.NoError(t, s.PlaceLegalHold(t.Context(), r.Chain(), "case"))
	require.ErrorIs(t, s.EraseSubject(t.Context(), "erika", "asked"), ledger.ErrConflict)
}

// An invocation is in no state that there is not, which nothing would ever leave.
func TestThiefMakesUpStates(t *testing.T) {
	s, _, user := granted(t)
	r := runAbout("w", "erika")
	require.NoError(t, s.OpenRun(t.Context(), r))
	_, err := s.Authorize(t.Context(), r, ledgertest.Ask("i", "i"), ledgertest.Rule(ledger.Approve))
	require.NoError(t, err)
	effects := user(postgres.DefaultRoles.Effects)
	require.ErrorContains(t, effects("UPDATE invocations SET state = 'calling', attempt = 1, unused = false"), "invocations_check", "a call has an end")
	require.ErrorContains(t, effects("UPDATE invocations SET state = 'calling', attempt = 1, unused = false, call_not_after = 9000000000000"), "the invocation i of the ledger is permitted", "it ends within a day")
	_, err = s.Claim(t.Context(), "i", "i/1", "t", time.Hour)
	require.NoError(t, err)
	require.Error(t, effects("UPDATE invocations SET state = 'x', output = 'y'"))
	require.Error(t, effects("UPDATE invocations SET call_not_after = NULL"))
}

// What cannot be opened of one call hides no other, and nobody takes the place of what the
// guardian says of abandoned ones.
func TestThiefHidesAbandonedCalls(t *testing.T) {
	s, o, user := granted(t)
	ctx := t.Context()
	for id, r := range map[string]ledger.Run{"i": runAbout("w", "erika"), "j": runAbout("other", "")} {
		require.NoError(t, s.OpenRun(ctx, r))
		_, err := s.Authorize(ctx, r, ledgertest.Ask(id, id), ledgertest.Rule(ledger.Approve))
		require.NoError(t, err)
		_, err = s.Claim(ctx, id, id+"/1", "t", -time.Hour)
		require.NoError(t, err)
		_, _, err = s.CloseRun(ctx, ledger.Run{Workflow: r.Workflow, Root: "r", State: ledger.RunFailed}, nil)
		require.NoError(t, err)
	}
	require.Error(t, user(postgres.DefaultRoles.Effects)("UPDATE invocations SET output_digest = 'x' WHERE id = 'i'"))
	guardian := as(t, o, postgres.DefaultRoles.Guardian)
	all, err := guardian.Abandoned(ctx, 10)
	require.NoError(t, err)
	require.Len(t, all, 2)
	chain, err := s.Chain(ctx, "run/other/r", 0, 20)
	require.NoError(t, err)
	last := chain[len(chain)-1]
	e, _, _ := like(t, s, last, int64(len(chain)), last.Hash, "invocation.unknown/j/1/abandoned")
	e.Kind, e.Class = ledger.InvocationUnknown, ledger.InvocationUnknown.Class()
	raw, err := e.Encode()
	require.NoError(t, err)
	conn := connect(t, o)
	_, err = conn.Exec(ctx, "SET ROLE "+postgres.DefaultRoles.Effects)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, insertEntry, e.Chain, e.N, e.Key, string(e.Kind), raw)
	require.ErrorContains(t, err, "row-level security")
	_, err = guardian.Settle(ctx, "j", ledger.Effect{Settlement: ledger.Settlement{Attempt: 1, State: ledger.Unknown, Abandoned: true}})
	require.ErrorIs(t, err, ledger.ErrDenied, "that is for effects to say")
	_, err = guardian.Settle(ctx, "j", ledger.Effect{Settlement: ledger.Settlement{Attempt: 1, State: ledger.Unknown}, Orphaned: true})
	require.NoError(t, err)
}

// Effects says of a call whose worker was lost that its time is over.
func TestEffectsRecalls(t *testing.T) {
	s, o, _ := granted(t)
	ctx := t.Context()
	r := runAbout("w", "")
	require.NoError(t, s.OpenRun(ctx, r))
	_, err := as(t, o, postgres.DefaultRoles.Guardian).Authorize(ctx, r, ledgertest.Ask("i", "i"), ledgertest.Rule(ledger.Approve))
	require.NoError(t, err)
	effects := as(t, o, postgres.DefaultRoles.Effects)
	_, err = effects.Claim(ctx, "i", "i/1", "t", -time.Hour)
	require.NoError(t, err)
	i, err := effects.Settle(ctx, "i", ledger.Effect{Settlement: ledger.Settlement{Attempt: 1, State: ledger.Unknown, Abandoned: true}})
	require.NoError(t, err)
	require.Equal(t, ledger.Unknown, i.State)
}

// Rows that say what no entry does would have others write what does not verify.
func TestThiefMovesWithoutEntries(t *testing.T) {
	s, o, user := granted(t)
	ctx := t.Context()
	cents, err := ledger.Minor(100, "USD")
	require.NoError(t, err)
	require.NoError(t, s.SetBudget(ctx, ledger.Budget{Agent: "agent-42", Currency: "USD", Every: ledger.Forever, Limit: cents}))
	r, other := runAbout("w", "erika"), runAbout("x", "")
	require.NoError(t, s.OpenRun(ctx, r))
	require.NoError(t, s.OpenRun(ctx, other))
	_, err = s.Authorize(ctx, other, ledgertest.Ask("k", "k"), ledgertest.Rule(ledger.Approve))
	require.NoError(t, err)
	a := ledgertest.Ask("i", "i")
	a.Cost = &cents
	_, err = as(t, o, postgres.DefaultRoles.Guardian).Authorize(ctx, r, a, ledgertest.Rule(ledger.Approve))
	require.NoError(t, err)
	effects, guardian := user(postgres.DefaultRoles.Effects), user(postgres.DefaultRoles.Guardian)
	for _, q := range []string{
		"SELECT move_hold(id, 'voided', false, NULL) FROM holds", "SELECT move_hold(id, 'voided', true, NULL) FROM holds",
		"UPDATE invocations SET state = 'calling', attempt = attempt + 1, unused = false, call_not_after = 0 WHERE id = 'i'",
	} {
		require.ErrorContains(t, effects(q), "no entry of the ledger says", q)
	}
	for _, q := range []string{
		"UPDATE invocations SET chain = 'run/x/r' WHERE id = 'i'", "UPDATE invocations SET chain = 'run/x/r', decision_id = 'i/2' WHERE id = 'i'",
		"UPDATE invocations SET task_id = 'k/1' WHERE id = 'i'", "UPDATE invocations SET hold_id = '' WHERE id = 'i'",
		"UPDATE invocations SET hold_id = 'k/1', decision_id = 'i/2' WHERE id = 'i'",
		"INSERT INTO invocations (id, chain, origin, action_digest, decision_id, task_id, hold_id, repeatable, permit, permit_until, unused, token, state, attempt, output_digest) SELECT 'z', chain, origin, action_digest, 'z/1', 'z/1', '', repeatable, permit, permit_until, true, '', 'permitted', 0, '' FROM invocations WHERE id = 'i'",
	} {
		require.Error(t, guardian(q), q)
	}
	_, err = as(t, o, postgres.DefaultRoles.Effects).Claim(ctx, "i", "i/1", "t", time.Hour)
	require.NoError(t, err)
	require.ErrorContains(t, effects("UPDATE invocations SET state = 'released', token = 't' WHERE id = 'i'"), "no entry of the ledger says")
	key := ledgertest.Key(t)
	ledgertest.Drain(t, s, key)
	ok, problems, _ := audited(s)(t, key)
	require.True(t, ok, "%v", problems)
}

// Places without a checkpoint would hide entries.
func TestThiefPlacesEntries(t *testing.T) {
	s, _, user := granted(t)
	require.NoError(t, s.OpenRun(t.Context(), runAbout("w", "")))
	require.ErrorContains(t, user(postgres.DefaultRoles.Engine)(`WITH d AS (DELETE FROM pending RETURNING serial)
		INSERT INTO log_index (place, serial) SELECT row_number() OVER (ORDER BY serial) - 1, serial FROM d`), "with their checkpoint")
	ledgertest.Drain(t, s, ledgertest.Key(t))
}

// An old snapshot shows neither holds nor erasures, and nobody prunes past a hold.
func TestThiefWithAnOldSnapshot(t *testing.T) {
	s, o, user := granted(t)
	ctx := t.Context()
	require.NoError(t, s.OpenRun(ctx, runAbout("w", "")))
	begin := func(role string) pgx.Tx {
		conn, err := connect(t, o).BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Rollback(context.WithoutCancel(ctx)) })
		_, err = conn.Exec(ctx, "SET LOCAL ROLE "+role)
		require.NoError(t, err)
		return conn
	}
	_, err := begin(postgres.DefaultRoles.Engine).Exec(ctx, "SELECT prune_bodies('operational', 4102444800000)")
	require.ErrorContains(t, err, "as they are now")
	_, err = begin(postgres.DefaultRoles.Guardian).Exec(ctx, "INSERT INTO subject_keys (id, lookup, generation, wrapped) VALUES (repeat('0', 32), repeat('0', 64), '00000001-0000000000000000', 'x')")
	require.ErrorContains(t, err, "row-level security")
	_, err = begin(postgres.DefaultRoles.Engine).Exec(ctx, "INSERT INTO pending SELECT max(serial) FROM entries")
	require.ErrorContains(t, err, "row-level security")
	require.ErrorContains(t, user(postgres.DefaultRoles.Publisher)("INSERT INTO pending SELECT max(serial) FROM entries"), "row-level security", "it is the entry of another")

	conn, err := connect(t, o).Begin(ctx)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, "SELECT prune_bodies('operational', 4102444800000)")
	require.NoError(t, err)
	held := make(chan error)
	go func() { held <- s.PlaceLegalHold(ctx, "run/w/r", "case") }()
	require.Eventually(t, func() bool {
		var waits int
		return connect(t, o).QueryRow(ctx, "SELECT count(*) FROM pg_locks WHERE NOT granted").Scan(&waits) == nil && waits > 0
	}, 5*time.Minute, 10*time.Millisecond)
	require.NoError(t, conn.Rollback(ctx))
	require.NoError(t, <-held)
}

// A hold runs only while what it pays for is called: else it would never expire.
func TestThiefKeepsBudgets(t *testing.T) {
	s, o, user := granted(t)
	ctx := t.Context()
	cents, err := ledger.Minor(100, "USD")
	require.NoError(t, err)
	require.NoError(t, s.SetBudget(ctx, ledger.Budget{Agent: "agent-42", Currency: "USD", Every: ledger.Forever, Limit: cents}))
	r := runAbout("w", "")
	require.NoError(t, s.OpenRun(ctx, r))
	a := ledgertest.Ask("i", "i")
	a.Cost = &cents
	_, err = s.Authorize(ctx, r, a, ledgertest.Rule(ledger.Approve))
	require.NoError(t, err)
	require.NoError(t, user(postgres.DefaultRoles.Effects)("SELECT move_hold(id, 'pending', true, NULL) FROM holds"))
	running := func() (n int) {
		require.NoError(t, connect(t, o).QueryRow(ctx, "SELECT count(*) FROM holds WHERE running").Scan(&n))
		return n
	}
	require.Zero(t, running())
	_, err = s.Claim(ctx, "i", "i/1", "t", time.Hour)
	require.NoError(t, err)
	require.Equal(t, 1, running())
}

// Neither of the two roles that end holds takes the place of what the other will say.
func TestThiefEndsHoldsInTheLogAlone(t *testing.T) {
	s, o, _ := granted(t)
	ctx := t.Context()
	cents, err := ledger.Minor(100, "USD")
	require.NoError(t, err)
	require.NoError(t, s.SetBudget(ctx, ledger.Budget{Agent: "a", Currency: "USD", Every: ledger.Forever, Limit: cents}))
	_, err = s.OpenHold(ctx, ledger.Hold{ID: "h", Agent: "a", Amount: cents, ExpiresAt: ledger.At(time.Unix(1<<33, 0))})
	require.NoError(t, err)
	for _, role := range []string{postgres.DefaultRoles.Effects, postgres.DefaultRoles.Guardian} {
		conn := connect(t, o)
		_, err = conn.Exec(ctx, "SET ROLE "+role)
		require.NoError(t, err)
		for _, kind := range []ledger.Kind{ledger.HoldPosted, ledger.HoldVoided} {
			e := next(t, s, "budget/USD", kind)
			e.Key = string(kind) + "/h"
			raw, err := e.Encode()
			require.NoError(t, err)
			_, err = conn.Exec(ctx, insertEntry, e.Chain, e.N, e.Key, string(e.Kind), raw)
			require.ErrorContains(t, err, "row-level security", "%s %s", role, kind)
		}
	}
	_, err = as(t, o, postgres.DefaultRoles.Guardian).PostHold(ctx, "h", cents)
	require.NoError(t, err)
}

// Only entries wait for a place: other numbers would be looked at with each batch.
func TestThiefLetsNothingWait(t *testing.T) {
	_, _, user := granted(t)
	for _, query := range []string{"SELECT -g FROM generate_series(1, 10) g", "SELECT nextval('entries_serial_seq')"} {
		require.Error(t, user(postgres.DefaultRoles.Publisher)("INSERT INTO pending "+query), query)
	}
}

// An erased key does not come back, as one that nobody can open.
func TestThiefPutsAKeyBack(t *testing.T) {
	s, _, user := granted(t)
	r := runAbout("w", "erika")
	require.NoError(t, s.OpenRun(t.Context(), r))
	require.NoError(t, s.EraseSubject(t.Context(), "erika", "asked"))
	err := user(postgres.DefaultRoles.Guardian)(`INSERT INTO subject_keys (id, lookup, generation, wrapped) SELECT subject_key, repeat('0', 64), (SELECT generation FROM keyring), '\x00' FROM runs`)
	require.ErrorContains(t, err, "row-level security")
}

// A legal hold on another chain keeps nobody from being erased.
func TestThiefUsesAHeldChain(t *testing.T) {
	s, o, _ := granted(t)
	ctx := t.Context()
	require.NoError(t, s.OpenRun(ctx, runAbout("w", "erika")))
	require.NoError(t, s.PlaceLegalHold(ctx, "snapshots/s", "case"))
	var id string
	require.NoError(t, connect(t, o).QueryRow(ctx, "SELECT subject_key FROM runs").Scan(&id))
	body, err := ledger.Seal(id, make([]byte, ledger.KeyBytes), []byte("{}"))
	require.NoError(t, err)
	e := next(t, s, "snapshots/s", ledger.SnapshotTaken)
	e.Body = ledger.BodyDigest(body)
	raw, err := e.Encode()
	require.NoError(t, err)
	conn := connect(t, o)
	_, err = conn.Exec(ctx, "SET ROLE "+postgres.DefaultRoles.Effects)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, "INSERT INTO bodies (digest, chain, class, at, subject_key, bytes) VALUES ($1, $2, $3, $4, $5, $6)", e.Body, e.Chain, string(e.Class), e.At.Time().UnixMilli(), id, body)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, insertEntry, e.Chain, e.N, e.Key, string(e.Kind), raw)
	require.NoError(t, err)
	require.NoError(t, s.EraseSubject(ctx, "erika", "asked"))
}

// An evidence packet goes with the bodies of those entries that name it.
func TestThiefKeepsPackets(t *testing.T) {
	s, _, user := granted(t)
	ledgertest.Story(t, s, false)
	err := user(postgres.DefaultRoles.Guardian)("INSERT INTO evidence_refs SELECT e.digest, (SELECT digest FROM bodies WHERE class = 'permanent' LIMIT 1) FROM evidence e")
	require.ErrorContains(t, err, "row-level security")
	// Nor with one that the guardian has made for it: decisions alone have packets.
	err = user(postgres.DefaultRoles.Guardian)("INSERT INTO evidence_refs SELECT r.packet, (SELECT digest FROM bodies WHERE class = 'permanent' LIMIT 1) FROM evidence_refs r LIMIT 1")
	require.ErrorContains(t, err, "row-level security")
}

// Rows that are none hide no others of their list.
func TestThiefEndsLists(t *testing.T) {
	s, _, user := granted(t)
	ctx := t.Context()
	ledgertest.Story(t, s, false)
	r := runAbout("w", "")
	require.NoError(t, s.OpenRun(ctx, r))
	_, err := s.Authorize(ctx, r, ledgertest.Ask("i", "i"), ledgertest.Rule(ledger.Approve))
	require.NoError(t, err)
	count := func() (out [3]int) {
		page := ledger.Page{Limit: 100}
		tasks, err := s.ListTasks(ctx, "", page)
		require.NoError(t, err)
		plans, err := s.ListPlans(ctx, page)
		require.NoError(t, err)
		signers, err := s.ListSigners(ctx, page)
		require.NoError(t, err)
		return [3]int{len(tasks), len(plans), len(signers)}
	}
	was := count()
	guardian := user(postgres.DefaultRoles.Guardian)
	docs := []string{"x", "{}", `{"sealed":1}`, `{"sealed":{"key":"00000000000000000000000000000000","nonce":"AAAAAAAAAAAAAAAA","text":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}}`}
	for _, doc := range docs {
		require.NoError(t, guardian("INSERT INTO tasks (task_id, chain, state, created_at, doc) VALUES ($1, 'x', 'draft', 0, $1)", doc))
	}
	require.NoError(t, user(postgres.DefaultRoles.Publisher)("INSERT INTO plans (name, version, digest, published_at, doc) VALUES ('x', '1', 'x', 0, 'x')"))
	require.NoError(t, user(postgres.DefaultRoles.Applier)("INSERT INTO signers (id, doc) VALUES ('x', 'x')"))
	require.Equal(t, was, count())
}

// A tile that is not one of the tree as it is would stop the log for good.
func TestThiefForgesTiles(t *testing.T) {
	s, _, user := granted(t)
	require.NoError(t, s.TakeSnapshot(t.Context(), ledger.Snapshot{Server: "s", Fingerprint: ledger.BodyDigest(nil), Digest: ledger.BodyDigest(nil)}))
	ledgertest.Drain(t, s, ledgertest.Key(t))
	engine := user(postgres.DefaultRoles.Engine)
	for _, row := range []string{
		"(0, 0, 2, decode(repeat('00', 64), 'hex'))", "(0, 1, 1, decode(repeat('00', 32), 'hex'))", "(1, 0, 1, decode(repeat('00', 32), 'hex'))", "(0, 0, 1, '')",
		"(-1, 0, 1, decode(repeat('00', 32), 'hex'))", "(0, -1, 1, decode(repeat('00', 32), 'hex'))", "(0, 0, 300, decode(repeat('00', 9600), 'hex'))", "(0, 0, 0, '')",
		"(2147483647, 9223372036854775807, 256, decode(repeat('00', 8192), 'hex'))",
	} {
		require.ErrorContains(t, engine("INSERT INTO log_tiles (level, n, width, data) VALUES "+row), "has no such tile", row)
	}
}

// A reason is no longer than one is.
func TestThiefGivesLongReasons(t *testing.T) {
	s, _, user := granted(t)
	key := ledgertest.Key(t)
	require.NoError(t, s.TakeSnapshot(t.Context(), ledger.Snapshot{Server: "s", Fingerprint: ledger.BodyDigest(nil), Digest: ledger.BodyDigest(nil)}))
	ledgertest.Drain(t, s, key)
	require.NoError(t, s.TakeSnapshot(t.Context(), ledger.Snapshot{Server: "s", Fingerprint: ledger.BodyDigest([]byte("1")), Digest: ledger.BodyDigest(nil)}))
	rows, err := s.Candidates(t.Context(), 10)
	require.NoError(t, err)
	require.NoError(t, user(postgres.DefaultRoles.Engine)(fmt.Sprintf("SELECT set_aside(ARRAY[%d], ARRAY[repeat('x', 2000000)])", rows[0].Serial)))
	aside, err := s.Asides(t.Context(), math.MinInt64, 10)
	require.NoError(t, err)
	require.Len(t, aside[0].Why, 500)
	ok, problems, _ := audited(s)(t, key)
	require.False(t, ok)
	require.Contains(t, fmt.Sprint(problems), "set aside as if it were none of this log, and is one")
}

// Calls that may be repeated are permitted again, also in a run that was reset, and each part goes on
// with its own rights.
func TestRepeatedAndReset(t *testing.T) {
	for _, subject := range []string{"", "erika"} {
		for _, moved := range []bool{false, true} {
			for _, lost := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s moved %t lost %t", subject, moved, lost), func(t *testing.T) {
					s, o, _ := granted(t)
					ctx := t.Context()
					engine, guardian, effects := as(t, o, postgres.DefaultRoles.Engine), as(t, o, postgres.DefaultRoles.Guardian), as(t, o, postgres.DefaultRoles.Effects)
					r := runAbout("w", subject)
					require.NoError(t, engine.OpenRun(ctx, r))
					cents, err := ledger.Minor(10, "USD")
					require.NoError(t, err)
					require.NoError(t, guardian.SetBudget(ctx, ledger.Budget{Agent: "agent-42", Currency: "USD", Every: ledger.Forever, Limit: cents}))
					a := ledgertest.Ask("i", "i")
					a.Repeatable, a.Cost = true, &cents
					_, err = guardian.Authorize(ctx, r, a, ledgertest.Rule(ledger.Approve))
					require.NoError(t, err)
					_, err = effects.Claim(ctx, "i", "i/1", "t", -time.Hour)
					require.NoError(t, err)
					if lost {
						_, err = effects.Settle(ctx, "i", ledger.Effect{Settlement: ledger.Settlement{Attempt: 1, State: ledger.Unknown, Abandoned: true}})
						require.NoError(t, err)
					}
					if moved {
						_, _, err = engine.CloseRun(ctx, ledger.Run{Workflow: "w", Root: "r", State: ledger.RunCancelled}, nil)
						require.NoError(t, err)
						r.Root = "r2"
						require.NoError(t, engine.OpenRun(ctx, r))
					}
					_, err = guardian.Authorize(ctx, r, a, ledgertest.Rule(ledger.Approve))
					require.NoError(t, err)
					_, err = effects.Claim(ctx, "i", "i/2", "t", time.Hour)
					require.NoError(t, err)
					_, err = effects.Settle(ctx, "i", ledger.Effect{Token: "t", Settlement: ledger.Settlement{Attempt: 2, State: ledger.Settled, OutputDigest: ledger.BodyDigest(nil)}, Result: []byte(`{}`)})
					require.NoError(t, err)
					key := ledgertest.Key(t)
					ledgertest.Drain(t, s, key)
					ok, problems, _ := audited(s)(t, key)
					require.True(t, ok, "%v", problems)
				})
			}
		}
	}
}

// What a permit says, and how long a call may take, nobody changes by the row alone.
func TestThiefChangesPermits(t *testing.T) {
	for _, repeatable := range []bool{false, true} {
		for _, called := range []bool{false, true} {
			s, o, user := granted(t)
			ctx := t.Context()
			r := runAbout("w", "")
			require.NoError(t, s.OpenRun(ctx, r))
			a := ledgertest.Ask("i", "i")
			a.Repeatable = repeatable
			_, err := s.Authorize(ctx, r, a, ledgertest.Rule(ledger.Approve))
			require.NoError(t, err)
			if called {
				_, err = as(t, o, postgres.DefaultRoles.Effects).Claim(ctx, "i", "i/1", "t", time.Hour)
				require.NoError(t, err)
			}
			effects, guardian := user(postgres.DefaultRoles.Effects), user(postgres.DefaultRoles.Guardian)
			require.Error(t, effects("UPDATE invocations SET call_not_after = 0"))
			require.Error(t, effects("UPDATE invocations SET output = 'x', output_digest = 'y'"))
			require.Error(t, effects(fmt.Sprintf("UPDATE invocations SET unused = %t", called)))
			require.Error(t, guardian(fmt.Sprintf("UPDATE invocations SET repeatable = %t", !repeatable)))
			require.Error(t, guardian("UPDATE invocations SET permit_until = permit_until + 1"))
			require.Error(t, guardian("UPDATE invocations SET decision_id = 'i/7', unused = true"))
			require.NoError(t, guardian("UPDATE tasks SET state = 'executed'"))
			done, err := s.ListTasks(ctx, task.StateExecuted, ledger.Page{Limit: 1})
			require.NoError(t, err)
			require.Empty(t, done, "it does not find what is signed")
		}
	}
}

// Whatever the reason, what is pruned is stated.
func TestReasonsForPruning(t *testing.T) {
	s, o, _ := granted(t)
	engine := as(t, o, postgres.DefaultRoles.Engine)
	for i, reason := range []string{"", "a <b> & \"c\" \\ d / é 漢", "\t\n\r", "\b\f\v\x01\x1f", "\u2028\u2029", "\u007f\u00a0\ufffd😀", strings.Repeat("x", 3000)} {
		require.NoError(t, engine.OpenRun(t.Context(), runAbout(fmt.Sprint("w", i), "")))
		n, err := engine.Prune(t.Context(), ledger.RunOpened.Class(), time.Now().Add(time.Hour), reason)
		require.NoError(t, err, "%q", reason)
		require.Positive(t, n)
	}
	ledgertest.Drain(t, s, ledgertest.Key(t))
	aside, err := s.Asides(t.Context(), math.MinInt64, 10)
	require.NoError(t, err)
	require.Empty(t, aside)
}

// A call takes as long as its entry says: else the guardian would say too early that it is over.
func TestThiefClaimsForLess(t *testing.T) {
	s, o, _ := granted(t)
	ctx := t.Context()
	r := runAbout("w", "")
	require.NoError(t, s.OpenRun(ctx, r))
	_, err := s.Authorize(ctx, r, ledgertest.Ask("i", "i"), ledgertest.Rule(ledger.Approve))
	require.NoError(t, err)
	chain, err := s.Chain(ctx, r.Chain(), 0, 20)
	require.NoError(t, err)
	tx, err := connect(t, o).Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, "SET LOCAL ROLE "+postgres.DefaultRoles.Effects)
	require.NoError(t, err)
	until := ledger.At(time.Now().Add(time.Hour))
	_, err = tx.Exec(ctx, "UPDATE invocations SET state = 'calling', attempt = 1, unused = false, call_not_after = 0 WHERE id = 'i'")
	require.NoError(t, err)
	body, err := ledger.Body{Data: fmt.Appendf(nil, `{"attempt":1,"call_not_after":%q,"decision_id":"i/1","id":"i"}`, until)}.Encode()
	require.NoError(t, err)
	d := ledger.Draft{Chain: r.Chain(), Key: "invocation.calling/i/1", Kind: ledger.InvocationCalling, Run: "w"}
	e := d.Entry(ledgertest.Origin, int64(len(chain)), chain[len(chain)-1].Hash, ledger.At(time.Now()), ledger.BodyDigest(body))
	raw, err := e.Encode()
	require.NoError(t, err)
	_, err = tx.Exec(ctx, "INSERT INTO bodies (digest, chain, class, at, bytes) VALUES ($1, $2, $3, $4, $5)", e.Body, e.Chain, string(e.Class), e.At.Time().UnixMilli(), body)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, insertEntry, e.Chain, e.N, e.Key, string(e.Kind), raw)
	require.NoError(t, err)
	require.ErrorContains(t, tx.Commit(ctx), "no entry of the ledger says invocation.calling/i/1")
}

// Whatever the row of a call says, the guardian waits as long as its entry says, also where that is
// sealed and the database cannot compare the two.
func TestThiefShortensCalls(t *testing.T) {
	for _, subject := range []string{"", "erika"} {
		s, o, _ := granted(t)
		ctx := t.Context()
		r := runAbout("w", subject)
		require.NoError(t, s.OpenRun(ctx, r))
		a := ledgertest.Ask("i", "i")
		a.Repeatable = true
		guardian := as(t, o, postgres.DefaultRoles.Guardian)
		_, err := guardian.Authorize(ctx, r, a, ledgertest.Rule(ledger.Approve))
		require.NoError(t, err)
		_, err = as(t, o, postgres.DefaultRoles.Effects).Claim(ctx, "i", "i/1", "t", time.Hour)
		require.NoError(t, err)
		conn := connect(t, o)
		_, err = conn.Exec(ctx, "SET session_replication_role = replica") // as if it had been claimed so
		require.NoError(t, err)
		_, err = conn.Exec(ctx, "UPDATE invocations SET call_not_after = 0")
		require.NoError(t, err)
		got, err := guardian.Authorize(ctx, r, a, ledgertest.Rule(ledger.Approve))
		require.NoError(t, err)
		require.Equal(t, ledger.Wait, got.Course)
		_, _, err = s.CloseRun(ctx, ledger.Run{Workflow: "w", Root: "r", State: ledger.RunFailed}, nil)
		require.NoError(t, err)
		_, err = guardian.Settle(ctx, "i", ledger.Effect{Settlement: ledger.Settlement{Attempt: 1, State: ledger.Unknown}, Orphaned: true})
		require.ErrorIs(t, err, ledger.ErrConflict)
		key := ledgertest.Key(t)
		ledgertest.Drain(t, s, key)
		ok, problems, _ := audited(s)(t, key)
		require.True(t, ok, "%v", problems)
	}
}
