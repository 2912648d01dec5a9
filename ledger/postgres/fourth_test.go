package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/model"
	"chimera.ai/engine/ledger/postgres"
)

// Calls of pinned MCP tools say what the server listed around them.
func TestCallsSayWhatWasListed(t *testing.T) {
	some := ledger.BodyDigest(nil)
	for _, state := range []ledger.InvocationState{ledger.Settled, ledger.Released, ledger.Unknown, "check"} {
		for _, seen := range []contract.Snapshots{{Before: some, After: some}, {Before: some}, {After: some}} {
			if testing.Short() && state != ledger.Unknown && seen != (contract.Snapshots{Before: some, After: some}) {
				continue
			}
			t.Run(string(state), func(t *testing.T) {
				s, _, _, effects := paid(t)
				ctx := t.Context()
				var err error
				if state == "check" {
					c := looked
					c.Snapshots = &seen
					_, err = effects.RecordCheck(ctx, runAbout("w", ""), c)
				} else {
					_, err = effects.Claim(ctx, "i", "i/1", "t", time.Hour)
					require.NoError(t, err)
					e := settled
					if e.State, e.Snapshots = state, &seen; state != ledger.Settled {
						e.OutputDigest, e.Result = "", nil
					}
					_, err = effects.Settle(ctx, "i", e)
				}
				require.NoError(t, err)
				key := ledgertest.Key(t)
				ledgertest.Drain(t, s, key)
				ok, problems, _ := audited(s)(t, key)
				require.True(t, ok, "%v", problems)
			})
		}
	}
}

// Triggers of PostgreSQL cannot read texts with NUL.
func TestFactsWithNUL(t *testing.T) {
	_, o, _, effects := paid(t)
	c := looked
	c.State, c.Failure, c.OutputDigest = ledger.CheckFailed, "a\x00b", ""
	_, check := effects.RecordCheck(t.Context(), runAbout("w", ""), c)
	_, prune := as(t, o, postgres.DefaultRoles.Engine).Prune(t.Context(), ledger.Operational, time.Now().Add(time.Hour), "a\x00b")
	for _, err := range []error{check, prune} {
		require.ErrorIs(t, err, ledger.ErrInvalid)
		var pg *pgconn.PgError
		require.NotErrorAs(t, err, &pg)
	}
}

// said is an entry with the data of its body.
type said struct {
	ledger.Draft
	data string
	// then is run once the entry is there, with a reference to it for REF.
	then string
	// lost: it does not wait for a place.
	lost bool
}

// crooked in data makes an entry that is not written as entries are.
const crooked = `{"crooked":1}`

func of(kind ledger.Kind, about, data string) said {
	d := ledger.Draft{Chain: "run/w/r", Key: string(kind) + "/" + about, Kind: kind, Run: "w"}
	if strings.HasPrefix(string(kind), "hold.") {
		d = ledger.Draft{Chain: "budget/USD", Key: string(kind) + "/" + about, Kind: kind, Agent: "agent-42"}
	}
	return said{Draft: d, data: data}
}

// tried runs statements in a role and adds entries with their bodies as they are, one after the
// other, and returns the error of the first that fails, or of the commit.
func tried(t *testing.T, s ledger.Store, o postgres.Options, role, origin string, queries []string, all ...said) error {
	t.Helper()
	ctx := t.Context()
	tx := begin(t, o, role)
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	for _, q := range queries {
		if _, err := tx.Exec(ctx, q); err != nil {
			return err
		}
	}
	next, hashes := map[string]int64{}, map[string]ledger.Hash{}
	for n, x := range all {
		if next[x.Chain] == 0 {
			chain, err := s.Chain(ctx, x.Chain, 0, 10_000)
			if len(chain) > 0 {
				require.NoError(t, err)
				next[x.Chain], hashes[x.Chain] = int64(len(chain)), chain[len(chain)-1].Hash
			}
		}
		body := []byte(`{"data":` + x.data + `,"salt":"` + fmt.Sprintf("%032d", n) + `"}`)
		e := x.Entry(origin, next[x.Chain], hashes[x.Chain], ledger.At(time.Now()), ledger.BodyDigest(body))
		raw, err := e.Encode()
		require.NoError(t, err)
		if x.data == crooked {
			raw = []byte(strings.Replace(string(raw), `,"key"`, `, "key"`, 1))
		}
		next[x.Chain], hashes[x.Chain] = e.N+1, ledger.LeafHash(raw)
		if _, err := tx.Exec(ctx, "INSERT INTO bodies (digest, chain, class, at, bytes) VALUES ($1, $2, $3, $4, $5)", e.Body, e.Chain, string(e.Class), e.At.Time().UnixMilli(), body); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, insertEntry, e.Chain, e.N, e.Key, string(e.Kind), raw); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO pending SELECT serial FROM entries WHERE serial = (SELECT max(serial) FROM entries) AND NOT $1", x.lost); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, strings.ReplaceAll(x.then, "REF", ledger.Reference(origin, hashes[x.Chain]))); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

// executed is the entry of the task of i that has that result, with its row, in which edits replace
// texts.
func executed(result string, edits ...string) said {
	row := `replace(left(doc, -1), '"state":"signed"', '"state":"executed"') || ',"executed_at":"2026-12-01T00:00:00.000Z","result":` + result + `,"audit_ref":"REF"}'`
	x := of(ledger.TaskExecuted, "i/1", `{"executed_at":"2026-12-01T00:00:00.000Z","result":`+result+`,"task_id":"i/1"}`)
	for at := 0; at < len(edits); at += 2 {
		row = "replace(" + row + ", '" + edits[at] + "', '" + edits[at+1] + "')"
	}
	x.then = "UPDATE tasks SET state = 'executed', doc = " + row
	return x
}

// placed gives entries their places, as workers do, and returns the log's key.
func placed(t *testing.T, s ledger.Store) *ledger.Key {
	t.Helper()
	key := ledgertest.Key(t)
	q := ledger.Sequencer{Store: s, Key: key, Batch: 100, Possible: model.Possible}
	for n := 1; n > 0; {
		var err error
		n, err = q.Integrate(t.Context())
		require.NoError(t, err)
	}
	return key
}

// Rows stay as they were where the sequencer sets aside what says otherwise.
func TestThiefMovesByWhatIsSetAside(t *testing.T) {
	d := postgres.DefaultRoles
	const post, settle = "SELECT move_hold('i/1', 'posted', true, 100)", "UPDATE invocations SET state = 'settled', unused = false, token = 't'"
	const permit = "UPDATE invocations SET decision_id = 'i/2', action_digest = 'x', permit_until = 9999999999999"
	hold := func(currency string) string {
		return "INSERT INTO holds (id, agent, currency, charges, amount, status, overdraft, running, expires_at, root, origin, prob) VALUES ('h', 'agent-42', '" + currency + "', '[]', 7, 'pending', false, false, 0, '', '', false)"
	}
	posted, ended := of(ledger.HoldPosted, "i/1", `{"id":"i/1","posted":{"amount":"1.00","currency":"USD"}}`), of(ledger.InvocationSettled, "i/1", `{"attempt":1,"id":"i"}`)
	deep := func(n int) string { return `{"x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}` }
	in := refusing(calling(t))
	for name, c := range map[string]struct {
		fits         bool
		role, origin string
		queries      []string
		all          []said
	}{
		"a result beyond exponents":   {false, d.Effects, "", []string{post, settle}, []said{posted, executed(`{"x":1e401}`), ended}},
		"a result at the exponent":    {true, d.Effects, "", []string{post, settle}, []said{posted, executed(`{"x":1e-400}`), ended}},
		"a result with a long number": {false, d.Effects, "", []string{post, settle}, []said{posted, executed(`{"x":` + strings.Repeat("1", 513) + `}`), ended}},
		"a result with a number":      {true, d.Effects, "", []string{post, settle}, []said{posted, executed(`{"x":` + strings.Repeat("1", 512) + `}`), ended}},
		"a result nested deeper":      {false, d.Effects, "", []string{post, settle}, []said{posted, executed(deep(126)), ended}},
		"a result nested deep":        {true, d.Effects, "", []string{post, settle}, []said{posted, executed(deep(125)), ended}},
		"entries of another log":      {false, d.Effects, "another", []string{post, settle}, []said{posted, executed(`{}`), ended}},
		"a permit with other data":    {false, d.Guardian, "", []string{permit}, []said{of(ledger.InvocationPermitted, "i/2", `{"x":1}`)}},
		"a hold with other data":      {false, d.Guardian, "", []string{hold("USD")}, []said{of(ledger.HoldOpened, "h", `{"x":1}`)}},
		"a hold in no currency":       {false, d.Guardian, "", []string{hold("ZZZ")}, []said{{Draft: ledger.Draft{Chain: "budget/ZZZ", Key: "hold.opened/h", Kind: ledger.HoldOpened, Agent: "agent-42"}, data: `{}`}}},
	} {
		t.Run(name, func(t *testing.T) {
			in := in
			if c.fits {
				in = calling(t)
			}
			s, o := in(c.role == d.Effects)
			if c.origin == "" {
				c.origin = ledgertest.Origin
			}
			err := tried(t, s, o, c.role, c.origin, c.queries, c.all...)
			if !c.fits {
				require.ErrorContains(t, err, "no entry of the ledger says")
				return
			}
			require.NoError(t, err)
			key := placed(t, s)
			var aside int
			require.NoError(t, connect(t, o).QueryRow(t.Context(), "SELECT count(*) FROM aside").Scan(&aside))
			require.Zero(t, aside)
			ok, problems, _ := audited(s)(t, key)
			require.True(t, ok, problems)
		})
	}
}

// A move behind what is no entry is set aside with it. Whoever audits is told of both.
func TestThiefMovesBehindWhatIsNoEntry(t *testing.T) {
	for _, first := range []string{crooked, `{"x":1}`} {
		s, o, _, _ := paid(t)
		budget := said{Draft: ledger.Draft{Chain: "budget/USD", Key: "budget.set/x", Kind: ledger.BudgetSet, Agent: "agent-42"}, data: first}
		require.NoError(t, tried(t, s, o, postgres.DefaultRoles.Guardian, ledgertest.Origin, []string{"SELECT move_hold('i/1', 'voided', true, NULL)"},
			budget, of(ledger.HoldVoided, "i/1", `{"id":"i/1"}`)))
		ok, problems, warnings := audited(s)(t, placed(t, s))
		require.True(t, ok, problems)
		text := strings.Join(warnings, "\n")
		require.Contains(t, text, `"hold.voided/i/1" in the chain budget/USD`)
		require.Contains(t, text, `"budget.set/x" in the chain`)
	}
}

// Nobody goes back to an older permit, whose entry says something else.
func TestThiefGoesBackToAPermit(t *testing.T) {
	s, o, guardian, effects := paid(t)
	ctx := t.Context()
	_, err := effects.VoidHold(ctx, "i/1")
	require.NoError(t, err)
	_, err = guardian.Authorize(ctx, runAbout("w", ""), ledgertest.Ask("i", "other"), ledgertest.Rule(ledger.Approve))
	require.NoError(t, err)
	was, err := s.Invocation(ctx, "i")
	require.NoError(t, err)
	_ = session(t, o, postgres.DefaultRoles.Guardian)("UPDATE invocations SET decision_id = 'i/1', action_digest = 'x', permit_until = 9999999999999, permit = '{}', repeatable = true")
	i, err := s.Invocation(ctx, "i")
	require.NoError(t, err)
	require.Equal(t, was, i)
}

// What a call has answered, and the task that it has executed, are what the log says.
func TestThiefChangesWhatWasSettled(t *testing.T) {
	s, o, _, effects := paid(t)
	ctx := t.Context()
	_, err := effects.Claim(ctx, "i", "i/1", "t", time.Hour)
	require.NoError(t, err)
	e := settled
	e.Output = []byte("y")
	_, err = effects.Settle(ctx, "i", e)
	require.NoError(t, err)
	_ = session(t, o, postgres.DefaultRoles.Effects)("UPDATE invocations SET output = NULL, output_digest = ''")
	i, err := s.Invocation(ctx, "i")
	require.NoError(t, err)
	require.Equal(t, e.OutputDigest, i.OutputDigest)
}

// Entries that no honest caller makes are refused: the log would never verify again.
func TestThiefSpoils(t *testing.T) {
	const post, settle = "SELECT move_hold('i/1', 'posted', true, 100)", "UPDATE invocations SET state = 'settled', unused = false, token = 't'"
	const call, run = "UPDATE invocations SET state = 'calling', attempt = 1, unused = false, call_not_after = 0", "SELECT move_hold('i/1', 'pending', true, NULL)"
	posted, ended := of(ledger.HoldPosted, "i/1", `{"id":"i/1","posted":{"amount":"1.00","currency":"USD"}}`), of(ledger.InvocationSettled, "i/1", `{"attempt":1,"id":"i"}`)
	running, began := of(ledger.HoldRunning, "i/1", `{"id":"i/1"}`), `{"attempt":1,"call_not_after":"1970-01-01T00:00:00.000Z","decision_id":"i/1","id":"i"}`
	check := func(data string) ([]string, []said) {
		x := of(ledger.CheckMade, "look/1/1", data)
		x.Node, x.Visit = "look", 1
		return []string{"INSERT INTO checks (workflow, origin, node, visit, number, chain, barrier, doc) VALUES ('w', 'r of w', 'look', 1, 1, 'run/w/r', '', $q$" + data + "$q$)"}, []said{x}
	}
	made := `{"failure":"f","made_at":"2026-12-01T00:00:00.000Z","node":"look","number":1,"origin":"r of w","root":"r","state":"failed","visit":1,"workflow":"w"}`
	honest, one := check(made)
	maybe, two := check(strings.Replace(made, "failed", "maybe", 1))
	elsewhere, three := check(strings.Replace(made, `"root":"r"`, `"root":"s"`, 1))
	without, four := check(strings.Replace(made, `"failure":"f",`, "", 1))
	unnamed := []said{of(ledger.CheckMade, "look/1/1", made)}
	in := refusing(calling(t))
	for name, c := range map[string]struct {
		claim, fits bool
		queries     []string
		all         []said
	}{
		"a task":                  {true, true, []string{post, settle}, []said{posted, executed(`{}`), ended}},
		"another task":            {true, false, []string{post, settle}, []said{posted, executed(`{}`, `"description":"`, `"description":"x`), ended}},
		"a task with a result":    {true, false, []string{post, settle}, []said{posted, executed(`{}`, `"result":{}`, `"result":{"x":"y"}`), ended}},
		"a task of a time":        {true, false, []string{post, settle}, []said{posted, executed(`{}`, `"2026-12-01T00:00:00.000Z"`, `"2026-12-01T00:00:00.001Z"`), ended}},
		"a task of an entry":      {true, false, []string{post, settle}, []said{posted, executed(`{}`, `ledger://`, `ledger://x/`), ended}},
		"a task that is left":     {true, false, []string{post, settle}, []said{posted, ended}},
		"a call":                  {false, true, []string{call, run}, []said{running, of(ledger.InvocationCalling, "i/1", began)}},
		"a call of unknown end":   {false, false, []string{call, run}, []said{running, of(ledger.InvocationCalling, "i/1", began), of(ledger.InvocationCalling, "i/1/resolved", began)}},
		"a call that is stated":   {false, false, []string{call, run}, []said{running, of(ledger.InvocationCalling, "i/1", strings.Replace(began, `"id":"i"`, `"id":"i","stated":["x"]`, 1))}},
		"a check":                 {false, true, honest, one},
		"a check that may be":     {false, false, maybe, two},
		"a check of another run":  {false, false, elsewhere, three},
		"a check without its end": {false, false, without, four},
		"a check of no node":      {false, false, honest, unnamed},
	} {
		t.Run(name, func(t *testing.T) {
			in := in
			if c.fits {
				in = calling(t)
			}
			s, o := in(c.claim)
			err := tried(t, s, o, postgres.DefaultRoles.Effects, ledgertest.Origin, c.queries, c.all...)
			if !c.fits {
				require.ErrorContains(t, err, "no entry of the ledger says")
				return
			}
			require.NoError(t, err)
			ok, problems, _ := audited(s)(t, placed(t, s))
			require.True(t, ok, problems)
		})
	}
}

// Amounts are written as package ledger writes them, of the currencies that it knows.
func TestAmounts(t *testing.T) {
	o, _ := database(t)
	rows, err := connect(t, o).Query(t.Context(), `SELECT c, n, sum_of(n, c) FROM (SELECT chr(a) || chr(b) || chr(d) AS c FROM generate_series(65, 90) AS a, generate_series(65, 90) AS b, generate_series(65, 90) AS d
		UNION SELECT unnest(ARRAY['', 'usd', 'US', 'USD ', 'D EU'])) AS x, unnest(ARRAY[0, 7, -120, 9223372036854775807]) AS n`)
	require.NoError(t, err)
	var c string
	var n int64
	var got *string
	_, err = pgx.ForEachRow(rows, []any{&c, &n, &got}, func() error {
		m, err := ledger.Minor(n, ledger.Currency(c))
		if err != nil {
			require.Nil(t, got, c)
			return nil
		}
		want, err := json.Marshal(m)
		require.NoError(t, err)
		require.NotNil(t, got, c)
		require.Equal(t, string(want), *got)
		return nil
	})
	require.NoError(t, err)
}

// Only who has made a call ends it while it may run: it is not made again meanwhile.
func TestThiefEndsACallUnderWay(t *testing.T) {
	s, o, _, effects := paid(t)
	ctx := t.Context()
	_, err := effects.Claim(ctx, "i", "i/1", "t", time.Hour)
	require.NoError(t, err)
	for _, set := range []string{"state = 'released'", "state = 'unknown'", "state = 'settled'"} {
		for _, token := range []string{"", ", token = ''", ", token = 'x'", ", token = encode(sha256('x'), 'hex')"} {
			queries := []string{"UPDATE invocations SET unused = false, call_not_after = 0, " + set + token}
			err := tried(t, s, o, postgres.DefaultRoles.Effects, ledgertest.Origin, queries)
			require.ErrorContains(t, err, "of the ledger is calling", queries)
		}
	}
	for _, token := range []string{"x", "", "t"} {
		err := tried(t, s, o, postgres.DefaultRoles.Effects, ledgertest.Origin, []string{"UPDATE invocations SET token = encode(sha256('" + token + "'), 'hex') WHERE token <> encode(sha256('" + token + "'), 'hex')"})
		if token == "t" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "of the ledger is calling")
	}
	for _, token := range []string{"", "x"} {
		e := settled
		e.Token = token
		_, err = effects.Settle(ctx, "i", e)
		require.ErrorIs(t, err, ledger.ErrConflict)
	}
	i, err := effects.Settle(ctx, "i", settled)
	require.NoError(t, err)
	require.Equal(t, ledger.Settled, i.State)
}
