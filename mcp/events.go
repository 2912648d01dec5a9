package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// events reads a stream of server-sent events (WHATWG HTML, section 9.2), as text/event-stream.
type events struct {
	in *bufio.Reader
	// limit bounds the data of one event in bytes, and noise what else an event may hold.
	limit, noise int
	// cr is set after a line that ended with a carriage return: a line feed belongs to it.
	cr bool
	// id is that of the last event that had one, or "" if that cannot be sent in a header, and
	// retry is how long to wait before the rest of the stream is asked for, in milliseconds, as the
	// stream says.
	id, retry string
}

// event is one event, or what one was so far when the stream ended.
type event struct {
	name string
	data []byte
	// over is set if the data is longer than allowed: only its id was read.
	over *skim
	// size counts the bytes of the event on the wire.
	size int
	// id and retry are fields, or nil.
	id, retry []byte
}

var errEndless = errors.New("an event does not end")

func newEvents(in io.Reader, limit, noise int) *events {
	return &events{in: bufio.NewReaderSize(in, 32<<10), limit: limit, noise: noise}
}

// next returns the next event, which may be one without data. The data is the caller's.
func (s *events) next() (event, error) {
	var e event
	for {
		n, err := s.line(&e)
		if err != nil {
			e.data = nil // an event without an end is none
			return e, err
		}
		if n == 0 {
			s.end(&e)
			return e, nil
		}
	}
}

// end takes what a complete event says of the stream.
func (s *events) end(e *event) {
	if e.id != nil {
		s.id = ""
		if visible(string(e.id), maxID) {
			s.id = string(e.id)
		}
	}
	if e.retry != nil {
		s.retry = string(e.retry)
	}
}

// maxID bounds the id of an event, in bytes.
const maxID = 1024

// fieldLong bounds the names of fields and events that matter, in bytes.
const fieldLong = 32

// line reads one line into an event, and returns its length.
func (s *events) line(e *event) (int, error) {
	var name []byte // of the field, as far as it matters
	var value int   // bytes of the value so far
	var colon, begun bool
	n := 0
	for {
		piece, end, err := s.piece()
		n += len(piece)
		e.size += len(piece) + 1
		if err != nil {
			return n, err
		}
		if e.size > s.limit+s.noise {
			return n, errEndless
		}
		if !colon {
			before, after, found := bytes.Cut(piece, []byte(":"))
			if room := fieldLong - len(name); room > 0 {
				name = append(name, before[:min(room, len(before))]...)
			}
			colon, piece = found, after
			if !found {
				piece = nil
			}
		}
		if colon && value == 0 && len(piece) > 0 && piece[0] == ' ' {
			piece = piece[1:]
			value++
		}
		value += len(piece)
		switch {
		case string(name) == "data" && (colon || end):
			if !begun && (e.over != nil || e.data != nil) {
				s.add(e, []byte("\n"))
			}
			begun = true
			s.add(e, piece)
		case string(name) == "event" && colon:
			if !begun {
				e.name = ""
			}
			begun = true
			if room := fieldLong - len(e.name); room > 0 {
				e.name += string(piece[:min(room, len(piece))])
			}
		case string(name) == "id" && (colon || end):
			e.id = field(e.id, piece, begun, maxID+1)
			begun = true
		case string(name) == "retry" && (colon || end):
			e.retry = field(e.retry, piece, begun, fieldLong)
			begun = true
		}
		if end {
			return n, nil
		}
	}
}

// field adds to the value of a field, of which the last counts, as far as most bytes.
func field(value, piece []byte, begun bool, most int) []byte {
	if !begun {
		value = []byte{}
	}
	return append(value, piece[:min(most-len(value), len(piece))]...)
}

// add adds to the data of an event.
func (s *events) add(e *event, piece []byte) {
	if e.over == nil && len(e.data)+len(piece) > s.limit {
		e.over = &skim{}
		e.over.write(e.data)
		e.data = nil
	}
	if e.over != nil {
		e.over.write(piece)
		return
	}
	if e.data == nil {
		e.data = []byte{}
	}
	e.data = append(e.data, piece...)
}

// piece returns the next part of a line without its end, and whether the line ends with it. The
// part is valid until the next call.
func (s *events) piece() ([]byte, bool, error) {
	for {
		if _, err := s.in.Peek(1); err != nil {
			return nil, false, err
		}
		part, err := s.in.Peek(s.in.Buffered())
		if err != nil {
			return nil, false, err
		}
		if s.cr && part[0] == '\n' {
			s.cr = false
			if _, err := s.in.Discard(1); err != nil {
				return nil, false, err
			}
			continue
		}
		s.cr = false
		i := bytes.IndexAny(part, "\r\n")
		if i < 0 {
			_, err := s.in.Discard(len(part))
			return part, false, err
		}
		s.cr = part[i] == '\r'
		_, err = s.in.Discard(i + 1)
		return part[:i], true, err
	}
}
