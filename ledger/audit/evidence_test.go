package audit_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/ledgertest"
)

// proved states something that stands on an evidence packet.
func (w *world) proved(t testing.TB, chain, key, text, subject string) {
	digest, err := w.store.PutPacket(t.Context(), ledger.Packet{Parts: []ledger.Part{
		{Name: "decision", Data: json.RawMessage(`{"is": "APPROVE", "for": "` + text + `"}`)}, {Name: "action", Data: json.RawMessage(`{"n":1.50}`)},
	}})
	require.NoError(t, err)
	_, err = w.store.Append(t.Context(), ledger.Draft{
		Chain: chain, Key: key, Kind: ledger.SnapshotTaken, Subject: subject, Refs: []ledger.Ref{{Name: ledger.EvidenceRef, Digest: digest}},
		Data: json.RawMessage(`{"server":"s","fingerprint":"","digest":"","taken_at":"2026-01-01T00:00:00.000Z"}`),
	})
	require.NoError(t, err)
}

// TestEvidenceIsExported with the entries that stand on it, as long as their
// bodies are there for everybody to read; what is wrong with it is found.
func TestEvidenceIsExported(t *testing.T) {
	w := newWorld(t)
	w.proved(t, "snapshots/a", "1", "first", "")
	w.proved(t, "snapshots/a", "2", "second", "")
	w.proved(t, "snapshots/b", "1", "second", "")
	w.proved(t, "snapshots/b", "2", "Erika", "erika")
	ledgertest.Drain(t, w.store, w.key)
	w.export(t)
	lines := linesOf(w.read(t, audit.EvidenceFile))
	require.Len(t, lines, 3, "one for each entry, but for what is sealed")
	require.NotContains(t, string(bytes.Join(lines, nil)), "Erika")
	require.JSONEq(t, `{"format":"chimera.ai/ledger/evidence/v1","parts":[{"name":"action","data":{"n":1.50}},{"name":"decision","data":{"is":"APPROVE","for":"first"}}]}`, string(lines[0]))
	r := w.verify(t, nil)
	require.True(t, r.OK, "%v", r.Problems)
	require.EqualValues(t, 3, r.Packets)
	x, err := audit.Export(t.Context(), audit.Witnessed(w.store, nil, 1), filepath.Join(t.TempDir(), "witnessed"))
	require.NoError(t, err, "also as witnesses have seen the log")
	require.EqualValues(t, 3, x.Packets)

	for name, forged := range map[string][][]byte{
		"dropped":  lines[1:],
		"cut":      lines[:2],
		"swapped":  {lines[1], lines[0], lines[2]},
		"added":    {lines[0], lines[1], lines[2], lines[0]},
		"changed":  {bytes.Replace(lines[0], []byte("APPROVE"), []byte("REJECT!"), 1), lines[1], lines[2]},
		"spaced":   {bytes.Replace(lines[0], []byte(":"), []byte(": "), 1), lines[1], lines[2]},
		"unended":  {lines[0], lines[1], bytes.TrimSuffix(lines[2], []byte("\n"))},
		"emptied":  {},
		"no lines": {[]byte("x")},
	} {
		t.Run(name, func(t *testing.T) {
			w.write(t, audit.EvidenceFile, bytes.Join(forged, nil))
			r := w.verify(t, nil)
			require.False(t, r.OK)
			require.Contains(t, kinds(r), audit.BadBody)
		})
	}
	require.NoError(t, os.Remove(filepath.Join(w.dir, audit.EvidenceFile)))
	require.False(t, w.verify(t, nil).OK)

	// Pruned, it is gone with the bodies, and nothing is missing.
	_, err = w.store.Prune(t.Context(), ledger.Evidence, time.Now().Add(time.Hour), "old")
	require.NoError(t, err)
	ledgertest.Drain(t, w.store, w.key)
	w.export(t)
	require.Empty(t, w.read(t, audit.EvidenceFile))
	r = w.verify(t, nil)
	require.True(t, r.OK, "%v", r.Problems)
	require.Zero(t, r.Packets)
}
