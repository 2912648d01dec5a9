package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/ledgertest"
)

// story is an export as its forger sees it: with the log's key, able to make
// every entry anew.
type story []*ledger.Entry

func storyOf(t testing.TB, entries [][]byte) story {
	var s story
	for _, l := range entries {
		e, err := ledger.DecodeEntry(bytes.TrimSuffix(l, []byte("\n")))
		require.NoError(t, err)
		s = append(s, e)
	}
	return s
}

// lines writes the entries; relinked says that each follows the one before it in
// its chain.
func (s story) lines(t testing.TB, relinked bool) [][]byte {
	var out [][]byte
	last := map[string]*ledger.Entry{}
	for _, e := range s {
		if relinked {
			e.N, e.Prev = 0, ledger.Hash{}
			if p := last[e.Chain]; p != nil {
				h, err := p.Hash()
				require.NoError(t, err)
				e.N, e.Prev = p.N+1, h
			}
			last[e.Chain] = e
		}
		raw, err := e.Encode()
		require.NoError(t, err)
		out = append(out, append(raw, '\n'))
	}
	return out
}

// first finds an entry of a kind.
func (s story) first(t testing.TB, kind ledger.Kind) int {
	i := slices.IndexFunc(s, func(e *ledger.Entry) bool { return e.Kind == kind })
	require.GreaterOrEqual(t, i, 0)
	return i
}

// TestForgery: whoever has the log's key makes a tree anew whose signature is
// good; what it says still cannot be.
func TestForgery(t *testing.T) { onBoth(t, forgery) }

func forgery(t *testing.T, base *world) {
	for _, c := range []struct {
		name     string
		relinked bool
		change   func(t *testing.T, s story, bodies [][]byte) (story, [][]byte)
		want     audit.ProblemKind
		says     string
	}{
		{"a chain is forked", false, func(t *testing.T, s story, b [][]byte) (story, [][]byte) {
			i := s.first(t, ledger.NodeFailed)
			other := *s[i]
			other.Key += "-other"
			return slices.Insert(s, i+1, &other), slices.Insert(b, i+1, b[i])
		}, audit.BadChain, "follows entry"},
		{"an entry has another predecessor", false, func(t *testing.T, s story, b [][]byte) (story, [][]byte) {
			s[s.first(t, ledger.NodeFailed)].Prev = ledger.Hash{1}
			return s, b
		}, audit.BadChain, "does not follow the entry before it"},
		{"a fact is stated twice", true, func(t *testing.T, s story, b [][]byte) (story, [][]byte) {
			i := s.first(t, ledger.NodeFailed)
			other := *s[i]
			return slices.Insert(s, i+1, &other), slices.Insert(b, i+1, b[i])
		}, audit.BadChain, "twice"},
		{"an effect without its permit", true, func(t *testing.T, s story, b [][]byte) (story, [][]byte) {
			i := s.first(t, ledger.InvocationPermitted)
			return slices.Delete(s, i, i+1), slices.Delete(b, i, i+1)
		}, audit.BadStory, "was not permitted"},
		{"a task that nobody signed", true, func(t *testing.T, s story, b [][]byte) (story, [][]byte) {
			i := s.first(t, ledger.TaskSigned)
			return slices.Delete(s, i, i+1), slices.Delete(b, i, i+1)
		}, audit.BadStory, "is not signed"},
		{"an approval that never came", true, func(t *testing.T, s story, b [][]byte) (story, [][]byte) {
			i := s.first(t, ledger.ApprovalAccepted)
			return slices.Delete(s, i, i+1), slices.Delete(b, i, i+1)
		}, audit.BadStory, "cannot be used"},
		{"a hold that was never opened", true, func(t *testing.T, s story, b [][]byte) (story, [][]byte) {
			i := s.first(t, ledger.HoldOpened)
			return slices.Delete(s, i, i+1), slices.Delete(b, i, i+1)
		}, audit.BadStory, "is not pending"},
		{"a run that was never opened", true, func(t *testing.T, s story, b [][]byte) (story, [][]byte) {
			i := s.first(t, ledger.RunOpened)
			return slices.Delete(s, i, i+1), slices.Delete(b, i, i+1)
		}, audit.BadStory, "the run was not opened"},
		{"a permit after the end of the run", true, func(t *testing.T, s story, b [][]byte) (story, [][]byte) {
			from, to := s.first(t, ledger.RunClosed), s.first(t, ledger.DecisionMade)
			e, body := s[from], b[from]
			s, b = slices.Delete(s, from, from+1), slices.Delete(b, from, from+1)
			return slices.Insert(s, to, e), slices.Insert(b, to, body)
		}, audit.BadStory, "the run has ended"},
		{"a body of another entry", true, func(t *testing.T, s story, b [][]byte) (story, [][]byte) {
			i, j := s.first(t, ledger.NodeSucceeded), s.first(t, ledger.NodeFailed)
			s[i].Body, b[i] = s[j].Body, b[j]
			return s, b
		}, audit.BadStory, "is not the outcome that its entry states"},
		{"bodies exchanged between entries", true, func(t *testing.T, s story, b [][]byte) (story, [][]byte) {
			// With their digests, so that each body is still that of its entry.
			i, j := s.first(t, ledger.NodeSucceeded), s.first(t, ledger.NodeFailed)
			s[i].Body, s[j].Body = s[j].Body, s[i].Body
			at := func(digest string) int {
				return slices.IndexFunc(b, func(x []byte) bool { return ledger.BodyDigest(bytes.TrimSuffix(x, []byte("\n"))) == digest })
			}
			x, y := at(s[i].Body), at(s[j].Body)
			b[x], b[y] = b[y], b[x]
			return s, b
		}, audit.BadStory, "is not the outcome that its entry states"},
		{"an entry of another log", true, func(t *testing.T, s story, b [][]byte) (story, [][]byte) {
			s[s.first(t, ledger.NodeFailed)].Origin = "other.example.com/log"
			return s, b
		}, audit.BadEntry, "it is of the log other.example.com/log"},
		{"a permanent body is gone", true, func(t *testing.T, s story, b [][]byte) (story, [][]byte) {
			i := s.first(t, ledger.PlanPublished)
			return s, slices.Delete(b, i, i+1)
		}, audit.BadBody, "is never pruned"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := *base
			w.export(t)
			entries, bodies := c.change(t, storyOf(t, linesOf(w.read(t, audit.EntriesFile))), linesOf(w.read(t, audit.BodiesFile)))
			lines := entries.lines(t, c.relinked)
			w.write(t, audit.EntriesFile, bytes.Join(lines, nil))
			w.write(t, audit.BodiesFile, bytes.Join(bodies, nil))
			w.write(t, audit.CheckpointFile, w.sign(t, w.key, lines))
			r := w.verify(t, nil)
			require.False(t, r.OK)
			require.NotContains(t, kinds(r), audit.BadRoot, "the forged tree is signed")
			found := slices.ContainsFunc(r.Problems, func(p audit.Problem) bool {
				return p.Kind == c.want && bytes.Contains([]byte(p.Message), []byte(c.says))
			})
			require.True(t, found, "%v", r.Problems)
		})
	}
}

// TestTimeRunsBackwards: a clock may have been set, so this is a warning and not a
// problem.
func TestTimeRunsBackwards(t *testing.T) {
	w := newWorld(t)
	s := storyOf(t, linesOf(w.read(t, audit.EntriesFile)))
	i := s.first(t, ledger.NodeFailed)
	s[i].At = ledger.At(s[i].At.Time().Add(-time.Hour))
	lines := s.lines(t, true)
	w.write(t, audit.EntriesFile, bytes.Join(lines, nil))
	w.write(t, audit.CheckpointFile, w.sign(t, w.key, lines))
	r := w.verify(t, nil)
	// The hashes of later entries stand in the tasks' references, which bodies hold.
	require.NotContains(t, kinds(r), audit.BadTime)
	at := slices.IndexFunc(r.Warnings, func(p audit.Problem) bool { return p.Kind == audit.BadTime })
	require.GreaterOrEqual(t, at, 0)
	require.Equal(t, int64(i), r.Warnings[at].Index)
}

// TestCosignatureOfAnother: a cosignature counts for its own checkpoint only.
func TestCosignatureOfAnother(t *testing.T) {
	w := newWorld(t)
	secret, public, err := ledger.NewKey("witness.example.com")
	require.NoError(t, err)
	w.trust.Witnesses, w.trust.Quorum = []string{public}, 1
	witness, err := ledger.NewWitness(secret, w.key.Public(), nil)
	require.NoError(t, err)
	lines := linesOf(w.read(t, audit.EntriesFile))
	older, err := witness.Cosign(w.sign(t, w.key, lines[:10]), nil)
	require.NoError(t, err)
	text, mine, _ := bytes.Cut(w.read(t, audit.CheckpointFile), []byte("\n\n"))
	_, theirs, _ := bytes.Cut(older, []byte("\n\n"))
	cosignature := bytes.SplitAfter(theirs, []byte("\n"))[1]
	w.write(t, audit.CheckpointFile, slices.Concat(text, []byte("\n\n"), mine, cosignature))
	r := w.verify(t, nil)
	require.Equal(t, []audit.ProblemKind{audit.BadCheckpoint}, kinds(r))
	require.Contains(t, r.Problems[0].Message, "witness")

	// An older checkpoint that the auditor has kept needs no witnesses now.
	w.trust.Witnesses, w.trust.Quorum = nil, 0
	w.export(t)
	require.True(t, w.verify(t, w.sign(t, w.key, lines[:10])).OK)
}

// TestEndsWithheld: the last entries of a run are there and were never placed,
// or are not even shown.
func TestEndsWithheld(t *testing.T) {
	w := newWorld(t)
	w.run(t, "withheld", 2, false)
	ledgertest.Drain(t, w.store, w.key)
	_, _, err := w.store.CloseRun(t.Context(), ledger.Run{
		Workflow: "withheld", Root: "r", Origin: "r", PlanDigest: ledger.BodyDigest([]byte("p")), InputDigest: ledger.BodyDigest([]byte("i")), Agent: "agent-42", State: ledger.RunFailed,
	}, nil)
	require.NoError(t, err)
	w.export(t)
	for _, shown := range []int64{1, 0} {
		if shown == 0 {
			require.NoError(t, os.Remove(filepath.Join(w.dir, audit.PendingFile)))
		}
		r := w.verify(t, nil)
		require.True(t, r.OK, "%v", r.Problems)
		require.Equal(t, shown, r.Pending)
		require.Equal(t, 2, r.Open)
		require.True(t, slices.ContainsFunc(r.OpenRuns, func(o audit.OpenRun) bool { return o.Workflow == "withheld" && o.Entries == 3 }))
		var text bytes.Buffer
		require.NoError(t, r.WriteText(&text, time.Now().Add(time.Hour)))
		require.Contains(t, text.String(), "open: withheld, 3 entries, the last 1h0m")
	}
}

// TestLateOutcome: a run that has ended stays so when the outcome of a call follows its end.
func TestLateOutcome(t *testing.T) {
	w := newWorld(t)
	w.run(t, "late", 1, false)
	late := ledger.Run{
		Workflow: "late", Root: "r", Origin: "r", PlanDigest: ledger.BodyDigest([]byte("p")), InputDigest: ledger.BodyDigest([]byte("i")), Agent: "agent-42",
	}
	_, err := w.store.Authorize(t.Context(), late, ledgertest.Ask("late", "action"), ledgertest.Rule(ledger.Approve))
	require.NoError(t, err)
	i, err := w.store.Invocation(t.Context(), "late")
	require.NoError(t, err)
	i, err = w.store.Claim(t.Context(), "late", i.DecisionID, "t", -time.Hour)
	require.NoError(t, err)
	late.State = ledger.RunFailed
	_, _, err = w.store.CloseRun(t.Context(), late, nil)
	require.NoError(t, err)
	_, err = w.store.Settle(t.Context(), "late", ledger.Effect{Settlement: ledger.Settlement{Attempt: i.Attempt, State: ledger.Unknown}, Orphaned: true})
	require.NoError(t, err)
	ledgertest.Drain(t, w.store, w.key)
	w.export(t)
	r := w.verify(t, nil)
	require.True(t, r.OK, "%v", r.Problems)
	require.Equal(t, 1, r.Open, "%v", r.OpenRuns)
}

// TestMoreThanWasPruned: pruning explains as many bodies as it took, no more.
func TestMoreThanWasPruned(t *testing.T) {
	w := newWorld(t)
	n, err := w.store.Prune(t.Context(), ledger.Financial, time.Now().Add(time.Hour), "old")
	require.NoError(t, err)
	require.Positive(t, n)
	ledgertest.Drain(t, w.store, w.key)
	w.run(t, "later", 1, true)
	ledgertest.Drain(t, w.store, w.key)
	w.export(t)
	require.True(t, w.verify(t, nil).OK)

	// The log says that another class was pruned.
	entries, bodies := linesOf(w.read(t, audit.EntriesFile)), linesOf(w.read(t, audit.BodiesFile))
	digests := map[string]ledger.Class{}
	for _, e := range storyOf(t, entries) {
		digests[e.Body] = e.Class
	}
	drop := func(class ledger.Class) [][]byte {
		i := slices.IndexFunc(bodies, func(b []byte) bool { return digests[ledger.BodyDigest(bytes.TrimSuffix(b, []byte("\n")))] == class })
		return slices.Delete(slices.Clone(bodies), i, i+1)
	}
	w.write(t, audit.BodiesFile, bytes.Join(drop(ledger.Operational), nil))
	r := w.verify(t, nil)
	require.Equal(t, []audit.ProblemKind{audit.BadBody}, kinds(r))
	require.Contains(t, r.Problems[0].Message, "does not say that they were pruned")

	// It says of the class, and of fewer.
	_, err = w.store.Prune(t.Context(), ledger.Evidence, storyOf(t, entries)[storyOf(t, entries).first(t, ledger.InvocationSettled)].At.Time(), "old")
	require.NoError(t, err)
	m, err := w.store.Prune(t.Context(), ledger.Operational, time.Now().Add(time.Hour), "old")
	require.NoError(t, err)
	require.Positive(t, m)
	ledgertest.Drain(t, w.store, w.key)
	w.export(t)
	s := storyOf(t, linesOf(w.read(t, audit.EntriesFile)))
	bodies = linesOf(w.read(t, audit.BodiesFile))
	for i, b := range bodies {
		// One body that the log still has, said to be of a class that was pruned.
		digest := ledger.BodyDigest(bytes.TrimSuffix(b, []byte("\n")))
		at := slices.IndexFunc(s, func(e *ledger.Entry) bool { return e.Body == digest })
		if s[at].Kind != ledger.ToolTrusted {
			continue
		}
		s[at].Class = ledger.Operational
		lines := s.lines(t, true)
		w.write(t, audit.EntriesFile, bytes.Join(lines, nil))
		w.write(t, audit.CheckpointFile, w.sign(t, w.key, lines))
		w.write(t, audit.BodiesFile, bytes.Join(slices.Delete(bodies, i, i+1), nil))
		break
	}
	r = w.verify(t, nil)
	require.Contains(t, fmt.Sprint(r.Problems), fmt.Sprintf("%d bodies of class operational are missing, and the log says that %d were pruned", m+1, m))
}

// TestPruningMeanwhile: bodies that are pruned while an export is on its way are
// explained in it.
func TestPruningMeanwhile(t *testing.T) {
	w := newWorld(t)
	_, err := w.store.Prune(t.Context(), ledger.Operational, time.Now().Add(time.Hour), "old")
	require.NoError(t, err) // its entry waits for a place
	w.dir = filepath.Join(t.TempDir(), "export")
	x, err := audit.Export(t.Context(), &late{Store: w.store, at: 2, drain: func() { ledgertest.Drain(t, w.store, w.key) }}, w.dir)
	require.NoError(t, err)
	require.Positive(t, x.Missing)
	require.Zero(t, x.Pending)
	r := w.verify(t, nil)
	require.True(t, r.OK, "%v", r.Problems)
}

// TestHeldAndPrunedMeanwhile: bodies that were under legal hold when others were pruned,
// and are pruned later, are explained by the later act alone, also where the others were
// exported before.
func TestHeldAndPrunedMeanwhile(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	chain := ledger.RunChain("last", "r")
	w.run(t, "last", 3, true)
	drain := func() { ledgertest.Drain(t, w.store, w.key) }
	drain()
	prune := func() {
		_, err := w.store.Prune(ctx, ledger.Operational, time.Now().Add(time.Hour), "old")
		require.NoError(t, err)
	}
	records, err := w.store.Chain(ctx, chain, 0, 1)
	require.NoError(t, err)
	e, err := ledger.DecodeEntry(records[0].Bytes)
	require.NoError(t, err)
	s := &meanwhile{late: late{Store: w.store, at: 3, drain: drain}, body: e.Body, do: func() {
		require.NoError(t, w.store.PlaceLegalHold(ctx, chain, "case"))
		prune()
		require.NoError(t, w.store.LiftLegalHold(ctx, chain, "over"))
		drain()
		prune() // its entry waits for a place
	}}
	w.dir = filepath.Join(t.TempDir(), "export")
	x, err := audit.Export(ctx, s, w.dir)
	require.NoError(t, err)
	require.Zero(t, x.Pending)
	r := w.verify(t, nil)
	require.True(t, r.OK, "%v", r.Problems)
	require.Len(t, r.Pruned, 2)
	require.EqualValues(t, 5, r.Missing, "of the last run alone")
}

// meanwhile is a store in which something happens before a body is read.
type meanwhile struct {
	late
	body string
	do   func()
}

func (m *meanwhile) Stored(ctx context.Context, digest string) ([]byte, error) {
	if digest == m.body && m.do != nil {
		m.do()
		m.do = nil
	}
	return m.late.Stored(ctx, digest)
}

// late is a store whose sequencer works before its checkpoint is looked at for the at-th
// time.
type late struct {
	ledger.Store
	drain     func()
	looks, at int
}

func (l *late) Checkpoint(ctx context.Context) ([]byte, error) {
	if l.looks++; l.looks == l.at {
		l.drain()
	}
	return l.Store.Checkpoint(ctx)
}

// TestPlacedMeanwhile: what got a place after the checkpoint is still shown.
func TestPlacedMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.run(t, "meanwhile", 1, true)
	w.dir = filepath.Join(t.TempDir(), "export")
	x, err := audit.Export(t.Context(), &placed{Store: w.store, drain: func() { ledgertest.Drain(t, w.store, w.key) }}, w.dir)
	require.NoError(t, err)
	require.Equal(t, int64(3), x.Pending)
	r := w.verify(t, nil)
	require.True(t, r.OK, "%v", r.Problems)
	require.Equal(t, int64(3), r.Pending)
}

// placed is a store whose sequencer works just before its waiting entries are
// listed.
type placed struct {
	ledger.Store
	drain func()
}

func (p *placed) Pending(ctx context.Context, limit int) ([]ledger.Record, error) {
	p.drain()
	return p.Store.Pending(ctx, limit)
}

// TestNoFiles: links, pipes and folders where files should be are no export, and
// nothing waits for them.
func TestNoFiles(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{audit.EntriesFile, audit.BodiesFile, audit.CheckpointFile, audit.PendingFile} {
		w.export(t)
		path := filepath.Join(w.dir, name)
		require.NoError(t, os.Rename(path, path+".real"))
		require.NoError(t, os.Symlink(path+".real", path))
		r := w.verify(t, nil)
		require.Contains(t, kinds(r), audit.BadExport, name)
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.Mkdir(path, 0o700))
		require.Contains(t, kinds(w.verify(t, nil)), audit.BadExport, name)
	}
}
