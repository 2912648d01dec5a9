package contract

// QueueJournal is where workers of the engine's role write the ledger, and what
// else a run needs to go on: hours of calls that fill the other queues' workers do
// not hold it up.
const QueueJournal = "chimera-journal"
