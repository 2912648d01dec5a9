package audit_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
)

// TestBombs: an export that is made to wear the verifier out is told from a good
// one after a bounded read.
func TestBombs(t *testing.T) {
	w := newWorld(t)
	deep := strings.Repeat("[", 100_000)
	for _, c := range []struct {
		file string
		put  func(t *testing.T, path string)
		want audit.ProblemKind
		says string
	}{
		{audit.EntriesFile, text(strings.Repeat("x", ledger.MaxEntryBytes+2)), audit.BadEntry, "a line is too long"},
		{audit.EntriesFile, hole, audit.BadEntry, "a line is too long"},
		{audit.EntriesFile, text(strings.Repeat("\n", 100_000)), audit.BadEntry, "50 lines before it are no entries; it and the lines after it, 99950 in all, are not read"},
		{audit.EntriesFile, text(strings.Repeat("{}\n", 51)), audit.BadEntry, "it and the lines after it, 1 in all, are not read"},
		{audit.EntriesFile, text(deep[:ledger.MaxEntryBytes] + "\n"), audit.BadEntry, "decode entry"},
		{audit.EntriesFile, text(`{"format":` + deep[:10_000] + "\n"), audit.BadEntry, "decode entry"},
		{audit.BodiesFile, hole, audit.BadBody, "a line is too long"},
		{audit.BodiesFile, text(`{"data":` + deep + "\n"), audit.BadBody, "that no entry has"},
		{audit.BodiesFile, text(strings.Repeat("{}\n", 100_000)), audit.BadBody, "that no entry has"},
		{audit.BodiesFile, text("{}"), audit.BadBody, "the last line has no end"},
		{audit.CheckpointFile, hole, audit.BadExport, "it is too large"},
		{audit.CheckpointFile, text(strings.Repeat("— a AAAA\n", 1000)), audit.BadCheckpoint, "checkpoint"},
		{audit.EntriesFile, pipe, audit.BadExport, "entries.jsonl is not a file"},
		{audit.EntriesFile, link, audit.BadExport, "entries.jsonl is not a file"},
		{audit.EntriesFile, folder, audit.BadExport, "entries.jsonl is not a file"},
		{audit.EntriesFile, nothing, audit.BadExport, "entries.jsonl is not there"},
		{audit.BodiesFile, pipe, audit.BadExport, "bodies.jsonl is not a file"},
		{audit.BodiesFile, folder, audit.BadExport, "bodies.jsonl is not a file"},
		{audit.BodiesFile, nothing, audit.BadExport, "bodies.jsonl is not there"},
		{audit.CheckpointFile, pipe, audit.BadExport, "is not a file"},
		{audit.PendingFile, pipe, audit.BadExport, "is not a file"},
		{audit.EvidenceFile, pipe, audit.BadExport, "is not"},
		{audit.EvidenceFile, hole, audit.BadBody, "a line is too long"},
	} {
		w.export(t)
		path := filepath.Join(w.dir, c.file)
		require.NoError(t, os.Remove(path))
		c.put(t, path)
		r := w.verify(t, nil)
		require.False(t, r.OK)
		require.LessOrEqual(t, len(r.Problems), 100)
		found := false
		for _, p := range r.Problems {
			require.LessOrEqual(t, len(p.Message), 1100)
			found = found || p.Kind == c.want && strings.Contains(p.Message, c.says)
		}
		require.True(t, found, "%s: %s in %v", c.file, c.says, r.Problems)
	}

	// An entry that waits for its place proves nothing, so it harms nothing.
	w.export(t)
	w.write(t, audit.PendingFile, bytes.Repeat([]byte("x"), 1<<20))
	r := w.verify(t, nil)
	require.True(t, r.OK, "%v", r.Problems)
	require.Equal(t, audit.BadExport, r.Warnings[0].Kind)
}

// TestFlood: an export of many short lines is refused after a look at a bounded number: what
// each line costs is seen by what it allocates.
func TestFlood(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{audit.EntriesFile, audit.BodiesFile, audit.PendingFile, audit.EvidenceFile, audit.CosignedFile} {
		for _, line := range []string{"\n", "{}\n"} {
			w.export(t)
			const lines = 1 << 20
			w.write(t, name, bytes.Repeat([]byte(line), lines))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r := w.verify(t, nil)
			runtime.ReadMemStats(&after)
			require.Less(t, after.Mallocs-before.Mallocs, uint64(lines/8), "%s of %q", name, line)
			require.True(t, !r.OK || len(r.Warnings) > 1, "%s of %q", name, line)
		}
	}
}

// TestForeignBodies: a body that no entry has is reported where it stands.
func TestForeignBodies(t *testing.T) {
	w := newWorld(t)
	bodies := linesOf(w.read(t, audit.BodiesFile))
	for at := 3; at < len(bodies); at += 7 {
		for _, many := range []int{1, 2, 8} {
			w.write(t, audit.BodiesFile, bytes.Join(slices.Insert(slices.Clone(bodies), at, slices.Repeat([][]byte{bodies[at-1]}, many)...), nil))
			r := w.verify(t, nil)
			require.Len(t, r.Problems, 1)
			require.Equal(t, audit.BadBody, r.Problems[0].Kind)
			require.Equal(t, int64(at), r.Problems[0].Index)
		}
	}
	// More than that are reported behind what they hide.
	w.write(t, audit.BodiesFile, bytes.Join(slices.Insert(slices.Clone(bodies), 12, slices.Repeat([][]byte{bodies[3]}, 9)...), nil))
	r := w.verify(t, nil)
	require.True(t, slices.ContainsFunc(r.Problems, func(p audit.Problem) bool { return p.Index == 12 && strings.Contains(p.Message, "that no entry has") }), "%v", r.Problems)
}

func text(s string) func(t *testing.T, path string) {
	return func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, []byte(s), 0o600)) }
}

// hole makes a file of 16 GiB that takes no room on the disk.
func hole(t *testing.T, path string) {
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, 16<<30))
}

func link(t *testing.T, path string) { require.NoError(t, os.Symlink("/dev/zero", path)) }

func folder(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) }

func nothing(*testing.T, string) {}

func pipe(t *testing.T, path string) { require.NoError(t, syscall.Mkfifo(path, 0o600)) }
