// Package syntax reads YAML 1.2 and JSON documents into values that know where
// each of their tokens begins and ends in the file, to the character.
//
// # What is read
//
// A file is UTF-8, with or without a byte order mark, with lines that end in LF
// or CRLF. It holds any number of documents. JSON is read as what it is, a part
// of YAML. Of YAML 1.2.2 this is read: block and flow collections, all five
// styles of scalars, comments, document markers, anchors and aliases; scalars
// without quotes mean what the core schema says (so yes, no, on, off and dates
// are strings), and keys are strings.
//
// Refused, each with a finding of code plan/syntax at the token, is what people
// and programs read in different ways, or what serves to hide or to exhaust:
//
//   - two equal keys in a map, and keys that are not strings
//   - tags, directives, merge keys ("<<"), keys that begin with "? ", a pair in a
//     list without braces ([a: b]), a name in braces without a value ({a}), and
//     anchors on keys
//   - aliases without an anchor, inside of what they repeat, or that stand for
//     too many values
//   - numbers that JSON does not have, that begin with 0 (octal for some readers,
//     decimal for others), or that are very long or large
//   - control characters, a lone carriage return, U+0085, U+2028, U+2029, a byte
//     order mark inside the file, and bytes that are not UTF-8
//   - tabs in the indentation of blocks
//   - files beyond [Limits]
//
// Reading goes on behind a fault wherever indentation shows where, so that one
// reading reports as much as it can.
//
// # Why not a library
//
// The parser is written for this use. Libraries give at most the start of a
// value, stop at the first fault, accept what must be refused, and some files of
// a few megabytes cost them gigabytes. A fuzz target holds the parser to them
// instead: whatever it accepts, go.yaml.in/yaml/v4 or encoding/json reads with
// the same meaning.
package syntax
