package workflows

import (
	"slices"
	"strconv"
	"time"

	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
)

// payments are the costs of calls without effect that the guardian does not know yet. Of a
// call whose cost it never learns, the whole hold is spent.
type payments struct {
	// posts have not been sent yet, or are to be sent again; sent are in flight.
	posts, sent []contract.Post
	posting     bool
	// batch is the number of the last request.
	batch int
	// noted counts the posts, and done those that the guardian has got, or will not get.
	noted, done int
}

// maxAmount bounds the text of an amount of money.
const maxAmount = 64

// pays notes that the call of w has ended, for which there was a hold.
func (r *run) pays(w *wait, p contract.Post) {
	if w.hold == "" {
		return
	}
	if p.Hold = w.hold; len(p.Spent) > maxAmount {
		p.Spent = "" // no amount is that long
	}
	r.payments.posts = append(r.payments.posts, p)
	r.payments.noted++
	w.hold = ""
	w.paid++
}

// settled reports whether the guardian knows what the calls have cost that ended before w
// asked for a hold: what they left is there for w.
func (r *run) settled(w *wait) bool {
	y := &r.payments
	if w.owed == 0 {
		w.owed = y.noted
	}
	return w.owed <= y.done
}

// post reports costs to the guardian. Temporal retries that while the store is unavailable.
func (r *run) post() {
	y := &r.payments
	if y.posting || len(y.posts) == 0 {
		return
	}
	n := min(len(y.posts), contract.MaxPosts)
	y.sent, y.posts = y.posts[:n:n], y.posts[n:]
	y.posting = true
	request, answer := r.sendPosts(y.sent, tryTime)
	r.flights = append(r.flights, &wait{kind: waitPost, since: r.now(), request: request, key: r.key, queue: contract.QueueGuardian, future: answer})
}

// sendPosts requests guard.post, for so long at most, and returns the name of the request.
func (r *run) sendPosts(posts []contract.Post, within time.Duration) (string, workflow.Future) {
	r.payments.batch++
	name := r.tag + "/engine/post#" + strconv.Itoa(r.payments.batch)
	ctx := workflow.WithActivityOptions(r.steady, workflow.ActivityOptions{
		TaskQueue: contract.QueueGuardian, ActivityID: name, Summary: "costs of calls",
		StartToCloseTimeout: journalTimeout, ScheduleToCloseTimeout: within, RetryPolicy: recording,
	})
	return name, workflow.ExecuteActivity(ctx, contract.ActivityPost, contract.PostRequest{Run: r.identity(), Request: name, Posts: posts})
}

// settleUp reports costs to the guardian at the end of a run, for a bounded time. Of calls in
// flight the whole hold is spent, unless they undo an effect.
func (r *run) settleUp() {
	for _, w := range r.flights {
		if !r.undoes(w) {
			r.pays(w, contract.Post{})
		}
	}
	for _, w := range slices.Concat(r.again, r.sleeping, r.stalled) {
		if !r.undoes(w) {
			r.pays(w, contract.Post{Unstarted: true})
		}
	}
	y := &r.payments
	for posts := range slices.Chunk(slices.Concat(y.sent, y.posts), contract.MaxPosts) {
		_, answer := r.sendPosts(posts, journalTimeout)
		if err := answer.Get(r.steady, nil); err != nil {
			workflow.GetLogger(r.ctx).Warn("the guardian does not know what calls have cost", "error", err)
			return // the guardian's sweeper finds the holds
		}
	}
}
