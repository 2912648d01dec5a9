package workflows

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
)

const (
	// maxSignals is how many signals an execution takes before the run continues as new:
	// beyond 10,000 the server refuses them.
	maxSignals = 500
	// From floodSignals on, an execution continues as new once it has floodEvents, too.
	floodSignals, floodEvents = 100, 1_000
	// maxWaiting and maxWaitingBytes bound the signatures that wait to be verified. What
	// exceeds them is dropped, and may be sent again.
	maxWaiting      = 1000
	maxWaitingBytes = 4 << 20
)

// inbox has signatures on their way to the guardian. Whoever may signal the run may fill it,
// so it is bounded, and nothing in it is believed.
type inbox struct {
	signals workflow.ReceiveChannel
	// received counts the signals of this execution, and requests the requests to the
	// guardian about barriers.
	received, requests int
	// waiting are not verified yet, and sent are being verified.
	waiting, sent []*signature
	bytes         int
	signing       bool
	// early are barriers for which signatures were accepted before the run knew that they are
	// open: what it is told about them then may be older.
	early []string
	// again counts requests that have failed, and next is when the next may be made.
	again int
	next  time.Time
	// closed reports that the execution is about to end, and takes no more.
	closed bool
}

// signature is an envelope that has arrived.
type signature struct {
	envelope json.RawMessage
	// update is what becomes of it, if it came with an update that waits for that, and
	// decided reports that it is known.
	update  *contract.Verdict
	decided bool
}

// take lets a signature wait for its verification, and reports whether there was room.
func (x *inbox) take(s *signature) bool {
	if len(x.waiting) >= maxWaiting || x.bytes+len(s.envelope) > maxWaitingBytes {
		return false
	}
	x.waiting = append(x.waiting, s)
	x.bytes += len(s.envelope)
	return true
}

// anew has what is being verified verified once more: its answer is dropped.
func (x *inbox) anew() {
	for _, s := range x.sent {
		x.bytes += len(s.envelope)
	}
	x.waiting, x.sent = slices.Concat(x.sent, x.waiting), nil
}

// signed reports whether something is there for verify to do.
func (r *run) signed() bool {
	x := &r.inbox
	return x.signals.Len() > 0 || len(x.waiting) > 0 && !x.signing && r.asksGuardian() && !x.next.After(r.now())
}

// asksGuardian reports whether the guardian may be asked about barriers now.
func (r *run) asksGuardian() bool {
	return !r.draining && !r.outage.away && !r.journal.unopened
}

// takeSignatures receives signatures that came by signal.
func (r *run) takeSignatures() {
	var raw json.RawMessage
	for r.inbox.signals.ReceiveAsync(&raw) {
		r.inbox.received++
		if !contract.IsSignature(raw) || !r.inbox.take(&signature{envelope: slices.Clone(raw)}) {
			workflow.GetLogger(r.ctx).Warn("a signal was dropped: it is no signature, or too many wait", "bytes", len(raw))
		}
		raw = nil
	}
}

// verify passes on to the guardian what has gathered, and asks about barriers whose time is
// over. One request is in flight at a time.
func (r *run) verify() {
	x := &r.inbox
	expired := slices.ContainsFunc(r.barriers, func(b *barrier) bool { return b.id != "" && !b.next.After(r.now()) })
	if r.journal.unopened && (expired || len(x.waiting) > 0) && !r.journal.writing {
		r.write()
	}
	if x.signing || !r.asksGuardian() || len(x.waiting) == 0 && !expired || x.next.After(r.now()) {
		return
	}
	request := contract.SignRequest{Run: r.identity()}
	bytes := 0
	for _, s := range x.waiting {
		if len(request.Envelopes) == contract.MaxSignatures || bytes+len(s.envelope) > contract.MaxSignatureBytes {
			break
		}
		bytes += len(s.envelope)
		request.Envelopes = append(request.Envelopes, s.envelope)
	}
	n := len(request.Envelopes)
	x.sent, x.waiting = x.waiting[:n:n], x.waiting[n:]
	x.bytes -= bytes
	for _, b := range r.barriers {
		if b.id != "" {
			request.Barriers = append(request.Barriers, b.id)
		}
	}
	request.Request = r.guardianRequest("sign")
	r.meter.emit(bytes)
	w := &wait{kind: waitSign, since: r.now(), request: request.Request, key: r.key, queue: contract.QueueGuardian}
	w.future = r.askGuardian(contract.ActivitySign, request.Request, "signatures", tryTime, request)
	x.signing = true
	r.flights = append(r.flights, w)
}

// landSign handles what the guardian says of signatures and barriers.
func (r *run) landSign(w *wait) {
	x := &r.inbox
	x.signing = false
	var out contract.Signed
	err := w.future.Get(r.steady, &out)
	if err == nil && (out.Request != w.request || !out.Unopened && len(out.Verdicts) != len(x.sent)) {
		err = errOther
	}
	if err != nil || out.Unopened {
		if err != nil {
			workflow.GetLogger(r.ctx).Warn("signatures were not verified", "error", err)
			x.again++
			x.next = r.now().Add(backoff(x.again - 1))
		} else {
			r.journal.unopened = true
		}
		x.anew()
		return
	}
	x.again, x.next = 0, time.Time{}
	for i, s := range x.sent {
		r.early(&out.Verdicts[i], out.Barriers)
		s.decided = true
		if s.update != nil {
			*s.update = out.Verdicts[i]
		}
	}
	x.sent = nil
	for _, now := range out.Barriers {
		if i := slices.IndexFunc(r.barriers, func(b *barrier) bool { return b.id == now.ID && b.id != "" }); i >= 0 {
			r.stands(r.barriers[i], now)
		}
	}
}

// early has the guardian asked about a barrier for which it has accepted a signature, and about
// which it was not asked along with it: then the barrier was being opened.
func (r *run) early(v *contract.Verdict, told []contract.Barrier) {
	x := &r.inbox
	if !v.Accepted || slices.ContainsFunc(told, func(b contract.Barrier) bool { return b.ID == v.Barrier }) {
		return
	}
	if i := slices.IndexFunc(r.barriers, func(b *barrier) bool { return b.id == v.Barrier && b.id != "" }); i >= 0 {
		r.barriers[i].next = r.now()
	} else if r.opening > 0 && !slices.Contains(x.early, v.Barrier) {
		x.early = append(x.early, v.Barrier)
	}
}

// errUnsignable is the answer to an update that brings no envelope.
var errUnsignable = errors.New("the argument is not an envelope with an approval")

// signable refuses an update that cannot be a signature; nothing of it gets into the history.
func (v *view) signable(envelope json.RawMessage) error {
	if !contract.IsSignature(envelope) {
		return errUnsignable
	}
	return nil
}

// sign is the update handler of [contract.UpdateSign]. It answers once the signature is
// verified, or that it may be sent again.
func (v *view) sign(ctx workflow.Context, envelope json.RawMessage) (contract.Verdict, error) {
	verdict := contract.Verdict{Code: contract.CodeAgain, Detail: "the run has not begun, has ended, or is busy"}
	if err := workflow.Await(ctx, func() bool { return v.run != nil || v.state != contract.RunLoading }); err != nil {
		return verdict, err
	}
	if v.run == nil || v.run.inbox.closed {
		return verdict, nil
	}
	s := &signature{envelope: slices.Clone(envelope), update: &verdict}
	if !v.run.inbox.take(s) {
		return verdict, nil
	}
	err := workflow.Await(ctx, func() bool { return s.decided || v.run.inbox.closed })
	return verdict, err
}

// hurry lets updates end before the execution does. What they brought may be sent again.
func (r *run) hurry() {
	r.inbox.closed = true
	r.takeSignatures()
	// It cannot be cancelled, and fails in no other way.
	_ = workflow.Await(r.steady, func() bool { return workflow.AllHandlersFinished(r.ctx) })
}

// ofNode reports whether the wait is for a node.
func (w *wait) ofNode() bool {
	switch w.kind {
	case waitCall, waitRoute, waitChild, waitGuardian, waitBarrier, waitUndo, waitCheck:
		return true
	case waitJournal, waitPost, waitOpen, waitSign, waitSteer:
	}
	return false
}
