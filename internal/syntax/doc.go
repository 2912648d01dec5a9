// Package syntax reads YAML 1.2 and JSON documents into values that know where
// each of their tokens begins and ends in the file, to the character.
//
// # What is read
//
// A file is UTF-8, with or without a byte order mark, with lines that end in LF
// or CRLF. It holds any number of documents. JSON is read as a subset of YAML.
// The supported part of YAML 1.2.2 is: block and flow collections, all five
// styles of scalars, comments, document markers, anchors and aliases. The core
// schema gives unquoted scalars their meaning (so yes, no, on, off and dates are
// strings), and keys are strings.
//
// Parse refuses what people and programs read in different ways, and what serves
// to hide content or exhaust memory, with a finding of code plan/syntax at the token:
//
//   - two equal keys in a map, and keys that are not strings
//   - tags, directives, merge keys ("<<"), keys that begin with "? ", a pair in a
//     list without braces ([a: b]), a name in braces without a value ({a}), and
//     anchors on keys
//   - aliases without an anchor, inside the value that they repeat, or that stand
//     for too many values
//   - numbers that JSON does not have, that begin with 0 (octal for some readers,
//     decimal for others), or that are very long or large
//   - control characters, a lone carriage return, U+0085, U+2028, U+2029, a byte
//     order mark inside the file, and bytes that are not UTF-8
//   - tabs in the indentation of blocks
//   - files beyond [Limits]
//
// Reading resumes after an error where indentation shows how, so that one pass
// reports as much as it can.
//
// # Why not a library
//
// The parser is written for this use. Libraries give at most the start of a
// value, stop at the first error, accept what must be refused, and some files of
// a few megabytes cost them gigabytes. Instead, a fuzz target compares
// the parser with them: whatever it accepts, go.yaml.in/yaml/v4 or encoding/json
// reads with the same meaning.
package syntax
