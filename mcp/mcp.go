// Package mcp calls tools of MCP servers (Model Context Protocol) that run as
// child processes and speak JSON-RPC over standard input and output.
//
// A [Pool] starts each server at its first use and has one client for it. If the
// client has died, the next call replaces it. Servers are not trusted:
//
//   - their environment is explicit, and they end with the pool, with
//     everything that they started (package process);
//   - every message is bounded, and so is noise, which is whatever is not an
//     answer: a server that exceeds a bound per minute is stopped;
//   - results stay as they were on the wire: mcp-go's typed decoding turns
//     integers beyond 2^53 into floats and drops unknown fields, so the raw
//     result is taken from the transport;
//   - nothing that a server asks of its client is granted. No sampling,
//     elicitation or roots capability is declared, and a call on whose behalf
//     the server asks anyway fails with needs_input.
//
// mcp-go does the handshake and provides the protocol's types; its transport
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
	// Env is the server's environment, in addition to HOME, LANG, LC_ALL, LOGNAME, PATH,
	// TMPDIR, TZ and USER, which every child gets.
	Env map[string]string
	// Dir is the working directory, or "" for the worker's.
	Dir string
	// URL names a remote server. Those are not supported yet: calls fail with
	// kind contract.
	URL string
}

// Options holds the bounds of a pool. A zero field means its default.
type Options struct {
	// Logger logs starts, ends and protocol errors; the default is that of slog.
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
	// AskGrace is how long a call may still succeed after its server has asked for input
	// and has been refused: 1 s.
	AskGrace time.Duration
	// MaxLine bounds one message, in either direction, in bytes: 16 MiB. MaxCalls times
	// MaxLine bounds the memory that a server can make the pool use.
	MaxLine int
	// MaxNoise bounds, in bytes a minute, what a server writes besides answers: garbage,
	// notifications, requests, and its standard error: 64 MiB.
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

// Result is what a tool returned, as it was on the wire. The caller uses what its contract
// describes: Structured if there is one, otherwise Text if it is JSON, otherwise
// Content.
type Result struct {
	// Structured is structuredContent, or nil.
	Structured json.RawMessage
	// Content is the array of content blocks; it is never nil.
	Content json.RawMessage
	// Text is the text of the content block if there is only one and it is text,
	// otherwise nil.
	Text *string
}

// Tool is one tool of a server.
type Tool struct {
	Name string
	// Raw is the tool's definition as the server sent it.
	Raw json.RawMessage
}
