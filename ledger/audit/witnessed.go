package audit

import (
	"context"
	"errors"

	"chimera.ai/engine/ledger"
)

// maxCosigned bounds how many older checkpoints are examined.
const maxCosigned = 1000

// Witnessed returns a log as its witnesses have seen it: its checkpoint is the
// latest that a quorum of them has cosigned. If there is none, it is the latest of
// all, and lacks their cosignatures: see [Cosigners]. The same applies to an export
// if bodies were pruned since, which the witnesses have not seen stated.
func Witnessed(log ledger.Log, keys []string, quorum int) ledger.Log {
	if quorum <= 0 {
		return log
	}
	return &witnessed{log, keys, quorum}
}

type witnessed struct {
	ledger.Log
	keys   []string
	quorum int
}

// unwitnessed returns the log itself.
func unwitnessed(log ledger.Log) ledger.Log {
	if w, ok := log.(*witnessed); ok {
		return w.Log
	}
	return log
}

// Checkpoint implements [ledger.Log].
func (w *witnessed) Checkpoint(ctx context.Context) ([]byte, error) {
	latest, err := w.Log.Checkpoint(ctx)
	if err != nil {
		return nil, err
	}
	latest, enough, err := w.cosigned(ctx, latest)
	if err != nil || enough {
		return latest, err
	}
	older, err := w.Cosigned(ctx, maxCosigned)
	if err != nil {
		return nil, err
	}
	for _, raw := range older {
		raw, enough, err := w.cosigned(ctx, raw)
		if err != nil || enough {
			return raw, err
		}
	}
	return latest, nil
}

// CosignedEvenly implements [ledger.Log].
func (w *witnessed) CosignedEvenly(ctx context.Context, limit int) ([][]byte, error) {
	all, err := w.Log.CosignedEvenly(ctx, limit)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i], _, err = w.cosigned(ctx, all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// cosigned returns a checkpoint with the cosignatures of the witnesses, and reports whether they are a
// quorum. A log that knows no keys has merged only some of what it has.
func (w *witnessed) cosigned(ctx context.Context, raw []byte) ([]byte, bool, error) {
	have := Cosigners(raw, w.keys)
	if have >= w.quorum {
		return raw, true, nil
	}
	full, err := ledger.WithCosignatures(ctx, w.Log, raw, w.keys)
	if errors.Is(err, ledger.ErrCheckpoint) {
		return raw, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if n := Cosigners(full, w.keys); n > have {
		return full, n >= w.quorum, nil
	}
	return raw, false, nil
}

// Cosigners counts the witnesses that have cosigned a checkpoint.
func Cosigners(checkpoint []byte, keys []string) (n int) {
	for _, key := range keys {
		if _, _, _, err := ledger.Cosignature(checkpoint, key); err == nil {
			n++
		}
	}
	return n
}
