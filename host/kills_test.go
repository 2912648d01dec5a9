package host_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/internal/raced"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
	"chimera.ai/engine/task"
	"chimera.ai/engine/trust"
)

// kills is how many effects are interrupted at each point, by the loss of each process.
var kills = flag.Int("kills", together, "how many effects are interrupted at each point by each kill")

// together is how many effects one kill interrupts.
const together = 5

// envActing has the file by which this test binary becomes a worker process of some roles.
const envActing = "CHIMERA_TEST_ACTING"

// actingProcess is a worker process of a deployment of audience dev.
type actingProcess struct {
	Roles                []host.Role
	Address, Dir, LogKey string
	Bootstrap            json.RawMessage
	GuardianKey          string
}

// tool says when a call begins and ends, and waits for leave to have its effect and to
// answer, both for all calls of a round. What it is sent is in each line.
const tool = `in=$(cat)
round=$(printf %s "$in" | sed 's/.*"line":"\([^".]*\).*/\1/')
echo "$in" >> "$DIR/begun"
while [ ! -e "$DIR/act-$round" ]; do sleep 0.02; done
echo "$in" >> "$DIR/done"
while [ ! -e "$DIR/answer-$round" ]; do sleep 0.02; done
echo "$in" >> "$DIR/ended"
echo '{"ok":true}'`

const keyedCatalog = actingCatalog + `
  - {provider_type: skill, provider_name: book, operation: put, mode: deter, effect_class: committing, timeout_ms: 60000, retry_policy: {max_retries: 3},
     input_schema: {type: object, properties: {line: {type: string}, key: {type: string}}, required: [line]}, output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
     idempotency_port: key, trust_requirement: allow_auto, status: allow_auto}
`

const keyedPolicy = `
apiVersion: chimera/v1
kind: PolicyBundle
version: "1"
unmodelled: [book/write, book/put]
rules:
  - {id: any, type: hard, operations: [book/write, book/put], require: "true"}
`

// options are those of the process's host.
func (p *actingProcess) options() (o host.Options, err error) {
	root, err := trust.ParseBootstrap(p.Bootstrap)
	if err != nil {
		return o, err
	}
	key, err := trust.ParseKey([]byte(p.GuardianKey))
	if err != nil {
		return o, err
	}
	cat, ds := compiler.ParseCatalog(compiler.Source{Name: "catalog.yaml", Text: []byte(keyedCatalog)})
	if ds.HasErrors() {
		return o, fmt.Errorf("the catalog: %v", ds)
	}
	bundle, ds := policy.Parse(compiler.Source{Name: "policy.yaml", Text: []byte(keyedPolicy)})
	if ds.HasErrors() {
		return o, fmt.Errorf("the policy: %v", ds)
	}
	return host.Options{
		Dev: true, Roles: p.Roles, Client: client.Options{HostPort: p.Address}, Store: store.Options{Dir: filepath.Join(p.Dir, "store"), Key: p.LogKey},
		Trust: root, GuardianKey: key, Catalog: cat, Policy: bundle, Drain: time.Millisecond,
		Executables: map[string]skills.Executable{"book": {Command: "/bin/sh", Args: []string{"-c", tool}, Env: map[string]string{"DIR": p.Dir}}},
	}, nil
}

// workActing is a worker process.
func workActing(file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var p actingProcess
	if err := json.Unmarshal(raw, &p); err != nil {
		return err
	}
	o, err := p.options()
	if err != nil {
		return err
	}
	return serve(o)
}

// parts are the worker processes of a deployment, by name.
var parts = map[string][]host.Role{
	"engine": {host.RoleEngine, host.RoleTools}, "guardian": {host.RoleGuardian}, "effects": {host.RoleEffects},
}

// killed is a deployment whose processes are killed.
type killed struct {
	*acting
	process  actingProcess
	server   devserver.Options
	temporal *devserver.Server
	running  map[string]*exec.Cmd
	c        client.Client
	ledger   ledger.Store
}

func deployKilled(t *testing.T) *killed {
	t.Helper()
	dir := t.TempDir()
	k := &killed{running: map[string]*exec.Cmd{}, server: devserver.Options{DB: filepath.Join(dir, "temporal.db"), Port: freePort(t)}}
	var err error
	k.temporal, err = devserver.Start(t.Context(), k.server)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.temporal.Stop(context.WithoutCancel(t.Context()))) })
	var o host.Options
	d := stage.Deploy(t, &o)
	root, err := json.Marshal(d.Root)
	require.NoError(t, err)
	k.process = actingProcess{Roles: []host.Role{host.RoleEngine}, Address: k.temporal.Address, Dir: dir, LogKey: d.LogKey, Bootstrap: root, GuardianKey: d.GuardianKey}
	o, err = k.process.options()
	require.NoError(t, err)
	k.acting = &acting{Deployment: d, options: o}
	k.again(t)
	k.Begin(t, k.h.Store().Ledger)
	return k
}

// launch ends the host of this process and starts those of others.
func (k *killed) launch(t *testing.T) {
	t.Helper()
	require.NoError(t, k.h.Close())
	opened, err := store.Open(t.Context(), k.options.Store)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	k.ledger = opened.Ledger
	k.c = stage.Dial(t, k.temporal.Address, k.options.Store.Dir)
	for name := range parts {
		k.spawn(t, name)
	}
}

func (k *killed) spawn(t *testing.T, name string) {
	t.Helper()
	p := k.process
	p.Roles = parts[name]
	raw, err := json.Marshal(p)
	require.NoError(t, err)
	file := filepath.Join(p.Dir, name+".json")
	require.NoError(t, os.WriteFile(file, raw, 0o600))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envActing+"="+file)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	require.NoError(t, cmd.Start())
	k.running[name] = cmd
	t.Cleanup(func() { kill(cmd) })
}

// strike kills a process, or the Temporal server, and starts it again.
func (k *killed) strike(t *testing.T, victim string, meanwhile func()) {
	t.Helper()
	if victim == "temporal" {
		require.NoError(t, k.temporal.Kill())
		<-k.temporal.Done()
		meanwhile()
		server, err := devserver.Start(t.Context(), k.server)
		require.NoError(t, err)
		k.temporal = server
		return
	}
	kill(k.running[victim])
	meanwhile()
	k.spawn(t, victim)
}

// pause stops a process where it is, until the returned function is called.
func (k *killed) pause(t *testing.T, name string) (resume func()) {
	t.Helper()
	process := k.running[name].Process
	require.NoError(t, process.Signal(syscall.SIGSTOP))
	return func() { _ = process.Signal(syscall.SIGCONT) } // it may have been killed
}

// lock lets nobody write into the ledger until the returned function is called.
func (k *killed) lock(t *testing.T) (unlock func()) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(k.process.Dir, "store", "ledger.db"))
	require.NoError(t, err)
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
		return err == nil
	}, time.Minute, time.Millisecond)
	return func() {
		_, err := conn.ExecContext(t.Context(), "ROLLBACK")
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.NoError(t, db.Close())
	}
}

// said are the lines of a round in a file of the tool's.
func (k *killed) said(t *testing.T, file, round string) (lines []string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(k.process.Dir, file))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	for line := range strings.Lines(string(raw)) {
		if strings.Contains(line, `"line":"`+round+".") {
			lines = append(lines, line)
		}
	}
	return lines
}

// leave lets the tool go on.
func (k *killed) leave(t *testing.T, what, round string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(k.process.Dir, what+"-"+round), nil, 0o600))
}

// points are where a kill interrupts effects: each waits until all of a round are there,
// and strikes.
var points = map[string]func(t *testing.T, k *killed, victim, round string, begin func() []client.WorkflowRun){
	"before the decision": func(t *testing.T, k *killed, victim, round string, begin func() []client.WorkflowRun) {
		k.leave(t, "act", round)
		k.leave(t, "answer", round)
		resume := k.pause(t, "guardian")
		for _, run := range begin() {
			k.until(t, "the guardian is asked", func() bool { return k.asked(t, run) })
		}
		k.strike(t, victim, resume)
	},
	"before the claim": func(t *testing.T, k *killed, victim, round string, begin func() []client.WorkflowRun) {
		k.leave(t, "act", round)
		k.leave(t, "answer", round)
		signed := k.signed(t)
		resume := k.pause(t, "effects")
		begin()
		k.until(t, "all are permitted", func() bool { return k.signed(t) >= signed+together })
		k.strike(t, victim, resume)
	},
	"before the effect": func(t *testing.T, k *killed, victim, round string, begin func() []client.WorkflowRun) {
		begin()
		k.until(t, "all calls have begun", func() bool { return len(k.said(t, "begun", round)) >= together })
		k.strike(t, victim, func() {})
		k.leave(t, "act", round)
		k.leave(t, "answer", round)
	},
	"before the answer": func(t *testing.T, k *killed, victim, round string, begin func() []client.WorkflowRun) {
		k.leave(t, "act", round)
		begin()
		k.until(t, "all effects have happened", func() bool { return len(k.said(t, "done", round)) >= together })
		k.strike(t, victim, func() {})
		k.leave(t, "answer", round)
	},
	"before the settlement": func(t *testing.T, k *killed, victim, round string, begin func() []client.WorkflowRun) {
		k.leave(t, "act", round)
		begin()
		k.until(t, "all effects have happened", func() bool { return len(k.said(t, "done", round)) >= together })
		unlock := k.lock(t)
		k.leave(t, "answer", round)
		k.until(t, "all calls have answered", func() bool { return len(k.said(t, "ended", round)) >= together })
		k.strike(t, victim, unlock)
	},
}

// asked reports whether a run waits for a decision.
func (k *killed) asked(t *testing.T, run client.WorkflowRun) bool {
	t.Helper()
	about, err := k.c.DescribeWorkflowExecution(t.Context(), run.GetID(), run.GetRunID())
	require.NoError(t, err)
	return slices.ContainsFunc(about.GetPendingActivities(), func(a *workflowpb.PendingActivityInfo) bool {
		return a.GetActivityType().GetName() == contract.ActivityDecide
	})
}

// signed counts the effects that are permitted and have not ended.
func (k *killed) signed(t *testing.T) int {
	t.Helper()
	tasks, err := k.ledger.ListTasks(t.Context(), task.StateSigned, ledger.Page{Limit: 1000})
	require.NoError(t, err)
	return len(tasks)
}

func (k *killed) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, time.Minute, 5*time.Millisecond, what)
}

var keyIn = regexp.MustCompile(`"key":"([^"]+)"`)

// TestKillsRepeatNoEffect: whatever dies, and when, an effect happens once; nobody calls a
// tool again that takes no idempotency key, one that does gets the same, and what nobody
// knows is said to be unknown. The tool counts.
func TestKillsRepeatNoEffect(t *testing.T) {
	raced.Skip(t)
	for _, c := range []struct{ victim, operation string }{
		{"effects", "write"}, {"effects", "put"}, {"guardian", "write"}, {"engine", "write"}, {"temporal", "write"},
	} {
		t.Run(c.victim+" "+c.operation, func(t *testing.T) {
			t.Parallel()
			k := deployKilled(t)
			source := strings.Replace(actingPlan, "template: book/write,", "template: book/"+c.operation+", timeout_ms: 5000,", 1)
			digest := k.publish(t, source)
			k.launch(t)
			// Once a run has ended, all processes are connected.
			k.leave(t, "act", "warm")
			k.leave(t, "answer", "warm")
			require.NoError(t, stage.Await(t, k.c, k.Start(t, k.c, runID(t, "warm"), digest, `{"line":"warm.0"}`), nil))
			n := 0
			for point, interrupt := range points {
				for range (*kills + together - 1) / together {
					n++
					k.interrupted(t, c.victim, c.operation == "put", point, fmt.Sprintf("r%d", n), digest, interrupt)
				}
			}
		})
	}
}

// interrupted strikes effects at a point, and checks what came of them.
func (k *killed) interrupted(t *testing.T, victim string, keyed bool, point, round, digest string, interrupt func(t *testing.T, k *killed, victim, round string, begin func() []client.WorkflowRun)) {
	t.Helper()
	var runs []client.WorkflowRun
	interrupt(t, k, victim, round, func() []client.WorkflowRun {
		for i := range together {
			line := fmt.Sprintf("%s.%d", round, i)
			runs = append(runs, k.Start(t, k.c, runID(t, line), digest, `{"line":"`+line+`"}`))
		}
		return runs
	})
	called := point != "before the decision" && point != "before the claim"
	keys := map[string]bool{}
	for i, run := range runs {
		about := fmt.Sprintf("%s %s, %s", victim, point, run.GetID())
		err := stage.Await(t, k.c, run, nil)
		var lines []string
		for _, l := range k.said(t, "done", round) {
			if strings.Contains(l, fmt.Sprintf(`"line":"%s.%d"`, round, i)) {
				lines = append(lines, l)
			}
		}
		switch {
		case keyed:
			require.NoError(t, err, about)
			require.NotEmpty(t, lines, about)
			for _, l := range lines {
				require.Equal(t, keyIn.FindStringSubmatch(lines[0]), keyIn.FindStringSubmatch(l), about)
			}
			keys[keyIn.FindStringSubmatch(lines[0])[1]] = true
		case victim == "effects" && called:
			f := failureOf(t, err)
			require.Equal(t, contract.OutcomeUnknown, f.Kind, "%s: %s", about, f.Message)
			require.LessOrEqual(t, len(lines), 1, about)
		default:
			require.NoError(t, err, about)
			require.Len(t, lines, 1, about)
		}
	}
	if keyed {
		require.Len(t, keys, together, "each effect has a key of its own")
	}
	if !keyed {
		require.LessOrEqual(t, len(k.said(t, "begun", round)), together, "%s %s: a tool was called again", victim, point)
	}
	t.Logf("%s, %s: %d calls, %d effects", victim, point, len(k.said(t, "begun", round)), len(k.said(t, "done", round)))
}
