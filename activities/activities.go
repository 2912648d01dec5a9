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

	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// Plans stores compiled plans by digest.
type Plans interface {
	// Put stores a plan durably and returns its digest.
	Put(ctx context.Context, p *plan.Plan) (digest string, err error)
	// Get returns the plan with a digest. The plan is shared and must not be
	// changed.
	Get(ctx context.Context, digest string) (*plan.Plan, error)
	// Check reports why the store of large values cannot be written to.
	Check(ctx context.Context) error
	// Prepared returns what prepare made of the plan with a digest. It calls
	// prepare once for as long as the plan is cached. The result reports
	// through grow how many bytes of memory it holds.
	Prepared(ctx context.Context, digest string, prepare func(p *plan.Plan, grow func(bytes int)) any) (any, error)
}

// Caller calls the operation of a node. An error whose kind is known is a
// *[contract.Error].
type Caller interface {
	Call(ctx context.Context, r Request) (Answer, error)
}

// Request is what to call.
type Request struct {
	Node *plan.Node
	// Input is valid by the node's input schema.
	Input json.RawMessage
	// Agent is the agent of the plan, for which the call is made.
	Agent string
	// Run is the origin of the run, which a run has in common with all that continue it: after a
	// reset or as new.
	Run string
	// Wanted ends when nobody wants the call any more. It is not made then, as of kind unsent, if nothing of
	// it was sent; otherwise it goes on, since it may have an effect. Nil: it is wanted.
	Wanted context.Context
	// Fingerprint is that of the MCP tool which people have approved in place of the one that the node
	// pins, and which differs from that in its words alone; or "".
	Fingerprint string
}

// Answer is what an operation has answered.
type Answer struct {
	// Forms are those that the output may take, best first: the first that matches the
	// node's output schema is the output.
	Forms []json.RawMessage
	// Snapshots are those of a call of a pinned MCP tool, or nil. An error has its own.
	Snapshots *contract.Snapshots
}

// Ledger stores published plans and the statements of runs. It is a part of
// [ledger.Store], with the same meaning and errors.
type Ledger interface {
	Plan(ctx context.Context, ref string) (ledger.Plan, error)
	GetBlob(ctx context.Context, digest string) ([]byte, error)
	Run(ctx context.Context, workflow, root string) (ledger.Run, error)
	OpenRun(ctx context.Context, r ledger.Run) error
	RecordOutcomes(ctx context.Context, workflow, root string, outcomes []ledger.Outcome) error
	RecordOrder(ctx context.Context, workflow, root string, o ledger.Order) error
	CloseRun(ctx context.Context, r ledger.Run, last []ledger.Outcome) (have ledger.Run, stood bool, err error)
	Outcomes(ctx context.Context, workflow, root string, page ledger.Page) ([]ledger.Outcome, error)
}

// Authority returns what the admins of the deployment have stated, verified from
// its bootstrap on. The error [trust.ErrInvalid] means that the statements do not
// verify.
type Authority interface {
	State(ctx context.Context) (trust.State, error)
}

// Compiler compiles the text of a plan file with the worker's own catalog and
// policy.
type Compiler func(source string) (*plan.Plan, diag.Diagnostics)

// Workbench holds what plans are compiled with.
type Workbench struct {
	Compile Compiler
	// Policy is the digest of the operator's bundle that Compile applies, or
	// "".
	Policy string
	// Catalog is the digest of the catalog that Compile applies, or "" if it has none.
	Catalog string
	// Edition distinguishes it from others in the same process.
	Edition string
	// Away is why the store could not be asked for what to compile with, or nil. A start is loaded again
	// then.
	Away error
	// Stated returns an error, perhaps [trust.ErrInvalid], unless the admins have stated
	// what the catalog says of a node's operation, and that it may be called: without a review,
	// unless each call is reviewed.
	Stated func(s trust.State, n *plan.Node) error
	// Definition returns the definition that the catalog has of an MCP tool, if it has that fingerprint,
	// or nil.
	Definition func(operation, fingerprint string) json.RawMessage
	// Judge returns what decides on effects by the bundle, for the role guardian.
	Judge func() (Judge, error)
}

// Engine implements the activities of the engine role.
type Engine struct {
	Compile Compiler
	// Renew, if not nil, returns what to compile each start with, in place of
	// Compile, Policy and Catalog.
	Renew func() Workbench
	Plans Plans
	// Skills calls in-process skills, and nothing else.
	Skills Caller
	// Tools calls MCP servers and executables if this process also has that
	// role, and is nil if not. ToolsQueue is the queue on which runs loaded
	// here request such calls; "" means contract.QueueTools.
	Tools      Caller
	ToolsQueue string
	Ledger     Ledger
	// Children looks up child workflows.
	Children Children
	// Values stores the large values of runs, and Outputs their outputs until
	// their workflows have received them.
	Values  Values
	Outputs Outputs
	// Authority says who may publish plans and start runs for an agent. If it
	// is nil, published plans are not verified, and start grants are refused.
	Authority Authority
	// Namespace is the Temporal namespace that start grants are for.
	Namespace string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Policy is the digest of the operator's bundle that Compile applies, or
	// "".
	Policy string
	// Catalog is the digest of the catalog that Compile applies, or "" if it has none.
	Catalog string
	// Attributes are the search attributes that the server knows.
	Attributes []string
	// ContinueAfter is the number of history events after which a run
	// continues as new; 0 means [DefaultContinueAfter].
	ContinueAfter int
	// CompileWithin is how long a start waits for the compiler; 0 means
	// [DefaultCompileWithin].
	CompileWithin time.Duration
	// Named returns the name, version and agent that a source states, without
	// compiling it. It may be nil.
	Named func(source string) (name, version, agent string)
	// Arguments reads starts that are stored by reference. ArgumentWithin is
	// how long it waits for an unavailable store; 0 means
	// [DefaultArgumentWithin].
	Arguments      Arguments
	ArgumentWithin time.Duration

	// sources caches the plan digests of sources that this process has
	// compiled. Compilation is pure, so one [Workbench] always makes the same
	// plan of a source.
	sources      recent
	compilations compilations
	// outputs caches the stored form of outputs. Without it, each attempt to
	// end a run while the ledger is unavailable would store another copy of a
	// sealed output.
	outputs recent
}

// Tools implements the activities of the role that calls tools: every activity type
// that is a node's "provider/operation".
type Tools struct {
	Plans  Plans
	Values Values
	Caller Caller
}

// DefaultContinueAfter is the soft bound of a history, in events: beyond it a run
// continues as new as soon as little is in flight. The hard bound, five times as
// large, is still far below Temporal's limit of 51,200 events.
const DefaultContinueAfter = 4_000
