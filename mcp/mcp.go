// Package mcp calls tools and reads resources of MCP servers (Model Context Protocol) that run as
// child processes and speak JSON-RPC over standard input and output, or that are
// reached by streamable HTTP or by HTTP with server-sent events.
//
// A [Pool] begins a session with a server at its first use. Sessions are kept apart by the
// [Principal] on whose behalf calls are made, as [Server.Sessions] says; each session over
// standard input and output has a process of its own. If a session has died, the next call
// begins another; one that nobody uses is ended.
//
// A session that hangs, that its server has forgotten, or that is with another server than is pinned takes
// no more calls, and ends once those in it are done. Calls that come meanwhile have another session. Where
// that takes a process, it begins at once only if [Options.MaxSessions] leaves room for both processes and
// none is left behind so already; otherwise they wait for the end of the old one, as long as they have time.
// So a server that must never run twice, such as one that locks files, has Server.MaxSessions 1. A process
// with calls in it is not killed: they may have an effect.
//
// Servers are not trusted:
//
//   - the environment of a child is explicit, and children end with the pool, with
//     everything that they started (package process);
//   - a remote server is one that TLS 1.3 has verified, at an address that may be
//     dialled (package dial); redirects and proxies lead nowhere;
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
// blocks on a server that does not read, and reads lines without a bound, and its
// HTTP transports read bodies without a bound, follow redirects, and do not tell
// one status from another.
//
// Logs never hold arguments, results or environment values.
package mcp

import (
	"encoding/json"
	"log/slog"
	"net/netip"
	"time"

	"chimera.ai/engine/contract"
)

// Server says how a server is started, or where it is: the usual mcpServers form.
type Server struct {
	// Command is a path, or a name to find on the worker's PATH; "" for a remote server.
	Command string
	Args    []string
	// Env is the server's environment, in addition to HOME, LANG, LC_ALL, LOGNAME, PATH,
	// TMPDIR, TZ and USER, which every child gets.
	Env map[string]string
	// Public are the names in Env whose values are no secrets.
	Public []string
	// Dir is the working directory, or "" for the worker's.
	Dir string
	// User is another user of this machine, by name or number, as whom the server runs, or "" for the
	// worker's. The worker must be root, or have the capabilities SETUID, SETGID and KILL.
	User string
	// Pin are files and folders, such as scripts and lock files, that the server is made of. They are
	// read before each start.
	Pin []string
	// Base is the folder against which paths in the identity of the endpoint are written, or "".
	Base string
	// Sessions says whose calls share a session, and thus what the server keeps between them.
	Sessions Sharing
	// MaxSessions replaces [Options.MaxSessions] if it is not 0.
	MaxSessions int
	// URL is where a remote server takes messages: https, or http on this machine. What follows is
	// about remote servers alone.
	URL string
	// SSE says that the server speaks the older transport of HTTP with server-sent events: URL is
	// where its stream begins.
	SSE bool
	// Headers are sent with each request.
	Headers map[string]string
	TLS     TLS
	// JWT and OAuth say who asks; at most one of them is set.
	JWT   *JWT
	OAuth *OAuth
	// Addresses are networks that may be dialled although their addresses are not public.
	Addresses []netip.Prefix
	// Unavailable says why the server is neither started nor dialled, or is "": then each call of it fails with
	// kind auth. Nothing else of it need be set.
	Unavailable string
}

// Options holds the bounds of a pool. A zero field means its default.
type Options struct {
	// Logger logs starts, ends and protocol errors; the default is that of slog.
	Logger *slog.Logger
	// Issued, if not nil, is told each token of a server's credential before it is sent, and until
	// when it may be accepted, or zero if nobody knows: the server may repeat it.
	Issued func(token string, until time.Time)
	// Changed, if not nil, is told the name of a server each time that it says that its list of tools has
	// changed. The pool keeps no list for which that matters.
	Changed func(server string)
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
	// PingTimeout is how long a server over standard input and output, or over HTTP with server-sent
	// events, may take to answer a ping that it gets once it has not answered a call in time: 10 s. One
	// that does not gets no more calls, and ends with the last call in flight.
	PingTimeout time.Duration
	// MaxLine bounds one message, in either direction, in bytes: 16 MiB. A server can make the
	// pool use about twice MaxCalls times MaxLine of memory, and with the values of one answer
	// up to 384 MiB more. Each session keeps the definitions of its last list of tools besides, of up
	// to MaxList.
	MaxLine int
	// MaxNoise bounds, in bytes a minute, what a server writes besides answers: garbage,
	// notifications, requests, and its standard error: 64 MiB.
	MaxNoise int
	// MaxCalls bounds the calls in flight on one server, in all sessions together: 32. Others wait.
	MaxCalls int
	// MaxSessions bounds the sessions with one server: 64. For another one, that which was not used
	// for the longest time is ended. If all are in use, the call waits.
	MaxSessions int
	// MaxIdle is how long nobody uses a session before it is ended: 10 minutes.
	MaxIdle time.Duration
	// MaxPages and MaxTools bound a listing, of tools or of resources: 100 and 10,000.
	MaxPages, MaxTools int
	// MaxList bounds a listing in bytes: 16 MiB.
	MaxList int

	// settle is how long a server that has closed its output may take to exit, so that its exit status and
	// the end of its standard error can be reported: 1 s.
	settle time.Duration
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Issued == nil {
		o.Issued = func(string, time.Time) {}
	}
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	for _, d := range []struct {
		at  *time.Duration
		def time.Duration
	}{
		{&o.StartTimeout, 30 * time.Second},
		{&o.StopGrace, 2 * time.Second},
		{&o.MaxBackoff, 5 * time.Second},
		{&o.AskGrace, time.Second},
		{&o.PingTimeout, 10 * time.Second},
		{&o.MaxIdle, 10 * time.Minute},
		{&o.settle, time.Second},
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
		{&o.MaxSessions, 64},
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
	// Snapshots are those of a call of a tool whose fingerprint is pinned, or nil.
	Snapshots *contract.Snapshots
}

// Tool is one tool of a server.
type Tool struct {
	Name string
	// Raw is the tool's definition as the server sent it.
	Raw json.RawMessage
}
