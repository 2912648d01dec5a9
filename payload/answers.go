package payload

import (
	"context"
	"sync/atomic"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// keyAt is the id of the key with which requests are sealed at this point of
// workflow code, or "".
func keyAt(ctx workflow.Context) string {
	if ctx == nil {
		return ""
	}
	id, _ := ctx.Value(contract.SealedWith{}).(string)
	return id
}

// sealsWith is the id of the key with which a value is sealed here.
func (c sealer) sealsWith(value any) string {
	if report, ok := value.(contract.Report); ok && report.SealedWith != "" {
		return report.SealedWith // a workflow's result is written outside its context
	}
	if c.key != "" {
		return c.key
	}
	if id := c.asked.sealedWith(); id != "" {
		return id
	}
	return c.sealing.Keys.first
}

// answers refuses, in a workflow, what is sealed with another key than the request
// that it answers. It does so whether this process has the other key or not: that
// may change, and what a run has once refused it must refuse in every replay. A
// local activity's answer is from the workflow's own worker.
func (c sealer) answers(p *commonpb.Payload) error {
	if !c.blocks || c.key == "" || c.scope.place != placeActivity || c.scope.local || keyOf(p) == c.key {
		return nil
	}
	return refusal("it is sealed with the key %.64q, and what was asked with %.64q (%s)", keyOf(p), c.key, c.scope)
}

// named sets the key with which a value was sealed, in a value whose reader has to
// know, and in the context of an activity for its request.
func (c sealer) named(id string, target any) {
	switch t := target.(type) {
	case **plan.Loaded:
		if *t != nil {
			(*t).SealedWith = id
		}
	case *contract.ChildCall:
		t.SealedWith = id
	case *contract.Report:
		t.SealedWith = id
	case *contract.Beat:
		t.SealedWith = id
	}
	if c.asked != nil && sortOf(target) == sortRequest {
		c.asked.id.Store(&id)
	}
}

// asked is the key of an activity's request.
type asked struct{ id atomic.Pointer[string] }

func (a *asked) sealedWith() string {
	if a == nil {
		return ""
	}
	if id := a.id.Load(); id != nil {
		return *id
	}
	return ""
}

type askedKey struct{}

func askedOf(ctx context.Context) *asked {
	if ctx == nil {
		return nil
	}
	a, _ := ctx.Value(askedKey{}).(*asked)
	return a
}

// Asking belongs among the context propagators of a worker's client, and
// [Answering] among the interceptors of its activity workers. With both, an
// activity answers, fails and reports with the payload key of its request.
type Asking struct{}

var _ workflow.ContextPropagator = Asking{}

// Inject implements the SDK's interface.
func (Asking) Inject(context.Context, workflow.HeaderWriter) error { return nil }

// InjectFromWorkflow implements the SDK's interface.
func (Asking) InjectFromWorkflow(workflow.Context, workflow.HeaderWriter) error { return nil }

// Extract implements the SDK's interface.
func (Asking) Extract(ctx context.Context, _ workflow.HeaderReader) (context.Context, error) {
	return context.WithValue(ctx, askedKey{}, new(asked)), nil
}

// ExtractToWorkflow implements the SDK's interface.
func (Asking) ExtractToWorkflow(ctx workflow.Context, _ workflow.HeaderReader) (workflow.Context, error) {
	return ctx, nil
}

// Answering is the other half of [Asking]: it tells the failure converter the key.
type Answering struct {
	interceptor.WorkerInterceptorBase
}

// InterceptActivity implements the SDK's interface.
func (*Answering) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &answering{interceptor.ActivityInboundInterceptorBase{Next: next}}
}

type answering struct {
	interceptor.ActivityInboundInterceptorBase
}

func (a *answering) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	result, err := a.Next.ExecuteActivity(ctx, in)
	if id := askedOf(ctx).sealedWith(); err != nil && id != "" {
		err = &answerError{err, id}
	}
	return result, err
}

// answerError is an activity's failure, with the key to seal it with.
type answerError struct {
	error
	key string
}

func (e *answerError) Unwrap() error { return e.error }
