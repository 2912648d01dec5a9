package host_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/catalog"
	"chimera.ai/engine/config"
	"chimera.ai/engine/host"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// TestRemoteServers: what the configuration says about remote servers reaches the pool.
func TestRemoteServers(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "chimera.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`mcpServers:
  bank:
    url: https://mcp.example.com/mcp
    headers: {X-Tenant: "t ${env:R_TENANT}"}
    addresses: [10.1.0.0/16]
    tls: {ca_file: ca.pem, cert_file: client.pem, key_file: client.key, server_name: bank.internal, pins: ["sha256:fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"]}
    jwt: {key: "${env:R_KEY}", issuer: a, subject: b, audience: c, key_id: d, lifetime: 30s}
  old:
    type: sse
    url: http://localhost:8080/sse
    oauth: {issuer: "https://id.example.com", token_url: "https://id.example.com/token", client_id: me, client_secret: "${env:R_CLIENT}", scopes: [a]}
`), 0o600))
	t.Setenv("R_TENANT", "tenant")
	t.Setenv("R_KEY", "key")
	t.Setenv("R_CLIENT", "client")
	c, ds := config.Load(file)
	require.Empty(t, ds)
	c, err := c.Resolve("tools")
	require.NoError(t, err)
	require.Equal(t, map[string]mcp.Server{
		"bank": {
			URL: "https://mcp.example.com/mcp", Headers: map[string]string{"X-Tenant": "t tenant"}, Addresses: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
			TLS: mcp.TLS{
				CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "client.pem"), KeyFile: filepath.Join(dir, "client.key"), ServerName: "bank.internal",
				Pins: []string{"sha256:fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"},
			},
			JWT: &mcp.JWT{Key: "key", Issuer: "a", Subject: "b", Audience: "c", KeyID: "d", Lifetime: 30 * time.Second},
		},
		"old": {
			URL: "http://localhost:8080/sse", SSE: true, Headers: map[string]string{},
			OAuth: &mcp.OAuth{Issuer: "https://id.example.com", TokenURL: "https://id.example.com/token", ClientID: "me", ClientSecret: "client", Scopes: []string{"a"}},
		},
	}, host.Servers(c))
}

// TestWhoCallsEffects: in production a remote server with effects can verify who calls it.
func TestWhoCallsEffects(t *testing.T) {
	own, err := payload.RoleKey(keys(t, "k1")[0], "effects")
	require.NoError(t, err)
	remote := mcp.Server{URL: "https://mcp.example.com"}
	with := func(change func(*mcp.Server)) mcp.Server {
		s := remote
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		server mcp.Server
		effect plan.EffectClass
		want   string
	}{
		"nothing":        {remote, plan.Committing, "bank/pay has effects, and nothing that is signed proves to the MCP server bank (mcpServers) who calls it"},
		"staged":         {remote, plan.Staged, "has effects"},
		"a header":       {with(func(s *mcp.Server) { s.Headers = map[string]string{"Authorization": "x"} }), plan.Irreversible, "has effects"},
		"OAuth":          {with(func(s *mcp.Server) { s.OAuth = &mcp.OAuth{} }), plan.Irreversible, "has effects"},
		"a certificate":  {with(func(s *mcp.Server) { s.TLS.CertFile, s.TLS.KeyFile = "a", "b" }), plan.Irreversible, ""},
		"tokens":         {with(func(s *mcp.Server) { s.JWT = &mcp.JWT{} }), plan.Committing, ""},
		"no effects":     {remote, plan.Pure, ""},
		"not to be used": {mcp.Server{URL: "http://example.com"}, plan.Pure, "the MCP server bank (mcpServers): its URL is not one of https"},
	} {
		t.Run(name, func(t *testing.T) {
			o := host.Options{
				Store: store.Options{Driver: store.Postgres, URL: "postgres://127.0.0.1:1/x", Origin: "example.com/log", Dir: t.TempDir()},
				Roles: []host.Role{host.RoleEffects}, Sealing: sealing(t, own), Trust: &trust.Bootstrap{Audience: trust.Prod}, Seen: "seen.json",
				Servers: map[string]mcp.Server{"bank": c.server},
				Catalog: &catalog.Catalog{Templates: []catalog.Template{{ProviderType: plan.MCP, Provider: "bank", Operation: "pay", Effect: c.effect}}},
			}
			err := o.Check()
			late := o // the operation is registered after the process has begun
			late.Catalog, late.Callers = nil, map[string][]host.Role{"bank": {host.RoleEffects}}
			call := func() (called bool, err error) {
				_, err = host.Fitting(&late, caller(func() { called = true })).Call(t.Context(), activities.Request{Node: &plan.Node{ProviderType: plan.MCP, Provider: "bank", Operation: "pay", Effect: c.effect}})
				return called, err
			}
			called, refused := call()
			if c.want == "" {
				require.NoError(t, err)
				require.NoError(t, refused)
				require.True(t, called)
				late.Callers = nil
				called, refused = call()
				require.Equal(t, !c.effect.Commits(), called, "%v", refused)
				return
			}
			require.ErrorContains(t, err, c.want)
			if c.effect != plan.Pure {
				require.ErrorContains(t, refused, c.want)
				require.False(t, called)
				o.Dev, late.Dev = true, true
				require.NoError(t, o.Check())
				called, refused = call()
				require.NoError(t, refused)
				require.True(t, called)
			}
		})
	}
}

// caller is called.
type caller func()

func (c caller) Call(context.Context, activities.Request) (activities.Answer, error) {
	c()
	return activities.Answer{}, nil
}
