// Package review is what approvers see: the barriers at which people are asked, read from
// the ledger, with the text that they are shown, which is computed anew here and has to be
// the one that the guardian has asked them to sign.
//
// Nothing of what the ledger says is believed by itself. The plan has its author's
// signature, the run its start grant, the actions their digests, and the text follows from
// them: so a ledger, a page or a server that shows something else is noticed before anybody
// signs.
package review

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/internal/strict"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// ErrDiffers reports that what people are asked to sign is not what the ledger shows.
var ErrDiffers = errors.New("what is to be signed is not what the ledger shows")

// Ledger is what a review reads.
type Ledger interface {
	Barrier(ctx context.Context, id string) (ledger.Barrier, error)
	ListBarriers(ctx context.Context, state ledger.BarrierState, page ledger.Page) ([]ledger.Barrier, error)
	Accepted(ctx context.Context, barriers []string, page ledger.Page) ([]ledger.Approval, error)
	Run(ctx context.Context, workflow, root string) (ledger.Run, error)
	Plan(ctx context.Context, ref string) (ledger.Plan, error)
	Decision(ctx context.Context, id string) (ledger.Decision, error)
	Packet(ctx context.Context, digest string) (ledger.Packet, error)
}

// Reader reads barriers.
type Reader struct {
	Ledger Ledger
	// Blobs has the compiled plans, by their digests.
	Blobs interface {
		Get(ctx context.Context, digest string) ([]byte, error)
	}
	// State is what the admins have stated.
	State trust.State
	// Namespace is the Temporal namespace of the runs.
	Namespace string
}

// Open is a barrier at which people are asked for approval, or what a call did; or were.
type Open struct {
	Barrier ledger.Barrier
	Request *approval.Request
	// Digest is that of the request.
	Digest string
	// Votes are the signatures that count now, and Tally what they amount to.
	Votes []approval.Vote
	Tally approval.Tally
}

// List lists barriers of a state, those that expire first at first.
func (r *Reader) List(ctx context.Context, state ledger.BarrierState, page ledger.Page) ([]Open, error) {
	list, err := r.Ledger.ListBarriers(ctx, state, page)
	if err != nil {
		return nil, err
	}
	return r.open(ctx, list...)
}

// Find returns the barrier of an id, or the one of a workflow at which people are asked. If
// there are several of a workflow, the error names them.
func (r *Reader) Find(ctx context.Context, what string) (Open, error) {
	b, err := r.Ledger.Barrier(ctx, what)
	if err == nil {
		return r.one(ctx, b)
	}
	if !errors.Is(err, ledger.ErrNotFound) {
		return Open{}, err
	}
	var of []ledger.Barrier
	for offset := 0; ; {
		list, err := r.Ledger.ListBarriers(ctx, ledger.BarrierOpen, ledger.Page{Limit: page, Offset: offset})
		if err != nil {
			return Open{}, err
		}
		for _, b := range list {
			if b.Workflow == what {
				of = append(of, b)
			}
		}
		if offset += len(list); len(list) < page {
			break
		}
	}
	switch len(of) {
	case 0:
		return Open{}, fmt.Errorf("nothing waits for approval under %.120q: %w", what, ledger.ErrNotFound)
	case 1:
		return r.one(ctx, of[0])
	}
	several := &SeveralError{Workflow: what}
	for _, b := range of {
		several.Barriers = append(several.Barriers, b.ID)
	}
	return Open{}, several
}

const page = 1000

// SeveralError reports that a run waits at several barriers.
type SeveralError struct {
	Workflow string
	Barriers []string
}

// Error names the run.
func (e *SeveralError) Error() string {
	return fmt.Sprintf("the run %s waits at %d barriers", e.Workflow, len(e.Barriers))
}

func (r *Reader) one(ctx context.Context, b ledger.Barrier) (Open, error) {
	list, err := r.open(ctx, b)
	if err != nil {
		return Open{}, err
	}
	return list[0], nil
}

// open verifies and counts the signatures of barriers, which it reads together.
func (r *Reader) open(ctx context.Context, list ...ledger.Barrier) ([]Open, error) {
	signed, err := r.accepted(ctx, list)
	if err != nil {
		return nil, err
	}
	var out []Open
	for _, b := range list {
		o := Open{Barrier: b}
		if o.Request, o.Digest, err = approval.Of(&b); err != nil {
			return nil, fmt.Errorf("barrier %s: %w", b.ID, err)
		}
		at := time.Time{} // what is closed has counted
		if !b.State.Closed() {
			at = time.Now()
		}
		for _, a := range signed[b.ID] {
			if v, err := approval.Verify(r.State, o.Request, o.Digest, a.Envelope, at); err == nil {
				o.Votes = append(o.Votes, v)
			}
		}
		o.Tally = o.Request.Count(o.Votes)
		out = append(out, o)
	}
	return out, nil
}

// accepted reads the signatures that were accepted for barriers, by barrier. It asks the
// store for those of all barriers at once.
func (r *Reader) accepted(ctx context.Context, of []ledger.Barrier) (map[string][]ledger.Approval, error) {
	if len(of) == 0 {
		return nil, nil
	}
	var ids []string
	for _, b := range of {
		ids = append(ids, b.ID)
	}
	signed := map[string][]ledger.Approval{}
	for offset := 0; ; {
		list, err := r.Ledger.Accepted(ctx, ids, ledger.Page{Limit: page, Offset: offset})
		if err != nil {
			return nil, err
		}
		for _, a := range list {
			signed[a.Barrier] = append(signed[a.Barrier], a)
		}
		if offset += len(list); len(list) < page {
			return signed, nil
		}
	}
}

// Waits reports whether a further signature of a signer brings the barrier nearer to its end:
// see [Open.Role]. Whoever has no such role may sign for somebody else: then by is the signer of
// whom one of the delegations, which are envelopes, says that.
func (o *Open) Waits(s trust.State, signer string, delegations ...[]byte) (by string, ok bool) {
	if _, _, ok := o.Role(s, signer, nil); ok {
		return "", true
	}
	for _, d := range delegations {
		if _, by, ok := o.Role(s, signer, d); ok {
			return by, true
		}
	}
	return "", false
}

// Role returns a role in which a further signature of a signer brings the barrier nearer to its
// end, one of those that are missing if there is any: a role of the signer or, with the envelope
// of a delegation, of the signer by whom it is. The person may have signed in another role: see
// [approval.Request.Helps].
func (o *Open) Role(s trust.State, signer string, delegation []byte) (role, by string, ok bool) {
	v, known := s.Signers[signer]
	now := time.Now()
	if !known || v.Revoked != nil || !now.Before(v.NotAfter.Time()) || o.Barrier.State.Closed() || o.Request.Rule.Excludes(v.Person) {
		return "", "", false
	}
	missing := func(g plan.Group) bool {
		return slices.ContainsFunc(o.Tally.Missing, func(m plan.Group) bool { return m.Role == g.Role })
	}
	for _, g := range slices.Concat(o.Tally.Missing, slices.DeleteFunc(slices.Clone(o.Request.Asked()), missing)) {
		if !o.Request.Helps(o.Votes, g.Role, v.Person) {
			continue
		}
		if len(delegation) == 0 {
			if v.Has(g.Role) {
				return g.Role, "", true
			}
			continue
		}
		by, from, err := approval.Delegator(s, o.Request, delegation, signer, g.Role, now, now)
		if err == nil && !o.Request.Rule.Excludes(from.Person) && o.Request.Helps(o.Votes, g.Role, v.Person, from.Person) {
			return g.Role, by, true
		}
	}
	return "", "", false
}

// Text computes what people are shown, and returns [ErrDiffers] unless that is what they are
// asked to sign.
func (r *Reader) Text(ctx context.Context, o *Open) (string, error) {
	q := o.Request
	if q.Deployment != r.State.Deployment || q.Audience != r.State.Audience || q.Namespace != r.Namespace || q.Barrier != o.Barrier.ID || q.Workflow != o.Barrier.Workflow {
		return "", fmt.Errorf("%w: it is for another deployment, namespace, run or barrier", ErrDiffers)
	}
	p, err := r.plan(ctx, q)
	if err != nil {
		return "", err
	}
	if err := r.run(ctx, o); err != nil {
		return "", err
	}
	if len(q.Actions) != len(o.Barrier.Actions) || (q.Kind == approval.Outcome) != o.Barrier.Outcome {
		return "", fmt.Errorf("%w: it has other actions, or asks something else", ErrDiffers)
	}
	var shown []approval.Shown
	for i, a := range q.Actions {
		w, err := r.action(ctx, q.Kind, a, o.Barrier.Actions[i])
		if err != nil {
			return "", err
		}
		at := slices.IndexFunc(p.Nodes, func(n plan.Node) bool { return n.ID == a.Node })
		if at < 0 || w.Action.Plan != q.Plan || w.Action.Run.Workflow != q.Workflow || w.Action.Run.Origin != q.Origin || w.Action.Agent != q.Agent {
			return "", fmt.Errorf("%w: the action of %.120q is of another run", ErrDiffers, a.Node)
		}
		if err := q.Rule.AtLeast(w.Rule); err != nil {
			return "", fmt.Errorf("%w: %w", ErrDiffers, err)
		}
		if !undoes(p, at, a.Undo) || !slices.Equal(a.UndoneBy(), o.Barrier.Actions[i].Undo) {
			return "", fmt.Errorf("%w: the plan does not say that what it lists undoes %.120q", ErrDiffers, a.Node)
		}
		w.Shown.Of(p, at)
		shown = append(shown, w.Shown)
	}
	text, digest, err := approval.Text(q, shown)
	if err != nil {
		return "", err
	}
	if digest != q.Text || q.Renderer != approval.Renderer {
		return "", fmt.Errorf("%w: the text has the digest %s, and %s (version %d) is to be signed", ErrDiffers, digest, q.Text, q.Renderer)
	}
	return text, nil
}

// plan returns the compiled plan of a request, which its author has signed.
func (r *Reader) plan(ctx context.Context, q *approval.Request) (*plan.Plan, error) {
	published, err := r.Ledger.Plan(ctx, q.Plan)
	if err != nil {
		return nil, err
	}
	if err := trust.Authored(r.State, q.Plan, published); err != nil {
		return nil, err
	}
	if name := published.Name + "@" + published.Version; name != q.PlanName {
		return nil, fmt.Errorf("%w: the plan is %s, not %.120q", ErrDiffers, name, q.PlanName)
	}
	raw, err := r.Blobs.Get(ctx, q.Plan)
	if err != nil {
		return nil, fmt.Errorf("read the plan %s: %w", q.PlanName, err)
	}
	if plan.DigestOf(raw) != q.Plan {
		return nil, fmt.Errorf("%w: the stored plan is another", ErrDiffers)
	}
	return plan.Decode(raw)
}

// run checks who has started the run.
func (r *Reader) run(ctx context.Context, o *Open) error {
	q := o.Request
	run, err := r.Ledger.Run(ctx, o.Barrier.Workflow, o.Barrier.Root)
	if err != nil {
		return err
	}
	opened := run.OpenedAt
	if run.Origin != run.Root {
		first, err := r.Ledger.Run(ctx, run.Workflow, run.Origin)
		if err != nil {
			return err
		}
		opened = first.OpenedAt
	}
	g, err := trust.VerifyGrant(r.State, run.Grant, trust.Grant{
		Namespace: r.Namespace, WorkflowID: run.Workflow, Plan: run.PlanDigest, Input: run.InputDigest, Agent: run.Agent,
	}, opened.Time())
	if err != nil {
		return err
	}
	if g.Requester != q.Requester || g.Agent != q.Agent || run.PlanDigest != q.Plan || run.Origin != q.Origin {
		return fmt.Errorf("%w: the run has another plan, requester or agent", ErrDiffers)
	}
	return nil
}

// action reads an action from the evidence of its decision: one that waits, or one whose call
// was permitted.
func (r *Reader) action(ctx context.Context, kind approval.Kind, a approval.Action, of ledger.Awaited) (*guardian.Waiting, error) {
	d, err := r.Ledger.Decision(ctx, of.Decision)
	if err != nil {
		return nil, err
	}
	packet, err := r.Ledger.Packet(ctx, d.Evidence)
	if err != nil {
		return nil, err
	}
	read := guardian.ReadWaiting
	if kind == approval.Outcome {
		read = guardian.ReadPermitted
	}
	w, err := read(packet)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDiffers, err)
	}
	want := w.Asked
	want.Undo = a.Undo // that is held against the plan
	if kind == approval.Outcome {
		want.Permitted = d.DecidedAt
	}
	want.Invocation, want.Decision, want.Evidence, want.Hold = of.Invocation, of.Decision, d.Evidence, a.Hold
	if want.Action != of.Action || d.ActionDigest != of.Action || !same(want, a) {
		return nil, fmt.Errorf("%w: the decision %.120q is about another action", ErrDiffers, of.Decision)
	}
	return w, nil
}

// undoes reports whether, by the plan, effects undo that of a node and are approved with it.
func undoes(p *plan.Plan, at int, by []approval.Undo) bool {
	return !slices.ContainsFunc(by, func(u approval.Undo) bool {
		i := slices.IndexFunc(p.Nodes, func(n plan.Node) bool { return n.ID == u.Node })
		return i < 0 || p.Nodes[i].Undoes != at || p.Nodes[i].Activity() != u.Operation || !p.Covered(i)
	})
}

func same(a, b approval.Action) bool {
	lifts := slices.Equal(a.Lifts, b.Lifts)
	a.Lifts, b.Lifts = nil, nil
	return lifts && a.Node == b.Node && a.Path == b.Path && a.Operation == b.Operation && a.Effect == b.Effect && a.Invocation == b.Invocation &&
		a.Action == b.Action && a.Amount == b.Amount && a.Currency == b.Currency && a.Decision == b.Decision && a.Policy == b.Policy &&
		a.Evidence == b.Evidence && a.Hold == b.Hold && a.Permitted.Time().Equal(b.Permitted.Time())
}

// Forecasts are what causal models predict of the actions that are asked about, in their order: nil where
// there is no model. They are those of the evidence that people sign.
func (r *Reader) Forecasts(ctx context.Context, o *Open) ([]*causal.Prediction, error) {
	out := make([]*causal.Prediction, len(o.Request.Actions))
	for i, a := range o.Request.Actions {
		packet, err := r.Ledger.Packet(ctx, a.Evidence)
		if err != nil {
			return nil, err
		}
		for _, part := range packet.Parts {
			if part.Name != "decision" {
				continue
			}
			record := new(guardian.Record)
			if err := strict.Decode(part.Data, record); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrDiffers, err)
			}
			if record.Simulation != nil {
				out[i] = record.Simulation.Prediction
			}
		}
	}
	return out, nil
}
