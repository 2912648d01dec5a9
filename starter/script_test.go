package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/proxy"
	temporal "go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	"chimera.ai/engine/client"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/devroot"
	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/npm"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// database ends what tests have started of PostgreSQL.
type database struct{ *testing.M }

// Run implements the interface of testscript.
func (d database) Run() int { return pgtest.Main(d.M) }

// TestMain makes this binary the program chimera for the scripts, which wait more
// than they compute.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	testscript.Main(database{m}, map[string]func(){"chimera": func() {
		fallbackAddress = "localhost:1"
		main()
	}, "embedder": embedder, "notes": notes})
}

// embedder is a program with a worker of its own, which joins the chimera dev of the
// folder as that one says, until it is interrupted.
func embedder() {
	err := func() error {
		raw, err := os.ReadFile(localFile(".chimera"))
		if err != nil {
			return err
		}
		var l local
		if err := json.Unmarshal(raw, &l); err != nil {
			return err
		}
		if raw, err = os.ReadFile(filepath.Join(".chimera", devroot.BootstrapFile)); err != nil {
			return err
		}
		root, err := trust.ParseBootstrap(raw)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		h, err := host.New(ctx, host.Options{
			Client: temporal.Options{HostPort: l.Address, Namespace: l.Namespace},
			Store:  store.Options{Dir: l.Store, Path: l.Ledger}, Trust: root, SharedQueue: true,
		})
		if err != nil {
			return err
		}
		return errors.Join(h.Run(ctx), h.Close())
	}()
	if err != nil {
		panic(err)
	}
}

// TestScript runs testdata/script: the command line as people and programs see it.
func TestScript(t *testing.T) {
	testscript.Run(t, scripts(t, "testdata/script"))
}

// TestLongScript runs testdata/long: more of that, most of it on a real Temporal server, or with
// MCP servers.
func TestLongScript(t *testing.T) {
	lengthy.Skip(t)
	testscript.Run(t, scripts(t, "testdata/long"))
}

// scripts returns what runs the scripts of a folder.
func scripts(t *testing.T, dir string) testscript.Params {
	t.Helper()
	temporal, err := devserver.Find(t.Context(), os.Stderr)
	require.NoError(t, err)
	programs := filepath.Dir(npm.Bin(t, "mcp-server-filesystem"))
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			// No settings of the machine, and no port that others use.
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("CHIMERA_DEV_TEMPORAL", temporal)
			e.Setenv("CHIMERA_DEV_PORT", "0")
			e.Setenv("CHIMERA_DEV_UI_PORT", "0")
			e.Setenv("GORACE", os.Getenv("GORACE"))
			e.Setenv("NPM", programs)
			return errors.Join(trustPage(filepath.Join(e.WorkDir, "page")), toolsPage(filepath.Join(e.WorkDir, "tools")))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      exits,
			"json":       jsonFields,
			"ready":      ready,
			"deadserver": deadServer,
			"alone":      alone,
			"dead":       dead,
			"listen":     listen,
			"freeport":   freePort,
			"listens":    listens,
			"payloads":   payloads,
			"waitfor":    waitFor,
			"appears":    appears,
			"cmpbatch":   cmpBatch,
			"firsthash":  firstHash,
			"flip":       flip,
			"replace":    replace,
			"behind":     behind,
			"pin":        pin,
			"twice":      twice,
			"offered":    offered,
			"fido":       fido,
			"attest":     attest,
		},
	}
}

// exits CODE PROGRAM ARGS… runs a program, which must end with CODE, within the
// time that a person waits.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	have := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		have = exit.ExitCode()
	}
	if have != want {
		ts.Fatalf("exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", have, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// json PATH=VALUE… checks that standard output is exactly one JSON document and
// that each path (names and indexes with dots) has the value, written as JSON;
// PATH alone checks that it is there, !PATH that it is not.
func jsonFields(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("json cannot be negated")
	}
	d := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		ts.Fatalf("stdout is not JSON: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		ts.Fatalf("stdout holds more than one JSON document")
	}
	for _, arg := range args {
		path, want, compared := strings.Cut(arg, "=")
		path, absent := strings.CutPrefix(path, "!")
		have, ok := dig(doc, path)
		switch {
		case absent && ok:
			ts.Fatalf("%s is there", path)
		case absent:
		case !ok:
			ts.Fatalf("there is no %s in %s", path, ts.ReadFile("stdout"))
		case compared:
			var raw bytes.Buffer
			e := json.NewEncoder(&raw)
			e.SetEscapeHTML(false)
			ts.Check(e.Encode(have))
			if got := strings.TrimSpace(raw.String()); got != want {
				ts.Fatalf("%s is %s, want %s", path, got, want)
			}
		}
	}
}

func dig(v any, path string) (any, bool) {
	for name := range strings.SplitSeq(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			next, ok := at[name]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(at) {
				return nil, false
			}
			v = at[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// until waits for a condition.
func until(ts *testscript.TestScript, what string, holds func() bool) {
	deadline := time.NewTimer(5 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			ts.Fatalf("waited five minutes for: %s", what)
		case <-tick.C:
		}
	}
}

// ready [FOLDER] waits until chimera dev has written its file, and sets ADDRESS
// and DEVPID.
func ready(ts *testscript.TestScript, _ bool, args []string) {
	file := localFile(ts.MkAbs(filepath.Join(append(args, ".chimera")...)))
	var l local
	until(ts, file, func() bool {
		raw, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(raw, &l) != nil {
			return false
		}
		// The file may be that of a killed one, which the next one is about to remove.
		if syscall.Kill(l.PID, 0) != nil {
			return false
		}
		running, err := devserver.Locked(lockFile(filepath.Dir(file)))
		return err == nil && running
	})
	ts.Setenv("ADDRESS", l.Address)
	ts.Setenv("DEVPID", strconv.Itoa(l.PID))
}

// deadServer kills this script's Temporal server, as a crash would.
func deadServer(ts *testscript.TestScript, _ bool, _ []string) {
	killed := 0
	for file, line := range processes(ts) {
		if strings.Contains(line, "start-dev") {
			dead(ts, false, []string{filepath.Base(filepath.Dir(file))})
			killed++
		}
	}
	if killed != 1 {
		ts.Fatalf("there are %d servers of this script", killed)
	}
}

// processes are the command lines that name a file of this script's folder; the
// folder of another script may start with the same letters.
func processes(ts *testscript.TestScript) map[string]string {
	found := map[string]string{}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	ts.Check(err)
	for _, file := range files {
		if raw, err := os.ReadFile(file); err == nil && bytes.Contains(raw, []byte(ts.Getenv("WORK")+"/")) {
			found[file] = string(bytes.ReplaceAll(raw, []byte{0}, []byte{' '}))
		}
	}
	return found
}

// alone waits until no process of this script is left.
func alone(ts *testscript.TestScript, _ bool, _ []string) {
	until(ts, "no process is left", func() bool { return len(processes(ts)) == 0 })
}

// dead PID kills a process, as a crash would.
func dead(ts *testscript.TestScript, _ bool, args []string) {
	pid, err := strconv.Atoi(args[0])
	ts.Check(err)
	process, err := os.FindProcess(pid)
	ts.Check(err)
	ts.Check(process.Kill())
}

// twice asks the last program in the background to end, again and again for a moment,
// as timeout(1) does: two signals at once may be one.
func twice(ts *testscript.TestScript, _ bool, _ []string) {
	all := ts.BackgroundCmds()
	process := all[len(all)-1].Process
	for begun := time.Now(); time.Since(begun) < 50*time.Millisecond; {
		if err := process.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
			ts.Check(err)
		}
	}
}

// listen takes a free port until the script ends, and sets TAKEN.
func listen(ts *testscript.TestScript, _ bool, _ []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv("TAKEN", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
}

// freeport sets PORT to one that is free, and below those that systems give to whoever
// asks for any: nobody else gets it meanwhile.
func freePort(ts *testscript.TestScript, _ bool, _ []string) {
	for range 100 {
		port := strconv.Itoa(10_000 + rand.IntN(20_000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			ts.Setenv("PORT", port)
			ts.Check(l.Close())
			return
		}
	}
	ts.Fatalf("no port is free")
}

// listens ADDRESS waits until somebody listens there.
func listens(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: listens ADDRESS")
	}
	until(ts, args[0]+" is listened on", func() bool {
		c, err := net.DialTimeout("tcp", args[0], time.Second)
		return err == nil && c.Close() == nil
	})
}

// payloads FILE writes the data of all payloads in the history on standard output,
// one a line, to a file.
func payloads(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: payloads FILE")
	}
	var history historypb.History
	ts.Check(protojson.Unmarshal([]byte(ts.ReadFile("stdout")), &history))
	var lines []byte
	ts.Check(proxy.VisitPayloads(context.Background(), &history, proxy.VisitPayloadsOptions{
		Visitor: func(_ *proxy.VisitPayloadsContext, all []*commonpb.Payload) ([]*commonpb.Payload, error) {
			for _, p := range all {
				lines = append(append(lines, p.GetData()...), '\n')
			}
			return all, nil
		},
	}))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), lines, 0o600))
}

// waitfor STATE RUN [KIND] waits until a run is in a state, and waits for something
// of a kind. One that waits for approval waits for the guardian first, which then shows people
// what they are asked.
func waitFor(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 && len(args) != 3 {
		ts.Fatalf("usage: waitfor STATE RUN [KIND]")
	}
	until(ts, "run "+args[1]+" is "+args[0], func() bool {
		if len(args) == 3 && args[2] == string(contract.WaitApproval) && ts.Exec("chimera", "approvals", "show", args[1]) != nil {
			return false
		}
		_ = ts.Exec("chimera", "status", args[1], "--format", "json")
		var r client.Status
		return json.Unmarshal([]byte(ts.ReadFile("stdout")), &r) == nil && string(r.State) == args[0] &&
			(len(args) == 2 || r.Detail != nil && slices.ContainsFunc(r.Detail.Waiting, func(w contract.Wait) bool { return string(w.Kind) == args[2] }))
	})
}

// appears FILE TEXT waits until a file has a text.
func appears(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: appears FILE TEXT")
	}
	until(ts, args[0]+" has "+args[1], func() bool {
		raw, err := os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && strings.Contains(string(raw), args[1])
	})
}

// offered REGEXP WORD… waits until a shell that asks for what completes the last word
// gets a line that matches: lists of runs follow what happens after a moment.
func offered(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: offered REGEXP WORD…")
	}
	line := regexp.MustCompile("(?m)" + args[0])
	until(ts, "a line offered is "+args[0], func() bool {
		ts.Check(ts.Exec("chimera", append([]string{"__complete"}, args[1:]...)...))
		return line.MatchString(ts.ReadFile("stdout"))
	})
}

// TestCompletionGivesUp: a person who has pressed Tab does not wait for a server that
// does not answer, and is told nothing.
func TestCompletionGivesUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	t.Chdir(t.TempDir())
	t.Setenv("CHIMERA_TEMPORAL_ADDRESS", l.Addr().String())
	t.Setenv("CHIMERA_STORE_DRIVER", "postgres")
	t.Setenv("CHIMERA_STORE_URL", "postgres://nobody@"+l.Addr().String()+"/none")
	t.Setenv("CHIMERA_STORE_ORIGIN", "example.org/log")
	for name, want := range map[string]string{"status": ":36\n", "start": ":32\n"} {
		var out, messages bytes.Buffer
		begun := time.Now()
		require.Equal(t, exitDone, run([]string{"__complete", name, ""}, strings.NewReader(""), &out, &messages))
		require.GreaterOrEqual(t, time.Since(begun), completeTime, "%s asked nobody", name)
		require.Equal(t, want, out.String())
		require.Empty(t, messages.String())
	}
}

// TestCompletionIsBounded: what offers operands has to be done within a moment.
func TestCompletionIsBounded(t *testing.T) {
	p := &Program{}
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	asked := false
	p.completion(command{most: -1, completes: func(ctx context.Context, _ *Program, _ []string) ([]string, cobra.ShellCompDirective) {
		at, bounded := ctx.Deadline()
		asked = bounded && time.Until(at) <= completeTime
		return nil, 0
	}})(cmd, nil, "")
	require.True(t, asked)
}

// TestContract: the commands of the contract are all there.
func TestContract(t *testing.T) {
	want := strings.Fields(`compile graph contain publish start status runs cancel terminate pause resume retry approvals signers
		tools agents budgets policy simulate test audit trust migrate upgrade schema init dev console mcp completion version effects`)
	var have []string
	for _, c := range commands() {
		have = append(have, c.name)
	}
	slices.Sort(want)
	slices.Sort(have)
	require.Equal(t, want, have)
}

// TestPlanned: a command that does not exist yet says so and fails.
func TestPlanned(t *testing.T) {
	for _, c := range commands() {
		if c.supported() {
			continue
		}
		for _, args := range [][]string{{c.name}, {c.name, "x", "--flag", "y"}, {c.name, "--format", "json"}} {
			var out, messages bytes.Buffer
			require.Equal(t, exitUsage, run(args, strings.NewReader(""), &out, &messages), c.name)
			require.Contains(t, messages.String(), "not supported yet: chimera "+c.name)
			if slices.Contains(args, "json") {
				require.JSONEq(t, fmt.Sprintf(`{"ok":false,"exit_code":2,"error":"not supported yet: chimera %s"}`, c.name), out.String())
			} else {
				require.Empty(t, out.String())
			}
		}
	}
}

// TestProgram drives the type itself: Close ends what Run has begun, in reverse,
// once.
func TestProgram(t *testing.T) {
	p := &Program{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard}
	require.NoError(t, p.Parse([]string{"version"}))
	require.NoError(t, p.Run(context.Background()))
	var order []int
	for i := range 3 {
		p.later(func() error { order = append(order, i); return nil })
	}
	p.later(func() error { return errors.New("broken") })
	require.EqualError(t, p.Close(), "broken")
	require.Equal(t, []int{2, 1, 0}, order)
	require.NoError(t, p.Close())
}

// firstHash FILE sets HASH to the leaf hash of the first line, computed as an
// auditor would by hand, and ORIGIN to the origin that the line names.
func firstHash(ts *testscript.TestScript, _ bool, args []string) {
	line, _, _ := strings.Cut(ts.ReadFile(args[0]), "\n")
	ts.Setenv("HASH", fmt.Sprintf("%x", sha256.Sum256(append([]byte{0}, line...))))
	var e struct{ Origin string }
	ts.Check(json.Unmarshal([]byte(line), &e))
	ts.Setenv("ORIGIN", e.Origin)
}

// flip FILE changes one bit in the middle of a file.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	raw := []byte(ts.ReadFile(args[0]))
	raw[len(raw)/2] ^= 1
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), raw, 0o600))
}

// replace OLD NEW FILE replaces the first of what must stand in a file.
func replace(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: replace OLD NEW FILE")
	}
	text := ts.ReadFile(args[2])
	if !strings.Contains(text, args[0]) {
		ts.Fatalf("there is no %q in %s:\n%s", args[0], args[2], text)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(strings.Replace(text, args[0], args[1], 1)), 0o600))
}

// behind KIND NAME [AMOUNT] puts a row into the store of dev mode that nobody has
// stated or signed.
func behind(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	s, err := store.Open(ctx, store.Options{Dir: ts.MkAbs(".chimera/store"), Path: ts.MkAbs(".chimera/ledger.db")})
	ts.Check(err)
	switch args[0] {
	case "agent":
		err = s.Ledger.AddAgent(ctx, ledger.Agent{AgentID: args[1]})
	case "plan":
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(args[1])))
		_, err = s.Ledger.PublishPlan(ctx, ledger.Plan{Name: args[1], Version: "1", Digest: digest, SourceDigest: digest, Author: "dev"})
	case "signer":
		v := ledger.Signer{
			ID: args[1], Person: "eve", Roles: []string{"cfo"}, SigType: trust.SigDev, PublicKey: "key",
			NotBefore: ledger.At(time.Now()), NotAfter: ledger.At(time.Now().Add(time.Hour)),
		}
		err = s.Ledger.EnrollSigner(ctx, v)
	case "revoked":
		err = s.Ledger.RevokeSigner(ctx, args[1])
	case "hold", "budget":
		var money ledger.Money
		money, err = ledger.ParseMoney(args[2], "USD")
		ts.Check(err)
		if args[0] == "hold" {
			_, err = s.Ledger.OpenHold(ctx, ledger.Hold{ID: "hold", Agent: args[1], Amount: money, ExpiresAt: ledger.At(time.Now().Add(time.Hour))})
		} else {
			err = s.Ledger.SetBudget(ctx, ledger.Budget{Agent: args[1], Currency: "USD", Every: ledger.Forever, Limit: money})
		}
	}
	ts.Check(errors.Join(err, s.Close()))
}

// pin FILE has the configuration pin a bootstrap, as its digest says here.
func pin(ts *testscript.TestScript, _ bool, args []string) {
	b, err := trust.ParseBootstrap([]byte(ts.ReadFile(args[0])))
	ts.Check(err)
	ts.Setenv("CHIMERA_TRUST_PIN", b.Digest())
}
