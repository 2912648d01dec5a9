// Package audit exports the ledger from its store, and verifies exports anywhere: an export
// and the public keys that the auditor has from elsewhere are enough.
//
// # Export
//
// An export is a folder:
//
//	entries.jsonl   line i holds the canonical bytes of entry i, so that its leaf
//	                hash is SHA-256 of a zero byte and the line without its end
//	bodies.jsonl    the stored bodies of these entries, in their order; a body that
//	                was pruned is not there, one that was sealed is as it is stored
//	evidence.jsonl  the evidence packets that entries with readable bodies refer to
//	                ("evidence"), in the order of these; the digest is SHA-256 of the
//	                line without its end. One goes with its body, pruned or erased, and
//	                that of a sealed body stays in the store
//	cosigned.jsonl  at most 1,000 older checkpoints that witnesses have cosigned, spread evenly
//	                over the log, each as a JSON string with the whole signed text; their
//	                sizes rise, and are at most that of the checkpoint
//	checkpoint      the signed checkpoint over the entries, with its cosignatures
//	pending.jsonl   entries that the checkpoint does not have, as lines: the first 100,000
//	                that have got a place in the tree since, and the first 10,000 that have
//	                none yet
//	lost.jsonl      entries that neither have a place nor wait for one, as lines, with a
//	                space for each line feed
//	aside.jsonl     rows of the database that the sequencer has set aside, since they are no
//	                entries or continue no chain, one JSON object a line
//	odd.jsonl       entries that contain line feeds, as older versions may have signed, one
//	                JSON object a line; their lines in entries.jsonl are empty, so that such an
//	                export does not verify
//
// The last three are there only if there is something to tell. lost.jsonl lists the first
// 100,000 entries, and odd.jsonl all. aside.jsonl lists the first 100,000 rows, and of the others
// those that are entries and lacked nothing when they were set aside; if it leaves out some, the
// only field of its last line, more, is their number.
//
// A verifier needs checkpoint, entries.jsonl and bodies.jsonl; of the others one that is missing
// counts as empty. Each must be a regular file.
//
// A line of aside.jsonl has the columns of the row as they are in the database, and no other
// fields; bytes are in base64:
//
//	hash, chain, n, key, kind, bytes  as somebody has inserted them
//	why       what is wrong with the row
//	at        when it was set aside
//	body      the stored body that bytes name, if there is one now
//	bodied    true if there was that body when the row was set aside
//	followed  true if there was the entry before it in its chain then
//
// A line of odd.jsonl has index, the entry's place in the log, and bytes.
//
// # Events
//
// [ExportEvents] writes entries for a SIEM: events.jsonl has one CloudEvents 1.0
// event in JSON a line, whose data are an event of the Open Cybersecurity Schema
// Framework (https://schema.ocsf.io/1.8.0):
//
//	id               the entry's hash
//	source           ledger://ORIGIN
//	type             ai.chimera.ledger.KIND.v1
//	subject          the entry's chain
//	time             when it was stated
//	sequence         its index, of 19 digits, so that the order of texts is theirs
//	dataschema       the page of the OCSF class
//
// A run's beginning and end are Application Lifecycle, nodes and invocations API
// Activity, everything else Entity Management; metadata.uid is the hash again,
// metadata.sequence the index, metadata.correlation_uid the chain, and unmapped has
// the entry's own fields. Bodies stay in the ledger, where they can be pruned and
// erased: of what they say only a few terms of closed sets come along (a run's
// state, the kind of an error, a decision), and nothing where they are sealed.
// Events prove nothing; the native export does.
//
// # Verification
//
// [Verify] reads it once, in order, in bounded memory but for what the model
// keeps. It never takes a key from the export: [Trust] has them. It finds every
// entry that was changed, dropped, swapped or added, since the root over the
// lines is then not the one that was signed; a tail that was cut, since the
// checkpoint says how many there are; a checkpoint by another key; a whole tree
// that was made anew, against an older checkpoint; bodies that are not those of
// their entries, or are missing for no stated reason; chains with a gap or a
// fork; and whatever cannot have happened, by package model. A body is missing for a
// reason if an act of pruning stands behind its entry, of its class and of an instant
// after its own, while its chain was under no legal hold; there are no more such
// bodies than those acts count. What is missing or sealed hides what it said, and not
// that it was said: entries keep their kinds, in the chains of these, and an order
// that is impossible without bodies is found. Of runs whose chain
// has no end it tells that they are open: an end that was withheld shows.
//
// With a bootstrap in the trust file it follows the admins' statements, and judges
// entries by their own time: the checkpoint must be signed by the key that was
// stated last, and cosigned by the witnesses that were stated last, beside those of
// the trust file; each plan must have the signature of an author who was one when it
// was published; a start grant must be for its run, and signed by a key that could
// start runs for the agent then; who has approved must have been enrolled, valid and
// not revoked; and signers, agents, tools and budgets must be as stated, each limit and
// each trust of a tool as it was then. What stands in the log up to a minute after a
// statement may have been judged before it. How much later an entry was added than a
// statement, the entries between the two tell, as far as their neighbours bear out their
// times, and the checkpoints between them that witnesses have cosigned: what one of these
// does not have is not older than its cosignature, and what it has is not younger. Times
// far from those around them are named.
//
// Some rules hold with and without a bootstrap, unless it says otherwise:
//
//   - A namespace is one of [Trust.Namespaces]: a start grant, a signed order to a run or a
//     request for approval that is for another counts for nothing. If the trust file names
//     none, all count, and a warning says so.
//   - A hold that counts whatever is left of a budget is an overdraft. One of a call with
//     effect needs an approval by people whom the policy of their barrier lets lift the
//     budget, and who were told of it; one of a call without effect must repeat, after a
//     reset, a call that had a hold. Otherwise it is a problem. What agents were let spend so
//     is listed ([Overdraft], [Lifted]).
//   - An effect that was permitted in a run without a start grant is a problem with a
//     bootstrap, and a warning without.
//   - Words are closed sets: the kinds and classes of entries, the states of runs, barriers,
//     calls and hypotheses, decisions, and the trust of tools. An entry that uses another word,
//     or one that an entry of its kind cannot have, is a problem.
package audit
