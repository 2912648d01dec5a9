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

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/payload"
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

// actingProcess is a worker process of a deployment: of audience dev on SQLite, or in
// production on PostgreSQL, if there is a payload key.
type actingProcess struct {
	Roles                    []host.Role
	Address, Dir             string
	Store                    store.Options
	Bootstrap                json.RawMessage
	GuardianKey, Payload, At string
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
	if p.GuardianKey != "" {
		if o.GuardianKey, err = trust.ParseKey([]byte(p.GuardianKey)); err != nil {
			return o, err
		}
	}
	o.Dev = p.Payload == ""
	if !o.Dev {
		if o.Sealing.Keys, err = payload.ParseKeys([]string{p.Payload}); err != nil {
			return o, err
		}
		o.Seen = p.At
	}
	cat, ds := compiler.ParseCatalog(compiler.Source{Name: "catalog.yaml", Text: []byte(keyedCatalog)})
	if ds.HasErrors() {
		return o, fmt.Errorf("the catalog: %v", ds)
	}
	bundle, ds := policy.Parse(compiler.Source{Name: "policy.yaml", Text: []byte(keyedPolicy)})
	if ds.HasErrors() {
		return o, fmt.Errorf("the policy: %v", ds)
	}
	o.Roles, o.Client, o.Store = p.Roles, client.Options{HostPort: p.Address}, p.Store
	o.Trust, o.Catalog, o.Policy, o.Drain = root, cat, bundle, time.Millisecond
	o.Executables = map[string]skills.Executable{"book": {Command: "/bin/sh", Args: []string{"-c", tool}, Pin: []string{"/bin/cat"}, Env: map[string]string{"DIR": p.Dir}}}
	o.Callers = map[string][]host.Role{"book": {host.RoleEffects}}
	if !o.Dev {
		program := o.Executables["book"]
		program.User = stage.ChildUser
		o.Executables["book"] = program
	}
	return o, stage.Pin(cat, o.Executables)
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

// killed is a deployment whose processes are killed.
type killed struct {
	*stage.Deployment
	dir string
	// open is where the tool reads and writes, as another user in production.
	open string
	// processes are the workers of the deployment, by name.
	processes map[string]actingProcess
	server    devserver.Options
	temporal  *devserver.Server
	// cluster is the server of the ledger where that is killed, or nil.
	cluster *pgtest.Cluster
	running map[string]*exec.Cmd
	c       client.Client
	store   store.Options
	ledger  ledger.Store
	digest  string
}

// deployKilled makes a deployment that has published a plan. It has a database server of its
// own if that is the victim.
func deployKilled(t *testing.T, victim string, postgres bool, source string) *killed {
	t.Helper()
	dir := t.TempDir()
	k := &killed{dir: dir, open: stage.Open(t), processes: map[string]actingProcess{}, running: map[string]*exec.Cmd{}, server: devserver.Options{DB: filepath.Join(dir, "temporal.db")}}
	var err error
	k.temporal, err = devserver.Start(t.Context(), k.server)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.temporal.Stop(context.WithoutCancel(t.Context()))) })
	k.server.Port = portOf(t, k.temporal)
	var keys *payload.Keyring
	switch {
	case victim == "database":
		k.cluster, err = pgtest.Start(t.Context(), k.dir)
		require.NoError(t, err)
		t.Cleanup(k.cluster.Kill)
		keys = k.produce(t, k.cluster.URL("postgres"))
	case postgres:
		keys = k.produce(t, pgtest.URL(t))
	default:
		k.develop(t)
	}
	opened, err := store.Open(t.Context(), k.store)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	k.ledger = opened.Ledger
	o, err := (&actingProcess{Bootstrap: k.processes["engine"].Bootstrap}).options()
	require.NoError(t, err)
	k.Begin(t, k.ledger)
	if postgres {
		k.Rely(t, k.ledger, o.Catalog, o.Policy)
	}
	k.digest = k.Publish(t, k.ledger, source, o.Catalog, o.Policy)
	k.c, err = host.Dial(t.Context(), client.Options{HostPort: k.temporal.Address}, opened.Blobs, payload.Sealing{Keys: keys}, nil)
	require.NoError(t, err)
	t.Cleanup(k.c.Close)
	for name := range k.processes {
		k.spawn(t, name)
	}
	return k
}

// develop makes a deployment of audience dev, on SQLite.
func (k *killed) develop(t *testing.T) {
	t.Helper()
	var o host.Options
	k.Deployment = stage.Deploy(t, &o)
	root, err := json.Marshal(k.Root)
	require.NoError(t, err)
	k.store = store.Options{Dir: filepath.Join(k.dir, "store"), Key: k.LogKey}
	for name, roles := range map[string][]host.Role{
		"engine": {host.RoleEngine, host.RoleTools}, "guardian": {host.RoleGuardian}, "effects": {host.RoleEffects},
	} {
		k.processes[name] = actingProcess{Roles: roles, Address: k.temporal.Address, Dir: k.open, Store: k.store, Bootstrap: root, GuardianKey: k.GuardianKey}
	}
}

// produce makes a deployment in production, in a database of PostgreSQL.
func (k *killed) produce(t *testing.T, database string) *payload.Keyring {
	t.Helper()
	p := stage.Produce(t, database)
	k.Deployment, k.store = p.Deployment, p.Store
	root, err := json.Marshal(k.Root)
	require.NoError(t, err)
	for _, r := range host.Roles() {
		o := p.Options(t, r)
		process := actingProcess{Roles: o.Roles, Address: k.temporal.Address, Dir: k.open, Store: o.Store, Bootstrap: root, Payload: p.Keys[r], At: filepath.Join(k.dir, string(r)+".seen")}
		if r == host.RoleGuardian {
			process.GuardianKey = p.GuardianKey
		}
		k.processes[string(r)] = process
	}
	keys, err := payload.ParseKeys([]string{p.Keys[host.RoleEngine]})
	require.NoError(t, err)
	return keys
}

func (k *killed) spawn(t *testing.T, name string) {
	t.Helper()
	raw, err := json.Marshal(k.processes[name])
	require.NoError(t, err)
	file := filepath.Join(k.dir, name+".json")
	require.NoError(t, os.WriteFile(file, raw, 0o600))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envActing+"="+file)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	require.NoError(t, cmd.Start())
	k.running[name] = cmd
	t.Cleanup(func() { kill(cmd) })
}

// strike kills a process, the database or the Temporal server, and starts it again.
func (k *killed) strike(t *testing.T, victim string, meanwhile func()) {
	t.Helper()
	switch victim {
	case "database":
		k.cluster.Kill()
		meanwhile()
		require.NoError(t, k.cluster.Restart(t.Context()))
		return
	case "temporal":
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

// lock lets nobody write into the ledger until the returned function is called, or the
// database is killed.
func (k *killed) lock(t *testing.T) (unlock func()) {
	t.Helper()
	if k.store.Driver == store.Postgres {
		conn, err := pgx.Connect(t.Context(), k.store.URL)
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), "BEGIN; LOCK TABLE invocations IN EXCLUSIVE MODE")
		require.NoError(t, err)
		return func() { _ = conn.Close(t.Context()) }
	}
	db, err := sql.Open("sqlite", filepath.Join(k.dir, "store", "ledger.db"))
	require.NoError(t, err)
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
		return err == nil
	}, 5*time.Minute, time.Millisecond)
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
	raw, err := os.ReadFile(filepath.Join(k.open, file))
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
	require.NoError(t, os.WriteFile(filepath.Join(k.open, what+"-"+round), nil, 0o600))
}

// strike begins the runs of a round, and kills a process amid them.
type strike func(t *testing.T, k *killed, victim, round string, begin func() []client.WorkflowRun)

// points are where a kill interrupts effects: each waits until all of a round are there,
// and strikes.
var points = map[string]strike{
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
	var tasks []task.Task
	k.until(t, "the database answers", func() (ok bool) {
		var err error
		tasks, err = k.ledger.ListTasks(t.Context(), task.StateSigned, ledger.Page{Limit: 1000})
		return err == nil
	})
	return len(tasks)
}

func (k *killed) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, 5*time.Minute, 5*time.Millisecond, what)
}

var keyIn = regexp.MustCompile(`"key":"([^"]+)"`)

// TestKillsRepeatNoEffect: whatever dies, and when, an effect happens once; nobody calls a
// tool again that takes no idempotency key, one that does gets the same, and what nobody
// knows is said to be unknown. The tool counts.
func TestKillsRepeatNoEffect(t *testing.T) {
	for _, c := range []struct {
		victim, operation string
		// postgres is the store if kills are few; both are if they are many, and can be.
		postgres bool
		// short is the one point at which a short test kills, or "" if it does not.
		short string
	}{
		{"effects", "write", false, "before the answer"}, {"engine", "write", true, "before the settlement"},
		{"effects", "put", true, ""}, {"guardian", "write", true, ""}, {"temporal", "write", false, ""}, {"database", "write", true, ""},
	} {
		for _, postgres := range []bool{false, true} {
			if postgres != c.postgres && (*kills <= together || c.victim == "database") {
				continue
			}
			t.Run(fmt.Sprintf("%s %s %s", c.victim, c.operation, map[bool]string{false: "SQLite", true: "PostgreSQL"}[postgres]), func(t *testing.T) {
				if c.short == "" {
					lengthy.Skip(t)
				}
				t.Parallel()
				at := points
				if testing.Short() {
					at = map[string]strike{c.short: points[c.short]}
				}
				killAround(t, c.victim, c.operation, postgres, at)
			})
		}
	}
}

// killAround kills a process at points of effects.
func killAround(t *testing.T, victim, operation string, postgres bool, at map[string]strike) {
	t.Helper()
	// What a lost call did is unknown once its time is over, for which each point waits. Other
	// calls last until their victim, which a busy machine starts slowly, is there again.
	timeout := time.Minute
	if victim == "effects" {
		timeout = 30 * time.Second
	}
	source := strings.Replace(actingPlan, "template: book/write,", fmt.Sprintf("template: book/%s, timeout_ms: %d, cost_estimate: 0.01,", operation, timeout.Milliseconds()), 1)
	source = strings.Replace(source, "agent: tester,", "agent: tester, currency: USD,", 1)
	k := deployKilled(t, victim, postgres, source)
	limit, err := ledger.ParseMoney("1000.00", "USD")
	require.NoError(t, err)
	k.State(t, k.ledger, &trust.SetBudget{Agent: "tester", Currency: "USD", Every: ledger.Forever, Limit: limit})
	// Once a run has ended, all processes are connected.
	k.leave(t, "act", "warm")
	k.leave(t, "answer", "warm")
	require.NoError(t, stage.Await(t, k.c, k.Start(t, k.c, stage.RunID(t, "warm"), k.digest, `{"line":"warm.0"}`), nil))
	n, unknown := 0, int64(0)
	for point, interrupt := range at {
		for range (*kills + together - 1) / together {
			n++
			unknown += k.interrupted(t, victim, operation == "put", point, fmt.Sprintf("r%d", n), interrupt)
		}
	}
	// Each effect costs a cent, once, which is held for as long as nobody knows whether it
	// happened. Where a run does not know that, the ledger may have come to.
	var b ledger.Budget
	k.until(t, "all holds but those have ended", func() bool {
		var err error
		b, err = k.ledger.Budget(t.Context(), "tester", "USD")
		return err == nil && b.Pending.Minor() <= unknown
	})
	require.EqualValues(t, 1+n*together, b.Posted.Minor()+b.Pending.Minor(), "%s: %s posted, %s pending", victim, b.Posted, b.Pending)
	t.Logf("%s: %s posted, %s pending, %d unknown", victim, b.Posted, b.Pending, unknown)
}

// interrupted strikes effects at a point, checks what came of them, and returns of how many
// nobody knows that.
func (k *killed) interrupted(t *testing.T, victim string, keyed bool, point, round string, interrupt strike) (unknown int64) {
	t.Helper()
	var runs []client.WorkflowRun
	interrupt(t, k, victim, round, func() []client.WorkflowRun {
		for i := range together {
			line := fmt.Sprintf("%s.%d", round, i)
			runs = append(runs, k.Start(t, k.c, stage.RunID(t, line), k.digest, `{"line":"`+line+`"}`))
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
			f := stage.FailureOf(t, err)
			require.Equal(t, contract.OutcomeUnknown, f.Kind, "%s: %s", about, f.Message)
			unknown++
			require.LessOrEqual(t, len(lines), 1, about)
		case (victim == "database" || victim == "temporal") && called && err != nil:
			// The end of the call could not be recorded in time, or the server was away for
			// longer than a worker may be silent, and the call was cancelled.
			f := stage.FailureOf(t, err)
			require.Equal(t, contract.OutcomeUnknown, f.Kind, "%s: %s", about, f.Message)
			unknown++
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
	return unknown
}
