package trust

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestParseActs: acts are read as they are written, and nothing is dropped.
func TestParseActs(t *testing.T) {
	acts, err := ParseActs([]byte(`[{"act":"agent.keys","data":{"agent_id":"bot","keys":[]}},{"data":{"id":"fay"},"act":"publisher.revoke"}]`))
	require.NoError(t, err)
	require.Equal(t, Acts{&SetAgentKeys{AgentID: "bot", Keys: []string{}}, &RevokePublisher{"fay"}}, acts)
	for raw, want := range map[string]string{
		`[{"act":"agent.keys","data":{"agent_id":"bot","keys":[],"kyes":[]}}]`: "a field is missing",
		`[{"act":"agent.keys","data":{"agent_id":"bot"}}]`:                     "a field is missing",
		`[{"act":"agent.keys","data":{"agent_id":"","keys":[]}}]`:              "is not the name of an agent",
		`[{"act":"agent.drop","data":{}}]`:                                     "does not know",
		`[{"act":"agent.keys"}]`:                                               "the acts",
		`[null]`:                                                               "does not know",
		`{}`:                                                                   "the acts",
		``:                                                                     "the acts",
	} {
		_, err := ParseActs([]byte(raw))
		require.ErrorIs(t, err, ErrInvalid, raw)
		require.ErrorContains(t, err, want, raw)
	}
	_, err = ParseActs(make([]byte, MaxEnvelope+1))
	require.ErrorIs(t, err, ErrInvalid)
}

// TestTry: an act that could not be stated is found before anybody signs, and the
// state stays as it is.
func TestTry(t *testing.T) {
	w := newWorld(t)
	s := w.state()
	require.NoError(t, s.Try(agent("a"), agent("b")))
	require.Empty(t, s.Agents)
	require.ErrorContains(t, s.Try(agent("a"), agent("a")), "act 1 (agent.add): the agent a is there already")
	require.ErrorContains(t, s.Try(&SetAdmins{s.Admins, 1}), "act 0 (admins.set)")
	require.Equal(t, w.state(), s)
}

// TestDraft: a statement goes from hand to hand, and counts once enough persons
// have signed, whoever else has.
func TestDraft(t *testing.T) {
	w := newWorld(t)
	s := w.state()
	e, err := s.Draft(day, agent("a")).Envelope()
	require.NoError(t, err)
	for i, k := range []*Key{ed(t), w.ada, w.too, w.ben} {
		raw, err := e.Encode()
		require.NoError(t, err)
		_, err = s.Next(raw)
		require.ErrorIs(t, err, ErrInvalid, "%d signatures", i)
		st, again, err := ParseDraft(raw)
		require.NoError(t, err)
		require.Equal(t, 1, st.N)
		e = again
		require.NoError(t, e.Sign(k))
	}
	who, persons, err := s.Signed(e)
	require.NoError(t, err)
	require.Equal(t, "[ada-1 ada-2 ben] 2", fmt.Sprint(who, persons))
	raw, err := e.Encode()
	require.NoError(t, err)
	next, err := s.Next(raw)
	require.NoError(t, err)
	require.Contains(t, next.Agents, "a")
	_, _, err = ParseDraft([]byte(`{}`))
	require.ErrorIs(t, err, ErrInvalid)
}
