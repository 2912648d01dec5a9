package process

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// other is the user of children in tests.
const other = "nobody"

// unrooted runs the test once more in a process that is not root, and has nothing but the capabilities
// that a worker needs. It reports whether this is that process.
func unrooted(t *testing.T) bool {
	t.Helper()
	const again = "PROCESS_TEST_UNROOTED"
	if os.Getenv(again) == t.Name() {
		return true
	}
	require.NoError(t, CanConfine(), "this test needs root, or these capabilities")
	if os.Getuid() != 0 {
		return false
	}
	program := filepath.Join(shared(t), "test")
	raw, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, raw, 0o755))
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env, cmd.Dir = append(os.Environ(), again+"="+t.Name(), "TMPDIR=/tmp"), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential:  &syscall.Credential{Uid: 54321, Gid: 54321},
		AmbientCaps: []uintptr{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL},
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	return false
}

// shared is a folder that everybody may use.
func shared(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "process")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o777))
	return dir
}

// TestOtherUser: a child of another user has that user, no group of this process and no right to get any
// of that back, whether this process is root or has only the capabilities that it needs.
func TestOtherUser(t *testing.T) {
	unrooted(t)
	t.Setenv("HOME", "/of/this/process")
	t.Setenv("TMPDIR", "/of/this/process")
	for _, s := range []Spec{{Guard: true}, {Memory: 256 << 20}} {
		s.User, s.Command, s.Env = other, "/bin/sh", map[string]string{"USER": "said"}
		s.Args = []string{"-c", `id -u; id -g; id -G; pwd; echo "$HOME" "$LOGNAME" "$USER" "$TMPDIR"; cat /proc/self/status; ulimit -d; read x`}
		p, err := Start(s)
		require.NoError(t, err)
		require.NoError(t, p.Stdin.Close())
		out, err := io.ReadAll(p.Stdout)
		require.NoError(t, err)
		require.True(t, p.State().Exited(), "%s", out)
		p.closePipes()
		lines := strings.Split(string(out), "\n")
		u, err := FindUser(other)
		require.NoError(t, err)
		uid, gid := strconv.Itoa(int(u.UID)), strconv.Itoa(int(u.GID))
		require.Equal(t, []string{uid, gid, gid, "/", u.Home + " " + u.Name + " said "}, lines[:5])
		for _, line := range []string{
			"Uid:\t" + strings.Repeat(uid+"\t", 3) + uid, "Gid:\t" + strings.Repeat(gid+"\t", 3) + gid, "Groups:\t ", "NoNewPrivs:\t1",
			"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapAmb:\t0000000000000000",
		} {
			require.Contains(t, lines, line)
		}
		if s.Memory > 0 {
			require.Contains(t, lines, "262144")
		}
	}
	_, err := Start(Spec{Command: "/bin/sh", Dir: "/root", User: other})
	require.ErrorContains(t, err, "as the user nobody, in /root: ")
	for _, command := range []string{"/no/such/program", "./program", "/etc/passwd"} {
		for _, memory := range []int64{0, 256 << 20} {
			_, err := Start(Spec{Command: command, Dir: "/", User: other, Memory: memory})
			require.Error(t, err, "%s", command)
		}
	}
	_, err = Start(Spec{Command: "bin/true", User: other})
	require.ErrorContains(t, err, "relative to no folder")
	p, err := Start(Spec{Command: "bin/true", Dir: "/", User: other, Memory: 256 << 20})
	require.NoError(t, err)
	require.True(t, p.State().Success())
	p.closePipes()
	// Other threads are as they were.
	statuses(t)
}

// statuses starts children of this process's own user, which may gain what it may itself.
func statuses(t *testing.T) {
	t.Helper()
	own, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	has := func(name string, of []byte) string {
		_, rest, _ := strings.Cut(string(of), "\n"+name+":\t")
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
	children := 200
	if testing.Short() {
		children = 50
	}
	for range children {
		out, err := exec.CommandContext(t.Context(), "cat", "/proc/self/status").Output()
		require.NoError(t, err)
		require.Equal(t, "0", has("NoNewPrivs", out))
		require.Equal(t, has("CapAmb", own), has("CapAmb", out))
	}
}

// TestNothingOfOtherUsersIsLeft: what a child of another user has started ends with it, also what has left
// its group, and what had no time to see that.
func TestNothingOfOtherUsersIsLeft(t *testing.T) {
	unrooted(t)
	for name, script := range map[string]string{
		"a child":                  "sleep 600 & echo $!; read x",
		"one in a session":         "setsid sh -c 'echo $$; trap \"\" TERM HUP; sleep 600; sleep 600' & read x",
		"one that ignores SIGTERM": "trap '' TERM; echo $$; while :; do sleep 0.01; done",
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Start(Spec{Command: "/bin/sh", Args: []string{"-c", script}, User: other, Guard: true})
			require.NoError(t, err)
			pid := pids(t, p.Stdout, 1)[0]
			require.NotNil(t, p.guard)
			require.NoError(t, p.Stop(50*time.Millisecond))
			p.closePipes()
			gone(t, pid)
		})
	}
}

// TestKilledParentOfOtherUsers: children of another user do not outlive a process that is killed.
func TestKilledParentOfOtherUsers(t *testing.T) {
	unrooted(t)
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), parentVar+"=echo $$; sleep 600 & echo $!; setsid sh -c 'echo $$; exec sleep 600' & wait", "PROCESS_TEST_GUARD=1", "PROCESS_TEST_USER="+other)
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	list := pids(t, out, 3)
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()
	for _, pid := range list {
		gone(t, pid)
	}
}

// TestUsersThatAreNotApart: nothing runs as root, as this process's own user, or as nobody knows whom.
func TestUsersThatAreNotApart(t *testing.T) {
	unrooted(t)
	own := strconv.Itoa(os.Getuid())
	for user, want := range map[string]string{
		"root": "is root", "0": "is root", own: "", "no-such-user": "unknown user", "4294967295": "unknown userid", "-1": "unknown user",
	} {
		_, err := Start(Spec{Command: "/bin/sh", User: user})
		require.ErrorContains(t, err, want)
	}
	u, err := FindUser(other)
	require.NoError(t, err)
	n, err := FindUser(strconv.Itoa(int(u.UID)))
	require.NoError(t, err)
	require.Equal(t, u, n)
}

// TestReads: which files a user may read.
func TestReads(t *testing.T) {
	if unrooted(t); os.Getuid() != 0 {
		return // a file is given away by root alone
	}
	u, err := FindUser(other)
	require.NoError(t, err)
	dir := shared(t)
	for name, c := range map[string]struct {
		uid, gid int
		mode     os.FileMode
		reads    bool
	}{
		"ours":              {0, 0, 0o640, false},
		"everybody's":       {0, 0, 0o604, true},
		"for writing alone": {0, 0, 0o622, false},
		"its group's":       {0, int(u.GID), 0o640, true},
		"its group may not": {0, int(u.GID), 0o600, false},
		"its own":           {int(u.UID), 0, 0o000, true},
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		require.NoError(t, os.Chown(file, c.uid, c.gid))
		require.NoError(t, os.Chmod(file, c.mode))
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, c.reads, u.Reads(info), name)
		err = exec.CommandContext(t.Context(), "setpriv", "--reuid="+u.Name, "--regid="+strconv.Itoa(int(u.GID)), "--clear-groups", "head", "-c1", file).Run()
		require.Equal(t, c.reads && c.mode != 0, err == nil, "the kernel says so: %s", name)
	}
	for mode, looks := range map[os.FileMode]bool{0o700: false, 0o701: true, 0o704: true} {
		folder := filepath.Join(dir, strconv.Itoa(int(mode)))
		require.NoError(t, os.Mkdir(folder, mode))
		info, err := os.Stat(folder)
		require.NoError(t, err)
		require.Equal(t, looks, u.Reads(info), "%o", mode)
	}
}

// TestNoTerminal: a child of another user cannot type into the terminal from which its parent was started,
// nor can what watches over it, which has that user.
func TestNoTerminal(t *testing.T) {
	if unrooted(t); os.Getuid() != 0 {
		return // a terminal is given away by root alone
	}
	terminal := openTerminal(t)
	for user, want := range map[string]string{"": "open", other: "none"} {
		parent := exec.CommandContext(t.Context(), os.Args[0])
		parent.Env = append(os.Environ(), parentVar+"=(: <>/dev/tty) 2>/dev/null && echo open || echo none", "PROCESS_TEST_USER="+user)
		parent.Stdin = terminal
		parent.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		out, err := parent.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, parent.Start())
		said := make([]byte, len(want))
		_, err = io.ReadFull(out, said)
		require.NoError(t, err)
		require.Equal(t, want, string(said), "user %q", user)
		require.NoError(t, parent.Process.Kill())
		_ = parent.Wait()
	}
	p, err := Start(Spec{Command: "/bin/sh", Args: []string{"-c", "read x"}, User: other, Guard: true})
	require.NoError(t, err)
	defer p.closePipes()
	for _, pid := range []int{p.PID, p.guard.cmd.Process.Pid} {
		session, err := unix.Getsid(pid)
		require.NoError(t, err)
		require.Equal(t, pid, session)
	}
	require.NoError(t, p.Stop(time.Second))
}

// openTerminal makes a terminal.
func openTerminal(t *testing.T) (terminal *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, master.Close()) })
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, terminal.Close()) })
	return terminal
}

// TestChanges: by what a user may change what a path leads to.
func TestChanges(t *testing.T) {
	if unrooted(t); os.Getuid() != 0 {
		return // a file is given away by root alone
	}
	u, err := FindUser(other)
	require.NoError(t, err)
	uid, gid := int(u.UID), int(u.GID)
	dir := shared(t)
	require.NoError(t, os.Chmod(dir, 0o755))
	make := func(name string, mode os.FileMode, uid, gid int) string {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			require.NoError(t, os.Mkdir(path, 0o700))
		} else {
			require.NoError(t, os.WriteFile(path, []byte("was"), 0o600))
		}
		require.NoError(t, os.Chown(path, uid, gid))
		require.NoError(t, os.Chmod(path, mode))
		return path
	}
	link := func(name, to string, uid int) {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, name)))
		require.NoError(t, os.Lchown(filepath.Join(dir, name), uid, 0))
	}
	make("closed/", 0o755, 0, 0)
	make("closed/file", 0o755, 0, 0)
	make("closed/writable", 0o646, 0, 0)
	make("closed/own", 0o444, uid, 0)
	make("closed/of group", 0o664, 0, gid)
	make("closed/of another group", 0o664, 0, 0)
	make("open/", 0o777, 0, 0)
	make("open/file", 0o755, 0, 0)
	make("open/below/", 0o755, 0, 0)
	make("open/below/file", 0o755, 0, 0)
	make("theirs/", 0o555, uid, 0)
	make("theirs/file", 0o755, 0, 0)
	make("sticky/", os.ModeSticky|0o777, 0, 0)
	make("sticky/file", 0o755, 0, 0)
	make("sticky/own", 0o555, uid, 0)
	make("sticky theirs/", os.ModeSticky|0o755, uid, 0)
	make("sticky theirs/file", 0o755, 0, 0)
	make("tree/", 0o755, 0, 0)
	make("tree/a/", 0o755, 0, 0)
	make("tree/a/file", 0o644, 0, 0)
	make("tree with more/", 0o755, 0, 0)
	make("tree with more/a/", os.ModeSticky|0o777, 0, 0)
	link("closed/link", "file", 0)
	link("closed/out", "../open/below/file", 0)
	link("closed/absolute", filepath.Join(dir, "closed/own"), 0)
	link("closed/folder", "../open/below", 0)
	link("open/link", "../closed/file", 0)
	link("sticky/link", "../closed/file", 0)
	link("sticky/own link", "../closed/file", uid)
	link("closed/loop", "loop", 0)
	for name, want := range map[string]string{
		"closed/file": "", "closed/of another group": "", "closed/link": "", "closed/./../closed/file": "", "closed/none": "", "closed/none/file": "",
		"sticky/file": "", "sticky/link": "", "tree": "",
		"closed/writable": "closed/writable", "closed/own": "closed/own", "closed/of group": "closed/of group",
		"open/file": "open/file", "open/below/file": "open/below", "open/none": "open/none", "open/none/file": "open/none", "open": "open",
		"theirs/file": "theirs/file", "sticky/own": "sticky/own", "sticky/none": "sticky/none", "sticky theirs/file": "sticky theirs/file",
		"closed/out": "open/below", "closed/absolute": "closed/own", "closed/folder/file": "open/below", "open/link": "open/link", "sticky/own link": "sticky/own link",
		"tree with more": "tree with more/a",
	} {
		if want != "" {
			want = filepath.Join(dir, want)
		}
		got, err := u.Changes(filepath.Join(dir, filepath.FromSlash(name)), true)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
	got, err := u.Changes(filepath.Join(dir, "tree with more"), false)
	require.NoError(t, err)
	require.Empty(t, got)
	_, err = u.Changes(filepath.Join(dir, "closed/loop"), false)
	require.ErrorContains(t, err, "too many symbolic links")
	// The kernel says so, too.
	for path, changed := range map[string]bool{"closed/file": false, "sticky/file": false, "open/below/file": true, "closed/of group": true, "closed/of another group": false} {
		path = filepath.Join(dir, path)
		_ = exec.CommandContext(t.Context(), "setpriv", "--reuid="+u.Name, "--regid="+strconv.Itoa(gid), "--clear-groups", "sh", "-c",
			`p=$1; echo is >"$p" || { mv "$p" "$p.was" && echo is >"$p"; } || { d=$(dirname "$p"); mv "$d" "$d.was" && mkdir "$d" && echo is >"$p"; }`, "sh", path).Run()
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, changed, string(text) != "was", path)
	}
}

// TestChangesBehindClosedFolders: what neither this process nor the user can look at, the user does not
// change. What the user alone can look at, nobody knows.
func TestChangesBehindClosedFolders(t *testing.T) {
	const variable = "PROCESS_TEST_FOLDER"
	if os.Getuid() == 0 {
		u, err := FindUser(other)
		require.NoError(t, err)
		dir := shared(t)
		require.NoError(t, os.Chmod(dir, 0o755))
		for name, uid := range map[string]int{"closed": 0, "theirs": int(u.UID)} {
			require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
			require.NoError(t, os.Chown(filepath.Join(dir, name), uid, 0))
		}
		t.Setenv(variable, dir)
	}
	if !unrooted(t) {
		return
	}
	u, err := FindUser(other)
	require.NoError(t, err)
	dir := os.Getenv(variable)
	by, err := u.Changes(filepath.Join(dir, "closed/file"), false)
	require.NoError(t, err)
	require.Empty(t, by)
	_, err = u.Changes(filepath.Join(dir, "theirs/file"), false)
	require.ErrorIs(t, err, os.ErrPermission)
}
