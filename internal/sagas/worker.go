package sagas

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// envWorker makes the test binary a worker process.
const envWorker = "CHIMERA_SAGAS_WORKER"

// setting is what a worker process is told.
type setting struct {
	Address     string
	Store       store.Options
	Bootstrap   json.RawMessage
	GuardianKey string
	// Dir has the journals.
	Dir           string
	ContinueAfter int
}

// Worker runs a worker, and reports true, where the process is to be one. TestMain calls it.
func Worker() bool {
	raw := os.Getenv(envWorker)
	if raw == "" {
		return false
	}
	if err := work([]byte(raw)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func work(raw []byte) error {
	var s setting
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("read %s: %w", envWorker, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o host.Options
	var err error
	if o.Catalog, o.Policy, err = rules(); err != nil {
		return err
	}
	if o.Trust, err = trust.ParseBootstrap(s.Bootstrap); err != nil {
		return err
	}
	if o.GuardianKey, err = trust.ParseKey([]byte(s.GuardianKey)); err != nil {
		return err
	}
	o.Dev, o.Roles, o.Drain = true, host.Roles(), time.Millisecond
	o.Client, o.Store, o.ContinueAfter = client.Options{HostPort: s.Address}, s.Store, s.ContinueAfter
	o.Executables = map[string]skills.Executable{"book": {Command: "/bin/sh", Args: []string{"-c", tool, "book"}, Env: map[string]string{"DIR": s.Dir}, MaxMemory: -1}}
	o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	h, err := host.New(ctx, o)
	if err != nil {
		return err
	}
	defer h.Close()
	return h.Run(ctx)
}

// rules are what the operator says of the tool.
func rules() (*catalog.Catalog, *policy.Bundle, error) {
	operations, ds := compiler.ParseCatalog(compiler.Source{Name: "catalog.yaml", Text: []byte(toolCatalog)})
	if ds.HasErrors() {
		return nil, nil, fmt.Errorf("the catalog: %v", ds)
	}
	bundle, ds := policy.Parse(compiler.Source{Name: "policy.yaml", Text: []byte(toolPolicy)})
	if ds.HasErrors() {
		return nil, nil, fmt.Errorf("the policy: %v", ds)
	}
	return operations, bundle, nil
}

// deployment is a deployment with a worker process, which is started again whenever it ends.
type deployment struct {
	*stage.Deployment
	opened *store.Opened
	c      client.Client
	dir    string
	log    *os.File
	raw    string

	mu sync.Mutex
	// deaths counts how often the process has ended.
	deaths int
	cmd    *exec.Cmd
	over   bool
	ended  chan struct{}
}

// deploy starts a deployment of its own on the test's Temporal server.
func deploy(t *testing.T, continueAfter int) *deployment {
	t.Helper()
	server := stage.Temporal(t)
	var o host.Options
	d := &deployment{Deployment: stage.Deploy(t, &o), dir: t.TempDir(), ended: make(chan struct{})}
	options := store.Options{Dir: filepath.Join(t.TempDir(), "store"), Key: d.LogKey}
	var err error
	d.opened, err = store.Open(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.opened.Close()) })
	d.Begin(t, d.opened.Ledger)
	d.c, err = host.Dial(t.Context(), client.Options{HostPort: server.Address, Logger: slog.New(slog.DiscardHandler)}, d.opened.Blobs, payload.Sealing{}, nil)
	require.NoError(t, err)
	t.Cleanup(d.c.Close)
	root, err := json.Marshal(d.Root)
	require.NoError(t, err)
	raw, err := json.Marshal(setting{Address: server.Address, Store: options, Bootstrap: root, GuardianKey: d.GuardianKey, Dir: d.dir, ContinueAfter: continueAfter})
	require.NoError(t, err)
	d.raw = string(raw)
	d.log, err = os.Create(filepath.Join(t.TempDir(), "worker.log"))
	require.NoError(t, err)
	go d.keep()
	t.Cleanup(func() {
		d.mu.Lock()
		d.over = true
		if d.cmd != nil {
			_ = d.cmd.Process.Kill()
		}
		d.mu.Unlock()
		<-d.ended
		require.NoError(t, d.log.Close())
	})
	return d
}

// keep runs the worker process until the deployment ends.
func (d *deployment) keep() {
	defer close(d.ended)
	for {
		d.mu.Lock()
		if d.over {
			d.mu.Unlock()
			return
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envWorker+"="+d.raw)
		cmd.Stdout, cmd.Stderr = d.log, d.log
		err := cmd.Start()
		if err == nil {
			d.cmd = cmd
		}
		d.mu.Unlock()
		if err != nil {
			fmt.Fprintln(d.log, err)
			return
		}
		_ = cmd.Wait()
		d.mu.Lock()
		d.cmd = nil
		d.deaths++
		d.mu.Unlock()
	}
}

// kill kills the worker process.
func (d *deployment) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cmd != nil {
		_ = d.cmd.Process.Kill()
	}
}

func (d *deployment) died() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.deaths
}
