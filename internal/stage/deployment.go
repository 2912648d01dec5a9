package stage

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/authority"
	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/trust"
)

// Deployment is a deployment whose runs may have effects.
type Deployment struct {
	Root *trust.Bootstrap
	// Admin is the key of its admin, or of the first of two, Author that by which plans are
	// published, and Starter that by which runs are started for the agent "tester". In
	// development they are one.
	Admin, Author, Starter *trust.Key
	// second is the other admin of a deployment in production, or nil.
	second *trust.Key
	// LogKey and GuardianKey are the secrets of the log and of the guardian.
	LogKey, GuardianKey string
}

// Deploy makes a deployment of audience dev, and completes the options of a host that has all roles of it.
func Deploy(t testing.TB, o *host.Options) *Deployment {
	t.Helper()
	logKey, _, err := ledger.NewKey("test.example.com/log")
	require.NoError(t, err)
	log, err := ledger.ParseKey(logKey)
	require.NoError(t, err)
	admin, _, err := trust.NewKey()
	require.NoError(t, err)
	guardian, secret, err := trust.NewKey()
	require.NoError(t, err)
	root, err := trust.DevBootstrap("test", "ada", admin, trust.LogKey{Origin: log.Name(), Key: log.Public()}, time.Now())
	require.NoError(t, err)
	o.Dev, o.Roles, o.Trust, o.GuardianKey, o.Store.Key = true, host.Roles(), root, guardian, logKey
	return &Deployment{Root: root, Admin: admin, Author: admin, Starter: admin, LogKey: logKey, GuardianKey: string(secret)}
}

// Begin states who may publish plans, act for the agent, and sign permits.
func (d *Deployment) Begin(t testing.TB, l ledger.Store) {
	t.Helper()
	guardian, err := trust.ParseKey([]byte(d.GuardianKey))
	require.NoError(t, err)
	keys := []string{d.Starter.Public()}
	d.State(t, l, &trust.AddPublisher{ID: "ada", Person: "ada", Key: d.Author.Public(), Uses: []string{"plans"}},
		&trust.AddAgent{AgentID: "tester", Owner: "ada", Keys: keys, Vouching: keys, Requesters: []string{"rae"}}, &trust.AddGuardian{ID: "guardian", Key: guardian.Public()})
}

// State makes a statement of acts.
func (d *Deployment) State(t testing.TB, l ledger.Store, acts ...trust.Act) {
	t.Helper()
	over := &authority.Authority{Bootstrap: d.Root, Ledger: l}
	keys := []*trust.Key{d.Admin}
	if d.second != nil {
		keys = append(keys, d.second)
	}
	s, err := over.Propose(t.Context(), acts, keys...)
	require.NoError(t, err)
	_, err = over.Apply(t.Context(), s.Envelope)
	require.NoError(t, err)
}

// Publish publishes a plan, and returns its digest.
func (d *Deployment) Publish(t testing.TB, l ledger.Store, source string, operations *catalog.Catalog, bundle *policy.Bundle) string {
	t.Helper()
	_, all, err := host.Catalog(operations, nil)
	require.NoError(t, err)
	p, ds := compiler.Compile(compiler.Source{Name: "plan", Text: []byte(source)}, all, bundle)
	require.NotNil(t, p, "%v", ds)
	raw, err := p.Encode()
	require.NoError(t, err)
	digest := plan.DigestOf(raw)
	over := &authority.Authority{Bootstrap: d.Root, Ledger: l}
	_, err = over.Publish(t.Context(), authority.Plan{Name: p.Name, Version: p.Version, Agent: p.Agent, Digest: digest, Author: "ada", Source: []byte(source)}, d.Author)
	require.NoError(t, err)
	return digest
}

// Start starts a run of a published plan with a start grant. The input is canonical JSON.
func (d *Deployment) Start(t testing.TB, c client.Client, id, digest, input string) client.WorkflowRun {
	t.Helper()
	return d.StartAbout(t, c, id, digest, input, "")
}

// StartAbout is like Start, for a run about a person.
func (d *Deployment) StartAbout(t testing.TB, c client.Client, id, digest, input, subject string) client.WorkflowRun {
	t.Helper()
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: contract.QueueEngine},
		contract.WorkflowType, contract.Start{Plan: digest, Input: json.RawMessage(input), Grant: d.Grant(t, id, digest, input), Subject: subject})
	require.NoError(t, err)
	return run
}

// Grant is a start grant for a run of that id. The input is canonical JSON.
func (d *Deployment) Grant(t testing.TB, id, digest, input string) json.RawMessage {
	t.Helper()
	grant, err := trust.SignGrant(d.Starter, trust.Grant{
		Deployment: "test", Audience: d.Root.Audience, Namespace: client.DefaultNamespace, WorkflowID: id, Plan: digest, Input: plan.DigestOf([]byte(input)), Agent: "tester",
		Requester: "rae", Nonce: trust.Nonce(), Issued: ledger.At(time.Now()), Expires: ledger.At(time.Now().Add(time.Hour)),
	})
	require.NoError(t, err)
	return grant
}
