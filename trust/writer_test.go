package trust_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// watched is a store that counts how often its statements are read, and may return others.
type watched struct {
	ledger.Store
	reads int
	alter func([]json.RawMessage) []json.RawMessage
}

func (w *watched) Authority(ctx context.Context) ([]json.RawMessage, error) {
	w.reads++
	list, err := w.Store.Authority(ctx)
	if w.alter != nil {
		list = w.alter(list)
	}
	return list, err
}

// adds is the next statement of a state, which adds an agent.
func adds(t *testing.T, s trust.State, id string, keys ...*trust.Key) []byte {
	t.Helper()
	e, err := s.Draft(time.Unix(1, 0), &trust.AddAgent{AgentID: id, Owner: "me", Keys: []string{}}).Envelope(keys...)
	require.NoError(t, err)
	raw, err := e.Encode()
	require.NoError(t, err)
	return raw
}

// TestWriter: many statements are verified once each, and the chain is read at the beginning and
// at the end.
func TestWriter(t *testing.T) {
	ctx, now := t.Context(), time.Unix(2, 0)
	s, b, admin := deployment(t)
	k := &watched{Store: s}
	w := trust.NewWriter(k, b)
	var last []byte
	for i := range 20 {
		state, err := w.State(ctx)
		require.NoError(t, err)
		require.Equal(t, i, state.N)
		last = adds(t, state, fmt.Sprint("agent-", i), admin)
		state, err = w.Publish(ctx, last, now)
		require.NoError(t, err)
		require.Equal(t, i+1, state.N)
	}
	require.Equal(t, 1, k.reads)
	again, err := w.Publish(ctx, last, now)
	require.NoError(t, err, "it may be repeated")
	require.Equal(t, 20, again.N)
	state, err := w.Settle(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, k.reads)
	read, err := trust.Read(ctx, s, b)
	require.NoError(t, err)
	require.Equal(t, read, state)
	_, err = trust.Known(ctx, s, state, "agent-0")
	require.NoError(t, err, "the rows are written")
}

// TestWriterNoticesOthers: what another process publishes meanwhile is neither overwritten nor
// believed unread.
func TestWriterNoticesOthers(t *testing.T) {
	ctx, now := t.Context(), time.Unix(2, 0)
	s, b, admin := deployment(t)
	w := trust.NewWriter(s, b)
	mine, err := w.State(ctx)
	require.NoError(t, err)
	publish(t, s, b, admin, &trust.AddAgent{AgentID: "theirs", Owner: "me", Keys: []string{}})
	_, err = w.Publish(ctx, adds(t, mine, "mine", admin), now)
	require.ErrorIs(t, err, ledger.ErrConflict)
	_, err = s.Agent(ctx, "mine")
	require.ErrorIs(t, err, ledger.ErrNotFound)
	mine, err = w.State(ctx)
	require.NoError(t, err)
	require.Contains(t, mine.Agents, "theirs")
	_, err = w.Publish(ctx, adds(t, mine, "mine", admin), now)
	require.NoError(t, err)

	// Also after the last of its own.
	publish(t, s, b, admin, &trust.AddAgent{AgentID: "late", Owner: "me", Keys: []string{}})
	mine, err = w.Settle(ctx)
	require.NoError(t, err)
	require.Equal(t, 3, mine.N)
	require.Contains(t, mine.Agents, "late")
}

// TestWriterBelievesNobody: statements that do not verify, between its own or after them, end a
// Writer's work, and so do statements that change or go.
func TestWriterBelievesNobody(t *testing.T) {
	ctx, now := t.Context(), time.Unix(2, 0)
	mallory, _, err := trust.NewKey()
	require.NoError(t, err)
	begin := func(t *testing.T) (*watched, *trust.Writer, trust.State, *trust.Key, []byte) {
		s, b, admin := deployment(t)
		k := &watched{Store: s}
		w := trust.NewWriter(k, b)
		state, err := w.State(ctx)
		require.NoError(t, err)
		first := adds(t, state, "first", admin)
		state, err = w.Publish(ctx, first, now)
		require.NoError(t, err)
		return k, w, state, admin, first
	}
	t.Run("its own", func(t *testing.T) {
		_, w, state, _, _ := begin(t)
		_, err := w.Publish(ctx, adds(t, state, "x", mallory), now)
		require.ErrorIs(t, err, trust.ErrInvalid)
		again, err := w.State(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, again.N)
	})
	forge := func(t *testing.T, k *watched, state trust.State, first []byte) {
		require.NoError(t, k.StateAuthority(ctx, adds(t, state, "forged", mallory), plan.DigestOf(first)))
	}
	t.Run("between", func(t *testing.T) {
		k, w, state, admin, first := begin(t)
		forge(t, k, state, first)
		_, err := w.Publish(ctx, adds(t, state, "second", admin), now)
		require.ErrorIs(t, err, ledger.ErrConflict)
		_, err = w.State(ctx)
		var p trust.Problem
		require.ErrorAs(t, err, &p)
		require.Equal(t, 2, p.N)
	})
	t.Run("after", func(t *testing.T) {
		k, w, state, _, first := begin(t)
		forge(t, k, state, first)
		_, err := w.Settle(ctx)
		var p trust.Problem
		require.ErrorAs(t, err, &p)
		require.Equal(t, 2, p.N)
		_, err = k.Agent(ctx, "forged")
		require.ErrorIs(t, err, ledger.ErrNotFound)
	})
	for name, alter := range map[string]func([]json.RawMessage) []json.RawMessage{
		"withdrawn": func(list []json.RawMessage) []json.RawMessage { return list[:0] },
		"changed": func(list []json.RawMessage) []json.RawMessage {
			list[0] = json.RawMessage(string(list[0]) + " ")
			return list
		},
	} {
		t.Run(name, func(t *testing.T) {
			k, w, _, _, _ := begin(t)
			k.alter = alter
			_, err := w.Settle(ctx)
			require.ErrorIs(t, err, trust.ErrInvalid)
		})
	}
}
