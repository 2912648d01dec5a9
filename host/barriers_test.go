package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// enrol enrols a person with a key of development, or in production with one that is stated to
// be on a token.
func (a *acting) enrol(t *testing.T, person string, roles ...string) stage.Signer {
	t.Helper()
	return a.Enrol(t, a.ledger(), a.signs(), person, roles...)
}

// signs is the type of the keys of those who sign.
func (a *acting) signs() string {
	if a.of != nil {
		return trust.SigToken
	}
	return trust.SigDev
}

// asked waits until people are asked, by so many barriers, and the run knows that.
func (a *acting) asked(t *testing.T, run client.WorkflowRun, barriers int) []ledger.Barrier {
	t.Helper()
	all := stage.Asked(t, a.ledger(), run, barriers)
	stage.Until(t, "the run knows", func() bool { return len(stage.State(t, a.h.Client(), run).Barriers) == barriers })
	return all
}

// update sends a signature by the update, and returns the answer.
func (a *acting) update(t *testing.T, run client.WorkflowRun, envelope json.RawMessage) (v contract.Verdict) {
	t.Helper()
	u, err := a.h.Client().UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: run.GetID(), UpdateName: contract.UpdateSign, Args: []any{envelope}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	require.NoError(t, err)
	require.NoError(t, u.Get(t.Context(), &v))
	return v
}

func (a *acting) signal(t *testing.T, run client.WorkflowRun, envelope any) {
	t.Helper()
	require.NoError(t, a.h.Client().SignalWorkflow(t.Context(), run.GetID(), "", contract.SignalSignature, envelope))
}

const approvedPlan = stage.ApprovedPlan

// TestApprovals: an effect waits until the right people have approved exactly it, and happens
// once. A run that is reset past the barrier asks nobody again: it asks how the barrier stands,
// so it learns what people have approved in another run that continues the same history.
func TestApprovals(t *testing.T) {
	stage.Parallel(t)
	a := act(t, writes)
	eve, fay := a.enrol(t, "eve", "editor"), a.enrol(t, "fay", "finance")
	digest := a.publish(t, approvedPlan)
	run, other := a.start(t, "waits", digest, `{"line":"one"}`), a.start(t, "other", digest, `{"line":"two"}`)
	b, foreign := a.asked(t, run, 1)[0], a.asked(t, other, 1)[0]
	s := stage.State(t, a.h.Client(), run)
	value, err := a.h.Client().QueryWorkflow(t.Context(), run.GetID(), "", "__temporal_workflow_metadata")
	require.NoError(t, err)
	var shown sdkpb.WorkflowMetadata // what Temporal's web pages show
	require.NoError(t, value.Get(&shown))
	require.Contains(t, shown.GetCurrentDetails(), "**Waits for approval** by 1 of editor, 1 of finance: write, since "+s.Barriers[0].Since+", until "+s.Barriers[0].Until+" (barrier "+b.ID+")")

	v := a.update(t, run, eve.Sign(t, foreign, approval.Approve, nil))
	require.Equal(t, []any{false, string(approval.Foreign)}, []any{v.Accepted, v.Code}, v.Detail)
	require.Empty(t, a.written(t))
	tasks := events(t, a.h.Client(), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
	waiting := tasks[len(tasks)-1].GetEventId()
	elsewhere := a.reset(t, run, waiting)
	stage.Until(t, "the other run knows", func() bool { return len(stage.State(t, a.h.Client(), elsewhere).Barriers) == 1 })
	v = a.update(t, elsewhere, eve.Sign(t, b, approval.Approve, nil))
	require.True(t, v.Accepted, v.Detail)
	require.Equal(t, []contract.Group{{Role: "finance", Min: 1}}, v.Missing)
	a.signal(t, elsewhere, fay.Sign(t, b, approval.Approve, nil))
	require.NoError(t, stage.Await(t, a.h.Client(), elsewhere, nil))
	require.Equal(t, []string{`{"line":"one"}`}, a.written(t))
	a.replays(t, elsewhere)
	again := a.reset(t, run, waiting)
	require.NoError(t, stage.Await(t, a.h.Client(), again, nil))
	a.replays(t, again)
	require.Len(t, a.written(t), 1)

	// One rejection ends it.
	v = a.update(t, other, fay.Sign(t, foreign, approval.Reject, nil))
	require.True(t, v.Accepted, v.Detail)
	require.Equal(t, contract.BarrierRejected, v.State)
	f := stage.FailureOf(t, stage.Await(t, a.h.Client(), other, nil))
	require.Equal(t, contract.Rejected, f.Kind)
	require.Contains(t, f.Message, "fay: not today")
	require.Len(t, a.written(t), 1)
}

var flood = flag.Int("flood", 1200, "how many forged signatures TestFlood sends at full speed")

// forgers are clients that flood a run with forged signatures, each of them another.
type forgers struct {
	*acting
	run     client.WorkflowRun
	barrier ledger.Barrier
	clients []client.Client
	forged  []json.RawMessage
	sent    atomic.Int64
}

// floods starts a run that is to be flooded with so many signatures, by signers whose key is
// another's.
func (a *acting) floods(t *testing.T, name, digest string, size int, key *trust.Key, as ...stage.Signer) *forgers {
	t.Helper()
	f := &forgers{acting: a, run: a.start(t, name, digest, `{"line":"`+name+`"}`)}
	f.barrier = a.asked(t, f.run, 1)[0]
	for range 4 {
		c, err := client.Dial(client.Options{HostPort: stage.Temporal(t).Address, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		f.clients = append(f.clients, c)
	}
	for n := range size {
		s := as[n%len(as)]
		s.Key = key
		f.forged = append(f.forged, s.Sign(t, f.barrier, approval.Approve, nil))
	}
	return f
}

// send sends what one of the clients has to send, one at each tick, or at full speed if each
// is nil.
func (f *forgers) send(ctx context.Context, from int, each <-chan time.Time) error {
	for n := from; n < len(f.forged); {
		if each != nil {
			<-each
		}
		err := f.clients[from].SignalWorkflow(ctx, f.run.GetID(), "", contract.SignalSignature, f.forged[n])
		switch {
		case err == nil:
			f.sent.Add(1)
			n += len(f.clients)
		case errors.As(err, new(*serviceerror.DeadlineExceeded)), errors.As(err, new(*serviceerror.InvalidArgument)):
			// The server is busy, or takes no more in this execution.
		default:
			return err
		}
	}
	return nil
}

// sign sends an honest signature as the command line does, until it is looked at, and returns
// what waits for that.
func (f *forgers) sign(t *testing.T, s stage.Signer) (counts func()) {
	t.Helper()
	envelope := s.Sign(t, f.barrier, approval.Approve, nil)
	var sends errgroup.Group
	sends.Go(func() error {
		v, err := f.runs().Sign(t.Context(), f.run.GetID(), envelope)
		if err == nil && !v.Accepted {
			err = errors.New(v.Detail)
		}
		return err
	})
	return func() {
		t.Helper()
		require.NoError(t, sends.Wait())
	}
}

// ended holds that the run, from its first execution on, had both honest signatures and no
// other, and cost little. It returns the number of executions.
func (f *forgers) ended(t *testing.T, first string) int {
	t.Helper()
	require.NoError(t, stage.Await(t, f.h.Client(), f.run, nil))
	most, all := 0, executions(t, f.h.Client(), f.run.GetID(), first)
	for _, run := range all {
		history := events(t, f.h.Client(), run, enumspb.EVENT_TYPE_UNSPECIFIED)
		require.NotEqual(t, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, history[len(history)-1].GetEventType())
		most = max(most, len(history))
	}
	require.Less(t, most, 12_000)
	l := f.ledger()
	list, err := l.Approvals(t.Context(), f.barrier.ID, ledger.Page{})
	require.NoError(t, err)
	var accepted []string
	for _, a := range list {
		if a.Accepted {
			accepted = append(accepted, a.Signer)
		}
	}
	require.ElementsMatch(t, []string{"eve-key", "fay-key"}, accepted)
	require.Len(t, list, ledger.MaxRefused+2, "the ledger does not grow with the flood")
	r, err := l.Run(t.Context(), f.run.GetID(), "")
	require.NoError(t, err)
	chain, err := l.Chain(t.Context(), r.Chain(), 0, 1000)
	require.NoError(t, err)
	require.Less(t, len(chain), ledger.MaxRefused+30)
	b, err := l.Barrier(t.Context(), f.barrier.ID)
	require.NoError(t, err)
	t.Logf("%s: %d forged, looked at %d times; %d executions, of %d events at most; %d entries in the ledger",
		f.run.GetID(), f.sent.Load(), b.Refused, len(all), most, len(chain))
	return len(all)
}

// TestFlood: many forged signatures cost executions, and not the approval, whether it comes amid
// a flood at full speed, after it, or while some are forged every second.
func TestFlood(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	a := act(t, writes)
	eve, fay, zoe := a.enrol(t, "eve", "editor"), a.enrol(t, "fay", "finance"), a.enrol(t, "zoe", "nothing")
	digest := a.publish(t, approvedPlan)

	f := a.floods(t, "flooded", digest, *flood, zoe.Key, eve, fay, zoe)
	first := f.run.GetRunID()
	var senders errgroup.Group
	for from := range f.clients {
		senders.Go(func() error { return f.send(t.Context(), from, nil) })
	}
	stage.Until(t, "half is sent", func() bool { return f.sent.Load() >= int64(*flood)/2 })
	amid := f.sign(t, eve)
	require.NoError(t, senders.Wait())
	afterwards := f.sign(t, fay)
	amid()
	afterwards()
	executions := f.ended(t, first)
	require.Greater(t, executions, 1, "the run has continued as new")
	require.Less(t, executions, 2+*flood/100)

	f = a.floods(t, "steady", digest, 3000, zoe.Key, eve, fay, zoe)
	first = f.run.GetRunID()
	each := time.NewTicker(time.Second / 50)
	defer each.Stop()
	for from := range f.clients {
		senders.Go(func() error { return f.send(t.Context(), from, each.C) })
	}
	for i, s := range []stage.Signer{eve, fay} {
		stage.Until(t, "many are sent", func() bool { return f.sent.Load() >= int64(200*(i+1)) })
		f.sign(t, s)()
	}
	f.ended(t, first)
	require.ErrorAs(t, senders.Wait(), new(*serviceerror.NotFound), "they forge until the run has ended")
	require.Equal(t, []string{`{"line":"flooded"}`, `{"line":"steady"}`}, a.written(t))
}

// next waits until people are asked about a run at another barrier.
func (a *acting) next(t *testing.T, run client.WorkflowRun, than ledger.Barrier) (b ledger.Barrier) {
	t.Helper()
	stage.Until(t, "people are asked again", func() bool {
		b = a.asked(t, run, 1)[0]
		return b.ID != than.ID
	})
	return b
}

// sign signs a barrier as each of some people.
func (a *acting) sign(t *testing.T, run client.WorkflowRun, b ledger.Barrier, d approval.Decision, people ...stage.Signer) {
	t.Helper()
	for _, s := range people {
		v := a.update(t, run, s.Sign(t, b, d, nil))
		require.True(t, v.Accepted, v.Detail)
	}
}
