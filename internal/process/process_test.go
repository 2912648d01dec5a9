//go:build unix

package process

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The test binary is also the parent that is killed in TestKilledParent.
const parentVar = "PROCESS_TEST_PARENT"

func TestMain(m *testing.M) {
	if script := os.Getenv(parentVar); script != "" {
		p, err := Start(Spec{Command: "/bin/sh", Args: []string{"-c", script}, Guard: os.Getenv("PROCESS_TEST_GUARD") != "", User: os.Getenv("PROCESS_TEST_USER")})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		_, _ = io.Copy(os.Stdout, p.Stdout)
		select {}
	}
	os.Exit(m.Run())
}

func shell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(Spec{Command: "/bin/sh", Args: []string{"-c", script}})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, p.Stop(0))
		p.closePipes()
	})
	return p
}

// alive reports whether a process runs; a dead one that nobody reaped does not.
func alive(pid int) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func gone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { return !alive(pid) }, 5*time.Minute, 5*time.Millisecond, "process %d", pid)
}

// pids reads the numbers that a script prints, one a line.
func pids(t *testing.T, r io.Reader, n int) []int {
	t.Helper()
	lines := bufio.NewScanner(r)
	var list []int
	for len(list) < n && lines.Scan() {
		pid, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
		require.NoError(t, err)
		require.True(t, alive(pid), "process %d is not there to begin with", pid)
		list = append(list, pid)
	}
	require.Len(t, list, n)
	return list
}

func TestEnviron(t *testing.T) {
	t.Setenv("PROCESS_TEST_SECRET", "worker key")
	t.Setenv("LANG", "C")
	env, err := Environ(map[string]string{"LANG": "de_CH", "TOKEN": "a=b"})
	require.NoError(t, err)
	require.Contains(t, env, "LANG=de_CH")
	require.Contains(t, env, "TOKEN=a=b")
	require.NotContains(t, strings.Join(env, "\n"), "worker key")

	for _, name := range []string{"", "A=B", "A\x00", markName} {
		_, err := Environ(map[string]string{name: "x"})
		require.Error(t, err, "%q", name)
	}
	_, err = Environ(map[string]string{"A": "secret\x00"})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}

func TestStartFails(t *testing.T) {
	for name, s := range map[string]Spec{
		"no such command": {Command: "/no/such/program"},
		"no such folder":  {Command: "/bin/sh", Dir: "/no/such/folder"},
		"not a program":   {Command: "/etc/hosts"},
		"bad environment": {Command: "/bin/sh", Env: map[string]string{"A=": ""}},
		"bad bound":       {Command: "/bin/sh", Memory: -1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Start(s)
			require.Error(t, err)
		})
	}
}

func TestEnvironmentIsExplicit(t *testing.T) {
	t.Setenv("PROCESS_TEST_SECRET", "worker key")
	p := shell(t, "env")
	out, err := io.ReadAll(p.Stdout)
	require.NoError(t, err)
	require.NotContains(t, string(out), "worker key")
	require.Contains(t, string(out), "PATH=")
}

func TestStop(t *testing.T) {
	for name, script := range map[string]string{
		"ends with its input": "read x",
		"ends on SIGTERM":     "trap 'exit 0' TERM; while :; do sleep 0.01; done",
		"ignores SIGTERM":     "trap '' TERM; while :; do sleep 0.01; done",
	} {
		t.Run(name, func(t *testing.T) {
			p := shell(t, "echo $$; "+script)
			pid := pids(t, p.Stdout, 1)[0]
			require.Equal(t, p.PID, pid)
			require.NoError(t, p.Stop(50*time.Millisecond))
			require.False(t, alive(pid))
			require.NoError(t, p.Stop(0))
		})
	}
}

func TestNothingIsLeft(t *testing.T) {
	for name, script := range map[string]string{
		"a child":                      "sleep 600 & echo $!; read x",
		"a child of a child":           "sh -c 'sleep 600 & echo $!; wait' & read x",
		"a child whose parent is gone": "(sleep 600 & echo $!); read x",
		"one in a session of its own":  "setsid sh -c 'echo $$; trap \"\" TERM HUP; sleep 600; sleep 600' & read x",
		"one left by a normal end":     "sleep 600 & echo $!; exec >&-; read -r x",
	} {
		t.Run(name, func(t *testing.T) {
			p := shell(t, script)
			pid := pids(t, p.Stdout, 1)[0]
			require.NoError(t, p.Stop(50*time.Millisecond))
			gone(t, pid)
		})
	}
}

func TestKilledParent(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		guard  bool
		pids   int
	}{
		"the child dies":         {"echo $$; exec sleep 600", false, 1},
		"its own child dies too": {"echo $$; sleep 600 & echo $!; wait", true, 2},
		"even one that left":     {"echo $$; setsid sh -c 'echo $$; exec sleep 600' & wait", true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			parent := exec.Command(os.Args[0])
			parent.Env = append(os.Environ(), parentVar+"="+c.script)
			if c.guard {
				parent.Env = append(parent.Env, "PROCESS_TEST_GUARD=1")
			}
			out, err := parent.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, parent.Start())
			list := pids(t, out, c.pids)
			require.NoError(t, parent.Process.Kill())
			_ = parent.Wait()
			for _, pid := range list {
				gone(t, pid)
			}
		})
	}
}

// A thread's end must not be taken for the end of this process.
func TestChildOutlivesTheThreadThatAsked(t *testing.T) {
	type result struct {
		p      *Process
		thread int
		err    error
	}
	started := make(chan result)
	var ask func()
	ask = func() {
		runtime.LockOSThread()
		if threadID() == os.Getpid() {
			// The first thread never ends. While it is held here, another takes over.
			go ask()
			<-t.Context().Done()
			runtime.UnlockOSThread()
			return
		}
		p, err := Start(Spec{Command: "cat"})
		started <- result{p, threadID(), err}
		// Ending without unlocking ends the thread.
	}
	go ask()
	r := <-started
	require.NoError(t, r.err)
	defer r.p.closePipes()
	require.Eventually(t, func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", r.thread))
		return err != nil
	}, 5*time.Minute, time.Millisecond)
	_, err := io.WriteString(r.p.Stdin, "still here\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(r.p.Stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "still here\n", line)
	require.NoError(t, r.p.Stop(time.Second))
}

// TestChildOutlivesOtherThreads: whoever ends threads, as code that has locked them
// does, ends none that a child depends on.
func TestChildOutlivesOtherThreads(t *testing.T) {
	p, err := Start(Spec{Command: "cat"})
	require.NoError(t, err)
	defer p.closePipes()
	var all sync.WaitGroup
	for range 200 {
		all.Go(runtime.LockOSThread)
	}
	all.Wait()
	_, err = io.WriteString(p.Stdin, "still here\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(p.Stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "still here\n", line)
	require.NoError(t, p.Stop(time.Second))
}

func TestMemory(t *testing.T) {
	if !LimitsMemory {
		_, err := Start(Spec{Command: "/bin/sh", Memory: 1 << 30})
		require.ErrorContains(t, err, "not supported yet")
		return
	}
	run := func(memory int64) *os.ProcessState {
		p, err := Start(Spec{Command: "/bin/sh", Args: []string{"-c", `head -c 200000000 /dev/zero | tail -c 150000000 | wc -c`}, Memory: memory})
		require.NoError(t, err)
		defer p.closePipes()
		out, err := io.ReadAll(p.Stdout)
		require.NoError(t, err)
		if memory == 0 {
			require.Equal(t, "150000000", strings.TrimSpace(string(out)))
		} else {
			require.NotEqual(t, "150000000", strings.TrimSpace(string(out)))
		}
		return p.State()
	}
	run(0)
	runs := 20
	if testing.Short() {
		runs = 3
	}
	for range runs {
		run(64 << 20)
	}
	_, err := Start(Spec{Command: "/no/such/program", Memory: 1 << 30})
	require.ErrorContains(t, err, "no such file")
}

func TestGuardIsDismissed(t *testing.T) {
	p, err := Start(Spec{Command: "/bin/sh", Args: []string{"-c", "read x"}, Guard: true})
	require.NoError(t, err)
	defer p.closePipes()
	require.NotNil(t, p.guard)
	pid := p.guard.cmd.Process.Pid
	require.True(t, alive(pid))
	require.NoError(t, p.Stop(time.Second))
	require.False(t, alive(pid))
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		p, err := Start(Spec{Command: "/bin/true"})
		require.NoError(b, err)
		<-p.Done()
		p.closePipes()
	}
}

func TestTailTellsWhereItWasCut(t *testing.T) {
	for in, want := range map[string]string{"0123": "0123", "0123456789": "…23456789", "01\n3456789": "3456789"} {
		tail := Tail{Limit: 8}
		_, err := tail.Write([]byte(in))
		require.NoError(t, err)
		require.Equal(t, want, tail.String())
	}
}
