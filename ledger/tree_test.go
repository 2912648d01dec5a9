package ledger_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/ledger"
)

func leaf(i int64) ledger.Hash { return ledger.LeafHash(fmt.Appendf(nil, "entry %d", i)) }

func grow(t require.TestingT, tree *ledger.Tree, to int64) ledger.Checkpoint {
	for i := tree.Size(); i < to; i++ {
		require.NoError(t, tree.Add(leaf(i)))
	}
	root, err := tree.Root()
	require.NoError(t, err)
	return ledger.Checkpoint{Origin: "test", Size: to, Root: root}
}

// RFC 6962, section 2.1: the root of the empty tree is SHA-256 of nothing, and of
// one entry its leaf hash.
func TestRoots(t *testing.T) {
	require.Equal(t, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", ledger.EmptyRoot().String())
	tree := ledger.NewTree()
	require.Equal(t, leaf(0), grow(t, tree, 1).Root)
	require.Equal(t, "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d", ledger.LeafHash(nil).String())
}

func TestProofs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old := rapid.Int64Range(0, 300).Draw(t, "old")
		size := old + rapid.Int64Range(0, 300).Draw(t, "more")
		tree := ledger.NewTree()
		before := grow(t, tree, old)
		after := grow(t, tree, size)
		proof, err := tree.ProveExtends(old)
		require.NoError(t, err)
		require.NoError(t, ledger.Extends(before, after, proof))
		if old < size {
			require.ErrorIs(t, ledger.Extends(after, before, proof), ledger.ErrProof)
		}
		if old > 0 && old < size {
			bad := before
			bad.Root[3] ^= 1
			require.ErrorIs(t, ledger.Extends(bad, after, proof), ledger.ErrProof)
			require.ErrorIs(t, ledger.Extends(before, after, proof[1:]), ledger.ErrProof)
		}
		if size == 0 {
			return
		}
		i := rapid.Int64Range(0, size-1).Draw(t, "index")
		proof, err = tree.ProveEntry(i)
		require.NoError(t, err)
		require.NoError(t, ledger.Holds(after, i, leaf(i), proof))
		require.ErrorIs(t, ledger.Holds(after, i, leaf(i+1), proof), ledger.ErrProof)
		require.ErrorIs(t, ledger.Holds(after, size, leaf(i), proof), ledger.ErrProof)
		if size > 1 {
			require.ErrorIs(t, ledger.Holds(after, (i+1)%size, leaf(i), proof), ledger.ErrProof)
		}
	})
}

func TestCheckpointSignatures(t *testing.T) {
	secret, public, err := ledger.NewKey("example.com/log")
	require.NoError(t, err)
	key, err := ledger.ParseKey(secret + "\n")
	require.NoError(t, err)
	require.Equal(t, public, key.Public())
	_, err = ledger.ParseKey("PRIVATE+KEY+" + secret[20:])
	require.Error(t, err)
	require.NotContains(t, err.Error(), secret[40:])

	tree := ledger.NewTree()
	sign := func(size int64) ([]byte, ledger.Checkpoint) {
		c := grow(t, tree, size)
		c.Origin = "example.com/log"
		raw, err := key.Sign(c)
		require.NoError(t, err)
		return raw, c
	}
	first, one := sign(3)
	opened, err := ledger.Signers{Log: public}.Open(first)
	require.NoError(t, err)
	require.Equal(t, one, opened.Checkpoint)
	_, err = key.Sign(ledger.Checkpoint{Origin: "other"})
	require.Error(t, err)

	_, stranger, err := ledger.NewKey("example.com/log")
	require.NoError(t, err)
	_, err = ledger.Signers{Log: stranger}.Open(first)
	require.ErrorIs(t, err, ledger.ErrCheckpoint)
	for i := range first {
		bad := append([]byte{}, first...)
		bad[i] ^= 1
		_, err = ledger.Signers{Log: public}.Open(bad)
		require.Error(t, err, "byte %d", i)
	}

	secretW, publicW, err := ledger.NewKey("witness.example.com")
	require.NoError(t, err)
	w, err := ledger.NewWitness(secretW, public, nil)
	require.NoError(t, err)
	both := ledger.Signers{Log: public, Witnesses: []string{publicW}, Quorum: 1}
	_, err = both.Open(first)
	require.ErrorContains(t, err, "0 of the known witnesses have cosigned, 1 must")
	cosigned, err := w.Cosign(first, nil)
	require.NoError(t, err)
	opened, err = both.Open(cosigned)
	require.NoError(t, err)
	require.Equal(t, []string{"witness.example.com"}, opened.Witnesses)
	merged, err := ledger.Merge(first, cosigned)
	require.NoError(t, err)
	require.Equal(t, string(cosigned), string(merged))
	again, err := ledger.Merge(merged, cosigned)
	require.NoError(t, err)
	require.Equal(t, string(merged), string(again))
	lines := strings.SplitAfter(string(first), "\n")
	_, err = ledger.Signers{Log: public}.Open([]byte(string(first) + lines[len(lines)-2]))
	require.ErrorContains(t, err, "a signature stands there twice")

	second, _ := sign(9)
	_, err = w.Cosign(second, nil)
	require.ErrorIs(t, err, ledger.ErrProof, "a witness wants to see that the tree only grew")
	proof, err := tree.ProveExtends(3)
	require.NoError(t, err)
	_, err = w.Cosign(second, proof)
	require.NoError(t, err)
	_, err = w.Cosign(first, nil)
	require.ErrorIs(t, err, ledger.ErrProof, "and does not go back")
	_, err = ledger.Merge(first, second)
	require.ErrorIs(t, err, ledger.ErrCheckpoint)
}

func TestFrontier(t *testing.T) {
	tree, f := ledger.NewTree(), ledger.Frontier{}
	require.Equal(t, ledger.EmptyRoot(), f.Root())
	for i := range int64(300) {
		f.Add(leaf(i))
		require.Equal(t, grow(t, tree, i+1).Root, f.Root())
		require.Equal(t, i+1, f.Size())
	}
}
