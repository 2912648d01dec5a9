// Package expr is the expressions of plans: predicates in CEL, and JSON
// templates whose strings hold CEL between "${" and "}".
//
// # Meaning
//
// Expressions are CEL (https://cel.dev) with the standard functions, optional
// values (x.?y, x[?i], optional.of and the rest), has(), and of the strings
// extension: lowerAscii, upperAscii, trim, split, join, replace, substring and
// indexOf. decimal(n, places) is ours: it moves the point of a whole number to the
// left, so that decimal(1250, 2) is 12.5, exactly. Every name of a [Scope] is dynamically typed. The keys of a map that
// an expression builds are strings, booleans or ints.
//
// An expression gives the same result on every machine and at every time, so
// what depends on more than its input is left out: there is no clock and no
// randomness, functions of timestamps know UTC only, and all, exists,
// exists_one, map and filter walk lists, never maps, whose order is not fixed.
//
// # Numbers
//
// A JSON number whose value is whole is an int, however it is written: 1, 1.0
// and 1e3 are, and "type(x) == int" says what "type: integer" says of a schema.
// Any other is a double. A double stands for the shortest decimal number that
// reads back as it, which is also how it is written: the double 0.1 is one
// tenth.
//
// A JSON number that neither an int of 64 bits nor a double holds is kept
// exactly (1e30, 0.1234567890123456789). It has the type int where it is whole,
// else double; it is compared and handed on as it is, and string() of a whole
// one gives all its digits. Its conversion to int or double is the nearest, and
// an error where there is none. Such a whole number cannot be calculated with,
// and nothing stands at it in a list or map. One that is not whole is calculated
// with as the nearest double.
//
// Numbers of all types compare and equal by value, exactly: 1 == 1.0, in lists
// and maps too, and 9007199254740993 is not 9007199254740992.0. Arithmetic is
// between numbers of one type: ints that overflow are an error, and so is a
// double that would become infinite or no number, where it would come up; so is
// each division by zero. An int stays an int in the result.
//
// An expression that only selects ("input.items[0].price") hands on what it finds
// as it was written.
//
// # Calculations
//
// A [Numeric] is a calculation of a causal model, over doubles and categories: CEL's syntax, with fewer
// types and with functions of its own. It says itself what there is.
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
//
// # Checking
//
// [Program.Check] and [Template.Check] prove that an expression cannot fail, for
// all values that schemas allow. What is known of each part of it is a schema,
// and each step asks whether all values of the schema can take it: that an
// object has the key, that a list is long enough, that a sum fits in 64 bits,
// that a divisor is not 0. What is not proved is a [Problem] that says what to
// write instead; where a value is found for which the expression really fails,
// the problem shows it. How much text and how many steps an evaluation takes is
// not proved: that it stays within the bounds is seen when it runs.
//
// What stands behind a condition is judged with what the condition says:
// has(x.k), comparisons with what is known, "in" a list that is written out,
// type(x) == T, sizes, matches, x.?k.hasValue(), all and exists, and their
// combinations by !, &&, || and ?:. [Program.Narrow] gives it for what happens
// after a condition. The left side of && and || is judged as if the right one
// was not there, so that an error there is never taken to be absorbed.
//
// Arithmetic is on ints where the schemas of all operands are within "integer",
// and their bounds must show that it does not overflow. Elsewhere it is on
// doubles: the check writes double(…) around operands, and gives the source to
// keep. It asks for bounds too, for a double must stay finite, and for divisors
// that keep a distance from 0.
//
// [Amount] is an expression that gives money. Beside all this it is proved to be a
// number from 0 on or the text of one, and never to be calculated with doubles,
// which round: what is selected, ints, numbers as they are written and what
// decimal(…) gives are exact. A condition that only chooses between amounts may
// use doubles.
//
// Text is converted (int, double, timestamp and the like) only where it is
// proved to match a pattern of which all texts can be; times are not added and
// subtracted, for their ranges are not followed.
package expr
