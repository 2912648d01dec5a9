package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"syscall"
	"time"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/config"
	"chimera.ai/engine/console"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/host"
	"chimera.ai/engine/store"
)

// served is the JSON answer of console, once it listens.
type served struct {
	Address string `json:"address"`
	// Codec is the codec endpoint to configure in Temporal's clients, and Guardian where
	// other judges ask; either may be "".
	Codec    string `json:"codec,omitempty"`
	Guardian string `json:"guardian,omitempty"`
}

func consoleCommand(p *Program, fs *flag.FlagSet) action {
	address := fs.String("address", "", "`HOST:PORT` to listen on; port 0 picks a free one (console.address)")
	return func(ctx context.Context, _ []string) error { return p.console(ctx, *address) }
}

// console serves until ctx ends: the codec endpoint, and the guardian's.
func (p *Program) console(ctx context.Context, address string) error {
	settings, err := p.settings()
	if err != nil {
		return err
	}
	if address == "" {
		address = settings.Console.Address
	}
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		return misuse("console.address %q is not host:port", printable(address))
	}
	endpoint, err := codec(settings)
	if err != nil {
		return err
	}
	judge, err := p.judge(ctx, settings)
	if err != nil {
		return err
	}
	if endpoint == nil && judge == nil {
		return unsupported("a console without an endpoint").withHint("Set console.codec.token or console.guardian.token to a reference to its token.")
	}
	pages := http.NewServeMux()
	if judge != nil {
		pages.Handle(console.GuardianEvaluate, judge)
	}
	if endpoint != nil {
		handler, err := p.opens(ctx, settings, endpoint)
		if err != nil {
			return err
		}
		pages.Handle("/", handler)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return unanswered("the console cannot listen: %s", err)
	}
	if ip := net.ParseIP(name); name != "localhost" && (ip == nil || !ip.IsLoopback()) {
		p.say("%s is not a loopback address, and the console has no TLS: put a server with TLS in front", printable(address))
	}
	s := served{Address: l.Addr().String()}
	if endpoint != nil {
		s.Codec = codecURL(l)
		p.say("codec endpoint    %s\nopened in a browser, it takes the token and says what else there is to do", s.Codec)
	}
	if judge != nil {
		s.Guardian = "http://" + l.Addr().String() + console.GuardianEvaluate
		p.say("guardian          %s", s.Guardian)
	}
	if p.json() {
		if err := p.document(s); err != nil {
			return err
		}
	}
	p.say("Ctrl-C ends it")
	if err := console.Serve(ctx, l, pages); err != nil {
		return unanswered("%s", err)
	}
	return nil
}

// opens returns the handler of the codec endpoint, with its store.
func (p *Program) opens(ctx context.Context, settings config.Config, endpoint *console.Codec) (http.Handler, error) {
	if endpoint.Keys == nil {
		p.say("payload.keys is empty: only values in the store are opened")
	}
	at, err := p.placeOf(settings)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	blobs, done, err := store.OpenBlobs(bounded, at.store)
	if err != nil {
		return nil, storeError(err)
	}
	p.later(done)
	endpoint.Blobs = blobs
	handler, err := endpoint.Handler()
	if err != nil {
		return nil, misuse("%s", err)
	}
	return handler, nil
}

// advice is the answer to a question about an action.
type advice struct {
	OK bool `json:"ok"`
	// Advisory is always true: nothing is recorded, reserved or permitted.
	Advisory bool             `json:"advisory"`
	Decision guardian.Word    `json:"decision,omitempty"`
	Reason   string           `json:"reason,omitempty"`
	Record   *guardian.Record `json:"record,omitempty"`
	// Diagnostics say what is wrong with the question.
	Diagnostics diag.Diagnostics `json:"diagnostics,omitempty"`
}

// judge returns the endpoint of the guardian, or nil if no token is configured.
func (p *Program) judge(ctx context.Context, settings config.Config) (http.Handler, error) {
	token, err := settings.JudgeToken()
	if err != nil {
		return nil, misuse("%s", err)
	}
	if token == "" {
		return nil, nil
	}
	env, err := p.environment(ctx, "", "")
	if err != nil {
		return nil, err
	}
	gate, err := env.gate()
	if err != nil {
		return nil, err
	}
	handler, err := console.Judge{Token: token, Decide: func(question []byte) (any, bool) {
		c, ds := guardian.ParseQuestion(diag.Source{Name: "question", Text: question}, env.catalog, time.Now())
		if c == nil {
			return advice{Advisory: true, Diagnostics: ds}, false
		}
		record := gate.Decide(&c.Action, nil, c.Facts)
		return advice{OK: true, Advisory: true, Decision: record.Decision, Reason: record.Reason, Record: record}, true
	}}.Handler()
	if err != nil {
		return nil, misuse("console.guardian.token: %s", err)
	}
	return handler, nil
}

// codec returns the configured codec endpoint, without its store, or nil if no token
// is configured.
func codec(settings config.Config) (*console.Codec, error) {
	token, err := settings.CodecToken()
	if err != nil {
		return nil, misuse("%s", err)
	}
	if token == "" {
		return nil, nil
	}
	sealing, err := host.Sealing(settings)
	if err != nil {
		return nil, misuse("%s", err)
	}
	endpoint := &console.Codec{Token: token, Origins: settings.Console.Codec.Origins, Keys: sealing.Keys}
	if _, err := endpoint.Handler(); err != nil { // before anything starts
		return nil, misuse("%s", err)
	}
	return endpoint, nil
}

func codecURL(l net.Listener) string { return "http://" + l.Addr().String() + "/codec" }

// devCodec is the codec endpoint of dev mode, for the web pages of its server. It is
// nil if no token is configured.
type devCodec struct {
	*console.Codec
	listener net.Listener
}

// devCodec listens on the endpoint's port. The server of the web pages is not
// configured with it: that would set the endpoint's address but not that requests
// carry credentials, and its users could then not set that either.
func (p *Program) devCodec(ctx context.Context, settings config.Config, anyPort bool) (*devCodec, error) {
	endpoint, err := codec(settings)
	if endpoint == nil || err != nil {
		return nil, err
	}
	name, _, err := net.SplitHostPort(settings.Console.Address)
	if err != nil {
		return nil, misuse("console.address %q is not host:port", printable(settings.Console.Address))
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", settings.Console.Address)
	if err != nil && anyPort {
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(name, "0"))
	}
	if err != nil {
		f := unanswered("the codec endpoint (console.address) cannot listen: %s", err)
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, f.withHint("%s", anyPortHint)
		}
		return nil, f
	}
	p.later(func() error {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	return &devCodec{endpoint, l}, nil
}

// serve serves until ctx ends. The pages of the Temporal server may call it.
func (c *devCodec) serve(ctx context.Context, p *Program, blobs blob.Store, ui string) error {
	if c == nil {
		return nil
	}
	c.Blobs = blobs
	c.Origins = append(slices.Clone(c.Origins), ui)
	if u, err := url.Parse(ui); err == nil { // people use either name
		c.Origins = append(c.Origins, "http://localhost:"+u.Port())
	}
	handler, err := c.Handler()
	if err != nil {
		return unanswered("%s", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- console.Serve(ctx, c.listener, handler) }()
	p.later(func() error {
		cancel()
		return <-done
	})
	p.say("codec      %s (open it in the browser once: it takes the token, and says what else there is to do)", codecURL(c.listener))
	return nil
}
