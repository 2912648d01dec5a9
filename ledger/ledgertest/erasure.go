package ledgertest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/keyring"
)

// Erasure tests that nothing about a person is ever in the files of a database in the
// clear, in any table; and that once the person is erased, no key that opens what is there
// exists. The store wraps with ring; dir is the folder of the database, and flush makes it
// write all that it has.
func Erasure(t *testing.T, s ledger.Store, ring *keyring.Ring, dir string, flush func()) {
	ctx := t.Context()
	const mark = "erika-mustermann"
	said := json.RawMessage(`{"kind":"tool_error","message":"` + mark + `"}`)
	guess := digest(mark)
	about := run()
	about.Subject, about.Requester, about.Agent, about.InputDigest = mark, mark, "payer", guess
	require.NoError(t, s.SetBudget(ctx, ledger.Budget{Agent: "payer", Currency: "USD", Every: ledger.Forever, Limit: usd(t, 100)}))
	require.NoError(t, s.OpenRun(ctx, about))
	require.NoError(t, s.RecordOutcomes(ctx, "w", "r1", []ledger.Outcome{{Node: "a", Kind: ledger.NodeFailed, InputDigest: guess, OutputDigest: guess, Error: said}}))
	order := ledger.Order{Kind: ledger.RunPaused, N: 1, By: mark, Reason: mark}
	require.NoError(t, s.RecordOrder(ctx, "w", "r1", order))
	order.Kind, order.N = ledger.RunResumed, 2
	require.NoError(t, s.RecordOrder(ctx, "w", "r1", order))
	_, err := s.RecordCheck(ctx, about, ledger.Check{Node: "c", Visit: 1, State: ledger.CheckSucceeded, InputDigest: guess, OutputDigest: guess})
	require.NoError(t, err)

	// One effect that is approved and done, and one that waits.
	later := ledger.At(time.Now().Add(time.Hour))
	var salts [][]byte
	ask := func(id string) ledger.Authorization {
		a := Ask(id, id)
		a.Task.Description = mark
		a.Digest = func(salt []byte) (string, error) {
			salts = append(salts, salt)
			return digest(id), nil
		}
		return a
	}
	wait := func(id string) ledger.Awaited {
		got, err := s.Authorize(ctx, about, ask(id), func(st ledger.Standing) (ledger.Ruling, error) {
			r, err := Rule("ESCALATE")(st)
			r.Waits, r.Decision.Reason = &later, mark
			r.Evidence = ledger.Packet{Parts: []ledger.Part{{Name: "action", Data: said}}}
			return r, err
		})
		require.NoError(t, err)
		return ledger.Awaited{Invocation: id, Action: digest(id), Decision: got.Decision.ID}
	}
	one, two := wait("one"), wait("two")
	for id, x := range map[string]ledger.Awaited{"b1": one, "b2": two} {
		_, err := s.OpenBarrier(ctx, about, ledger.Barrier{ID: id, Name: "b", Actions: []ledger.Awaited{x}, Request: said, ExpiresAt: later})
		require.NoError(t, err)
	}
	require.NoError(t, s.RecordApproval(ctx, about, ledger.Approval{ID: "s1", Barrier: "b1", Signer: "s", Accepted: true, Actions: []string{one.Action}, Envelope: said}))
	_, err = s.ApproveBarrier(ctx, "b1", mark, false)
	require.NoError(t, err)
	a := ask("one")
	a.Barrier, a.Approvals = "b1", []string{"s1"}
	permit := func(st ledger.Standing) (ledger.Ruling, error) {
		r, err := Rule(ledger.Approve)(st)
		r.Permit = said
		return r, err
	}
	got, err := s.Authorize(ctx, about, a, permit)
	require.NoError(t, err)
	called, err := s.Claim(ctx, "one", got.Decision.ID, "token", time.Minute)
	require.NoError(t, err)
	_, err = s.Settle(ctx, "one", ledger.Effect{
		Settlement: ledger.Settlement{Attempt: called.Attempt, State: ledger.Settled, OutputDigest: guess}, Token: "token", Output: []byte(mark), Result: said,
	})
	require.NoError(t, err)
	done, err := s.Invocation(ctx, "one")
	require.NoError(t, err)
	require.Equal(t, mark, string(done.Output), "who has the keys reads it")
	require.Equal(t, guess, done.OutputDigest)
	about.State, about.OutputDigest, about.Value = ledger.RunSucceeded, guess, []byte(mark)
	_, _, err = s.CloseRun(ctx, about, nil)
	require.NoError(t, err)
	closed, err := s.Run(ctx, "w", "r1")
	require.NoError(t, err)
	require.Equal(t, mark, string(closed.Value))

	// Somebody else, who stays.
	other := run()
	other.Workflow, other.Root, other.Origin, other.Subject, other.Requester = "x", "x", "x", "max", "max"
	require.NoError(t, s.OpenRun(ctx, other))

	flush()
	require.NotEmpty(t, salts)
	hidden := [][]byte{[]byte(mark), []byte(guess), []byte(base64.StdEncoding.EncodeToString([]byte(mark)))}
	hidden = append(hidden, salts...)
	all, err := ring.Generations()
	require.NoError(t, err)
	require.Len(t, all, 1)
	secret := generation(t, ring, all[0].Name)
	hidden = append(hidden, secret)
	requireNowhere(t, dir, hidden...)

	require.NoError(t, s.EraseSubject(ctx, mark, "asked"))
	flush()
	requireNowhere(t, dir, hidden...)
	all, err = ring.Generations()
	require.NoError(t, err)
	require.Len(t, all, 1, "the key that wrapped it is destroyed")
	require.NotEqual(t, secret, generation(t, ring, all[0].Name))
	requireNowhere(t, ring.String(), secret, []byte(base64.StdEncoding.EncodeToString(secret)))
	r, err := s.Run(ctx, "x", "")
	require.NoError(t, err)
	require.Equal(t, "max", r.Requester, "what is about somebody else is read as before")
	require.ErrorIs(t, s.EraseSubject(ctx, mark, "asked"), ledger.ErrNotFound)
}

// generation reads the key of a generation.
func generation(t testing.TB, ring *keyring.Ring, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(ring.String(), name+".key"))
	require.NoError(t, err)
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(raw)))
	require.NoError(t, err)
	return key
}

// requireNowhere requires that no file in a folder has any of some texts.
func requireNowhere(t testing.TB, dir string, texts ...[]byte) {
	t.Helper()
	files := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for _, x := range texts {
			if bytes.Contains(raw, x) {
				t.Errorf("%s has %q", path, x)
			}
		}
		return nil
	}))
	require.Positive(t, files)
}
