package audit

import (
	"encoding/json"
	"runtime"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/model"
)

// reading has the data of entries read by several workers, and gives them back
// in their order. It is used by one goroutine.
type reading struct {
	apply func(*facts)
	todo  chan *facts
	// now is being filled; waiting are with the workers, the oldest first.
	now     *facts
	waiting []*facts
}

// facts are some entries, and what their data say once ready is closed.
type facts struct {
	of []fact
	// size is that of their data, in bytes.
	size  int
	read  []model.Facts
	ready chan struct{}
}

type fact struct {
	index int64
	e     *ledger.Entry
	hash  ledger.Hash
	data  json.RawMessage
}

func newReading(apply func(*facts)) *reading {
	workers := runtime.GOMAXPROCS(0)
	r := &reading{apply: apply, todo: make(chan *facts, 2*workers), now: new(facts)}
	for range workers {
		go func() {
			for b := range r.todo {
				b.read = make([]model.Facts, len(b.of))
				for i, f := range b.of {
					if f.data != nil {
						b.read[i] = model.Read(f.e.Kind, f.data)
					}
				}
				close(b.ready)
			}
		}()
	}
	return r
}

// add hands over the next entry; its data are nil where it has none.
func (r *reading) add(f fact) {
	r.now.of = append(r.now.of, f)
	if r.now.size += len(f.data); len(r.now.of) == linesPerBatch || r.now.size >= bytesPerBatch {
		r.flush()
	}
	for len(r.waiting) == cap(r.todo) {
		r.take()
	}
}

func (r *reading) flush() {
	if len(r.now.of) == 0 {
		return
	}
	r.now.ready = make(chan struct{})
	r.waiting = append(r.waiting, r.now)
	r.todo <- r.now
	r.now = &facts{of: make([]fact, 0, linesPerBatch)}
}

func (r *reading) take() {
	b := r.waiting[0]
	r.waiting = append(r.waiting[:0], r.waiting[1:]...)
	<-b.ready
	r.apply(b)
}

// close applies what is left and stops the workers.
func (r *reading) close() {
	r.flush()
	for len(r.waiting) > 0 {
		r.take()
	}
	close(r.todo)
}
