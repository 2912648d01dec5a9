package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// frame is one JSON-RPC message, read no deeper than its first level.
type frame struct {
	id     json.RawMessage
	method string
	result json.RawMessage
	fault  json.RawMessage
}

var errFrame = errors.New("not a JSON-RPC message")

// parse reads a message. Names are exact and may appear only once: encoding/json would
// accept "Result" for "result", and the last of two.
func parse(line []byte) (frame, error) {
	var f frame
	dec := json.NewDecoder(bytes.NewReader(line))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return f, errFrame
	}
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return f, errFrame
		}
		name, ok := t.(string)
		if !ok || seen[name] {
			return f, errFrame
		}
		seen[name] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return f, errFrame
		}
		switch name {
		case "jsonrpc":
			if string(value) != `"2.0"` {
				return f, errFrame
			}
		case "id":
			f.id = value
		case "method":
			if err := json.Unmarshal(value, &f.method); err != nil || f.method == "" {
				return f, errFrame
			}
		case "result":
			f.result = value
		case "error":
			f.fault = value
		}
	}
	if _, err := dec.Token(); err != nil {
		return f, errFrame
	}
	if rest := bytes.TrimSpace(line[dec.InputOffset():]); len(rest) > 0 || !seen["jsonrpc"] {
		return f, errFrame
	}
	return f, nil
}

// skim finds the id of a message that is too long to store, while it is read: the number
// at the name "id" on the first level, wherever that is.
type skim struct {
	depth    int
	inString bool
	escaped  bool
	// word is the last string on the first level, as far as it matters.
	word []byte
	// value is set after the colon that follows the name "id".
	value  bool
	digits []byte
	// call is set at the name "method": the message is not an answer.
	call bool
}

// skimLong bounds the stored part of a name or a number, in bytes.
const skimLong = 20

func (s *skim) write(p []byte) {
	for _, c := range p {
		s.step(c)
	}
}

func (s *skim) step(c byte) {
	switch {
	case s.inString:
		switch {
		case s.escaped:
			s.escaped = false
		case c == '\\':
			s.escaped = true
		case c == '"':
			s.inString = false
			return
		}
		if s.depth == 1 && len(s.word) < skimLong {
			s.word = append(s.word, c)
		}
	case c == '"':
		s.inString = true
		s.word = s.word[:0]
	case c == '{' || c == '[':
		s.depth++
	case c == '}' || c == ']':
		s.depth--
		s.value = false
	case s.depth != 1:
	case c == ':':
		s.value = string(s.word) == "id"
		if s.value {
			s.digits = s.digits[:0]
		}
		s.call = s.call || string(s.word) == "method"
	case c == ',':
		s.value = false
	case s.value && c >= '0' && c <= '9' && len(s.digits) < skimLong:
		s.digits = append(s.digits, c)
	}
}

// id returns the number that was found.
func (s *skim) id() (int64, bool) {
	return wireID(s.digits)
}

// wireID reads an id in the form in which this side writes ids.
func wireID(raw []byte) (int64, bool) {
	if len(raw) == 0 || len(raw) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range raw {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// encode returns a message as one line. Raw JSON inside loses its white space, including
// line breaks, and is otherwise as it was: permits are for the bytes of arguments.
func encode(message any, limit int) ([]byte, error) {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(message); err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	if line.Len()-1 > limit {
		return nil, &oversize{limit}
	}
	return line.Bytes(), nil
}

// oversize is the error of a message, in either direction, that exceeds its bound.
type oversize struct{ limit int }

func (e *oversize) Error() string {
	return fmt.Sprintf("a message is over %d bytes", e.limit)
}
