package adversary

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
)

// resign makes the checkpoint of an export anew, with the log's key, over entries as lines.
// Cosignatures stay, of what was there before.
func (d *Deployment) resign(t testing.TB, dir string, entries [][]byte) {
	t.Helper()
	key, err := ledger.ParseKey(d.LogKey)
	require.NoError(t, err)
	tree := ledger.NewTree()
	var whole []byte
	for _, l := range entries {
		require.NoError(t, tree.Add(ledger.LeafHash(l)))
		whole = append(append(whole, l...), '\n')
	}
	root, err := tree.Root()
	require.NoError(t, err)
	c, err := key.Sign(ledger.Checkpoint{Origin: d.Root.Log.Origin, Size: tree.Size(), Root: root})
	require.NoError(t, err)
	old, err := os.ReadFile(filepath.Join(dir, audit.CheckpointFile))
	require.NoError(t, err)
	_, signatures, _ := bytes.Cut(old, []byte("\n\n"))
	for line := range bytes.Lines(signatures) {
		if bytes.Contains(line, []byte(witnessName)) {
			c = append(c, line...)
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, audit.EntriesFile), whole, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, audit.CheckpointFile), c, 0o600))
}

// relink gives each entry its place behind the one before it in its chain.
func relink(t testing.TB, entries []*ledger.Entry) (lines [][]byte) {
	t.Helper()
	last := map[string]*ledger.Entry{}
	for _, e := range entries {
		f := &forgery{Entry: *e}
		f.behind(t, last[e.Chain])
		last[e.Chain] = &f.Entry
		raw, err := f.Encode()
		require.NoError(t, err)
		lines = append(lines, raw)
	}
	return lines
}

// without removes the lines of a file of an export that have a digest.
func without(t testing.TB, path, digest string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := slices.DeleteFunc(bytes.SplitAfter(raw, []byte("\n")), func(l []byte) bool { return ledger.BodyDigest(bytes.TrimSuffix(l, []byte("\n"))) == digest })
	require.NoError(t, os.WriteFile(path, bytes.Join(lines, nil), 0o600))
}

// resignedAttacks are those of whoever has the log's key and makes the whole log anew, for an
// auditor who asks for no witness: an entry of each kind is dropped, moved, or stated twice.
func (d *Deployment) resignedAttacks(s *story, from string) (all []*Attack) {
	for _, kind := range s.kinds() {
		at := slices.IndexFunc(s.entries, func(e *ledger.Entry) bool { return string(e.Kind) == kind && s.data(e) != nil })
		e := s.entries[at]
		add := func(name string, change func(entries []*ledger.Entry) []*ledger.Entry) {
			a := d.bent(LogKey, kind, name, from, 0, func(t testing.TB, dir string) {
				if name == "dropped" {
					without(t, filepath.Join(dir, audit.BodiesFile), e.Body)
					without(t, filepath.Join(dir, audit.EvidenceFile), e.Ref(ledger.EvidenceRef))
				}
				d.resign(t, dir, relink(t, change(slices.Clone(s.entries))))
			})
			a.Class = EntryMoved
			all = append(all, a)
		}
		add("dropped", func(all []*ledger.Entry) []*ledger.Entry { return slices.Delete(all, at, at+1) })
		add("moved to the end", func(all []*ledger.Entry) []*ledger.Entry {
			return append(slices.Delete(all, at, at+1), e)
		})
		if at > 0 {
			add("moved to the beginning", func(all []*ledger.Entry) []*ledger.Entry {
				return slices.Insert(slices.Delete(all, at, at+1), 0, e)
			})
		}
		add("stated twice", func(all []*ledger.Entry) []*ledger.Entry {
			again := *e
			again.Key = other(e.Key)
			return append(all, &again)
		})
	}
	undo := func(e *ledger.Entry) bool { return e.Run == "undone" && e.Node == "back" }
	a := d.bent(LogKey, "compensation", "dropped", from, 0, func(t testing.TB, dir string) {
		left := slices.Clone(s.entries)
		for _, e := range s.entries {
			if undo(e) {
				without(t, filepath.Join(dir, audit.BodiesFile), e.Body)
				without(t, filepath.Join(dir, audit.EvidenceFile), e.Ref(ledger.EvidenceRef))
			}
		}
		d.resign(t, dir, relink(t, slices.DeleteFunc(left, undo)))
	})
	a.Class = EntryMoved
	return append(all, a)
}
