// Package devserver finds or builds the Temporal command line, starts its
// development server as a child, waits until it answers, and ends it.
package devserver

import (
	"context"
	"errors"
	"io"
)

// Options says how to start a server. The zero value is a server in memory on
// free ports, without its web pages.
type Options struct {
	// Path is the temporal executable; "" asks [Find].
	Path string
	// DB is the SQLite file, or "" for memory.
	DB string
	// Host is the address to listen on; "" is 127.0.0.1.
	Host string
	// Port is the frontend's TCP port; 0 takes a free one.
	Port int
	// UI starts the web pages, on UIPort; 0 takes a free one.
	UI     bool
	UIPort int
	// Namespace is made at the start; "" is "default".
	Namespace string
	// LogLevel is debug, info, warn, error or never; "" is error.
	LogLevel string
	// Log takes the server's log, or nil.
	Log io.Writer
	// Progress takes lines for people (a first build takes minutes), or nil for stderr.
	Progress io.Writer
}

// Server is a running dev server.
type Server struct {
	// Address is host:port of the frontend, for Temporal clients.
	Address string
	// UI is the address of the web pages, "http://…", or "".
	UI string
	// Namespace is the namespace that was made.
	Namespace string
	// PID is the process id of the server, which leads a process group of its own.
	PID int
}

// Find answers with the path of a temporal executable: the one on PATH, else
// bin/temporal of this repository, which it builds first where it is missing
// or of another version than tools/go.mod names.
func Find(ctx context.Context, progress io.Writer) (string, error) {
	return "", errors.New("not supported yet: the embedded server")
}

// Start starts a server and waits until it answers.
func Start(ctx context.Context, o Options) (*Server, error) {
	return nil, errors.New("not supported yet: the embedded server")
}

// Stop ends the server: first politely, then by force. It is safe to call twice.
func (s *Server) Stop(ctx context.Context) error { return nil }

// Done is closed when the server's process has ended.
func (s *Server) Done() <-chan struct{} { return nil }
