package workflows

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
)

const (
	// maxOrders is how many orders may wait to be recorded: the server has no more updates
	// of a run in flight.
	maxOrders = 10
	// maxUnsigned is how often a run is paused without a signature: each pause is an entry
	// of the ledger, and anybody who may send updates may send it. A run can be resumed as
	// often.
	maxUnsigned = 100
)

// steering is what people have told a run.
type steering struct {
	// paused is there while the run is paused.
	paused *contract.Pause
	// waiting are orders that are not recorded yet. The first has been sent to the ledger if
	// sent.
	waiting []*order
	sent    bool
	// ending reports that the run ends, and is told nothing more.
	ending bool
	// orders counts those that were recorded or refused, and unsigned the pauses among them
	// that nobody has signed.
	orders, unsigned int
	// launches counts the requests of this execution, again those that have failed, and
	// next is when the next may be made.
	launches, again int
	next            time.Time
}

// order is what a run is told.
type order struct {
	order    contract.Order
	argument json.RawMessage
	arrived  time.Time
	// answer is for the update, once it is decided.
	answer  contract.Steering
	decided bool
}

// steerable returns the validator of an update: nothing of what it refuses gets into the
// history.
func (v *view) steerable(o contract.Order) func(json.RawMessage) error {
	return func(argument json.RawMessage) error {
		s := &v.steering
		// A validator is not replayed.
		_, signed, ok := contract.ReadOrder(argument) //workflowcheck:ignore
		switch {
		case !ok:
			return unsteerable(contract.CodeMalformed, "the argument is neither a reason nor the envelope of an order")
		case v.state != contract.RunLoading && v.state != contract.RunRunning, s.ending:
			return unsteerable(contract.CodeEnding, "the run ends, or has ended")
		case len(s.waiting) >= maxOrders, v.run != nil && v.run.inbox.closed:
			return unsteerable(contract.CodeAgain, "the run is busy")
		case len(s.waiting) == 0 && (s.paused != nil) == (o == contract.OrderPause):
			return unsteerable(contract.CodeUnchanged, "nothing changes: the run is paused already, or is not paused")
		case o == contract.OrderPause && !signed && s.unsigned >= maxUnsigned:
			return unsteerable(contract.CodeUnsigned, "the run was paused "+strconv.Itoa(s.unsigned)+" times without a signature: sign the order")
		}
		return nil
	}
}

func unsteerable(code, message string) error {
	return temporal.NewApplicationErrorWithOptions(message, code, temporal.ApplicationErrorOptions{NonRetryable: true})
}

// steer returns the handler of an update. It answers once the order is recorded, or refused,
// or that it may be sent again.
func (v *view) steer(o contract.Order) func(workflow.Context, json.RawMessage) (contract.Steering, error) {
	return func(ctx workflow.Context, argument json.RawMessage) (contract.Steering, error) {
		told := &order{order: o, argument: slices.Clone(argument), arrived: workflow.Now(ctx)}
		told.answer = contract.Steering{Code: contract.CodeAgain, Detail: "the run has not begun, has ended, or is busy"}
		closed := func() bool { return v.run != nil && v.run.inbox.closed }
		if closed() {
			return told.answer, nil
		}
		if v.steering.ending {
			return contract.Steering{State: contract.RunRunning, Code: contract.CodeEnding, Detail: "the run ends"}, nil
		}
		v.steering.waiting = append(v.steering.waiting, told)
		err := workflow.Await(ctx, func() bool { return told.decided || closed() })
		return told.answer, err
	}
}

// paused reports whether nothing may start: people have paused the run, or have told it to
// pause, which the ledger does not have yet.
func (r *run) paused() bool {
	s := r.steering
	return r.phase == forward && (s.paused != nil || slices.ContainsFunc(s.waiting, func(o *order) bool { return o.order == contract.OrderPause }))
}

// told reports whether an order is there for record to do.
func (r *run) told() bool {
	s := r.steering
	return r.phase == forward && len(s.waiting) > 0 && !s.sent && !s.next.After(r.now())
}

// record has the ledger record what people have told the run, one order after the other.
func (r *run) record() {
	s := r.steering
	for r.told() {
		o := s.waiting[0]
		if (s.paused != nil) == (o.order == contract.OrderPause) {
			// An order before it has done it.
			r.answer(contract.Steering{Accepted: true, Verified: s.paused != nil && s.paused.Verified})
			continue
		}
		s.launches++
		id := "engine/steer#" + strconv.Itoa(s.orders+1) + "." + strconv.Itoa(s.launches)
		request := contract.SteerRequest{
			Run: r.identity(), Plan: r.head.Digest, Input: r.head.InputDigest, Request: r.tag + "/" + id,
			Order: o.order, N: s.orders + 1, Argument: o.argument, ArrivedMS: o.arrived.UnixMilli(),
		}
		r.meter.emit(len(o.argument))
		ctx := workflow.WithActivityOptions(r.steady, workflow.ActivityOptions{
			TaskQueue: contract.QueueJournal, ActivityID: id, Summary: string(o.order),
			StartToCloseTimeout: journalTimeout, ScheduleToCloseTimeout: tryTime, RetryPolicy: recording,
		})
		s.sent = true
		r.flights = append(r.flights, &wait{
			kind: waitSteer, since: r.now(), request: request.Request, key: r.key, queue: contract.QueueJournal,
			future: workflow.ExecuteActivity(ctx, contract.ActivitySteer, request),
		})
	}
}

// landSteer handles the answer: the run is paused, or goes on, once the ledger has that.
func (r *run) landSteer(w *wait) {
	s := r.steering
	s.sent = false
	var out contract.Steered
	err := w.future.Get(r.steady, &out)
	if err == nil && out.Request != w.request {
		err = errOther
	}
	if err != nil {
		workflow.GetLogger(r.ctx).Warn("an order was not recorded", "error", err)
		s.again++
		s.next = r.now().Add(backoff(s.again - 1))
		return
	}
	s.again, s.next = 0, time.Time{}
	s.orders++
	if out.Refused != "" {
		r.answer(contract.Steering{Code: contract.CodeRefused, Detail: bounded(out.Refused)})
		return
	}
	if o := s.waiting[0]; o.order == contract.OrderPause {
		p := out.Pause
		p.Since = instant(o.arrived)
		s.paused = &p
		if !p.Verified {
			s.unsigned++
		}
		r.announce(contract.RunPaused, false)
	} else {
		s.paused = nil
		r.announce(contract.RunRunning, false)
	}
	r.answer(contract.Steering{Accepted: true, Verified: out.Pause.Verified})
}

// answer answers the first order that waits.
func (r *run) answer(a contract.Steering) {
	s := r.steering
	if a.State = contract.RunRunning; s.paused != nil {
		a.State = contract.RunPaused
	}
	s.waiting[0].answer, s.waiting[0].decided = a, true
	s.waiting = s.waiting[1:]
}

// withhold lets no call be made by a permit that was given before the run was paused: the
// guardian is asked again once it goes on.
func (r *run) withhold() {
	for i, w := range r.again {
		if w.decided {
			r.again[i] = r.anew(w)
		}
	}
}

// knock asks for the store while the run is paused: no call may be made that would find out
// that it is back. Signatures wait for that, and barriers that expire.
func (r *run) knock() {
	if o := &r.outage; !o.probing && !r.journal.writing && !o.next.After(r.now()) {
		o.knocking = true
		r.write()
	}
}

// knocked handles the end of a batch, which may say that the store is back.
func (r *run) knocked(written bool) {
	o := &r.outage
	if !o.knocking {
		return
	}
	if o.knocking = false; !written {
		o.again++
		o.next = r.now().Add(backoff(o.again - 1))
		return
	}
	r.outage = outage{window: r.inFlight() + 2, again: o.again}
	r.again = append(r.again, r.stalled...)
	r.stalled = nil
}

// unpause ends a pause with the phase in which nodes start.
func (r *run) unpause() {
	s := r.steering
	s.ending = true
	if s.paused != nil {
		s.paused = nil
		r.announce(contract.RunRunning, false)
	}
	for len(s.waiting) > 0 {
		r.answer(contract.Steering{Code: contract.CodeEnding, Detail: "the run ends"})
	}
}

// steeringDue is when an order is to be sent again, or zero.
func (r *run) steeringDue() time.Time {
	if s := r.steering; r.phase == forward && len(s.waiting) > 0 && !s.sent {
		return s.next
	}
	return time.Time{}
}

// carrySteering carries a pause, and the order that may be on its way to the ledger.
func (r *run) carrySteering(c *contract.Carried) {
	s := r.steering
	carried := &contract.CarriedSteering{Paused: s.paused, Orders: s.orders, Unsigned: s.unsigned}
	if len(s.waiting) > 0 && (s.sent || s.again > 0) {
		o := s.waiting[0]
		carried.Sent = &contract.CarriedOrder{Order: o.order, Argument: o.argument, ArrivedMS: o.arrived.UnixMilli()}
	}
	if s.orders > 0 || carried.Sent != nil {
		c.Steering = carried
	}
}

// restoreSteering restores that before updates have handlers, which are called at once.
func (v *view) restoreSteering(c *contract.Carried) {
	if c == nil {
		return
	}
	v.steering.ending = c.Unwinding != nil
	if s := c.Steering; s != nil {
		v.steering.paused, v.steering.orders, v.steering.unsigned = s.Paused, s.Orders, s.Unsigned
		if o := s.Sent; o != nil {
			v.steering.waiting = []*order{{order: o.Order, argument: o.Argument, arrived: time.UnixMilli(o.ArrivedMS).UTC()}}
		}
	}
}
