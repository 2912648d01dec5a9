package postgres_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/postgres"
)

// asked is a run with a permitted call i that costs all of its agent's budget, as the caller asks
// for it.
func asked(t *testing.T, subject string, change func(*ledger.Authorization)) (s ledger.Store, o postgres.Options, guardian, effects ledger.Store) {
	t.Helper()
	s, o, _ = granted(t)
	cents, err := ledger.Minor(100, "USD")
	require.NoError(t, err)
	require.NoError(t, s.SetBudget(t.Context(), ledger.Budget{Agent: "agent-42", Currency: "USD", Every: ledger.Forever, Limit: cents}))
	require.NoError(t, s.OpenRun(t.Context(), runAbout("w", subject)))
	a := ledgertest.Ask("i", "i")
	a.Cost = &cents
	change(&a)
	guardian, effects = as(t, o, postgres.DefaultRoles.Guardian), as(t, o, postgres.DefaultRoles.Effects)
	_, err = guardian.Authorize(t.Context(), runAbout("w", subject), a, ledgertest.Rule(ledger.Approve))
	require.NoError(t, err)
	return s, o, guardian, effects
}

// refusing returns databases by the state that they are in. Attacks that are refused leave them
// so, and share them.
func refusing[K comparable](begin func(state K) (ledger.Store, postgres.Options)) func(state K) (ledger.Store, postgres.Options) {
	type database struct {
		s ledger.Store
		o postgres.Options
	}
	begun := map[K]database{}
	return func(state K) (ledger.Store, postgres.Options) {
		d, ok := begun[state]
		if !ok {
			d.s, d.o = begin(state)
			begun[state] = d
		}
		return d.s, d.o
	}
}

// calling returns a run with a permitted call i, which was claimed if that is so.
func calling(t *testing.T) func(claimed bool) (ledger.Store, postgres.Options) {
	return func(claimed bool) (ledger.Store, postgres.Options) {
		s, o, _, effects := paid(t)
		if claimed {
			_, err := effects.Claim(t.Context(), "i", "i/1", "t", time.Hour)
			require.NoError(t, err)
		}
		return s, o
	}
}

// What no honest caller states in this order, at this time or twice is refused: the log would never
// verify again.
func TestThiefSpoilsByOrderAndTime(t *testing.T) {
	const post, settle = "SELECT move_hold('i/1', 'posted', true, 100)", "UPDATE invocations SET state = 'settled', unused = false, token = 't'"
	const call, run = "UPDATE invocations SET state = 'calling', attempt = attempt + 1, unused = false, call_not_after = 0", "SELECT move_hold('i/1', 'pending', true, NULL)"
	posted, ended := of(ledger.HoldPosted, "i/1", `{"id":"i/1","posted":{"amount":"1.00","currency":"USD"}}`), of(ledger.InvocationSettled, "i/1", `{"attempt":1,"id":"i"}`)
	running := of(ledger.HoldRunning, "i/1", `{"id":"i/1"}`)
	began := of(ledger.InvocationCalling, "i/1", `{"attempt":1,"call_not_after":"1970-01-01T00:00:00.000Z","decision_id":"i/1","id":"i"}`)
	again := of(ledger.InvocationCalling, "i/2", `{"attempt":2,"call_not_after":"1970-01-01T00:00:00.000Z","decision_id":"i/1","id":"i"}`)
	lost, early := posted, executed(`{}`, "2026-12-01T00:00:00.000Z", "2020-12-01T00:00:00.000Z")
	lost.lost = true
	early.data = strings.Replace(early.data, "2026-12-01", "2020-12-01", 1)
	checked := func(barrier string) ([]string, []said) {
		data := `{` + barrier + `"failure":"f","made_at":"2026-12-01T00:00:00.000Z","node":"look","number":1,"origin":"r of w","root":"r","state":"failed","visit":1,"workflow":"w"}`
		x := of(ledger.CheckMade, "look/1/1", data)
		x.Node, x.Visit = "look", 1
		at := "''"
		if barrier != "" {
			at = "'b'"
		}
		return []string{"INSERT INTO checks (workflow, origin, node, visit, number, chain, barrier, doc) VALUES ('w', 'r of w', 'look', 1, 1, 'run/w/r', " + at + ", $q$" + data + "$q$)"}, []said{x}
	}
	unapproved, one := checked(`"barrier":"b",`)
	late, two := checked("")
	second := two[0]
	second.Key, second.data = "check.made/look/1/2", strings.Replace(second.data, `"number":1`, `"number":2`, 1)
	backwards, three := append(late, strings.NewReplacer("'look', 1, 1,", "'look', 1, 2,", `"number":1`, `"number":2`).Replace(late[0])), []said{second, two[0]}
	claim := func(d time.Duration) func(t *testing.T, s, effects ledger.Store) {
		return func(t *testing.T, _, effects ledger.Store) {
			_, err := effects.Claim(t.Context(), "i", "i/1", "t", d)
			require.NoError(t, err)
		}
	}
	claimed := claim(time.Hour)
	unknown := func(t *testing.T, s, effects ledger.Store) {
		claimed(t, s, effects)
		_, err := effects.Settle(t.Context(), "i", ledger.Effect{Token: "t", Settlement: ledger.Settlement{Attempt: 1, State: ledger.Unknown}})
		require.NoError(t, err)
	}
	closed := func(t *testing.T, s, _ ledger.Store) {
		_, _, err := s.CloseRun(t.Context(), ledger.Run{Workflow: "w", Root: "r", State: ledger.RunFailed}, nil)
		require.NoError(t, err)
	}
	ends := func(t *testing.T, s, effects ledger.Store) {
		claimed(t, s, effects)
		_, err := effects.Settle(t.Context(), "i", settled)
		require.NoError(t, err)
	}
	spent := func(t *testing.T, s, effects ledger.Store) {
		none, err := ledger.Minor(0, "USD")
		require.NoError(t, err)
		_, err = s.OpenHold(t.Context(), ledger.Hold{ID: "h", Agent: "agent-42", Amount: none, Call: &ledger.HeldCall{Workflow: "w", Root: "r", Origin: "r of w", Node: "n"}})
		require.NoError(t, err)
		_, err = effects.PostHold(t.Context(), "h", none)
		require.NoError(t, err)
	}
	nothing := func(*testing.T, ledger.Store, ledger.Store) {}
	same := func(*ledger.Authorization) {}
	repeatable := func(a *ledger.Authorization) { a.Repeatable = true }
	states := map[string]struct {
		ask    func(*ledger.Authorization)
		before func(t *testing.T, s, effects ledger.Store)
	}{
		"permitted":  {same, nothing},
		"late":       {func(a *ledger.Authorization) { a.Life = -3 * time.Minute }, nothing},
		"repeatable": {repeatable, nothing},
		"claimed":    {same, claimed},
		"abandoned":  {repeatable, claim(-time.Hour)},
		"unknown":    {same, unknown},
		"ended":      {same, ends},
		"closed":     {same, closed},
		"spent":      {same, spent},
	}
	in := refusing(func(state string) (s ledger.Store, o postgres.Options) {
		s, o, _, effects := asked(t, "", states[state].ask)
		states[state].before(t, s, effects)
		return s, o
	})
	for name, c := range map[string]struct {
		state   string
		queries []string
		all     []said
	}{
		"an end before that of its hold":   {"claimed", []string{post, settle}, []said{executed(`{}`), ended, posted}},
		"an end before that of its task":   {"claimed", []string{post, settle}, []said{posted, ended, executed(`{}`)}},
		"an end with a hold out of sight":  {"claimed", []string{post, settle}, []said{lost, executed(`{}`), ended}},
		"a call before its hold":           {"permitted", []string{call, run}, []said{began, running}},
		"a call that is late":              {"late", []string{call, run}, []said{running, began}},
		"a call with a used permit":        {"abandoned", []string{call + ", doubted = true"}, []said{again}},
		"a call that leaves its permit":    {"repeatable", []string{strings.Replace(call, ", unused = false", "", 1), run}, []said{running, began}},
		"a call that was soon abandoned":   {"claimed", []string{"UPDATE invocations SET state = 'unknown', unused = false, call_not_after = 0, token = 't'"}, []said{of(ledger.InvocationUnknown, "i/1", `{"abandoned":true,"attempt":1,"id":"i"}`)}},
		"an end of a call that people say": {"claimed", []string{post, settle}, []said{posted, executed(`{}`), of(ledger.InvocationSettled, "i/1", `{"attempt":1,"id":"i","stated":["x"]}`)}},
		"an end that nobody has stated":    {"unknown", []string{post, settle}, []said{posted, executed(`{}`), of(ledger.InvocationSettled, "i/1/resolved", `{"attempt":1,"id":"i","stated":["x"]}`)}},
		"a task before its signature":      {"claimed", []string{post, settle}, []said{posted, early, ended}},
		"a task with a list":               {"claimed", []string{post, settle}, []said{posted, executed(`[]`), ended}},
		"a check that nobody has approved": {"permitted", unapproved, one},
		"a check in an ended run":          {"closed", late, two},
		"a check before the one before":    {"permitted", backwards, three},
		"an end again":                     {"ended", nil, []said{of(ledger.InvocationSettled, "i/1/resolved", `{"attempt":1,"id":"i","output_digest":"`+ledger.BodyDigest(nil)+`"}`)}},
		"an unknown end again":             {"unknown", nil, []said{of(ledger.InvocationUnknown, "i/1/resolved", `{"attempt":1,"id":"i"}`)}},
		"a hold that has ended":            {"spent", nil, []said{of(ledger.HoldRunning, "h", `{"id":"h"}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			s, o := in(c.state)
			if err := tried(t, s, o, postgres.DefaultRoles.Effects, ledgertest.Origin, c.queries, c.all...); err != nil {
				require.ErrorContains(t, err, "of the ledger")
				return
			}
			key := placed(t, s)
			if c.all[0].lost {
				_, _, err := s.Recover(t.Context(), 0)
				require.NoError(t, err)
				q := ledger.Sequencer{Store: s, Key: key, Batch: 100}
				_, err = q.Integrate(t.Context())
				require.NoError(t, err)
			}
			ok, problems, _ := audited(s)(t, key)
			require.Fail(t, "it is committed", "verified: %t, %q", ok, problems)
		})
	}
}

// What did nothing after a call that may have happened proves nothing.
func TestThiefReleasesADoubtedCall(t *testing.T) {
	s, o, guardian, effects := asked(t, "", func(a *ledger.Authorization) { a.Repeatable = true })
	ctx := t.Context()
	a := ledgertest.Ask("i", "i")
	a.Repeatable = true
	_, err := effects.Claim(ctx, "i", "i/1", "t", -time.Hour)
	require.NoError(t, err)
	_, err = guardian.Authorize(ctx, runAbout("w", ""), a, ledgertest.Rule(ledger.Approve))
	require.NoError(t, err)
	_, err = effects.Claim(ctx, "i", "i/2", "t", time.Hour)
	require.NoError(t, err)
	err = tried(t, s, o, postgres.DefaultRoles.Effects, ledgertest.Origin, []string{"SELECT move_hold('i/1', 'voided', true, NULL)", "UPDATE invocations SET state = 'released', token = 't'"},
		of(ledger.HoldVoided, "i/1", `{"id":"i/1"}`), of(ledger.InvocationReleased, "i/2", `{"attempt":2,"id":"i"}`))
	require.ErrorContains(t, err, "of the ledger is calling")
}

// Whatever the guardian's user writes meanwhile, what a call did is stated.
func TestThiefStopsEnds(t *testing.T) {
	for subject, queries := range map[string][]string{
		"": {
			"UPDATE tasks SET doc = 'x'", "UPDATE tasks SET state = 'closed'", "UPDATE tasks SET state = 'draft'",
			"UPDATE budget_use SET pending = 0", "UPDATE budget_use SET posted = 9223372036854775807",
		},
		"erika": {`UPDATE invocations SET permit = '{"sealed":1}'`, `UPDATE tasks SET doc = '{"sealed":1}'`},
	} {
		for _, q := range queries {
			t.Run(q, func(t *testing.T) {
				s, o, _, effects := asked(t, subject, func(*ledger.Authorization) {})
				_, err := effects.Claim(t.Context(), "i", "i/1", "t", time.Hour)
				require.NoError(t, err)
				_ = session(t, o, postgres.DefaultRoles.Guardian)(q)
				_, err = effects.Settle(t.Context(), "i", settled)
				require.NoError(t, err)
				ok, problems, _ := audited(s)(t, placed(t, s))
				require.True(t, ok, problems)
			})
		}
	}
}

// A hold begins as its entry says.
func TestThiefOpensHoldsThatHaveEnded(t *testing.T) {
	s, o, _, _ := paid(t)
	opened := of(ledger.HoldOpened, "h", `{"agent":"agent-42","amount":{"amount":"0.07","currency":"USD"},"charges":[],"expires_at":"1970-01-01T00:00:00.000Z","id":"h","status":"pending"}`)
	err := tried(t, s, o, postgres.DefaultRoles.Guardian, ledgertest.Origin, []string{
		"INSERT INTO holds (id, agent, currency, charges, amount, status, overdraft, running, expires_at, root, origin, prob) VALUES ('h', 'agent-42', 'USD', '[]', 7, 'voided', false, false, 0, '', '', false)",
	}, opened)
	require.ErrorContains(t, err, "no entry of the ledger says")
}

// Nobody puts functions of their own before those that run as the owner.
func TestRolesMakeNothing(t *testing.T) {
	o, _ := database(t)
	_, err := connect(t, o).Exec(t.Context(), "GRANT CREATE ON SCHEMA public TO PUBLIC") // as in databases of versions before 15
	require.NoError(t, err)
	require.NoError(t, postgres.Grant(t.Context(), o, postgres.DefaultRoles))
	err = session(t, o, postgres.DefaultRoles.Tools)("CREATE FUNCTION canonical(what JSON) RETURNS TEXT LANGUAGE sql AS 'SELECT current_user::text'")
	require.ErrorContains(t, err, "permission denied")
}

// However large the bodies are that somebody has added, a batch takes its time and no more.
func TestThiefAddsLargeBodies(t *testing.T) {
	s, o, _ := granted(t)
	const rows = 100
	require.NoError(t, session(t, o, postgres.DefaultRoles.Effects)(`WITH now AS (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms),
		x AS (SELECT g, 'snapshots/x' || g AS chain, ms, convert_to('{"data":{"x":"' || repeat('x', 520000) || '"},"salt":"' || lpad(g::text, 32, '0') || '"}', 'UTF8') AS body FROM generate_series(1, $1) AS g, now),
		y AS (SELECT *, 'sha256:' || encode(sha256(body), 'hex') AS digest FROM x),
		z AS (SELECT *, convert_to('{"format":"chimera.ai/ledger/entry/v1","origin":"' || $2 || '","chain":"' || chain || '","n":0,"prev":"","key":"snapshot.taken/0","kind":"snapshot.taken","at":'
			|| to_json(to_char(to_timestamp(ms / 1000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS') || '.' || lpad((ms % 1000)::text, 3, '0') || 'Z')
			|| ',"class":"evidence","body":"' || digest || '"}', 'UTF8') AS raw FROM y),
		b AS (INSERT INTO bodies (digest, chain, class, at, bytes) SELECT digest, chain, 'evidence', ms, body FROM z),
		e AS (INSERT INTO entries (hash, chain, n, key, kind, bytes) SELECT sha256('\x00'::bytea || raw), chain, 0, 'snapshot.taken/0', 'snapshot.taken', raw FROM z RETURNING serial)
		INSERT INTO pending SELECT serial FROM e`, rows, ledgertest.Origin))
	q := ledger.Sequencer{Store: s, Key: ledgertest.Key(t)}
	all := 0
	for n := 1; n > 0; all += n {
		var err error
		n, err = q.Integrate(t.Context())
		require.NoError(t, err)
		require.Less(t, n, rows)
	}
	require.Equal(t, rows, all)
}

// Rows of runs and barriers that are none hide no others of their list.
func TestThiefEndsListsOfRuns(t *testing.T) {
	s, _, user := granted(t)
	ctx := t.Context()
	ledgertest.Story(t, s, false)
	page := ledger.Page{Limit: 100}
	count := func() (out [2]int) {
		runs, err := s.ListRuns(ctx, page)
		require.NoError(t, err)
		barriers, err := s.ListBarriers(ctx, "", page)
		require.NoError(t, err)
		return [2]int{len(runs), len(barriers)}
	}
	was := count()
	require.NoError(t, s.OpenRun(ctx, runAbout("bad", "")))
	for _, doc := range []string{"x", `{"sealed":1}`, `{"workflow":1}`} {
		require.NoError(t, user(postgres.DefaultRoles.Engine)("UPDATE runs SET doc = $1 WHERE workflow = 'bad'", doc))
		require.NoError(t, user(postgres.DefaultRoles.Guardian)("INSERT INTO barriers (id, chain, origin, state, expires_at, refused, doc) VALUES ($1, 'x', 'x', 'open', 0, 0, $1)", doc))
		require.Equal(t, was, count())
		open, err := s.OpenRuns(ctx, "", "", 10)
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(open, func(r ledger.Run) bool { return r.Workflow == "bad" && r.Root == "r" }))
		_, err = s.Forsaken(ctx, 10)
		require.NoError(t, err)
	}
}
