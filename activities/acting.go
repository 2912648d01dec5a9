package activities

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// Acting is what the roles that decide on effects and that call them have in common.
// Neither believes who asks: each finds out by itself what the run may do, from the ledger,
// the statements of the admins, and the plan, which it compiles with a catalog and a policy
// of its own.
type Acting struct {
	Plans     Plans
	Values    Values
	Ledger    ActingLedger
	Authority Authority
	// Namespace is the Temporal namespace of the runs.
	Namespace string
	// Bench returns what plans are compiled with, and decided by, now.
	Bench func() Workbench

	// derived caches the digests of plans by those of their sources, and by the edition of
	// what they were compiled with.
	derived recent
}

// ActingLedger is what both roles read of the ledger.
type ActingLedger interface {
	Plan(ctx context.Context, ref string) (ledger.Plan, error)
	GetBlob(ctx context.Context, digest string) ([]byte, error)
	Run(ctx context.Context, workflow, root string) (ledger.Run, error)
	Decision(ctx context.Context, id string) (ledger.Decision, error)
	Invocation(ctx context.Context, id string) (ledger.Invocation, error)
	Consumptions(ctx context.Context, approval string) ([]ledger.Consumption, error)
	Packet(ctx context.Context, digest string) (ledger.Packet, error)
	Barrier(ctx context.Context, id string) (ledger.Barrier, error)
	LastCheck(ctx context.Context, workflow, origin, node string, visit int, barrier string) (ledger.Check, error)
}

// effect is one call of an effect, or one that people review, as a role has found it out.
type effect struct {
	state trust.State
	run   ledger.Run
	// node is that of the call, or one that an effect relies on.
	node *node
	// id is the invocation's.
	id string
	// planInput is the plan's input if the node reads it, and input is what would be sent.
	planInput any
	input     []byte
	// called reports that a call was made, or may have been.
	called bool
	// listed is the definition of the tool in place of pinned, which the plan pins, and from which it
	// differs in its words alone; fingerprint is that of listed. They are empty where the tool is as it
	// is pinned.
	pinned, listed json.RawMessage
	fingerprint    string
}

// effect finds out what a request to decide on a call that needs a permit, or to make it, is
// about.
func (a *Acting) effect(ctx context.Context, call *contract.Call) (*effect, error) {
	e, err := a.subject(ctx, call)
	if err != nil {
		return nil, err
	}
	if !e.node.spec.Guarded() {
		return nil, contract.Errorf(contract.Contract, "node %d of the plan has no effect, and nobody reviews its calls", call.Node)
	}
	e.id = a.invocation(e.state, call, e.node.spec)
	listed := json.RawMessage(call.Listed)
	if listed == nil && e.node.spec.Parts != nil {
		if listed, err = a.listed(ctx, e); err != nil {
			return nil, err
		}
	}
	if err := a.reworded(e, listed); err != nil {
		return nil, err
	}
	e.input, err = e.node.assembleWith(call, e.key())
	return e, err
}

// listed is the definition of the tool, other than the pinned one, with which the call of an effect was
// made, or may have been, by the evidence of its decision; or nil. A run that was reset knows of none.
func (a *Acting) listed(ctx context.Context, e *effect) (json.RawMessage, error) {
	i, err := a.Ledger.Invocation(ctx, e.id)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, refusal(err)
	case i.State != ledger.Calling && i.State != ledger.Unknown && i.State != ledger.Settled:
		return nil, nil
	}
	packet, err := a.packet(ctx, i.DecisionID)
	if errors.Is(err, ledger.ErrNotFound) || errors.Is(err, ledger.ErrGone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	judge, err := a.Bench().Judge()
	if err != nil {
		return nil, contract.Errorf(contract.Blocked, "%w", err)
	}
	listed, err := judge.Listed(packet)
	if err != nil {
		return nil, contract.Errorf(contract.Blocked, "%w", err)
	}
	return listed, nil
}

// reworded takes a definition that the server of a tool is said to list. Whoever says so is not believed:
// it has to differ from the one that the plan pins in its words alone. That one, again, is as if nothing
// was said.
func (a *Acting) reworded(e *effect, listed json.RawMessage) error {
	n := e.node.spec
	if listed == nil {
		return nil
	}
	is, err := fingerprint.Tool(listed)
	switch {
	case err != nil:
		return contract.Errorf(contract.Drift, "what the server of %s lists: %w", n.Activity(), err)
	case is.Digest == n.Fingerprint:
		return nil
	}
	var pinned json.RawMessage
	if bench := a.Bench(); n.ProviderType == plan.MCP && n.Fingerprint != "" && bench.Definition != nil {
		pinned = bench.Definition(n.Activity(), n.Fingerprint)
	}
	if pinned == nil {
		return contract.Errorf(contract.Drift, "%s is not the tool that was approved, and the catalog does not have the definition that the plan pins", n.Activity())
	}
	was, err := fingerprint.Tool(pinned)
	if err != nil || was.Digest != n.Fingerprint || !fingerprint.Reworded(was, is) {
		return contract.Errorf(contract.Drift, "%s is not the tool that was approved, not only in its words: its fingerprint is %s, and %s is pinned", n.Activity(), is.Digest, n.Fingerprint)
	}
	if !reviewable(pinned, listed) {
		return contract.Errorf(contract.Blocked, "%s is not the tool that was approved, and more words differ than people are asked to read", n.Activity())
	}
	e.pinned, e.listed, e.fingerprint = pinned, listed, is.Digest
	return nil
}

// subject finds out about the run and the node of a request, and gives it its values.
func (a *Acting) subject(ctx context.Context, call *contract.Call) (*effect, error) {
	e := new(effect)
	var err error
	if e.state, err = a.Authority.State(ctx); err != nil {
		return nil, distrust(err)
	}
	if e.run, err = a.granted(ctx, e.state, call); err != nil {
		return nil, err
	}
	if e.node, err = a.vouched(ctx, e.state, call); err != nil {
		return nil, err
	}
	if err := a.Values.Give(ctx, call.Run.Workflow, call.Values()...); err != nil {
		return nil, err
	}
	if e.node.spec.ReadsInput || e.node.spec.RoutesOnInput {
		if e.planInput, err = decode(call.Input, "the plan's input"); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// vouched returns the node that a request is about. The plan must be that of its author, and
// what the catalog says of the operation stated.
func (a *Acting) vouched(ctx context.Context, s trust.State, call *contract.Call) (*node, error) {
	bench := a.Bench()
	if err := a.authored(ctx, s, &bench, call.Plan); err != nil {
		return nil, err
	}
	n, err := find(ctx, a.Plans, call.Plan, call.Node)
	if err != nil {
		return nil, err
	}
	if n.spec.Kind != plan.KindCall {
		return nil, contract.Errorf(contract.Contract, "node %d of the plan has no effect", call.Node)
	}
	return n, stated(s, &bench, n.spec)
}

// errUnopened reports a run that the ledger does not have as open. One that was reset it does
// not know until something is written; and what was in flight at the reset is asked in the
// name of the run before, which may have ended.
var errUnopened = contract.Errorf(contract.WorkerLost, "the ledger does not have the run as open")

// running returns the run of a request if it is open.
func (a *Acting) running(ctx context.Context, call *contract.Call) (ledger.Run, error) {
	r, err := a.Ledger.Run(ctx, call.Run.Workflow, call.Run.Root)
	if errors.Is(err, ledger.ErrNotFound) {
		return r, errUnopened
	}
	if err != nil {
		return r, refusal(err)
	}
	switch {
	case r.State != ledger.RunRunning:
		return r, errUnopened
	case r.PlanDigest != call.Plan || r.Origin != call.Run.Origin:
		return r, contract.Errorf(contract.Blocked, "the ledger has another plan or origin of the run")
	}
	return r, nil
}

// granted returns the run if it is open, and was started by somebody who may start it.
func (a *Acting) granted(ctx context.Context, s trust.State, call *contract.Call) (ledger.Run, error) {
	r, err := a.running(ctx, call)
	switch {
	case err != nil:
		return r, err
	case r.GrantDigest == "":
		return r, contract.Errorf(contract.Blocked, "the run was started without a start grant")
	}
	opened := r.OpenedAt
	if r.Origin != r.Root {
		// The grant is as old as the run that this one continues.
		first, err := a.Ledger.Run(ctx, r.Workflow, r.Origin)
		if err != nil {
			return r, refusal(err)
		}
		opened = first.OpenedAt
	}
	_, err = trust.VerifyGrant(s, r.Grant, trust.Grant{
		Namespace: a.Namespace, WorkflowID: r.Workflow, Plan: r.PlanDigest, Input: r.InputDigest, Agent: r.Agent,
	}, opened.Time())
	return r, distrust(err)
}

// authored compiles the published source of a plan, and refuses a plan that is another.
func (a *Acting) authored(ctx context.Context, s trust.State, bench *Workbench, digest string) error {
	p, err := a.Ledger.Plan(ctx, digest)
	if errors.Is(err, ledger.ErrNotFound) {
		return contract.Errorf(contract.Blocked, "the plan is not published, so nobody vouches for its effects")
	}
	if err != nil {
		return refusal(err)
	}
	if err := trust.Authored(s, digest, p); err != nil {
		return distrust(err)
	}
	compiled, ok := a.derived.get(bench.Edition + p.SourceDigest)
	if !ok {
		source, err := a.Ledger.GetBlob(ctx, p.SourceDigest)
		if err != nil {
			return refusal(err)
		}
		if compiled, err = digestOf(bench.Compile, string(source)); err != nil {
			return err
		}
		a.derived.remember(bench.Edition+p.SourceDigest, compiled)
	}
	if compiled != digest {
		return contract.Errorf(contract.Blocked, "the source of %s@%s compiles to another plan here than where it was published: this worker has another catalog or policy",
			excerpt.Bytes(p.Name, 100), excerpt.Bytes(p.Version, 100))
	}
	return nil
}

// stated returns an error unless the admins have stated the policy, and what the catalog
// says of the operation of a node. On a machine of development, one person says both.
func stated(s trust.State, bench *Workbench, n *plan.Node) error {
	if err := activated(s, bench); err != nil {
		return err
	}
	switch {
	case s.Audience == trust.Dev:
		return nil
	case n.Paid() && n.Cost == nil && !n.Relied && !n.Called:
		return nil // the catalog's facts do not count: the plan says what it costs
	case n.InProcess && n.Effect == plan.Pure && n.Cost == nil:
		return nil // it is a part of this program
	}
	err := bench.Stated(s, n)
	if err != nil && !errors.Is(err, trust.ErrInvalid) {
		return contract.Errorf(contract.Blocked, "%w", err)
	}
	return distrust(err)
}

// activated returns an error unless the admins have activated the policy.
func activated(s trust.State, bench *Workbench) error {
	switch {
	case s.Audience == trust.Dev, s.Bundle == bench.Policy && s.Bundle != "":
		return nil
	case s.Bundle == "":
		return contract.Errorf(contract.Blocked, "the admins have activated no policy bundle (bundle.activate)")
	}
	// Until this worker is given the other one, another may have it already.
	return contract.Errorf(contract.WorkerLost, "the admins have activated the policy bundle %s, and this worker has %s", s.Bundle, bench.Policy)
}

// digestOf returns the digest of the plan of a source.
func digestOf(compile Compiler, source string) (digest string, err error) {
	var p *plan.Plan
	err = recovered("the compiler", func() error {
		compiled, ds := compile(source)
		if compiled == nil {
			for _, d := range ds {
				return contract.Errorf(contract.Blocked, "the published plan does not compile here, with this worker's catalog and policy: %s:%d: %s", excerpt.Bytes(d.Subject.File, 200), d.Subject.Start.Line, d.Summary)
			}
			return contract.Errorf(contract.Blocked, "the published plan does not compile here")
		}
		p = compiled
		return nil
	})
	if err != nil {
		return "", err
	}
	raw, err := p.Encode()
	if err != nil {
		return "", err
	}
	return plan.DigestOf(raw), nil
}

// invocation is the id of an effect: the same one in every run that continues the first.
func (a *Acting) invocation(s trust.State, call *contract.Call, n *plan.Node) string {
	return a.invocationAt(s, call.Run.Workflow, call.Run.Origin, path(call, n))
}

// invocationAt is the id of the effect at a path of a run.
func (a *Acting) invocationAt(s trust.State, workflow, origin, path string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "chimera-invocation/1\x00%q\x00%q\x00%q\x00%q\x00%s\x00%d",
		s.Deployment, a.Namespace, workflow, origin, path, epoch))
	return hex.EncodeToString(sum[:])
}

// epoch counts the times that an effect is asked for anew. There is no way yet to ask for
// another than the first.
const epoch = 0

// path is where in the run a node is called: node and visit.
func path(call *contract.Call, n *plan.Node) string {
	return fmt.Sprintf("%s/%d", n.ID, call.Visit)
}

// beside is the path of a node that is called in the same scope as the one of a path.
func beside(at string, n *plan.Node) string {
	return n.ID + at[max(strings.LastIndexByte(at, '/'), 0):]
}

// key is the idempotency key of an effect.
func (e *effect) key() string {
	sum := sha256.Sum256([]byte("chimera-key/1\x00" + e.id))
	return hex.EncodeToString(sum[:16])
}

// call is what a permit of the effect is for.
func (e *effect) call() trust.Call {
	return trust.Call{Operation: e.node.spec.Activity(), Fingerprint: cmp.Or(e.fingerprint, e.node.spec.Fingerprint), Input: e.input}
}

// repeatable reports whether a second call of a node with the same input is the same as one.
func repeatable(n *plan.Node) bool { return !n.Effect.Commits() || n.IdempotencyPort != "" }

// persistPause is the wait between two attempts to reach the store.
const persistPause = 200 * time.Millisecond

// persist asks the store for something that it may be asked for again, until it answers or
// the context ends.
func persist[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	for {
		v, err := ask()
		if !errors.Is(err, ledger.ErrUnavailable) || ctx.Err() != nil {
			return v, err
		}
		timer := time.NewTimer(persistPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return v, err
		case <-timer.C:
		}
	}
}
