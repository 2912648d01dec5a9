package host_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/config"
	"chimera.ai/engine/host"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// TestSettingsOfKeysOnTokens: a role opens its own key, when the host begins, and commands
// open none to read the store.
func TestSettingsOfKeysOnTokens(t *testing.T) {
	t.Chdir(t.TempDir())
	const log, guardian = "ledger: {key: 'pkcs11:token=t;object=l'}\n", "guardian: {key: 'pkcs11:token=t;object=g'}\n"
	load := func(text string) config.Config {
		require.NoError(t, os.WriteFile("chimera.yaml", []byte("store: {origin: example.com/log}\n"+text), 0o600))
		c, ds := config.Load("chimera.yaml")
		require.Empty(t, ds)
		return c
	}
	c := load(log + guardian + "pkcs11: {module: /m.so, pin: '${env:NONE}'}")
	for _, role := range host.Roles() {
		resolved, err := c.Resolve(string(role))
		require.NoError(t, err)
		o, _, err := host.Settings(resolved)
		require.NoError(t, err)
		require.Equal(t, role == host.RoleGuardian, o.OpenGuardianKey != nil, role)
		require.Equal(t, role == host.RoleEngine, o.OpenLogKey != nil, role)
		require.Nil(t, o.GuardianKey)
		require.True(t, o.Store.Elsewhere)
		require.Empty(t, o.Store.Key)
	}
	o, err := host.Store(c)
	require.NoError(t, err)
	require.True(t, o.Elsewhere)
	require.NoFileExists(t, filepath.Join(".chimera", "ledger.key"))

	for text, want := range map[string]string{
		log:      "ledger.key names no module of its token: set pkcs11.module",
		guardian: "guardian.key names no module of its token: set pkcs11.module",
	} {
		resolved, err := load(text).Resolve("engine", "guardian")
		require.NoError(t, err)
		_, _, err = host.Settings(resolved)
		require.ErrorContains(t, err, want)
	}
	c.Store.Origin = ""
	_, done, err := host.OpenLogKey(t.Context(), c, "ledger.key", c.Ledger.Key, c.Store.Origin)
	require.ErrorContains(t, err, "ledger.key is on a token, which does not name the log: set store.origin")
	require.NoError(t, done())
}

// TestKeysOnTokensAreClosed: also if the host does not begin.
func TestKeysOnTokensAreClosed(t *testing.T) {
	closed := 0
	done := func() error { closed++; return nil }
	o := host.Options{
		Dev: true, Roles: host.Roles(), Trust: &trust.Bootstrap{Audience: trust.Dev},
		OpenGuardianKey: func(context.Context) (*trust.Key, func() error, error) { return newKey(t), done, nil },
		OpenLogKey:      func(context.Context) (*ledger.Key, func() error, error) { return nil, done, nil },
	}
	o.Store.Driver = "none"
	_, err := host.New(t.Context(), o)
	require.ErrorContains(t, err, "no driver")
	require.Equal(t, 2, closed)
}
