package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// envProgram makes this test binary chimera-worker, which does not hide if it is openProgram.
const (
	envProgram  = "CHIMERA_TEST_PROGRAM"
	openProgram = "open"
)

const guardedCatalog = `
apiVersion: chimera/v1
kind: Catalog
templates:
  - {provider_type: skill, provider_name: book, operation: write, mode: deter, effect_class: committing, timeout_ms: 60000, retry_policy: {max_retries: 2, on: [unsent]},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
     trust_requirement: allow_auto, status: allow_auto, cost: {expr: '"1.00"', currency: USD}, endpoints: ["ENDPOINT"]}
  - {provider_type: skill, provider_name: look, operation: up, mode: deter, effect_class: pure, timeout_ms: 60000, retry_policy: {max_retries: 2},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {line: {type: string}}, required: [line]},
     trust_requirement: allow_auto, status: allow_auto, cost: {expr: "0.01", currency: USD}}
  - {provider_type: skill, provider_name: check, operation: line, mode: deter, effect_class: pure, timeout_ms: 60000, retry_policy: {max_retries: 2}, endorses: true,
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {line: {type: string}}, required: [line]},
     trust_requirement: allow_auto, status: allow_auto, endpoints: ["CHECKED"]}
`

const guardedPolicy = `
apiVersion: chimera/v1
kind: PolicyBundle
version: "1"
unmodelled: [book/write]
rules:
  - {id: short, type: hard, operations: [book/write], require: 'action.inputs.line.size() < 20', message: "a line is short"}
`

const guardedPlan = `{apiVersion: chimera/v1, kind: Plan, name: acts, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {ok: {type: boolean}, line: {type: string}}, required: [ok, line]},
  nodes: [{id: look, template: look/up}, {id: check, template: check/line}, {id: write, template: book/write, commit_policy: {prechecks: [check], rollback: {none: "what is written stays"}}}],
  edges: [$input.line -> look.line, look.line -> check.line, check.line -> write.line, look.line -> $output.line, write.ok -> $output.ok]}`

const directPlan = `{apiVersion: chimera/v1, kind: Plan, name: direct, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
  nodes: [{id: write, template: book/write, commit_policy: {rollback: {none: "what is written stays"}}}],
  edges: [$input.line -> write.line, write.ok -> $output.ok]}`

const asksPlan = `{apiVersion: chimera/v1, kind: Plan, name: asks, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
  nodes: [{id: write, template: book/write, commit_policy: {approval: {groups: [{role: editor, min: 1}, {role: finance, min: 1}]}, rollback: {none: "what is written stays"}}}],
  edges: [$input.line -> write.line, write.ok -> $output.ok]}`

// bookScript commits if it has the token.
const bookScript = `test "$TOKEN" = commits && cat >> "$LINES_FILE" && echo >> "$LINES_FILE" && echo "{\"ok\":true}"`

// guarded is the configuration of all workers of a deployment with effects. Each resolves
// the secrets of its own role.
const guarded = `
temporal: {address: %q}
worker: {drain: 1s}
store: {driver: postgres, url: '${env:DATABASE}', origin: test.example.com/log, blobs: database}
ledger: {key: '${file:ledger.key}', subjects: %q}
trust: {bootstrap: bootstrap.json, pin: %q, seen: seen.json}
guardian: {key: '${file:guardian.key}'}
payload: {keys: ['${file:payload.key}']}
catalog: ../catalog.yaml
policy: [../policy.yaml]
children: {user: nobody}
skills:
  book: {cwd: /, command: /bin/sh, args: [-c, '` + bookScript + `'], pin: [/bin/cat],
    env: {LINES_FILE: %q, TOKEN: '${env:TOKEN}'}, roles: [effects]}
  check: {cwd: /, command: /bin/sh, args: [-c, 'cat'], pin: [/bin/cat], roles: [effects]}
  look: {cwd: /, command: /bin/sh, args: [-c, 'test -z "$TOKEN" && cat'], roles: [tools]}
`

// production is a deployment whose roles are processes, each in a folder with nothing but
// its own secrets.
type production struct {
	*stage.Production
	dir, lines string
	ledger     ledger.Store
	c          client.Client
	processes  map[host.Role]*exec.Cmd
}

func produce(t *testing.T, database string, begin ...host.Role) *production {
	t.Helper()
	return produceIn(t, t.TempDir(), database, addition{}, begin...)
}

// addition is what a deployment has besides: templates of the catalog, the names of operations with
// effects, rules about them, keys of the configuration, a plan, and acts of the admins.
type addition struct {
	catalog, effects, rules, config, plan string
	acts                                  []trust.Act
}

// produceIn is like produce, with a folder for the files of the workers, and more in it.
func produceIn(t *testing.T, dir, database string, more addition, begin ...host.Role) *production {
	t.Helper()
	server := stage.Temporal(t)
	p := &production{Production: stage.Produce(t, database), dir: dir, processes: map[host.Role]*exec.Cmd{}}
	p.lines = filepath.Join(stage.Open(t), "lines")
	write := func(name, text string) {
		file := filepath.Join(p.dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	book, err := skills.Executable{
		Command: "/bin/sh", Args: []string{"-c", bookScript}, Dir: "/", Pin: []string{"/bin/cat"}, Env: map[string]string{"LINES_FILE": p.lines, "TOKEN": ""}, Public: []string{"LINES_FILE"},
	}.Endpoint()
	require.NoError(t, err)
	check, err := skills.Executable{Command: "/bin/sh", Args: []string{"-c", "cat"}, Dir: "/", Pin: []string{"/bin/cat"}}.Endpoint()
	require.NoError(t, err)
	said := strings.NewReplacer("ENDPOINT", book, "CHECKED", check).Replace(guardedCatalog) + more.catalog
	rules := strings.Replace(guardedPolicy, "unmodelled: [book/write", "unmodelled: [book/write"+more.effects, 1) + more.rules
	write("catalog.yaml", said)
	write("policy.yaml", rules)
	operations, ds := compiler.ParseCatalog(compiler.Source{Name: "catalog.yaml", Text: []byte(said)})
	require.False(t, ds.HasErrors(), "%v", ds)
	bundle, ds := policy.Parse(compiler.Source{Name: "policy.yaml", Text: []byte(rules)})
	require.False(t, ds.HasErrors(), "%v", ds)
	root, err := p.Root.Encode()
	require.NoError(t, err)
	opened, err := store.Open(t.Context(), p.Store)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	p.ledger = opened.Ledger
	applier, publisher := p.As(t, p.Applier), p.As(t, p.Publisher)
	p.Begin(t, applier)
	p.Rely(t, applier, operations, bundle)
	if more.acts != nil {
		p.State(t, applier, more.acts...)
	}
	limit, err := ledger.ParseMoney("41.00", "USD")
	require.NoError(t, err)
	p.State(t, applier, &trust.SetBudget{Agent: "tester", Currency: "USD", Every: ledger.Forever, Limit: limit})
	for role := range p.Users {
		write(string(role)+"/chimera.yaml", fmt.Sprintf(guarded, server.Address, p.Store.Subjects, p.Root.Digest(), p.lines)+more.config)
		write(string(role)+"/payload.key", p.Keys[role])
		if role != host.RoleTools {
			write(string(role)+"/bootstrap.json", string(root))
		}
	}
	write("engine/ledger.key", p.LogKey)
	write("guardian/guardian.key", p.GuardianKey)
	keys, err := payload.ParseKeys([]string{p.Keys[host.RoleEngine]})
	require.NoError(t, err)
	p.c, err = host.Dial(t.Context(), client.Options{HostPort: server.Address}, opened.Blobs, payload.Sealing{Keys: keys}, nil)
	require.NoError(t, err)
	t.Cleanup(p.c.Close)
	p.Publish(t, publisher, guardedPlan, operations, bundle)
	p.Publish(t, publisher, directPlan, operations, bundle)
	p.Publish(t, publisher, asksPlan, operations, bundle)
	if more.plan != "" {
		p.Publish(t, publisher, more.plan, operations, bundle)
	}
	for _, role := range begin {
		p.spawn(t, role)
	}
	return p
}

// spawn starts the worker of a role, with nothing but its own secrets.
func (p *production) spawn(t *testing.T, role host.Role) {
	t.Helper()
	cmd := p.command(role)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	require.NoError(t, cmd.Start())
	p.processes[role] = cmd
	t.Cleanup(func() { p.kill(role) })
}

func (p *production) command(role host.Role) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-roles", string(role))
	cmd.Dir = filepath.Join(p.dir, string(role))
	cmd.Env = append(os.Environ(), envProgram+"=1", "DATABASE="+p.Users[role])
	if role == host.RoleEffects {
		cmd.Env = append(cmd.Env, "TOKEN=commits")
	}
	return cmd
}

func (p *production) kill(role host.Role) {
	_ = p.processes[role].Process.Kill()
	_ = p.processes[role].Wait()
}

// start starts a run that writes a line.
func (p *production) start(t *testing.T, id, line string) client.WorkflowRun {
	t.Helper()
	return p.startOf(t, "acts@1", id, line)
}

func (p *production) startOf(t *testing.T, plan, id, line string) client.WorkflowRun {
	t.Helper()
	published, err := p.ledger.Plan(t.Context(), plan)
	require.NoError(t, err)
	input, err := json.Marshal(map[string]string{"line": line})
	require.NoError(t, err)
	return p.Start(t, p.c, id, published.Digest, string(input))
}

// written are the lines that the tool has written.
func (p *production) written(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile(p.lines)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
}

// TestProduction: four processes, each with its own database user, payload key and
// secrets, decide on effects, permit and make them, within one budget.
func TestProduction(t *testing.T) {
	p := produce(t, pgtest.URL(t), host.Roles()...)
	var out struct{ OK bool }
	require.NoError(t, p.start(t, "one", "first").Get(t.Context(), &out))
	require.True(t, out.OK)
	require.Equal(t, []string{`{"line":"first"}`}, p.written(t))
	err := p.start(t, "long", "a line that is too long for the policy").Get(t.Context(), nil)
	require.ErrorContains(t, err, "policy:short")

	// A client with the key of values alone may give a run a large input.
	key, err := payload.RoleKey(p.Keys[host.RoleEngine], "values")
	require.NoError(t, err)
	keys, err := payload.ParseKeys([]string{key})
	require.NoError(t, err)
	opened, err := store.Open(t.Context(), p.Store)
	require.NoError(t, err)
	defer func() { require.NoError(t, opened.Close()) }()
	starter, err := host.Dial(t.Context(), client.Options{HostPort: stage.Temporal(t).Address}, opened.Blobs, payload.Sealing{Keys: keys}, nil)
	require.NoError(t, err)
	defer starter.Close()
	direct, err := p.ledger.Plan(t.Context(), "direct@1")
	require.NoError(t, err)
	large := p.Start(t, starter, "large", direct.Digest, `{"line":"`+strings.Repeat("x", 40_000)+`"}`)
	require.ErrorContains(t, large.Get(t.Context(), nil), "policy:short", "the guardian has read it")

	// 64 at a time, with money for 39, or eight, with money for three. A look-up costs a cent, too.
	many, money, posted := 64, 39, "40.66 USD"
	if testing.Short() {
		many, money, posted = 8, 3, "4.10 USD"
		limit, err := ledger.ParseMoney("5.00", "USD")
		require.NoError(t, err)
		p.State(t, p.As(t, p.Applier), &trust.SetBudget{Agent: "tester", Currency: "USD", Every: ledger.Forever, Limit: limit})
	}
	var runs []client.WorkflowRun
	for i := range many {
		runs = append(runs, p.start(t, fmt.Sprint("many-", i), fmt.Sprint(i)))
	}
	paid := 0
	for _, run := range runs {
		if err := run.Get(t.Context(), nil); err == nil {
			paid++
		} else {
			require.ErrorContains(t, err, "budget_exceeded")
		}
	}
	require.Equal(t, money, paid)
	require.Len(t, p.written(t), 1+money)
	b, err := p.ledger.Budget(t.Context(), "tester", "USD")
	require.NoError(t, err)
	require.Equal(t, posted, b.Posted.String())
	require.Zero(t, b.Pending.Minor())

	// An auditor makes every decision again.
	stage.Until(t, "all is in the log", func() bool {
		waiting, err := p.ledger.Pending(t.Context(), 1)
		return err == nil && len(waiting) == 0
	})
	dir := filepath.Join(t.TempDir(), "export")
	_, err = audit.Export(t.Context(), p.ledger, dir)
	require.NoError(t, err)
	report, err := audit.Verify(dir, audit.Trust{Format: audit.TrustFormat, Origin: p.Root.Log.Origin, Log: p.Root.Log.Key, Bootstrap: p.Root, Audience: string(p.Root.Audience)}, nil)
	require.NoError(t, err)
	require.True(t, report.OK, "%v", report.Problems)
	require.EqualValues(t, many+3, report.Replayed)
	require.Zero(t, report.NotReplayable)
}

// TestToolsAnswerForNobodyElse: a worker of tools that is compromised has its key and may
// poll any queue. What it says in place of the guardian, or of effects, is not heard.
func TestToolsAnswerForNobodyElse(t *testing.T) {
	lengthy.Skip(t)
	p := produce(t, pgtest.URL(t), host.RoleEngine, host.RoleTools)
	run := p.start(t, "one", "first")
	// The hold for what a call costs.
	held := func(request string) any { return contract.Held{Request: request, Hold: "forged"} }
	p.lie(t, contract.QueueGuardian, "", held)
	p.lie(t, contract.QueueGuardian, "guardian", held)
	p.spawn(t, host.RoleGuardian)
	// What an effect relies on, which is a precheck of it, too.
	forged := func(request string) any {
		return contract.Outcome{Request: request, Values: []contract.Value{contract.Value(`"forged"`)}, Output: "sha256:" + strings.Repeat("0", 64)}
	}
	p.lie(t, contract.QueueEffects, "", forged)
	p.lie(t, contract.QueueEffects, "effects", forged)
	p.kill(host.RoleGuardian)
	p.spawn(t, host.RoleEffects)
	p.lie(t, contract.QueueGuardian, "", func(request string) any {
		return contract.Decided{Request: request, Permit: &contract.Permit{Envelope: json.RawMessage(`{}`)}}
	})
	p.kill(host.RoleEffects)
	p.lie(t, contract.QueueGuardian, "guardian", func(request string) any { return contract.Decided{Request: request} })
	p.spawn(t, host.RoleGuardian)
	p.lie(t, contract.QueueEffects, "", func(request string) any {
		return contract.Outcome{Request: request, Values: []contract.Value{contract.Value("true")}, Output: "sha256:" + strings.Repeat("0", 64)}
	})
	require.Empty(t, p.written(t), "nothing was called")
	p.spawn(t, host.RoleEffects)
	require.NoError(t, run.Get(t.Context(), nil))
	require.Equal(t, []string{`{"line":"first"}`}, p.written(t))
}

// lie answers a call on a queue with the key of tools, as a role if one is given. It knows
// which request it answers.
func (p *production) lie(t *testing.T, queue, as string, answer func(request string) any) {
	t.Helper()
	polling, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	task := &workflowservice.PollActivityTaskQueueResponse{}
	for len(task.GetTaskToken()) == 0 {
		var err error
		task, err = p.c.WorkflowService().PollActivityTaskQueue(polling, &workflowservice.PollActivityTaskQueueRequest{
			Namespace: client.DefaultNamespace, TaskQueue: &taskqueue.TaskQueue{Name: queue}, Identity: "liar",
		})
		require.NoError(t, err)
	}
	whole, err := payload.ParseKeys([]string{p.Keys[host.RoleEngine]})
	require.NoError(t, err)
	var call contract.Call
	require.NoError(t, payload.NewReader(nil, whole).Read(t.Context(), task.GetInput().GetPayloads()[0], &call))
	own, err := payload.ParseKeys([]string{p.Keys[host.RoleTools]})
	require.NoError(t, err)
	said, err := converter.WithDataConverterSerializationContext(payload.NewConverter(payload.NewPlans(nil, 0), payload.Sealing{Keys: own}), converter.ActivitySerializationContext{
		Namespace: client.DefaultNamespace, WorkflowID: task.GetWorkflowExecution().GetWorkflowId(), ActivityType: task.GetActivityType().GetName(), TaskQueue: contract.QueueTools,
	}).ToPayloads(answer(call.Request))
	require.NoError(t, err)
	if as != "" {
		said.GetPayloads()[0].Metadata["chimera-role"] = []byte(as)
	}
	_, err = p.c.WorkflowService().RespondActivityTaskCompleted(t.Context(), &workflowservice.RespondActivityTaskCompletedRequest{
		Namespace: client.DefaultNamespace, TaskToken: task.GetTaskToken(), Result: said, Identity: "liar",
	})
	require.NoError(t, err)
}

// TestAdminsHaveTheLastWord: what they block is not called, a policy that they have not
// activated decides nothing, and a database that has lost what they said is refused.
func TestAdminsHaveTheLastWord(t *testing.T) {
	p := produce(t, pgtest.URL(t), host.Roles()...)
	require.NoError(t, p.start(t, "warm", "warm").Get(t.Context(), nil))
	state, err := trust.Read(t.Context(), p.ledger, p.Root)
	require.NoError(t, err)
	said := state.Tools["book/write"]
	// A key that may start runs, and does not vouch for what they are given.
	keys := []string{p.Starter.Public()}
	require.NoError(t, p.startOf(t, "direct@1", "vouched", "vouched").Get(t.Context(), nil))
	p.State(t, p.ledger, &trust.SetAgentKeys{AgentID: "tester", Keys: keys})
	require.ErrorContains(t, p.startOf(t, "direct@1", "unvouched", "unvouched").Get(t.Context(), nil), "REJECT, tainted")
	require.NoError(t, p.start(t, "checked", "checked").Get(t.Context(), nil), "what an operation endorses is not tainted")
	p.State(t, p.ledger, &trust.SetAgentKeys{AgentID: "tester", Keys: keys, Vouching: keys})
	blocked := said
	blocked.Status = "block"
	p.State(t, p.ledger, &blocked)
	require.ErrorContains(t, p.start(t, "blocked", "blocked").Get(t.Context(), nil), "have stated block for the tool")
	dearer := said
	dearer.Facts = json.RawMessage(strings.Replace(string(said.Facts), "1.00", "2.00", 1))
	p.State(t, p.ledger, &dearer)
	require.ErrorContains(t, p.start(t, "dearer", "dearer").Get(t.Context(), nil), `of the tool "book/write" the catalog says cost`)
	p.State(t, p.ledger, &said, &trust.ActivateBundle{Digest: "sha256:" + strings.Repeat("0", 64)})
	run := p.start(t, "later", "later")
	p.kill(host.RoleEffects)
	require.Contains(t, p.ends(t, host.RoleEffects), "the admins have activated the policy bundle sha256:0000")
	p.State(t, p.ledger, &trust.ActivateBundle{Digest: state.Bundle})
	// What can commit is this role's alone only if the configuration says so.
	file := filepath.Join(p.dir, string(host.RoleEffects), "chimera.yaml")
	configured, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(configured), "TOKEN: '${env:TOKEN}'}, roles: [effects]", "TOKEN: '${env:TOKEN}'}", 1)), 0o600))
	require.Contains(t, p.ends(t, host.RoleEffects), "set roles: [effects] for it")
	require.NoError(t, os.WriteFile(file, configured, 0o600))
	p.spawn(t, host.RoleEffects)
	require.NoError(t, run.Get(t.Context(), nil), "the guardian has waited for the right policy")
	require.Len(t, p.written(t), 4)

	conn, err := pgx.Connect(t.Context(), p.Store.URL)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	_, err = conn.Exec(t.Context(), "BEGIN; ALTER TABLE authority DISABLE TRIGGER ALL; DELETE FROM authority WHERE n = (SELECT max(n) FROM authority); ALTER TABLE authority ENABLE TRIGGER ALL; COMMIT")
	require.NoError(t, err)
	p.kill(host.RoleGuardian)
	require.Contains(t, p.ends(t, host.RoleGuardian), "statements, but this process has read")
}

// ends runs the worker of a role, which refuses to start, and returns what it says.
func (p *production) ends(t *testing.T, role host.Role) string {
	t.Helper()
	said, err := p.command(role).CombinedOutput()
	require.Error(t, err)
	return string(said)
}
