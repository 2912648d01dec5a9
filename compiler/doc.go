// Package compiler turns the source of a plan into a compiled [plan.Plan], or
// says why it cannot. It is pure: no file, clock or network is touched.
//
// # Passes
//
// [Compile] runs a table of named passes. Each reports all that it finds, and
// looks only at what those before it found sound; a verifier runs after each.
//
//	lint         shape, templates, ids, ports, edge rules, loops, compensation, barriers, sub-plans
//	types        schemas, expressions, costs, proofs of edges, inputs, verify and calls of sub-plans,
//	             what can run, certainty of the output
//	effects      allowed effect classes, commit policies, the operator's bundle, taint, egress
//	trust        every operation stands in the catalog, unblocked, and is not weakened
//	materialise  the compiled plan, behind those that it runs
//	refuse       what the language has and the engine cannot run yet
//
// [Check] leaves refuse out, for those who only look at a plan: what it returns is
// a whole compiled plan, which the engine does not take. Compile refuses last, so
// that everything else has been said, and gives the same bytes where it gives a
// plan.
//
// # Rules of a run
//
// The interpreter follows the same rules as the analysis here. They are stated
// for a run without loops; a loop's rules follow.
//
// A node ends in one of three states: succeeded, failed (after its retries) or
// skipped. $input has succeeded from the start; its output is the plan's input.
// Every edge is resolved exactly once, to delivered or skipped, when its source
// has ended:
//
//   - data: delivered if the source succeeded and the port is present.
//   - control: delivered if the source succeeded.
//   - conditional: delivered if the source succeeded, the port is present (there
//     is no port to ask for where it leaves $done) and its condition holds: `when`
//     over value, output and input; without `when` the value itself, which is a
//     boolean; `otherwise` holds if no other conditional edge of the same source
//     that is not itself `otherwise` has a present port and a true condition. A
//     condition is not evaluated where the port is absent. A condition that
//     cannot be evaluated fails the source, with kind expr.
//   - error from $error: delivered if the source failed and `when` over error and
//     input holds; without `when` it always does.
//   - error from $compensate: never delivered while the run goes forward; sagas
//     deliver it.
//
// A port is present if it is `$`, or if the output is an object that has it; its
// value may be null.
//
// A node is decided once all its incoming edges are resolved. A node without
// incoming edges is decided at once, when the run starts. It runs if
//
//  1. every edge with `required: true` was delivered,
//  2. it has no incoming edges, or at least one of them was delivered, and
//  3. every port of [plan.Node.RequiredPorts] has a value,
//
// else it is skipped. An edge fills a port if [plan.Edge.Carries] says so; a
// port takes the first delivered edge in the order of the plan, else the entry of
// `with`, else it is absent from the input. Where an edge or `with` goes to `$`,
// nothing else fills a part of the input, RequiredPorts is `$` alone, and the
// value is the whole input; `with` under `$` is the default of edges into `$`.
//
// $output is decided like a node, except for rule 2: it needs no delivered edge,
// so a run whose optional outputs are all skipped returns {}. Compilation
// guarantees rules 1 and 3 for every run that does not fail.
//
// A failure is handled if a target of one of the node's delivered error edges
// runs ($output counts as running). It is therefore known to be unhandled when no
// error edge was delivered, or when all targets of the delivered ones were
// skipped. A failure that is not handled is fatal: it ends the run. So the
// analysis asks only about runs in which every failure is handled, and takes a
// node without $error edges for one that does not fail.
//
// A node that another's `verify` names has no edges and is not part of the run.
// Prechecks are required control edges that the source does not spell out. They
// follow those that it does, and are edges like others for all that is said here.
//
// In a loop (`cycles`), back edges count as skipped on the first visit, and are
// not asked for on later ones by rule 1, which is why they may not be required.
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
// counterexample has a budget of its own. At most [MaxFindings] are listed. After a
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
// has it. A
// node whose formula is never true is plan/unreachable. What $output requires
// must hold in every run whose failures are handled, else it is
// type/missing-input with a counterexample. Both are exact for formulas of up to
// [MaxAtoms] atoms once they are simplified, so that branches which come together
// again cost nothing. A larger formula of a node counts as a condition of its
// own, which never hides a mistake; where $output hangs on one, that is an error
// that says so.
//
// # Defaults
//
// limits: max_parallel [DefaultParallel], deadline_ms [DefaultDeadlineMS].
//
// retry_policy: initial_ms [DefaultInitialMS], multiplier 2, max_ms
// [DefaultMaxMS], and `on` the kinds unsent, transport, timeout, throttled, auth
// and server_error, with invalid_output for a prob node, since asking again may
// give another answer. tool_error is retried only where `on` names it.
//
// # Determinism
//
// The bytes of the compiled plan depend on the meaning of the source: neither
// comments and white space, nor the order of keys in a map, nor quoting changes
// them. The order of nodes and edges does, since it decides between edges into
// one port.
package compiler
