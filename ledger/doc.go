// Package ledger is the record of what a deployment did, which an auditor can
// check without trusting anybody: entries, the Merkle log over them, the
// checkpoints that sign it, and the interface of the stores that keep it.
//
// This comment is the specification of the formats. Whoever has an export and
// the public keys can write a verifier from it, in any language.
//
// # Canonical JSON
//
// Where bytes are hashed they are JSON in one form: no white space; the keys of
// an object sorted by their bytes, each once; numbers as they were written;
// strings in UTF-8 that escape the quote, the backslash (\" and \\), \b, \f, \n,
// \r, \t, other characters below U+0020 (\u00XX, small hex digits), U+2028 and
// U+2029, and nothing else. An entry is the one exception to the order of keys:
// its fields have the order below.
//
// # Entry
//
// An entry is one fact. It is an object in one line, of at most 16 KiB, whose
// fields stand in this order; those with a question mark are left out where they
// are empty or 0, all others are always there.
//
//	format    "chimera.ai/ledger/entry/v1"
//	origin    the log's name, as in its checkpoints
//	chain     the sequence of facts that it belongs to
//	n         its place in the chain, from 0
//	prev      the hash of the entry before it in the chain, "" where n is 0
//	key       what it says, once: a chain has no two entries of one key
//	kind      one of the kinds below; another makes the log invalid
//	at        when it was stated, on the store's clock: 2026-01-31T09:30:00.000Z
//	class     operational, evidence, financial or permanent: how long its body stays,
//	          in this order; never one before that of its kind
//	agent?    on whose behalf
//	plan?     the digest of the compiled plan
//	run?      the workflow id of the run
//	node?, visit?, element?   the node, from 0 which visit, and which element of a list
//	task?     the id of the task
//	refs?     [{"name":…,"digest":…}], at most 64, sorted by name, each name once
//	body?     the digest of its body; those of every kind below have one
//
// Names have at most 1024 bytes and no characters below U+0020, nor U+007F. A
// digest is "sha256:" and 64 small hex digits of a SHA-256. n, visit and element
// are not negative. An entry is written in exactly one way: bytes that differ from
// what a writer makes of the decoded fields are refused, so a fact has one hash.
//
// The hash of an entry is that of a leaf in RFC 6962, section 2.1: SHA-256 of a
// zero byte and the entry's bytes. Its text is 64 small hex digits. Documents
// outside name an entry as ledger://ORIGIN/HASH.
//
// # Body
//
// What an entry is about lies outside the log, so that it can be taken out; the
// entry has the digest of the bytes as they are stored. They are canonical JSON,
// in one of two forms:
//
//	{"data":{…},"salt":"32 small hex digits"}
//	{"sealed":{"key":…,"nonce":…,"text":…}}
//
// The salt is random: what was taken out cannot be guessed. Data have at most
// 256 KiB with their salt. A sealed body is the first form in AES-256-GCM, nonce
// of 12 bytes and text with its tag of 16 bytes in base64 (RFC 4648, section 4),
// with the bytes of "key" as associated data. "key" is the id of the subject's
// key: the first 16 bytes of SHA-256 of it, in hex. Who deletes the key erases
// what it sealed, and no digest changes. What a run states is sealed whole, with one
// key, or not at all; bodies of kinds whose class is financial or permanent never are.
//
// # Chains
//
//	run/WORKFLOW/ROOT     a run: its workflow id, and the id of its first Temporal
//	                      run, which has no slash
//	plans, agents, tools  what was published, added, registered
//	authority             statements of admins; signers
//	budget/CURRENCY       all budgets and holds of a currency
//	hypotheses/AGENT, snapshots/SERVER
//	ledger                what was taken out, and legal holds
//
// A run's chain begins with run.opened and ends with run.closed. It ends as
// succeeded, failed or cancelled, as the run has stated itself, or as terminated or
// timed_out, which is stated for a run that could not. After that
// still may come kinds invocation.* (but permitted), task.* and
// hypothesis.observed, and run.closed again if the run states its end once more after
// them. The times of a chain rise as far as the store's clock does.
//
// # Kinds
//
// The key of an entry is its kind, a slash, and what it is about, which the table
// has in brackets; run.opened has its kind alone. N is the entry's n; it stands
// where a thing may be said again. The data of a kind are the JSON form of the
// type that the table names, and are written as that type writes them.
//
//	authority.stated [digest of the statement]    AuthorityData
//	plan.published [name@version]                 Plan
//	run.opened, run.closed [N]                    Run, as it is then
//	run.paused, run.resumed [number of the order]  Order
//	node.succeeded, node.failed, node.skipped     Outcome; the key is node/NODE/VISIT/ELEMENT,
//	                                              so that a node ends once
//	check.made [NODE/VISIT/NUMBER]                Check
//	task.drafted, task.signed [task id]           task.draft, task.signed (see package task)
//	task.executed [task id]                       ExecutedData
//	task.closed [task id]                         TaskClosedData
//	decision.made [id]                            Decision
//	barrier.opened, barrier.closed [id]           Barrier, BarrierData
//	barrier.reminded [id/NUMBER]                  RemindedData
//	barrier.escalated [id]                        EscalatedData
//	approval.accepted, approval.refused [id]      Approval
//	approval.consumed [decision]                  ConsumedData
//	invocation.permitted [decision]               Invocation
//	invocation.calling [id/ATTEMPT]               AttemptData, as the three below
//	invocation.released, invocation.settled, invocation.unknown [id/ATTEMPT, and /resolved
//	                                              after unknown, /abandoned where nobody
//	                                              can end it]
//	budget.set [agent/N]                          BudgetData
//	hold.opened [id]                              Hold
//	hold.running, hold.posted, hold.voided, hold.expired [id]   HoldData
//	agent.added [id]                              Agent
//	signer.enrolled, signer.revoked [id]          Signer, RevokedData
//	tool.registered [id], tool.trusted [id/N]     Tool, TrustedData
//	hypothesis.stated [id]                        Hypothesis
//	hypothesis.observed [id/COUNT]                ObservedData; COUNT is how many KPIs are
//	                                              observed with those that it adds
//	snapshot.taken [N]                            Snapshot
//	rules.kept [digest]                           RulesData
//	body.pruned, subject.erased [N]               PrunedData, ErasedData
//	legal-hold.placed, legal-hold.lifted [N]      LegalHoldData
//
// An invocation that people have resolved names their statements, which were accepted at a
// barrier about its last call.
//
// The id of a decision is that of the invocation that it is about, a slash, and its number
// among those; the hold of an effect has the id of the decision that it is opened for, and
// so has the task, which the decision after an approval signs and does not draft again. The hold of a
// call runs before the call, and has ended before a call that is settled or released.
//
// Package model defines which entries may follow which.
//
// # Money
//
// {"amount":"12.50","currency":"USD"}: a code of ISO 4217, and a decimal with
// exactly as many places as its minor unit has, of at most 63 bits of minor units.
// Nothing else is an amount, so that equal amounts have equal texts.
//
// A hold counts in its charges: the budget of its agent, then that of the parent, and
// so on, each in the period in which the hold is opened. A period is a day (2006-01-02),
// a month (2006-01) or forever, in UTC.
//
// # Log and checkpoint
//
// The log is the Merkle tree of RFC 6962, section 2.1, over the entries by their
// index. The order of the log agrees with the order of every chain, and with the order
// of any two entries of which one was stated before the other was begun.
//
// A checkpoint is a C2SP tlog-checkpoint (https://c2sp.org/tlog-checkpoint): a
// signed note whose first lines are the origin, the number of entries, and the
// root in base64. The log's key is Ed25519. Witnesses add cosignatures
// (https://c2sp.org/tlog-cosignature). Tiles are those of
// https://c2sp.org/tlog-tiles, of height 8.
//
// # Export
//
// Package audit describes the files of an export. entries.jsonl has one entry a line,
// in the order of the log, ended by a line feed: SHA-256 of a zero byte and line i
// without its end is leaf i. bodies.jsonl has one stored body a line; its digest tells
// which entry it belongs to.
package ledger
