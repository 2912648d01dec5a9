package workflows

import (
	"slices"
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
)

const (
	// journalEntries is how many outcomes of ordinary nodes are gathered before
	// they are written, beside the nodes' own work. Each batch costs a few events.
	journalEntries = 500
	// maxEntries is how many may wait while the store cannot be reached, before
	// nodes wait too.
	maxEntries = 4 * journalEntries
	// requestEntries bounds the outcomes of one request.
	requestEntries = 1000
)

// journal gathers what the ledger is to be told. All that it holds is told at
// the latest when the run ends; an outcome may be told twice.
type journal struct {
	// entries were not sent yet, those of sent are on their way, and those of
	// unwritten were refused.
	entries, sent, unwritten []contract.JournalEntry
	writing                  bool
	// batch is the number of the last batch.
	batch int
}

func (j *journal) note(e contract.JournalEntry) { j.entries = append(j.entries, e) }

// cut ends the chain of local activities in this workflow task: an ordinary
// activity makes the server record them.
func (r *run) cut() {
	r.meter.cutting = true
	if !r.journal.writing {
		r.write()
	}
}

// write sends a batch to the ledger, by an ordinary activity that nobody waits
// for, but where a chain is cut. While the store cannot be reached, Temporal
// tries again.
func (r *run) write() {
	j := &r.journal
	j.batch++
	n := min(len(j.entries), requestEntries)
	j.sent, j.entries = j.entries[:n:n], j.entries[n:]
	j.writing = true
	ctx := workflow.WithActivityOptions(r.ctx, workflow.ActivityOptions{
		TaskQueue:           contract.QueueEngine,
		ActivityID:          "journal#" + strconv.Itoa(j.batch),
		Summary:             "journal",
		StartToCloseTimeout: journalTimeout,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second,
		},
	})
	request := r.statement(j.sent, nil)
	request.Batch = j.batch
	r.flights = append(r.flights, &flight{
		future: workflow.ExecuteActivity(ctx, contract.ActivityJournal, request),
		land: func(future workflow.Future) {
			r.meter.cutting, j.writing = false, false
			var receipt contract.JournalReceipt
			err := future.Get(r.ctx, &receipt)
			// Runs from before there were receipts have none.
			if err != nil || receipt.Batch != 0 && receipt.Batch != j.batch {
				// The last request says it again, and hears why not.
				workflow.GetLogger(r.ctx).Warn("a journal batch was not written", "batch", j.batch, "error", err)
				j.unwritten = append(j.unwritten, j.sent...)
			}
			j.sent = nil
		},
	})
}

// journalTimeout is long enough for a store that works, however busy.
const journalTimeout = 30 * time.Second

// refusals are the kinds of a ledger that will not take what a run states, ever.
var refusals = []contract.Kind{contract.Conflict, contract.Contract, contract.TooLarge}

func (r *run) statement(entries []contract.JournalEntry, end *contract.RunEnd) contract.JournalRequest {
	return contract.JournalRequest{Run: r.identity(), Plan: r.head.Digest, Input: r.head.InputDigest, Entries: entries, End: end}
}

// conclude states the end of the run, and all outcomes that the ledger may not
// have, before the run ends: by a local activity, which is one event. It waits
// for a store that cannot be reached, however long: cancellation and deadline
// do not end the wait. The failure is that of a ledger that refuses, since it
// has other things under the same name.
func (r *run) conclude(end contract.RunEnd) *failure {
	ctx, cancel := workflow.NewDisconnectedContext(r.ctx)
	defer cancel()
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		Summary:             "journal",
		StartToCloseTimeout: journalTimeout,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	j := &r.journal
	left := slices.Concat(j.unwritten, j.sent, j.entries)
	for t := (trouble{}); ; {
		part, last := left, &end
		if len(left) > requestEntries {
			part, last = left[:requestEntries], nil
		}
		err := workflow.ExecuteLocalActivity(ctx, contract.ActivityJournal, r.statement(part, last)).Get(ctx, nil)
		if err == nil {
			if left = left[len(part):]; last != nil {
				return nil
			}
			t = trouble{}
			continue
		}
		f := readFailure(err, true)
		if slices.Contains(refusals, f.Kind) {
			return &f
		}
		workflow.GetLogger(r.ctx).Warn("the end of the run was not written", "kind", f.Kind, "error", f.Message)
		timer := workflow.NewTimerWithOptions(ctx, t.backoff(), workflow.TimerOptions{Summary: "waits for the ledger"})
		if err := timer.Get(ctx, nil); err != nil {
			return &failure{ErrorPayload: contract.ErrorPayload{Kind: contract.StoreUnavailable, Message: f.Message}}
		}
		t.waits++
	}
}
