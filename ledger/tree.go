package ledger

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// ErrProof reports an invalid proof.
var ErrProof = errors.New("the proof does not verify")

// Tree is the Merkle tree of a log up to a size, over a source of tiles.
type Tree struct {
	size  int64
	root  Hash
	tiles tlog.HashReader
	// fresh holds hashes that no stored tile has yet, by storage index.
	fresh map[int64]tlog.Hash
}

// Tiles returns stored tiles.
type Tiles interface {
	Tile(ctx context.Context, level int, n int64, width int) ([]byte, error)
}

// OpenTree returns the tree of a checkpoint. What is read from source is verified
// against its root.
func OpenTree(ctx context.Context, c Checkpoint, source Tiles) *Tree {
	t := tlog.Tree{N: c.Size, Hash: tlog.Hash(c.Root)}
	return &Tree{size: c.Size, root: c.Root, tiles: tlog.TileHashReader(t, &tileReader{ctx, source}), fresh: map[int64]tlog.Hash{}}
}

// tileReader adapts [Tiles] to the library.
type tileReader struct {
	ctx    context.Context
	source Tiles
}

func (r *tileReader) Height() int { return TileHeight }

func (r *tileReader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	out := make([][]byte, len(tiles))
	for i, t := range tiles {
		data, err := r.source.Tile(r.ctx, t.L, t.N, t.W)
		if err != nil {
			return nil, err
		}
		out[i] = data
	}
	return out, nil
}

func (r *tileReader) SaveTiles([]tlog.Tile, [][]byte) {}

// ReadHashes returns hashes by storage index: those that were added here, and
// verified ones of the source.
func (t *Tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	var missing []int64
	var at []int
	for i, x := range indexes {
		if h, ok := t.fresh[x]; ok {
			out[i] = h
			continue
		}
		missing, at = append(missing, x), append(at, i)
	}
	if len(missing) == 0 {
		return out, nil
	}
	if t.tiles == nil {
		return nil, fmt.Errorf("%w: hash %d is not in the tree", ErrProof, missing[0])
	}
	found, err := t.tiles.ReadHashes(missing)
	if err != nil {
		return nil, err
	}
	for i, h := range found {
		out[at[i]] = h
		// The right edge is read again for every entry.
		t.fresh[missing[i]] = h
	}
	return out, nil
}

// NewTree returns an empty tree that holds all its hashes in memory.
func NewTree() *Tree { return &Tree{root: EmptyRoot(), fresh: map[int64]tlog.Hash{}} }

// Size and Root are those of the tree as it is now.
func (t *Tree) Size() int64 { return t.size }

// Root is the root hash over all entries.
func (t *Tree) Root() (Hash, error) {
	if t.size == 0 {
		return EmptyRoot(), nil
	}
	h, err := tlog.TreeHash(t.size, t)
	if err != nil {
		return Hash{}, fmt.Errorf("compute root: %w", err)
	}
	return Hash(h), nil
}

// Add appends leaf hashes.
func (t *Tree) Add(leaves ...Hash) error {
	for _, h := range leaves {
		stored, err := tlog.StoredHashesForRecordHash(t.size, tlog.Hash(h), t)
		if err != nil {
			return fmt.Errorf("add to the tree: %w", err)
		}
		at := tlog.StoredHashIndex(0, t.size)
		for i, s := range stored {
			t.fresh[at+int64(i)] = s
		}
		t.size++
	}
	return nil
}

// Since returns the tiles that a tree of size old lacks.
func (t *Tree) Since(old int64) ([]Tile, error) {
	var out []Tile
	for _, x := range tlog.NewTiles(TileHeight, old, t.size) {
		data, err := tlog.ReadTileData(x, t)
		if err != nil {
			return nil, fmt.Errorf("make tiles: %w", err)
		}
		out = append(out, Tile{Level: x.L, N: x.N, Width: x.W, Data: data})
	}
	return out, nil
}

// ProveEntry proves that the tree holds the entry of an index.
func (t *Tree) ProveEntry(index int64) ([]Hash, error) {
	if index < 0 || index >= t.size {
		return nil, fmt.Errorf("%w: the tree has %d entries, so none has index %d", ErrProof, t.size, index)
	}
	p, err := tlog.ProveRecord(t.size, index, t)
	if err != nil {
		return nil, fmt.Errorf("prove entry %d: %w", index, err)
	}
	return hashes(p), nil
}

// ProveExtends proves that the tree begins with all entries of its older version.
func (t *Tree) ProveExtends(old int64) ([]Hash, error) {
	if old < 0 || old > t.size {
		return nil, fmt.Errorf("%w: a tree of %d entries does not extend one of %d", ErrProof, t.size, old)
	}
	if old == 0 || old == t.size {
		return nil, nil
	}
	p, err := tlog.ProveTree(t.size, old, t)
	if err != nil {
		return nil, fmt.Errorf("prove that %d entries are the first of %d: %w", old, t.size, err)
	}
	return hashes(p), nil
}

func hashes(p []tlog.Hash) []Hash {
	out := make([]Hash, len(p))
	for i, h := range p {
		out[i] = Hash(h)
	}
	return out
}

func library(p []Hash) []tlog.Hash {
	out := make([]tlog.Hash, len(p))
	for i, h := range p {
		out[i] = tlog.Hash(h)
	}
	return out
}

// Holds verifies that the tree of c holds a leaf at an index.
func Holds(c Checkpoint, index int64, leaf Hash, proof []Hash) error {
	if index < 0 || index >= c.Size {
		return fmt.Errorf("%w: a tree of %d entries has none with index %d", ErrProof, c.Size, index)
	}
	if err := tlog.CheckRecord(library(proof), c.Size, tlog.Hash(c.Root), index, tlog.Hash(leaf)); err != nil {
		return fmt.Errorf("%w: entry %d is not in the tree of %d entries: %w", ErrProof, index, c.Size, err)
	}
	return nil
}

// Extends verifies that the tree of c begins with all entries of the tree of
// old, under the same origin.
func Extends(old, c Checkpoint, proof []Hash) error {
	switch {
	case old.Origin != c.Origin:
		return fmt.Errorf("%w: the logs are %s and %s", ErrProof, old.Origin, c.Origin)
	case old.Size > c.Size:
		return fmt.Errorf("%w: %d entries are fewer than the %d there were", ErrProof, c.Size, old.Size)
	case old.Size == c.Size:
		if old.Root != c.Root {
			return fmt.Errorf("%w: two trees of %d entries have different roots", ErrProof, c.Size)
		}
		return nil
	case old.Size == 0:
		return nil
	}
	if err := tlog.CheckTree(library(proof), c.Size, tlog.Hash(c.Root), old.Size, tlog.Hash(old.Root)); err != nil {
		return fmt.Errorf("%w: the tree of %d entries does not begin with the %d that there were: %w", ErrProof, c.Size, old.Size, err)
	}
	return nil
}

// Frontier is the right edge of a growing tree, from which its root can be computed, in
// memory that grows with the logarithm of its size. The zero value is the empty tree.
type Frontier struct {
	size  int64
	roots []Hash // of complete subtrees, the largest first
}

// Add appends a leaf hash.
func (f *Frontier) Add(leaf Hash) {
	f.roots = append(f.roots, leaf)
	f.size++
	// As many subtrees become one as the size has zeros at its end.
	for n := f.size; n&1 == 0; n >>= 1 {
		k := len(f.roots) - 2
		f.roots[k] = Hash(tlog.NodeHash(tlog.Hash(f.roots[k]), tlog.Hash(f.roots[k+1])))
		f.roots = f.roots[:k+1]
	}
}

// Size returns the number of leaves.
func (f *Frontier) Size() int64 { return f.size }

// Root is the root hash over all leaves.
func (f *Frontier) Root() Hash {
	if f.size == 0 {
		return EmptyRoot()
	}
	root := f.roots[len(f.roots)-1]
	for i := len(f.roots) - 2; i >= 0; i-- {
		root = Hash(tlog.NodeHash(tlog.Hash(f.roots[i]), tlog.Hash(root)))
	}
	return root
}

// EmptyRoot is the root of the tree without entries (RFC 6962, section 2.1).
func EmptyRoot() Hash {
	root, err := tlog.TreeHash(0, nil)
	if err != nil {
		panic(err) // nothing is read
	}
	return Hash(root)
}
