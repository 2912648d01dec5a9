//go:build unix

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	protocol "github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"
)

// One call on a running server, there and back.
func BenchmarkCall(b *testing.B) {
	s := Server{Command: os.Args[0], Env: map[string]string{hostileVar: "ok"}}
	p := NewPool(map[string]Server{"h": s}, quiet)
	defer p.Close()
	args := json.RawMessage(`{"i":1}`)
	for b.Loop() {
		_, err := p.Call(b.Context(), "h", "echo", args)
		require.NoError(b, err)
	}
}

// BenchmarkPinned shows what it costs to look at a tool before it is called (once), and also after
// that (twice), as medians: beyond a call alone in milliseconds, and in round trips, each of which is
// the time of a listing that is read and not looked at, by another client where that is HTTP.
func BenchmarkPinned(b *testing.B) {
	b.Run("stdio/server-filesystem", func(b *testing.B) {
		dir, err := filepath.EvalSymlinks(b.TempDir())
		require.NoError(b, err)
		p := npmPool(b, "mcp-server-filesystem", dir)
		looks(b, p, "list_directory", `{"path":`+quote(dir)+`}`, func() error { return trip(p) })
	})
	for _, n := range []int{14, 100, 400} {
		b.Run(fmt.Sprintf("http/tools=%d", n), func(b *testing.B) {
			s := mcpserver.NewMCPServer("many", "1", mcpserver.WithToolCapabilities(true))
			for i := range n {
				s.AddTool(protocol.NewTool(fmt.Sprintf("echo%d", i), protocol.WithDescription(strings.Repeat("words ", 60)), protocol.WithString("message", protocol.Description(strings.Repeat("words ", 40)))),
					func(context.Context, protocol.CallToolRequest) (*protocol.CallToolResult, error) {
						return protocol.NewToolResultText("x"), nil
					})
			}
			site := httptest.NewServer(mcpserver.NewStreamableHTTPServer(s, mcpserver.WithStateLess(true)))
			b.Cleanup(site.Close)
			p := openPool(b, Server{URL: site.URL + "/mcp", Addresses: here}, quiet)
			looks(b, p, "echo0", `{"message":"a"}`, func() error { return post(site.URL + "/mcp") })
		})
	}
}

// trip lists the tools of a server that is a program, and does not look at them.
func trip(p *Pool) error {
	s, bad := p.server("h")
	if bad != nil {
		return bad
	}
	answer, _ := s.through(context.Background(), Pin{}, func(c *conn) reply {
		return c.roundTrip(context.Background(), string(protocol.MethodToolsList), map[string]any{})
	})
	if answer.err != nil {
		return answer.err
	}
	return nil
}

// post lists the tools of a server without a session.
func post(url string) error {
	request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && !bytes.Contains(body, []byte(`"tools"`)) {
		err = fmt.Errorf("listed nothing: %.200s", body)
	}
	return err
}

// looks alternates calls of each kind.
func looks(b *testing.B, p *Pool, tool, args string, trip func() error) {
	pin := pinOf(b, p, tool, false)
	again := pin
	again.Again = true
	var took [4][]time.Duration
	timed := func(i int, do func() error) {
		begin := time.Now()
		require.NoError(b, do())
		took[i] = append(took[i], time.Since(begin))
	}
	for b.Loop() {
		timed(0, func() error { _, err := p.Call(b.Context(), "h", tool, json.RawMessage(args)); return err })
		timed(1, func() error { _, err := p.CallPinned(b.Context(), "h", tool, json.RawMessage(args), pin); return err })
		timed(2, func() error { _, err := p.CallPinned(b.Context(), "h", tool, json.RawMessage(args), again); return err })
		timed(3, trip)
	}
	var median [4]float64
	for i, all := range took {
		slices.Sort(all)
		median[i] = float64(all[len(all)/2]) / float64(time.Millisecond)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median[0], "call-ms")
	b.ReportMetric(median[3], "trip-ms")
	b.ReportMetric(median[1]-median[0], "once-ms")
	b.ReportMetric(median[2]-median[0], "twice-ms")
	b.ReportMetric((median[1]-median[0])/median[3], "once-trips")
	b.ReportMetric((median[2]-median[0])/median[3], "twice-trips")
}
