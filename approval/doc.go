// Package approval defines what people sign when they approve effects, and what their
// signatures are worth.
//
// # What is asked
//
// A [Request] says what is to happen: each action by its digest, with what it rests on; who
// must approve it, and who must not; and the digest of the text that people are shown
// ([Text]). The guardian makes it when a barrier opens, and nothing of it changes until the
// barrier is closed. Its digest is that of its canonical JSON.
//
// A request of the kind [Outcome] asks what one call did that was made, and of which nobody
// knows whether it had its effect. Its action names the decision by which the call was
// permitted, which permits one call: so an answer is about no other.
//
// # What is signed
//
// A [Payload] is a decision on a request, by one signer in one role. It names the digest of
// the request, so whatever differs makes another payload, and repeats what it is about: the
// workflow, the barrier, the plan, the actions and the text. It travels in a DSSE envelope
// of the type [Type], whose one signature is over the PAE. A signature of OpenSSH has the
// namespace "approval@chimera.ai", and stands in the envelope as its blob, without armor.
//
// # What it counts for
//
// [Of] reads a request as its barrier stands, which matters where a rule escalates: before
// the ledger has barrier.escalated, the groups of the escalation are not asked, and after it,
// they must be met as well as all others. So the order of entries in the ledger tells whether
// an approval was complete before. [Verify] checks an envelope against a request and the
// statements of the admins, and [Vote.Arrives] whether it is late, or signed before.
// [Request.Count] says whether verified votes are enough: for each group as many different
// persons as it asks for, of whom nobody counts twice, and [Request.Objection] whether one of
// them ends it without an answer. Who signs for another, by a [Delegation], counts as one
// person with that other.
//
// The package reads no clock: instants are arguments.
package approval
