package witness_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/sqlite"
	"chimera.ai/engine/ledger/witness"
)

const (
	patience = 5 * time.Minute
	look     = 5 * time.Millisecond
)

// world is a log with its key.
type world struct {
	store ledger.Store
	key   *ledger.Key
	seq   *ledger.Sequencer
	n     int
}

func newWorld(t testing.TB) *world {
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Origin: ledgertest.Origin})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	w := &world{store: s, key: ledgertest.Key(t)}
	w.seq = &ledger.Sequencer{Store: s, Key: w.key}
	w.grow(t, 3)
	return w
}

// grow adds entries and a checkpoint over them.
func (w *world) grow(t testing.TB, n int) {
	for range n {
		w.n++
		_, err := w.store.Append(context.WithoutCancel(t.Context()), ledger.Draft{Chain: "snapshots/s", Key: fmt.Sprint(w.n), Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{"server":"s"}`)})
		require.NoError(t, err)
	}
	placed, err := w.seq.Integrate(t.Context())
	require.NoError(t, err)
	require.Equal(t, n, placed)
}

// cosigned reports whether the latest checkpoint has a witness's cosignature.
func (w *world) cosigned(t testing.TB, key string) bool {
	raw, err := w.store.Checkpoint(t.Context())
	require.NoError(t, err)
	s, err := ledger.Signers{Log: w.key.Public(), Witnesses: []string{key}}.Open(raw)
	require.NoError(t, err)
	return len(s.Witnesses) == 1
}

func (w *world) until(t testing.TB, key string) {
	require.Eventually(t, func() bool { return w.cosigned(t, key) }, patience, look)
}

// begin lets an asker ask until the test ends.
func begin(t testing.TB, a *witness.Asker) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.Run(ctx)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

// lines is a log that may be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), s)
}

func (w *world) asker(s *server, key string, log io.Writer) *witness.Asker {
	return &witness.Asker{Log: w.store, Key: w.key.Public(), Pause: time.Millisecond, Longest: 4 * time.Millisecond,
		Transport: s.Client().Transport, Logger: slog.New(slog.NewTextHandler(log, nil)),
		Witnesses: []witness.Witness{{Name: "w1", Key: key, URL: s.URL + "/prefix/"}}}
}

// TestRemote: a witness written from the standard, with another library for
// proofs, cosigns the log as it grows; another process goes on where it is told
// that the witness stands.
func TestRemote(t *testing.T) {
	w := newWorld(t)
	s, key := newServer(t, w.key.Public())
	log := new(lines)
	first := w.asker(s, key, log)
	w.seq.Integrated = func([]byte) { first.Wake() }
	stop := begin(t, first)
	w.until(t, key)
	for i := range 5 {
		w.grow(t, 1+100*i)
		w.until(t, key)
	}
	stop()
	w.grow(t, 2)
	require.False(t, w.cosigned(t, key))
	second := w.asker(s, key, log)
	begin(t, second)
	w.until(t, key)
	require.Zero(t, log.count("level=WARN"))
	all, err := w.store.Cosigned(t.Context(), 100)
	require.NoError(t, err)
	require.Len(t, all, 7)
	for _, raw := range all {
		_, err := ledger.Signers{Log: w.key.Public(), Witnesses: []string{key}, Quorum: 1}.Open(raw)
		require.NoError(t, err)
	}
}

// TestNoCosignature: an answer that is not a cosignature is not stored, the
// operator is told once, and the log goes on; when the witness cosigns again, that
// is reported, too.
func TestNoCosignature(t *testing.T) {
	other, _, err := ledger.NewKey("witness.example.com/w1")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		answer func(w *world, rw http.ResponseWriter, body []byte)
		says   string
	}{
		"elsewhere": {func(_ *world, rw http.ResponseWriter, _ []byte) {
			rw.Header().Set("Location", "/prefix/add-checkpoint")
			rw.WriteHeader(307)
		}, "it points elsewhere (307)"},
		"unknown log": {func(_ *world, rw http.ResponseWriter, _ []byte) { rw.WriteHeader(404) }, "it does not know the log (404)"},
		"unknown key": {func(_ *world, rw http.ResponseWriter, _ []byte) { rw.WriteHeader(403) }, "it does not trust the log's key, or does not know the log (403)"},
		"no proof":    {func(_ *world, rw http.ResponseWriter, _ []byte) { rw.WriteHeader(422) }, "the proof does not convince it (422)"},
		"too often":   {func(_ *world, rw http.ResponseWriter, _ []byte) { rw.WriteHeader(429) }, "it is asked too often (429)"},
		"broken":      {func(_ *world, rw http.ResponseWriter, _ []byte) { rw.WriteHeader(503) }, "it answers with status 503"},
		"a huge answer": {func(_ *world, rw http.ResponseWriter, _ []byte) {
			_, _ = rw.Write(bytes.Repeat([]byte("— a AAAA\n"), 1<<16))
		}, "its answer has more than 16384 bytes"},
		"nothing":          {func(_ *world, rw http.ResponseWriter, _ []byte) {}, "its answer is no cosignature"},
		"another language": {func(_ *world, rw http.ResponseWriter, _ []byte) { _, _ = io.WriteString(rw, "<html>hello</html>\n") }, "its answer is no cosignature"},
		"a conflict without a size": {func(_ *world, rw http.ResponseWriter, _ []byte) {
			rw.WriteHeader(409)
			_, _ = io.WriteString(rw, "007\n")
		}, "it answers with a conflict, and not with the size that it knows"},
		"a longer log": {func(_ *world, rw http.ResponseWriter, _ []byte) {
			rw.WriteHeader(409)
			_, _ = io.WriteString(rw, "1000000\n")
		}, "it has cosigned a log of 1000000 entries, and this one has 3"},
		"another key of its name": {func(w *world, rw http.ResponseWriter, body []byte) {
			x, _ := ledger.NewWitness(other, w.key.Public(), nil)
			_, raw, _ := bytes.Cut(body, []byte("\n\n"))
			signed, _ := x.Cosign(raw, nil)
			_, _ = rw.Write(bytes.TrimPrefix(signed, raw))
		}, "its answer is no cosignature"},
		"it breaks off": {func(_ *world, rw http.ResponseWriter, _ []byte) {
			rw.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(rw, "— w")
		}, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s, key := newServer(t, w.key.Public())
			s.answer(func(rw http.ResponseWriter, r *http.Request) bool {
				body, _ := io.ReadAll(r.Body)
				c.answer(w, rw, body)
				return true
			})
			log := new(lines)
			a := w.asker(s, key, log)
			begin(t, a)
			require.Eventually(t, func() bool { return s.requests() > 4 }, patience, look)
			require.Equal(t, 1, log.count("the witness does not cosign; the log goes on without it"), "%s", &log.b)
			require.Equal(t, 1, log.count(c.says), "%s", &log.b)
			none, err := w.store.Cosigned(t.Context(), 1)
			require.NoError(t, err)
			require.Empty(t, none)
			s.answer(nil)
			w.until(t, key)
			require.Eventually(t, func() bool { return log.count("the witness cosigns again") == 1 }, patience, look)
		})
	}
}

// silent is a log that does not answer its first question.
type silent struct {
	witness.Log
	asked atomic.Bool
}

func (l *silent) Checkpoint(ctx context.Context) ([]byte, error) {
	if l.asked.CompareAndSwap(false, true) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return l.Log.Checkpoint(ctx)
}

// TestSilentLog: a question that the log's store never answers is not the last one.
func TestSilentLog(t *testing.T) {
	w := newWorld(t)
	s, key := newServer(t, w.key.Public())
	a := w.asker(s, key, io.Discard)
	a.Log, a.Within = &silent{Log: w.store}, time.Second
	begin(t, a)
	w.until(t, key)
}

// TestSlow: the log does not wait for a witness, and asks a slow one for the latest
// checkpoint and not for all of them.
func TestSlow(t *testing.T) {
	w := newWorld(t)
	s, key := newServer(t, w.key.Public())
	gate, entered := make(chan struct{}), make(chan struct{}, 100)
	s.answer(func(_ http.ResponseWriter, r *http.Request) bool {
		entered <- struct{}{}
		select {
		case <-gate:
		case <-r.Context().Done():
		}
		return false
	})
	a := w.asker(s, key, io.Discard)
	w.seq.Integrated = func([]byte) { a.Wake() }
	begin(t, a)
	<-entered
	for range 20 {
		w.grow(t, 1)
	}
	require.Equal(t, 1, s.requests())
	require.False(t, w.cosigned(t, key))
	close(gate)
	w.until(t, key)
	require.LessOrEqual(t, s.requests(), 4, "one was on its way, and one for the latest")
	// A late cosignature is stored with its own checkpoint.
	all, err := w.store.Cosigned(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, all, 2)
	c, err := ledger.ParseCheckpoint(all[1])
	require.NoError(t, err)
	require.Equal(t, int64(3), c.Size)

	// One that does not answer at all ends with the asker.
	hang := make(chan struct{})
	defer close(hang)
	s.answer(func(http.ResponseWriter, *http.Request) bool { entered <- struct{}{}; <-hang; return true })
	b := w.asker(s, key, io.Discard)
	w.grow(t, 1)
	stop := begin(t, b)
	<-entered
	stop()
}

// TestSplitView: a log that was made anew gets no cosignature.
func TestSplitView(t *testing.T) {
	w := newWorld(t)
	s, key := newServer(t, w.key.Public())
	stop := begin(t, w.asker(s, key, io.Discard))
	w.until(t, key)
	stop()
	log := new(lines)
	fresh, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "other.db"), Origin: ledgertest.Origin})
	require.NoError(t, err)
	defer func() { require.NoError(t, fresh.Close()) }()
	anew := &world{store: fresh, key: w.key, seq: &ledger.Sequencer{Store: fresh, Key: w.key}, n: 100}
	anew.grow(t, 5)
	begin(t, anew.asker(s, key, log))
	require.Eventually(t, func() bool { return log.count("the proof does not convince it (422)") == 1 }, patience, look)
	require.False(t, anew.cosigned(t, key))
}

// rolled is a log whose database was restored from a copy of the time of a checkpoint.
type rolled struct {
	witness.Log
	raw []byte
}

func (r rolled) Checkpoint(context.Context) ([]byte, error) { return r.raw, nil }

// TestRollback: a witness that shows its cosignature of more than the log has contradicts it,
// though it has cosigned the log's last checkpoint, too. One that merely says so is told of.
func TestRollback(t *testing.T) {
	for name, begins := range map[string]func(t *testing.T, w *world) (asker func(log io.Writer) *witness.Asker, key string){
		"HTTP": func(t *testing.T, w *world) (func(io.Writer) *witness.Asker, string) {
			s, key := newServer(t, w.key.Public())
			return func(log io.Writer) *witness.Asker { return w.asker(s, key, log) }, key
		},
		"folder": func(t *testing.T, w *world) (func(io.Writer) *witness.Asker, string) {
			a := newAttic(t, w.key.Public())
			done := make(chan struct{})
			answers := make(chan struct{})
			go func() {
				defer close(answers)
				for {
					select {
					case <-done:
						return
					default:
						_, _ = a.Answer()
					}
				}
			}()
			t.Cleanup(func() { close(done); <-answers })
			return func(log io.Writer) *witness.Asker { return a.asker(w, log) }, a.key
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			asker, key := begins(t, w)
			first := asker(io.Discard)
			w.seq.Integrated = func([]byte) { first.Wake() }
			stop := begin(t, first)
			w.grow(t, 3)
			w.until(t, key)
			old, err := w.store.Checkpoint(t.Context())
			require.NoError(t, err)
			require.NoError(t, asker(io.Discard).Check(t.Context()))
			w.grow(t, 4)
			w.until(t, key)
			stop()
			require.NoError(t, asker(io.Discard).Check(t.Context()))

			log := new(lines)
			restored := asker(log)
			restored.Log = rolled{w.store, old}
			err = restored.Check(t.Context())
			if name == "HTTP" {
				// Whoever answers in the witness's stead can say so, too: it stops nothing.
				require.NoError(t, err)
				log := new(lines)
				restored = asker(log)
				restored.Log, restored.Contradicted = rolled{w.store, old}, func(err error) { t.Errorf("it is believed: %s", err) }
				begin(t, restored)
				require.Eventually(t, func() bool { return log.count("level=ERROR") == 1 }, patience, look)
				require.Equal(t, 1, log.count("the witness says that it has cosigned another log"))
				return
			}
			require.ErrorIs(t, err, witness.ErrContradicted)
			require.ErrorIs(t, err, ledger.ErrProof, "which ends the sequencer")

			var mu sync.Mutex
			var told error
			restored.Again, restored.Contradicted = time.Millisecond, func(err error) {
				mu.Lock()
				defer mu.Unlock()
				told = err
			}
			begin(t, restored)
			require.Eventually(t, func() bool {
				mu.Lock()
				defer mu.Unlock()
				return errors.Is(told, witness.ErrContradicted)
			}, patience, look)
			require.NotZero(t, log.count("the witness contradicts the log, which signs nothing more"))
			require.Zero(t, log.count("goes on without it"))
		})
	}
}

func TestCheck(t *testing.T) {
	_, key, err := ledger.NewKey("w")
	require.NoError(t, err)
	_, second, err := ledger.NewKey("v")
	require.NoError(t, err)
	good := witness.Witness{Name: "a", Key: key, URL: "https://witness.example.com/x"}
	require.NoError(t, witness.CheckAll([]witness.Witness{good, {Name: "b", Key: second, Dir: "d"}}, 2))
	for says, w := range map[string]witness.Witness{
		"is not a verifier key":               {Name: "a", Key: "no", Dir: "d"},
		"has neither file nor url":            {Name: "a", Key: key},
		"has both file and url":               {Name: "a", Key: key, Dir: "d", URL: good.URL},
		"is not one such as":                  {Name: "a", Key: key, URL: "ftp://x"},
		"must be https":                       {Name: "a", Key: key, URL: "http://witness.example.com"},
		"has more than a host and a path":     {Name: "a", Key: key, URL: "https://user:password@witness.example.com"},
		"has more than a host and a path\x00": {Name: "a", Key: key, URL: "https://witness.example.com/?x=1"},
	} {
		require.ErrorContains(t, w.Check(), strings.TrimSuffix(says, "\x00"))
	}
	require.NoError(t, witness.Witness{Name: "a", Key: key, URL: "http://127.0.0.1:8080/"}.Check())
	require.ErrorContains(t, witness.CheckAll([]witness.Witness{good, good}, 0), "is listed twice")
	require.ErrorContains(t, witness.CheckAll([]witness.Witness{good}, 2), "2 of 1 witnesses cannot cosign")
}

// TestCheckCutShort: a check whose caller has gone asks again at once.
func TestCheckCutShort(t *testing.T) {
	w := newWorld(t)
	s, key := newServer(t, w.key.Public())
	a := w.asker(s, key, io.Discard)
	var asked atomic.Int32
	a.Transport = transport(func(*http.Request) (*http.Response, error) {
		asked.Add(1)
		return nil, errors.New("nobody is there")
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, a.Check(ctx))
	require.NoError(t, a.Check(t.Context()))
	require.EqualValues(t, 1, asked.Load())
	require.NoError(t, a.Check(t.Context()))
	require.EqualValues(t, 1, asked.Load(), "that one counts")
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
