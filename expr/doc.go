// Package expr is the expressions of plans: predicates in CEL, and JSON
// templates whose strings hold CEL between "${" and "}".
//
// # Meaning
//
// Expressions are CEL (https://cel.dev) with the standard functions, optional
// values (x.?y, x[?i], optional.of and the rest), has(), and of the strings
// extension: lowerAscii, upperAscii, trim, split, join, replace, substring and
// indexOf. Every name of a [Scope] is dynamically typed.
//
// An expression gives the same result on every machine and at every time, so
// what depends on more than its input is left out: there is no clock and no
// randomness, functions of timestamps know UTC only, and all, exists,
// exists_one, map and filter walk lists, never maps, whose order is not fixed.
//
// A JSON number without fraction and exponent is an int (64 bits, beyond which
// touching it is an error), any other number a double. An int stays an int in
// the result; a double that is not a number or infinite is an error. An
// expression that only selects ("input.items[0].price") hands on what it finds
// as it was written, so nothing is lost.
//
// # Bounds
//
// Source, nesting, loops in loops and patterns are bounded when an expression is
// compiled; steps, text and results when it is evaluated. All work is counted
// before it is done, in a unit of ours, and evaluation stops at [MaxCost].
//
// # Templates
//
// A string that is exactly one "${…}" becomes the value of the expression, of
// whatever type; any other string with "${…}" in it becomes a string, for which
// strings stand as they are and numbers and booleans in their JSON form. "$${"
// stands for "${". Everything else in a template stands for itself.
package expr
