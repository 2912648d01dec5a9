package sqlite_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	require.NoError(t, s.Keyring(t.Context()))
	require.ErrorIs(t, blind.Keyring(t.Context()), ledger.ErrInvalid)
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

// What an erasure has wrapped and not committed stays in the files of a database: the key that
// it has made wraps nothing afterwards, and goes with the next erasure.
func TestErasureFails(t *testing.T) {
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
	held := ledger.RunChain("w", "r")
	require.NoError(t, s.PlaceLegalHold(t.Context(), held, "case"))
	require.ErrorIs(t, s.EraseSubject(t.Context(), "erika", "asked"), ledger.ErrConflict)
	seen := names()
	require.Len(t, seen, 1, "one that is refused makes none")
	require.NoError(t, s.OpenRun(t.Context(), about("y", "eve")), "what is new is wrapped with the current one")
	require.NoError(t, s.EraseSubject(t.Context(), "max", "asked"))
	left := names()
	require.Len(t, left, 1)
	require.NotContains(t, seen, left[0])

	// Killed before it has destroyed the old keys, an erasure is completed by the same again.
	stray, err := ring.Add()
	require.NoError(t, err)
	require.NoError(t, os.Rename(filepath.Join(ring.String(), stray.Name+".key"), filepath.Join(ring.String(), stray.Name+".key.gone")))
	_, err = ring.Add()
	require.NoError(t, err)
	require.ErrorIs(t, s.EraseSubject(t.Context(), "max", "asked"), ledger.ErrNotFound)
	require.Equal(t, left, names())
	files, err := os.ReadDir(ring.String())
	require.NoError(t, err)
	require.Len(t, files, 3)

	for workflow, requester := range map[string]string{"w": "ada", "x": "", "y": "ada"} {
		r, err := s.Run(t.Context(), workflow, "")
		require.NoError(t, err)
		require.Equal(t, requester, r.Requester, workflow)
	}
}

// TestOtherRings: a ring that is empty, old, or of another log makes no keys. An older copy of the
// database has lost all persons, which an erasure of them says; others are erased meanwhile.
func TestOtherRings(t *testing.T) {
	dir := t.TempDir()
	ring := ledgertest.Ring(t)
	o := sqlite.Options{Path: filepath.Join(dir, "ledger.db"), Origin: ledgertest.Origin, Subjects: ring}
	open := func(o sqlite.Options) ledger.Store {
		s, err := sqlite.Open(t.Context(), o)
		require.NoError(t, err)
		return s
	}
	s := open(o)
	require.NoError(t, s.OpenRun(t.Context(), about("w", "erika")))
	require.NoError(t, s.OpenRun(t.Context(), about("x", "max")))
	require.NoError(t, s.Close())
	early := o
	early.Path = filepath.Join(dir, "early.db")
	raw, err := os.ReadFile(o.Path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(early.Path, raw, 0o600))
	oldRing := filepath.Join(t.TempDir(), "old")
	require.NoError(t, os.CopyFS(oldRing, os.DirFS(ring.String())))
	s = open(o)
	require.NoError(t, s.EraseSubject(t.Context(), "max", "asked"))
	require.NoError(t, s.Close())

	foreign := keyring.At(filepath.Join(t.TempDir(), "foreign"))
	_, err = foreign.Create("example.com/other", "another")
	require.NoError(t, err)
	for name, other := range map[string]*keyring.Ring{"empty": keyring.At(t.TempDir()), "old": keyring.At(oldRing), "foreign": foreign} {
		o := o
		o.Subjects = other
		s := open(o)
		require.ErrorIs(t, s.Keyring(t.Context()), ledger.ErrUnavailable, name)
		status, err := s.Status(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, status.Keyring)
		require.ErrorIs(t, s.OpenRun(t.Context(), about("new "+name, "erika")), ledger.ErrUnavailable, name)
		require.ErrorIs(t, s.OpenRun(t.Context(), about("new "+name, "nobody")), ledger.ErrUnavailable, name)
		require.ErrorIs(t, s.EraseSubject(t.Context(), "erika", "asked"), ledger.ErrUnavailable, name)
		require.NoError(t, s.Close())
	}
	_, err = sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(dir, "other.db"), Origin: ledgertest.Origin, Subjects: foreign})
	require.ErrorIs(t, err, keyring.ErrForeign, "a new database takes no ring of another log")

	s = open(early)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.ErrorIs(t, s.OpenRun(t.Context(), about("y", "eve")), ledger.ErrUnavailable)
	require.NoError(t, s.EraseLost(t.Context(), "restored"))
	require.ErrorIs(t, s.EraseLost(t.Context(), "restored"), ledger.ErrNotFound)
	require.NoError(t, s.OpenRun(t.Context(), about("y", "eve")))
	require.NoError(t, s.EraseSubject(t.Context(), "eve", "asked"))
	for _, workflow := range []string{"w", "x", "y"} {
		r, err := s.Run(t.Context(), workflow, "")
		require.NoError(t, err)
		require.Empty(t, r.Requester, workflow)
	}
}

// Whoever may insert keys may insert any: an erasure passes over what is none, and erases every
// key of a person.
func TestForeignKeys(t *testing.T) {
	ring := ledgertest.Ring(t)
	path := filepath.Join(t.TempDir(), "ledger.db")
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Origin: ledgertest.Origin, Subjects: ring})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, s.OpenRun(t.Context(), about("w", "erika")))
	require.NoError(t, s.OpenRun(t.Context(), about("x", "max")))
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	all, err := ring.Generations()
	require.NoError(t, err)
	id := strings.Repeat("ab", 16)
	twin, err := all[0].Wrap(id, "erika", bytes.Repeat([]byte{1}, ledger.KeyBytes))
	require.NoError(t, err)
	for _, row := range [][]any{
		{id, strings.Repeat("cd", 32), all[0].Name, twin},
		{strings.Repeat("01", 16), strings.Repeat("01", 32), all[0].Name, []byte("garbage that no key has wrapped, ever")},
		{strings.Repeat("02", 16), strings.Repeat("02", 32), "00000009-0123456789abcdef", []byte("what a key has wrapped that is not there")},
	} {
		_, err = db.Exec("INSERT INTO subject_keys (id, lookup, generation, wrapped) VALUES (?, ?, ?, ?)", row...)
		require.NoError(t, err)
	}
	require.NoError(t, s.EraseSubject(t.Context(), "erika", "asked"))
	var left int
	require.NoError(t, db.QueryRow("SELECT count(*) FROM subject_keys").Scan(&left))
	require.Equal(t, 3, left, "max's, and two that are none")
	require.ErrorIs(t, s.EraseSubject(t.Context(), "erika", "asked"), ledger.ErrNotFound)
	require.NoError(t, s.EraseLost(t.Context(), "none"))
	r, err := s.Run(t.Context(), "x", "")
	require.NoError(t, err)
	require.Equal(t, "ada", r.Requester)
}

// The disk of the ring is lost for good: an erasure of those who are lost begins another ring, also
// if nobody is, and if a run of theirs is under legal hold.
func TestTheRingIsLost(t *testing.T) {
	for _, c := range []struct{ persons, held bool }{{false, false}, {true, false}, {true, true}} {
		ring := ledgertest.Ring(t)
		s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Origin: ledgertest.Origin, Subjects: ring})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		if c.persons {
			require.NoError(t, s.OpenRun(t.Context(), about("w", "erika")))
		}
		if c.held {
			require.NoError(t, s.PlaceLegalHold(t.Context(), ledger.RunChain("w", "r"), "case"))
		}
		require.NoError(t, os.RemoveAll(ring.String()))
		require.ErrorIs(t, s.OpenRun(t.Context(), about("x", "max")), ledger.ErrUnavailable)
		require.NoError(t, s.EraseLost(t.Context(), "the disk is lost"))
		all, err := ring.Generations()
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.NoError(t, s.OpenRun(t.Context(), about("x", "max")))
		if c.persons {
			r, err := s.Run(t.Context(), "w", "")
			require.NoError(t, err)
			require.Empty(t, r.Requester)
		}
	}
}

// A key file that cannot be read for a moment is no verdict on those whose keys it wraps: nobody
// but the one who asked is erased.
func TestTheRingComesAndGoes(t *testing.T) {
	ring := ledgertest.Ring(t)
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Origin: ledgertest.Origin, Subjects: ring})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	const persons = 20
	for i := range persons {
		require.NoError(t, s.OpenRun(t.Context(), about(fmt.Sprint("w", i), fmt.Sprint("person ", i))))
		require.NoError(t, s.OpenRun(t.Context(), about(fmt.Sprint("gone", i), fmt.Sprint("gone ", i))))
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if all, err := ring.Generations(); err == nil {
				path := filepath.Join(ring.String(), all[len(all)-1].Name+".key")
				if os.Rename(path, path+".away") == nil {
					_ = os.Rename(path+".away", path)
				}
			}
		}
	}()
	for i := range persons {
		// It may fail, and is asked for again.
		require.Eventually(t, func() bool {
			err := s.EraseSubject(t.Context(), fmt.Sprint("gone ", i), "asked")
			return err == nil || errors.Is(err, ledger.ErrNotFound)
		}, 5*time.Minute, time.Millisecond)
	}
	close(stop)
	<-ended
	for i := range persons {
		r, err := s.Run(t.Context(), fmt.Sprint("w", i), "")
		require.NoError(t, err)
		require.Equal(t, "ada", r.Requester)
	}
}
