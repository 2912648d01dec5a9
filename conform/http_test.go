package conform_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	protocol "github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/conform"
	"chimera.ai/engine/mcp"
)

// remote is a server of mcp-go over streamable HTTP, broken in one way. It has the tool read, which
// only reads.
func remote(t *testing.T, how string) conform.Target {
	t.Helper()
	read := protocol.NewToolWithRawSchema("read", "reads a note", []byte(`{"type":"object","properties":{"path":{"type":"string","minLength":1}},
		"required":["path"],"additionalProperties":false,"examples":[{"path":"a"}]}`))
	read.RawOutputSchema = []byte(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`)
	read.Annotations = protocol.ToolAnnotation{ReadOnlyHint: new(true), OpenWorldHint: new(false)}
	var result any = map[string]any{"text": "a note"}
	var lists sync.Map // of listings, by session
	options := []mcpserver.ServerOption{mcpserver.WithToolCapabilities(false), mcpserver.WithInputSchemaValidation()}
	switch how {
	case "no hint":
		read.Annotations.OpenWorldHint = nil
	case "wrong output":
		result = map[string]any{"text": 7}
	case "changes":
		options = append(options, mcpserver.WithToolFilter(func(ctx context.Context, tools []protocol.Tool) []protocol.Tool {
			tools = append([]protocol.Tool(nil), tools...)
			n, _ := lists.LoadOrStore(mcpserver.ClientSessionFromContext(ctx).SessionID(), new(atomic.Int64))
			tools[0].Description = fmt.Sprintf("listed %d times", n.(*atomic.Int64).Add(1))
			return tools
		}))
	}
	s := mcpserver.NewMCPServer("remote", "1", options...)
	s.AddTool(read, func(context.Context, protocol.CallToolRequest) (*protocol.CallToolResult, error) {
		return protocol.NewToolResultStructured(result, "a note"), nil
	})
	h := mcpserver.NewStreamableHTTPServer(s, mcpserver.WithStateful(true))
	site := httptest.NewServer(h)
	t.Cleanup(func() {
		require.NoError(t, h.Shutdown(context.Background()))
		site.Close()
	})
	servers := map[string]mcp.Server{"remote": {URL: site.URL + "/mcp", Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
	return conform.Target{Name: "remote", Open: func() conform.Client {
		return mcp.NewPool(servers, mcp.Options{Logger: slog.New(slog.DiscardHandler)})
	}}
}

// A remote server takes part in all cases but those of standard output, and its report suffices.
func TestRemote(t *testing.T) {
	report := run(t, remote(t, ""), "")
	verdicts := report.Verdicts()
	for _, id := range []string{"cancel", "clean-output", "stops"} {
		require.Equal(t, conform.Skipped, verdicts[id])
		delete(verdicts, id)
	}
	for id, v := range verdicts {
		require.Equal(t, conform.Passed, v, "%+v", report.Cases)
		require.NotEmpty(t, id)
	}
	require.NoError(t, report.Summary().Suffices())
}

func TestBrokenRemote(t *testing.T) {
	for how, c := range map[string]struct{ id, detail string }{
		"no hint":      {"hints-complete", `^/annotations: say true or false as openWorldHint$`},
		"wrong output": {"outputs-match", `^/structuredContent/text of a call with {"path":"a"} breaks /outputSchema/properties/text/type: `},
		"changes":      {"list-stable", `^/description is different in the second listing`},
	} {
		t.Run(how, func(t *testing.T) {
			report := run(t, remote(t, how), "")
			blames(t, report, c.id, conform.Failed, "read", c.detail)
			require.ErrorContains(t, report.Summary().Suffices(), "the server fails the case "+c.id)
		})
	}
}
