package adversary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/witness"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// The people of the deployment: editors and finance approve, operators say what calls did.
const (
	editor   = "editor"
	finance  = "finance"
	operator = "operator"
)

// witnessName is the name of the witness of the log.
const witnessName = "witness.example.com"

// Deployment is a deployment in production whose hosts have ended, and what its parts hold.
type Deployment struct {
	*stage.Production
	// Database is the connection string of the database, to which nobody is connected, and
	// users are those of its group roles, by role.
	Database string
	users    map[string]string
	// Early is the connection string of a copy of the database that was made before the last
	// runs.
	Early string
	// Eve is the one editor; with Fay, of finance, she approves. Leo is the second operator.
	Eve, Fay, Leo stage.Signer
	// Gone is the key of a publisher who was revoked.
	Gone *trust.Key
	// Requester is the person for whom the agent's key speaks.
	Requester string
	// Open is the run at which people are asked, and Barrier what they are asked.
	Open    ledger.Run
	Barrier ledger.Barrier
	// Plan is the digest of the plan that acts without approval, Asks that of the one for which
	// people are asked.
	Plan, Asks string
	// ofServer are the digests of the plans that call an MCP server, by its name.
	ofServer map[string]string
	// Witness is the public key of the witness, witnessSecret its secret one, and witnessState
	// what it remembers.
	Witness, witnessSecret, witnessState string

	hosts map[host.Role]*host.Host
	owner *store.Opened
	dir   string
	// open is where the tool writes, as another user.
	open string
	// copies counts the copies of the database.
	copies int
	// tools are the MCP servers, and at is the deployment at work, once it is.
	tools *toolbox
	at    *live
}

// rules are what the operator says of the tool.
func rules(t testing.TB) (*catalog.Catalog, *policy.Bundle) {
	t.Helper()
	operations, ds := compiler.ParseCatalog(compiler.Source{Name: "catalog.yaml", Text: []byte(toolCatalog)})
	require.False(t, ds.HasErrors(), "%v", ds)
	require.NoError(t, stage.Pin(operations, book("")))
	bundle, ds := policy.Parse(compiler.Source{Name: "policy.yaml", Text: []byte(toolPolicy)})
	require.False(t, ds.HasErrors(), "%v", ds)
	ds = bundle.Load(func(f policy.ModelFile) (*causal.Model, diag.Diagnostics) {
		return causal.Parse(diag.Source{Name: f.Path, Text: []byte(pageModel)})
	})
	require.Empty(t, ds)
	return operations, bundle
}

// Deploy makes the deployment, lets its runs end but for one, and ends its hosts. bank makes its
// remote MCP servers.
func Deploy(t testing.TB, bank Bank) *Deployment {
	t.Helper()
	d := &Deployment{Database: pgtest.URL(t), hosts: map[host.Role]*host.Host{}, users: map[string]string{}, ofServer: map[string]string{}, dir: t.TempDir(), open: stage.Open(t)}
	d.tools = newToolbox(t, bank)
	d.Production = stage.Produce(t, d.Database)
	var err error
	d.witnessSecret, d.Witness, err = ledger.NewKey(witnessName)
	require.NoError(t, err)
	d.witnessState = filepath.Join(d.dir, "witness.state")
	d.owner, err = store.Open(t.Context(), d.Store)
	require.NoError(t, err)
	operations, bundle := rules(t)
	operations = registry.Under(operations, d.tools.imported)
	l := d.owner.Ledger
	d.Begin(t, l)
	d.Rely(t, l, operations, bundle)
	d.stateTools(t, l)
	said, err := trust.Read(t.Context(), l, d.Root)
	require.NoError(t, err)
	d.Requester = said.Agents["tester"].Requesters[0]
	usd, err := ledger.ParseMoney("100.00", "USD")
	require.NoError(t, err)
	gone, _, err := trust.NewKey()
	require.NoError(t, err)
	d.Gone = gone
	d.State(t, l, &trust.SetBudget{Agent: "tester", Currency: "USD", Every: ledger.Forever, Limit: usd},
		&trust.AddPublisher{ID: "guy", Person: "guy", Key: gone.Public(), Uses: []string{"plans"}})
	d.State(t, l, &trust.RevokePublisher{ID: "guy"})
	d.Eve, d.Fay = d.Enrol(t, l, trust.SigToken, "eve", editor, operator), d.Enrol(t, l, trust.SigToken, "fay", finance)
	require.NoError(t, os.Mkdir(d.shared(), 0o700))
	d.begin(t)
	d.first(t, operations, bundle)
	d.end(t)
	d.Early = d.copyOf(t, "early")
	d.owner, err = store.Open(t.Context(), d.Store)
	require.NoError(t, err)
	d.begin(t)
	d.then(t)
	d.end(t)
	d.more(t)
	for _, role := range roles() {
		d.users[role] = d.login(t, role)
	}
	return d
}

// book is the tool, which writes to a file.
func book(lines string) map[string]skills.Executable {
	return map[string]skills.Executable{"book": {
		Command: "/bin/sh", Args: []string{"-c", tool, "book"}, Pin: []string{"/bin/cat"}, User: stage.ChildUser, Env: map[string]string{"LINES_FILE": lines},
	}}
}

// of are the options of a host of a role.
func (d *Deployment) of(t testing.TB, role host.Role) host.Options {
	t.Helper()
	server := stage.Temporal(t)
	o := d.Options(t, role)
	o.Client = client.Options{HostPort: server.Address, Namespace: server.Namespace}
	o.Catalog, o.Policy = rules(t)
	o.Executables = book(filepath.Join(d.open, "lines"))
	o.Callers = map[string][]host.Role{"book": {host.RoleTools, host.RoleEffects}}
	d.tools.configure(t, &o)
	o.Logger = slog.New(slog.DiscardHandler)
	if role == host.RoleEngine {
		o.Witnesses = []witness.Witness{{Name: "ours", Key: d.Witness, Dir: d.shared()}}
	}
	return o
}

// begin starts a host for each role.
func (d *Deployment) begin(t testing.TB) {
	t.Helper()
	for _, role := range host.Roles() {
		d.hosts[role] = stage.Host(t, d.of(t, role))
	}
}

// end ends the hosts and the owner's own store, once the witness has seen everything.
func (d *Deployment) end(t testing.TB) {
	t.Helper()
	d.witnessed(t)
	for _, h := range d.hosts {
		require.NoError(t, h.Close())
	}
	require.NoError(t, d.owner.Close())
}

// shared is the folder that log and witness share.
func (d *Deployment) shared() string { return filepath.Join(d.dir, "witness") }

// startLine starts a run that writes a line.
func (d *Deployment) startLine(t testing.TB, id, digest, line string) client.WorkflowRun {
	t.Helper()
	return d.Start(t, d.hosts[host.RoleEngine].Client(), id, digest, `{"line":"`+line+`"}`)
}

// first lets runs happen whose bodies are pruned and erased, one that is undone, and one of
// whose call nobody knows the outcome.
func (d *Deployment) first(t testing.TB, operations *catalog.Catalog, bundle *policy.Bundle) {
	t.Helper()
	l, c := d.owner.Ledger, d.hosts[host.RoleEngine].Client()
	publish := func(source string) string { return d.Publish(t, l, source, operations, bundle) }
	d.Plan, d.Asks = publish(actsPlan), publish(asksPlan)
	undoes, notes := publish(undoesPlan), publish(notesPlan)
	for server, source := range toolPlans() {
		d.ofServer[server] = publish(source)
	}
	require.NoError(t, stage.Await(t, c, d.startLine(t, "old", d.Plan, "old"), nil))
	require.NoError(t, stage.Await(t, c, d.StartAbout(t, c, "otto", d.Plan, `{"line":"otto"}`, "otto"), nil))
	require.NoError(t, l.EraseSubject(t.Context(), "otto", "he has asked"))
	n, err := l.Prune(t.Context(), ledger.Operational, time.Now(), "as agreed")
	require.NoError(t, err)
	require.Positive(t, n)
	noted := d.startLine(t, "noted", notes, "dies")
	require.Error(t, stage.Await(t, c, d.startLine(t, "undone", undoes, "ink"), nil))
	require.NoError(t, stage.Await(t, c, d.startLine(t, "acted", d.Plan, "one"), nil))
	stage.Asked(t, l, noted, 1)
}

// then lets runs happen that people approve, one about a person, and one that stays open, and
// lets people say what the call did.
func (d *Deployment) then(t testing.TB) {
	t.Helper()
	l, c := d.owner.Ledger, d.hosts[host.RoleEngine].Client()
	noted := c.GetWorkflow(t.Context(), "noted", "")
	for _, server := range slices.Sorted(maps.Keys(d.ofServer)) {
		require.NoError(t, stage.Await(t, c, d.startLine(t, "of-"+server, d.ofServer[server], "of-"+server), nil))
		require.Equal(t, 1, d.tools.got(t, server, "of-"+server))
	}
	approved := d.startLine(t, "approved", d.Asks, "two")
	d.sign(t, c, approved, stage.Asked(t, l, approved, 1)[0], approval.Approve, d.Eve, d.Fay)
	require.NoError(t, stage.Await(t, c, approved, nil))
	require.NoError(t, stage.Await(t, c, d.StartAbout(t, c, "erika", d.Plan, `{"line":"three"}`, "erika"), nil))
	held, err := l.Run(t.Context(), "acted", "")
	require.NoError(t, err)
	require.NoError(t, l.PlaceLegalHold(t.Context(), held.Chain(), "a case"))
	d.Leo = d.Enrol(t, l, trust.SigToken, "leo", operator)
	operating := d.Eve
	operating.Role = operator
	d.sign(t, c, noted, stage.Asked(t, l, noted, 1)[0], approval.Executed, operating, d.Leo)
	require.Error(t, stage.Await(t, c, noted, nil), "nobody knows what it answered")
	waits := d.startLine(t, "waits", d.Asks, "four")
	d.Barrier = stage.Asked(t, l, waits, 1)[0]
	d.sign(t, c, waits, d.Barrier, approval.Approve, d.Eve)
	d.Open, err = l.Run(t.Context(), "waits", "")
	require.NoError(t, err)
}

// more states one fact that has no place in the log yet.
func (d *Deployment) more(t testing.TB) {
	t.Helper()
	s, err := store.Open(t.Context(), d.Store)
	require.NoError(t, err)
	err = s.Ledger.TakeSnapshot(t.Context(), ledger.Snapshot{Server: "files", Fingerprint: d.Plan, Digest: d.Plan})
	require.NoError(t, errors.Join(err, s.Close()))
}

// sign has people sign a barrier.
func (d *Deployment) sign(t testing.TB, c client.Client, run client.WorkflowRun, b ledger.Barrier, as approval.Decision, people ...stage.Signer) {
	t.Helper()
	for _, s := range people {
		u, err := c.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
			WorkflowID: run.GetID(), UpdateName: contract.UpdateSign, Args: []any{s.Sign(t, b, as, nil)}, WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		require.NoError(t, err)
		var v contract.Verdict
		require.NoError(t, u.Get(t.Context(), &v))
		require.True(t, v.Accepted, v.Detail)
	}
}

// witnessed waits until everything has its place, and the witness has cosigned it.
func (d *Deployment) witnessed(t testing.TB) {
	t.Helper()
	k := witness.Cosigner{Secret: d.witnessSecret, Log: d.owner.Key.Public(), Dir: d.shared(), State: d.witnessState}
	stage.Until(t, "the witness has cosigned the log", func() bool {
		if _, err := os.Stat(filepath.Join(k.Dir, witness.RequestFile)); err == nil {
			_, err := k.Answer()
			require.NoError(t, err)
		}
		raw, err := d.owner.Ledger.Checkpoint(t.Context())
		require.NoError(t, err)
		pending, err := d.owner.Ledger.Pending(t.Context(), 1)
		require.NoError(t, err)
		_, _, _, err = ledger.Cosignature(raw, d.Witness)
		return len(pending) == 0 && err == nil
	})
}

// copyOf copies the database, to which nobody may be connected, and returns the connection
// string of the copy.
func (d *Deployment) copyOf(t testing.TB, name string) string {
	t.Helper()
	return place(d.Database, d.copyNamed(t, name))
}

// copyNamed copies the database, and returns the name of the copy, which ends with the drill.
func (d *Deployment) copyNamed(t testing.TB, name string) string {
	t.Helper()
	from, err := url.Parse(d.Database)
	require.NoError(t, err)
	template := strings.TrimPrefix(from.Path, "/")
	of := template + "_" + name
	run(t, admin(d.Database), "CREATE DATABASE "+of+" TEMPLATE "+template)
	t.Cleanup(func() { run(t, admin(d.Database), "DROP DATABASE "+of+" WITH (FORCE)") })
	return of
}

// login makes a user of a group role, and returns the connection string.
func (d *Deployment) login(t testing.TB, role string) string {
	t.Helper()
	u, err := url.Parse(d.Database)
	require.NoError(t, err)
	user := strings.ToLower(fmt.Sprintf("thief_%s_%d_%d", role, os.Getpid(), time.Now().UnixNano()))
	run(t, d.Database, "CREATE ROLE "+user+" LOGIN IN ROLE "+role)
	t.Cleanup(func() { run(t, admin(d.Database), "DROP ROLE "+user) })
	u.User = url.User(user)
	return u.String()
}

// admin is the connection string of the database from which others are made.
func admin(database string) string {
	u, err := url.Parse(database)
	if err != nil {
		panic(err) // it was used before
	}
	u.Path = "/postgres"
	return u.String()
}

// run executes statements.
func run(t testing.TB, database string, statements ...string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, database)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(ctx)) }()
	for _, s := range statements {
		_, err := conn.Exec(ctx, s)
		require.NoError(t, err, s)
	}
}

// grantOf is a start grant by a key for a run, changed as a thief likes.
func (d *Deployment) grantOf(t testing.TB, key *trust.Key, r ledger.Run, change func(*trust.Grant)) json.RawMessage {
	t.Helper()
	g := trust.Grant{
		Deployment: d.Root.Deployment, Audience: d.Root.Audience, Namespace: client.DefaultNamespace, WorkflowID: r.Workflow, Plan: r.PlanDigest, Input: r.InputDigest,
		Agent: r.Agent, Requester: d.Requester, Nonce: trust.Nonce(), Issued: ledger.At(time.Now()), Expires: ledger.At(time.Now().Add(time.Hour)),
	}
	if change != nil {
		change(&g)
	}
	raw, err := trust.SignGrant(key, g)
	require.NoError(t, err)
	return raw
}

// place names another database in a connection string.
func place(of, database string) string {
	u, err := url.Parse(of)
	if err != nil {
		panic(err) // it was used before
	}
	u.Path = "/" + database
	return u.String()
}

// distinct sorts texts and drops those that are there twice.
func distinct(all []string) []string { return slices.Compact(slices.Sorted(slices.Values(all))) }
