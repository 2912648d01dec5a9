// Package mcp calls tools of MCP servers (Model Context Protocol) that run as
// child processes and speak JSON-RPC over standard input and output.
//
// A [Pool] starts each server at its first use, keeps one client for it, and
// replaces a client that has died at the next call. Servers are not trusted:
//
//   - their environment is explicit, and they end with the pool, with
//     everything that they started (package process);
//   - every message is bounded, and so is what is not an answer: noise beyond
//     a bound per minute ends the server;
//   - results are kept as they were on the wire: mcp-go's typed decoding turns
//     integers beyond 2^53 into floats and drops what it does not know, so the
//     raw result is taken at the transport;
//   - nothing that a server asks of its client is granted. No sampling,
//     elicitation or roots capability is declared, and a call on whose behalf
//     the server asks anyway fails with needs_input.
//
// mcp-go does the handshake and gives the protocol's types; its transport
// interface is implemented here ([conn]), because its own stdio transport
// blocks on a server that does not read, and reads lines without a bound.
//
// Logs never hold arguments, results or environment values.
package mcp

import (
	"encoding/json"
	"log/slog"
	"time"
)

// Server says how a server is started: the usual mcpServers form.
type Server struct {
	// Command is a path, or a name to find on the worker's PATH.
	Command string
	Args    []string
	// Env is the server's environment, beside HOME, LANG, LC_ALL, LOGNAME,
	// PATH, TMPDIR, TZ and USER, which every child gets.
	Env map[string]string
	// Dir is the working directory, or "" for the worker's.
	Dir string
	// URL names a remote server. Those are not supported yet: calls fail with
	// kind contract.
	URL string
}

// Options bound what a pool does; a zero field means its default.
type Options struct {
	// Logger gets starts, ends and protocol offences; the default is slog's.
	Logger *slog.Logger
	// StartTimeout bounds spawn and handshake of a server: 30 s.
	StartTimeout time.Duration
	// StopGrace is how long a server may take to end after its input was
	// closed, and again after SIGTERM, before it is killed: 2 s.
	StopGrace time.Duration
	// MaxBackoff bounds the pause before a server that keeps dying is started
	// again: 5 s. The first restart is immediate, the next pause 100 ms, and
	// each further one twice the last.
	MaxBackoff time.Duration
	// AskGrace is how long a call may still succeed after its server has asked
	// for input and was refused: 1 s.
	AskGrace time.Duration
	// MaxLine bounds one message, in either direction, in bytes: 16 MiB. So
	// MaxCalls times MaxLine bounds what a server can make the pool hold.
	MaxLine int
	// MaxNoise bounds, in bytes a minute, what a server writes that answers
	// nothing: rubbish, notifications, requests, and its standard error: 64 MiB.
	MaxNoise int
	// MaxCalls bounds the calls in flight on one server: 32. Others wait.
	MaxCalls int
	// MaxPages and MaxTools bound a listing of tools: 100 and 10,000.
	MaxPages, MaxTools int
	// MaxList bounds a listing of tools in bytes: 16 MiB.
	MaxList int
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	for _, d := range []struct {
		at  *time.Duration
		def time.Duration
	}{
		{&o.StartTimeout, 30 * time.Second},
		{&o.StopGrace, 2 * time.Second},
		{&o.MaxBackoff, 5 * time.Second},
		{&o.AskGrace, time.Second},
	} {
		if *d.at <= 0 {
			*d.at = d.def
		}
	}
	for _, n := range []struct {
		at  *int
		def int
	}{
		{&o.MaxLine, 16 << 20},
		{&o.MaxNoise, 64 << 20},
		{&o.MaxCalls, 32},
		{&o.MaxPages, 100},
		{&o.MaxTools, 10_000},
		{&o.MaxList, 16 << 20},
	} {
		if *n.at <= 0 {
			*n.at = n.def
		}
	}
	return o
}

// Result is what a tool returned, as it was on the wire. The caller takes what
// its contract is about: Structured where there is one, else Text as JSON
// where it is that, else Content.
type Result struct {
	// Structured is structuredContent, or nil.
	Structured json.RawMessage
	// Content is the array of content blocks; it is never nil.
	Content json.RawMessage
	// Text is the text of the only block, where there is one block and it is
	// text, else nil.
	Text *string
}

// Tool is one tool of a server.
type Tool struct {
	Name string
	// Raw is the tool's definition as the server sent it.
	Raw json.RawMessage
}
