package ledger_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/schemas"
)

// secret is a signer key that is the same in every process that shares the corpus.
func secret(name string, n byte) string {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
	sum := sha256.Sum256(append([]byte(name+"\n\x01"), private.Public().(ed25519.PublicKey)...))
	return fmt.Sprintf("PRIVATE+KEY+%s+%x+%s", name, sum[:4], base64.StdEncoding.EncodeToString(append([]byte{1}, private.Seed()...)))
}

// FuzzCheckpoint: whatever arrives as a checkpoint, it is refused or it is one that
// the log's key has signed; a cosignature is counted if its witness gave it; and
// signatures that others add take nothing away.
func FuzzCheckpoint(f *testing.F) {
	key, err := ledger.ParseKey(secret("log.example.com/a", 1))
	require.NoError(f, err)
	public, witness := key.Public(), secret("witness.example.com/w", 2)
	other, err := ledger.ParseKey(witness)
	require.NoError(f, err)
	public2, err := ledger.CosignatureKey(other.Public())
	require.NoError(f, err)
	w, err := ledger.NewWitness(witness, public, nil)
	require.NoError(f, err)
	signed := map[ledger.Checkpoint]bool{}
	var last []byte
	for _, c := range []ledger.Checkpoint{
		{Origin: key.Name(), Size: 0, Root: ledger.EmptyRoot()}, {Origin: key.Name(), Size: 1, Root: ledger.Hash{1}}, {Origin: key.Name(), Size: 1 << 62, Root: ledger.Hash{255}},
	} {
		raw, err := key.Sign(c)
		require.NoError(f, err)
		signed[c], last = true, raw
		f.Add(raw, []byte(nil))
		f.Add(raw, []byte("— witness.example.com/w AAAA\n"))
		f.Add(bytes.Replace(raw, []byte("\n\n"), []byte("\nextension\n\n"), 1), []byte("x"))
		f.Add(bytes.Replace(raw, []byte("\n"), []byte("\r\n"), 1), []byte("\n\n"))
	}
	cosigned, err := w.Cosign(last, nil)
	require.NoError(f, err)
	f.Add(cosigned, cosigned)
	_, more, _ := bytes.Cut(cosigned, []byte("\n\n"))
	f.Add(last, more)
	f.Add([]byte("log.example.com/a\n01\nAA==\n\n— log.example.com/a AAAA\n"), more)
	alone := ledger.Signers{Log: public}
	both := ledger.Signers{Log: public, Witnesses: []string{public2}, Quorum: 1}
	f.Fuzz(func(t *testing.T, raw, more []byte) {
		if c, err := ledger.ParseCheckpoint(raw); err == nil {
			require.GreaterOrEqual(t, c.Size, int64(0))
		}
		have, err := alone.Open(raw)
		if err != nil {
			_, err := both.Open(raw)
			require.ErrorIs(t, err, ledger.ErrCheckpoint)
			return
		}
		require.True(t, signed[have.Checkpoint], "%q", raw)
		plain, err := ledger.ParseCheckpoint(raw)
		require.NoError(t, err)
		require.Equal(t, have.Checkpoint, plain)
		one, err := alone.Alone(raw)
		require.NoError(t, err)
		again, err := alone.Open(one)
		require.NoError(t, err)
		require.Equal(t, have.Checkpoint, again.Checkpoint)
		if b, err := both.Open(raw); err == nil {
			require.Equal(t, []string{"witness.example.com/w"}, b.Witnesses)
			require.WithinRange(t, b.Cosigned[0], time.Unix(1, 0), time.Now().Add(time.Hour))
		}
		// An answer of a witness counts only by its own cosignature.
		answer := append(bytes.Clone(one), more...)
		c, at, only, err := ledger.Cosignature(answer, public2)
		if err != nil {
			return
		}
		require.Equal(t, have.Checkpoint, c)
		merged, err := ledger.Merge(one, only)
		require.NoError(t, err)
		b, err := both.Open(merged)
		require.NoError(t, err)
		require.Equal(t, have.Checkpoint, b.Checkpoint)
		require.Equal(t, []time.Time{at}, b.Cosigned)
	})
}

// FuzzPacket: evidence has one form, and each part is in it as it is.
func FuzzPacket(f *testing.F) {
	for _, p := range []ledger.Packet{
		{}, {Parts: []ledger.Part{{Name: "trust", Data: json.RawMessage(`{"b":1.50,"a":[null]}`)}, {Name: "action", Data: json.RawMessage(`"\u2028<"`)}}},
	} {
		raw, err := p.Encode()
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Add([]byte(`{"format":"chimera.ai/ledger/evidence/v1","parts":[{"data":1,"name":"b"},{"data":1,"name":"a"}]}`))
	f.Add([]byte(`{"format":"chimera.ai/ledger/evidence/v1","parts":[{"data":1,"name":"a","Name":"b"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := ledger.DecodePacket(raw)
		if err != nil {
			return
		}
		again, err := p.Encode()
		require.NoError(t, err)
		require.Equal(t, string(raw), string(again))
		v, err := schemas.Decode(raw)
		require.NoError(t, err)
		parts, _ := v.(map[string]any)["parts"].([]any)
		require.Len(t, p.Parts, len(parts))
		for i, part := range parts {
			require.Equal(t, p.Parts[i].Name, part.(map[string]any)["name"])
		}
	})
}

// FuzzTime: a time of the ledger has one text.
func FuzzTime(f *testing.F) {
	for _, s := range []string{
		"2026-11-01T09:00:00.000Z", "1970-01-01T00:00:00.001Z", "9999-12-31T23:59:59.999Z", "2026-11-01T09:00:00Z", "2026-11-01T09:00:60.000Z", "2026-02-30T00:00:00.000Z",
		"2026-11-01T09:00:00,000Z", "2026-11-01T09:00:00.000+00:00", "0000-01-01T00:00:00.000Z", "-001-01-01T00:00:00.000Z", "2026-11-01t09:00:00.000z", "2026-1-1T9:00:00.000Z",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var at ledger.Time
		if at.UnmarshalText([]byte(s)) != nil {
			return
		}
		text, err := at.MarshalText()
		require.NoError(t, err)
		require.Equal(t, s, string(text))
		require.Equal(t, at, ledger.At(at.Time()))
	})
}
