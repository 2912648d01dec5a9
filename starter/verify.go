package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/store"
)

// sequenceTimeout bounds the wait for the log's sequencer, which polls several times
// a second.
const sequenceTimeout = 10 * time.Second

// verifyLedger verifies the ledger after a run has ended, as an auditor would: from
// an export and what dev mode trusts.
func (p *Program) verifyLedger(ctx context.Context, opened *store.Opened, t runRef, folder string, trusted audit.Trust) error {
	if opened.Key == nil {
		return nil // another process signs this log
	}
	if err := sequenced(ctx, opened); err != nil {
		return unanswered("looking at the ledger: %s", err)
	}
	dir, err := os.MkdirTemp("", "chimera-audit-")
	if err != nil {
		return unanswered("exporting the ledger: %s", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	export := filepath.Join(dir, "export")
	if _, err := audit.Export(ctx, opened.Ledger, export); err != nil {
		return unanswered("exporting the ledger: %s", err)
	}
	r, err := audit.Verify(export, trusted, nil)
	if err != nil {
		return unanswered("verifying the ledger: %s", err)
	}
	if !r.OK {
		_ = r.WriteText(p.Stderr, time.Now()) // standard error is the last resort already
		return negative("the ledger does not verify")
	}
	if slices.ContainsFunc(r.OpenRuns, func(o audit.OpenRun) bool { return o.Workflow == t.Run }) {
		return negative("the ledger has no end of the run %s", t.Run)
	}
	p.say("ledger     verified: %s about %s, signed by the log's key, complete and in their order; %s",
		plural(int(r.Size), "entry"), plural(r.Runs, "run"), ends(r.Open))
	// An export creates its folder, so each size of the log has one of its own,
	// beside the other files of dev mode.
	out := filepath.Join(folder, fmt.Sprintf("export-%d", r.Size))
	p.say("           do it yourself: %s && %s", p.command("audit", "export", "--out", out),
		p.command("audit", "verify", out, "--trust", filepath.Join(folder, trustFile)))
	return nil
}

// ends describes how many runs have not ended.
func ends(open int) string {
	switch open {
	case 0:
		return "every run has its end"
	case 1:
		return "1 run has no end yet"
	}
	return fmt.Sprintf("%d runs have no end yet", open)
}

// sequenced waits until every entry has its place in the log.
func sequenced(ctx context.Context, opened *store.Opened) error {
	ctx, cancel := context.WithTimeout(ctx, sequenceTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		pending, err := opened.Ledger.Pending(ctx, 1)
		if err != nil || len(pending) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("entries have no place in the log yet: %w", ctx.Err())
		case <-tick.C:
		}
	}
}
