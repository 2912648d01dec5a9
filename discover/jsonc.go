package discover

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/schemas"
)

// read reads a JSON object with the places of its tokens. Comments and trailing commas are
// allowed if relaxed.
func read(name string, raw []byte, relaxed bool) (*syntax.Value, error) {
	if len(raw) > MaxFile {
		return nil, fmt.Errorf("%s: the file has %d bytes; at most %d are read", name, len(raw), MaxFile)
	}
	text := bytes.TrimPrefix(raw, []byte("\ufeff"))
	if relaxed {
		text = plainJSON(text)
	}
	// The reader of YAML reads JSON too, but also much that is none.
	if _, err := schemas.Decode(text); err != nil {
		var at *schemas.SyntaxError
		if !errors.As(err, &at) {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		line, column := place(text, at.Offset)
		return nil, fmt.Errorf("%s:%d:%d: %s", name, line, column, at.Message)
	}
	docs, found := syntax.Parse(name, text, syntax.Limits{Bytes: MaxFile, Depth: maxDepth, Nodes: maxNodes, Documents: 1})
	if len(found) > 0 {
		start := found[0].Subject.Start
		return nil, fmt.Errorf("%s:%d:%d: %s", name, start.Line, start.Column, found[0].Summary)
	}
	if len(docs) != 1 || docs[0].Root.Kind != syntax.Map {
		return nil, fmt.Errorf("%s: the file holds no JSON object", name)
	}
	return docs[0].Root, nil
}

// place is the line and column of a byte, from 1, in characters.
func place(text []byte, offset int) (line, column int) {
	before := text[:min(offset, len(text))]
	line = 1 + bytes.Count(before, []byte("\n"))
	return line, 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
}

// plainJSON replaces each character of a comment, and each trailing comma, with a space, so
// that everything else keeps its line and column. A comment that does not end stays.
func plainJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	comma := -1           // where out has a comma that only white space follows
	last := byte(0)       // the last significant byte before that
	previous := byte('[') // the last significant byte
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			out = append(out, c)
			i++
			continue
		case c == '/':
			if end := comment(text, i); end > i {
				out = blank(out, text[i:end])
				i = end
				continue
			}
		case c == '"':
			end := quoted(text, i)
			out = append(out, text[i:end]...)
			i, previous, comma = end, '"', -1
			continue
		case c == ',':
			comma, last = len(out), previous
		case (c == ']' || c == '}') && comma >= 0:
			if last != '[' && last != '{' && last != ',' && last != ':' {
				out[comma] = ' '
			}
			comma = -1
		default:
			comma = -1
		}
		previous = text[i]
		out = append(out, text[i])
		i++
	}
	return out
}

// comment returns the end of the comment that begins at i, or i if none does.
func comment(text []byte, i int) int {
	rest := text[i:]
	switch {
	case bytes.HasPrefix(rest, []byte("//")):
		if n := bytes.IndexByte(rest, '\n'); n >= 0 {
			return i + n
		}
		return len(text)
	case bytes.HasPrefix(rest, []byte("/*")):
		if n := bytes.Index(rest[2:], []byte("*/")); n >= 0 {
			return i + 2 + n + 2
		}
	}
	return i
}

// quoted returns the end of the string that begins at i, or that of the text.
func quoted(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// blank appends a space for each character, and line breaks as they are.
func blank(out, comment []byte) []byte {
	for len(comment) > 0 {
		r, size := utf8.DecodeRune(comment)
		if r == '\n' || r == '\r' {
			out = append(out, byte(r))
		} else {
			out = append(out, ' ')
		}
		comment = comment[size:]
	}
	return out
}
