// Package mcp calls tools of MCP servers.
package mcp

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"chimera.ai/engine/contract"
)

// Server says how a server is started: the usual mcpServers form.
type Server struct {
	Command string
	Args    []string
	Env     map[string]string
	Dir     string
	// URL names a remote server, which is refused so far.
	URL string
}

// Options bound what a pool does; the zero value means the defaults.
type Options struct {
	Logger *slog.Logger
	// StartTimeout bounds spawn and handshake.
	StartTimeout time.Duration
	// MaxLine bounds one message of a server, in bytes.
	MaxLine int64
	// MaxCalls bounds the calls in flight on one server.
	MaxCalls int
}

// Result is what a tool returned, as it was on the wire.
type Result struct {
	// Structured is structuredContent, or nil.
	Structured json.RawMessage
	// Content is the array of content blocks.
	Content json.RawMessage
	// Text is the text of the only block, where there is one block and it is text.
	Text *string
}

// Tool is one tool of a server.
type Tool struct {
	Name string
	// Raw is the tool's definition as the server sent it.
	Raw json.RawMessage
}

// Pool keeps one client for each server.
type Pool struct {
	servers map[string]Server
	opts    Options
}

// NewPool makes a pool. No server is started before its first use.
func NewPool(servers map[string]Server, o Options) *Pool {
	return &Pool{servers: servers, opts: o}
}

// Call calls one tool. Its error is a *contract.Error.
func (p *Pool) Call(ctx context.Context, server, tool string, args json.RawMessage) (Result, error) {
	return Result{}, contract.Errorf(contract.Unsent, "not supported yet: MCP calls")
}

// Tools lists the tools of a server.
func (p *Pool) Tools(ctx context.Context, server string) ([]Tool, error) {
	return nil, contract.Errorf(contract.Unsent, "not supported yet: MCP lists")
}

// Close ends all servers and waits for them.
func (p *Pool) Close() error { return nil }
