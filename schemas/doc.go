// Package schemas is the guarded JSON Schema validator, and the home of the
// JSON Schemas that Chimera publishes ([Named]).
//
// It wraps github.com/santhosh-tekuri/jsonschema/v5, which is exact (rationals,
// all drafts from 4 to 2020-12) but was written for schemas and values of a
// trusted author. Here both come from strangers, so the wrapper ensures that
//
//   - JSON is read by [Decode]: bounded in size, depth, nodes and length and
//     exponent of numbers; duplicate keys, invalid UTF-8 and lone surrogates
//     are refused; numbers stay [encoding/json.Number];
//   - a schema without $schema is of draft 2020-12, and format,
//     contentEncoding, contentMediaType and contentSchema are annotations in
//     every draft: they never assert;
//   - nothing is ever loaded: a reference that leaves the document is refused
//     (a pointer may lead anywhere inside it: "#/defs/X" as well as "#/$defs/X").
//     The drafts' own meta-schemas are at hand, so that a $ref may lead to one;
//   - a schema is bounded when it is compiled (bytes, subschemas, patterns,
//     chains of references), and the work of validating a value is bounded
//     before it starts, so that no schema can make validation exponential;
//   - a $dynamicRef that can lead to one schema only becomes an ordinary reference,
//     and one for which the library would take any of several anchors is refused;
//     so is a part that names another draft, which the library ignores, unless it
//     means the same in both;
//   - panics of the library become errors;
//   - what is wrong with a value ([Invalid]) is a flat, sorted, bounded,
//     deterministic list.
//
// Patterns mean what they mean in ECMA-262 with its flag u, as JSON Schema
// recommends, as far as RE2 can express it: "." excludes all four line terminators,
// \s is all white space of Unicode, "[" has no special meaning inside a class, and
// \uXXXX, \u{X}, \cX and \p{Script=X} are understood (\u and \c not in the names
// of patternProperties). A schema whose pattern needs look-around or back
// references is refused. Syntax that only RE2 has, such as (?i), keeps its meaning.
//
// Schemas can also be built from others ([Make], [Wrap]), as the typing of expressions
// and proofs of containment do.
package schemas
