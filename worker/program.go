package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/config"
	"chimera.ai/engine/console"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/metrics"
	"chimera.ai/engine/redact"
	"chimera.ai/engine/trust"
)

// The exit codes, those of the command line.
const (
	exitDone       = 0
	exitUsage      = 2
	exitUnanswered = 3
)

const (
	// startTimeout bounds one attempt to start.
	startTimeout = 30 * time.Second
	// minPause and maxPause bound the time between attempts while Temporal is unavailable,
	// and sayEvery is how often that is logged.
	minPause = 100 * time.Millisecond
	maxPause = 5 * time.Second
	sayEvery = 30 * time.Second
)

// version is set by the linker in releases (-X main.version=…).
var version string

// Program is one worker: Parse, then Run, then Close.
type Program struct {
	Stdout, Stderr io.Writer

	configFile string
	roles      []string
	logger     *slog.Logger
	about      bool
	// current makes this build the one that new runs go to.
	current bool
	host    *host.Host
	secrets *redact.Secrets
	// unmeasure ends the server of metrics, if there is one.
	unmeasure func()
}

// misuse reports wrong use or a wrong configuration. The message is empty if it was
// already shown.
type misuse struct{ message string }

func (m *misuse) Error() string { return m.message }

// Parse parses the arguments after the program's name. Its errors mean wrong use.
func (p *Program) Parse(args []string) error {
	fs := flag.NewFlagSet("chimera-worker", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&p.configFile, "config", "", "`FILE` with the configuration (chimera.yaml, if there)")
	roles := fs.String("roles", "", "`ROLES` of this process, with commas: "+strings.Join(config.Roles(), ", ")+" (worker.roles)")
	level := fs.String("log-level", "info", "least `LEVEL` that is logged: debug, info, warn, error")
	format := fs.String("log-format", "text", "`FORMAT` of the log on standard error: text or json")
	fs.BoolVar(&p.current, "make-current", false, "make this build the current one of worker.deployment, which new runs go to, unless it was current before and was replaced")
	fs.BoolVar(&p.about, "version", false, "say which build this is")
	fs.Usage = func() {}
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintln(p.Stdout, "Usage: chimera-worker [flags]")
		fs.SetOutput(p.Stdout)
		fs.PrintDefaults()
		return flag.ErrHelp
	} else if err != nil {
		return &misuse{err.Error() + "; chimera-worker -help shows the flags"}
	}
	if fs.NArg() > 0 {
		return &misuse{fmt.Sprintf("chimera-worker does not take %q", fs.Arg(0))}
	}
	if *roles != "" {
		for role := range strings.SplitSeq(*roles, ",") {
			role = strings.TrimSpace(role)
			if !slices.Contains(config.Roles(), role) {
				return unknownRole(role)
			}
			if !slices.Contains(p.roles, role) {
				p.roles = append(p.roles, role)
			}
		}
	}
	var least slog.Level
	if err := least.UnmarshalText([]byte(*level)); err != nil {
		return &misuse{fmt.Sprintf("-log-level %s is not one of debug, info, warn, error", *level)}
	}
	switch *format {
	case "text":
		p.logger = slog.New(slog.NewTextHandler(p.Stderr, &slog.HandlerOptions{Level: least}))
	case "json":
		p.logger = slog.New(slog.NewJSONHandler(p.Stderr, &slog.HandlerOptions{Level: least}))
	default:
		return &misuse{fmt.Sprintf("-log-format %s is not one of text, json", *format)}
	}
	return nil
}

func unknownRole(role string) error {
	message := fmt.Sprintf("there is no role %q; the roles are %s", role, strings.Join(config.Roles(), ", "))
	if near := syntax.Nearest(role, config.Roles()); near != "" {
		message += "; did you mean " + near + "?"
	}
	return &misuse{message}
}

// Run works until ctx ends.
func (p *Program) Run(ctx context.Context) error {
	if p.about {
		_, _ = fmt.Fprintln(p.Stdout, "chimera-worker", thisVersion())
		return nil
	}
	settings, ds := config.Load(p.configFile)
	if len(p.roles) > 0 {
		settings.Worker.Roles = p.roles
	}
	if err := p.judge(ds, "the configuration is not valid"); err != nil {
		return err
	}
	resolved, err := settings.Resolve()
	if err != nil {
		return &misuse{err.Error()}
	}
	options, ds, err := host.Settings(resolved)
	if err != nil {
		return &misuse{err.Error()}
	}
	if err := p.judge(ds, "the catalog or the policy is not valid"); err != nil {
		return err
	}
	p.secrets = options.Secrets
	p.logger = slog.New(p.secrets.Handler(p.logger.Handler()))
	if options.Trust != nil && options.Trust.Audience == trust.Dev {
		return &misuse{"the bootstrap (trust.bootstrap) has the audience dev, which is for chimera dev alone"}
	}
	options.Deployment.MakeCurrent = p.current
	if options.Deployment.Build == "" {
		options.Deployment.Build = buildID()
	}
	if err := options.Deployment.Check(); err != nil {
		return &misuse{err.Error()}
	}
	if err := options.Check(); err != nil {
		return &misuse{err.Error()}
	}
	options.Logger = p.logger
	if address := settings.Worker.Metrics; address != "" {
		counted, err := p.measure(ctx, address)
		if err != nil {
			return &misuse{err.Error()}
		}
		options.Client.MetricsHandler = counted
	}
	options.CompareOffers = true
	if err := p.start(ctx, options); err != nil {
		if ctx.Err() != nil {
			return nil // asked to end before it began
		}
		if host.Unusable(err) {
			return &misuse{err.Error()}
		}
		return fmt.Errorf("starting the worker: %w", err)
	}
	p.logger.InfoContext(ctx, "worker starts", "version", thisVersion(), "build", options.Deployment, "roles", settings.Worker.Roles,
		"address", address(options.Client), "namespace", options.Client.Namespace, "store", options.Store, "policy", options.Policy.Digest())
	if err := p.host.Run(ctx); err != nil {
		return fmt.Errorf("running the worker: %w", err)
	}
	p.logger.Info("worker stops", "drain", settings.Worker.Drain)
	return nil
}

// address is where Temporal is looked for.
func address(o client.Options) string { return cmp.Or(o.HostPort, client.DefaultHostPort) }

// start makes the host, and waits for Temporal while it is unavailable. If Temporal
// refuses something, such as credentials, it fails at once.
func (p *Program) start(ctx context.Context, options host.Options) error {
	var said time.Time
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		try, cancel := context.WithTimeout(ctx, startTimeout)
		h, err := host.New(try, options)
		cancel()
		if err == nil {
			p.host = h
			return nil
		}
		if ctx.Err() != nil || !isAway(err) {
			return err
		}
		if time.Since(said) >= sayEvery {
			said = time.Now()
			p.logger.WarnContext(ctx, "waiting for Temporal", "address", address(options.Client), "error", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// isAway reports whether Temporal gave no answer, or said that it cannot answer now.
// An unavailable store does not count: its errors do not tell a wrong password from an
// outage.
func isAway(err error) bool {
	var unavailable *serviceerror.Unavailable
	var late *serviceerror.DeadlineExceeded
	return !errors.Is(err, ledger.ErrUnavailable) && (errors.As(err, &unavailable) || errors.As(err, &late) || errors.Is(err, context.DeadlineExceeded))
}

// measure serves metrics to Prometheus on an address until the worker is closed, and
// returns the handler that records them.
func (p *Program) measure(ctx context.Context, address string) (client.MetricsHandler, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("worker.metrics: %w", err)
	}
	registry := metrics.New()
	pages := http.NewServeMux()
	pages.Handle("GET /metrics", registry.HTTP())
	// It serves until the end, since a stopping worker still works.
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := console.Serve(serving, l, pages); err != nil {
			p.logger.Error("metrics are no longer served", "address", l.Addr(), "error", err)
		}
	}()
	p.unmeasure = func() {
		end()
		<-done
	}
	p.logger.InfoContext(ctx, "serving metrics", "url", "http://"+l.Addr().String()+"/metrics")
	return registry.Handler(), nil
}

// judge shows findings, and fails if one is an error.
func (p *Program) judge(ds diag.Diagnostics, message string) error {
	if len(ds) > 0 {
		sources := map[string][]byte{}
		for _, d := range ds {
			if name := d.Subject.File; name != "" && sources[name] == nil {
				if text, err := os.ReadFile(name); err == nil {
					sources[name] = text
				}
			}
		}
		if err := ds.WriteText(p.Stderr, sources, false); err != nil {
			return fmt.Errorf("showing what is wrong: %w", err)
		}
	}
	if ds.HasErrors() {
		return &misuse{message}
	}
	return nil
}

// Close ends the worker: no new work, calls in flight until the drain time, then
// its children. It may be called more than once.
func (p *Program) Close() error {
	if p.unmeasure != nil {
		defer p.unmeasure()
		p.unmeasure = nil
	}
	if p.host == nil {
		return nil
	}
	h := p.host
	p.host = nil
	if err := h.Close(); err != nil {
		return fmt.Errorf("stopping the worker: %w", err)
	}
	return nil
}

// Report shows an error and returns the exit code.
func (p *Program) Report(err error) int {
	var wrong *misuse
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitDone
	case errors.As(err, &wrong):
		_, _ = fmt.Fprintln(p.Stderr, "chimera-worker:", p.secrets.Text(wrong.message))
		return exitUsage
	}
	_, _ = fmt.Fprintln(p.Stderr, "chimera-worker:", p.secrets.Text(err.Error()))
	return exitUnanswered
}

// buildID returns this program's version as a build id, or "" if it has none, since
// different code would then share a build id.
func buildID() string {
	if v := thisVersion(); v != "(devel)" {
		return v
	}
	return ""
}

func thisVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
