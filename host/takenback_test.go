package host_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
	"chimera.ai/engine/task"
	"chimera.ai/engine/trust"
)

// produced is a deployment in production whose roles are hosts of this process.
type produced struct {
	*acting
	of *stage.Production
	// ledger is that of the owner of the store.
	ledger ledger.Store
	// dir has the files in which roles keep the last statement that they have read.
	dir string
}

func produce(t *testing.T) *produced {
	t.Helper()
	of := stage.Produce(t, pgtest.URL(t))
	p := &produced{acting: &acting{Deployment: of.Deployment, lines: filepath.Join(t.TempDir(), "lines")}, of: of, dir: t.TempDir()}
	owner, err := store.Open(t.Context(), of.Store)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, owner.Close()) })
	p.ledger = owner.Ledger
	cat, ds := compiler.ParseCatalog(compiler.Source{Name: "catalog.yaml", Text: []byte(actingCatalog)})
	require.False(t, ds.HasErrors(), "%v", ds)
	p.options.Catalog, p.options.Policy = cat, parsed(t, actingPolicy)
	p.Begin(t, p.ledger)
	p.Rely(t, p.ledger, cat, p.options.Policy)
	return p
}

// role are the options of a host that has one role.
func (p *produced) role(t *testing.T, role host.Role) host.Options {
	t.Helper()
	o := p.of.Options(t, role)
	o.Catalog, o.Policy, o.Seen = p.options.Catalog, p.options.Policy, filepath.Join(p.dir, string(role))
	o.Client.HostPort = stage.Temporal(t).Address
	o.Executables = map[string]skills.Executable{"book": {Command: "/bin/sh", Args: []string{"-c", writes}, Env: map[string]string{"LINES_FILE": p.lines}}}
	o.Callers = map[string][]host.Role{"book": {host.RoleEffects}}
	return o
}

// begin starts the host of a role.
func (p *produced) begin(t *testing.T, role host.Role) *host.Host {
	t.Helper()
	return stage.Host(t, p.role(t, role))
}

// publish publishes a plan, and returns its digest.
func (p *produced) publish(t *testing.T, source string) string {
	t.Helper()
	return p.Publish(t, p.ledger, source, p.options.Catalog, p.options.Policy)
}

// activate activates a policy, by which hosts that begin decide.
func (p *produced) activate(t *testing.T, bundle *policy.Bundle) {
	t.Helper()
	p.State(t, p.ledger, &trust.ActivateBundle{Digest: bundle.Digest()})
	p.options.Policy = bundle
}

// TestWhatAdminsTakeBack: what the admins make stricter after people were asked, the guardian
// heeds; what they take back after it has permitted a call, the role effects; and no role
// forgets it with its database.
func TestWhatAdminsTakeBack(t *testing.T) {
	stage.Parallel(t)
	p := produce(t)
	digest, asks := p.publish(t, actingPlan), p.publish(t, approvedPlan)
	eve, fay := p.Enrol(t, p.ledger, trust.SigToken, "Eve", "editor"), p.Enrol(t, p.ledger, trust.SigToken, "Fay", "finance")
	p.h = p.begin(t, host.RoleEngine)
	guardian := p.begin(t, host.RoleGuardian)

	run := p.start(t, "stricter", asks, `{"line":"one"}`)
	b := p.asked(t, run, 1)[0]
	first, second := eve.Sign(t, b, approval.Approve, nil), fay.Sign(t, b, approval.Approve, nil)
	require.True(t, p.update(t, run, first).Accepted)
	lax := p.options.Policy
	p.activate(t, parsed(t, strings.NewReplacer("id: short", "id: shorter", "< 20", "< 3").Replace(actingPolicy)))
	require.NoError(t, guardian.Close())
	guardian = p.begin(t, host.RoleGuardian)
	effects := p.begin(t, host.RoleEffects)
	v := p.update(t, run, second)
	require.True(t, v.Accepted, v.Detail)
	f := failureOf(t, stage.Await(t, p.h.Client(), run, nil))
	require.Equal(t, contract.Rejected, f.Kind, f.Message)
	require.Contains(t, f.Message, "REJECT, policy:shorter")
	require.Empty(t, p.written(t))
	p.activate(t, lax)
	require.NoError(t, guardian.Close())
	require.NoError(t, effects.Close())
	p.begin(t, host.RoleGuardian)

	said, err := trust.Read(t.Context(), p.ledger, p.Root)
	require.NoError(t, err)
	tool := said.Tools["book/write"]
	blocked := tool
	blocked.Status = "block"
	keys := []string{p.Starter.Public()}
	for i, c := range []struct {
		take, back trust.Act
		says       string
	}{
		{&blocked, &tool, "have stated block for the tool"},
		{&trust.SetAgentKeys{AgentID: "tester", Keys: []string{}}, &trust.SetAgentKeys{AgentID: "tester", Keys: keys, Vouching: keys}, "no key that may act for tester"},
		{&trust.RevokePublisher{ID: "ada"}, nil, `"ada", who is revoked`},
	} {
		run := p.start(t, fmt.Sprint("permitted", i), digest, `{"line":"x"}`)
		stage.Until(t, "it is permitted", func() bool {
			tasks, err := p.ledger.ListTasks(t.Context(), task.StateSigned, ledger.Page{})
			return err == nil && len(tasks) == i+1
		})
		p.State(t, p.ledger, c.take)
		effects := p.begin(t, host.RoleEffects)
		f := failureOf(t, stage.Await(t, p.h.Client(), run, nil))
		require.Equal(t, contract.Blocked, f.Kind, f.Message)
		require.Contains(t, f.Message, c.says)
		require.NoError(t, effects.Close())
		if c.back != nil {
			p.State(t, p.ledger, c.back)
		}
	}
	require.Empty(t, p.written(t))

	// Each role has read that the author is revoked, and begins with no database that has lost
	// it.
	roles := []host.Role{host.RoleEngine, host.RoleGuardian, host.RoleEffects}
	for _, role := range roles {
		require.NoError(t, p.begin(t, role).Close())
	}
	conn, err := pgx.Connect(t.Context(), p.of.Store.URL)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	_, err = conn.Exec(t.Context(), "BEGIN; ALTER TABLE authority DISABLE TRIGGER ALL; DELETE FROM authority WHERE n = (SELECT max(n) FROM authority); ALTER TABLE authority ENABLE TRIGGER ALL; COMMIT")
	require.NoError(t, err)
	for _, role := range roles {
		_, err := host.New(t.Context(), p.role(t, role))
		require.ErrorContains(t, err, "statements, but this process has read", role)
	}
}
