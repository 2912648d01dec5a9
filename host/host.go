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
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/blob"
	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/process"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/witness"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/metrics"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/redact"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
	"chimera.ai/engine/workflows"
)

// Role is what a worker process does.
type Role string

// The roles.
const (
	// RoleEngine runs workflows, in-process skills and the engine's own activities.
	RoleEngine Role = "engine"
	// RoleTools calls MCP servers and executable skills.
	RoleTools Role = "tools"
	// RoleGuardian decides on effects, and RoleEffects calls them. Production refuses both
	// in one process.
	RoleGuardian Role = "guardian"
	RoleEffects  Role = "effects"
)

// EagerActivities is how many activities of one workflow task a worker may start
// directly, bypassing the queue. It is the SDK's default, stated here so that
// benchmarks use the same on both sides.
const EagerActivities = 3

// Options configure a host. Each role uses only what it needs: a host without the
// role engine opens no ledger and compiles nothing, and one without the role tools
// starts no child processes.
type Options struct {
	// Roles to run; empty means engine and tools.
	Roles []Role
	// Dev allows what production refuses: payloads that are not sealed, beside a
	// store on PostgreSQL.
	Dev bool
	// Production says that others than the machine's user rely on the host, although its roles read no
	// root of trust, and its store serves one machine. Otherwise Trust and Store say it.
	Production bool
	// Client is how to reach Temporal. The host sets its data converter,
	// external storage and logger. Its MetricsHandler, if any, counts what the
	// SDK does, and [metrics.Retried].
	Client client.Options
	// Store is where the ledger and large values are stored. Every worker of a
	// deployment, and every client that starts large runs, uses the same one.
	Store store.Options
	// Sealing encrypts what passes through Temporal, and large values. A process with the
	// role engine has the whole keys of the deployment, others those of their roles.
	Sealing payload.Sealing

	// For the role engine; guardian and effects have Catalog, Trust and Policy of their own.

	// OpenLogKey, if not nil, opens the log's key when the host begins, as OpenGuardianKey
	// does the guardian's. Store then has no key.
	OpenLogKey func(context.Context) (key *ledger.Key, done func() error, err error)
	// Witnesses cosign the log's checkpoints, where this process signs them.
	Witnesses []witness.Witness
	// FormerKeys are verifier keys that the log had before its key.
	FormerKeys []string
	// Catalog has the operations of MCP servers and executables; the built-in
	// skills and Skills are added to it.
	Catalog *catalog.Catalog
	// Trust is the bootstrap of the deployment's authority, or nil: then published
	// plans are taken unsigned, start grants are refused, and no run has effects.
	Trust *trust.Bootstrap
	// Seen is a file in which the host keeps the last statement of the admins that it has
	// read, so that it notices a database that has fewer; or "". Roles with files of their
	// own do not share it.
	Seen string
	// Policy is the operator's bundle, or nil.
	Policy *policy.Bundle
	// Reread, if not nil, names the files of Catalog and Policy, which are read
	// for each start. Only chimera dev sets it: workers of one deployment would
	// differ, and a repeated start would have another result.
	Reread *Files
	// Skills are Go skills that run in this process.
	Skills []skills.Skill
	// SharedQueue makes runs loaded here request calls of tools on the engine's
	// queue, which is faster if each worker of a deployment has both roles. All
	// hosts of a deployment have the same setting.
	SharedQueue bool

	// For the role guardian.

	// Shadow is a bundle by which it decides too, without effect, or nil.
	Shadow *policy.Bundle

	// GuardianKey signs permits of effects; a statement of the admins names it.
	GuardianKey *trust.Key
	// OpenGuardianKey, if not nil, opens GuardianKey when the host begins, such as one on a
	// token, as [OpenKey] does. The host calls done when it ends.
	OpenGuardianKey func(context.Context) (key *trust.Key, done func() error, err error)

	// SweepEvery is how often it ends holds of permits that were not used, and calls of runs
	// that have ended. 0 means [DefaultSweepEvery].
	SweepEvery time.Duration

	// For the roles tools and effects.

	// Executables are programs by provider name.
	Executables map[string]skills.Executable
	// Servers are MCP servers by provider name.
	Servers map[string]mcp.Server
	// Manifests are files with the manifests of MCP servers, by provider name.
	Manifests map[string]string
	// Callers says which of the roles tools and effects call a provider; both do where it
	// has no entry.
	Callers map[string][]Role
	// CompareOffers asks MCP servers at the start what they offer, and logs where that is not what the
	// catalog has.
	CompareOffers bool
	// Private are files and folders that no user of Executables and Servers may read, such as those with
	// secrets.
	Private []string
	// Relied are further files by which the host decides what it does, such as its configuration: no user
	// of Executables and Servers may change them, nor what is Private, nor what these programs are.
	Relied []string
	// MCP bounds the MCP clients; its zero value has defaults.
	MCP mcp.Options

	// For all roles.

	// WorkflowPollers and ActivityPollers for each queue; 0 means 8 and 16. With
	// fewer, sequential work waits for polls.
	WorkflowPollers, ActivityPollers int
	// MaxActivities and MaxWorkflows bound what runs at a time; 0 means 200
	// activities for each queue and 200 workflow tasks. What a run needs to
	// continue, such as the journal, has its own slots.
	MaxActivities, MaxWorkflows int
	// CacheBytes is the memory for compiled plans and what is prepared from
	// them; 0 means payload.DefaultCacheBytes.
	CacheBytes int
	// CachedRuns is how many runs stay in memory between workflow tasks; 0
	// means 1000. The first host of a process sets it for the whole process.
	CachedRuns int
	// Drain is how long a stopping worker waits for activities in flight.
	Drain time.Duration
	// ContinueAfter is the number of history events after which a run continues
	// as new; 0 means activities.DefaultContinueAfter.
	ContinueAfter int
	// ArgumentWithin is how long a start waits for an unavailable store to read
	// its own argument; 0 means activities.DefaultArgumentWithin.
	ArgumentWithin time.Duration
	// Logger; nil means slog.Default().
	Logger *slog.Logger
	// Retention says how long bodies of the ledger are kept; the host that
	// sequences the log applies it every RetainEvery, 0 meaning
	// [DefaultRetainEvery].
	Retention   ledger.Policy
	RetainEvery time.Duration
	// EndsEvery is how often the host that sequences the log asks Temporal
	// about runs that are open in the ledger, and closes those that cannot
	// close themselves: terminated ones at once, others after four times that.
	// As often it checks that the search attributes that runs set exist. 0
	// means [DefaultEndsEvery].
	EndsEvery time.Duration
	// Secrets are removed from what tools answer, and from the log; tokens for MCP servers are added.
	Secrets *redact.Secrets
	// Deployment identifies the build of the workers; its zero value is
	// unversioned.
	Deployment Deployment

	// interpreter is the workflow code of another build, in tests.
	interpreter any
}

// blobTime bounds each call of the store of large values: less than what an activity
// has beyond its node's own timeout.
const blobTime = 8 * time.Second

// deadlockTimeout is how long workflow code may run without yielding before it
// counts as stuck: less than a workflow task may take, and more than the SDK's
// second, which an overloaded machine exceeds.
const deadlockTimeout = 8 * time.Second

// Host is a process with workers. It is made by [New] and ends with [Host.Close].
type Host struct {
	options Options
	store   *store.Opened
	client  client.Client
	pool    *mcp.Pool
	workers []worker.Worker
	// registrar stands in for the workers of a host without a server, and is nil otherwise.
	registrar func(queue string) Registrar
	sequencer *sequencer
	sweeper   *sweeper
	// started run beside the workers once they have started.
	started []func(ctx context.Context)
	// refused receives the reason why a worker no longer polls, once.
	refused chan error
	// keys end the use of keys on tokens.
	keys []func() error
	// beside is what runs beside the workers until aside: it watches the worker
	// deployment, and sweeps.
	beside sync.WaitGroup
	aside  []context.CancelFunc
}

// New opens the store, connects to Temporal, prepares the catalog, and registers
// everything. Nothing polls yet. In production the process cannot be read or traced by others of its
// user from then on, and leaves no core dump.
func New(ctx context.Context, o Options) (*Host, error) { return build(ctx, o, nil, nil) }

func build(ctx context.Context, o Options, offline client.Client, registrar func(queue string) Registrar) (_ *Host, err error) {
	o = o.withDefaults()
	if err := o.Deployment.Check(); err != nil {
		return nil, err
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	if o.production() {
		if err := process.Hide(); err != nil {
			return nil, err
		}
	}
	if err := o.confine(); err != nil {
		return nil, err
	}
	h := &Host{options: o, refused: make(chan error, 1), registrar: registrar}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	if err := h.openKeys(ctx); err != nil {
		return nil, err
	}
	o = h.options
	if o.compiles() {
		h.store, err = openLedger(ctx, o)
	} else {
		h.store, err = store.OpenValues(ctx, o.Store)
	}
	if err != nil {
		return nil, err
	}
	var said *trust.Reader // nil without a root of trust
	if o.Trust != nil && o.compiles() {
		var former []string
		if said, former, err = authority(ctx, &o, h.store); err != nil {
			return nil, err
		}
		h.options.FormerKeys = append(slices.Clone(o.FormerKeys), former...)
	}
	var plans *payload.Plans
	worker.SetStickyWorkflowCacheSize(o.CachedRuns)
	blobs := blob.Prompt(h.store.Blobs, blobTime)
	connection := o.Client
	connection.ConnectionOptions.DialOptions = append(slices.Clone(connection.ConnectionOptions.DialOptions), payload.HideReferences())
	if o.Client.MetricsHandler != nil {
		connection.ConnectionOptions.DialOptions = append(connection.ConnectionOptions.DialOptions, retried(o.Client.MetricsHandler, o.has(RoleEngine)))
	}
	if offline != nil {
		h.client, plans = offline, payload.NewPlans(blobs, o.CacheBytes)
	} else if h.client, plans, err = dial(ctx, connection, blobs, o.Sealing, o.CacheBytes, o.Logger); err != nil {
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
	values := payload.NewValues(blobs, o.Sealing, o.Client.Namespace)
	var tools activities.Caller // nil without the role
	var held *manifests
	if o.has(RoleTools) || o.has(RoleEffects) {
		if held, err = newManifests(ctx, &o, said); err != nil {
			return nil, err
		}
		if to := o.Client.MetricsHandler; to != nil {
			o.MCP.Changed = func(server string) {
				to.WithTags(map[string]string{"server": server}).Counter(metrics.ToolsChanged).Inc(1)
			}
		}
		h.pool = mcp.NewPool(o.Servers, o.MCP)
		if o.CompareOffers {
			h.started = append(h.started, func(ctx context.Context) { h.offers(ctx, said) })
		}
	}
	outside := func(r Role) activities.Caller {
		return fitting{manifested{cleaned{children{executables: o.Executables, pool: h.pool, callers: o.Callers, role: r}, o.Secrets}, held}, &h.options}
	}
	if o.has(RoleTools) {
		tools = outside(RoleTools)
		if said != nil && o.production() {
			r := h.reader(said)
			r.holds = true
			tools = believing{tools, said, r.workbench}
		}
		h.tools(&activities.Tools{Plans: plans, Values: values, Caller: tools})
	}
	if o.has(RoleGuardian) || o.has(RoleEffects) {
		if err := h.act(ctx, said, blobs, plans, values, outside(RoleEffects)); err != nil {
			return nil, err
		}
	}
	if o.has(RoleEngine) {
		if err := h.prepare(ctx, said, blobs, plans, values, tools); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// prepare makes the engine's role. said is nil without a root of trust, and tools calls tools, or
// is nil.
func (h *Host) prepare(ctx context.Context, said *trust.Reader, blobs blob.Store, plans *payload.Plans, values *payload.Values, tools activities.Caller) error {
	o := &h.options
	if h.store.Empty {
		o.Logger.InfoContext(ctx, "the ledger is empty, and a new log begins: where runs go on that began before, this is not their store",
			"store", o.Store, "log", h.store.Ledger.Origin())
	}
	registry, catalog, err := Catalog(o.Catalog, o.Skills)
	if err != nil {
		return err
	}
	var attributes []string
	if h.registrar == nil {
		if attributes, err = searchAttributes(ctx, h.client, o.Client.Namespace, o.Logger); err != nil {
			return err
		}
	}
	bench := workbench(catalog, o.Policy, nil)
	e := &activities.Engine{
		Compile: bench.Compile,
		Plans:   plans, Skills: cleaned{goSkills{registry}, o.Secrets}, Tools: tools, Ledger: h.store.Ledger, Namespace: o.Client.Namespace,
		Children: childWorkflows{h.client}, Values: values, Outputs: payload.NewOutputs(blobs, o.Sealing, o.Client.Namespace, false),
		Policy: bench.Policy, Catalog: bench.Catalog, Attributes: attributes, ContinueAfter: o.ContinueAfter,
		Named:          func(source string) (name, version, agent string) { return lint.Named([]byte(source)) },
		Arguments:      payload.Arguments{Store: blobs, Sealing: o.Sealing, Namespace: o.Client.Namespace},
		ArgumentWithin: o.ArgumentWithin,
	}
	if o.SharedQueue {
		e.ToolsQueue = contract.QueueEngine
		if tools == nil {
			o.Logger.WarnContext(ctx, "runs are told to call tools on the engine's queue (worker.tools_queue), and this worker lacks the role tools: it sends them on, one by one",
				"to", contract.QueueTools)
		}
	}
	if said != nil {
		e.Authority = said
	} else {
		o.Logger.WarnContext(ctx, "this worker has no root of trust (trust.bootstrap): nobody vouches for what is published, and runs have no effects")
	}
	if r := h.reader(said); o.Reread != nil || r.registry != nil {
		e.Renew = r.workbench
	}
	h.engine(e)
	if h.store.Key == nil {
		o.Logger.WarnContext(ctx, "this worker has no key of the ledger (ledger.key): another process must sign checkpoints")
		return nil
	}
	h.sequencer = newSequencer(h.store, *o)
	if h.registrar != nil {
		return nil
	}
	runs, temporal := h.store.Ledger, h.client
	h.sequencer.Leading = func(ctx context.Context) {
		var beside sync.WaitGroup
		defer beside.Wait()
		beside.Go(func() { (&ends{client: temporal, runs: runs, logger: o.Logger, every: o.EndsEvery}).run(ctx) })
		beside.Go(func() { keepAttributes(ctx, temporal, o.Client.Namespace, attributes, o.EndsEvery, o.Logger) })
		if len(o.Retention) > 0 {
			retain(ctx, runs, o.Retention, o.RetainEvery, o.Logger)
		}
	}
	return nil
}

func (o Options) withDefaults() Options {
	if len(o.Roles) == 0 {
		o.Roles = defaultRoles
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
	if o.interpreter == nil {
		o.interpreter = workflows.Plan
	}
	if o.CachedRuns == 0 {
		o.CachedRuns = 1000
	}
	if o.RetainEvery <= 0 {
		o.RetainEvery = DefaultRetainEvery
	}
	if o.SweepEvery <= 0 {
		o.SweepEvery = DefaultSweepEvery
	}
	if o.EndsEvery <= 0 {
		o.EndsEvery = DefaultEndsEvery
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Secrets == nil {
		o.Secrets = redact.New(nil)
	}
	issued := o.MCP.Issued
	o.MCP.Issued = func(token string, until time.Time) {
		o.Secrets.Add(token, until)
		if issued != nil {
			issued(token, until)
		}
	}
	o.Logger = slog.New(o.Secrets.Handler(o.Logger.Handler()))
	if o.MCP.Logger == nil {
		o.MCP.Logger = o.Logger
	} else {
		o.MCP.Logger = slog.New(o.Secrets.Handler(o.MCP.Logger.Handler()))
	}
	return o
}

// Store returns the host's store.
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
	if h.options.Deployment.Name != "" {
		h.also(h.place)
	}
	if h.sweeper != nil {
		h.also(h.sweeper.run)
	}
	for _, run := range h.started {
		h.also(run)
	}
	return nil
}

// also runs something beside the workers until the host is closed.
func (h *Host) also(run func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	h.aside = append(h.aside, cancel)
	h.beside.Go(func() { run(ctx) })
}

// Run starts the workers and runs until ctx ends. It returns an error if Temporal
// finally refuses a worker, for example without its namespace, or if the log is not
// what its key has signed.
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
// ends all child processes, sequences what was stated, and closes the keys that it opened.
func (h *Host) Close() error {
	var stopping sync.WaitGroup // each waits for its calls; all of them within the drain time
	for _, w := range h.workers {
		stopping.Go(w.Stop)
	}
	stopping.Wait()
	h.workers = nil
	for _, end := range h.aside {
		end()
	}
	h.aside = nil
	h.beside.Wait()
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
	for _, done := range h.keys {
		err = errors.Join(err, done())
	}
	h.keys = nil
	return err
}
