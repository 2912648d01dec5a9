package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// checkpoint returns a checkpoint over three entries that a new key has signed.
func checkpoint(t testing.TB) (raw []byte, public string, key *ledger.Key) {
	secret, public, err := ledger.NewKey("log.example.com")
	require.NoError(t, err)
	key, err = ledger.ParseKey(secret)
	require.NoError(t, err)
	raw, err = key.Sign(ledger.Checkpoint{Origin: key.Name(), Size: 3, Root: ledger.Hash{1}})
	require.NoError(t, err)
	return raw, public, key
}

// flooded is a log with rows that claim to be checkpoints.
type flooded struct {
	ledger.Log
	rows []ledger.Head
	// fails is after how many pages the database does not answer any more, or 0.
	fails int
}

func (f *flooded) Heads(_ context.Context, after ledger.Head, limit int) (out []ledger.Head, err error) {
	if f.fails > 0 {
		if f.fails--; f.fails == 0 {
			return nil, errors.New("it takes too long")
		}
	}
	for _, h := range f.rows {
		if h.N < after.N && len(out) < limit {
			out = append(out, h)
		}
	}
	return out, nil
}

func (f *flooded) Candidates(context.Context, int) ([]ledger.Candidate, error) { return nil, nil }

func (f *flooded) Records(context.Context, int64, int) ([]ledger.Record, error) { return nil, nil }

// TestFlooded: the sequencer verifies once what claims to be a checkpoint, so that it gets to the one
// that its key has signed however many rows there are.
func TestFlooded(t *testing.T) {
	raw, _, key := checkpoint(t)
	forged := bytes.Clone(raw)
	i := bytes.LastIndexByte(forged, ' ') + 40
	if forged[i] == 'A' {
		forged[i] = 'B'
	} else {
		forged[i] = 'A'
	}
	const n = 400
	log := &flooded{}
	for i := range int64(n) {
		log.rows = append(log.rows, ledger.Head{N: n + 1 - i, Size: 3, Raw: forged})
	}
	log.rows = append(log.rows, ledger.Head{N: 1, Size: 3, Raw: raw})
	var found []error
	q := &ledger.Sequencer{Store: log, Key: key, Found: func(err error) { found = append(found, err) }}
	integrate := func() {
		_, err := q.Integrate(t.Context())
		require.NoError(t, err)
	}
	log.fails = 3
	_, err := q.Integrate(t.Context())
	require.ErrorContains(t, err, "it takes too long")
	first := testing.AllocsPerRun(1, func() { _, _, _ = ledger.Latest(t.Context(), log, key.Name(), []string{key.Public()}) })
	integrate()
	require.Greater(t, first, 10.0*n)
	require.Less(t, testing.AllocsPerRun(5, integrate), 1.0*n)
	require.Len(t, found, 2)
	require.ErrorContains(t, found[0], "272 rows that are stored as checkpoints are none")
	require.ErrorContains(t, found[1], "128 rows that are stored as checkpoints are none")

	// Others are found among what was judged, and what was judged counts.
	log.rows = append([]ledger.Head{{N: n + 2, Size: 3, Raw: forged}}, log.rows...)
	integrate()
	log.rows = log.rows[:n+1]
	for range 2 {
		_, err = q.Integrate(t.Context())
		require.ErrorIs(t, err, ledger.ErrCheckpoint, "none is left that counts")
	}
}
