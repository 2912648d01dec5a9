package workflows

import (
	"cmp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/plan"
)

const (
	// stateNodes is how many nodes an answer to chimera.state lists, and
	// stateBytes its approximate size: an answer that every client can read
	// stays below payload.InlineLimit.
	stateNodes = 1000
	stateBytes = 192 << 10
	// stateMessage bounds a failure's message in an answer, in bytes.
	stateMessage = 500
	// stateWaits is how many waits it lists.
	stateWaits = 100
	// detailNodes is how many rows the table in the user interface has.
	detailNodes = 100
)

// view is what clients see of a run, from before its plan is loaded until after its
// end.
type view struct {
	run     *run
	state   contract.RunState
	failure *contract.Failure
	// stands is what the ledger has about the nodes of a run that has ended, if
	// that may differ from their outcomes here.
	stands contract.NodeStates

	// steering is what people have told the run, perhaps before it was loaded.
	steering steering

	// plan is the plan's name@version, if known, of a run that is not loaded,
	// and waiting is what such a run, or a closing one, waits for.
	plan    string
	waiting []contract.Wait
}

// awaits sets what a run that is not loaded, or is closing, waits for.
func (v *view) awaits(kind contract.WaitKind, since, until time.Time, detail string) {
	v.waiting = []contract.Wait{{Kind: kind, Since: instant(since), Until: instant(until), Detail: excerpt.Bytes(detail, stateMessage)}}
}

// answer is the query handler of [contract.QueryState].
func (v *view) answer() (contract.State, error) {
	s := contract.State{State: v.state, Failure: v.failure, Nodes: []contract.NodeStatus{}}
	if v.run == nil {
		s.Plan = v.plan
		if v.state == contract.RunLoading {
			s.Waiting = v.waiting
		}
		return s, nil
	}
	p := v.run.plan
	s.Plan, s.Digest, s.Agent = p.Name+"@"+p.Version, v.run.head.Digest, p.Agent
	calls := len(p.Nodes) - 2
	for i := 1; i <= calls; i++ {
		count(&s.Counts, v.nodeState(i))
	}
	s.StartedAt, s.Executions = v.run.started.UTC().Format(time.RFC3339Nano), v.run.executions
	large := calls > stateNodes
	s.Truncated = large
	switch {
	case v.state != contract.RunRunning:
	case v.run.phase == closing: // nobody waits for what is still in flight
		s.Waiting = v.waiting
	default:
		var more bool
		if p := v.steering.paused; p != nil && v.run.phase == forward {
			s.State, s.Paused = contract.RunPaused, p
		}
		s.Waiting, more = v.run.waiting()
		s.Truncated = large || more
		s.Barriers = v.run.asking()
	}
	bytes := 0
	for i := 1; i <= calls; i++ {
		state := v.nodeState(i)
		if large && state == contract.Pending {
			continue
		}
		status := contract.NodeStatus{
			ID: p.Nodes[i].ID, Operation: p.Nodes[i].Activity(), State: state,
			Attempts: int(v.run.attempts[i]), StartedAt: v.run.at(v.run.began[i]),
		}
		if state != contract.Dropped {
			status.EndedAt = v.run.at(v.run.ended[i])
		}
		if v.stands == "" || state == contract.Failed {
			status.Error = brief(v.run.errors[i])
		}
		bytes += 160 + len(status.ID) + len(status.Operation)
		if status.Error != nil {
			bytes += 64 + len(status.ID) + quoted(status.Error.Message)
		}
		if len(s.Nodes) == stateNodes || bytes > stateBytes {
			s.Truncated = true
			break
		}
		s.Nodes = append(s.Nodes, status)
	}
	return s, nil
}

// at formats a time of a node in RFC 3339, or as "" if there is none.
func (r *run) at(stamp int64) string {
	if stamp == 0 {
		return ""
	}
	return instant(r.started.Add(time.Duration(stamp-1) * time.Millisecond))
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// waiting lists what the run waits for, what holds it up first, and reports whether
// there is more.
func (r *run) waiting() (all []contract.Wait, more bool) {
	add := func(kind contract.WaitKind, w *wait, detail string) {
		if more = len(all) == stateWaits; !more {
			node := ""
			if w.ofNode() {
				node = r.plan.Nodes[w.node].ID
			}
			since := w.since
			if kind != contract.WaitApproval {
				since = cmp.Or(w.asked, since)
			}
			all = append(all, contract.Wait{Kind: kind, Node: node, Since: instant(since), Until: instant(w.due), Detail: detail})
		}
	}
	if p := r.steering.paused; p != nil && r.phase == forward {
		all = append(all, contract.Wait{Kind: contract.WaitResume, Since: p.Since, Detail: "paused" + whoPaused(p, strings.Clone)})
	}
	why := r.outage.because() // said once: it may be long
	for _, w := range r.stalled {
		add(contract.WaitStore, w, "the store was unavailable"+why)
		why = ""
	}
	for _, w := range r.flights {
		switch {
		case w.patient:
			add(contract.WaitStore, w, "asks again and again until the store is back"+why)
			why = ""
		case w.kind == waitJournal:
			add(contract.WaitJournal, w, "outcomes on their way to the ledger")
		case w.kind == waitPost:
			add(contract.WaitGuardian, w, "what calls have cost, on its way to the guardian")
		case w.kind == waitUndo:
			add(contract.WaitCall, w, "whether its effect stands")
		case w.kind == waitCheck:
			add(contract.WaitCall, w, "its prechecks, which are called once more after the approval")
		case w.kind == waitOpen:
			add(contract.WaitGuardian, w, "the guardian, which opens the barrier")
		case w.kind == waitSteer:
			add(contract.WaitJournal, w, "what people have told the run, on its way to the ledger")
		case w.kind == waitSign:
			add(contract.WaitGuardian, w, "the guardian, which verifies signatures")
		case w.kind == waitGuardian && r.plan.Nodes[w.node].Paid():
			add(contract.WaitGuardian, w, "the guardian's hold")
		case w.kind == waitGuardian:
			add(contract.WaitGuardian, w, "the guardian's decision")
		case w.kind == waitChild:
			add(contract.WaitChild, w, w.child.Workflow)
		default:
			add(contract.WaitCall, w, w.queue)
		}
	}
	for _, w := range r.parked {
		add(contract.WaitApproval, w, r.askedOf(w))
	}
	for _, w := range r.sleeping {
		switch {
		case w.unstarted:
			add(contract.WaitQueue, w, "no worker took the call")
		case w.kind == waitRoute:
			add(contract.WaitTimer, w, "")
		default:
			add(contract.WaitRetry, w, "")
		}
	}
	return all, more
}

// because formats the reason of an outage, to be read after what it holds up.
func (o *outage) because() string {
	if o.why == "" {
		return ""
	}
	return ": " + excerpt.Bytes(o.why, stateMessage)
}

// brief is a failure without its details, and with a message of bounded length.
func brief(e *contract.ErrorPayload) *contract.ErrorPayload {
	if e == nil {
		return nil
	}
	short := *e
	short.Details = nil
	short.Message = excerpt.Bytes(short.Message, stateMessage)
	return &short
}

// nodeState is the state of node i. When a run has failed, nodes in flight or
// waiting were dropped; if the ledger had an earlier end, so were those that it
// does not have.
func (v *view) nodeState(i int) contract.NodeState {
	if v.stands != "" {
		return v.stands.State(i)
	}
	over := v.state == contract.RunFailed || v.state == contract.RunCancelled
	switch v.run.progress.Node(i) {
	case plan.NodeSucceeded:
		return contract.Succeeded
	case plan.NodeFailed:
		return contract.Failed
	case plan.NodeSkipped:
		return contract.Skipped
	case plan.NodeRunning:
		if over && v.run.errors[i] != nil {
			return contract.Failed // its error edges were never chosen
		}
		if over {
			return contract.Dropped
		}
		return contract.Running
	case plan.NodePending, plan.NodeReady:
		if v.run.plan.Nodes[i].Undoes != 0 && v.state != contract.RunRunning {
			return contract.Skipped // there was nothing to undo
		}
	}
	if over {
		return contract.Dropped
	}
	return contract.Pending
}

func count(c *contract.Counts, s contract.NodeState) {
	switch s {
	case contract.Pending:
		c.Pending++
	case contract.Running:
		c.Running++
	case contract.Succeeded:
		c.Succeeded++
	case contract.Failed:
		c.Failed++
	case contract.Skipped:
		c.Skipped++
	case contract.Dropped:
		c.Dropped++
	}
}

// fail records the end of a run that has failed and gives the workflow's error.
func (v *view) fail(f contract.Failure) error {
	f = complete(f)
	v.state, v.failure = contract.RunFailed, &f
	return temporal.NewApplicationErrorWithOptions(f.Message, string(f.Kind), temporal.ApplicationErrorOptions{
		NonRetryable: true, Details: []any{f},
	})
}

// complete returns a failure in which all lists are set.
func complete(f contract.Failure) contract.Failure {
	if f.Compensated == nil {
		f.Compensated = []string{}
	}
	if f.NotCompensated == nil {
		f.NotCompensated = []string{}
	}
	return f
}

// details is the node table of the Temporal user interface, in Markdown.
func (r *run) details(state contract.RunState) string {
	v := &view{run: r, state: state, stands: r.view.stands}
	calls, settled := len(r.plan.Nodes)-2, r.progress.Settled()-1
	if v.stands != "" {
		settled = 0
		for i := 1; i <= calls; i++ {
			if v.nodeState(i) != contract.Dropped {
				settled++
			}
		}
	}
	if r.rows == nil {
		for i := 1; i <= min(calls, detailNodes); i++ {
			r.rows = append(r.rows, "\n| "+r.plan.Nodes[i].ID+" | "+r.plan.Nodes[i].Activity()+" | ")
		}
	}
	var b strings.Builder
	b.Grow(100 * (len(r.rows) + 3))
	b.WriteString("**" + r.plan.Name + "@" + r.plan.Version + "** " + strconv.Itoa(settled) + " of " + strconv.Itoa(calls) +
		" nodes settled" + r.pausedBy() + r.asks(state) + "\n\n| node | operation | state |\n|---|---|---|")
	for i, row := range r.rows {
		b.WriteString(row)
		b.WriteString(string(v.nodeState(i + 1)))
		b.WriteString(" |")
	}
	if calls > detailNodes {
		b.WriteString("\n\n" + strconv.Itoa(calls-detailNodes) + " more nodes are not shown.")
	}
	return b.String()
}

// pausedBy says in the user interface who has paused the run.
func (r *run) pausedBy() string {
	p := r.steering.paused
	if p == nil || r.phase != forward {
		return ""
	}
	return "\n\n**Paused** since " + p.Since + whoPaused(p, verbatim)
}

// whoPaused says who has paused a run, and why, with texts of others as quote writes them.
func whoPaused(p *contract.Pause, quote func(string) string) string {
	text := ""
	if p.By != "" {
		text += " by " + quote(p.By)
	}
	if !p.Verified {
		text += " (not verified)"
	}
	if p.Reason != "" {
		text += ": " + quote(p.Reason)
	}
	return text
}

// verbatim writes a text of others in Markdown, in which nothing of it has a meaning.
func verbatim(text string) string {
	return "`" + strings.Map(func(c rune) rune {
		if c == '`' || !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, excerpt.Bytes(text, stateMessage)) + "`"
}

// quoted is the most bytes that a text has as JSON.
func quoted(text string) int {
	n := len(`""`)
	for _, c := range text {
		switch {
		case c < ' ', c == utf8.RuneError, c == '\u2028', c == '\u2029':
			n += len(`\u0000`)
		case c == '"', c == '\\':
			n += 2
		default:
			n += utf8.RuneLen(c)
		}
	}
	return n
}
