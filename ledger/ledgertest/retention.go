package ledgertest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// bodiesOf lists the digests of a chain's bodies.
func bodiesOf(t testing.TB, s ledger.Store, chain string) []string {
	records, err := s.Chain(t.Context(), chain, 0, everything.Limit)
	require.NoError(t, err)
	var out []string
	for _, r := range records {
		e, err := ledger.DecodeEntry(r.Bytes)
		require.NoError(t, err)
		if e.Body != "" {
			out = append(out, e.Body)
		}
	}
	return out
}

// pruning: bodies go by class and age, unless their chain is under legal hold;
// entries stay, the log verifies, and what it tells is known to be incomplete.
func pruning(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	key := Key(t)
	Story(t, s, false)
	other := run()
	other.Root = "held"
	require.NoError(t, s.OpenRun(ctx, other))
	require.NoError(t, s.PlaceLegalHold(ctx, other.Chain(), "case 7"))
	require.NoError(t, s.PlaceLegalHold(ctx, other.Chain(), "case 7"), "again is no other hold")
	Drain(t, s, key)
	before, err := s.Records(ctx, 0, 1000)
	require.NoError(t, err)

	for _, bad := range []ledger.Policy{{ledger.Permanent: time.Hour}, {"odd": time.Hour}, {ledger.Operational: 0}, {ledger.Evidence: -1}} {
		_, err := s.Retain(ctx, bad, "")
		require.ErrorIs(t, err, ledger.ErrInvalid)
	}
	kept, err := s.Retain(ctx, ledger.Policy{ledger.Operational: time.Hour, ledger.Evidence: time.Hour}, "policy")
	require.NoError(t, err)
	require.Equal(t, map[ledger.Class]int{ledger.Operational: 0, ledger.Evidence: 0}, kept, "nothing is an hour old")

	soon := time.Now().Add(time.Hour)
	n, err := s.Prune(ctx, ledger.Operational, soon, "policy")
	require.NoError(t, err)
	require.Equal(t, 7, n, "run.opened, three outcomes, two orders, run.closed")
	n, err = s.Prune(ctx, ledger.Operational, soon, "policy")
	require.NoError(t, err)
	require.Zero(t, n)
	Drain(t, s, key)
	m := Replay(t, s)
	Same(t, s, m)
	require.True(t, m.Vague["run:"+ledger.RunChain("w", "r1")])
	require.Contains(t, m.Runs, other.Chain(), "what is under legal hold is there")
	require.Equal(t, "3.99", m.Uses[useKey("org")].Posted.Amount(), "another class stays")

	require.NoError(t, s.LiftLegalHold(ctx, other.Chain(), "closed"))
	require.ErrorIs(t, s.LiftLegalHold(ctx, other.Chain(), "closed"), ledger.ErrNotFound)
	for _, c := range []ledger.Class{ledger.Operational, ledger.Evidence, ledger.Financial} {
		n, err := s.Prune(ctx, c, soon, "all")
		require.NoError(t, err)
		require.Positive(t, n, c)
	}
	for _, d := range bodiesOf(t, s, other.Chain()) {
		_, err := s.Body(ctx, d)
		require.ErrorIs(t, err, ledger.ErrGone)
		_, err = s.Stored(ctx, d)
		require.ErrorIs(t, err, ledger.ErrGone)
	}
	// Life goes on over what is gone.
	require.NoError(t, s.RecordOutcomes(ctx, other.Workflow, other.Root, []ledger.Outcome{{Node: "late", Kind: ledger.NodeSucceeded}}))
	require.NoError(t, s.SetBudget(ctx, ledger.Budget{Agent: "agent-42", Currency: "USD", Parent: "org", Every: ledger.Forever, Limit: usd(t, 600)}))
	_, err = s.OpenHold(ctx, ledger.Hold{ID: "new", Agent: "agent-42", Amount: usd(t, 150), ExpiresAt: ledger.At(soon)})
	require.NoError(t, err)
	Drain(t, s, key)
	m = Replay(t, s)
	Same(t, s, m)
	require.Empty(t, m.Runs)
	require.Len(t, m.Agents, 1, "what is permanent stays")
	require.Len(t, m.Pruned, 4)
	after, err := s.Records(ctx, 0, 1000)
	require.NoError(t, err)
	require.Equal(t, before, after[:len(before)], "entries stay as they are")
}

// erasure: what is sealed for a subject cannot be read once the key is deleted,
// whoever has the database.
func erasure(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	key := Key(t)
	say := func(chain, k, subject string) ledger.Record {
		r, err := s.Append(ctx, ledger.Draft{Chain: ledger.SnapshotsChain(chain), Key: k, Kind: ledger.SnapshotTaken, Subject: subject, Data: json.RawMessage(`{"server":"of Erika"}`)})
		require.NoError(t, err)
		return r[0]
	}
	first := say("a", "1", "erika")
	say("b", "1", "erika")
	say("a", "2", "max")
	require.Equal(t, first, say("a", "1", "erika"), "the same again is found, though sealed anew it would differ")
	digests := append(bodiesOf(t, s, ledger.SnapshotsChain("a")), bodiesOf(t, s, ledger.SnapshotsChain("b"))...)
	for _, d := range digests {
		raw, err := s.Body(ctx, d)
		require.NoError(t, err)
		require.Contains(t, string(raw), "of Erika")
		stored, err := s.Stored(ctx, d)
		require.NoError(t, err)
		require.NotContains(t, string(stored), "Erika")
		require.NotContains(t, string(stored), "erika")
		require.Equal(t, d, ledger.BodyDigest(stored), "the log commits to what is sealed")
	}
	require.ErrorIs(t, s.EraseSubject(ctx, "nobody", "asked"), ledger.ErrNotFound)
	about := run()
	about.Subject = "erika"
	require.NoError(t, s.OpenRun(ctx, about))
	require.NoError(t, s.PlaceLegalHold(ctx, about.Chain(), "case"))
	require.ErrorIs(t, s.EraseSubject(ctx, "erika", "asked"), ledger.ErrConflict)
	require.NoError(t, s.LiftLegalHold(ctx, about.Chain(), "done"))
	require.NoError(t, s.EraseSubject(ctx, "erika", "asked"))
	require.ErrorIs(t, s.EraseSubject(ctx, "erika", "asked"), ledger.ErrNotFound)
	for i, d := range digests {
		_, err := s.Body(ctx, d)
		if i == 1 {
			require.NoError(t, err, "another subject's stays")
			continue
		}
		require.ErrorIs(t, err, ledger.ErrGone)
		stored, err := s.Stored(ctx, d)
		require.NoError(t, err, "what is sealed stays, for its digest")
		require.Equal(t, d, ledger.BodyDigest(stored))
	}
	require.Equal(t, first, say("a", "1", "erika"), "it is still found by its key")
	again := say("a", "3", "erika")
	e, err := ledger.DecodeEntry(again.Bytes)
	require.NoError(t, err)
	_, err = s.Body(ctx, e.Body)
	require.NoError(t, err, "a subject that comes back has a new key")
	Drain(t, s, key)
	Same(t, s, Replay(t, s))
	records, err := s.Chain(ctx, ledger.LedgerChain, 0, everything.Limit)
	require.NoError(t, err)
	for _, r := range records {
		require.NotContains(t, string(r.Bytes), "erika")
	}
	for _, d := range bodiesOf(t, s, ledger.LedgerChain) {
		raw, err := s.Body(ctx, d)
		require.NoError(t, err)
		require.NotContains(t, string(raw), "erika", "the log does not name whom it has erased")
	}
}
