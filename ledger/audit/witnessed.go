package audit

import (
	"context"

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
	if err != nil || Cosigners(latest, w.keys) >= w.quorum {
		return latest, err
	}
	older, err := w.Cosigned(ctx, maxCosigned)
	if err != nil {
		return nil, err
	}
	for _, raw := range older {
		if Cosigners(raw, w.keys) >= w.quorum {
			return raw, nil
		}
	}
	return latest, nil
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
