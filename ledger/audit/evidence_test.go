package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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

// proved has a decision made on an evidence packet, in a run that is about somebody
// unless the subject is "".
func (w *world) proved(t testing.TB, id, text, subject string) {
	r := ledger.Run{Workflow: "proved " + id, Root: "r", Origin: "r", PlanDigest: ledger.BodyDigest(nil), InputDigest: ledger.BodyDigest(nil), Subject: subject, Agent: "agent-42"}
	require.NoError(t, w.store.OpenRun(t.Context(), r))
	_, err := w.store.Authorize(t.Context(), r, ledgertest.Ask(id, text), func(st ledger.Standing) (ledger.Ruling, error) {
		ruling, err := ledgertest.Rule("REJECT")(st)
		ruling.Evidence = ledger.Packet{Parts: []ledger.Part{
			{Name: "decision", Data: json.RawMessage(`{"is": "APPROVE", "for": "` + text + `"}`)}, {Name: "action", Data: json.RawMessage(`{"n":1.50}`)},
		}}
		return ruling, err
	})
	require.NoError(t, err)
}

// TestEvidenceIsExported with the entries that stand on it, as long as their
// bodies are there for everybody to read; what is wrong with it is found.
func TestEvidenceIsExported(t *testing.T) {
	w := newWorld(t)
	w.proved(t, "1", "first", "")
	w.proved(t, "2", "second", "")
	w.proved(t, "3", "second", "")
	w.proved(t, "4", "Erika", "erika")
	ledgertest.Drain(t, w.store, w.key)
	w.export(t)
	lines := linesOf(w.read(t, audit.EvidenceFile))
	require.Len(t, lines, 3+3, "those of the story, and one for each entry, but for what is sealed")
	require.NotContains(t, string(bytes.Join(lines, nil)), "Erika")
	require.JSONEq(t, `{"format":"chimera.ai/ledger/evidence/v1","parts":[{"name":"action","data":{"n":1.50}},{"name":"decision","data":{"is":"APPROVE","for":"first"}}]}`, string(lines[3]))
	r := w.verify(t, nil)
	require.True(t, r.OK, "%v", r.Problems)
	require.EqualValues(t, 6, r.Packets)
	x, err := audit.Export(t.Context(), audit.Witnessed(w.store, nil, 1), filepath.Join(t.TempDir(), "witnessed"))
	require.NoError(t, err, "also as witnesses have seen the log")
	require.EqualValues(t, 6, x.Packets)

	for name, forged := range map[string][][]byte{
		"dropped":  lines[1:],
		"cut":      lines[:2],
		"swapped":  slices.Concat([][]byte{lines[1], lines[0]}, lines[2:]),
		"added":    slices.Concat(lines, lines[:1]),
		"changed":  slices.Concat(lines[:3], [][]byte{bytes.Replace(lines[3], []byte("APPROVE"), []byte("REJECT!"), 1)}, lines[4:]),
		"spaced":   slices.Concat([][]byte{bytes.Replace(lines[0], []byte(":"), []byte(": "), 1)}, lines[1:]),
		"unended":  slices.Concat(lines[:5], [][]byte{bytes.TrimSuffix(lines[5], []byte("\n"))}),
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

// packets is a log whose packets cannot be read.
type packets struct {
	ledger.Log
	err error
}

func (l packets) Packet(context.Context, string) (ledger.Packet, error) {
	return ledger.Packet{}, l.err
}

// TestUnreadableEvidence: somebody who puts garbage into the table of packets does not keep
// anybody from exporting the log, and a verifier tells of it.
func TestUnreadableEvidence(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		err   error
		fails bool
	}{
		{errors.New("the stored bytes have another digest"), false}, {ledger.ErrSealed, false}, {ledger.ErrNotFound, false},
		{ledger.ErrUnavailable, true}, {ledger.ErrDenied, true},
	} {
		w.dir = filepath.Join(t.TempDir(), "export")
		_, err := audit.Export(t.Context(), packets{w.store, c.err}, w.dir)
		if c.fails {
			require.ErrorIs(t, err, c.err)
			continue
		}
		require.NoError(t, err, "%v", c.err)
		r := w.verify(t, nil)
		require.False(t, r.OK)
		require.Contains(t, r.Problems[0].Message, "the evidence packet sha256:")
		require.Contains(t, r.Problems[0].Message, "is not there, and its body is")
	}
}
