package witness_test

import (
	"bytes"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/sqlite"
	"chimera.ai/engine/ledger/witness"
)

// attic is a witness that shares a folder.
type attic struct {
	witness.Cosigner
	key string
}

func newAttic(t testing.TB, log string) *attic {
	secret, public, err := ledger.NewKey("attic")
	require.NoError(t, err)
	return &attic{witness.Cosigner{Secret: secret, Log: log, Dir: t.TempDir(), State: filepath.Join(t.TempDir(), "state")}, public}
}

func (a *attic) asker(w *world, log io.Writer) *witness.Asker {
	return &witness.Asker{Log: w.store, Key: w.key.Public(), Pause: time.Millisecond, Longest: 4 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(log, nil)), Witnesses: []witness.Witness{{Name: "attic", Key: a.key, Dir: a.Dir}}}
}

// wanted waits until the log asks for a checkpoint of that size, from the other one
// on.
func (a *attic) wanted(t testing.TB, old, size int64) {
	require.Eventually(t, func() bool {
		raw, err := os.ReadFile(filepath.Join(a.Dir, witness.RequestFile))
		if err != nil {
			return false
		}
		r, err := witness.ParseRequest(raw)
		require.NoError(t, err)
		c, err := ledger.ParseCheckpoint(r.Checkpoint)
		require.NoError(t, err)
		return r.Old == old && c.Size == size
	}, patience, look)
}

func (a *attic) answer(t testing.TB) witness.Answer {
	got, err := a.Answer()
	require.NoError(t, err)
	return got
}

// TestFolder: a witness that shares a folder cosigns what extends the last, at
// whatever time it looks.
func TestFolder(t *testing.T) {
	w := newWorld(t)
	a := newAttic(t, w.key.Public())
	_, err := a.Answer()
	require.ErrorIs(t, err, fs.ErrNotExist, "nobody has asked")
	log := new(lines)
	asker := a.asker(w, log)
	w.seq.Integrated = func([]byte) { asker.Wake() }
	begin(t, asker)
	a.wanted(t, 0, 3)
	require.Equal(t, witness.Answer{Size: 3, New: true}, a.answer(t))
	w.until(t, a.key)
	require.Equal(t, witness.Answer{Size: 3, Before: 3}, a.answer(t), "once is enough")

	// It does not look for a while; the log asks for the latest checkpoint from
	// the last one on.
	w.grow(t, 4)
	a.wanted(t, 3, 7)
	w.grow(t, 300)
	a.wanted(t, 3, 307)
	require.Equal(t, witness.Answer{Size: 307, Before: 3, New: true}, a.answer(t))
	w.until(t, a.key)

	// The folder is lost, or put back: the witness says again where it stands.
	require.NoError(t, os.Remove(filepath.Join(a.Dir, witness.ReplyFile)))
	w.grow(t, 1)
	a.wanted(t, 0, 308)
	if got := a.answer(t); !got.New { // else the log has asked anew meanwhile
		require.Equal(t, witness.Answer{Size: 307, Before: 307}, got)
		a.wanted(t, 307, 308)
		require.True(t, a.answer(t).New)
	}
	w.until(t, a.key)

	// Its state is lost, and it goes on from its own reply.
	require.NoError(t, os.Remove(a.State))
	w.grow(t, 1)
	a.wanted(t, 308, 309)
	require.Equal(t, witness.Answer{Size: 309, Before: 308, New: true}, a.answer(t))
	w.until(t, a.key)
	require.Zero(t, log.count("level=WARN"))

	// The log gets another key: the witness trusts it from now on, and still
	// demands a proof from what it has signed before.
	former := w.key.Public()
	w.key = ledgertest.Key(t)
	w.seq.Key, w.seq.Former = w.key, []string{former}
	log = new(lines)
	asker = a.asker(w, log)
	w.seq.Integrated = func([]byte) { asker.Wake() }
	begin(t, asker)
	n, err := w.seq.Integrate(t.Context())
	require.NoError(t, err)
	require.Zero(t, n, "the same tree, signed again")
	w.grow(t, 2)
	a.wanted(t, 309, 311)
	_, err = a.Answer()
	require.ErrorIs(t, err, witness.ErrRefused)
	a.Log = w.key.Public()
	require.Equal(t, witness.Answer{Size: 311, Before: 309, New: true}, a.answer(t))
	w.until(t, a.key)
	require.Zero(t, log.count("level=WARN"))
}

// TestCosignerRefuses: requests that a witness must not sign.
func TestCosignerRefuses(t *testing.T) {
	w := newWorld(t)
	a := newAttic(t, w.key.Public())
	begin(t, a.asker(w, io.Discard))
	a.wanted(t, 0, 3)
	require.True(t, a.answer(t).New)
	w.until(t, a.key)
	state, err := os.ReadFile(a.State)
	require.NoError(t, err)
	request := filepath.Join(a.Dir, witness.RequestFile)

	// A log that was made anew with the same key, longer, shorter and as long.
	for _, n := range []int{2, 3, 6} {
		s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "other.db"), Origin: ledgertest.Origin})
		require.NoError(t, err)
		anew := &world{store: s, key: w.key, seq: &ledger.Sequencer{Store: s, Key: w.key}, n: 100}
		anew.grow(t, n)
		raw, err := s.Checkpoint(t.Context())
		require.NoError(t, err)
		c, err := ledger.ParseCheckpoint(raw)
		require.NoError(t, err)
		var proof []ledger.Hash
		if n > 3 {
			proof, err = ledger.OpenTree(t.Context(), c, s).ProveExtends(3)
			require.NoError(t, err)
		}
		require.NoError(t, s.Close())
		require.NoError(t, os.WriteFile(request, witness.Request{Old: 3, Proof: proof, Checkpoint: raw}.Encode(), 0o600))
		_, err = a.Answer()
		require.ErrorIs(t, err, witness.ErrRefused, "%d entries", n)
	}
	stranger := ledgertest.Key(t)
	foreign, err := stranger.Sign(ledger.Checkpoint{Origin: ledgertest.Origin, Size: 9})
	require.NoError(t, err)
	for _, bad := range [][]byte{
		nil, []byte("old 3\n"), []byte("old 3\n\n"), []byte("old 03\n\nx"), []byte("old -1\n\nx"), []byte("\n\n"),
		witness.Request{Old: 3, Checkpoint: foreign}.Encode(),
	} {
		require.NoError(t, os.WriteFile(request, bad, 0o600))
		_, err := a.Answer()
		require.ErrorIs(t, err, witness.ErrRefused, "%q", bad)
	}
	require.NoError(t, os.WriteFile(request, make([]byte, 1<<20), 0o600))
	_, err = a.Answer()
	require.ErrorContains(t, err, "has more than")
	require.NoError(t, os.Remove(request))
	require.NoError(t, os.Symlink(a.State, request))
	_, err = a.Answer()
	require.ErrorContains(t, err, "is not a file")
	require.NoError(t, os.Remove(request))
	require.NoError(t, syscall.Mkfifo(request, 0o600))
	_, err = a.Answer()
	require.ErrorContains(t, err, "is not a file")
	after, err := os.ReadFile(a.State)
	require.NoError(t, err)
	require.Equal(t, string(state), string(after), "nothing of it was signed")

	// A state that it has not signed does not count.
	require.NoError(t, os.WriteFile(a.State, foreign, 0o600))
	_, err = a.Answer()
	require.ErrorContains(t, err, "cosigned last")
}

// TestHostileFolder: a reply that is not a cosignature is reported, and not stored.
func TestHostileFolder(t *testing.T) {
	for name, put := range map[string]struct {
		do   func(t *testing.T, w *world, a *attic, path string)
		says string
	}{
		"text": {func(t *testing.T, _ *world, _ *attic, path string) {
			require.NoError(t, os.WriteFile(path, []byte("hello"), 0o600))
		}, "is not a checkpoint that it has cosigned"},
		"a checkpoint without a cosignature": {func(t *testing.T, w *world, _ *attic, path string) {
			raw, err := w.store.Checkpoint(t.Context())
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, raw, 0o600))
		}, "is not a checkpoint that it has cosigned"},
		"a huge file": {func(t *testing.T, _ *world, _ *attic, path string) {
			require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("x"), 1<<20), 0o600))
		}, "has more than 65536 bytes"},
		"a link": {func(t *testing.T, _ *world, a *attic, path string) {
			require.NoError(t, os.Symlink("/etc/passwd", path))
		}, "is not a file"},
		"a pipe": {func(t *testing.T, _ *world, _ *attic, path string) { require.NoError(t, syscall.Mkfifo(path, 0o600)) }, "is not a file"},
		"another tree": {func(t *testing.T, w *world, a *attic, path string) {
			// The witness has signed a tree that this log never had.
			raw, err := w.key.Sign(ledger.Checkpoint{Origin: ledgertest.Origin, Size: 3, Root: ledger.Hash{1}})
			require.NoError(t, err)
			x, err := ledger.NewWitness(a.Secret, w.key.Public(), nil)
			require.NoError(t, err)
			raw, err = x.Cosign(raw, nil)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, raw, 0o600))
		}, "a witness has cosigned another log"},
		"another log": {func(t *testing.T, _ *world, a *attic, path string) {
			secret, public, err := ledger.NewKey("other.example.com/log")
			require.NoError(t, err)
			key, err := ledger.ParseKey(secret)
			require.NoError(t, err)
			raw, err := key.Sign(ledger.Checkpoint{Origin: key.Name(), Root: ledger.EmptyRoot()})
			require.NoError(t, err)
			x, err := ledger.NewWitness(a.Secret, public, nil)
			require.NoError(t, err)
			raw, err = x.Cosign(raw, nil)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, raw, 0o600))
		}, "is of the log"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := newAttic(t, w.key.Public())
			put.do(t, w, a, filepath.Join(a.Dir, witness.ReplyFile))
			log := new(lines)
			begin(t, a.asker(w, log))
			require.Eventually(t, func() bool { return log.count(put.says) == 1 }, patience, look)
			none, err := w.store.Cosigned(t.Context(), 1)
			require.NoError(t, err)
			require.Empty(t, none)
			w.grow(t, 1)
		})
	}
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte("old 0\n\nx"))
	f.Add(witness.Request{Old: 7, Proof: []ledger.Hash{{1}, {2}}, Checkpoint: []byte("a\n1\nb\n\n— c d\n")}.Encode())
	f.Add([]byte("old 9223372036854775807\nAAAA\n\n"))
	// Base64 that decodes to a hash and is not the text of one.
	f.Add([]byte("old 1\n" + strings.Repeat("A", 43) + "=\r\n\nx"))
	f.Add([]byte("old 1\n" + strings.Repeat("A", 42) + "B=\n\nx"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := witness.ParseRequest(raw)
		if err == nil {
			require.Equal(t, string(raw), string(r.Encode()), "a request has one form")
		}
	})
}
