//go:build unix

package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
)

// A call that a dead server never got is provably unsent, and goes to the next one.
func TestUnsentCallsGoToTheNextServer(t *testing.T) {
	p := hostilePool(t, "ok")
	pid := pidOf(t, p)
	require.Contains(t, textOf(t, p, "deaf"), "I do not read")
	half := make(chan error, 1)
	go func() {
		_, err := call(t, p, "echo", `{"s":"`+strings.Repeat("x", 1<<20)+`"}`)
		half <- err
	}()
	require.Eventually(t, func() bool { return p.out(sent) == 1 }, bound, time.Millisecond)
	unsent := make(chan error, 1)
	go func() {
		_, err := call(t, p, "echo", "")
		unsent <- err
	}()
	require.Eventually(t, func() bool { return p.out(queued) == 1 }, bound, time.Millisecond)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	requireKind(t, contract.Transport, <-half)
	require.NoError(t, <-unsent)
}

// Two servers at a time might both hold what only one may.
func TestNextServerWaitsForTheEndOfTheLast(t *testing.T) {
	p := hostilePool(t, "ok", func(o *Options) { o.settle = soon })
	pid := pidOf(t, p)
	_, err := call(t, p, "close", "")
	requireKind(t, contract.Transport, err)
	require.Equal(t, "1", textOf(t, p, "count"))
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
}

func TestMany(t *testing.T) {
	p := hostilePool(t, "ok", func(o *Options) { o.MaxCalls = 64 })
	var all sync.WaitGroup
	for i := range 640 {
		all.Go(func() {
			got, err := call(t, p, "echo", fmt.Sprintf(`{"i":%d}`, i))
			if err != nil || string(got.Structured) != fmt.Sprintf(`{"i":%d}`, i) {
				t.Errorf("call %d: %s %v", i, got.Structured, err)
			}
		})
	}
	all.Wait()
}

func TestCap(t *testing.T) {
	p := hostilePool(t, "ok", func(o *Options) { o.MaxCalls = 3 })
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			if _, err := call(t, p, "meet:3", ""); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Equal(t, "3", textOf(t, p, "peak"))

	// A caller that waits for a slot gives up when its context ends, and
	// nothing was sent.
	ctx, cancel := context.WithCancel(t.Context())
	for range 3 {
		all.Go(func() { _, _ = p.Call(ctx, "h", "hang", nil) })
	}
	s := p.servers["h"]
	require.Eventually(t, func() bool { return len(s.calls) == 3 }, bound, time.Millisecond)
	users := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.tenants[Principal{}].users
	}
	err := late(t, func() bool { return users() == 4 }, calling(p, "count", ""))
	e := requireKind(t, contract.Unsent, err)
	require.Contains(t, e.Message, "waited for others")
	cancel()
	all.Wait()
}

func starts(t *testing.T, path string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	require.NoError(t, err)
	return strings.Count(string(b), "\n")
}

func TestOneStartForMany(t *testing.T) {
	file := filepath.Join(t.TempDir(), "starts")
	s := hostileServer(t, "ok")
	s.Env[startsVar] = file
	p := openPool(t, s, quiet)
	for round := range 3 {
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if _, err := call(t, p, "echo", ""); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.Equal(t, round+1, starts(t, file))
		_, err := call(t, p, "die", "")
		requireKind(t, contract.Transport, err)
	}
}

func TestFailingStartsAreSpaced(t *testing.T) {
	file := filepath.Join(t.TempDir(), "starts")
	s := hostileServer(t, "exits")
	s.Env[startsVar] = file
	o := quiet
	o.MaxBackoff = time.Hour
	p := openPool(t, s, o)
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	call := func() {
		if _, err := p.Call(ctx, "h", "echo", nil); failure(t, err).Kind != contract.Unsent {
			t.Error(err)
		}
	}
	var all sync.WaitGroup
	var enough atomic.Bool
	for range 20 {
		all.Go(func() {
			for !enough.Load() {
				call()
			}
		})
	}
	for ctx.Err() == nil && starts(t, file) < 3 {
		call()
	}
	enough.Store(true)
	all.Wait()
	// At 0, 0, 100, 300, 700 ms, and so on.
	most := 2
	for at := 100 * time.Millisecond; at <= time.Since(begun); at = 2*at + 100*time.Millisecond {
		most++
	}
	require.LessOrEqual(t, starts(t, file), most)
	require.GreaterOrEqual(t, starts(t, file), 3)
	var pauses []time.Duration
	for n := range 40 {
		s := server{failures: n, opts: Options{MaxBackoff: 5 * time.Second}}
		pauses = append(pauses, s.pause())
	}
	require.Equal(t, []time.Duration{0, 0, 100e6, 200e6, 400e6, 800e6, 1600e6, 3200e6, 5e9, 5e9}, pauses[:10])
	require.Equal(t, 5*time.Second, pauses[39])
}

func TestSlowStartOutlivesItsFirstCaller(t *testing.T) {
	dir := t.TempDir()
	s := hostileServer(t, "ok")
	s.Env[startsVar] = filepath.Join(dir, "starts")
	s.Env[gateVar] = filepath.Join(dir, "gate")
	p := openPool(t, s, quiet)
	err := late(t, func() bool { return starts(t, s.Env[startsVar]) == 1 }, calling(p, "count", ""))
	e := requireKind(t, contract.Unsent, err)
	require.Contains(t, e.Message, "while the server was starting")
	require.NoError(t, os.WriteFile(s.Env[gateVar], nil, 0o600))
	require.Equal(t, "1", textOf(t, p, "count"))
	require.Equal(t, 1, starts(t, s.Env[startsVar]))
}

func TestDeadBetweenCallsIsReplaced(t *testing.T) {
	p := hostilePool(t, "ok")
	dead := func() {
		t.Helper()
		within(t, func() { <-connOf(p).failed })
	}
	require.Equal(t, "last", textOf(t, p, "answer and die"))
	dead()
	require.Equal(t, "1", textOf(t, p, "count"))
	pid, err := strconv.Atoi(textOf(t, p, "pid"))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	dead()
	require.Equal(t, "1", textOf(t, p, "count"))
}

func TestEnvironment(t *testing.T) {
	t.Setenv("MCP_TEST_SECRET", "worker key")
	s := hostileServer(t, "ok")
	s.Env["OWN"] = "own value"
	s.Dir = t.TempDir()
	p := openPool(t, s, quiet)
	env := textOf(t, p, "env")
	require.NotContains(t, env, "worker key")
	require.Contains(t, env, "OWN=own value")
	require.Contains(t, env, "PATH=")
	dir, err := filepath.EvalSymlinks(s.Dir)
	require.NoError(t, err)
	require.Equal(t, dir, textOf(t, p, "dir"))
}

func TestNothingIsLogged(t *testing.T) {
	var mu sync.Mutex
	var log strings.Builder
	s := hostileServer(t, "ok")
	s.Env["TOKEN"] = "secret-env"
	o := quiet
	o.Logger = slog.New(slog.NewTextHandler(writer(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(b)
	}), &slog.HandlerOptions{Level: slog.LevelDebug}))
	p := openPool(t, s, o)
	_, err := call(t, p, "echo", `{"k":"secret-argument"}`)
	require.NoError(t, err)
	_, err = call(t, p, "raw", `{"result":{"isError":true,"content":[{"type":"text","text":"secret-result"}]}}`)
	require.Error(t, err)
	_, err = call(t, p, "die", "")
	require.Error(t, err)
	require.NoError(t, p.Close())
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, log.String(), "MCP server started")
	require.NotContains(t, log.String(), "secret")
	require.NotContains(t, log.String(), "dying words")
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

func TestGrandchildren(t *testing.T) {
	for _, how := range []string{"plain", "session", "pipes"} {
		for _, end := range []string{"close", "die"} {
			t.Run(how+" "+end, func(t *testing.T) {
				// The check for leaks is that of hostileServer.
				p := hostilePool(t, "ok")
				_, err := strconv.Atoi(textOf(t, p, "grandchild:"+how))
				require.NoError(t, err)
				if end == "die" {
					_, err := call(t, p, "die", "")
					requireKind(t, contract.Transport, err)
					require.Equal(t, "1", textOf(t, p, "count"))
				}
			})
		}
	}
}

// A process that tries everything to escape succeeds, and holds the pipes open, but
// nobody waits for it.
func TestEscapedPipeHolder(t *testing.T) {
	p := hostilePool(t, "ok", func(o *Options) { o.settle = soon })
	pid, err := strconv.Atoi(textOf(t, p, "grandchild:stray"))
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Kill(-pid, syscall.SIGKILL)) }()
	_, err = call(t, p, "die", "")
	requireKind(t, contract.Transport, err)
	require.Equal(t, "1", textOf(t, p, "count"))
	within(t, func() { require.NoError(t, p.Close()) })
}

// npx and its like start the server as a child of a child.
func TestWrapper(t *testing.T) {
	for name, script := range map[string]string{
		"waits":       `"$0" & wait`,
		"in a row":    `sh -c '"$0"; exit $?' "$0"; exit $?`,
		"deaf to all": `trap "" TERM HUP INT; sh -c 'trap "" TERM HUP INT; "$0"; sleep 600' "$0"; sleep 600`,
	} {
		t.Run(name, func(t *testing.T) {
			s := hostileServer(t, "stays")
			s.Command, s.Args = "/bin/sh", []string{"-c", script, s.Command}
			if name == "waits" {
				// A background job of a shell has no input of its own.
				s.Args[1] = `exec 3<&0; "$0" <&3 & wait`
			}
			p := openPool(t, s, quiet)
			require.Equal(t, "1", textOf(t, p, "count"))
		})
	}
}

func TestClose(t *testing.T) {
	t.Run("unused", func(t *testing.T) {
		require.NoError(t, hostilePool(t, "ok").Close())
	})
	t.Run("with calls in flight", func(t *testing.T) {
		p := hostilePool(t, "stays")
		failed := make(chan error, 1)
		go func() {
			_, err := call(t, p, "meet:2", "")
			failed <- err
		}()
		require.Eventually(t, func() bool { return textOf(t, p, "peak") == "1" }, bound, time.Millisecond)
		require.NoError(t, p.Close())
		requireKind(t, contract.Transport, <-failed)
		_, err := call(t, p, "count", "")
		requireKind(t, contract.Unsent, err)
		require.NoError(t, p.Close())
	})
	t.Run("while starting", func(t *testing.T) {
		dir := t.TempDir()
		s := hostileServer(t, "hangs")
		s.Env[startsVar] = filepath.Join(dir, "starts")
		p := openPool(t, s, quiet)
		failed := make(chan error, 1)
		go func() {
			_, err := call(t, p, "count", "")
			failed <- err
		}()
		require.Eventually(t, func() bool { return starts(t, s.Env[startsVar]) == 1 }, bound, time.Millisecond)
		within(t, func() { require.NoError(t, p.Close()) })
		requireKind(t, contract.Unsent, <-failed)
	})
}

// TestUnavailable: a server that is not available is neither started nor dialled, and each call says why.
func TestUnavailable(t *testing.T) {
	started := filepath.Join(t.TempDir(), "started")
	p := openPool(t, Server{Command: "touch", Args: []string{started}, Unavailable: "the variable KEY is not set"}, quiet)
	_, err := call(t, p, "echo", `{}`)
	e := requireKind(t, contract.Auth, err)
	require.Equal(t, "MCP server h is not available: the variable KEY is not set", e.Message)
	_, err = p.Tools(t.Context(), "h")
	requireKind(t, contract.Auth, err)
	require.NoError(t, Server{Unavailable: "x"}.Check())
	_, err = Server{Unavailable: "x"}.Endpoint()
	require.EqualError(t, err, "x")
	require.NoFileExists(t, started)
}
