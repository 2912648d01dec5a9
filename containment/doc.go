// Package containment proves that every value of one JSON Schema is a value of
// another, or shows one that is not.
//
// # Theorem
//
// [Prove] asks whether "left and not right" has a value. [Proved] means that it
// has none: each value that the validator of package schemas accepts with left,
// it accepts with right. [Refuted] comes with a value that this very validator
// has accepted with left and rejected with right. Everything else is [Unknown].
//
// # Normal form
//
// The proof is about compiled schemas, so references, drafts and patterns are
// those of run time. The goal is a set of schemas, each plain or negated. It is
// split by the six types; negation goes inward through the dual of each keyword;
// alternatives are expanded one at a time and dropped at the first contradiction.
// What remains is an interval with lattices (numbers), a length with regular
// languages (strings), places that must or may hold something (lists), and named
// and other keys (objects). Values are finite, so a goal met again inside itself
// adds none: a smallest value cannot contain a smaller one of the same goal.
//
// # Limits
//
// A keyword that is not fully understood is dropped, which can only make the goal
// larger: a proof stays a proof, and a value is confirmed or not used. Schemas with
// dynamic references, or references into a meta-schema, are not decided.
// unevaluatedProperties and unevaluatedItems, maxContains above zero, and
// uniqueItems over places of different kinds are decided only where the rest
// suffices. Work is bounded in steps, so that a verdict never depends on the
// machine.
package containment
