package audit_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/schemas"
)

// FuzzVerify: whatever an export holds, only the entries that the log's key has
// signed verify, with their own bodies and packets.
func FuzzVerify(f *testing.F) {
	w := newWorld(f)
	w.proved(f, "snapshots/a", "1", "first", "")
	w.proved(f, "snapshots/a", "2", "second", "")
	ledgertest.Drain(f, w.store, w.key)
	w.export(f)
	names := []string{audit.EntriesFile, audit.BodiesFile, audit.EvidenceFile, audit.CheckpointFile}
	whole := map[string][]byte{}
	for _, name := range names {
		whole[name] = w.read(f, name)
	}
	// Bodies and packets may be gone, and then are missed; what is there is true.
	known := map[string]bool{}
	for _, name := range []string{audit.BodiesFile, audit.EvidenceFile} {
		for _, line := range linesOf(whole[name]) {
			known[string(line)] = true
		}
	}
	seed := func(name string, change func(b []byte) []byte) {
		var b [4][]byte
		for i, n := range names {
			if b[i] = whole[n]; n == name {
				b[i] = change(bytes.Clone(b[i]))
			}
		}
		f.Add(b[0], b[1], b[2], b[3])
	}
	seed("", nil)
	f.Add([]byte("{}\n"), []byte("\n\n"), []byte("\n"), []byte("x"))
	for _, name := range names {
		seed(name, func(b []byte) []byte { return nil })
		seed(name, func(b []byte) []byte { return b[:len(b)-1] })
		seed(name, func(b []byte) []byte { return append(b, '\n') })
		seed(name, func(b []byte) []byte { return b[bytes.IndexByte(b, '\n')+1:] })
		seed(name, func(b []byte) []byte { return append(b, b[:bytes.IndexByte(b, '\n')+1]...) })
		seed(name, func(b []byte) []byte { return bytes.Replace(b, []byte("\n"), []byte("\r\n"), 1) })
	}
	dir := f.TempDir()
	trust := w.trust
	f.Fuzz(func(t *testing.T, entries, bodies, evidence, checkpoint []byte) {
		x := world{trust: trust, dir: dir}
		files := [][]byte{entries, bodies, evidence, checkpoint}
		for i, name := range names {
			x.write(t, name, files[i])
		}
		r := x.verify(t, nil)
		if !r.OK {
			require.NotEmpty(t, r.Problems)
			return
		}
		require.Equal(t, string(whole[audit.EntriesFile]), string(entries), "only the true entries verify")
		for _, file := range [][]byte{bodies, evidence} {
			for line := range bytes.Lines(file) {
				require.True(t, known[string(bytes.TrimSuffix(line, []byte("\n")))+"\n"], "%q is of no entry", line)
			}
		}
	})
}

// FuzzProof: a proof proves what the log holds, where it holds it, and has one
// text but for signatures that nobody asked for.
func FuzzProof(f *testing.F) {
	w := newWorld(f)
	records, err := w.store.Records(f.Context(), 0, 1000)
	require.NoError(f, err)
	for _, i := range []int{0, 1, len(records) / 2, len(records) - 1} {
		raw, err := audit.Prove(f.Context(), w.store, records[i].Hash)
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Add([]byte("c2sp.org/tlog-proof@v1\nindex 0\n\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := audit.VerifyProof(raw, w.trust)
		if err != nil {
			return
		}
		require.Less(t, p.Index, int64(len(records)))
		require.Equal(t, records[p.Index].Hash, p.Hash)
		require.Equal(t, records[p.Index].Bytes, p.Bytes)
		require.Equal(t, int64(len(records)), p.Checkpoint.Size)
	})
}

// FuzzTrust: a trust file that is taken says the same when it is written again,
// and says it to every reader.
func FuzzTrust(f *testing.F) {
	w := newWorld(f)
	seed := func(t audit.Trust) {
		raw, err := json.Marshal(t)
		require.NoError(f, err)
		f.Add(raw)
	}
	seed(w.trust)
	_, other, err := ledger.NewKey("witness.example.com/w")
	require.NoError(f, err)
	other, err = ledger.CosignatureKey(other)
	require.NoError(f, err)
	w.trust.Witnesses, w.trust.Quorum, w.trust.Audience = []string{other}, 1, "dev"
	seed(w.trust)
	f.Add([]byte(`{"format":"chimera.ai/trust/v1","origin":"o","log":"l","LOG":"k"}`))
	f.Add([]byte(`{"format":"chimera.ai/trust/v1","origin":"o","log":"l","bootstrap":{"format":"chimera.ai/trust/bootstrap/v1","admins":[{}]}}`))
	nowhere := filepath.Join(f.TempDir(), "nowhere")
	f.Fuzz(func(t *testing.T, raw []byte) {
		have, err := audit.ParseTrust(raw)
		if err != nil {
			return
		}
		v, err := schemas.Decode(raw)
		require.NoError(t, err)
		doc := v.(map[string]any)
		require.Equal(t, have.Origin, doc["origin"])
		require.Equal(t, have.Log, doc["log"])
		again, err := json.Marshal(have)
		require.NoError(t, err)
		back, err := audit.ParseTrust(again)
		require.NoError(t, err)
		twice, err := json.Marshal(back)
		require.NoError(t, err)
		require.Equal(t, string(again), string(twice))
		// An export that is not there is no verdict for it.
		if r, err := audit.Verify(nowhere, have, nil); err == nil {
			require.False(t, r.OK)
		}
	})
}
