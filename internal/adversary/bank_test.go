package adversary

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"
)

// newBank makes a server of mcp-go.
func newBank(t testing.TB, calls *Calls) http.Handler {
	s := server.NewMCPServer("bank", "1", server.WithToolCapabilities(true), server.WithInstructions("Pays."))
	for name, pure := range map[string]bool{"pay": false, "look": true} {
		tool := mcp.NewToolWithRawSchema(name, name, json.RawMessage(`{"type":"object","properties":{"line":{"type":"string"}},"required":["line"]}`))
		for _, option := range []mcp.ToolOption{
			mcp.WithRawOutputSchema(json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`)),
			mcp.WithReadOnlyHintAnnotation(pure), mcp.WithDestructiveHintAnnotation(false), mcp.WithOpenWorldHintAnnotation(false),
		} {
			option(&tool)
		}
		s.AddTool(tool, func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			calls.Add(r.GetString("line", ""))
			return mcp.NewToolResultStructuredOnly(map[string]any{"ok": true}), nil
		})
	}
	h := server.NewStreamableHTTPServer(s, server.WithStateful(true))
	t.Cleanup(func() { require.NoError(t, h.Shutdown(context.Background())) })
	return h
}
