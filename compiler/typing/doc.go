// Package typing compiles the schemas, expressions and costs of a linted graph, and
// proves what can be known of them before a run: the typed graph.
//
// # What is proved
//
// An edge without a transform is proved if package containment proves the schema
// of its source port within that of its target port; of a port that `for_each`
// names, within the lists of it, and of at most max_items. The source's schema is
// narrowed by the edge's own `when`, and for `otherwise` by what the siblings'
// conditions rule out. With a transform the schema that package expr infers for
// the result takes its place; since it may allow more than the transform can give,
// a counterexample counts only if a value of the source was evaluated to it. The
// ports of a node are proved together where its input schema asks for more than
// they do one by one: as a closed object, whose ports hold what any of their
// alternatives brings, and are there for certain where a required edge, `with` or
// the run rule makes them. Where that is not enough, ports that one value fills
// stay together: the object is proved for each of the alternatives of that value
// (containment.Project), and a counterexample is put together from outputs of the
// sources as a run does it. `check: runtime` leaves an edge to the run unless its
// two sides are proved to have no value in common.
//
// An adapter is a transform of the catalog. The catalog's reader proves that it
// gives what it promises for all that it takes; of an edge it is proved that the
// source lies within what the adapter takes. The conversions of numbers are those
// for all that it takes, so that it means the same on every edge, and the compiled
// plan holds the transform itself.
//
// Expressions are proved not to fail, for all values of their names; package expr
// says how, and writes conversions of numbers out, which the compiled plan keeps.
// `check: runtime` leaves to the run what is not proved of an edge's transform and
// condition, but not what is proved to fail. From such an expression nothing follows:
// its result can be anything, and its condition narrows nothing.
// A cost is proved to be an amount: exact, from 0 on, and in a currency. A catalog
// file proves its own when it is read, for all that its operations take and
// return; for a node that narrows or widens these it is asked again.
//
// A node that runs a plan of the same file takes nothing that the plan does not,
// and returns all that the plan does. `verify` gives its node an input that fits,
// a condition, and an output that the effect may have returned. It is asked while
// nobody knows how the effect ended, so that `output` and `error` may be null
// there. On $compensate edges `error` may be null, since a node is undone also
// where another one failed.
//
// # Budgets
//
// Work is counted in steps of the prover, never in time, so that equal arguments
// give equal findings on every machine. All proofs of a file together have
// proof.MinSteps and more for each node and edge, one has
// containment.DefaultSteps; what is then left open is type/unknown, never proved.
// The checks of all expressions together have as much again, and the search for a
// counterexample has a budget of its own. At most [lint.MaxFindings] are listed. After a
// hundred errors a proof has few steps, and when no more are listed there are none.
//
// Schemas are read and compiled side by side; what is said does not depend on how
// many processors there are.
//
// # What is certain
//
// Whether an edge is delivered or a node runs is a Boolean formula over atoms:
// each condition (one atom for all edges of a node with the same text and port),
// the failure of each node that has $error edges, and each port that may be
// absent. A port is certain if it is proved that every output is an object that
// has it. A node whose formula is never true is plan/unreachable. What $output
// requires must hold in every run whose failures are handled, else it is
// type/missing-input with a counterexample. Both are exact for formulas of up to
// [lint.MaxAtoms] atoms once they are simplified, so that branches which come together
// again cost nothing. A larger formula of a node counts as a condition of its
// own, which never hides a mistake; where $output hangs on one, that is an error
// that says so.
package typing
