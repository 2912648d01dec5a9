package audit

import (
	"io"
	"runtime"
	"sync"
)

// stream reads the lines of a file in order, each parsed by one of several workers.
type stream[T any] struct {
	batches chan *batch[T]
	done    chan struct{}
	once    sync.Once
	now     *batch[T]
	at      int
	// then is the batch after now, once somebody has looked ahead.
	then *batch[T]
}

// batch is some lines; ready is closed once all of them are parsed.
type batch[T any] struct {
	lines [][]byte
	out   []T
	// err ends the stream after out.
	err   error
	ready chan struct{}
}

// linesPerBatch and bytesPerBatch bound what is handed over at once: many lines,
// for what it costs, and no more memory than long ones need.
const linesPerBatch, bytesPerBatch = 256, 1 << 20

// side begins to read a file and parse its lines, in parallel to its reader.
func side[T any](s *source, apart func([]byte) T) *stream[T] {
	workers := runtime.GOMAXPROCS(0)
	st := &stream[T]{batches: make(chan *batch[T], 2*workers), done: make(chan struct{})}
	todo := make(chan *batch[T], 2*workers)
	for range workers {
		go func() {
			for b := range todo {
				b.out = make([]T, len(b.lines))
				for i, line := range b.lines {
					b.out[i] = apart(line)
				}
				b.lines = nil
				close(b.ready)
			}
		}()
	}
	go func() {
		defer close(st.batches)
		defer close(todo)
		for {
			b := &batch[T]{ready: make(chan struct{})}
			for size := 0; b.err == nil && len(b.lines) < linesPerBatch && size < bytesPerBatch; {
				var line []byte
				if line, b.err = s.next(); b.err == nil {
					b.lines = append(b.lines, line)
					size += len(line)
				}
			}
			select {
			case st.batches <- b:
			case <-st.done:
				return
			}
			todo <- b
			if b.err != nil {
				return
			}
		}
	}()
	return st
}

// peek returns the next line without taking it, or io.EOF after the last.
func (s *stream[T]) peek() (T, error) {
	var none T
	for s.now == nil || s.at == len(s.now.out) {
		if s.now != nil && s.now.err != nil {
			return none, s.now.err
		}
		s.now, s.at, s.then = s.following(), 0, nil
		if s.now == nil {
			return none, io.EOF
		}
	}
	return s.now.out[s.at], nil
}

// following returns the batch after now, or nil after the last.
func (s *stream[T]) following() *batch[T] {
	if s.then != nil {
		return s.then
	}
	b, ok := <-s.batches
	if !ok {
		return nil
	}
	<-b.ready
	return b
}

// ahead returns the line that is so many, at least one, after the one that peek returned, unless
// it is further away than the next batch.
func (s *stream[T]) ahead(n int) (v T, ok bool) {
	if at := s.at + n; at < len(s.now.out) {
		return s.now.out[at], true
	}
	if s.now.err != nil {
		return v, false
	}
	if s.then = s.following(); s.then == nil {
		return v, false
	}
	if at := s.at + n - len(s.now.out); at < len(s.then.out) {
		return s.then.out[at], true
	}
	return v, false
}

// take advances past the line that peek returned.
func (s *stream[T]) take() { s.at++ }

// next returns the next line and takes it.
func (s *stream[T]) next() (T, error) {
	v, err := s.peek()
	if err == nil {
		s.take()
	}
	return v, err
}

// stop ends the reading.
func (s *stream[T]) stop() {
	s.once.Do(func() {
		close(s.done)
		for range s.batches { //nolint:revive // until the reader has gone
		}
	})
}
