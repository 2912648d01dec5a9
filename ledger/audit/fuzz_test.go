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

// cut is a change of a file: in place of some bytes stand others of it, and then
// foreign ones. The files and keys of each process that fuzzes are its own, so that
// what is shared is what was done to them.
func cut(b []byte, at, length, from, take uint16, put []byte) []byte {
	n := len(b) + 1
	start := int(at) % n
	end := min(start+int(length), len(b))
	source := int(from) % n
	out := append(bytes.Clone(b[:start]), b[source:min(source+int(take), len(b))]...)
	return append(append(out, put...), b[end:]...)
}

// FuzzVerify: whatever is done to an export, only the entries that the log's key has
// signed verify, with their own bodies and packets.
func FuzzVerify(f *testing.F) {
	w := newWorld(f)
	w.proved(f, "1", "first", "")
	w.proved(f, "2", "second", "")
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
	const all = 65535
	for i := range uint8(len(names)) {
		f.Add(i, uint16(0), uint16(0), uint16(0), uint16(0), []byte{}, i, uint16(0), uint16(0), uint16(0), uint16(0), []byte{})
		f.Add(i, uint16(0), uint16(all), uint16(0), uint16(0), []byte("{}\n"), i+1, uint16(all), uint16(0), uint16(0), uint16(0), []byte{})
		f.Add(i, uint16(300), uint16(1), uint16(0), uint16(0), []byte("\r\n"), i, uint16(0), uint16(0), uint16(0), uint16(0), []byte{})
		f.Add(i, uint16(0), uint16(1), uint16(0), uint16(400), []byte("\n"), i+1, uint16(20), uint16(2), uint16(40), uint16(2), []byte{})
	}
	dir := f.TempDir()
	trust := w.trust
	f.Fuzz(func(t *testing.T, file uint8, at, length, from, take uint16, put []byte, file2 uint8, at2, length2, from2, take2 uint16, put2 []byte) {
		files := map[string][]byte{}
		for i, name := range names {
			b := whole[name]
			if int(file)%len(names) == i {
				b = cut(b, at, length, from, take, put)
			}
			if int(file2)%len(names) == i {
				b = cut(b, at2, length2, from2, take2, put2)
			}
			files[name] = b
		}
		x := world{trust: trust, dir: dir}
		same := true
		for name, b := range files {
			x.write(t, name, b)
			same = same && bytes.Equal(b, whole[name])
		}
		r := x.verify(t, nil)
		require.Equal(t, r.OK, len(r.Problems) == 0)
		require.True(t, r.OK || !same, "%v", r.Problems)
		if !r.OK {
			return
		}
		require.Equal(t, string(whole[audit.EntriesFile]), string(files[audit.EntriesFile]), "only the true entries verify")
		for _, name := range []string{audit.BodiesFile, audit.EvidenceFile} {
			for line := range bytes.Lines(files[name]) {
				require.True(t, known[string(line)], "%q is of no entry", line)
			}
		}
	})
}

// FuzzProof: whatever is done to a proof, it proves what the log holds, where it
// holds it, or nothing.
func FuzzProof(f *testing.F) {
	w := newWorld(f)
	records, err := w.store.Records(f.Context(), 0, 1000)
	require.NoError(f, err)
	for i := range uint8(3) {
		f.Add(i*40, uint16(0), uint16(0), uint16(0), uint16(0), []byte{})
		f.Add(i*40, uint16(30), uint16(1), uint16(0), uint16(0), []byte("0"))
		f.Add(i*40, uint16(30), uint16(0), uint16(0), uint16(0), []byte("\n"))
		f.Add(i*40, uint16(600), uint16(0), uint16(600), uint16(45), []byte{})
	}
	f.Fuzz(func(t *testing.T, index uint8, at, length, from, take uint16, put []byte) {
		want := records[int(index)%len(records)]
		raw, err := audit.Prove(t.Context(), w.store, want.Hash)
		require.NoError(t, err)
		changed := cut(raw, at, length, from, take, put)
		p, err := audit.VerifyProof(changed, w.trust)
		if err != nil {
			require.NotEqual(t, string(raw), string(changed))
			return
		}
		require.Equal(t, want.Index, p.Index)
		require.Equal(t, want.Bytes, p.Bytes)
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
