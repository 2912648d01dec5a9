package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"maps"
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
// log, and witnesses those of witnesses, whose cosignatures are verified; some of those of others
// are passed on as they are: see [WithCosignatures].
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
	return v.cosigned(ctx, f.Raw, f.key)
}

// cosigned returns a checkpoint with the signature of the log's key and cosignatures alone.
func (v *verified) cosigned(ctx context.Context, raw []byte, key int) ([]byte, error) {
	only, err := Signers{Log: v.keys[key]}.Alone(raw)
	if err != nil {
		return nil, err
	}
	return WithCosignatures(ctx, v.Log, only, v.witnesses)
}

// WithCosignatures returns a checkpoint with its first signature, which is the log's, and with
// cosignatures that the log has for it. Those of the witnesses, which are given by their verifier
// keys, are verified, and found however many rows somebody has added; of others, which are passed
// on as they are, some may be missing.
func WithCosignatures(ctx context.Context, log Log, checkpoint []byte, witnesses []string) ([]byte, error) {
	c, err := ParseCheckpoint(checkpoint)
	if err != nil {
		return nil, err
	}
	known, err := makers(witnesses)
	if err != nil {
		return nil, err
	}
	m, err := newMerge(checkpoint)
	if err != nil {
		return nil, err
	}
	first := bytes.IndexByte(checkpoint[len(m.text):], '\n') + 1
	if err := m.add(checkpoint[:len(m.text)+first], known); err != nil {
		return nil, err
	}
	wanted := search{text: m.text, missing: maps.Clone(known)}
	wanted.in(checkpoint)
	rest := [][]byte{checkpoint}
	for more, err := range cosignatures(ctx, log, c.Size) {
		if err != nil {
			return nil, err
		}
		wanted.in(more)
		if len(rest) < maxSignatures {
			rest = append(rest, more)
		} else if len(wanted.missing) == 0 {
			break
		}
	}
	for _, one := range wanted.found {
		_ = m.add(one, nil) // what does not fit is left out
	}
	for _, others := range rest {
		_ = m.add(others, known)
	}
	return m.out, nil
}

// pager is a log that lists the texts of [Log.Cosignatures] in pages. They may be many: whoever may
// write to the database adds some, and nobody deletes any.
type pager interface {
	// CosignaturesAfter lists those of a size after a serial, at most limit, and returns the last
	// serial.
	CosignaturesAfter(ctx context.Context, size, serial int64, limit int) (texts [][]byte, last int64, err error)
}

// mostCosignatures is how many texts with cosignatures are read at once, after the first page.
const mostCosignatures = 1000

// cosignatures lists the texts that a log has for a size. It ends with the first error.
func cosignatures(ctx context.Context, log Log, size int64) iter.Seq2[[]byte, error] {
	for {
		v, ok := log.(*verified)
		if !ok {
			break
		}
		log = v.Log // it lists the same
	}
	return func(yield func([]byte, error) bool) {
		paged, ok := log.(pager)
		for serial, limit := int64(math.MinInt64), maxSignatures; ; limit = mostCosignatures {
			var page [][]byte
			var err error
			if ok {
				page, serial, err = paged.CosignaturesAfter(ctx, size, serial, limit)
			} else {
				page, err = log.Cosignatures(ctx, size)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, text := range page {
				if !yield(text, nil) {
					return
				}
			}
			if !ok || len(page) < limit {
				return
			}
		}
	}
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
		signed, err := v.cosigned(ctx, h.Raw, key)
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
