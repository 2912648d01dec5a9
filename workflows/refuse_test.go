package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// TestFormsOfStarts: a run is refused whose form Temporal would repeat, whose tasks have no
// time, or that brings what only a run that continues has.
func TestFormsOfStarts(t *testing.T) {
	ordinary := func() *workflow.Info { return &workflow.Info{WorkflowTaskTimeout: 10 * time.Second} }
	require.Empty(t, refuse(ordinary(), nil, nil))
	continued := ordinary()
	continued.ContinuedExecutionRunID = "before"
	require.Empty(t, refuse(continued, new(plan.Loaded), new(contract.Carried)))
	for want, c := range map[string]struct {
		change  func(*workflow.Info)
		loaded  *plan.Loaded
		carried *contract.Carried
	}{
		"cron schedule":                    {change: func(i *workflow.Info) { i.CronSchedule = "@every 1s" }},
		"retry policy":                     {change: func(i *workflow.Info) { i.RetryPolicy = &temporal.RetryPolicy{MaximumAttempts: 2} }},
		"workflow task timeout of 10ns":    {change: func(i *workflow.Info) { i.WorkflowTaskTimeout = 10 }}, // 10 s were meant
		"never taken from outside":         {loaded: new(plan.Loaded), carried: new(contract.Carried)},
		"state is never taken":             {carried: new(contract.Carried)},
		"compiled plan or a run's state":   {loaded: new(plan.Loaded)},
		"with a plan and a state, or with": {change: func(i *workflow.Info) { i.ContinuedExecutionRunID = "before" }, loaded: new(plan.Loaded)},
	} {
		info := ordinary()
		if c.change != nil {
			c.change(info)
		}
		require.Contains(t, refuse(info, c.loaded, c.carried), want)
	}
}
