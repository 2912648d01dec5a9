package audit_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/raced"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
)

// TestBombs: an export that is made to wear the verifier out is told from a good
// one after a bounded read.
func TestBombs(t *testing.T) {
	raced.Skip(t)
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
		{audit.EntriesFile, text(strings.Repeat("\n", 100_000)), audit.BadEntry, "decode entry"},
		{audit.EntriesFile, text(deep[:ledger.MaxEntryBytes] + "\n"), audit.BadEntry, "decode entry"},
		{audit.EntriesFile, text(`{"format":` + deep[:10_000] + "\n"), audit.BadEntry, "decode entry"},
		{audit.BodiesFile, hole, audit.BadBody, "a line is too long"},
		{audit.BodiesFile, text(`{"data":` + deep + "\n"), audit.BadBody, "that no entry has"},
		{audit.BodiesFile, text(strings.Repeat("{}\n", 100_000)), audit.BadBody, "that no entry has"},
		{audit.BodiesFile, text("{}"), audit.BadBody, "the last line has no end"},
		{audit.CheckpointFile, hole, audit.BadExport, "it is too large"},
		{audit.CheckpointFile, text(strings.Repeat("— a AAAA\n", 1000)), audit.BadCheckpoint, "checkpoint"},
		{audit.EntriesFile, pipe, audit.BadExport, "is not there"},
		{audit.BodiesFile, pipe, audit.BadExport, "is not there"},
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

func text(s string) func(t *testing.T, path string) {
	return func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, []byte(s), 0o600)) }
}

// hole makes a file of 16 GiB that takes no room on the disk.
func hole(t *testing.T, path string) {
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, 16<<30))
}

func pipe(t *testing.T, path string) { require.NoError(t, syscall.Mkfifo(path, 0o600)) }
