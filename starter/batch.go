package main

import (
	"bufio"
	"bytes"
	"context"
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
