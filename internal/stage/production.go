package stage

import (
	"crypto/rand"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/host"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// ChildUser is the user of the machine as whom children run in production.
const ChildUser = "nobody"

// Open makes a folder that everybody may use, such as [ChildUser], until the test ends.
func Open(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "open")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o777))
	return dir
}

// Production is a deployment on PostgreSQL with two admins, whose roles have database
// users and payload keys of their own.
type Production struct {
	*Deployment
	// Store is the ledger as the owner of its tables sees it.
	Store store.Options
	// Users are the connection strings of the roles, and Keys their payload keys. Applier and
	// Publisher are those of whoever applies statements and publishes plans.
	Users              map[host.Role]string
	Keys               map[host.Role]string
	Applier, Publisher string
}

// Produce makes a deployment in the database of a connection string.
func Produce(t testing.TB, database string) *Production {
	t.Helper()
	logKey, _, err := ledger.NewKey("test.example.com/log")
	require.NoError(t, err)
	log, err := ledger.ParseKey(logKey)
	require.NoError(t, err)
	ada, _, err := trust.NewKey()
	require.NoError(t, err)
	ben, _, err := trust.NewKey()
	require.NoError(t, err)
	author, _, err := trust.NewKey()
	require.NoError(t, err)
	starter, _, err := trust.NewKey()
	require.NoError(t, err)
	_, guardian, err := trust.NewKey()
	require.NoError(t, err)
	root := &trust.Bootstrap{
		Format: trust.BootstrapFormat, Deployment: "test", Audience: trust.Prod, Quorum: 2, Log: trust.LogKey{Origin: log.Name(), Key: log.Public()},
		Witnesses: trust.Witnesses{Keys: []string{}}, Issued: ledger.At(time.Now()),
		Admins: []trust.Admin{{ID: "ada", Person: "ada", Key: ada.Public()}, {ID: "ben", Person: "ben", Key: ben.Public()}},
	}
	require.NoError(t, root.Check())
	p := &Production{
		Deployment: &Deployment{Root: root, Admin: ada, Author: author, Starter: starter, second: ben, LogKey: logKey, GuardianKey: string(guardian)},
		Store:      store.Options{Driver: store.Postgres, URL: database, Dir: t.TempDir(), InDatabase: true, Key: logKey, Subjects: filepath.Join(t.TempDir(), "subjects")},
		Users:      map[host.Role]string{}, Keys: map[host.Role]string{},
	}
	_, err = store.Migrate(t.Context(), p.Store)
	require.NoError(t, err)
	require.NoError(t, store.NewSubjectKeys(t.Context(), p.Store))
	require.NoError(t, err)
	require.NoError(t, store.Grant(t.Context(), p.Store))
	whole, err := payload.NewKey("k1")
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	user := func(group string) string {
		name := group + "_" + strings.ToLower(rand.Text()[:8])
		_, err := conn.Exec(t.Context(), "CREATE ROLE "+name+" LOGIN IN ROLE "+group)
		require.NoError(t, err)
		u, err := url.Parse(database)
		require.NoError(t, err)
		u.User = url.User(name)
		return u.String()
	}
	p.Applier, p.Publisher = user(store.Roles.Applier), user(store.Roles.Publisher)
	for role, group := range map[host.Role]string{
		host.RoleEngine: store.Roles.Engine, host.RoleTools: store.Roles.Tools, host.RoleGuardian: store.Roles.Guardian, host.RoleEffects: store.Roles.Effects,
	} {
		p.Users[role] = user(group)
		p.Keys[role] = whole
		if role != host.RoleEngine {
			p.Keys[role], err = payload.RoleKey(whole, string(role))
			require.NoError(t, err)
		}
	}
	return p
}

// As opens the ledger as a user.
func (p *Production) As(t testing.TB, user string) ledger.Store {
	t.Helper()
	o := p.Store
	o.URL, o.Key, o.Origin = user, "", p.Root.Log.Origin
	opened, err := store.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	return opened.Ledger
}

// Pin has the operations of executables pin the programs, as those have to in production that have effects, or
// on which effects rely.
func Pin(operations *catalog.Catalog, executables map[string]skills.Executable) error {
	for i := range operations.Templates {
		o := &operations.Templates[i]
		e, ok := executables[o.Provider]
		if !ok || o.ProviderType != plan.Skill || o.InProcess {
			continue
		}
		digest, err := e.Endpoint()
		if err != nil {
			return err
		}
		o.Endpoints = []string{digest}
	}
	return nil
}

// Rely states the policy, and what the catalog says of its operations.
func (d *Deployment) Rely(t testing.TB, l ledger.Store, operations *catalog.Catalog, bundle *policy.Bundle) {
	t.Helper()
	acts := []trust.Act{&trust.ActivateBundle{Digest: bundle.Digest()}}
	for i := range operations.Templates {
		o := &operations.Templates[i]
		facts, err := o.Facts()
		require.NoError(t, err)
		acts = append(acts, &trust.TrustTool{ToolID: o.ToolID(), Fingerprint: o.Fingerprint, Status: string(o.State()), Facts: facts})
	}
	d.State(t, l, acts...)
}

// Options are those of a host that has one role, in production.
func (p *Production) Options(t testing.TB, role host.Role) host.Options {
	t.Helper()
	keys, err := payload.ParseKeys([]string{p.Keys[role]})
	require.NoError(t, err)
	o := host.Options{Roles: []host.Role{role}, Store: p.Store, Sealing: payload.Sealing{Keys: keys, Compress: true}, Trust: p.Root, Seen: filepath.Join(t.TempDir(), "seen.json")}
	o.Store.URL, o.Store.Key, o.Store.Origin = p.Users[role], "", p.Root.Log.Origin
	switch role {
	case host.RoleEngine:
		o.Store.Key = p.LogKey
	case host.RoleGuardian:
		o.GuardianKey, err = trust.ParseKey([]byte(p.GuardianKey))
		require.NoError(t, err)
	case host.RoleTools:
		o.Trust = nil
	case host.RoleEffects:
	}
	return o
}
