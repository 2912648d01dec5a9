package activities

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// votes verifies the signatures again that were accepted for a request, and returns those
// that count now, each with its envelope.
func (g *Guardian) votes(ctx context.Context, s trust.State, r *approval.Request, digest string, at time.Time) (votes []approval.Vote, of []ledger.Approval, err error) {
	for offset := 0; ; {
		list, err := g.Store.Approvals(ctx, r.Barrier, ledger.Page{Limit: approvalsPage, Offset: offset})
		if err != nil {
			return nil, nil, refusal(err)
		}
		for _, a := range list {
			if !a.Accepted {
				continue
			}
			if v, err := approval.Verify(s, r, digest, a.Envelope, at); err == nil {
				votes, of = append(votes, v), append(of, a)
			}
		}
		if offset += len(list); len(list) < approvalsPage {
			return votes, of, nil
		}
	}
}

// approvalsPage is how many signatures are read at once.
const approvalsPage = 500

// Sign implements the activity guard.sign: it verifies signatures, and says how barriers
// stand.
func (g *Guardian) Sign(ctx context.Context, request contract.SignRequest) (contract.Signed, error) {
	out := contract.Signed{Request: request.Request}
	store, stop := storing(ctx, 0)
	defer stop()
	err := recovered("the guardian", func() error { return g.sign(store, &request, &out) })
	return out, asked{request: request.Request, retry: journaling}.failed(ctx, err)
}

func (g *Guardian) sign(ctx context.Context, request *contract.SignRequest, out *contract.Signed) error {
	s, err := g.Authority.State(ctx)
	if err != nil {
		return distrust(err)
	}
	run, err := g.Ledger.Run(ctx, request.Run.Workflow, request.Run.Root)
	if errors.Is(err, ledger.ErrNotFound) {
		out.Unopened = true
		return nil
	}
	if err != nil {
		return refusal(err)
	}
	if len(request.Envelopes) > contract.MaxSignatures {
		return contract.Errorf(contract.TooLarge, "%d signatures in one request, more than %d", len(request.Envelopes), contract.MaxSignatures)
	}
	if len(request.Envelopes) > 0 && run.State != ledger.RunRunning {
		out.Unopened = true // as for errUnopened: the ledger takes nothing more about this one
		return nil
	}
	for _, envelope := range request.Envelopes {
		v, err := g.receive(ctx, s, &run, envelope)
		if err != nil {
			return err
		}
		out.Verdicts = append(out.Verdicts, v)
	}
	for _, id := range request.Barriers {
		b, err := g.Store.Barrier(ctx, id)
		if errors.Is(err, ledger.ErrNotFound) {
			// Whom the run is about was erased, with what people were asked.
			out.Barriers = append(out.Barriers, contract.Barrier{ID: id, State: contract.BarrierWithdrawn, Reason: "the ledger does not have it any more"})
			continue
		}
		if err != nil {
			return refusal(err)
		}
		if b.Workflow != run.Workflow {
			return contract.Errorf(contract.Blocked, "the barrier %.120q is of another run", id)
		}
		if request.Withdraw != "" && !b.State.Closed() {
			if b, err = g.Store.CloseBarrier(ctx, id, ledger.BarrierWithdrawn, request.Withdraw); err != nil {
				return refusal(err)
			}
		}
		stands, err := g.stands(ctx, s, b, time.Now())
		if err != nil {
			return err
		}
		out.Barriers = append(out.Barriers, stands)
	}
	for i := range out.Verdicts {
		v := &out.Verdicts[i]
		for _, b := range out.Barriers {
			if b.ID == v.Barrier {
				v.State, v.Missing = b.State, b.Missing
			}
		}
	}
	return nil
}

// receive verifies a signature that has arrived for a run, and records it.
func (g *Guardian) receive(ctx context.Context, s trust.State, run *ledger.Run, envelope json.RawMessage) (contract.Verdict, error) {
	p, err := approval.Peek(envelope)
	barrier := p.Barrier
	var b ledger.Barrier
	if err == nil {
		b, err = g.Store.Barrier(ctx, barrier)
		switch {
		case errors.Is(err, ledger.ErrNotFound), err == nil && (b.Workflow != run.Workflow || !strings.HasPrefix(b.ID, g.barrierID(s, run, b.Name)+"/")):
			err = &approval.Refusal{Code: approval.Foreign, Detail: "this run has no such barrier"}
			barrier = ""
		case err != nil:
			return contract.Verdict{}, refusal(err)
		}
	}
	if err == nil {
		// Who asks may leave out to ask how the barrier stands.
		b, err = g.followUp(ctx, s, b)
	}
	var vote approval.Vote
	if err == nil {
		vote, err = g.verify(ctx, s, &b, envelope)
	}
	refused := approval.Refused(err)
	if err != nil && refused == nil {
		return contract.Verdict{}, err
	}
	out := contract.Verdict{Accepted: refused == nil, Barrier: barrier}
	record := ledger.Approval{ID: vote.ID, Barrier: barrier, Signer: vote.Signer, Accepted: true, Actions: p.Actions, Envelope: envelope}
	if refused != nil {
		out.Code, out.Detail = string(refused.Code), refused.Detail
		if record.Barrier == "" {
			record.Barrier = "none/" + run.Origin
		}
		record.ID, record.Accepted, record.Reason = "refused/"+approval.ID(append(slices.Clone(envelope), record.Barrier...)), false, refused.Error()
		// What it says of itself is not worth repeating.
		record.Signer, record.Actions, record.Envelope = "", []string{}, nil
		if record.Envelope, err = json.Marshal(map[string]string{"digest": approval.ID(envelope)}); err != nil {
			return out, err
		}
	}
	if vote.ID != "" && refused == nil {
		out.Barrier = b.ID
	}
	err = g.Store.RecordApproval(ctx, *run, record)
	switch {
	case errors.Is(err, ledger.ErrConflict):
		err = nil // it was recorded before
	case errors.Is(err, ledger.ErrGone):
		return contract.Verdict{Barrier: barrier, Code: string(approval.Late), Detail: "whom the run is about was erased"}, nil
	}
	return out, refusal(err)
}

// verify verifies a signature that arrives at a barrier.
func (g *Guardian) verify(ctx context.Context, s trust.State, b *ledger.Barrier, envelope []byte) (approval.Vote, error) {
	r, digest, err := approval.Of(b)
	if err != nil {
		return approval.Vote{}, contract.Errorf(contract.Blocked, "%w", err)
	}
	at := approval.ValidAt(b.State, time.Now())
	v, err := approval.Verify(s, r, digest, envelope, at)
	if err != nil {
		return v, err
	}
	votes, _, err := g.votes(ctx, s, r, digest, at)
	if err != nil {
		return v, err
	}
	return v, v.Arrives(b.State, votes)
}
