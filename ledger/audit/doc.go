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
//	cosigned.jsonl  older checkpoints that witnesses have cosigned, spread evenly over the
//	                log, the oldest first, each as a JSON string
//	checkpoint      the signed checkpoint over the entries, with its cosignatures
//	pending.jsonl   entries that have no place in the tree yet, as lines
//	lost.jsonl      entries that neither have a place nor wait for one, as lines
//	aside.jsonl     rows of the database that the sequencer has set aside, since they are no
//	                entries: JSON with the columns, and bytes and stored body in base64
//	odd.jsonl       entries that contain line feeds, as older versions may have signed: JSON
//	                with index and bytes in base64; their lines in entries.jsonl are empty
//
// The last three are there only if there is something to tell.
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
package audit
