package main

import (
	"context"
	"fmt"
	"time"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/store"
)

// vouchTime bounds the wait for the log's sequencer, which looks several times
// a second.
const vouchTime = 10 * time.Second

// vouch says what the ledger has of a run that has ended: its entries have their
// places in the log, under a checkpoint that the log's key has signed.
func (p *Program) vouch(ctx context.Context, kept *store.Opened, t ticket) error {
	if kept.Key == nil {
		return nil // another process signs this log
	}
	signed, err := sequenced(ctx, kept)
	if err != nil {
		return unanswered("looking at the ledger: %s", err)
	}
	entries := 0
	if r, err := kept.Ledger.Run(ctx, t.Run, ""); err == nil {
		chain, err := kept.Ledger.Chain(ctx, r.Chain())
		if err != nil {
			return storeError(err)
		}
		entries = len(chain)
	}
	p.say("ledger     %s: %s of this run, %s in all, checkpoint signed", signed.Origin, plural(entries, "entry"), plural(int(signed.Size), "entry"))
	return nil
}

// sequenced waits until every entry has its place, and gives the checkpoint.
func sequenced(ctx context.Context, kept *store.Opened) (ledger.Signed, error) {
	ctx, cancel := context.WithTimeout(ctx, vouchTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		pending, err := kept.Ledger.Pending(ctx, 1)
		if err != nil {
			return ledger.Signed{}, err
		}
		if len(pending) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return ledger.Signed{}, fmt.Errorf("entries have no place in the log yet: %w", ctx.Err())
		case <-tick.C:
		}
	}
	raw, err := kept.Ledger.Checkpoint(ctx)
	if err != nil {
		return ledger.Signed{}, err
	}
	return ledger.Signers{Log: kept.Key.Public()}.Open(raw)
}
