package ledger

import (
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"math"
)

// Head is a row of the database that claims to be a checkpoint of the log.
type Head struct {
	// N numbers the rows, and Size is how many entries the log has by the row.
	N, Size int64
	// Raw is the signed text, without cosignatures.
	Raw []byte
	// At is when the row was added, by the store's clock.
	At Time
}

// Top is where [Log.Heads] begins.
var Top = Head{Size: math.MaxInt64, N: math.MaxInt64}

// Checkpoint reads the checkpoint without looking at its signatures. It is [ErrCheckpoint] if
// the row says another size than its text, or the text is of another log.
func (h Head) Checkpoint(origin string) (Checkpoint, error) {
	c, err := ParseCheckpoint(h.Raw)
	switch {
	case err != nil:
		return c, err
	case c.Size != h.Size:
		return c, fmt.Errorf("%w: it is over %d entries, and stored as one over %d", ErrCheckpoint, c.Size, h.Size)
	case c.Origin != origin:
		return c, fmt.Errorf("%w: it is of the log %.120q", ErrCheckpoint, c.Origin)
	}
	return c, nil
}

// signedBy returns which of the keys has signed the row, or -1. Without keys it is 0.
func (h Head) signedBy(origin string, keys []string) (Checkpoint, int, error) {
	c, err := h.Checkpoint(origin)
	if err != nil {
		return c, -1, err
	}
	if len(keys) == 0 {
		return c, 0, nil
	}
	for i, key := range keys {
		signed, again := Signers{Log: key}.Open(h.Raw)
		if again == nil && signed.Origin == origin {
			return signed.Checkpoint, i, nil
		}
		if i == 0 {
			err = again
		}
	}
	return c, -1, err
}

// rowID identifies a row as it is.
type rowID struct {
	n, size int64
	raw     [sha256.Size]byte
}

func (h Head) id() rowID { return rowID{h.N, h.Size, sha256.Sum256(h.Raw)} }

// found is a head that a key has signed.
type found struct {
	Head
	Checkpoint
	// key is the number of the key, passed counts the rows before it, which none has signed, and
	// fresh those of them that were verified now.
	key           int
	passed, fresh int
}

// heads are the rows of a log that claim to be checkpoints.
type heads interface {
	Heads(ctx context.Context, after Head, limit int) ([]Head, error)
}

// Rows are read in pages. Usually the first row is the one.
const (
	firstHeads = 16
	mostHeads  = 256
)

// AllHeads lists the rows of a log that claim to be checkpoints, after the given one, in the order of
// [Log.Heads]. It ends with the first error.
func AllHeads(ctx context.Context, log heads, after Head) iter.Seq2[Head, error] {
	return func(yield func(Head, error) bool) {
		for limit := firstHeads; ; limit = mostHeads {
			page, err := log.Heads(ctx, after, limit)
			if err != nil {
				yield(Head{}, err)
				return
			}
			for _, h := range page {
				if !yield(h, nil) {
					return
				}
				after = h
			}
			if len(page) < limit {
				return
			}
		}
	}
}

// latest finds the checkpoint of the largest size that one of the keys has signed, and of
// those the last. Of rows that are none, it passes over what anybody may have added. It is
// [ErrNotFound] if there are no rows, and [ErrCheckpoint] if none is signed. Those in unsigned were
// verified before, with these keys, and are not verified again; if unsigned is not nil, latest adds
// to it.
func latest(ctx context.Context, log heads, origin string, keys []string, unsigned map[rowID]bool) (found, error) {
	var f found
	var first error
	for h, err := range AllHeads(ctx, log, Top) {
		if err != nil {
			return f, err
		}
		if id := h.id(); !unsigned[id] {
			c, key, err := h.signedBy(origin, keys)
			if key >= 0 {
				f.Head, f.Checkpoint, f.key = h, c, key
				return f, nil
			}
			if first == nil {
				first = err
			}
			if f.fresh++; unsigned != nil {
				unsigned[id] = true
			}
		}
		f.passed++
	}
	switch {
	case f.passed == 0:
		return f, fmt.Errorf("the log has no checkpoint: %w", ErrNotFound)
	case first == nil:
		return f, fmt.Errorf("%w: no row that is stored as one is signed by the log's key", ErrCheckpoint)
	}
	return f, first
}

// Latest returns the latest checkpoint of a log that one of the keys has signed, and how many
// rows that claim to be later ones it has passed over. Without keys, it is the latest whose row
// says what its text says.
func Latest(ctx context.Context, log Log, origin string, keys []string) (h Head, passed int, err error) {
	f, err := latest(ctx, log, origin, keys, nil)
	if err != nil {
		return f.Head, f.passed, fmt.Errorf("read the checkpoint: %w", err)
	}
	return f.Head, f.passed, nil
}

// Verified returns a log whose checkpoints are those that one of the keys has signed, so that
// rows that somebody has added to the database do not count. keys are verifier keys of the
// log, and witnesses those of witnesses, whose cosignatures are verified; those of others are
// passed on as they are.
func Verified(log Log, origin string, keys, witnesses []string) Log {
	return &verified{log, origin, keys, witnesses}
}

type verified struct {
	Log
	origin          string
	keys, witnesses []string
}

// Checkpoint implements [Log].
func (v *verified) Checkpoint(ctx context.Context) ([]byte, error) {
	f, err := latest(ctx, v.Log, v.origin, v.keys, nil)
	if err != nil {
		return nil, fmt.Errorf("read the checkpoint: %w", err)
	}
	return v.cosigned(ctx, f.Raw, f.key, f.Checkpoint.Size)
}

// cosigned returns a checkpoint with the signature of the log's key and cosignatures alone.
func (v *verified) cosigned(ctx context.Context, raw []byte, key int, size int64) ([]byte, error) {
	out, err := Signers{Log: v.keys[key]}.Alone(raw)
	if err != nil {
		return nil, err
	}
	more, err := v.Cosignatures(ctx, size)
	if err != nil {
		return nil, err
	}
	for _, witness := range v.witnesses {
		for _, c := range more {
			if _, _, only, err := Cosignature(c, witness); err == nil {
				if merged, err := Merge(out, only); err == nil {
					out = merged
					break
				}
			}
		}
	}
	known, err := makers(v.witnesses)
	if err != nil {
		return nil, err
	}
	for _, c := range more {
		if merged, err := Merge(out, without(c, known)); err == nil {
			out = merged
		}
	}
	return out, nil
}

// Heads implements [Log]: those that one of the keys has signed.
func (v *verified) Heads(ctx context.Context, after Head, limit int) (out []Head, err error) {
	if limit <= 0 {
		return nil, nil
	}
	for h, err := range AllHeads(ctx, v.Log, after) {
		if err != nil {
			return nil, err
		}
		if _, key, _ := h.signedBy(v.origin, v.keys); key < 0 {
			continue
		}
		if out = append(out, h); len(out) == limit {
			break
		}
	}
	return out, nil
}

// Cosigned implements [Log].
func (v *verified) Cosigned(ctx context.Context, limit int) ([][]byte, error) {
	all, err := v.Log.Cosigned(ctx, limit)
	if err != nil {
		return nil, err
	}
	return v.allCosigned(ctx, all)
}

// CosignedEvenly implements [Log].
func (v *verified) CosignedEvenly(ctx context.Context, limit int) ([][]byte, error) {
	all, err := v.Log.CosignedEvenly(ctx, limit)
	if err != nil {
		return nil, err
	}
	return v.allCosigned(ctx, all)
}

// allCosigned returns the checkpoints of the sizes of some rows: of each, the last that one of the
// keys has signed. Whoever may add rows to the database hides none.
func (v *verified) allCosigned(ctx context.Context, rows [][]byte) (out [][]byte, err error) {
	last := int64(-1)
	for _, raw := range rows {
		c, err := ParseCheckpoint(raw)
		if err != nil || c.Size == last {
			continue
		}
		last = c.Size
		h, key, err := v.of(ctx, c.Size)
		if err != nil {
			return nil, err
		}
		if key < 0 {
			continue
		}
		signed, err := v.cosigned(ctx, h.Raw, key, c.Size)
		if err != nil {
			return nil, err
		}
		out = append(out, signed)
	}
	return out, nil
}

// of returns the last row of a size that one of the keys has signed, and the number of the key, or
// -1.
func (v *verified) of(ctx context.Context, size int64) (Head, int, error) {
	for h, err := range AllHeads(ctx, v.Log, Head{Size: size, N: math.MaxInt64}) {
		if err != nil {
			return Head{}, -1, err
		}
		if h.Size != size {
			break
		}
		if _, key, _ := h.signedBy(v.origin, v.keys); key >= 0 {
			return h, key, nil
		}
	}
	return Head{}, -1, nil
}
