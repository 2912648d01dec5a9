package ledger_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// strange returns a checkpoint with signatures of makers from one number to another.
func strange(raw []byte, from, to int) []byte {
	text, _, _ := bytes.Cut(raw, []byte("\n\n"))
	out := append(bytes.Clone(text), "\n\n"...)
	for i := from; i < to; i++ {
		out = fmt.Appendf(out, "— w%d %s\n", i, base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%08d", i)))
	}
	return out
}

// TestMergeMany: to merge costs as much as there are signatures, and what comes of it is a note.
func TestMergeMany(t *testing.T) {
	raw, public, _ := checkpoint(t)
	allocs := func(n int) float64 {
		more := strange(raw, 0, n)
		return testing.AllocsPerRun(2, func() { _, _ = ledger.Merge(raw, more) })
	}
	require.Less(t, allocs(400), 10.0*400)
	_, err := ledger.Merge(raw, strange(raw, 0, 64))
	require.ErrorIs(t, err, ledger.ErrCheckpoint)
	merged, err := ledger.Merge(raw, strange(raw, 0, 63))
	require.NoError(t, err)
	_, err = ledger.Signers{Log: public}.Open(merged)
	require.NoError(t, err)

	var many [][]byte
	for i := range 1000 {
		many = append(many, strange(raw, i, i+1))
	}
	merged = ledger.MergeAll(raw, many)
	require.Equal(t, 64, bytes.Count(merged, []byte("— ")))
	_, err = ledger.Signers{Log: public}.Open(merged)
	require.NoError(t, err)
}

// TestMergeGarbage: what is no signature would make the whole checkpoint malformed.
func TestMergeGarbage(t *testing.T) {
	raw, public, _ := checkpoint(t)
	text := strange(raw, 0, 0)
	proper := strange(raw, 7, 8)[len(text):]
	for _, line := range []string{
		"garbage\n", "\n", "— \n", "— w\n", "— w !\n", "— w AAAA\n", "— w AAAAAAB=\n", "—  AAAAAAA=\n", "— a+b AAAAAAA=\n",
		"— a\u00a0b AAAAAAA=\n", "— a\x01b AAAAAAA=\n", "— w AAAA\rAAA=\n", "— \xff AAAAAAA=\n", "w AAAAAAA=\n", "— w AAAAAAA= \n",
	} {
		more := append(append(bytes.Clone(text), line...), proper...)
		merged, err := ledger.Merge(raw, append(more, "— w AAAAAAA="...))
		require.NoError(t, err, "%q", line)
		require.Equal(t, string(raw)+string(proper), string(merged), "%q", line)
		_, err = ledger.Signers{Log: public}.Open(merged)
		require.NoError(t, err, "%q", line)
	}
}
