package host_test

import (
	"crypto/rand"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// production makes the deployments of the tests of effects ones in production.
var production = flag.Bool("production", false, "deployments with effects are in production: on PostgreSQL, with a host, a database user and keys for each role")

// acting is a deployment whose runs have effects: a tool counts its calls by appending a
// line to a file.
type acting struct {
	*stage.Deployment
	// h is the host of all roles, or in production that of the role engine. beside are the
	// other hosts.
	h      *host.Host
	beside []*host.Host
	// options are those of the hosts, but for what each role has of its own in production.
	options host.Options
	lines   string

	// The rest is for a deployment in production: store is the ledger as its owner sees it, and
	// dir has the files in which roles keep the last statement that they have read.
	of    *stage.Production
	store *store.Opened
	dir   string
}

// What rehearsals use, too.
const (
	actingCatalog = stage.ActingCatalog
	actingPolicy  = stage.ActingPolicy
	actingPlan    = stage.ActingPlan
	writes        = stage.Writes
)

// act starts a deployment with effects, whose tool runs a shell script.
func act(t *testing.T, script string) *acting {
	t.Helper()
	return actBy(t, "book", script, actingCatalog, actingPolicy)
}

// actBy is like act, with a tool, a catalog and a policy.
func actBy(t *testing.T, tool, script, operations, rules string) *acting {
	t.Helper()
	return deployed(t, *production, tool, script, operations, rules)
}

// deployed starts a deployment with effects, in production or not.
func deployed(t *testing.T, production bool, tool, script, operations, rules string) *acting {
	t.Helper()
	if !production {
		a := prepare(t, tool, script, operations, rules)
		a.options.Store.Dir = filepath.Join(t.TempDir(), "store")
		a.Deployment = stage.Deploy(t, &a.options)
		a.again(t)
		a.Begin(t, a.ledger())
		return a
	}
	a := produce(t, tool, script, operations, rules)
	a.again(t)
	return a
}

// prepare makes the options of a deployment, apart from its store, roles and keys.
func prepare(t *testing.T, tool, script, operations, rules string) *acting {
	t.Helper()
	a := &acting{lines: filepath.Join(stage.Open(t), "lines"), dir: t.TempDir()}
	cat, ds := compiler.ParseCatalog(compiler.Source{Name: "catalog.yaml", Text: []byte(operations)})
	require.False(t, ds.HasErrors(), "%v", ds)
	a.options = host.Options{
		Client:  client.Options{HostPort: stage.Temporal(t).Address, Namespace: stage.Temporal(t).Namespace},
		Catalog: cat, Policy: stage.Bundle(t, rules),
		Executables: map[string]skills.Executable{tool: {Command: "/bin/sh", Args: []string{"-c", script, tool}, Pin: []string{"/bin/cat"}, Env: map[string]string{"LINES_FILE": a.lines}}},
	}
	return a
}

// produce makes a deployment in production, none of whose hosts has begun.
func produce(t *testing.T, tool, script, operations, rules string) *acting {
	t.Helper()
	return produceIn(t, pgtest.URL(t), tool, script, operations, rules)
}

// produceIn is like produce, in a database.
func produceIn(t *testing.T, database, tool, script, operations, rules string) *acting {
	t.Helper()
	a := prepare(t, tool, script, operations, rules)
	a.of = stage.Produce(t, database)
	a.Deployment = a.of.Deployment
	program := a.options.Executables[tool]
	program.User = stage.ChildUser
	a.options.Executables[tool] = program
	require.NoError(t, stage.Pin(a.options.Catalog, a.options.Executables))
	a.options.Roles, a.options.Callers = host.Roles(), map[string][]host.Role{tool: {host.RoleTools, host.RoleEffects}}
	var err error
	a.store, err = store.Open(t.Context(), a.of.Store)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.store.Close()) })
	a.Begin(t, a.ledger())
	a.Rely(t, a.ledger(), a.options.Catalog, a.options.Policy)
	return a
}

// role are the options of a host in production, which has one role.
func (a *acting) role(t *testing.T, o host.Options, role host.Role) host.Options {
	t.Helper()
	own := a.of.Options(t, role)
	o.Roles, o.Store, o.Sealing, o.Trust, o.GuardianKey, o.Seen = own.Roles, own.Store, own.Sealing, own.Trust, own.GuardianKey, filepath.Join(a.dir, string(role))
	return o
}

// begin starts the hosts of the roles in options: one, or in production one for each role.
func (a *acting) begin(t *testing.T, o host.Options) (all []*host.Host) {
	t.Helper()
	if a.of == nil {
		return []*host.Host{stage.Host(t, o)}
	}
	for _, role := range o.Roles {
		all = append(all, stage.Host(t, a.role(t, o, role)))
	}
	return all
}

// again ends the hosts, if there are some, and starts others. In production it first activates
// the policy.
func (a *acting) again(t *testing.T) {
	t.Helper()
	a.end(t)
	if a.of != nil {
		a.activate(t, a.options.Policy)
	}
	all := a.begin(t, a.options)
	a.h, a.beside = all[0], all[1:]
}

// end ends the hosts.
func (a *acting) end(t *testing.T) {
	t.Helper()
	for _, h := range append(a.beside, a.h) {
		if h != nil {
			require.NoError(t, h.Close())
		}
	}
}

// activate activates a policy, by which hosts that begin decide.
func (a *acting) activate(t *testing.T, bundle *policy.Bundle) {
	t.Helper()
	a.options.Policy = bundle
	said, err := trust.Read(t.Context(), a.ledger(), a.Root)
	require.NoError(t, err)
	if said.Bundle != bundle.Digest() {
		a.state(t, &trust.ActivateBundle{Digest: bundle.Digest()})
	}
}

// develops skips a test of what is not so in production.
func (a *acting) develops(t *testing.T, why string) {
	t.Helper()
	if a.of != nil {
		t.Skip(why)
	}
}

// ledger is the ledger as its owner sees it.
func (a *acting) ledger() ledger.Store {
	if a.store != nil {
		return a.store.Ledger
	}
	return a.h.Store().Ledger
}

// state makes a statement of acts.
func (a *acting) state(t *testing.T, acts ...trust.Act) {
	t.Helper()
	a.State(t, a.ledger(), acts...)
}

// publish publishes a plan, and returns its digest.
func (a *acting) publish(t *testing.T, source string) string {
	t.Helper()
	return a.Publish(t, a.ledger(), source, a.options.Catalog, a.options.Policy)
}

// start starts a run with a start grant.
func (a *acting) start(t *testing.T, name, digest, input string) client.WorkflowRun {
	t.Helper()
	return a.Start(t, a.h.Client(), stage.RunID(t, name), digest, input)
}

// written is what the tool has written.
func (a *acting) written(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile(a.lines)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
}

// reset resets a run to the end of a workflow task, and returns the run that goes on.
func (a *acting) reset(t *testing.T, run client.WorkflowRun, task int64) client.WorkflowRun {
	t.Helper()
	reset, err := a.h.Client().ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: run.GetID(), RunId: run.GetRunID()},
		Reason: "once more", WorkflowTaskFinishEventId: task, RequestId: rand.Text(),
	})
	require.NoError(t, err)
	return a.h.Client().GetWorkflow(t.Context(), run.GetID(), reset.GetRunId())
}

// replays replays the history of a run.
func (a *acting) replays(t *testing.T, run client.WorkflowRun) {
	t.Helper()
	o := a.engine(t)
	blobs, done, err := store.OpenBlobs(t.Context(), o.Store)
	require.NoError(t, err)
	defer func() { require.NoError(t, done()) }()
	history := &historypb.History{Events: events(t, a.h.Client(), run, enumspb.EVENT_TYPE_UNSPECIFIED)}
	require.NoError(t, host.NewReplayer(blobs, o.Sealing).Replay("default", run.GetID(), history))
}

// verifies ends the hosts, and has an auditor verify the ledger.
func (a *acting) verifies(t *testing.T) audit.Report {
	t.Helper()
	a.end(t)
	o := a.options.Store
	if a.of != nil {
		o = a.of.Store
	}
	operator, err := store.Open(t.Context(), o)
	require.NoError(t, err)
	integrate(t, operator)
	dir := filepath.Join(t.TempDir(), "export")
	_, err = audit.Export(t.Context(), operator.Ledger, dir)
	require.NoError(t, err)
	require.NoError(t, operator.Close())
	report, err := audit.Verify(dir, audit.Trust{Format: audit.TrustFormat, Origin: operator.Key.Name(), Log: operator.Key.Public(), Bootstrap: a.Root}, nil)
	require.NoError(t, err)
	require.True(t, report.OK, "%v", report.Problems)
	return report
}

// dial connects to the deployment as its command line does.
func (a *acting) dial(t *testing.T) client.Client {
	t.Helper()
	o := a.engine(t)
	return stage.DialSealed(t, o.Client.HostPort, o.Store, o.Sealing)
}

// engine are the options of the host with the role engine.
func (a *acting) engine(t *testing.T) host.Options {
	t.Helper()
	if a.of == nil {
		return a.options
	}
	return a.role(t, a.options, host.RoleEngine)
}
