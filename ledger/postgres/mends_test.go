package postgres_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/postgres"
)

// begin begins a transaction in a role.
func begin(t *testing.T, o postgres.Options, role string) pgx.Tx {
	t.Helper()
	tx, err := connect(t, o).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SET LOCAL ROLE "+role)
	require.NoError(t, err)
	return tx
}

// forge adds an entry with its body, if that is not nil, stored as of at, or of the entry's time if
// that is 0. The entry's bytes have to in place of from.
func forge(t *testing.T, s ledger.Store, tx pgx.Tx, d ledger.Draft, body []byte, subject any, at int64, from, to string) {
	t.Helper()
	ctx := t.Context()
	chain, err := s.Chain(ctx, d.Chain, 0, 10_000)
	require.NoError(t, err)
	var prev ledger.Hash
	if len(chain) > 0 {
		prev = chain[len(chain)-1].Hash
	}
	e := d.Entry(ledgertest.Origin, int64(len(chain)), prev, ledger.At(time.Now()), ledger.BodyDigest(body))
	raw, err := e.Encode()
	require.NoError(t, err)
	if at == 0 {
		at = e.At.Time().UnixMilli()
	}
	if body != nil {
		_, err = tx.Exec(ctx, "INSERT INTO bodies (digest, chain, class, at, subject_key, bytes) VALUES ($1, $2, $3, $4, $5, $6)", e.Body, e.Chain, string(e.Class), at, subject, body)
		require.NoError(t, err)
	}
	_, err = tx.Exec(ctx, insertEntry, e.Chain, e.N, e.Key, string(e.Kind), bytes.Replace(raw, []byte(from), []byte(to), 1))
	require.NoError(t, err)
	_, err = tx.Exec(ctx, "INSERT INTO pending SELECT max(serial) FROM entries")
	require.NoError(t, err)
}

func bodyOf(t *testing.T, data string) []byte {
	t.Helper()
	raw, err := ledger.Body{Data: []byte(data)}.Encode()
	require.NoError(t, err)
	return raw
}

// paid is a run with a permitted call i, which costs all of its agent's budget.
func paid(t *testing.T) (s ledger.Store, o postgres.Options, guardian, effects ledger.Store) {
	t.Helper()
	s, o, _ = granted(t)
	cents, err := ledger.Minor(100, "USD")
	require.NoError(t, err)
	require.NoError(t, s.SetBudget(t.Context(), ledger.Budget{Agent: "agent-42", Currency: "USD", Every: ledger.Forever, Limit: cents}))
	require.NoError(t, s.OpenRun(t.Context(), runAbout("w", "")))
	a := ledgertest.Ask("i", "i")
	a.Cost = &cents
	guardian, effects = as(t, o, postgres.DefaultRoles.Guardian), as(t, o, postgres.DefaultRoles.Effects)
	_, err = guardian.Authorize(t.Context(), runAbout("w", ""), a, ledgertest.Rule(ledger.Approve))
	require.NoError(t, err)
	return s, o, guardian, effects
}

// looked is a check that has succeeded.
var looked = ledger.Check{Node: "look", Visit: 1, State: ledger.CheckSucceeded, InputDigest: ledger.BodyDigest(nil), OutputDigest: ledger.BodyDigest(nil)}

// settled is the end of a first call.
var settled = ledger.Effect{Token: "t", Settlement: ledger.Settlement{Attempt: 1, State: ledger.Settled, OutputDigest: ledger.BodyDigest(nil)}, Result: []byte(`{}`)}

// A call reads its own body: another that PostgreSQL takes for no JSON, or for no time, stops none.
func TestBodiesOfOthersStopNoCalls(t *testing.T) {
	t.Run("added by a publisher", func(t *testing.T) {
		_, o, _, effects := paid(t)
		require.NoError(t, session(t, o, postgres.DefaultRoles.Publisher)("INSERT INTO bodies (digest, chain, class, at, bytes) VALUES ('sha256:' || encode(sha256('x'), 'hex'), 'x', 'permanent', 0, 'x')"))
		_, err := effects.Claim(t.Context(), "i", "i/1", "t", time.Hour)
		require.NoError(t, err)
	})
	t.Run("with a NUL", func(t *testing.T) {
		_, _, guardian, effects := paid(t)
		_, err := guardian.Authorize(t.Context(), runAbout("w", ""), ledgertest.Ask("j", "j"), func(st ledger.Standing) (ledger.Ruling, error) {
			r, err := ledgertest.Rule(ledger.Approve)(st)
			r.Decision.Record = []byte(`{"why":"\u0000"}`)
			return r, err
		})
		require.NoError(t, err)
		_, err = effects.Claim(t.Context(), "i", "i/1", "t", time.Hour)
		require.NoError(t, err)
	})
}

// The body of an entry is found by its digest, not by a look at all bodies.
func TestBodiesAreFoundByTheirDigests(t *testing.T) {
	owner, o, guardian, effects := paid(t)
	ctx := t.Context()
	conn := connect(t, o)
	_, err := conn.Exec(ctx, `INSERT INTO bodies (digest, chain, class, at, bytes) SELECT 'sha256:' || encode(sha256(b), 'hex'), 'x', 'permanent', 0, b
		FROM (SELECT convert_to('{"n":' || g || '}', 'UTF8') AS b FROM generate_series(1, 20000) g) AS x`)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, "ANALYZE bodies, entries")
	require.NoError(t, err)
	engine := as(t, o, postgres.DefaultRoles.Engine)
	require.NoError(t, engine.OpenRun(ctx, runAbout("v", "")))
	_, err = guardian.Authorize(ctx, runAbout("v", ""), ledgertest.Ask("j", "j"), ledgertest.Rule(ledger.Approve))
	require.NoError(t, err)
	_, err = effects.Claim(ctx, "i", "i/1", "t", time.Hour)
	require.NoError(t, err)
	_, err = effects.RecordCheck(ctx, runAbout("w", ""), looked)
	require.NoError(t, err)
	_, err = effects.Settle(ctx, "i", settled)
	require.NoError(t, err)
	for _, s := range []ledger.Store{owner, engine, guardian, effects} {
		require.NoError(t, s.Close())
	}
	var read int64
	require.Eventually(t, func() bool { // the server counts once a session has ended, at the latest
		var ends, checks, runs int64
		return conn.QueryRow(ctx, `SELECT (SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'tasks'), (SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'checks'),
			(SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'runs'), seq_tup_read FROM pg_stat_user_tables WHERE relname = 'bodies'`).Scan(&ends, &checks, &runs, &read) == nil &&
			ends >= 3 && checks > 0 && runs > 1
	}, 5*time.Minute, 10*time.Millisecond)
	require.Less(t, read, int64(20_000))
}

// What the sequencer will set aside states nothing: neither an end of a hold nor a call.
func TestThiefMovesByWhatIsNoEntry(t *testing.T) {
	in := refusing(calling(t))
	for name, c := range map[string]struct {
		body     bool
		at       int64
		from, to string
	}{"not canonical": {true, 0, `,"key"`, `, "key"`}, "without its body": {}, "with a body of another time": {true, 1, "", ""}} {
		t.Run(name, func(t *testing.T) {
			for _, x := range []struct {
				d           ledger.Draft
				query, data string
			}{
				{ledger.Draft{Chain: "budget/USD", Key: "hold.voided/i/1", Kind: ledger.HoldVoided, Agent: "agent-42"}, "SELECT move_hold('i/1', 'voided', true, NULL)", `{"id":"i/1"}`},
				{
					ledger.Draft{Chain: "run/w/r", Key: "invocation.calling/i/1", Kind: ledger.InvocationCalling, Run: "w"},
					"UPDATE invocations SET state = 'calling', attempt = 1, unused = false, call_not_after = 0", `{"attempt":1,"call_not_after":"1970-01-01T00:00:00.000Z","decision_id":"i/1","id":"i"}`,
				},
			} {
				s, o := in(false)
				tx := begin(t, o, postgres.DefaultRoles.Effects)
				_, err := tx.Exec(t.Context(), x.query)
				require.NoError(t, err)
				var body []byte
				if c.body {
					body = bodyOf(t, x.data)
				}
				forge(t, s, tx, x.d, body, nil, c.at, c.from, c.to)
				require.ErrorContains(t, tx.Commit(t.Context()), "no entry of the ledger says", x.d.Key)
			}
		})
	}
}

// Nor does it state a pruning.
func TestThiefPrunesByWhatIsNoEntry(t *testing.T) {
	for name, c := range map[string]struct {
		before string
		at     int64
	}{"with a body of another time": {"2100-01-01T00:00:00.000Z", 1}, "before an hour that there is not": {"2099-12-31T24:00:00.000Z", 0}, "before a second that there is not": {"2099-12-31T23:59:60.000Z", 0}} {
		s, o, _ := granted(t)
		require.NoError(t, s.OpenRun(t.Context(), runAbout("w", "")))
		tx := begin(t, o, postgres.DefaultRoles.Engine)
		_, err := tx.Exec(t.Context(), "SELECT prune_bodies('operational', 4102444800000)")
		require.NoError(t, err)
		forge(t, s, tx, ledger.Draft{Chain: "ledger", Key: "body.pruned/0", Kind: ledger.BodyPruned}, bodyOf(t, fmt.Sprintf(`{"before":%q,"class":"operational","count":1,"reason":"x"}`, c.before)), nil, c.at, "", "")
		require.ErrorContains(t, tx.Commit(t.Context()), "is stated", name)
	}
}

// The functions that run as the owner do so for the ledger's own tables alone: else the engine would
// state prunings that never were, and an export could leave out what they are said to have taken.
func TestThiefBorrowsATrigger(t *testing.T) {
	s, o, _ := granted(t)
	require.NoError(t, s.OpenRun(t.Context(), runAbout("w", "")))
	_, err := as(t, o, postgres.DefaultRoles.Engine).Prune(t.Context(), ledger.Operational, time.Now().Add(time.Hour), "policy")
	require.NoError(t, err)
	tx := begin(t, o, postgres.DefaultRoles.Engine)
	forge(t, s, tx, ledger.Draft{Chain: "ledger", Key: "body.pruned/1", Kind: ledger.BodyPruned}, bodyOf(t, `{"before":"2100-01-01T00:00:00.000Z","class":"evidence","count":7,"reason":"x"}`), nil, 0, "", "")
	for _, q := range []string{
		"CREATE TEMP TABLE mine (id BIGINT, class TEXT, before BIGINT, count BIGINT)",
		"CREATE TRIGGER x AFTER INSERT ON mine FOR EACH ROW EXECUTE FUNCTION pruning_stated()",
		"INSERT INTO mine SELECT id, 'evidence', 4102444800000, 7 FROM prunings",
	} {
		if _, err = tx.Exec(t.Context(), q); err != nil {
			break
		}
	}
	if err == nil {
		err = tx.Commit(t.Context())
	}
	require.Error(t, err)
}

// Nobody makes a doubt about a call go away by its row alone.
func TestThiefForgetsDoubts(t *testing.T) {
	s, o, user := granted(t)
	ctx := t.Context()
	r := runAbout("w", "")
	require.NoError(t, s.OpenRun(ctx, r))
	guardian, effects := as(t, o, postgres.DefaultRoles.Guardian), as(t, o, postgres.DefaultRoles.Effects)
	a := ledgertest.Ask("i", "i")
	a.Repeatable = true
	for n, d := range []time.Duration{-time.Hour, time.Hour} {
		_, err := guardian.Authorize(ctx, r, a, ledgertest.Rule(ledger.Approve))
		require.NoError(t, err)
		_, err = effects.Claim(ctx, "i", fmt.Sprint("i/", n+1), "t", d)
		require.NoError(t, err)
	}
	_ = user(postgres.DefaultRoles.Effects)("UPDATE invocations SET doubted = false")
	i, err := effects.Settle(ctx, "i", ledger.Effect{Token: "t", Settlement: ledger.Settlement{Attempt: 2, State: ledger.Released}})
	require.NoError(t, err)
	require.Equal(t, ledger.Unknown, i.State)
}

// A task is executed with the call that executes it.
func TestThiefExecutesTasks(t *testing.T) {
	_, o, _, effects := paid(t)
	_ = session(t, o, postgres.DefaultRoles.Effects)("UPDATE tasks SET state = 'executed', doc = 'x'")
	_, err := effects.Claim(t.Context(), "i", "i/1", "t", time.Hour)
	require.NoError(t, err)
	_, err = effects.Settle(t.Context(), "i", settled)
	require.NoError(t, err)
}

// What a hold pays for ends with it: else nobody could say any more that the call has happened.
func TestThiefEndsHoldsOfCalls(t *testing.T) {
	for _, role := range []string{postgres.DefaultRoles.Guardian, postgres.DefaultRoles.Effects} {
		_, o, _, effects := paid(t)
		_, err := effects.Claim(t.Context(), "i", "i/1", "t", time.Hour)
		require.NoError(t, err)
		_, err = as(t, o, role).VoidHold(t.Context(), "i/1")
		require.Error(t, err, role)
		_, err = effects.Settle(t.Context(), "i", settled)
		require.NoError(t, err, role)
	}
}

// Nor is a call made whose hold has ended, nor does one end whose hold has not.
func TestThiefMovesCallsWithoutHolds(t *testing.T) {
	calling := "UPDATE invocations SET state = 'calling', attempt = 1, unused = false, call_not_after = 0"
	for name, c := range map[string]struct {
		claimed     bool
		query, data string
		kind        ledger.Kind
	}{
		"called": {false, calling, `{"attempt":1,"call_not_after":"1970-01-01T00:00:00.000Z","decision_id":"i/1","id":"i"}`, ledger.InvocationCalling},
		"ended":  {true, "UPDATE invocations SET state = 'released', token = 't'", `{"attempt":1,"id":"i"}`, ledger.InvocationReleased},
	} {
		s, o, _, effects := paid(t)
		var err error
		if c.claimed {
			_, err = effects.Claim(t.Context(), "i", "i/1", "t", time.Hour)
		} else {
			_, err = effects.VoidHold(t.Context(), "i/1")
		}
		require.NoError(t, err, name)
		tx := begin(t, o, postgres.DefaultRoles.Effects)
		_, err = tx.Exec(t.Context(), c.query)
		require.NoError(t, err, name)
		forge(t, s, tx, ledger.Draft{Chain: "run/w/r", Key: string(c.kind) + "/i/1", Kind: c.kind, Run: "w"}, bodyOf(t, c.data), nil, 0, "", "")
		require.ErrorContains(t, tx.Commit(t.Context()), "no entry of the ledger says that the invocation", name)
	}
}

// No entry alone says what becomes of a call, a task or a check: nobody could state any more what does.
func TestThiefStatesWithoutRows(t *testing.T) {
	s, o := calling(t)(true)
	for _, x := range []struct {
		kind       ledger.Kind
		about, run string
		data       string
	}{
		{ledger.InvocationSettled, "i/1", "w", `{"attempt":1,"id":"i"}`},
		{ledger.TaskExecuted, "i/1", "w", `{"executed_at":"2026-01-01T00:00:00.000Z","result":{},"task_id":"i/1"}`},
		{ledger.CheckMade, "look/1/1", "w", `{"made_at":"2026-01-01T00:00:00.000Z","node":"look","number":1,"origin":"r","root":"r","state":"succeeded","visit":1,"workflow":"w"}`},
	} {
		tx := begin(t, o, postgres.DefaultRoles.Effects)
		forge(t, s, tx, ledger.Draft{Chain: "run/w/r", Key: string(x.kind) + "/" + x.about, Kind: x.kind, Run: x.run}, bodyOf(t, x.data), nil, 0, "", "")
		require.ErrorContains(t, tx.Commit(t.Context()), "as its row does", x.kind)
	}
}

// A hold is spent as its entry says.
func TestThiefSpendsAnotherAmount(t *testing.T) {
	s, o, _, _ := paid(t)
	tx := begin(t, o, postgres.DefaultRoles.Effects)
	_, err := tx.Exec(t.Context(), "SELECT move_hold('i/1', 'posted', true, 0)")
	require.NoError(t, err)
	forge(t, s, tx, ledger.Draft{Chain: "budget/USD", Key: "hold.posted/i/1", Kind: ledger.HoldPosted, Agent: "agent-42"}, bodyOf(t, `{"id":"i/1","posted":{"amount":"1.00","currency":"USD"}}`), nil, 0, "", "")
	require.ErrorContains(t, tx.Commit(t.Context()), "no entry of the ledger says")
}

// What nobody can open of a call does not keep it from being found abandoned.
func TestThiefSealsACall(t *testing.T) {
	s, o, _ := granted(t)
	ctx := t.Context()
	r := runAbout("w", "erika")
	require.NoError(t, s.OpenRun(ctx, r))
	guardian := as(t, o, postgres.DefaultRoles.Guardian)
	_, err := guardian.Authorize(ctx, r, ledgertest.Ask("i", "i"), ledgertest.Rule(ledger.Approve))
	require.NoError(t, err)
	var id string
	require.NoError(t, connect(t, o).QueryRow(ctx, "SELECT subject_key FROM runs").Scan(&id))
	body, err := ledger.Seal(id, make([]byte, ledger.KeyBytes), []byte("{}"))
	require.NoError(t, err)
	tx := begin(t, o, postgres.DefaultRoles.Effects)
	_, err = tx.Exec(ctx, "UPDATE invocations SET state = 'calling', attempt = 1, unused = false, call_not_after = 0")
	require.NoError(t, err)
	forge(t, s, tx, ledger.Draft{Chain: r.Chain(), Key: "invocation.calling/i/1", Kind: ledger.InvocationCalling, Run: "w"}, body, id, 0, "", "")
	require.NoError(t, tx.Commit(ctx))
	_, _, err = s.CloseRun(ctx, ledger.Run{Workflow: "w", Root: "r", State: ledger.RunFailed}, nil)
	require.NoError(t, err)
	_, err = guardian.Settle(ctx, "i", ledger.Effect{Settlement: ledger.Settlement{Attempt: 1, State: ledger.Unknown}, Orphaned: true})
	require.NoError(t, err)
}

// However long a sealed entry says that a call takes, it takes a day and an hour at most; and who
// cannot read the entry for want of the keyring does not take the call for over.
func TestThiefSealsALongCall(t *testing.T) {
	for _, year := range []string{"", "1"} { // that of the entry begins so, if it is not of now
		s, o, _ := granted(t)
		ctx := t.Context()
		r := runAbout("w", "erika")
		require.NoError(t, s.OpenRun(ctx, r))
		guardian := as(t, o, postgres.DefaultRoles.Guardian)
		_, err := guardian.Authorize(ctx, r, ledgertest.Ask("i", "i"), ledgertest.Rule(ledger.Approve))
		require.NoError(t, err)
		var id, generation string
		var wrapped []byte
		require.NoError(t, connect(t, o).QueryRow(ctx, "SELECT id, generation, wrapped FROM subject_keys").Scan(&id, &generation, &wrapped))
		g, err := o.Subjects.Generation(generation)
		require.NoError(t, err)
		_, key, err := g.Unwrap(id, wrapped)
		require.NoError(t, err)
		body, err := ledger.Seal(id, key, bodyOf(t, `{"attempt":1,"call_not_after":"9999-12-31T00:00:00.000Z","decision_id":"i/1","id":"i"}`))
		require.NoError(t, err)
		tx, err := connect(t, o).Begin(ctx)
		require.NoError(t, err)
		_, err = tx.Exec(ctx, "SET LOCAL session_replication_role = replica") // as if it had been claimed so
		require.NoError(t, err)
		_, err = tx.Exec(ctx, "UPDATE invocations SET state = 'calling', attempt = 1, unused = false, call_not_after = 0")
		require.NoError(t, err)
		from, to := "", ""
		if year != "" {
			from, to = `"at":"2`, `"at":"`+year
		}
		forge(t, s, tx, ledger.Draft{Chain: r.Chain(), Key: "invocation.calling/i/1", Kind: ledger.InvocationCalling, Run: "w"}, body, id, 0, from, to)
		require.NoError(t, tx.Commit(ctx))
		blind := o
		blind.Subjects = nil
		lost := ledger.Effect{Settlement: ledger.Settlement{Attempt: 1, State: ledger.Unknown}, Orphaned: true}
		_, err = as(t, blind, postgres.DefaultRoles.Guardian).Settle(ctx, "i", lost)
		require.ErrorIs(t, err, ledger.ErrSealed)
		got, err := guardian.Authorize(ctx, r, ledgertest.Ask("i", "i"), ledgertest.Rule(ledger.Approve))
		if year == "" {
			require.NoError(t, err)
			require.Equal(t, ledger.Wait, got.Course)
			_, err = guardian.Settle(ctx, "i", lost)
			require.ErrorIs(t, err, ledger.ErrConflict)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, ledger.Resolve, got.Course)
	}
}

// A check that no entry states is none, and takes no number from others.
func TestThiefMakesChecks(t *testing.T) {
	s, o, user := granted(t)
	r := runAbout("w", "")
	require.NoError(t, s.OpenRun(t.Context(), r))
	for _, doc := range []string{`{"node":"look","number":1,"state":"succeeded"}`, "x"} {
		_ = user(postgres.DefaultRoles.Effects)("INSERT INTO checks (workflow, origin, node, visit, number, chain, barrier, doc) VALUES ('w', $1, 'look', 1, 10000 + length($2), 'run/w/r', '', $2)", r.Origin, doc)
	}
	_, err := s.LastCheck(t.Context(), "w", r.Origin, "look", 1, "")
	require.ErrorIs(t, err, ledger.ErrNotFound)
	_, err = as(t, o, postgres.DefaultRoles.Effects).RecordCheck(t.Context(), r, looked)
	require.NoError(t, err)
	c, err := s.LastCheck(t.Context(), "w", r.Origin, "look", 1, "")
	require.NoError(t, err)
	require.Equal(t, 1, c.Number)
}

// The sequencer takes no snapshots but digests, so that they state nothing else.
func TestThiefStatesSnapshots(t *testing.T) {
	called := func(struct{}) (ledger.Store, postgres.Options) {
		s, o, _ := granted(t)
		r := runAbout("w", "")
		require.NoError(t, s.OpenRun(t.Context(), r))
		got, err := as(t, o, postgres.DefaultRoles.Guardian).Authorize(t.Context(), r, ledgertest.Ask("i", "i"), ledgertest.Rule(ledger.Approve))
		require.NoError(t, err)
		_, err = as(t, o, postgres.DefaultRoles.Effects).Claim(t.Context(), "i", got.Decision.ID, "token", time.Hour)
		require.NoError(t, err)
		return s, o
	}
	in := refusing(called)
	good := "sha256:" + strings.Repeat("0a", 32)
	for snapshots, takes := range map[string]bool{
		`{"before":"` + good + `"}`:                        true,
		`{"after":"` + good + `","before":"` + good + `"}`: true,
		`{"after":"` + good + `"}`:                         true,
		`{}`:                                               false,
		`null`:                                             false,
		`{"before":"x"}`:                                   false,
		`{"before":""}`:                                    false,
		`{"before":"` + good + `","during":"` + good + `"}`:    false,
		`{"before":"sha256:` + strings.Repeat("0A", 32) + `"}`: false,
	} {
		in := in
		if takes {
			in = called
		}
		s, o := in(struct{}{})
		tx := begin(t, o, postgres.DefaultRoles.Effects)
		_, err := tx.Exec(t.Context(), "UPDATE invocations SET state = 'unknown', call_not_after = 0, token = 'token'")
		require.NoError(t, err)
		forge(t, s, tx, ledger.Draft{Chain: "run/w/r", Key: "invocation.unknown/i/1", Kind: ledger.InvocationUnknown, Run: "w"}, bodyOf(t, `{"attempt":1,"id":"i","snapshots":`+snapshots+`}`), nil, 0, "", "")
		if err := tx.Commit(t.Context()); takes {
			require.NoError(t, err, snapshots)
		} else {
			require.ErrorContains(t, err, "no entry of the ledger says", snapshots)
		}
	}
}
