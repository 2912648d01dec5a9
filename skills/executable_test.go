//go:build unix

package skills

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/process"
)

// The test binary is also the program that the tests call.
const programVar = "SKILLS_TEST_PROGRAM"

// bound is far more time than any of these tests needs, and far less than forever.
const bound = 5 * time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(programVar) != "" {
		act(os.Args[1:])
		syscall.Exit(0) // a test binary that measures coverage says more on standard error when it ends by os.Exit
	}
	os.Exit(m.Run())
}

// readyVar names the file that a program makes once it has begun to wait.
const readyVar = "SKILLS_TEST_READY"

func ready() { _ = os.WriteFile(os.Getenv(readyVar), nil, 0o600) }

func act(args []string) {
	operation := args[len(args)-1]
	name, rest, _ := strings.Cut(operation, ".")
	n, _ := strconv.Atoi(rest)
	say := func(format string, a ...any) { fmt.Printf(format, a...) }
	complain := func(format string, a ...any) { fmt.Fprintf(os.Stderr, format, a...) }
	switch name {
	case "echo":
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "args":
		raw, _ := json.Marshal(args)
		say("%s\n", raw)
	case "env":
		raw, _ := json.Marshal(os.Environ())
		say("%s", raw)
	case "dir":
		dir, _ := os.Getwd()
		say("%q", dir)
	case "ignores-input":
		say(`{"ok":true}`)
	case "exit":
		complain("first line\nno luck today\n")
		syscall.Exit(n)
	case "silent":
		syscall.Exit(1)
	case "error":
		say(`{"error":{"message":"no such account","details":{"n":9007199254740993}}}` + "\n")
		syscall.Exit(n)
	case "odderror":
		complain("said on stderr")
		say(`{"error":"text"}`)
		syscall.Exit(1)
	case "doubleerror":
		complain("said on stderr")
		say(`{"error":{"message":"a"},"error":{"message":"b"}}`)
		syscall.Exit(1)
	case "longerror":
		say(`{"error":{"message":"%s","details":"%s"}}`, strings.Repeat("é", maxMessage), strings.Repeat("x", maxDetails))
		syscall.Exit(1)
	case "nothing":
	case "text":
		say("hello")
	case "two":
		say("{}\n{}")
	case "twice":
		say(`{"a":1,"a":2}`)
	case "half":
		say(`{"a":`)
	case "bytes":
		say("\"\xff\"")
	case "deep":
		say("%s%s", strings.Repeat("[", 5000), strings.Repeat("]", 5000))
	case "big":
		say(" {\"n\":9007199254740993}\n\n")
	case "length":
		say(`"%s"`, strings.Repeat("x", n-2))
	case "flood":
		for {
			say("%s", strings.Repeat("x", 4096))
		}
	case "floodon":
		signal.Ignore(syscall.SIGPIPE)
		for {
			say("%s", strings.Repeat("x", 4096))
		}
	case "stderr":
		for range n {
			complain("%s\n", strings.Repeat("x", 99))
		}
		complain("the end\n")
		say("7")
	case "hang":
		complain("about to wait\n")
		ready()
		select {}
	case "stubborn":
		_ = exec.Command("/bin/sh", "-c", `trap "" TERM HUP INT; sleep 600`).Start()
		ready()
		select {}
	case "crash":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "leave":
		// Leaves a child that holds the pipes open.
		child := exec.Command("/bin/sh", "-c", `trap "" TERM HUP INT; sleep 600`)
		child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
		if rest == "session" {
			child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		}
		if rest == "unmarked" {
			child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			child.Env = []string{"SKILLS_TEST_STRAY=" + os.Getenv("SKILLS_TEST_TAG")}
		}
		if err := child.Start(); err != nil {
			complain("%v", err)
			syscall.Exit(1)
		}
		say("%d", child.Process.Pid)
	}
}

func executable(t *testing.T) Executable {
	t.Helper()
	return Executable{Command: os.Args[0], Env: map[string]string{programVar: "1", "SKILLS_TEST_TAG": t.Name()}}
}

func run(t *testing.T, e Executable, operation, input string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	out, err := e.Call(ctx, operation, json.RawMessage(input))
	if err != nil {
		require.Nil(t, out)
	}
	return string(out), err
}

func TestCall(t *testing.T) {
	e := executable(t)
	big := `{"s":"` + strings.Repeat("x", 1<<20) + `"}`
	for _, input := range []string{`{}`, `{"n":9007199254740993}`, big} {
		out, err := run(t, e, "echo", input)
		require.NoError(t, err)
		require.Equal(t, input, out)
	}
	out, err := run(t, e, "ignores-input", big)
	require.NoError(t, err)
	require.Equal(t, `{"ok":true}`, out)
	out, err = run(t, e, "big", `{}`)
	require.NoError(t, err)
	require.Equal(t, `{"n":9007199254740993}`, out)

	e.Args = []string{"--strict", "-c"}
	out, err = run(t, e, "args", `{}`)
	require.NoError(t, err)
	require.Equal(t, `["--strict","-c","args"]`, out)

	e.Dir = t.TempDir()
	dir, err := filepath.EvalSymlinks(e.Dir)
	require.NoError(t, err)
	out, err = run(t, e, "dir", `{}`)
	require.NoError(t, err)
	require.JSONEq(t, strconv.Quote(dir), out)
}

func TestCleanEnvironment(t *testing.T) {
	t.Setenv("SKILLS_TEST_SECRET", "worker key")
	out, err := run(t, executable(t), "env", `{}`)
	require.NoError(t, err)
	require.NotContains(t, out, "worker key")
	require.Contains(t, out, programVar+"=1")
}

func TestFailures(t *testing.T) {
	for operation, c := range map[string]struct {
		kind    contract.Kind
		message string
		details string
	}{
		"exit.3":      {contract.ToolError, "skill exit.3: exit status 3: no luck today", `{"exit_code":3,"state":"exit status 3","stderr":"first line\nno luck today\n"}`},
		"silent":      {contract.ToolError, "skill silent: exit status 1: it did not say why", `{"exit_code":1,"state":"exit status 1"}`},
		"error.1":     {contract.ToolError, "skill error.1: no such account", `{"n":9007199254740993}`},
		"odderror":    {contract.ToolError, "skill odderror: exit status 1: said on stderr", ""},
		"doubleerror": {contract.ToolError, "skill doubleerror: exit status 1: said on stderr", ""},
		"longerror":   {contract.ToolError, "skill longerror: " + strings.Repeat("é", maxMessage/2) + "…", ""},
		"crash":       {contract.Transport, "skill crash: signal: killed: it did not say why", `{"exit_code":-1,"state":"signal: killed"}`},
		"nothing":     {contract.InvalidOutput, "", `{"exit_code":0,"state":"exit status 0"}`},
		"text":        {contract.InvalidOutput, "", ""},
		"two":         {contract.InvalidOutput, "", ""},
		"twice":       {contract.InvalidOutput, "", ""},
		"half":        {contract.InvalidOutput, "", ""},
		"bytes":       {contract.InvalidOutput, "", ""},
		"deep":        {contract.TooLarge, "", ""},
		"length.1025": {contract.TooLarge, "standard output is over 1024 bytes", ""},
		"flood":       {contract.TooLarge, "standard output is over 1024 bytes", ""},
		"floodon":     {contract.TooLarge, "standard output is over 1024 bytes", ""},
		"error.0":     {"", "", ""},
		"length.1024": {"", "", ""},
		"../../evil":  {contract.Contract, "not the name of an operation", ""},
		"-rf":         {contract.Contract, "not the name of an operation", ""},
		"":            {contract.Contract, "not the name of an operation", ""},
	} {
		t.Run(operation, func(t *testing.T) {
			e := executable(t)
			if c.kind != contract.ToolError && operation != "deep" {
				e.MaxOutput = 1024
			}
			_, err := run(t, e, operation, `{}`)
			if c.kind == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, c.kind, kindOf(t, err), err)
			require.ErrorContains(t, err, c.message)
			var got *contract.Error
			require.ErrorAs(t, err, &got)
			if c.details != "" {
				require.Equal(t, c.details, string(got.Details))
			}
			require.LessOrEqual(t, len(got.Details), maxDetails)
		})
	}
}

func TestStderrIsBounded(t *testing.T) {
	out, err := run(t, executable(t), "stderr.20000", `{}`)
	require.NoError(t, err)
	require.Equal(t, "7", out)
}

func TestUnsent(t *testing.T) {
	ended, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, err := executable(t).Call(ended, "echo", nil)
	require.Equal(t, contract.Unsent, kindOf(t, err))
	for name, e := range map[string]Executable{
		"no program": {Command: "/no/such/program"},
		"no folder":  {Command: os.Args[0], Dir: "/no/such/folder"},
		"bad name":   {Command: os.Args[0], Env: map[string]string{"A=B": ""}},
	} {
		_, err := run(t, e, "echo", `{}`)
		require.Equal(t, contract.Unsent, kindOf(t, err), name)
	}
}

// ending is a context that ends when a test says so, with an error of its choice.
type ending struct {
	context.Context
	done chan struct{}
	err  error
}

func (e *ending) Done() <-chan struct{} { return e.done }

func (e *ending) Err() error {
	select {
	case <-e.done:
		return e.err
	default:
		return nil
	}
}

// stuck calls a program that waits for ever, ends the call's context once it does,
// and returns the call's error.
func stuck(t *testing.T, operation string, end error) error {
	e := executable(t)
	e.Env[readyVar] = filepath.Join(t.TempDir(), "ready")
	ctx := &ending{Context: t.Context(), done: make(chan struct{}), err: end}
	failed := make(chan error, 1)
	go func() {
		_, err := e.Call(ctx, operation, json.RawMessage(`{}`))
		failed <- err
	}()
	require.Eventually(t, func() bool {
		_, err := os.Stat(e.Env[readyVar])
		return err == nil
	}, bound, time.Millisecond)
	close(ctx.done)
	return <-failed
}

func TestDeadline(t *testing.T) {
	for _, operation := range []string{"hang", "stubborn"} {
		err := stuck(t, operation, context.DeadlineExceeded)
		require.Equal(t, contract.Timeout, kindOf(t, err))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		if operation == "hang" {
			var got *contract.Error
			require.ErrorAs(t, err, &got)
			require.Contains(t, string(got.Details), "about to wait")
		}
	}
	require.Equal(t, contract.Cancelled, kindOf(t, stuck(t, "hang", context.Canceled)))
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !process.LimitsMemory
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestNothingIsLeft(t *testing.T) {
	for _, operation := range []string{"leave", "leave.session"} {
		out, err := run(t, executable(t), operation, `{}`)
		require.NoError(t, err)
		pid, err := strconv.Atoi(out)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return !alive(pid) }, bound, 5*time.Millisecond)
	}
}

// A process that takes every step to get away does, but the call does not wait
// for it.
func TestEscapedPipeHolder(t *testing.T) {
	out, err := run(t, executable(t), "leave.unmarked", `{}`)
	require.NoError(t, err)
	pid, err := strconv.Atoi(out)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(-pid, syscall.SIGKILL))
}

// The bound is tried with small programs of the system: the test binary itself
// may have been built with the race detector, which needs a lot.
func TestMemoryBound(t *testing.T) {
	e := Executable{Command: "/bin/sh", Args: []string{"-c", "head -c 200000000 /dev/zero | tail -c 150000000 | wc -c"}}
	if !process.LimitsMemory {
		e.MaxMemory = 1 << 30
		_, err := run(t, e, "count", `{}`)
		require.Equal(t, contract.Unsent, kindOf(t, err))
		return
	}
	for memory, want := range map[int64]string{0: "150000000", -1: "150000000", 1 << 30: "150000000", 64 << 20: "0"} {
		e.MaxMemory = memory
		out, err := run(t, e, "count", `{}`)
		require.NoError(t, err)
		require.Equal(t, want, out, "%d bytes", memory)
	}
}

func TestParallelCalls(t *testing.T) {
	e := executable(t)
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			in := fmt.Sprintf(`{"i":%d}`, i)
			if out, err := run(t, e, "echo", in); err != nil || out != in {
				t.Errorf("%s: %s %v", in, out, err)
			}
		})
	}
	all.Wait()
}
