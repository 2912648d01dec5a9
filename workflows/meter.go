package workflows

import (
	"time"

	"chimera.ai/engine/contract"
)

// Bounds of one workflow task. Temporal refuses a completion over 4 MiB; the task
// is then retried forever, and the workflow does not learn of it.
const (
	taskNodes    = 200
	taskBytes    = 1 << 20
	taskDuration = 500 * time.Millisecond
	// taskEncoded bounds the bytes of a task's requests before large ones are
	// stored by reference: they are encoded, sealed and stored within the task,
	// which the server considers lost after 10 s.
	taskEncoded = 32 << 20
	// byReference is the most that a value leaves in the history, in bytes. A
	// larger value may still leave that much, since its size is measured after
	// compression.
	byReference = contract.ByReference
	// failureBytes is the most that a local activity's failure adds: its
	// details, and its message, which is sealed as JSON.
	failureBytes = contract.MaxDetails + 6*contract.MaxMessage
	// overhead estimates the bytes of an event besides its values.
	overhead = 256
	// Bounds of the window of local activities. The SDK runs a coroutine for
	// each one in flight, and wakes all of them whenever one ends. minWindow
	// activities that end at once keep the run busy; more than maxWindow would
	// wait for a processor and not end sooner.
	minWindow, maxWindow = 4, 32
)

// meter counts what the current workflow task emits. A new task is recognized by
// the length of the history, which is the same in a replay.
type meter struct {
	length int
	since  time.Time
	// nodes counts the local activities of the task that have ended, and flying
	// those that have not.
	nodes, flying int
	// bytes counts what the task emits, with the most that each of flying may
	// add, and encoded the bytes of its requests.
	bytes, encoded int
	cutting        bool
	// window is how many local activities may be in flight: fewer if they end
	// at once, more if they take long.
	window int
}

func (m *meter) begin(r *run) {
	m.length = r.info.GetCurrentHistoryLength()
	m.since = r.now()
}

// tick resets the counts if a new workflow task has begun.
func (m *meter) tick(r *run) {
	if r.info.GetCurrentHistoryLength() == m.length {
		return
	}
	m.begin(r)
	m.nodes, m.encoded, m.bytes = 0, 0, m.flying*(byReference+overhead)
}

// emit counts a request of so many bytes.
func (m *meter) emit(bytes int) {
	m.bytes += emitted(bytes)
	m.encoded += bytes
}

// reserve counts a launched local activity at the most that its value may add. A
// failure may add twice that, which the window keeps small: of maxWindow failures,
// half a mebibyte is not reserved.
func (m *meter) reserve() {
	m.flying++
	m.bytes += byReference + overhead
}

// landed replaces what was reserved for a local activity by what it added.
func (m *meter) landed(bytes int, took time.Duration) {
	switch {
	case took > time.Duration(m.window)*time.Millisecond:
		m.window = min(2*m.window, maxWindow)
	case m.window > minWindow:
		m.window--
	}
	m.flying--
	m.nodes++
	m.bytes += bytes - byReference - overhead
}

// keep counts the local activities that have not ended, of which all but those in flights are
// dropped. What these may add to the current task stays counted.
func (m *meter) keep(flights []*wait) {
	flying := 0
	for _, w := range flights {
		if w.local {
			flying++
		}
	}
	m.nodes += m.flying - flying
	m.flying = flying
}

// full reports whether one more local activity or request could be too much for the
// current workflow task. The output counts as one more node.
func (m *meter) full(r *run, w *wait) bool {
	nodes := taskNodes
	if w.node == r.last() {
		nodes++
	}
	return m.nodes+m.flying >= nodes || m.bytes > taskBytes-byReference-overhead || m.encoded > taskEncoded ||
		m.nodes > 0 && r.now().Sub(m.since) >= taskDuration
}

// brought is how many bytes the end of a local activity adds to the workflow task.
func brought(err error, bytes int) int {
	if err != nil {
		return failureBytes + overhead
	}
	return emitted(bytes)
}

// bytesOf is how many bytes an outcome has.
func bytesOf(out *contract.Outcome) int {
	return len(out.Input) + len(out.Output) + len("false,")*len(out.Held) + length(out.Values) + len(out.Values)
}

// emitted estimates how many bytes a payload of n bytes adds to the workflow task.
func emitted(n int) int { return min(n, byReference) + overhead }
