package siege

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

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/host"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/store"
)

// envWorker makes the test binary a worker process.
const envWorker = "CHIMERA_SIEGE_WORKER"

type setting struct {
	Address string
	Store   store.Options
	// Key seals payloads; "" leaves them plain.
	Key string
	// Dir has gates, and counts of calls.
	Dir string
	// Engine: the worker has no tools.
	Engine bool
}

// Worker runs a worker, or a tool, and reports true, where the process is to be
// one. TestMain calls it.
func Worker() bool {
	if os.Getenv(envTool) != "" {
		if err := echo(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return true
	}
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
	var sealing payload.Sealing
	if s.Key != "" {
		var err error
		if sealing.Keys, err = payload.ParseKeys([]string{s.Key}); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o, err := Tools()
	if err != nil {
		return err
	}
	o.Dev = true // its tool is this program, which another user need not reach
	o.Client, o.Store, o.Sealing, o.Skills = client.Options{HostPort: s.Address}, s.Store, sealing, Skills(s.Dir)
	// Calls that wait for what another node does may not take up the whole worker.
	o.MaxActivities = 1000
	o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	if s.Engine {
		o.Roles, o.Executables = []host.Role{host.RoleEngine}, nil
	}
	h, err := host.New(ctx, o)
	if err != nil {
		return err
	}
	defer h.Close()
	return h.Run(ctx)
}

// garrison is a worker process that can be killed and started again.
type garrison struct {
	t       testing.TB
	setting string
	// log is the file with all that the workers say.
	log *os.File
	// second is another one, or nil, which nobody kills.
	second *garrison

	mu  sync.Mutex
	cmd *exec.Cmd
	// done is closed when the process has ended.
	done chan struct{}
}

func newGarrison(t testing.TB, address string, keep *Keep, key, dir string, engine bool) *garrison {
	raw, err := json.Marshal(setting{Address: address, Store: keep.Options, Key: key, Dir: dir, Engine: engine})
	require.NoError(t, err)
	log, err := os.Create(filepath.Join(t.TempDir(), "worker.log"))
	require.NoError(t, err)
	g := &garrison{t: t, setting: string(raw), log: log}
	require.NoError(t, g.start())
	t.Cleanup(func() {
		g.kill()
		require.NoError(t, log.Close())
	})
	return g
}

func (g *garrison) start() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	cmd, done := exec.Command(os.Args[0]), make(chan struct{})
	cmd.Env = append(os.Environ(), envWorker+"="+g.setting)
	cmd.Stdout, cmd.Stderr = g.log, g.log
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	g.cmd, g.done = cmd, done
	return nil
}

func (g *garrison) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cmd != nil {
		_ = g.cmd.Process.Kill()
		<-g.done
		g.cmd = nil
	}
}

// fallen reports whether the worker, or its second, has ended by itself.
func (g *garrison) fallen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cmd != nil {
		select {
		case <-g.done:
			return true
		default:
		}
	}
	return g.second != nil && g.second.fallen()
}

// said gives the end of what the workers said.
func (g *garrison) said(n int64) string {
	info, err := g.log.Stat()
	if err != nil {
		return err.Error()
	}
	b := make([]byte, min(n, info.Size()))
	_, _ = g.log.ReadAt(b, info.Size()-int64(len(b)))
	return string(b)
}
