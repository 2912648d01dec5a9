package host_test

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/config"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// parted is a configuration of a deployment, whose secrets are there for those who
// ask: a reference that is resolved though its variable is not set is an error.
const parted = `
store: {driver: postgres, url: '${env:P_URL}', origin: example.com/log}
ledger: {key: '${env:P_LOG}'}
guardian: {key: '${env:P_GUARDIAN}'}
payload: {keys: ['${env:P_PAYLOAD}']}
catalog: catalog.yaml
children: {user: nobody}
skills: {s: {command: x, env: {A: '${env:P_SKILL}'}}}
mcpServers:
  m: {command: x, env: {A: '${env:P_SERVER}'}, roles: [tools]}
  e: {command: x, env: {A: '${env:P_COMMITS}'}, roles: [effects]}
`

// TestSettingsOfARole: a role has what it needs, and resolves no secret of another.
func TestSettingsOfARole(t *testing.T) {
	key := keys(t, "k1")[0]
	_, secret, err := trust.NewKey()
	require.NoError(t, err)
	values := map[string]string{
		"P_URL": "postgres://x", "P_LOG": "log-key", "P_GUARDIAN": string(secret), "P_SKILL": "skill-secret", "P_SERVER": "server-secret", "P_COMMITS": "effect-secret",
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "chimera.yaml")
	require.NoError(t, os.WriteFile(file, []byte(parted), 0o600))
	for role, c := range map[string]struct {
		needs     []string
		servers   []string
		compiles  bool
		guardians bool
	}{
		"engine":   {needs: []string{"P_URL", "P_LOG"}, compiles: true},
		"tools":    {needs: []string{"P_SKILL", "P_SERVER"}, servers: []string{"m"}},
		"guardian": {needs: []string{"P_URL", "P_GUARDIAN"}, compiles: true, guardians: true},
		"effects":  {needs: []string{"P_URL", "P_SKILL", "P_COMMITS"}, servers: []string{"e"}, compiles: true},
	} {
		t.Run(role, func(t *testing.T) {
			own := key
			if role != "engine" {
				var err error
				own, err = payload.RoleKey(key, role)
				require.NoError(t, err)
			}
			t.Setenv("P_PAYLOAD", own)
			for _, name := range c.needs {
				t.Setenv(name, values[name])
			}
			settings, ds := config.Load(file)
			require.Empty(t, ds)
			if c.compiles {
				text := "apiVersion: chimera/v1\nkind: Catalog\ntemplates: []\n"
				require.NoError(t, os.WriteFile(filepath.Join(dir, "catalog.yaml"), []byte(text), 0o600))
				t.Cleanup(func() { require.NoError(t, os.Remove(filepath.Join(dir, "catalog.yaml"))) })
			}
			resolved, err := settings.Resolve(role)
			require.NoError(t, err)
			o, ds, err := host.Settings(resolved)
			require.NoError(t, err)
			require.False(t, ds.HasErrors(), ds)
			require.Equal(t, []host.Role{host.Role(role)}, o.Roles)
			require.Equal(t, c.compiles, o.Catalog != nil)
			require.ElementsMatch(t, c.servers, slices.Collect(maps.Keys(o.Servers)))
			require.Equal(t, len(c.servers) > 0, len(o.Executables) == 1)
			require.Equal(t, role == "engine", o.Store.Key != "")
			require.Equal(t, c.compiles, o.Store.URL != "")
			require.Equal(t, c.guardians, o.GuardianKey != nil)
			require.NotNil(t, o.Sealing.Keys)
			if role == "guardian" || role == "effects" {
				require.ErrorContains(t, o.Check(), "need a root of trust")
				o.Trust = &trust.Bootstrap{Audience: trust.Prod}
				require.ErrorContains(t, o.Check(), "(trust.seen): none is named")
				o.Seen = "seen.json"
			}
			require.NoError(t, o.Check())
		})
	}
}

// TestToolsOpenNoLedger: their process neither makes nor reads it.
func TestToolsOpenNoLedger(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	h := stage.Rehearse(t, host.Options{Roles: []host.Role{host.RoleTools}, Store: store.Options{Dir: dir}})
	require.Nil(t, h.Store().Ledger)
	require.Nil(t, h.Store().Key)
	_, err := h.Store().Blobs.Put(t.Context(), []byte("large"))
	require.NoError(t, err)
	require.NoError(t, h.Close())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		require.Equal(t, "blobs", e.Name(), "no database and no key")
	}
}

// TestProductionNeedsPayloadKeys, and says how they are made.
func TestProductionNeedsPayloadKeys(t *testing.T) {
	production := store.Options{Driver: store.Postgres, URL: "postgres://127.0.0.1:1/x", Origin: "example.com/log", Dir: t.TempDir()}
	for name, o := range map[string]host.Options{
		"both":   {Store: production},
		"engine": {Store: production, Roles: []host.Role{host.RoleEngine}},
		"tools":  {Store: production, Roles: []host.Role{host.RoleTools}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := host.New(t.Context(), o)
			require.ErrorContains(t, err, "there are no payload keys (payload.keys)")
			require.ErrorContains(t, err, "chimera migrate --new-payload-key FILE")
			o.Dev = true
			require.NoError(t, o.Check())
			o.Dev, o.Sealing = false, sealing(t, keys(t, "k1")...)
			if name == "tools" {
				require.ErrorContains(t, o.Check(), "the engine's, with which it could answer for every role")
				own, err := payload.RoleKey(keys(t, "k1")[0], "tools")
				require.NoError(t, err)
				o.Sealing = sealing(t, own)
			}
			require.NoError(t, o.Check())
			o.Sealing, o.Store = payload.Sealing{}, store.Options{Dir: t.TempDir()}
			require.NoError(t, o.Check(), "the embedded store is for one machine")
		})
	}
}

// TestProductionParts: what could skip a check of another role is no process of production.
func TestProductionParts(t *testing.T) {
	whole := keys(t, "k1")[0]
	guardian, err := payload.RoleKey(whole, "guardian")
	require.NoError(t, err)
	effects, err := payload.RoleKey(whole, "effects")
	require.NoError(t, err)
	signer, _, err := trust.NewKey()
	require.NoError(t, err)
	production := store.Options{Driver: store.Postgres, URL: "postgres://127.0.0.1:1/x", Origin: "example.com/log", Dir: t.TempDir()}
	for name, c := range map[string]struct {
		roles []host.Role
		keys  []string
		want  string
	}{
		"both":           {[]host.Role{host.RoleGuardian, host.RoleEffects}, []string{guardian, effects}, "are separate processes"},
		"whole key":      {[]host.Role{host.RoleGuardian}, []string{whole}, "makes one of the role guardian"},
		"another's":      {[]host.Role{host.RoleEffects}, []string{guardian}, "is not one of the role effects"},
		"part":           {[]host.Role{host.RoleEngine}, []string{guardian}, "needs a whole payload key"},
		"effects":        {[]host.Role{host.RoleEffects}, []string{effects}, ""},
		"guardian":       {[]host.Role{host.RoleGuardian}, []string{guardian}, ""},
		"tools, effects": {[]host.Role{host.RoleEffects, host.RoleTools}, []string{effects}, "is not one of the role tools"},
	} {
		t.Run(name, func(t *testing.T) {
			o := host.Options{Store: production, Roles: c.roles, Sealing: sealing(t, c.keys...), Trust: &trust.Bootstrap{Audience: trust.Prod}, GuardianKey: signer, Seen: "seen.json"}
			err := o.Check()
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestEveryRequestHasItsSort: what an activity is asked is sealed as a request, and
// what it answers is not. An activity that is new is found here.
func TestEveryRequestHasItsSort(t *testing.T) {
	c := converter.WithDataConverterSerializationContext(payload.NewConverter(payload.NewPlans(nil, 0), sealing(t, keys(t, "k1")...)),
		converter.ActivitySerializationContext{Namespace: "n", WorkflowID: "w", ActivityType: "a"})
	sort := func(typ reflect.Type) string {
		p, err := c.ToPayload(reflect.New(typ).Elem().Interface())
		require.NoError(t, err)
		return string(p.GetMetadata()["chimera-context"])
	}
	found := 0
	for _, role := range []any{new(activities.Engine), new(activities.Tools), new(activities.Guardian), new(activities.Effects)} {
		typ := reflect.TypeOf(role)
		for i := range typ.NumMethod() {
			m := typ.Method(i).Type
			if m.NumIn() != 3 || m.NumOut() != 2 {
				continue
			}
			found++
			require.True(t, strings.HasSuffix(sort(m.In(2)), `"request"]`), "%s of %s", typ.Method(i).Name, typ)
			if out := m.Out(0); out.Kind() == reflect.Struct {
				require.True(t, strings.HasSuffix(sort(out), `""]`), "%s of %s", typ.Method(i).Name, typ)
			}
		}
	}
	require.GreaterOrEqual(t, found, 15)
	require.Contains(t, sort(reflect.TypeFor[contract.Beat]()), `"beat"`)
}
