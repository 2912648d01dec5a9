package postgres_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/postgres"
)

// seen is an entry that states what was observed of the hypothesis h.
func seen(about, data string) said {
	return said{
		Draft: ledger.Draft{Chain: "hypotheses/agent-42", Key: "hypothesis.observed/" + about, Kind: ledger.HypothesisObserved, Agent: "agent-42"},
		data:  `{"hypothesis_id":"h","observed":` + data + `}`,
	}
}

// observing is a database with the hypothesis h, of which a is observed.
func observing(t *testing.T) (s ledger.Store, o postgres.Options, effects ledger.Store) {
	t.Helper()
	s, o, _ = granted(t)
	guardian, effects := as(t, o, postgres.DefaultRoles.Guardian), as(t, o, postgres.DefaultRoles.Effects)
	h := ledger.Hypothesis{
		HypothesisID: "h", AgentID: "agent-42", Description: `a "word"`, ToolID: "x/y", Inputs: json.RawMessage(`{"n":1.50}`),
		Prediction: json.RawMessage(`{"kpis":[{"variable":"a"},{"variable":"b"},{"variable":"c"}]}`), RiskScore: "0.250",
	}
	require.NoError(t, guardian.StateHypothesis(t.Context(), h))
	require.ErrorIs(t, effects.StateHypothesis(t.Context(), ledger.Hypothesis{HypothesisID: "i", AgentID: "agent-42", Inputs: json.RawMessage(`{}`), Prediction: json.RawMessage(`{}`), RiskScore: "0"}), ledger.ErrDenied)
	require.NoError(t, effects.ObserveHypothesis(t.Context(), "h", json.RawMessage(`{"a":1}`)))
	return s, o, effects
}

// undecided audits a log, of which no decision has predicted anything.
func undecided(t *testing.T, s ledger.Store) {
	t.Helper()
	_, problems, _ := audited(s)(t, placed(t, s))
	for _, p := range problems {
		require.Regexp(t, "^the hypothesis [hi] is of no decision of the log$", p)
	}
}

// Whoever states what was observed adds to it, and changes neither that nor what was predicted.
func TestThiefObserves(t *testing.T) {
	s, o, effects := observing(t)
	const role = "chimera_effects"
	set := func(observed, measured string) []string {
		return []string{"UPDATE causal_hypothesis SET state = 'observed', observed = $q$" + observed + "$q$, measured = " + measured}
	}
	for name, c := range map[string]struct {
		queries []string
		all     []said
	}{
		"nothing":                       {set(`{"a":1}`, "1"), nil},
		"without an entry":              {set(`{"a":1,"b":2}`, "2"), nil},
		"without a row":                 {nil, []said{seen("h/2", `{"b":2}`)}},
		"of no hypothesis":              {nil, []said{seen("i/1", `{"b":2}`)}},
		"something else than its row":   {set(`{"a":1,"b":3}`, "2"), []said{seen("h/2", `{"b":2}`)}},
		"something else than before":    {set(`{"a":2,"b":2}`, "2"), []said{seen("h/2", `{"a":2,"b":2}`)}},
		"less than before":              {set(`{"b":2,"c":2}`, "2"), []said{seen("h/2", `{"b":2,"c":2}`)}},
		"what was not predicted":        {set(`{"a":1,"d":2}`, "2"), []said{seen("h/2", `{"d":2}`)}},
		"under another count":           {set(`{"a":1,"b":2}`, "3"), []said{seen("h/3", `{"b":2}`)}},
		"under the same count":          {set(`{"a":1,"b":2}`, "1"), nil},
		"twice at once":                 {set(`{"a":1,"b":2,"c":3}`, "3"), []said{seen("h/2", `{"b":2}`), seen("h/3", `{"c":3}`)}},
		"a list":                        {set(`{"a":1,"b":[2]}`, "2"), []said{seen("h/2", `{"b":[2]}`)}},
		"a number that is too large":    {set(`{"a":1,"b":1e301}`, "2"), []said{seen("h/2", `{"b":1e301}`)}},
		"a long text":                   {set(`{"a":1,"b":"`+strings.Repeat("x", 257)+`"}`, "2"), []said{seen("h/2", `{"b":"`+strings.Repeat("x", 257)+`"}`)}},
		"a control character":           {set(`{"a":1,"b":"\u0001"}`, "2"), []said{seen("h/2", `{"b":"\u0001"}`)}},
		"in another form than it is":    {set(`{"b":2,"a":1}`, "2"), []said{seen("h/2", `{"b":2}`)}},
		"as nothing":                    {[]string{"UPDATE causal_hypothesis SET state = 'stated', observed = NULL, measured = 0"}, nil},
		"sealed, of what is about none": {set(`{"sealed":{}}`, "2"), []said{seen("h/2", `{"b":2}`)}},
		"another prediction":            {[]string{`UPDATE causal_hypothesis SET prediction = '{}'`}, nil},
		"another risk":                  {[]string{`UPDATE causal_hypothesis SET risk_score = 0`}, nil},
		"no more":                       {[]string{`DELETE FROM causal_hypothesis`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := tried(t, s, o, role, ledgertest.Origin, c.queries, c.all...)
			require.Error(t, err)
			require.Regexp(t, "of the ledger|permission denied", err.Error())
		})
	}
	h, err := s.Hypothesis(t.Context(), "h")
	require.NoError(t, err)
	require.Equal(t, `{"a":1}`, string(h.Observed))
	// An entry with its row is what the role states.
	require.NoError(t, tried(t, s, o, role, ledgertest.Origin, set(`{"a":1,"b":"é"}`, "2"), seen("h/2", `{"b":"é"}`)))
	require.NoError(t, effects.ObserveHypothesis(t.Context(), "h", json.RawMessage(`{"c":-2.5e-300}`)))
	undecided(t, s)
}

// What was predicted has its entry, which says the same.
func TestThiefPredicts(t *testing.T) {
	s, o, _ := observing(t)
	const insert = `INSERT INTO causal_hypothesis (hypothesis_id, agent_id, description, inputs, prediction, risk_score, created_at, state, tool_id) VALUES ('i', 'agent-42', '', '{}', '{}', 0.5, 0, 'stated', '')`
	const whole = `{"agent_id":"agent-42","created_at":"1970-01-01T00:00:00.000Z","description":"","hypothesis_id":"i","inputs":{},"prediction":{},"risk_score":0.5,"state":"stated"}`
	stated := func(data string) said {
		return said{Draft: ledger.Draft{Chain: "hypotheses/agent-42", Key: "hypothesis.stated/i", Kind: ledger.HypothesisStated, Agent: "agent-42"}, data: data}
	}
	for _, all := range [][]said{nil, {stated(strings.Replace(whole, "0.5", "0.4", 1))}, {stated(strings.Replace(whole, `"inputs":{}`, `"inputs":{"a":1}`, 1))}} {
		require.ErrorContains(t, tried(t, s, o, "chimera_guardian", ledgertest.Origin, []string{insert}, all...), "of the ledger")
	}
	require.ErrorContains(t, tried(t, s, o, "chimera_guardian", ledgertest.Origin, []string{strings.Replace(insert, "'stated'", "'observed'", 1)}, stated(whole)), "of the ledger")
	require.NoError(t, tried(t, s, o, "chimera_guardian", ledgertest.Origin, []string{insert}, stated(whole)))
	undecided(t, s)
}

// What is sealed no trigger can read: whoever has written there what nobody can read, or counts more
// than is there, keeps no call from ending, and no decision from being made again.
func TestThiefObservesWhatIsSealed(t *testing.T) {
	for name, c := range map[string]struct {
		plain, measured string
		// unreadable: it is sealed with another key.
		unreadable bool
	}{
		"what nobody can read": {plain: `{}`, measured: "1", unreadable: true},
		"what is no text":      {plain: `{}`, measured: "1"},
		"more than there is":   {plain: `"` + base64.StdEncoding.EncodeToString([]byte(`{"a":1}`)) + `"`, measured: "5"},
	} {
		t.Run(name, func(t *testing.T) {
			s, o, _ := granted(t)
			ctx := t.Context()
			r := runAbout("w", "erika")
			r.Agent = "agent-42"
			require.NoError(t, s.OpenRun(ctx, r))
			guardian, effects := as(t, o, postgres.DefaultRoles.Guardian), as(t, o, postgres.DefaultRoles.Effects)
			foreseen := func(st ledger.Standing) (ledger.Ruling, error) {
				ruling, err := ledgertest.Rule(ledger.Approve)(st)
				ruling.Hypothesis = &ledger.Hypothesis{HypothesisID: "h", Inputs: json.RawMessage(`{}`), Prediction: json.RawMessage(`{"kpis":[{"variable":"a"},{"variable":"b"}]}`), RiskScore: "0"}
				return ruling, err
			}
			for _, id := range []string{"i", "j"} {
				_, err := guardian.Authorize(ctx, r, ledgertest.Ask(id, id), foreseen)
				require.NoError(t, err)
			}
			_, err := effects.Claim(ctx, "i", "i/1", "t", time.Hour)
			require.NoError(t, err)

			var id, generation string
			var wrapped []byte
			require.NoError(t, connect(t, o).QueryRow(ctx, "SELECT id, generation, wrapped FROM subject_keys").Scan(&id, &generation, &wrapped))
			g, err := o.Subjects.Generation(generation)
			require.NoError(t, err)
			_, key, err := g.Unwrap(id, wrapped)
			require.NoError(t, err)
			body, err := ledger.Seal(id, key, bodyOf(t, `{"hypothesis_id":"h","observed":{"a":1}}`))
			require.NoError(t, err)
			if c.unreadable {
				key = make([]byte, len(key))
			}
			observed, err := ledger.Seal(id, key, []byte(c.plain))
			require.NoError(t, err)
			tx := begin(t, o, postgres.DefaultRoles.Effects)
			_, err = tx.Exec(ctx, "UPDATE causal_hypothesis SET state = 'observed', observed = $1, measured = "+c.measured, string(observed))
			require.NoError(t, err)
			forge(t, s, tx, ledger.Draft{Chain: "hypotheses/agent-42", Key: "hypothesis.observed/h/" + c.measured, Kind: ledger.HypothesisObserved, Agent: "agent-42"}, body, id, 0, "", "")
			require.NoError(t, tx.Commit(ctx))

			e := settled
			e.Observation = &ledger.Observation{Hypothesis: "h", Observed: json.RawMessage(`{"b":2}`)}
			i, err := effects.Settle(ctx, "i", e)
			require.NoError(t, err)
			require.Equal(t, ledger.Settled, i.State)
			_, err = guardian.Authorize(ctx, r, ledgertest.Ask("k", "k"), foreseen)
			require.NoError(t, err)
		})
	}
}
