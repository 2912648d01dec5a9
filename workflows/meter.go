package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
)

// Bounds of one workflow task. Temporal refuses a completion over 4 MiB, the
// task is then retried for ever, and nothing tells the workflow.
const (
	taskNodes    = 200
	taskBytes    = 1 << 20
	taskDuration = 500 * time.Millisecond
	// reference is about what a value that goes by reference leaves in the
	// history; byReference is the size from which it does (package payload).
	reference   = 512
	byReference = 16 << 10
	// overhead is about what an event has beside its values.
	overhead = 256
)

// meter counts what the current workflow task emits. A new task shows in the
// length of the history, which is the same in a replay.
type meter struct {
	length  int
	since   time.Time
	nodes   int
	bytes   int
	cutting bool
}

func (m *meter) begin(r *run) {
	m.length = r.info.GetCurrentHistoryLength()
	m.since = workflow.Now(r.ctx)
}

// tick starts to count anew if a new workflow task has begun.
func (m *meter) tick(r *run) {
	if r.info.GetCurrentHistoryLength() == m.length {
		return
	}
	m.begin(r)
	m.nodes, m.bytes = 0, 0
}

// emit counts bytes of a request.
func (m *meter) emit(bytes int) { m.bytes += bytes }

// local counts a local node that has ended, with its result.
func (m *meter) local(out *contract.Outcome) {
	n := len(out.Input) + len(out.Output)
	for _, v := range out.Values {
		n += len(v)
	}
	m.nodes++
	m.bytes += emitted(n)
}

// full reports whether the current workflow task has had enough.
func (m *meter) full(r *run) bool {
	return m.nodes >= taskNodes || m.bytes >= taskBytes-byReference ||
		m.nodes > 0 && workflow.Now(r.ctx).Sub(m.since) >= taskDuration
}

func emitted(n int) int {
	if n >= byReference {
		n = reference
	}
	return n + overhead
}
