// Package adversary is a drill: it plays whoever holds one part of a deployment, and looks
// whether anybody believes them.
//
// A [Thief] holds a user of the database, a key, a credential or a disk. [Deploy] makes a deployment in
// production, with a database user and keys for each role, whose runs have had effects, and
// keeps its database as a template. Each [Attack] is made on a copy of it. Then the honest parts
// go on: they read what is stored, a run ends, another begins, the sequencer places what is
// pending, the ledger is exported and verified. What became of the attack is an [Outcome].
//
// The deployment has MCP servers, whose tools the admins have stated: one that it starts, and remote
// ones that ask for tokens, for a certificate, for tokens of OAuth, or for a secret in a header. They count the calls that they
// get. Attacks on them are made while the deployment is at work on a copy of its own, and runs call
// them.
//
// docs/audit.md says in a table what each thief can do. An attack that nobody notices must stand
// there, in the words that package data (see reach.go) quotes; any other fails the drill.
package adversary
