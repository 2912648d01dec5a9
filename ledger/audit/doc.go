// Package audit takes the ledger out of its store, and verifies it anywhere: an
// export and the public keys that the auditor has from elsewhere are enough.
//
// # Export
//
// An export is a folder:
//
//	entries.jsonl   line i holds the canonical bytes of entry i, so that its leaf
//	                hash is SHA-256 of a zero byte and the line without its end
//	bodies.jsonl    the stored bodies of these entries, in their order; a body that
//	                was pruned is not there, one that was sealed is as it is stored
//	checkpoint      the signed checkpoint over the entries, with its cosignatures
//	pending.jsonl   entries that have no place in the tree yet, as lines
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
// fork; and whatever cannot have happened, by package model. Of runs whose chain
// has no end it tells that they are open: an end that was withheld shows.
package audit
