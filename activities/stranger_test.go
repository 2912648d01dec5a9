package activities_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	protocol "github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/internal/testca"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/mcp"
)

// strangeCatalog has an effect with a price, at an endpoint.
const strangeCatalog = `
apiVersion: chimera/v1
kind: Catalog
templates:
  - {provider_type: mcp, provider_name: bank, operation: pay, mode: deter, effect_class: committing, timeout_ms: 60000,
     retry_policy: {max_retries: 2, on: [unsent, throttled, auth], initial_ms: 1},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
     trust_requirement: allow_auto, status: allow_auto, trusted_output: true, open_world: false, endpoints: [%q], cost: {expr: "1.00", currency: USD}}
`

const strangePolicy = `
apiVersion: chimera/v1
kind: PolicyBundle
version: "1"
unmodelled: [bank/pay]
rules:
  - {id: any, type: hard, operations: [bank/pay], require: 'action.inputs.line.size() < 40'}
`

// strangePlan pays, or says why it has not.
const strangePlan = `{apiVersion: chimera/v1, kind: Plan, name: pays, version: "1", agent: tester, currency: USD, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {ok: {type: boolean}, kind: {type: string}}},
  nodes: [
    {id: other, template: engine/pass, input_schema: {type: object, properties: {kind: {type: string}}, required: [kind]}, output_schema: {type: object, properties: {kind: {type: string}}, required: [kind]}},
    {id: pay, template: bank/pay, commit_policy: {rollback: {none: "what is paid stays paid"}}}],
  edges: [$input.line -> pay.line, {from_node: pay, from_port: ok, to_node: $output, to_port: ok, edge_type: data, required: false},
    {from_node: pay, from_port: $error, to_node: other, to_port: kind, edge_type: error, required: true, when: "error.kind == 'drift'", transform: "${error.kind}"},
    {from_node: other, from_port: kind, to_node: $output, to_port: kind, edge_type: data, required: false}]}`

// TestStrangersAreDrift: an effect at a pinned endpoint at which another server answers is not
// tried again, takes the error edge of drift, and has no call and no cost.
func TestStrangersAreDrift(t *testing.T) {
	t.Parallel()
	// The second certificate is of the known authority, but has no pinned key; the third is of another.
	ours := testca.New(t, "ours")
	certs := []tls.Certificate{ours.Server(t, "one"), ours.Server(t, "two"), testca.New(t, "another").Server(t, "one")}
	var shown, asked, paid atomic.Int64
	s := mcpserver.NewMCPServer("bank", "1", mcpserver.WithToolCapabilities(true))
	s.AddTool(protocol.NewTool("pay", protocol.WithString("line")), func(context.Context, protocol.CallToolRequest) (*protocol.CallToolResult, error) {
		paid.Add(1)
		return protocol.NewToolResultStructured(map[string]any{"ok": true}, "paid"), nil
	})
	inner := mcpserver.NewStreamableHTTPServer(s, mcpserver.WithStateful(true))
	t.Cleanup(func() { require.NoError(t, inner.Shutdown(context.Background())) })
	site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Connection", "close")
		inner.ServeHTTP(w, r)
	}))
	site.Config.ErrorLog = log.New(io.Discard, "", 0)
	site.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: certs[shown.Load():][:1]}, nil
	}}
	site.StartTLS()
	t.Cleanup(site.Close)

	server := mcp.Server{
		URL: site.URL + "/mcp", Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		TLS: mcp.TLS{CAFile: ours.File, Pins: []string{testca.Pin(certs[0].Leaf)}},
	}
	identity, err := server.Endpoint()
	require.NoError(t, err)
	endpoint, err := fingerprint.Endpoint(identity)
	require.NoError(t, err)
	a := stage.ActWith(t, host.Options{
		Catalog: stage.Operations(t, fmt.Sprintf(strangeCatalog, endpoint)), Policy: stage.Bundle(t, strangePolicy), Servers: map[string]mcp.Server{"bank": server},
	})
	a.Budget(t, "10.00")
	digest := a.Publish(t, strangePlan)
	var out struct {
		OK   bool
		Kind contract.Kind
	}
	require.NoError(t, a.Await(t, a.Start(t, "same", digest, `{"line":"a"}`), &out))
	require.True(t, out.OK)
	require.EqualValues(t, 1, paid.Load())
	before := asked.Load()
	for i, name := range []string{"another key", "another authority"} {
		shown.Store(int64(i + 1))
		out.Kind = ""
		run := a.Start(t, strings.ReplaceAll(name, " ", "-"), digest, `{"line":"b"}`)
		require.NoError(t, a.Await(t, run, &out), name)
		require.Equal(t, contract.Drift, out.Kind, name)
		row := a.Invocation(t, run)
		require.Equal(t, ledger.Released, row.State, name)
		require.Equal(t, 1, row.Attempt, name)
	}
	require.Equal(t, before, asked.Load())
	require.EqualValues(t, 1, paid.Load())
	require.Equal(t, "0.00 1.00", a.Spent(t))
}
