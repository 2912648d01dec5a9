// Package compiler turns the source of a plan into a compiled [plan.Plan], or
// says why it cannot. It is pure: no file, clock or network is touched.
//
// # Passes
//
// [Compile] runs a table of named passes. Each makes a value of the one before,
// which it never changes: the source becomes a linted graph, that a typed one, that
// a judged one, and that a plan. Each reports all that it finds, and looks only at
// what those before it found sound; a verifier runs after each.
//
//	lint         shape, templates, ids, ports, edge rules, loops, compensation, barriers, sub-plans
//	type         schemas, expressions, costs, proofs of edges, inputs, verify and calls of sub-plans,
//	             what can run, certainty of the output
//	judge        allowed effect classes, commit policies, the operator's bundle, taint, egress;
//	             every operation stands in the catalog, unblocked, and is not weakened
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
// # Defaults
//
// limits: max_parallel [lint.DefaultParallel], deadline_ms [lint.DefaultDeadlineMS].
//
// retry_policy: initial_ms [catalog.DefaultInitialMS], multiplier 2, max_ms
// [catalog.DefaultMaxMS], and `on` the kinds unsent, transport, timeout, throttled, auth
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
