package sqlite_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/keyring"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/sqlite"
)

// about is a run about a person.
func about(workflow, subject string) ledger.Run {
	return ledger.Run{
		Workflow: workflow, Root: "r", Origin: "r", PlanDigest: ledger.BodyDigest(nil), InputDigest: ledger.BodyDigest(nil),
		PlanName: "pay", PlanVersion: "1", Agent: "a", Requester: "ada", Subject: subject,
	}
}

// Without the key that wraps the keys of persons nothing is stated about one, and what is there
// is told without what is sealed.
func TestNoRing(t *testing.T) {
	o := sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Origin: ledgertest.Origin, Subjects: ledgertest.Ring(t)}
	s, err := sqlite.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, s.OpenRun(t.Context(), about("w", "erika")))
	failed := json.RawMessage(`{"kind":"tool_error"}`)
	require.NoError(t, s.RecordOutcomes(t.Context(), "w", "r", []ledger.Outcome{{Node: "n", Kind: ledger.NodeFailed, Error: failed}}))

	o.Subjects = nil
	blind, err := sqlite.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, blind.Close()) })
	require.ErrorIs(t, blind.OpenRun(t.Context(), about("other", "max")), ledger.ErrInvalid)
	require.ErrorIs(t, blind.EraseSubject(t.Context(), "erika", "asked"), ledger.ErrInvalid)
	require.Error(t, blind.RecordOutcomes(t.Context(), "w", "r", []ledger.Outcome{{Node: "m", Kind: ledger.NodeSucceeded}}))
	r, err := blind.Run(t.Context(), "w", "")
	require.NoError(t, err)
	require.Equal(t, "pay", r.PlanName)
	require.Empty(t, r.Requester)
	outcomes, err := blind.Outcomes(t.Context(), "w", "r", ledger.Page{})
	require.NoError(t, err)
	require.Len(t, outcomes, 1)
	require.Empty(t, outcomes[0].Error)
	require.NoError(t, blind.OpenRun(t.Context(), about("nobody", "")), "others are stated as always")
}

// While the key is away, runs about persons wait; a ring without any key is no other than one
// that is away.
func TestRingIsAway(t *testing.T) {
	ring := ledgertest.Ring(t)
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Origin: ledgertest.Origin, Subjects: ring})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, s.OpenRun(t.Context(), about("w", "erika")))
	outcome := []ledger.Outcome{{Node: "n", Kind: ledger.NodeSucceeded}}
	require.NoError(t, os.Rename(ring.String(), ring.String()+".away"))
	require.ErrorIs(t, s.RecordOutcomes(t.Context(), "w", "r", outcome), ledger.ErrUnavailable)
	require.ErrorIs(t, s.OpenRun(t.Context(), about("x", "max")), ledger.ErrUnavailable)
	require.ErrorIs(t, s.EraseSubject(t.Context(), "erika", "asked"), ledger.ErrUnavailable)
	_, err = s.Run(t.Context(), "w", "")
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.NoError(t, os.Rename(ring.String()+".away", ring.String()))
	require.NoError(t, s.RecordOutcomes(t.Context(), "w", "r", outcome))
}

// An erasure that was interrupted is completed by the next.
func TestErasureIsInterrupted(t *testing.T) {
	ring := ledgertest.Ring(t)
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Origin: ledgertest.Origin, Subjects: ring})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	names := func() (out []string) {
		all, err := ring.Generations()
		require.NoError(t, err)
		for _, g := range all {
			out = append(out, g.Name)
		}
		return out
	}
	require.NoError(t, s.OpenRun(t.Context(), about("w", "erika")))
	require.NoError(t, s.OpenRun(t.Context(), about("x", "max")))

	// Before it has changed the database: what it has made is used by the next.
	left, err := ring.Add()
	require.NoError(t, err)
	require.NoError(t, s.OpenRun(t.Context(), about("y", "eve")), "what is new is wrapped with the newest")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, s.EraseSubject(cancelled, "erika", "asked"))
	require.Len(t, names(), 2)
	require.NoError(t, s.EraseSubject(t.Context(), "eve", "asked"))
	require.Len(t, names(), 1)
	require.NotContains(t, names(), left.Name)

	// After that: the keys that are left over are destroyed.
	old := keyring.At(filepath.Join(t.TempDir(), "old"))
	require.NoError(t, old.Create())
	stray, err := old.Generations()
	require.NoError(t, err)
	raw, err := os.ReadFile(filepath.Join(old.String(), stray[0].Name+".key"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(ring.String(), stray[0].Name+".key"), raw, 0o600))
	require.Len(t, names(), 2)
	require.ErrorIs(t, s.EraseSubject(t.Context(), "eve", "asked"), ledger.ErrNotFound)
	require.Len(t, names(), 1)

	for workflow, requester := range map[string]string{"w": "ada", "x": "ada", "y": ""} {
		r, err := s.Run(t.Context(), workflow, "")
		require.NoError(t, err)
		require.Equal(t, requester, r.Requester, workflow)
	}
}
