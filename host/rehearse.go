package host

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"
)

// Registrar takes what the worker of one queue runs.
type Registrar interface {
	RegisterWorkflowWithOptions(w any, o workflow.RegisterOptions)
	RegisterActivityWithOptions(a any, o activity.RegisterOptions)
	RegisterDynamicActivity(a any, o activity.DynamicRegisterOptions)
}

// Rehearse is like [New] for a host that needs no Temporal server: what the worker of a queue
// would run goes to the registrar of that queue, for Temporal's test environment, and c
// answers for the runs there. The host's log is sequenced, but the ledger is not told of
// ends that only Temporal knows.
func Rehearse(ctx context.Context, c client.Client, registrar func(queue string) Registrar, o Options) (*Host, error) {
	return build(ctx, o, c, registrar)
}
