package audit

import (
	"bytes"
	"context"
	"fmt"
	"math"

	"github.com/transparency-dev/formats/proof"

	"chimera.ai/engine/ledger"
)

// MaxProofBytes bounds a proof: an entry, a checkpoint, and a hash for each
// level of the largest tree.
const MaxProofBytes = 2*ledger.MaxEntryBytes + ledger.MaxCheckpointBytes + 64*64

// proofForm begins every proof.
const proofForm = "c2sp.org/tlog-proof@"

// ErrNoProof reports, as an [ledger.ErrProof], what is not written as a proof at all.
var ErrNoProof = fmt.Errorf("%w: it is not the proof of an entry", ledger.ErrProof)

// Prove returns a proof that the log holds an entry, as a C2SP tlog-proof
// (https://c2sp.org/tlog-proof) whose extra data are the entry's bytes. An entry
// without a place in the tree yet is [ledger.ErrNotFound].
func Prove(ctx context.Context, log ledger.Log, h ledger.Hash) ([]byte, error) {
	r, err := log.Find(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("prove an entry: %w", err)
	}
	raw, err := log.Checkpoint(ctx)
	if err != nil {
		return nil, fmt.Errorf("prove an entry: %w", err)
	}
	c, err := ledger.ParseCheckpoint(raw)
	if err != nil {
		return nil, fmt.Errorf("prove an entry: %w", err)
	}
	if r.Index < 0 || r.Index >= c.Size {
		return nil, fmt.Errorf("prove an entry: it has no place in the tree yet: %w", ledger.ErrNotFound)
	}
	hashes, err := ledger.OpenTree(ctx, c, log).ProveEntry(r.Index)
	if err != nil {
		return nil, err
	}
	p := proof.TLogProof{Index: uint64(r.Index), Checkpoint: raw, ExtraData: r.Bytes}
	for _, x := range hashes {
		p.Hashes = append(p.Hashes, x)
	}
	return p.Marshal(), nil
}

// Proven is what a proof proves: that the log held the entry when the checkpoint
// was signed.
type Proven struct {
	Index int64
	Hash  ledger.Hash
	Entry *ledger.Entry
	// Bytes are the entry's canonical bytes.
	Bytes      []byte
	Checkpoint ledger.Signed
}

// VerifyProof verifies a proof of [Prove]. The error is [ledger.ErrProof], such as [ErrNoProof],
// or [ledger.ErrCheckpoint] where it proves nothing.
func VerifyProof(raw []byte, t Trust) (Proven, error) {
	var p proof.TLogProof
	if !bytes.HasPrefix(raw, []byte(proofForm)) {
		return Proven{}, ErrNoProof
	}
	if len(raw) > MaxProofBytes {
		return Proven{}, fmt.Errorf("%w: %d bytes, more than %d", ledger.ErrProof, len(raw), MaxProofBytes)
	}
	if err := p.Unmarshal(raw); err != nil {
		return Proven{}, fmt.Errorf("%w: %w", ledger.ErrProof, err)
	}
	// The library accepts other texts for the same proof; a proof has only one
	// form.
	if !bytes.Equal(p.Marshal(), raw) {
		return Proven{}, fmt.Errorf("%w: it is not written as proofs are", ledger.ErrProof)
	}
	if p.Index > math.MaxInt64 || p.ExtraData == nil {
		return Proven{}, fmt.Errorf("%w: it holds no entry", ledger.ErrProof)
	}
	if t.Quorum == 0 && t.Bootstrap != nil {
		// A proof contains no statements that say who the witnesses are now.
		t.Witnesses, t.Quorum = t.Bootstrap.Witnesses.Keys, t.Bootstrap.Witnesses.Quorum
	}
	c, err := t.open(p.Checkpoint)
	if err != nil {
		return Proven{}, err
	}
	out := Proven{Index: int64(p.Index), Hash: ledger.LeafHash(p.ExtraData), Bytes: p.ExtraData, Checkpoint: c}
	hashes := make([]ledger.Hash, len(p.Hashes))
	for i, h := range p.Hashes {
		hashes[i] = h
	}
	if err := ledger.Holds(c.Checkpoint, out.Index, out.Hash, hashes); err != nil {
		return Proven{}, err
	}
	if out.Entry, err = ledger.DecodeEntry(p.ExtraData); err != nil {
		return Proven{}, fmt.Errorf("%w: %w", ledger.ErrProof, err)
	}
	if out.Entry.Origin != t.Origin {
		return Proven{}, fmt.Errorf("%w: the entry is of the log %s", ledger.ErrProof, out.Entry.Origin)
	}
	return out, nil
}
