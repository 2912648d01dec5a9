// Package activities is what the interpreter asks for: loading a plan, running
// a node, choosing error edges, writing the journal, closing a run, and asking
// about a child workflow.
//
// All evaluation happens here: schemas validate each input and output,
// expressions fill ports and choose edges. What an activity calls stands behind
// the small interfaces that this package declares; whoever composes a worker
// provides them.
package activities

import (
	"context"
	"encoding/json"
	"time"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// Plans keeps compiled plans by digest.
type Plans interface {
	// Put stores a plan durably and returns its digest.
	Put(ctx context.Context, p *plan.Plan) (digest string, err error)
	// Get returns the plan of a digest. The plan is shared: nobody changes it.
	Get(ctx context.Context, digest string) (*plan.Plan, error)
	// Check reports why the store of large values cannot be written to.
	Check(ctx context.Context) error
	// Prepared returns what prepare makes of the plan of a digest, once for as long
	// as the plan is cached. What prepare makes says by grow how many bytes of
	// memory it has come to hold.
	Prepared(ctx context.Context, digest string, prepare func(p *plan.Plan, grow func(bytes int)) any) (any, error)
}

// Caller calls the operation of a node. It returns the forms that the output
// may take, best first: the first that matches the node's output schema is the
// output. An error is a *[contract.Error] where its kind is known.
type Caller interface {
	Call(ctx context.Context, n *plan.Node, input json.RawMessage) ([]json.RawMessage, error)
}

// Ledger keeps published plans, and what runs state. It is a part of
// [ledger.Store], with the same meaning and the same errors.
type Ledger interface {
	Plan(ctx context.Context, ref string) (ledger.Plan, error)
	GetBlob(ctx context.Context, digest string) ([]byte, error)
	Run(ctx context.Context, workflow, root string) (ledger.Run, error)
	OpenRun(ctx context.Context, r ledger.Run) error
	RecordOutcomes(ctx context.Context, workflow, root string, outcomes []ledger.Outcome) error
	CloseRun(ctx context.Context, r ledger.Run, last []ledger.Outcome) (have ledger.Run, stood bool, err error)
	Outcomes(ctx context.Context, workflow, root string, page ledger.Page) ([]ledger.Outcome, error)
}

// Authority is what the admins of the deployment have stated, verified from its
// bootstrap on. An error that is [trust.ErrInvalid] says that the statements do not
// hold.
type Authority interface {
	State(ctx context.Context) (trust.State, error)
}

// Compiler compiles the text of a plan file with the worker's own catalog and
// policy.
type Compiler func(source string) (*plan.Plan, diag.Diagnostics)

// Workbench is what plans are compiled with.
type Workbench struct {
	Compile Compiler
	// Policy is the digest of the operator's bundle that Compile goes by, or "".
	Policy string
	// Edition tells it from others of the same process.
	Edition string
}

// Engine is the activities of the engine role.
type Engine struct {
	Compile Compiler
	// Renew, where it is not nil, gives for each start what to compile with, in place
	// of Compile and Policy.
	Renew func() Workbench
	Plans Plans
	// Skills calls in-process skills, and nothing else.
	Skills Caller
	// Tools calls MCP servers and executables, where this process has that role
	// too; nil means that it has not. ToolsQueue is where runs ask for such calls,
	// for those that are loaded here; "" means contract.QueueTools.
	Tools      Caller
	ToolsQueue string
	Ledger     Ledger
	// Children knows child workflows.
	Children Children
	// Values keeps the large values of runs, and Outputs what they came to until their
	// workflows have it.
	Values  Values
	Outputs Outputs
	// Authority says who may publish plans, and start runs for an agent. Where it is
	// nil nobody vouches for what is published, and no start grant is taken.
	Authority Authority
	// Namespace is the Temporal namespace that start grants are for.
	Namespace string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Policy is the digest of the operator's bundle that Compile goes by, or "".
	Policy string
	// Attributes are the search attributes that the server knows.
	Attributes []string
	// ContinueAfter is the number of history events after which a run
	// continues as new; 0 means [DefaultContinueAfter].
	ContinueAfter int
	// CompileWithin is how long a start waits for the compiler; 0 means
	// [DefaultCompileWithin].
	CompileWithin time.Duration
	// Named gives what a source says of its plan's name, version and agent, without
	// compiling it; nil knows nothing.
	Named func(source string) (name, version, agent string)
	// Arguments reads starts that are stored by reference. ArgumentWithin is how long
	// a store may be away for that; 0 means [DefaultArgumentWithin].
	Arguments      Arguments
	ArgumentWithin time.Duration

	// sources has the plan digests of sources that this process has compiled.
	// Compilation is pure, so the same source gives the same plan of one [Workbench].
	sources      recent
	compilations compilations
	// outputs has the form in which outputs of runs are kept: where the ledger is away,
	// each try to end the run would store another copy of a sealed one.
	outputs recent
}

// Tools is the activities of a role that calls tools: every activity type that
// is a node's "provider/operation".
type Tools struct {
	Plans  Plans
	Values Values
	Caller Caller
}

// DefaultContinueAfter is the soft bound of a history, in events: from there on a run
// continues as new as soon as little is in flight. The hard one, five times as long,
// is still far below Temporal's limit of 51,200 events.
const DefaultContinueAfter = 4_000
