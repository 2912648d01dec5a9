// Package lookahead follows the data flow of a compiled plan before it runs: which effects a run
// may have, and with which arguments, as far as that is known without a call.
//
// # What is known
//
// The plan's input is known, and so is what the nodes engine/pass and engine/text return of what is
// known. Of all other nodes nothing is, unless the caller assumes it ([Assumed]). Expressions are
// evaluated as a run evaluates them, once all that they read is known. What is not known is
// reported as a [Gap], with the name under which it can be assumed, and never guessed.
//
// Nodes are expected to succeed, and may fail: the edges from $error are delivered or not, except
// for nodes whose output is known or assumed, which succeed. Where the condition of an edge is
// known, only the branch that is taken counts; where it is not, both do, and each call lists the
// edges on which it depends.
//
// # What is left out
//
// Nodes that undo an effect, and those that another node's verify calls, are not followed: they are
// called once something has failed.
//
// The package is pure: equal plans, inputs and assumptions give equal answers.
package lookahead
