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
	// they are written, in parallel to the nodes' work. Each batch costs a few
	// events.
	journalEntries = 500
	// maxEntries is how many outcomes may wait for a batch in flight, however
	// long the store is unavailable, before nodes wait too.
	maxEntries = 4 * journalEntries
	// journalTimeout is long enough for a store that works, however busy.
	journalTimeout = 30 * time.Second
)

// journal gathers outcomes that are not yet recorded in the ledger. All of them are
// recorded when the run ends at the latest; an outcome may be sent twice.
type journal struct {
	// entries have not been sent yet, or are to be sent again; sent are in
	// flight, and unwritten are recorded at the end.
	entries, sent, unwritten []contract.JournalEntry
	// elsewhere were written for the run before a reset. They only affect the
	// contents of requests, so that the history before the reset replays.
	elsewhere []contract.JournalEntry
	writing   bool
	// batch is the number of the last batch.
	batch int
	// noted counts the outcomes, done those that the ledger has got, or will not before
	// the end. unopened reports that the ledger does not know the run, which it does not
	// after a reset until something is written. That is only learnt from an answer, since a
	// reset may change no command of the history before it.
	noted, done int
	unopened    bool
	// ended reports that the ledger has the end of the run, as after a workflow task that
	// Temporal has discarded. The run ends so: nothing can be done for it any more.
	ended bool
}

func (j *journal) note(e contract.JournalEntry) {
	j.entries = append(j.entries, e)
	j.noted++
}

// left are the outcomes that the ledger may not have, without those of elsewhere.
func (j *journal) left() []contract.JournalEntry {
	return slices.Concat(j.unwritten, j.sent, j.entries)
}

// cut ends the chain of local activities in this workflow task, since an ordinary
// activity makes the server record them.
func (r *run) cut() {
	r.meter.cutting = true
	if !r.journal.writing {
		r.write()
	}
}

// write sends a batch to the ledger by an ordinary activity. Nothing waits for it,
// except when a chain is cut. Temporal retries it while the store is unavailable.
func (r *run) write() {
	j := &r.journal
	j.batch++
	n := min(len(j.entries), contract.MaxEntries)
	j.sent, j.entries = j.entries[:n:n], j.entries[n:]
	j.writing = true
	id := "engine/journal#" + strconv.Itoa(j.batch)
	request := contract.JournalRequest{
		Run: r.identity(), Plan: r.head.Digest, Input: r.head.InputDigest,
		Request: r.tag + "/" + id, Entries: j.sent, Open: j.unopened || r.outage.knocking,
	}
	ctx := workflow.WithActivityOptions(r.steady, workflow.ActivityOptions{
		TaskQueue: contract.QueueJournal, ActivityID: id, Summary: "journal",
		StartToCloseTimeout: journalTimeout, ScheduleToCloseTimeout: tryTime, RetryPolicy: recording,
	})
	r.flights = append(r.flights, &wait{
		kind: waitJournal, since: r.now(), request: request.Request, key: r.key,
		future: workflow.ExecuteActivity(ctx, contract.ActivityJournal, request),
	})
}

// recording is the retry policy of what must reach the ledger: retry until it does.
var recording = &temporal.RetryPolicy{
	InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: maxBackoff,
}

// landBatch handles the end of a batch. A final refusal by the ledger, which has
// something else under the same name, ends the run. landBatch reports whether it was written.
func (r *run) landBatch(w *wait) bool {
	j := &r.journal
	r.meter.cutting, j.writing = false, false
	var receipt contract.JournalReceipt
	err := w.future.Get(r.steady, &receipt)
	if err == nil && receipt.Request != w.request {
		err = errOther
	}
	switch {
	case err != nil:
		workflow.GetLogger(r.ctx).Warn("a journal batch was not written", "batch", j.batch, "error", err)
		f := readFailure(err, w)
		refused := f.refused(r.root) || f.root != "" && f.refused(f.root) && r.acted()
		if refused {
			r.fails(unrecorded(&f))
		}
		if !refused && r.now().Sub(w.since) >= maxPause && r.resends() {
			j.entries = slices.Concat(j.sent, j.entries)
			j.done -= len(j.sent)
			break
		}
		// Otherwise a worker that answers at once would be asked forever.
		j.unwritten = append(j.unwritten, j.sent...)
	case receipt.Root != r.root:
		j.elsewhere = append(j.elsewhere, j.sent...)
	case receipt.Ended:
		j.ended = true
		r.fails(contract.Failure{Kind: contract.Conflict, Message: "the ledger has an end of the run already"})
	}
	if err == nil {
		j.unopened = false
	}
	j.done += len(j.sent)
	j.sent = nil
	return err == nil
}

// resends reports whether a batch is sent again after the store was unavailable,
// which it is, except in histories from before this rule.
func (r *run) resends() bool {
	return workflow.GetVersion(r.steady, "engine/journal", workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

// acted reports whether, in the history before a reset, the run ended with a
// refusal of its last batch that does not name its root. Then it ends that way
// again, since that history has the commands of a run that ends. A refusal that
// arrives after the reset ends nothing, which a marker records for replays.
func (r *run) acted() bool {
	change := "engine/journal#" + strconv.Itoa(r.journal.batch)
	return workflow.GetVersion(r.steady, change, workflow.DefaultVersion, 1) == workflow.DefaultVersion
}

// refusals are the kinds of failure by which the ledger finally refuses a statement
// of a run.
var refusals = []contract.Kind{contract.Conflict, contract.Contract, contract.TooLarge}

// refused reports whether the ledger finally refuses the statements of the run with
// that root. A refusal for another run, such as the one before a reset, says
// nothing about this one.
func (f *failure) refused(root string) bool {
	return f.root == root && slices.Contains(refusals, f.Kind)
}

// unrecorded is the failure of a run that conflicts with the ledger. It fails,
// whatever its nodes returned.
func unrecorded(f *failure) contract.Failure {
	return complete(contract.Failure{Kind: f.Kind, Message: "the ledger refuses what the run states: " + f.Message})
}
