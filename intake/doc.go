// Package intake looks at the definition of an MCP tool, as its server sent it, and proposes
// what an operator should state of the tool. It is pure, and decides nothing: a proposal is
// what people are asked about.
//
// # Proposals
//
// If the operator believes what the server says of its tools, its annotations decide, and a
// hint that is missing has the default of the protocol: readOnlyHint and idempotentHint are
// false, destructiveHint and openWorldHint true. The first row that holds counts:
//
//	annotations are malformed, or both read only and destructive by word   block
//	read only                                                pure, allow_auto
//	destructive, or open world                               irreversible, manual_review
//	otherwise                                                committing, allow_auto
//
// An open world is noted, since it taints what is read. A tool that is read only, or
// idempotent in a closed world, does no harm when it is called again.
//
// A definition of a believed server that has none of the four hints gets a guess, see
// [Proposal.Guess]: the verbs of the name decide, and its description and arguments only make
// it more dangerous. What is unknown is irreversible, and what is guessed to act is reviewed.
//
// If the server is not believed, every tool is irreversible and reviewed.
//
// # Flags
//
// [Flags] and [FlagNames] find what people should look at before they trust a tool: text that
// they cannot see, or that speaks to a model instead of describing the tool. That nothing is
// found proves nothing.
package intake
