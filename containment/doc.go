// Package containment proves that every value of one JSON Schema is a value of
// another, or shows one that is not.
//
// # Theorem
//
// [Prove] asks whether "left and not right" has a value. [Proved] means that it
// has none: each value that the validator of package schemas accepts with left,
// it accepts with right. [Refuted] comes with a value that this very validator
// has accepted with left and rejected with right. Everything else is [Unknown],
// with the keyword that stopped the proof. [Disjoint] asks the same about "both", and
// [Empty] about one schema. [Property] and [Element] give schemas of the parts of
// values, which may admit too much and never too little.
//
// The proof is about compiled schemas, so that references, drafts, numbers and
// patterns are those of run time: in every draft 1.0 is an integer, lengths count
// code points, and patterns are the RE2 that the validator runs. format,
// contentEncoding and contentMediaType assert nothing there, and so nothing here.
//
// # Normal form
//
// A goal is a set of schemas, each plain or negated, and the question is whether
// they have a value in common. First, plain and negated schemas are compared
// keyword by keyword, which settles most questions. Listed values are tried
// with the validator itself. Otherwise the goal is split by the six types, and for
// each type into atoms: each keyword gives its demands and, as the dual, the
// ways in which a value fails it. The shortest list of alternatives is tried first,
// and contradictory alternatives are dropped before they are tried. When only atoms
// are left, what remains is
//
//   - for numbers, an interval, a lattice (the least common multiple of all
//     multipleOf), and lattices and values to avoid;
//   - for strings, a length, patterns that must or must not match, as a product
//     of automata that are built lazily, and words to avoid;
//   - for lists, what each place, and every place from some place on, must hold,
//     and how many places must or may hold something: a search over the counts,
//     place by place; if places must differ, they are matched with the possible
//     values, and if two must be equal, each pair is tried;
//   - for objects, keys that must or must not be present, keys of which only the
//     patterns are known, what each must hold, and values that some key must hold.
//
// unevaluatedProperties and unevaluatedItems are expanded by the occasions on
// which the schemas beside them apply: each occasion determines what they evaluate. A
// oneOf whose alternatives exclude each other, by type or by a constant at one
// key, is an anyOf.
//
// Values are finite, so a goal that recurs inside itself adds none: a smallest
// value cannot contain a smaller one of the same goal. Goals recur only for parts of
// values, since a schema that refers to itself for the same value does not compile.
// Results that depend on a goal that is still open are not cached.
//
// # Limits
//
// What is not interpreted is ignored, which can only make the goal larger: a proof
// remains a proof, and a value is used only if it is confirmed. Ignored are
// $dynamicRef where it may lead to more than one dynamic anchor (package schemas
// makes plain references of all others) and $recursiveRef where more than one
// schema is an anchor; unevaluated keywords beside schemas that apply on more than 48
// occasions; patterns of more than 2,000 instructions. Not decided are lists of
// more than 8 counts, objects whose keys more than 10 patterns tell apart, strings
// of more than 20,000 code points, lists of more than 4,000 places (300 where
// places must differ or be equal), objects of more than 300 members, values
// nested deeper than 120, and witnesses beyond the bounds of package schemas.
//
// dependencies is not a keyword from draft 2019-09 on, but the validator checks it in
// every draft: proofs may rely on it, and a counterexample that may depend on it is
// not returned.
//
// Work, including that of the validator and of patterns, is counted in steps, so a
// verdict never depends on the machine or its load. A proof that runs out of steps
// is Unknown, and its reason says so.
package containment
