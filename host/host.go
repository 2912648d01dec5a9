// Package host puts the roles of Chimera's worker into one process: Temporal
// workers, the compiler with its catalog, skills, MCP servers and the store.
//
// chimera-worker and chimera dev are thin programs around it, and a program
// that brings Go skills of its own is another:
//
//	h, err := host.New(ctx, host.Options{
//		Client: client.Options{HostPort: "localhost:7233"},
//		Store:  store.Options{Dir: ".chimera/store"},
//		Skills: []skills.Skill{mySkill},
//	})
//	if err != nil { … }
//	defer h.Close()
//	err = h.Run(ctx)
package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/blob"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/witness"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/redact"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
	"chimera.ai/engine/workflows"
)

// Role is what a worker process does.
type Role string

// The roles. The design's guardian and effects roles are not supported yet.
const (
	// RoleEngine runs workflows, in-process skills and the engine's own activities.
	RoleEngine Role = "engine"
	// RoleTools calls MCP servers and executable skills.
	RoleTools Role = "tools"
)

// EagerActivities is how many activities of one workflow task a worker may take
// back with it, past the queue: the library's default, said here so that benchmarks
// give both sides the same.
const EagerActivities = 3

// Roles lists all roles.
func Roles() []Role { return []Role{RoleEngine, RoleTools} }

// Options say what a host is made of.
type Options struct {
	// Roles to run; empty means all.
	Roles []Role
	// Client is how to reach Temporal. Its data converter, external storage and
	// logger are set by the host.
	Client client.Options
	// Store is where the ledger and large values are; every worker of a
	// deployment, and every client that starts large runs, sees the same one.
	Store store.Options
	// Witnesses cosign the log's checkpoints, where this process signs them.
	Witnesses []witness.Witness
	// FormerKeys are verifier keys that the log had before its key.
	FormerKeys []string
	// Sealing protects what passes through Temporal and what is large. Every
	// process of a deployment has the same keys.
	Sealing payload.Sealing
	// Catalog has the operations of MCP servers and executables; the built-in
	// skills and Skills are added to it.
	Catalog *compiler.Catalog
	// Trust is the bootstrap of the deployment's authority, or nil: then published
	// plans are taken unsigned, start grants are refused, and no run has effects.
	Trust *trust.Bootstrap
	// Policy is the operator's bundle, or nil.
	Policy *compiler.Policy
	// Skills are Go skills that run in this process.
	Skills []skills.Skill
	// Executables are programs by provider name.
	Executables map[string]skills.Executable
	// Servers are MCP servers by provider name.
	Servers map[string]mcp.Server
	// MCP bounds the MCP clients; its zero value has defaults.
	MCP mcp.Options
	// WorkflowPollers and ActivityPollers for each queue; 0 means 8 and 16. With
	// fewer, sequential work waits for polls.
	WorkflowPollers, ActivityPollers int
	// MaxActivities and MaxWorkflows bound what runs at one time; 0 means 200
	// activities and 200 workflow tasks.
	MaxActivities, MaxWorkflows int
	// CacheBytes is the memory for compiled plans and what is made of them; 0 means
	// payload.DefaultCacheBytes.
	CacheBytes int
	// CachedRuns is how many runs are kept in memory between workflow tasks; 0 means
	// 1000. It holds for the whole process, from its first host on.
	CachedRuns int
	// Drain is how long a stopping worker waits for activities in flight.
	Drain time.Duration
	// ContinueAfter is the number of history events after which a run continues
	// as new; 0 means activities.DefaultContinueAfter.
	ContinueAfter int
	// Logger; nil means slog.Default().
	Logger *slog.Logger
	// Retention says how long bodies of the ledger are kept; the host that
	// sequences the log applies it every RetainEvery, 0 meaning
	// [DefaultRetainEvery].
	Retention   ledger.Policy
	RetainEvery time.Duration
	// Secrets are taken out of what tools answer, and out of the log.
	Secrets *redact.Secrets
}

// Host is a process with workers. It is made by [New] and ends with [Host.Close].
type Host struct {
	options   Options
	store     *store.Opened
	client    client.Client
	pool      *mcp.Pool
	workers   []worker.Worker
	sequencer *sequencer
	// refused has why a worker polls no more, once.
	refused chan error
}

// New opens the store, connects to Temporal, prepares the catalog, and registers
// everything. Nothing polls yet.
func New(ctx context.Context, o Options) (_ *Host, err error) {
	o = o.withDefaults()
	for _, r := range o.Roles {
		if !slices.Contains(Roles(), r) {
			return nil, fmt.Errorf("role %q is not supported yet; the roles are %v", r, Roles())
		}
	}
	if o.Trust != nil && o.Trust.Audience == trust.Dev && o.Store.Driver == store.Postgres {
		return nil, errors.New("the bootstrap's audience is dev, which exists with the embedded store alone")
	}
	if err := witness.CheckAll(o.Witnesses, 0); err != nil {
		return nil, err
	}
	registry, catalog, err := Catalog(o.Catalog, o.Skills)
	if err != nil {
		return nil, err
	}
	h := &Host{options: o, refused: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	if h.store, err = store.Open(ctx, o.Store); err != nil {
		return nil, err
	}
	var plans *payload.Plans
	worker.SetStickyWorkflowCacheSize(o.CachedRuns)
	if h.client, plans, err = dial(ctx, o.Client, h.store.Blobs, o.Sealing, o.CacheBytes, o.Logger); err != nil {
		return nil, err
	}
	switch {
	case o.Sealing.Keys == nil:
		o.Logger.DebugContext(ctx, "payloads are not sealed: there are no payload.keys")
	case o.Sealing.AcceptPlain:
		o.Logger.WarnContext(ctx, "unsealed payloads are taken (payload.accept_plain): whoever may write to the namespace can answer for a worker",
			"key", o.Sealing.Keys.KeyID())
	default:
		o.Logger.InfoContext(ctx, "payloads are sealed", "key", o.Sealing.Keys.KeyID())
	}
	h.pool = mcp.NewPool(o.Servers, o.MCP)
	callers := &callers{skills: registry, executables: o.Executables, pool: h.pool, secrets: o.Secrets}
	for _, role := range o.Roles {
		switch role {
		case RoleEngine:
			attributes, err := searchAttributes(ctx, h.client, o.Client.Namespace, o.Logger)
			if err != nil {
				return nil, err
			}
			e := &activities.Engine{
				Compile: func(source string) (*plan.Plan, diag.Diagnostics) {
					return compiler.Compile(compiler.Source{Name: "plan", Text: []byte(source)}, catalog, o.Policy)
				},
				Plans: plans, Skills: callers, Ledger: h.store.Ledger, Namespace: o.Client.Namespace,
				Policy: o.Policy.Digest(), Attributes: attributes, ContinueAfter: o.ContinueAfter,
			}
			if o.Trust != nil {
				reader, former, err := authority(ctx, o.Trust, h.store)
				if err != nil {
					return nil, err
				}
				e.Authority, o.FormerKeys = reader, append(slices.Clone(o.FormerKeys), former...)
			} else {
				o.Logger.WarnContext(ctx, "this worker has no root of trust (trust.bootstrap): nobody vouches for what is published, and runs have no effects")
			}
			h.engine(e)
			if h.store.Key == nil {
				o.Logger.WarnContext(ctx, "this worker has no key of the ledger (ledger.key): another process must sign checkpoints")
				break
			}
			h.sequencer = newSequencer(h.store, o)
			if len(o.Retention) > 0 {
				books := h.store.Ledger
				h.sequencer.Leading = func(ctx context.Context) { retain(ctx, books, o.Retention, o.RetainEvery, o.Logger) }
			}
		case RoleTools:
			h.tools(&activities.Tools{Plans: plans, Caller: callers})
		}
	}
	return h, nil
}

func (o Options) withDefaults() Options {
	if len(o.Roles) == 0 {
		o.Roles = Roles()
	}
	if o.Client.Namespace == "" {
		o.Client.Namespace = client.DefaultNamespace
	}
	if o.WorkflowPollers == 0 {
		o.WorkflowPollers = 8
	}
	if o.ActivityPollers == 0 {
		o.ActivityPollers = 16
	}
	if o.MaxActivities == 0 {
		o.MaxActivities = 200
	}
	if o.MaxWorkflows == 0 {
		o.MaxWorkflows = 200
	}
	if o.CachedRuns == 0 {
		o.CachedRuns = 1000
	}
	if o.RetainEvery <= 0 {
		o.RetainEvery = DefaultRetainEvery
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Logger = slog.New(o.Secrets.Handler(o.Logger.Handler()))
	if o.MCP.Logger == nil {
		o.MCP.Logger = o.Logger
	} else {
		o.MCP.Logger = slog.New(o.Secrets.Handler(o.MCP.Logger.Handler()))
	}
	return o
}

// Dial connects a client that speaks the engine's payloads: its converter, and
// large values by reference to blobs.
func Dial(ctx context.Context, o client.Options, blobs blob.Store, sealing payload.Sealing, logger *slog.Logger) (client.Client, error) {
	c, _, err := dial(ctx, o, blobs, sealing, 0, logger)
	return c, err
}

func dial(ctx context.Context, o client.Options, blobs blob.Store, sealing payload.Sealing, cache int, logger *slog.Logger) (client.Client, *payload.Plans, error) {
	plans := payload.NewPlans(blobs, cache)
	o.DataConverter = payload.NewConverter(plans, sealing)
	o.FailureConverter = payload.NewFailureConverter(o.DataConverter)
	o.ExternalStorage = payload.NewStorage(blobs, sealing)
	if logger != nil {
		o.Logger = log.NewStructuredLogger(logger)
	}
	c, err := client.DialContext(ctx, o)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to Temporal: %w", err)
	}
	return c, plans, nil
}

func (h *Host) worker(queue string, o worker.Options) worker.Worker {
	w := worker.New(h.client, queue, h.bounded(queue, o))
	h.workers = append(h.workers, w)
	return w
}

// bounded gives the options that all workers share. What ends one of them ends
// [Host.Run]: a worker that polls no more does nothing, and nobody would know.
func (h *Host) bounded(queue string, o worker.Options) worker.Options {
	o.MaxConcurrentActivityTaskPollers = h.options.ActivityPollers
	o.MaxConcurrentActivityExecutionSize = h.options.MaxActivities
	o.WorkerStopTimeout = h.options.Drain
	eager := EagerActivities
	o.MaxEagerActivityReservationsPerWorkflowTask = &eager
	o.OnFatalError = func(err error) {
		select {
		case h.refused <- fmt.Errorf("the worker of the queue %s has stopped: %w", queue, err):
		default: // one reason is enough
		}
	}
	return o
}

func (h *Host) engine(e *activities.Engine) {
	w := h.worker(contract.QueueEngine, worker.Options{
		MaxConcurrentWorkflowTaskPollers:       h.options.WorkflowPollers,
		MaxConcurrentWorkflowTaskExecutionSize: h.options.MaxWorkflows,
	})
	w.RegisterWorkflowWithOptions(workflows.Plan, workflow.RegisterOptions{Name: contract.WorkflowType})
	w.RegisterActivityWithOptions(e.Load, activity.RegisterOptions{Name: contract.ActivityLoad})
	w.RegisterActivityWithOptions(e.Local, activity.RegisterOptions{Name: contract.ActivityLocal})
	w.RegisterActivityWithOptions(e.Route, activity.RegisterOptions{Name: contract.ActivityRoute})
	w.RegisterActivityWithOptions(e.Write, activity.RegisterOptions{Name: contract.ActivityJournal})
	dynamic(w, e.Node)
}

func (h *Host) tools(t *activities.Tools) {
	dynamic(h.worker(contract.QueueTools, worker.Options{DisableWorkflowWorker: true}), t.Node)
}

// dynamic registers one function for every activity type "provider/operation".
func dynamic(w worker.Worker, node func(context.Context, contract.Call) (contract.Outcome, error)) {
	w.RegisterDynamicActivity(activities.Dynamic(node), activity.DynamicRegisterOptions{})
}

// Store is what the host keeps.
func (h *Host) Store() *store.Opened { return h.store }

// Client is the host's connection to Temporal, with the engine's payloads.
func (h *Host) Client() client.Client { return h.client }

// Start lets the workers poll, and the sequencer of the log work.
func (h *Host) Start() error {
	if h.sequencer != nil {
		h.sequencer.start()
	}
	for _, w := range h.workers {
		if err := w.Start(); err != nil {
			return fmt.Errorf("start worker: %w", err)
		}
	}
	return nil
}

// Run starts the workers and works until ctx ends. It ends with an error where
// Temporal refuses a worker for good, such as without its namespace, and where the
// log turns out not to be what its key has signed.
func (h *Host) Run(ctx context.Context) error {
	if err := h.Start(); err != nil {
		return err
	}
	var sequenced chan struct{} // nil is never done
	if h.sequencer != nil {
		sequenced = h.sequencer.done
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-h.refused:
		return err
	case <-sequenced:
		return h.sequencer.err
	}
}

// Close stops the workers, lets activities in flight end within the drain time,
// ends all children, and gives what was stated its place in the log.
func (h *Host) Close() error {
	for _, w := range slices.Backward(h.workers) {
		w.Stop()
	}
	h.workers = nil
	var err error
	if h.sequencer != nil {
		h.sequencer.stop()
		h.sequencer = nil
	}
	if h.pool != nil {
		err = h.pool.Close()
	}
	if h.client != nil {
		h.client.Close()
	}
	if h.store != nil {
		err = errors.Join(err, h.store.Close())
		h.store = nil
	}
	return err
}
