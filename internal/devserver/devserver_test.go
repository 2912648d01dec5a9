package devserver_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/devserver"
)

// childDB, in the environment, turns this test binary into a process that
// starts a server on that file, says its address and pid, and waits.
const childDB = "DEVSERVER_TEST_CHILD_DB"

func TestMain(m *testing.M) {
	if db := os.Getenv(childDB); db != "" {
		s, err := devserver.Start(context.Background(), devserver.Options{DB: db})
		if err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		fmt.Println(s.Address, s.PID)
		<-s.Done()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// begin starts a server that ends with the test.
func begin(t *testing.T, o devserver.Options) *devserver.Server {
	t.Helper()
	s, err := devserver.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop(context.WithoutCancel(t.Context()))) })
	return s
}

func dial(t *testing.T, s *devserver.Server) client.Client {
	t.Helper()
	c, err := client.DialContext(t.Context(), client.Options{HostPort: s.Address, Namespace: s.Namespace})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func launch(t *testing.T, c client.Client, id string) {
	t.Helper()
	_, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: "nobody"}, "none")
	require.NoError(t, err)
}

func TestServerAnswersAtOnce(t *testing.T) {
	var log bytes.Buffer
	s := begin(t, devserver.Options{Namespace: "other", UI: true, Log: &log})
	require.Regexp(t, `^\d+\.\d+\.\d+`, s.Version)
	require.Equal(t, s.UI+"/namespaces/other/workflows/a%2Fb/r/history", s.WebRun("a/b", "r"))

	c := dial(t, s)
	launch(t, c, "first")
	answer, err := c.OperatorService().ListSearchAttributes(t.Context(), &operatorservice.ListSearchAttributesRequest{Namespace: "other"})
	require.NoError(t, err)
	for _, name := range []string{contract.AttributePlan, contract.AttributeAgent, contract.AttributeState} {
		require.Equal(t, enums.INDEXED_VALUE_TYPE_KEYWORD, answer.GetCustomAttributes()[name], name)
	}

	require.NoError(t, s.Stop(t.Context()))
	require.NoError(t, s.Err())
	require.ErrorIs(t, syscall.Kill(s.PID, 0), syscall.ESRCH)
	free(t, s.Address)
}

// free waits until nobody listens at address.
func free(t *testing.T, address string) {
	t.Helper()
	require.Eventually(t, func() bool {
		l, err := net.Listen("tcp", address)
		if err == nil {
			_ = l.Close()
		}
		return err == nil
	}, 5*time.Minute, 20*time.Millisecond)
}

// TestKilledServerComesBack: a run that was started before a SIGKILL is there
// after a start on the same file, and on the same port.
func TestKilledServerComesBack(t *testing.T) {
	db := filepath.Join(t.TempDir(), "made", "temporal.db")
	s := begin(t, devserver.Options{DB: db})
	launch(t, dial(t, s), "kept")
	require.NoError(t, s.Kill())
	require.ErrorContains(t, s.Err(), "killed")
	require.NoError(t, s.Kill(), "it has ended")

	_, port, err := net.SplitHostPort(s.Address)
	require.NoError(t, err)
	number, err := strconv.Atoi(port)
	require.NoError(t, err)
	again := begin(t, devserver.Options{DB: db, Port: number})
	require.Equal(t, s.Address, again.Address)
	d, err := dial(t, again).DescribeWorkflowExecution(t.Context(), "kept", "")
	require.NoError(t, err)
	require.Equal(t, enums.WORKFLOW_EXECUTION_STATUS_RUNNING, d.GetWorkflowExecutionInfo().GetStatus())
}

// TestNothingOutlivesUs: a process that is killed takes its server along.
func TestNothingOutlivesUs(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	db := filepath.Join(t.TempDir(), "temporal.db")
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childDB+"="+db)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var address string
	var pid int
	_, err = fmt.Fscan(out, &address, &pid)
	require.NoError(t, err)

	_, err = devserver.Start(t.Context(), devserver.Options{DB: db})
	var unusable *devserver.DatabaseError
	require.ErrorAs(t, err, &unusable)
	require.ErrorContains(t, err, "in use by another server")

	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Eventually(t, func() bool { return gone(pid) }, 5*time.Minute, 20*time.Millisecond)
	free(t, address)
	require.Eventually(t, func() bool { // the lock went with it
		again, err := devserver.Start(t.Context(), devserver.Options{DB: db})
		return err == nil && again.Stop(t.Context()) == nil
	}, 5*time.Minute, 20*time.Millisecond)
}

// gone reports whether a process has ended; one that nobody has waited for counts.
func gone(pid int) bool {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return syscall.Kill(pid, 0) == syscall.ESRCH
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	return strings.HasPrefix(rest, "Z")
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	port := l.Addr().(*net.TCPAddr).Port

	for name, c := range map[string]struct {
		o    devserver.Options
		want string
	}{
		"frontend": {devserver.Options{Port: port}, "for the Temporal frontend is in use by another process; choose another with --port"},
		"pages":    {devserver.Options{UI: true, UIPort: port, UIPortOption: "dev.ui_port"}, "for the Temporal web pages is in use by another process; choose another with dev.ui_port"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := devserver.Start(t.Context(), c.o)
			var taken *devserver.PortError
			require.ErrorAs(t, err, &taken)
			require.Equal(t, port, taken.Port)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestUnusableDatabase: each is refused with a word on what to do, and left as it is.
func TestUnusableDatabase(t *testing.T) {
	made := filepath.Join(t.TempDir(), "made.db")
	require.NoError(t, begin(t, devserver.Options{DB: made}).Stop(t.Context()))
	sound, err := os.ReadFile(made)
	require.NoError(t, err)
	torn := bytes.Clone(sound)
	for i := 4096; i < len(torn); i++ {
		torn[i] = byte(i * 31)
	}
	foreign := foreignDatabase(sound)

	for name, c := range map[string]struct {
		db      []byte
		version string
		want    string
	}{
		"no database":     {[]byte(strings.Repeat("rubbish ", 1000)), "", "is not an SQLite database"},
		"short":           {[]byte("SQLi"), "", "is not an SQLite database"},
		"empty":           {nil, "", "is empty"},
		"torn":            {torn, "", "is damaged"},
		"cut":             {sound[:20000], "", "is damaged"},
		"foreign":         {foreign, "", "was not made by this version"},
		"another version": {sound, "1.2.3", "which does not migrate it; nothing was changed; use the server that made it or, to start with an empty one"},
	} {
		t.Run(name, func(t *testing.T) {
			db := filepath.Join(t.TempDir(), "temporal.db")
			require.NoError(t, os.WriteFile(db, c.db, 0o600))
			if c.version != "" {
				require.NoError(t, os.WriteFile(db+".version", []byte(c.version), 0o600))
			}
			_, err := devserver.Start(t.Context(), devserver.Options{DB: db})
			var unusable *devserver.DatabaseError
			require.ErrorAs(t, err, &unusable)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "mv "+db+" "+db+".old")
			kept, err := os.ReadFile(db)
			require.NoError(t, err)
			require.True(t, bytes.Equal(c.db, kept), "the file was changed")
		})
	}
}

// foreignDatabase is an SQLite database without any table: the header page of a
// sound one with its schema page emptied.
func foreignDatabase(sound []byte) []byte {
	page := int(sound[16])<<8 | int(sound[17])
	db := bytes.Clone(sound[:page])
	copy(db[28:32], []byte{0, 0, 0, 1}) // size in pages
	clear(db[32:40])                    // free list
	clear(db[40:44])                    // schema cookie
	clear(db[52:56])                    // auto-vacuum
	copy(db[92:96], db[24:28])          // the change counter that the size belongs to
	clear(db[100:])
	db[100] = 13                                     // a leaf of the schema's table,
	db[105], db[106] = byte(page>>8), byte(page&255) // with no cells
	return db
}

// full is a disk without free space.
type full struct{ refused atomic.Int64 }

func (f *full) Write([]byte) (int, error) {
	f.refused.Add(1)
	return 0, syscall.ENOSPC
}

// TestAFullDiskUnderTheLog: the server outlives its log.
func TestAFullDiskUnderTheLog(t *testing.T) {
	log := new(full)
	s := begin(t, devserver.Options{Log: log, LogLevel: "debug"})
	before := log.refused.Load()
	require.Positive(t, before)
	launch(t, dial(t, s), "logged")
	require.Eventually(t, func() bool { return log.refused.Load() > before }, 5*time.Minute, 10*time.Millisecond)
	launch(t, dial(t, s), "logged-still")
	require.NoError(t, s.Err())
}

func TestContextEndsStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := devserver.Start(ctx, devserver.Options{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestNotATemporal(t *testing.T) {
	_, err := devserver.Start(t.Context(), devserver.Options{Path: "/bin/echo"})
	require.ErrorContains(t, err, "is no Temporal command line with a server")
}
