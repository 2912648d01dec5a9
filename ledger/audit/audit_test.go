package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/keyring"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/postgres"
	"chimera.ai/engine/ledger/sqlite"
)

// world is a store with some history, its key, and what an auditor trusts.
type world struct {
	store ledger.Store
	key   *ledger.Key
	trust audit.Trust
	dir   string
}

func TestMain(m *testing.M) {
	code := pgtest.Main(m)
	if first.dir != "" {
		_ = os.RemoveAll(first.dir)
	}
	os.Exit(code)
}

// stores open a new store of each kind.
var stores = map[string]func(t testing.TB) ledger.Store{
	"sqlite": func(t testing.TB) ledger.Store {
		s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Origin: ledgertest.Origin, Subjects: ledgertest.Ring(t)})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	},
	"postgres": func(t testing.TB) ledger.Store {
		o := postgres.Options{URL: pgtest.URL(t), Origin: ledgertest.Origin, Subjects: ledgertest.Ring(t)}
		_, err := postgres.Migrate(t.Context(), o)
		require.NoError(t, err)
		s, err := postgres.Open(t.Context(), o)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	},
}

// onBoth runs a test on exports of both stores.
func onBoth(t *testing.T, test func(t *testing.T, base *world)) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) { test(t, worldOf(t, open(t))) })
	}
}

// newWorld returns a world of its own in SQLite: a copy of the first one, since its
// story takes a second to tell.
func newWorld(t testing.TB) *world {
	const file = "ledger.db"
	first.once.Do(func() {
		dir, err := os.MkdirTemp("", "world-")
		require.NoError(t, err)
		s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(dir, file), Origin: ledgertest.Origin, Subjects: keyring.At(filepath.Join(dir, "subjects"))})
		require.NoError(t, err)
		w := worldOf(t, s)
		require.NoError(t, s.Close())
		require.NoError(t, os.CopyFS(filepath.Join(dir, "export"), os.DirFS(w.dir)))
		first.dir, first.world = dir, w
	})
	require.NotEmpty(t, first.dir, "the first world could not be made")
	w := *first.world
	w.dir = filepath.Join(t.TempDir(), "export")
	require.NoError(t, os.CopyFS(w.dir, os.DirFS(filepath.Join(first.dir, "export"))))
	at := filepath.Join(t.TempDir(), file)
	whole, err := os.ReadFile(filepath.Join(first.dir, file))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(at, whole, 0o600))
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: at, Origin: ledgertest.Origin, Subjects: keyring.At(filepath.Join(first.dir, "subjects"))})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	w.store = s
	return &w
}

// first is the world that others are copied from, in a folder of its own.
var first struct {
	once  sync.Once
	dir   string
	world *world
}

func worldOf(t testing.TB, s ledger.Store) *world {
	w := &world{store: s, key: ledgertest.Key(t)}
	w.trust = audit.Trust{Format: audit.TrustFormat, Origin: ledgertest.Origin, Log: w.key.Public()}
	ledgertest.Story(t, s, false)
	for i := range 5 {
		w.run(t, fmt.Sprintf("more-%d", i), 12, true)
	}
	w.run(t, "open", 3, false)
	ledgertest.Drain(t, s, w.key)
	w.export(t)
	return w
}

// run states a run of so many nodes.
func (w *world) run(t testing.TB, id string, nodes int, closed bool) {
	r := ledger.Run{Workflow: id, Root: "r", Origin: "r", PlanDigest: ledger.BodyDigest([]byte("p")), InputDigest: ledger.BodyDigest([]byte("i")), Agent: "agent-42"}
	require.NoError(t, w.store.OpenRun(t.Context(), r))
	var outcomes []ledger.Outcome
	for i := range nodes {
		outcomes = append(outcomes, ledger.Outcome{Node: fmt.Sprintf("n%d", i), Kind: ledger.NodeSucceeded, OutputDigest: ledger.BodyDigest(fmt.Append(nil, i))})
	}
	require.NoError(t, w.store.RecordOutcomes(t.Context(), id, "r", outcomes))
	if closed {
		r.State = ledger.RunSucceeded
		_, _, err := w.store.CloseRun(t.Context(), r, nil)
		require.NoError(t, err)
	}
}

func (w *world) export(t testing.TB) {
	w.dir = filepath.Join(t.TempDir(), "export")
	_, err := audit.Export(t.Context(), w.store, w.dir)
	require.NoError(t, err)
}

func (w *world) read(t testing.TB, name string) []byte {
	b, err := os.ReadFile(filepath.Join(w.dir, name))
	require.NoError(t, err)
	return b
}

func (w *world) write(t testing.TB, name string, b []byte) {
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, name), b, 0o600))
}

func linesOf(b []byte) [][]byte {
	l := bytes.SplitAfter(b, []byte("\n"))
	return l[:len(l)-1]
}

func (w *world) verify(t testing.TB, against []byte) audit.Report {
	r, err := audit.Verify(w.dir, w.trust, against)
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, r.WriteText(&text, time.Now()))
	require.Equal(t, r.OK, bytes.HasPrefix(text.Bytes(), []byte("verified: ")))
	return r
}

func kinds(r audit.Report) []audit.ProblemKind {
	var out []audit.ProblemKind
	for _, p := range r.Problems {
		out = append(out, p.Kind)
	}
	return out
}

// sign signs a tree over lines as the log's key would.
func (w *world) sign(t testing.TB, key *ledger.Key, lines [][]byte) []byte {
	var f ledger.Frontier
	for _, l := range lines {
		f.Add(ledger.LeafHash(bytes.TrimSuffix(l, []byte("\n"))))
	}
	raw, err := key.Sign(ledger.Checkpoint{Origin: ledgertest.Origin, Size: f.Size(), Root: f.Root()})
	require.NoError(t, err)
	return raw
}

func TestAnHonestExportVerifies(t *testing.T) {
	w := newWorld(t)
	r := w.verify(t, w.read(t, audit.CheckpointFile))
	require.True(t, r.OK, "%v", r.Problems)
	require.Len(t, r.Warnings, 3, "nobody knows of what decision a hypothesis is, the trust file has no bootstrap, and runs without a grant had effects")
	require.Equal(t, audit.BadStory, r.Warnings[0].Kind)
	require.Equal(t, audit.BadAuthority, r.Warnings[1].Kind)
	require.Equal(t, 7, r.Runs)
	require.Equal(t, 1, r.Open)
	require.Equal(t, "open", r.OpenRuns[0].Workflow)
	require.Zero(t, r.Pending)
	raw, err := json.Marshal(r)
	require.NoError(t, err)
	require.Contains(t, string(raw), `"ok":true`)

	// Later: the log has grown, what was pruned is explained, what is sealed and
	// erased is not read, and the older checkpoint is held against it.
	old := w.read(t, audit.CheckpointFile)
	_, err = w.store.Append(t.Context(), ledger.Draft{Chain: "snapshots/x", Key: "1", Kind: ledger.SnapshotTaken, Subject: "person", Data: json.RawMessage(`{"server":"s","fingerprint":"","digest":"","taken_at":"2026-01-01T00:00:00.000Z"}`)})
	require.NoError(t, err)
	n, err := w.store.Prune(t.Context(), ledger.Operational, time.Now().Add(time.Hour), "old")
	require.NoError(t, err)
	require.Positive(t, n)
	ledgertest.Drain(t, w.store, w.key)
	w.run(t, "late", 1, true)
	w.export(t)
	r = w.verify(t, old)
	require.True(t, r.OK, "%v", r.Problems)
	require.Positive(t, r.Missing)
	require.Equal(t, int64(1), r.Sealed)
	require.Equal(t, int64(3), r.Pending)
}

// TestTampering changes a real export in every way that an operator could, with
// the log's key in hand where that helps.
func TestTampering(t *testing.T) {
	onBoth(t, tampering)
}

func tampering(t *testing.T, base *world) {
	old := base.sign(t, base.key, linesOf(base.read(t, audit.EntriesFile))[:20])
	stranger := ledgertest.Key(t)
	cut := func(l [][]byte, i int) [][]byte { return slices.Delete(slices.Clone(l), i, i+1) }
	for _, c := range []struct {
		name    string
		change  func(w *world, entries, bodies [][]byte) ([][]byte, [][]byte)
		against bool
		want    audit.ProblemKind
		says    string
	}{
		{"an entry is dropped", func(_ *world, e, b [][]byte) ([][]byte, [][]byte) { return cut(e, 45), b }, false, audit.BadRoot, "others were cut off or dropped"},
		{"an entry is dropped and the tree signed again", func(w *world, e, b [][]byte) ([][]byte, [][]byte) {
			e = cut(e, 49)
			w.write(t, audit.CheckpointFile, w.sign(t, w.key, e))
			return e, b
		}, false, audit.BadChain, "follows entry"},
		{"two entries are swapped", func(w *world, e, b [][]byte) ([][]byte, [][]byte) {
			e[40], e[41] = e[41], e[40]
			return e, b
		}, false, audit.BadRoot, "are not those that were signed: their root is"},
		{"an entry is there twice", func(w *world, e, b [][]byte) ([][]byte, [][]byte) { return slices.Insert(e, 31, e[30]), b }, false, audit.BadRoot, "some were added"},
		{"an entry is added", func(w *world, e, b [][]byte) ([][]byte, [][]byte) {
			e = append(e, bytes.Replace(e[len(e)-1], []byte(`"n":`), []byte(`"n":9`), 1))
			w.write(t, audit.CheckpointFile, w.sign(t, w.key, e))
			return e, b
		}, false, audit.BadChain, "follows entry"},
		{"the tail is cut", func(_ *world, e, b [][]byte) ([][]byte, [][]byte) { return e[:len(e)-4], b }, false, audit.BadRoot, "others were cut off or dropped"},
		{"the tail is cut and signed by another key", func(w *world, e, b [][]byte) ([][]byte, [][]byte) {
			e = e[:len(e)-4]
			w.write(t, audit.CheckpointFile, w.sign(t, stranger, e))
			return e, b
		}, false, audit.BadCheckpoint, "signature"},
		{"the log is shorter than it was", func(w *world, e, b [][]byte) ([][]byte, [][]byte) {
			e = e[:10]
			w.write(t, audit.CheckpointFile, w.sign(t, w.key, e))
			return e, b[:10]
		}, true, audit.BadHistory, "the log has shrunk"},
		{"the tree is made anew with the log's key", func(w *world, e, b [][]byte) ([][]byte, [][]byte) {
			// One fact less, and every chain relinked.
			var kept [][]byte
			last := map[string]*ledger.Entry{}
			hashes := map[string]ledger.Hash{}
			for i, l := range e {
				x, err := ledger.DecodeEntry(bytes.TrimSuffix(l, []byte("\n")))
				require.NoError(t, err)
				if i == 12 {
					continue
				}
				x.N, x.Prev = 0, ledger.Hash{}
				if p := last[x.Chain]; p != nil {
					x.N, x.Prev = p.N+1, hashes[x.Chain]
				}
				raw, err := x.Encode()
				require.NoError(t, err)
				last[x.Chain], hashes[x.Chain] = x, ledger.LeafHash(raw)
				kept = append(kept, append(raw, '\n'))
			}
			w.write(t, audit.CheckpointFile, w.sign(t, w.key, kept))
			return kept, cut(b, 12)
		}, true, audit.BadHistory, "the log was made anew"},
		{"the checkpoint is another log's", func(w *world, e, b [][]byte) ([][]byte, [][]byte) {
			secret, _, err := ledger.NewKey("other.example.com/log")
			require.NoError(t, err)
			key, err := ledger.ParseKey(secret)
			require.NoError(t, err)
			raw, err := key.Sign(ledger.Checkpoint{Origin: "other.example.com/log"})
			require.NoError(t, err)
			w.write(t, audit.CheckpointFile, raw)
			return e, b
		}, false, audit.BadCheckpoint, "the export is one of the log other.example.com/log"},
		{"a signature is exchanged", func(w *world, e, b [][]byte) ([][]byte, [][]byte) {
			mine, theirs := w.read(t, audit.CheckpointFile), w.sign(t, w.key, e[:5])
			text, _, _ := bytes.Cut(mine, []byte("\n\n"))
			_, signature, _ := bytes.Cut(theirs, []byte("\n\n"))
			w.write(t, audit.CheckpointFile, slices.Concat(text, []byte("\n\n"), signature))
			return e, b
		}, false, audit.BadCheckpoint, "signature"},
		{"a body is dropped", func(_ *world, e, b [][]byte) ([][]byte, [][]byte) { return e, cut(b, 7) }, false, audit.BadBody, "its body is not there"},
		{"two bodies are swapped", func(_ *world, e, b [][]byte) ([][]byte, [][]byte) {
			b[7], b[8] = b[8], b[7]
			return e, b
		}, false, audit.BadBody, "1 body too many before that of this entry"},
		{"a body is added", func(_ *world, e, b [][]byte) ([][]byte, [][]byte) { return e, append(b, b[3]) }, false, audit.BadBody, "that no entry has"},
		{"a body says something else", func(_ *world, e, b [][]byte) ([][]byte, [][]byte) {
			b[9] = bytes.Replace(b[9], []byte(`"data"`), []byte(`"dxta"`), 1)
			return e, b
		}, false, audit.BadBody, "1 body too many before that of this entry"},
		{"no entries", func(*world, [][]byte, [][]byte) ([][]byte, [][]byte) { return nil, nil }, false, audit.BadRoot, "0 are here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := *base
			w.export(t)
			entries, bodies := c.change(&w, linesOf(w.read(t, audit.EntriesFile)), linesOf(w.read(t, audit.BodiesFile)))
			w.write(t, audit.EntriesFile, bytes.Join(entries, nil))
			w.write(t, audit.BodiesFile, bytes.Join(bodies, nil))
			var against []byte
			if c.against {
				against = old
			}
			r := w.verify(t, against)
			require.False(t, r.OK)
			require.True(t, slices.ContainsFunc(r.Problems, func(p audit.Problem) bool { return p.Kind == c.want && strings.Contains(p.Message, c.says) }), "%v", r.Problems)
		})
	}
	t.Run("a run's last entries were never sequenced", func(t *testing.T) {
		w := *base
		w.run(t, "withheld", 2, true)
		w.export(t)
		r := w.verify(t, nil)
		require.True(t, r.OK, "what is there is true")
		require.Equal(t, int64(4), r.Pending, "and what is not there yet shows")
		// Withheld completely after the run has begun: it stays open.
		require.Contains(t, fmt.Sprint(r.OpenRuns), "open")
	})
	t.Run("keys are not taken from the export", func(t *testing.T) {
		w := *base
		w.export(t)
		w.write(t, "trust.json", fmt.Appendf(nil, `{"format":%q,"origin":%q,"log":%q}`, audit.TrustFormat, ledgertest.Origin, stranger.Public()))
		w.write(t, audit.CheckpointFile, w.sign(t, stranger, linesOf(w.read(t, audit.EntriesFile))))
		require.Contains(t, kinds(w.verify(t, nil)), audit.BadCheckpoint)
	})
}

// TestEveryBit: a flipped bit anywhere in an export is found.
func TestEveryBit(t *testing.T) {
	w := newWorld(t)
	random := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{audit.EntriesFile, audit.BodiesFile, audit.CheckpointFile} {
		whole := w.read(t, name)
		for range 150 {
			bad := bytes.Clone(whole)
			at := random.IntN(len(bad))
			bad[at] ^= 1 << random.IntN(8)
			w.write(t, name, bad)
			r := w.verify(t, nil)
			require.False(t, r.OK, "%s, byte %d of %d", name, at, len(bad))
		}
		w.write(t, name, whole)
	}
	require.True(t, w.verify(t, nil).OK)
}

func TestWitnesses(t *testing.T) {
	w := newWorld(t)
	secret, public, err := ledger.NewKey("witness.example.com")
	require.NoError(t, err)
	w.trust.Witnesses, w.trust.Quorum = []string{public}, 1
	require.Equal(t, []audit.ProblemKind{audit.BadCheckpoint}, kinds(w.verify(t, nil)))
	witness, err := ledger.NewWitness(secret, w.key.Public(), nil)
	require.NoError(t, err)
	cosigned, err := witness.Cosign(w.read(t, audit.CheckpointFile), nil)
	require.NoError(t, err)
	require.NoError(t, w.store.AddCosignatures(t.Context(), cosigned))
	w.export(t)
	r := w.verify(t, nil)
	require.True(t, r.OK, "%v", r.Problems)
	require.Equal(t, []string{"witness.example.com"}, r.Witnesses)
}

func TestExportRefuses(t *testing.T) {
	w := newWorld(t)
	_, err := audit.Export(t.Context(), w.store, w.dir)
	require.ErrorContains(t, err, "is there already")
	left, err := filepath.Glob(filepath.Join(filepath.Dir(w.dir), ".export-*"))
	require.NoError(t, err)
	require.Empty(t, left)
	empty, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "x.db"), Origin: "o"})
	require.NoError(t, err)
	defer func() { require.NoError(t, empty.Close()) }()
	_, err = audit.Export(t.Context(), empty, filepath.Join(t.TempDir(), "e"))
	require.ErrorIs(t, err, ledger.ErrNotFound)
}

func TestTrustFile(t *testing.T) {
	w := newWorld(t)
	good, err := json.Marshal(w.trust)
	require.NoError(t, err)
	back, err := audit.ParseTrust(good)
	require.NoError(t, err)
	require.Equal(t, w.trust, back)
	known := func(all string) string {
		return `{"format":"chimera.ai/trust/v1","origin":"o","log":"l","known":[` + all + `]}`
	}
	one := `{"entry":"` + strings.Repeat("a0", 32) + `","why":"w"}`
	_, err = audit.ParseTrust([]byte(known(one)))
	require.NoError(t, err)
	for _, bad := range []string{
		known(one + "," + one), known(`{"entry":"","why":"w"}`), known(`{"entry":"a0","why":"w"}`), known(strings.Replace(one, `"w"`, `" "`, 1)),
		known(strings.Replace(one, `"w"`, `"`+strings.Repeat("w", 1001)+`"`, 1)), known(strings.Replace(one, "why", "x", 1)),
		``, `{}`, `[]`, string(good) + `{}`, `{"format":"chimera.ai/trust/v1","origin":"o","log":"l","quorum":1}`,
		`{"format":"chimera.ai/trust/v1","origin":"o","log":"l","extra":1}`, `{"format":"chimera.ai/trust/v1","origin":"o","origin":"p","log":"l"}`,
		`{"format":"chimera.ai/trust/v1","origin":"o","Origin":"p","log":"l"}`, `{"format":"chimera.ai/trust/v1","ORIGIN":"o","log":"l"}`,
		`{"format":"chimera.ai/trust/v1","origin":"o","log":"l","LOG":"k"}`, `{"format":"chimera.ai/trust/v1","Origin":"o","log":"l"}`,
	} {
		_, err := audit.ParseTrust([]byte(bad))
		require.Error(t, err, bad)
	}
	_, err = audit.Verify(filepath.Join(t.TempDir(), "nowhere"), w.trust, nil)
	require.NoError(t, err)
	w.trust.Log = "not a key"
	_, err = audit.Verify(w.dir, w.trust, nil)
	require.Error(t, err, "a trust file that cannot be used is no verdict")
	_, err = os.Stat(w.dir)
	require.False(t, errors.Is(err, os.ErrNotExist))
}
