package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"chimera.ai/engine/schemas"
)

// maxLine bounds a line of a batch, in bytes: two schemas of the largest size, and
// the JSON around them.
const maxLine = 2*schemas.MaxSchemaBytes + 64<<10

// row is a line of a batch. err says why the line cannot be answered. The last row
// has no line, but the error of reading, if any.
type row struct {
	text []byte
	err  error
	last bool
}

// containBatch answers each line of standard input with a line, in order. It also
// answers malformed lines, and goes on.
func (p *Program) containBatch(ctx context.Context, draft string) error {
	p.written = true // lines of JSON are the answer, and no document follows
	rows := make(chan row, 8)
	go rowsOf(ctx, p.Stdin, rows)
	out := bufio.NewWriter(p.Stdout)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	for {
		var r row
		select {
		case r = <-rows:
		default:
			// The asker may wait for this answer before sending the next line.
			if err := out.Flush(); err != nil {
				return unanswered("writing an answer: %s", err)
			}
			select {
			case r = <-rows:
			case <-ctx.Done():
				return unanswered("interrupted")
			}
		}
		switch {
		case r.last:
			if err := out.Flush(); err != nil {
				return unanswered("writing an answer: %s", err)
			}
			if r.err != nil {
				return unanswered("reading %s: %s", stdinName, r.err)
			}
			return nil
		case ctx.Err() != nil:
			_ = out.Flush() // the error below says that answers are missing
			return unanswered("interrupted")
		}
		if err := e.Encode(answer(r.text, r.err, draft)); err != nil {
			return unanswered("writing an answer: %s", err)
		}
	}
}

// rowsOf sends the lines of in that are not blank, then a last row.
func rowsOf(ctx context.Context, in io.Reader, rows chan<- row) {
	send := func(r row) bool {
		select {
		case rows <- r:
			return true
		case <-ctx.Done():
			return false
		}
	}
	b := bufio.NewReaderSize(in, 64<<10)
	for {
		text, long, err := line(b)
		switch {
		case long:
			if !send(row{err: fmt.Errorf("the line is over %d bytes", maxLine)}) {
				return
			}
		case len(bytes.TrimSpace(text)) > 0:
			if !send(row{text: text}) {
				return
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			send(row{last: true, err: err})
			return
		}
	}
}

// line reads up to the next line end, and discards a line over maxLine.
func line(b *bufio.Reader) (text []byte, long bool, err error) {
	for {
		part, err := b.ReadSlice('\n')
		if long = long || len(text)+len(part) > maxLine; long {
			text = nil
		} else {
			text = append(text, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, long, err
		}
	}
}
