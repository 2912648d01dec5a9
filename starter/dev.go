package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	flag "github.com/spf13/pflag"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/config"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/devroot"
	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

const (
	// devDrain bounds how long Ctrl-C waits for calls in flight.
	devDrain = 2 * time.Second
	// pollWait bounds the wait for the worker's first polls.
	pollWait = 30 * time.Second
	// maxLog is the size, in bytes, beyond which a log is rotated at the next start.
	maxLog = 16 << 20
)

// anyPortHint says what to do about a port that is in use.
const anyPortHint = "With --any-port, chimera dev takes free ports in place of those in use."

// devOptions are the flags of dev.
type devOptions struct {
	port, uiPort  int
	anyPort, exit bool
	noWorker      bool
	budgets       []*trust.SetBudget
	plan, input   string
	failing, id   string
}

func devCommand(p *Program, fs *flag.FlagSet) action {
	var o devOptions
	var budgets texts
	fs.IntVar(&o.port, "port", -1, "`PORT` of the Temporal server; 0 picks a free one (dev.port, 7233)")
	fs.IntVar(&o.uiPort, "ui-port", -1, "`PORT` of its web pages; 0 picks a free one (dev.ui_port, 8233)")
	fs.BoolVar(&o.anyPort, "any-port", false, "pick free ports if the chosen ones are in use")
	fs.BoolVar(&o.noWorker, "no-worker", false, "run no worker, and explain how a program with its own worker joins")
	fs.Var(&budgets, "budget", "`BUDGET` of an agent that has none of its currency, such as \"agent-42=10.00 USD/day\"; may be repeated")
	fs.StringVar(&o.plan, "run", "", "`PLAN` to run once everything is ready")
	fs.StringVar(&o.input, "input", "{}", "`JSON` of that plan's input, @FILE, or - for standard input")
	fs.StringVar(&o.failing, "failing", "", "`JSON` of another input of that plan, or @FILE: it is run once more, is meant to fail then, and shows what it undoes")
	fs.StringVar(&o.id, "id", "", "`ID` of that run")
	fs.BoolVar(&o.exit, "exit", false, "end when that run has ended, with its exit code; the default if standard error is not a terminal")
	return func(ctx context.Context, _ []string) error {
		for _, port := range []int{o.port, o.uiPort} {
			if port < -1 || port > 65535 {
				return misuse("a port is between 0 and 65535")
			}
		}
		if o.plan == "" && (o.exit || o.id != "" || o.input != "{}" || o.failing != "") {
			return misuse("--input, --failing, --id and --exit belong to --run PLAN")
		}
		if o.failing != "" && (o.plan == "-" || o.failing == "-") {
			return misuse("--failing needs a plan and an input that are not standard input")
		}
		if o.noWorker && o.plan != "" {
			return misuse("--run needs the worker that --no-worker leaves out")
		}
		if o.noWorker && len(budgets) > 0 {
			return misuse("--budget needs the worker that --no-worker leaves out")
		}
		for _, text := range budgets {
			b, err := budgetOf(text)
			if err != nil {
				return misuse("--budget: %s", err).withHint("It is AGENT=AMOUNT CURRENCY, and perhaps /day or /month, such as \"agent-42=10.00 USD/day\".")
			}
			o.budgets = append(o.budgets, b)
		}
		return p.dev(ctx, o)
	}
}

// dev runs everything in this process and its children until ctx ends.
func (p *Program) dev(ctx context.Context, o devOptions) error {
	settings, err := p.settings()
	if err != nil {
		return err
	}
	var todo, failing *order
	if o.plan != "" { // before anything starts: the plan may not even compile
		if todo, err = p.order(ctx, o.plan, o.input, o.id, ""); err != nil {
			return err
		}
	}
	if o.failing != "" {
		id := o.id
		if id != "" {
			id += "-failing"
		}
		if failing, err = p.order(ctx, o.plan, o.failing, id, ""); err != nil {
			return err
		}
	}
	if settings.Temporal.Address != "" {
		p.say("temporal.address is %s: other commands use that server, not this one", printable(settings.Temporal.Address))
	}
	if err := p.claim(ctx, settings.Dev.Dir); err != nil {
		return err
	}
	codec, err := p.devCodec(ctx, settings, o.anyPort)
	if err != nil {
		return err
	}
	server, err := p.server(ctx, settings, o)
	if err != nil {
		return err
	}
	options, err := host.Store(settings)
	if err != nil {
		return misuse("%s", err)
	}
	keys := devKeysOf(settings, options)
	root, trusted, err := p.trusted(ctx, settings)
	if err != nil {
		return err
	}
	var worker *running
	if !o.noWorker {
		if worker, err = p.worker(ctx, settings, server, root, o.budgets); err != nil {
			return err
		}
	}
	l := local{
		Address: server.Address, UI: server.UI, Namespace: server.Namespace,
		Store: options.Dir, PID: os.Getpid(), Started: time.Now().UTC().Truncate(time.Second),
	}
	if options.Driver != store.Postgres {
		l.Ledger = options.Path
	}
	if err := p.announce(settings.Dev.Dir, l); err != nil {
		return unanswered("%s", err)
	}
	p.say("Temporal   %s (namespace %s)", server.Address, server.Namespace)
	p.say("web pages  %s", server.UI)
	p.say("state      %s", settings.Dev.Dir)
	keys.say(p)
	if worker != nil && worker.stated > 0 {
		p.say("tools      %d of %s, stated", worker.stated, printable(fromHere(settings.ToolsFile)))
	}
	if codec != nil {
		blobs, done, err := store.OpenBlobs(ctx, options)
		if err != nil {
			return storeError(err)
		}
		p.later(done)
		if err := codec.serve(ctx, p, blobs, server.UI); err != nil {
			return err
		}
	}
	if o.noWorker {
		if err := p.joining(settings, &l, root); err != nil {
			return err
		}
	}
	if todo != nil {
		conn := &connection{
			address: l.Address, namespace: l.Namespace, ui: l.UI,
			sealing: host.ClientSealing(settings), blobs: worker.host.Store().Blobs,
			place: &place{store: worker.store, local: &l, known: true, settings: settings, opened: worker.host.Store(), root: root},
		}
		p.attach(conn, worker.host.Client())
		d := &devRuns{o: o, conn: conn, server: server, opened: worker.host.Store(), trusted: trusted}
		return p.devRun(ctx, d, todo, failing)
	}
	if p.json() {
		if err := p.document(l); err != nil {
			return err
		}
	}
	p.say("ready; in another terminal: %s\nCtrl-C ends it", p.command("start", "PLAN", "--wait"))
	return p.linger(ctx, server)
}

// joining explains how a program with its own worker joins.
func (p *Program) joining(settings config.Config, l *local, root *trustRoot) error {
	p.say("no worker runs here; one joins with these host.Options:")
	p.say("  Client       HostPort %q, Namespace %q", l.Address, l.Namespace)
	if l.Ledger == "" {
		p.say("  Store        that of the configuration, on PostgreSQL")
	} else {
		p.say("  Store        Dir %q, Path %q", l.Store, l.Ledger)
		p.say("               the key of its log lies beside it")
	}
	switch {
	case root.dev != nil:
		file, err := filepath.Abs(filepath.Join(settings.Dev.Dir, devroot.BootstrapFile))
		if err != nil {
			return unanswered("naming the bootstrap: %s", err)
		}
		p.say("  Trust        trust.ParseBootstrap of %q", file)
	case root.bootstrap != nil:
		p.say("  Trust        that of the configuration (trust.bootstrap)")
	}
	if host.ClientSealing(settings).Keys != nil {
		p.say("  Sealing      the keys of the configuration (payload.keys)")
	}
	p.say("  SharedQueue  true, where it has all roles")
	return nil
}

// linger waits until ctx ends or the server does.
func (p *Program) linger(ctx context.Context, server *devserver.Server) error {
	select {
	case <-ctx.Done():
		p.say("ending")
		return nil
	case <-server.Done():
		return unanswered("%s", gone(server))
	}
}

func gone(server *devserver.Server) error {
	if err := server.Err(); err != nil {
		return fmt.Errorf("the Temporal server has ended: %w", err)
	}
	return errors.New("the Temporal server has ended")
}

// server starts Temporal.
func (p *Program) server(ctx context.Context, settings config.Config, o devOptions) (*devserver.Server, error) {
	log, err := p.log(settings.Dev.Dir, "temporal.log")
	if err != nil {
		return nil, err
	}
	options := devserver.Options{
		Path: settings.Dev.Temporal, DB: filepath.Join(settings.Dev.Dir, "temporal.db"),
		Port: settings.Dev.Port, UI: true, UIPort: settings.Dev.UIPort,
		Namespace: settings.Temporal.Namespace, LogLevel: "warn", Log: log, Progress: p.Stderr,
	}
	if o.port >= 0 {
		options.Port = o.port
	}
	if o.uiPort >= 0 {
		options.UIPort = o.uiPort
	}
	for {
		server, err := devserver.Start(ctx, options)
		var taken *devserver.PortError
		inUse := errors.As(err, &taken)
		switch {
		case err == nil:
			p.later(server.Kill) // a polite end takes two seconds, and its database survives a kill
			return server, nil
		case ctx.Err() != nil:
			return nil, unanswered("interrupted")
		case o.anyPort && inUse && taken.Port == options.Port && options.Port != 0:
			p.say("port %d is in use; taking a free one", taken.Port)
			options.Port = 0
		case o.anyPort && inUse && taken.Port == options.UIPort && options.UIPort != 0:
			p.say("port %d is in use; taking a free one", taken.Port)
			options.UIPort = 0
		case inUse:
			return nil, unanswered("%s", err).withHint("%s", anyPortHint)
		default:
			return nil, unanswered("%s", err)
		}
	}
}

// running is a worker in this process.
type running struct {
	host  *host.Host
	store store.Options
	// stated is the number of imported tools about which a statement was made.
	stated int
}

// worker starts a worker as configured, and waits until it polls.
func (p *Program) worker(ctx context.Context, settings config.Config, server *devserver.Server, root *trustRoot, budgets []*trust.SetBudget) (*running, error) {
	if len(budgets) > 0 && root.dev == nil {
		return nil, misuse("--budget is for dev mode's own root of trust; with another, %s makes a statement for the admins to sign", p.command("budgets", "set"))
	}
	settings, unavailable := p.available(settings)
	resolved, err := settings.Resolve(config.Roles()...)
	if err != nil {
		return nil, misuse("%s", err)
	}
	log, err := p.log(settings.Dev.Dir, "worker.log")
	if err != nil {
		return nil, err
	}
	options, ds, err := host.Settings(resolved.Unconfined())
	if err != nil {
		return nil, misuse("%s", err)
	}
	if ds.HasErrors() {
		return nil, &failure{code: exitUsage, message: "the catalog or the policy is not valid", diagnostics: ds}
	}
	for name, why := range unavailable {
		options.Servers[name] = mcp.Server{Unavailable: why}
	}
	// The embedded server is local: it must not get another server's credentials.
	options.Client = client.Options{HostPort: server.Address, Namespace: server.Namespace}
	options.Dev, options.SharedQueue = true, true
	options.Deployment = host.Deployment{} // a queue that was once versioned gives no tasks to unversioned workers
	options.Trust = root.bootstrap
	options.Roles = []host.Role{host.RoleEngine, host.RoleTools}
	if root.dev != nil {
		options.Roles, options.GuardianKey, options.OpenGuardianKey = host.Roles(), root.dev.Guardian, nil
	}
	options.Reread = &host.Files{Catalog: []string{settings.CatalogFile, settings.ToolsFile}, Policy: settings.PolicyFiles, Shadow: settings.Guardian.Shadow}
	options.Drain = min(options.Drain, devDrain)
	options.Logger = slog.New(slog.NewTextHandler(log, nil))
	h, err := host.New(ctx, options)
	if err != nil {
		return nil, unanswered("starting the worker: %s", err)
	}
	p.later(h.Close)
	w := &running{host: h, store: options.Store}
	if root.dev != nil {
		if err := root.dev.StateGuardian(ctx, h.Store().Ledger); err != nil {
			return nil, unanswered("stating the guardian of dev mode: %s", err)
		}
		if err := root.dev.StateBudgets(ctx, h.Store().Ledger, budgets); err != nil {
			return nil, unanswered("stating the budgets of dev mode: %s", err)
		}
		if w.stated, err = root.dev.StateTools(ctx, h.Store().Ledger, importedFrom(settings.ToolsFile, options.Catalog)); err != nil {
			return nil, unanswered("stating the tools of %s: %s", fromHere(settings.ToolsFile), err)
		}
	}
	if err := h.Start(); err != nil {
		return nil, unanswered("starting the worker: %s", err)
	}
	if err := polling(ctx, h.Client()); err != nil {
		return nil, err
	}
	return w, nil
}

// available returns a copy without the MCP servers of which a secret is not there, and why that is, by name. It
// warns of each: others work.
func (p *Program) available(c config.Config) (config.Config, map[string]string) {
	ready, unavailable := maps.Clone(c.MCPServers), map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.MCPServers)) {
		one := c
		one.MCPServers, one.Skills = map[string]config.Server{name: c.MCPServers[name]}, nil
		if _, err := one.Resolve(config.Roles()...); err != nil {
			unavailable[name] = strings.ReplaceAll(err.Error(), "\n", "; ")
			delete(ready, name)
			p.say("warning: the MCP server %s is not available, and calls of its tools fail: %s", foreign(name), foreign(unavailable[name]))
		}
	}
	c.MCPServers = ready
	return c, unavailable
}

// importedFrom returns the operations of a catalog that a file, "" for none, has with their definitions, or with the
// patterns of the resources that they read.
func importedFrom(file string, operations *catalog.Catalog) (tools []catalog.Template) {
	if file == "" {
		return nil
	}
	for _, t := range operations.Templates {
		if (t.Definition != nil || t.Resource != nil) && t.Range.File == file {
			tools = append(tools, t)
		}
	}
	return tools
}

// polling waits until all queues are polled.
func polling(asked context.Context, c client.Client) error {
	ctx, cancel := context.WithTimeout(asked, pollWait)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for _, queue := range []string{contract.QueueEngine, contract.QueueJournal, contract.QueueTools} {
		kind := enums.TASK_QUEUE_TYPE_ACTIVITY
		if queue == contract.QueueEngine {
			kind = enums.TASK_QUEUE_TYPE_WORKFLOW
		}
		for {
			bounded, cancel := context.WithTimeout(ctx, callTimeout)
			d, err := c.DescribeTaskQueue(bounded, queue, kind)
			cancel()
			if err == nil && len(d.GetPollers()) > 0 {
				break
			}
			select {
			case <-ctx.Done():
				if asked.Err() != nil {
					return unanswered("interrupted")
				}
				return unanswered("the worker does not poll the queue %s: %s", queue, ctx.Err())
			case <-tick.C:
			}
		}
	}
	return nil
}

// log opens a log of dev mode, and first rotates one that has grown too large.
func (p *Program) log(dir, name string) (io.Writer, error) {
	path := filepath.Join(dir, name)
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, unanswered("rotating a log: %s", err)
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, unanswered("opening a log: %s", err)
	}
	p.later(f.Close)
	return f, nil
}
