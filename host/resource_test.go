package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	protocol "github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/npm"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/mcp"
)

// resourceCatalog has operations on resources of two servers: those of the protocol's authors, and
// one that has JSON.
const resourceCatalog = `
apiVersion: chimera/v1
kind: Catalog
templates:
  - {provider_type: mcp, provider_name: everything, operation: doc, mode: deter, effect_class: pure, resource: {uris: ["demo://resource/static/**", "demo://resource/dynamic/text/*"]}, egress: allowed, %[1]s}
  - {provider_type: mcp, provider_name: everything, operation: blob, mode: deter, effect_class: pure, resource: {uris: ["demo://resource/dynamic/*/*"]}, egress: allowed, %[1]s}
  - {provider_type: mcp, provider_name: everything, operation: docs, mode: deter, effect_class: pure, resource: {uris: ["demo://resource/static/**/architecture.md"], list: true}, %[1]s}
  - {provider_type: mcp, provider_name: everything, operation: guide, mode: deter, effect_class: pure, resource: {uris: ["demo://resource/static/document/architecture.md"]}, fingerprint: "%[2]s", %[1]s}
  - {provider_type: mcp, provider_name: everything, operation: other, mode: deter, effect_class: pure, resource: {uris: ["demo://resource/static/document/features.md"]}, fingerprint: "%[2]s", %[1]s}
  - {provider_type: mcp, provider_name: data, operation: all, mode: deter, effect_class: pure, resource: {uris: ["data://json/**"], as: json}, egress: allowed,
     output_schema: {type: object, properties: {value: {type: object, properties: {n: {type: integer}}, required: [n]}}, required: [value]}, %[1]s}
`

const resourcePlan = `
apiVersion: chimera/v1
kind: Plan
name: resources
version: "1"
agent: tester
input_schema: {type: object, properties: {uri: {type: string}}, required: [uri], additionalProperties: false}
output_schema: {type: object}
nodes:
  - {id: a, template: %s}
edges:
  - a.$ -> $output.$
`

// TestResources: plans read and list resources of real servers, and only those that the catalog names.
func TestResources(t *testing.T) {
	t.Parallel()
	var reads atomic.Int64
	s := mcpserver.NewMCPServer("data", "1", mcpserver.WithResourceCapabilities(false, false))
	for uri, text := range map[string]string{
		"data://json/a": `{"n": 9007199254740993, "<b>": 0.10}`, "data://json/b": `{"n": 1, "n": 2}`, "data://json/c": "{", "data://json/d": `{"n": "x"}`, "data://other/a": `{"n": 1}`,
	} {
		s.AddResource(protocol.NewResource(uri, uri), func(context.Context, protocol.ReadResourceRequest) ([]protocol.ResourceContents, error) {
			reads.Add(1)
			return []protocol.ResourceContents{protocol.TextResourceContents{URI: uri, MIMEType: "application/json", Text: text}}, nil
		})
	}
	site := httptest.NewServer(mcpserver.NewStreamableHTTPServer(s))
	t.Cleanup(site.Close)
	servers := map[string]mcp.Server{
		"everything": {Command: npm.Bin(t, "mcp-server-everything"), Args: []string{"stdio"}},
		"data":       {URL: site.URL + "/mcp", Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	}
	print, err := mcp.Resource{URI: "demo://resource/static/document/architecture.md", Name: "architecture.md", MIMEType: "text/markdown"}.Fingerprint()
	require.NoError(t, err)
	common := "timeout_ms: 60000, retry_policy: {max_retries: 0}, trust_requirement: allow_auto, status: allow_auto"
	operations, ds := compiler.ParseCatalog(compiler.Source{Name: "catalog", Text: fmt.Appendf(nil, resourceCatalog, common, print)})
	require.False(t, ds.HasErrors(), ds)
	h := stage.Rehearse(t, host.Options{Catalog: operations, Servers: servers})

	run := func(node, edges, input string) (string, error) {
		t.Helper()
		run := stage.Start(t, h.Client(), fmt.Sprintf(resourcePlan, node)+edges, input)
		var out json.RawMessage
		err := stage.Await(t, h.Client(), run, &out)
		return string(out), err
	}
	// The URI comes with the run's input, so that only the run can check it.
	given := func(operation, uri string) (string, error) {
		t.Helper()
		input, err := json.Marshal(map[string]string{"uri": uri})
		require.NoError(t, err)
		return run(operation, "  - {edge: \"$input.uri -> a.uri\", check: runtime}\n", string(input))
	}
	out, err := run(`everything/doc, with: {uri: "demo://resource/static/document/architecture.md"}`, "", `{"uri":""}`)
	require.NoError(t, err)
	require.Contains(t, out, `"mimeType":"text/markdown"`)
	require.Contains(t, out, `"text":"# `)
	out, err = run("everything/docs", "", `{"uri":""}`)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(out, `"uri":`), out)
	require.Contains(t, out, `"uri":"demo://resource/static/document/architecture.md"`)
	out, err = run(`everything/guide, with: {uri: "demo://resource/static/document/architecture.md"}`, "", `{"uri":""}`)
	require.NoError(t, err)
	require.Contains(t, out, `"text":"# `)
	_, err = run(`everything/other, with: {uri: "demo://resource/static/document/features.md"}`, "", `{"uri":""}`)
	require.Equal(t, contract.Drift, stage.FailureOf(t, err).Kind)
	out, err = given("everything/doc", "demo://resource/dynamic/text/7")
	require.NoError(t, err)
	require.Contains(t, out, "plaintext")
	out, err = given("data/all", "data://json/a")
	require.NoError(t, err)
	require.JSONEq(t, `{"value":{"n":9007199254740993,"<b>":0.10}}`, out)
	require.Contains(t, out, "9007199254740993")
	require.EqualValues(t, 1, reads.Load())

	for _, c := range []struct {
		operation, uri string
		kind           contract.Kind
		reads          int64
	}{
		{"everything/blob", "demo://resource/dynamic/blob/7", contract.InvalidOutput, 0},
		{"everything/doc", "demo://resource/static/none", contract.ToolError, 0},
		{"data/all", "data://json/none", contract.ToolError, 0},
		{"data/all", "data://json/b", contract.InvalidOutput, 1},
		{"data/all", "data://json/c", contract.InvalidOutput, 1},
		{"data/all", "data://json/d", contract.InvalidOutput, 1},
		{"data/all", "data://other/a", contract.Contract, 0},
		{"data/all", "data://json/../other/a", contract.Contract, 0},
		{"data/all", "data://json/%C0%AE", contract.Contract, 0}, // which the schema's pattern takes
	} {
		before := reads.Load()
		_, err := given(c.operation, c.uri)
		f := stage.FailureOf(t, err)
		require.Equal(t, c.kind, f.Kind, "%s: %s", c.uri, f.Message)
		require.Equal(t, before+c.reads, reads.Load(), c.uri)
		if strings.Contains(c.uri, "%") {
			require.Contains(t, f.Message, "is not to be read", "the caller checks it, too")
		}
	}
}
