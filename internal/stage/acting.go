package stage

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// Acting is a deployment whose runs have effects, in rehearsal: see [Rehearse]. Its tool is a
// shell script that counts its calls by appending a line to the file $LINES_FILE.
type Acting struct {
	*Deployment
	// Host has all roles, unless Options say otherwise when it begins.
	Host    *host.Host
	Options host.Options
	// Lines is the file.
	Lines string
}

// The plan that writes a line, its catalog, a policy under which a line is short, and the
// tool.
const (
	ActingCatalog = `
apiVersion: chimera/v1
kind: Catalog
templates:
  - {provider_type: skill, provider_name: book, operation: write, mode: deter, effect_class: committing, timeout_ms: 60000, retry_policy: {max_retries: 2, on: [unsent]},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
     trust_requirement: allow_auto, status: allow_auto}
`
	ActingPolicy = `
apiVersion: chimera/v1
kind: PolicyBundle
version: "1"
unmodelled: [book/write]
rules:
  - {id: short, type: hard, operations: [book/write], require: 'action.inputs.line.size() < 20', message: "a line is short"}
`
	ActingPlan = `{apiVersion: chimera/v1, kind: Plan, name: acts, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
  nodes: [{id: write, template: book/write, commit_policy: {rollback: {none: "what is written stays"}}}],
  edges: [$input.line -> write.line, write.ok -> $output.ok]}`
	// ApprovedPlan asks an editor and somebody of finance.
	ApprovedPlan = `{apiVersion: chimera/v1, kind: Plan, name: asks, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
  nodes: [{id: write, template: book/write, description: "Write a line", commit_policy: {approval: {groups: [{role: editor, min: 1}, {role: finance, min: 1}]}, rollback: {none: "what is written stays"}}}],
  edges: [$input.line -> write.line, write.ok -> $output.ok]}`
	// Writes appends a line at once, so that calls side by side do not mix theirs.
	Writes = `line=$(cat); printf '%s\n' "$line" >> "$LINES_FILE"; echo '{"ok":true}'`
)

// Act begins a deployment whose tool, book, runs a script.
func Act(t testing.TB, script string) *Acting {
	t.Helper()
	return ActBy(t, "book", script, ActingCatalog, ActingPolicy)
}

// ActBy is like [Act], with a tool, a catalog and a policy.
func ActBy(t testing.TB, tool, script, operations, rules string) *Acting {
	t.Helper()
	lines := filepath.Join(t.TempDir(), "lines")
	a := ActWith(t, host.Options{
		Catalog: Operations(t, operations), Policy: Bundle(t, rules),
		Executables: map[string]skills.Executable{tool: {Command: "/bin/sh", Args: []string{"-c", script, tool}, Env: map[string]string{"LINES_FILE": lines}}},
	})
	a.Lines = lines
	return a
}

// ActWith is like [Act], with tools, a catalog and a policy of the test's own.
func ActWith(t testing.TB, o host.Options) *Acting {
	t.Helper()
	a := &Acting{Options: o}
	a.Options.Store = store.Options{Dir: filepath.Join(t.TempDir(), "store")}
	a.Deployment = Deploy(t, &a.Options)
	a.Again(t)
	a.Begin(t, a.Ledger())
	return a
}

// Operations parses a catalog.
func Operations(t testing.TB, text string) *catalog.Catalog {
	t.Helper()
	c, ds := compiler.ParseCatalog(compiler.Source{Name: "catalog.yaml", Text: []byte(text)})
	require.False(t, ds.HasErrors(), "%v", ds)
	return c
}

// Bundle parses a policy.
func Bundle(t testing.TB, rules string) *policy.Bundle {
	t.Helper()
	b, ds := policy.Parse(compiler.Source{Name: "policy.yaml", Text: []byte(rules)})
	require.False(t, ds.HasErrors(), "%v", ds)
	return b
}

// Again ends the host, if there is one, and starts another with the options. Runs go on.
func (a *Acting) Again(t testing.TB) {
	t.Helper()
	if a.Host != nil {
		require.NoError(t, a.Host.Close())
	}
	a.Host = Rehearse(t, a.Options)
}

// Ledger is that of the host.
func (a *Acting) Ledger() ledger.Store { return a.Host.Store().Ledger }

// Client answers for the runs.
func (a *Acting) Client() client.Client { return a.Host.Client() }

// State makes a statement of acts.
func (a *Acting) State(t testing.TB, acts ...trust.Act) {
	t.Helper()
	a.Deployment.State(t, a.Ledger(), acts...)
}

// Publish publishes a plan, and returns its digest.
func (a *Acting) Publish(t testing.TB, source string) string {
	t.Helper()
	return a.Deployment.Publish(t, a.Ledger(), source, a.Options.Catalog, a.Options.Policy)
}

// Start starts a run with a start grant.
func (a *Acting) Start(t testing.TB, name, digest, input string) client.WorkflowRun {
	t.Helper()
	return a.Deployment.Start(t, a.Client(), RunID(t, name), digest, input)
}

// RunID is the workflow id of a run of a test.
func RunID(t testing.TB, name string) string {
	return strings.ReplaceAll(t.Name(), "/", "-") + "-" + name
}

// Await waits for the end of a run and reads its result, which may be nil.
func (a *Acting) Await(t testing.TB, run client.WorkflowRun, result any) error {
	t.Helper()
	return Await(t, a.Client(), run, result)
}

// Fails waits for the end of a run that fails.
func (a *Acting) Fails(t testing.TB, run client.WorkflowRun) contract.Failure {
	t.Helper()
	return FailureOf(t, a.Await(t, run, nil))
}

// FailureOf is the failure of a run.
func FailureOf(t testing.TB, err error) contract.Failure {
	t.Helper()
	var application *temporal.ApplicationError
	require.ErrorAs(t, err, &application)
	var f contract.Failure
	require.NoError(t, application.Details(&f))
	require.Equal(t, application.Type(), string(f.Kind))
	return f
}

// Written is what the tool has written.
func (a *Acting) Written(t testing.TB) []string {
	t.Helper()
	raw, err := os.ReadFile(a.Lines)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
}

// Invocation is the row of the only effect of a run.
func (a *Acting) Invocation(t testing.TB, run client.WorkflowRun) ledger.Invocation {
	t.Helper()
	records, err := a.Ledger().Chain(t.Context(), ledger.RunChain(run.GetID(), run.GetRunID()), 0, 1000)
	require.NoError(t, err)
	ids := map[string]bool{}
	var last string
	for _, r := range records {
		e, err := ledger.DecodeEntry(r.Bytes)
		require.NoError(t, err)
		if e.Kind == ledger.DecisionMade {
			d, err := a.Ledger().Decision(t.Context(), strings.TrimPrefix(e.Key, string(e.Kind)+"/"))
			require.NoError(t, err)
			last = d.Invocation
			ids[last] = true
		}
	}
	require.Len(t, ids, 1)
	i, err := a.Ledger().Invocation(t.Context(), last)
	require.NoError(t, err)
	return i
}

// Enrol enrols a person with a key of development.
func (a *Acting) Enrol(t testing.TB, person string, roles ...string) Signer {
	t.Helper()
	return a.Deployment.Enrol(t, a.Ledger(), trust.SigDev, person, roles...)
}

// Asked waits until people are asked, by so many barriers, and the run knows that.
func (a *Acting) Asked(t testing.TB, run client.WorkflowRun, barriers int) []ledger.Barrier {
	t.Helper()
	all := Asked(t, a.Ledger(), run, barriers)
	Until(t, "the run knows", func() bool { return len(State(t, a.Client(), run).Barriers) == barriers })
	return all
}

// Next waits until people are asked about a run at another barrier.
func (a *Acting) Next(t testing.TB, run client.WorkflowRun, than ledger.Barrier) (b ledger.Barrier) {
	t.Helper()
	Until(t, "people are asked again", func() bool {
		b = a.Asked(t, run, 1)[0]
		return b.ID != than.ID
	})
	return b
}

// Update sends a signature by the update, and returns the answer.
func (a *Acting) Update(t testing.TB, run client.WorkflowRun, envelope json.RawMessage) (v contract.Verdict) {
	t.Helper()
	u, err := a.Client().UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: run.GetID(), UpdateName: contract.UpdateSign, Args: []any{envelope}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	require.NoError(t, err)
	require.NoError(t, u.Get(t.Context(), &v))
	return v
}

// Signal sends a signature by the signal.
func (a *Acting) Signal(t testing.TB, run client.WorkflowRun, envelope any) {
	t.Helper()
	require.NoError(t, a.Client().SignalWorkflow(t.Context(), run.GetID(), "", contract.SignalSignature, envelope))
}

// Sign signs a barrier as each of some people.
func (a *Acting) Sign(t testing.TB, run client.WorkflowRun, b ledger.Barrier, d approval.Decision, people ...Signer) {
	t.Helper()
	for _, s := range people {
		v := a.Update(t, run, s.Sign(t, b, d, nil))
		require.True(t, v.Accepted, v.Detail)
	}
}

// Budget gives the agent a budget in USD, for ever.
func (a *Acting) Budget(t testing.TB, limit string) {
	t.Helper()
	m, err := ledger.ParseMoney(limit, "USD")
	require.NoError(t, err)
	a.State(t, &trust.SetBudget{Agent: "tester", Currency: "USD", Every: ledger.Forever, Limit: m})
}

// Spent is what of the agent's budget is pending and posted.
func (a *Acting) Spent(t testing.TB) string {
	t.Helper()
	b, err := a.Ledger().Budget(t.Context(), "tester", "USD")
	require.NoError(t, err)
	return b.Pending.Amount() + " " + b.Posted.Amount()
}

// Refused starts so many runs at once, each with another text in a port, and counts those for
// which there is no money.
func (a *Acting) Refused(t testing.TB, digest, port string, runs int) (refused int) {
	t.Helper()
	var all []client.WorkflowRun
	for i := range runs {
		all = append(all, a.Start(t, fmt.Sprint(i), digest, fmt.Sprintf(`{%q:"%d"}`, port, i)))
	}
	for _, run := range all {
		if err := a.Await(t, run, nil); err != nil {
			require.Equal(t, contract.Budget, FailureOf(t, err).Kind, err)
			refused++
		}
	}
	return refused
}

// Pause and Resume steer a run by an order that is not signed.
func (a *Acting) Pause(t testing.TB, run client.WorkflowRun) {
	t.Helper()
	a.steer(t, run, contract.UpdatePause)
}

// Resume lets a paused run go on.
func (a *Acting) Resume(t testing.TB, run client.WorkflowRun) {
	t.Helper()
	a.steer(t, run, contract.UpdateResume)
}

func (a *Acting) steer(t testing.TB, run client.WorkflowRun, update string) {
	t.Helper()
	u, err := a.Client().UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: run.GetID(), UpdateName: update, Args: []any{json.RawMessage(`{}`)}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	require.NoError(t, err)
	var s contract.Steering
	require.NoError(t, u.Get(t.Context(), &s))
	require.True(t, s.Accepted, "%+v", s)
}

// Verifies ends the host, and has an auditor verify the ledger.
func (a *Acting) Verifies(t testing.TB) audit.Report {
	t.Helper()
	require.NoError(t, a.Host.Close())
	operator, err := store.Open(t.Context(), a.Options.Store)
	require.NoError(t, err)
	q := ledger.Sequencer{Store: operator.Ledger, Key: operator.Key}
	for n := 1; n > 0; {
		n, err = q.Integrate(t.Context())
		require.NoError(t, err)
	}
	dir := filepath.Join(t.TempDir(), "export")
	_, err = audit.Export(t.Context(), operator.Ledger, dir)
	require.NoError(t, err)
	require.NoError(t, operator.Close())
	report, err := audit.Verify(dir, audit.Trust{Format: audit.TrustFormat, Origin: operator.Key.Name(), Log: operator.Key.Public(), Bootstrap: a.Root}, nil)
	require.NoError(t, err)
	require.True(t, report.OK, "%v", report.Problems)
	return report
}
