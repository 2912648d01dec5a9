package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"go.temporal.io/api/serviceerror"
	sdk "go.temporal.io/sdk/client"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/client"
	"chimera.ai/engine/config"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/store"
)

const (
	// dialTimeout bounds the first contact with the server: an absent server is
	// reported within seconds.
	dialTimeout = 5 * time.Second
	// callTimeout bounds any other call.
	callTimeout = 10 * time.Second
)

// fallbackAddress is the server's address if neither it nor the port of chimera dev
// is configured. Tests set it to an address where no server can be, since one may
// run on the machine.
var fallbackAddress = "localhost:" + strconv.Itoa(config.DevPort)

// fallback returns the address of a chimera dev with this configuration, in any folder.
func fallback(dev config.Dev) string {
	if dev.Port == 0 || dev.Port == config.DevPort {
		return fallbackAddress
	}
	return "localhost:" + strconv.Itoa(dev.Port)
}

// connection is a client and what it is connected to.
type connection struct {
	sdk.Client
	address, namespace string
	// ui is the address of the web pages, or "".
	ui    string
	place *place
	// runs is the client of runs.
	runs *client.Client
	// sealing and blobs are those of the client.
	sealing payload.Sealing
	blobs   blob.Store
}

// page is the address of a run's web page, or "".
func (c *connection) page(workflow, run string) string {
	return devserver.WebRun(c.ui, c.namespace, workflow, run)
}

// connect connects to the server that the configuration names, or to the dev
// server of this folder.
func (p *Program) connect(ctx context.Context) (*connection, error) {
	settings, err := p.settings()
	if err != nil {
		return nil, err
	}
	options, err := settings.Client()
	if err != nil {
		return nil, misuse("%s", err)
	}
	at, err := p.placeOf(settings)
	if err != nil {
		return nil, err
	}
	conn := &connection{place: at}
	hint := "Check temporal.address, and that the server runs."
	if options.HostPort == "" {
		hint = "Start one with chimera dev, or set temporal.address (CHIMERA_TEMPORAL_ADDRESS)."
		if l := at.local; l != nil {
			options = sdk.Options{HostPort: l.Address, Namespace: l.Namespace}
			conn.ui = l.UI
		} else {
			options.HostPort = fallback(settings.Dev)
		}
	}
	conn.address, conn.namespace = options.HostPort, options.Namespace
	return conn, p.dial(ctx, conn, options, host.ClientSealing(settings), hint)
}

func (p *Program) dial(ctx context.Context, conn *connection, options sdk.Options, sealing payload.Sealing, hint string) error {
	bounded, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	blobs := &values{at: conn.place, turn: make(chan struct{}, 1)}
	p.later(blobs.close)
	c, err := host.Dial(bounded, options, blobs, sealing, slog.New(slog.DiscardHandler))
	if err != nil {
		return unanswered("no Temporal server answers at %s: %s", options.HostPort, plainError(err)).withHint("%s", hint)
	}
	p.later(func() error { c.Close(); return nil })
	conn.sealing, conn.blobs = sealing, blobs
	p.attach(conn, c)
	return nil
}

// values is the deployment's store of large values. It is opened on first use: most
// commands need none, and must show runs even while the store is away.
type values struct {
	at     *place
	turn   chan struct{}
	opened blob.Store
	done   func() error
}

var _ blob.Store = (*values)(nil)

func (v *values) open(ctx context.Context) (blob.Store, error) {
	select {
	case v.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("open the store: %w", ctx.Err())
	}
	defer func() { <-v.turn }()
	if v.opened != nil {
		return v.opened, nil
	}
	if err := v.at.checkFiles(); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var err error
	v.opened, v.done, err = store.OpenBlobs(bounded, v.at.store)
	return v.opened, err
}

// Put implements [blob.Store].
func (v *values) Put(ctx context.Context, b []byte) (string, error) {
	s, err := v.open(ctx)
	if err != nil {
		return "", err
	}
	return s.Put(ctx, b)
}

// Get implements [blob.Store].
func (v *values) Get(ctx context.Context, digest string) ([]byte, error) {
	s, err := v.open(ctx)
	if err != nil {
		return nil, err
	}
	return s.Get(ctx, digest)
}

// Check implements [blob.Store].
func (v *values) Check(ctx context.Context) error {
	s, err := v.open(ctx)
	if err != nil {
		return err
	}
	return s.Check(ctx)
}

func (v *values) close() error {
	if v.done == nil {
		return nil
	}
	return v.done()
}

// plainError describes the failure of a client that tried several times.
func plainError(err error) string {
	if isLate(err) {
		return "no answer in time"
	}
	return err.Error()
}

// isLate reports whether a call timed out, on our side or on the server's.
func isLate(err error) bool {
	var late *serviceerror.DeadlineExceeded
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &late)
}

// maxSealed bounds the unsealed message of a failure, in bytes.
const maxSealed = 1 << 20

// attach attaches a Temporal client to a connection.
func (p *Program) attach(conn *connection, c sdk.Client) {
	conn.Client = c
	conn.runs = client.New(c, client.Options{
		Namespace: conn.namespace, Identity: p.Name, Codec: payload.Codec{Keys: conn.sealing.Keys, Limit: maxSealed}, Command: p.command,
	})
}

// failed converts an error of package client.
func (c *connection) failed(err error) error {
	var call *client.CallError
	var absent *client.NotFoundError
	var foreign *client.TypeError
	var ended *client.EndedError
	switch {
	case errors.As(err, &call):
		return c.refused(call.What, call.Err)
	case errors.As(err, &absent):
		return negative("there is no run %s in the namespace %s at %s", absent.Run, absent.Namespace, c.address).withHint("chimera runs lists those that are there.")
	case errors.As(err, &foreign):
		return negative("%s", foreign)
	case errors.As(err, &ended):
		return negative("the run %s %s already", ended.Run, verb(ended.State))
	}
	return err
}

// refused converts the error of a call; what describes the call.
func (c *connection) refused(what string, err error) *failure {
	var missing *serviceerror.NamespaceNotFound
	var absent *serviceerror.NotFound
	var denied *serviceerror.PermissionDenied
	var invalid *serviceerror.InvalidArgument
	switch {
	case errors.As(err, &missing):
		return unanswered("%s: there is no namespace %s at %s", what, c.namespace, c.address)
	case errors.As(err, &absent):
		return negative("%s: %s", what, absent.Message)
	case errors.As(err, &denied):
		return unanswered("%s: permission denied at %s", what, c.address)
	case errors.As(err, &invalid):
		return negative("%s: %s", what, invalid.Message)
	case isLate(err):
		return unanswered("%s: Temporal at %s did not answer in time", what, c.address).withHint("Its log says why.")
	}
	return unanswered("%s: %s", what, err)
}

func verb(s contract.RunState) string {
	switch s {
	case contract.RunSucceeded:
		return "has succeeded"
	case contract.RunCancelled:
		return "was cancelled"
	case contract.RunFailed:
		return "has failed"
	case contract.RunLoading, contract.RunRunning:
		return "is running"
	case contract.RunPaused:
		return "is paused"
	case client.Terminated:
		return "was terminated"
	case client.TimedOut:
		return "has timed out"
	}
	return "is " + string(s)
}
