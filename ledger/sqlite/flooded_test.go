package sqlite_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/ledgertest"
)

// counted counts the texts with cosignatures that are read.
type counted struct {
	ledger.Store
	n *int
}

func (c counted) CosignaturesAfter(ctx context.Context, size, serial int64, limit int) ([][]byte, int64, error) {
	texts, last, err := c.Store.(interface {
		CosignaturesAfter(ctx context.Context, size, serial int64, limit int) ([][]byte, int64, error)
	}).CosignaturesAfter(ctx, size, serial, limit)
	*c.n += len(texts)
	return texts, last, err
}

// TestFloodedCosignatures: whoever adds rows delays no reader, and hides no cosignature of a witness
// whose key a reader knows.
func TestFloodedCosignatures(t *testing.T) {
	d, key := intruded(t), ledgertest.Key(t)
	ctx := t.Context()
	_, err := d.Store.Append(ctx, ledger.Draft{Chain: "snapshots/s", Key: "k", Kind: ledger.SnapshotTaken, Data: []byte(`{"server":"s","fingerprint":"","digest":""}`)})
	require.NoError(t, err)
	ledgertest.Drain(t, d.Store, key)
	plain, err := d.Store.Checkpoint(ctx)
	require.NoError(t, err)
	secret, public, err := ledger.NewKey("witness.example.com")
	require.NoError(t, err)
	w, err := ledger.NewWitness(secret, key.Public(), nil)
	require.NoError(t, err)
	cosigned, err := w.Cosign(plain, nil)
	require.NoError(t, err)
	_, _, only, err := ledger.Cosignature(cosigned, public)
	require.NoError(t, err)

	text := plain[:bytes.Index(plain, []byte("\n\n"))+2]
	line := bytes.TrimSuffix(only[len(text):], []byte("\n"))
	i := bytes.LastIndexByte(line, ' ') + 1
	sig, err := base64.StdEncoding.DecodeString(string(line[i:]))
	require.NoError(t, err)
	sig[len(sig)-1] ^= 1
	imitated := append(bytes.Clone(line[:i]), base64.StdEncoding.EncodeToString(sig)...)
	const rows = 20_000
	// Some are by other makers, some imitate the witness, and some are none.
	require.NoError(t, d.Exec(`WITH RECURSIVE k(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k WHERE i < 20000)
		INSERT INTO log_cosignatures (size, checkpoint) SELECT 1, CAST($1 || CASE WHEN i % 50 = 0 THEN $2 WHEN i % 50 = 1 THEN 'garbage' ELSE '— w' || i || ' AAAAAAA=' END || char(10) AS BLOB) FROM k`,
		string(text), string(imitated)))
	for range 2 {
		require.NoError(t, d.Store.AddCosignatures(ctx, only))
	}

	raw, err := d.Store.Checkpoint(ctx)
	require.NoError(t, err)
	_, err = ledger.Signers{Log: key.Public()}.Open(raw)
	require.NoError(t, err)
	require.LessOrEqual(t, bytes.Count(raw, []byte("— ")), 64)

	var read int
	log := counted{d.Store, &read}
	raw, err = ledger.Verified(log, ledgertest.Origin, []string{key.Public()}, nil).Checkpoint(ctx)
	require.NoError(t, err)
	require.LessOrEqual(t, bytes.Count(raw, []byte("— ")), 64)
	require.LessOrEqual(t, read, 64, "without a key nothing is looked for")

	for name, log := range map[string]ledger.Log{
		"by itself": audit.Witnessed(log, []string{public}, 1),
		"verified":  ledger.Verified(log, ledgertest.Origin, []string{key.Public()}, []string{public}),
		"both":      audit.Witnessed(ledger.Verified(log, ledgertest.Origin, []string{key.Public()}, []string{public}), []string{public}, 1),
	} {
		read = 0
		raw, err := log.Checkpoint(ctx)
		require.NoError(t, err, name)
		signed, err := ledger.Signers{Log: key.Public(), Witnesses: []string{public}, Quorum: 1}.Open(raw)
		require.NoError(t, err, name)
		require.Equal(t, []string{"witness.example.com"}, signed.Witnesses, name)
		require.Equal(t, rows+1, read, "%s: each row is read once", name)
		all, err := log.CosignedEvenly(ctx, 10)
		require.NoError(t, err, name)
		require.Len(t, all, 1, name)
		require.Equal(t, 1, audit.Cosigners(all[0], []string{public}), name)
	}
}
