package payload_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
)

// asked is a workflow's context that counts how often it is asked for anything:
// who pauses the deadlock detector asks it for the workflow.
type asked struct {
	workflow.Context
	times int
}

func (a *asked) Value(any) any { a.times++; return nil }

// TestOnlyReadingPauses: a local activity writes its result, such as a compiled
// plan, beside the workflow's own goroutine, where the detector must be let be.
func TestOnlyReadingPauses(t *testing.T) {
	plans := payload.NewPlans(open(t), 0)
	digest, err := plans.Put(t.Context(), small())
	require.NoError(t, err)
	one, err := plans.Get(t.Context(), digest)
	require.NoError(t, err)
	ctx := new(asked)
	c := payload.NewConverter(plans, payload.Sealing{}).(workflow.ContextAware).WithWorkflowContext(ctx)
	ctx.times = 0

	loaded := &plan.Loaded{Plan: one, Head: plan.Head{Digest: digest}}
	ps, err := c.ToPayloads(loaded)
	require.NoError(t, err)
	_, err = c.ToPayload(loaded)
	require.NoError(t, err)
	require.Zero(t, ctx.times)

	var text string
	words, err := c.ToPayloads("x")
	require.NoError(t, err)
	require.NoError(t, c.FromPayloads(words, &text))
	require.Zero(t, ctx.times, "what is small is read as usual")

	var back *plan.Loaded
	require.NoError(t, c.FromPayloads(ps, &back))
	require.Same(t, one, back.Plan)
	require.NotZero(t, ctx.times, "a plan may take long to read")
}
