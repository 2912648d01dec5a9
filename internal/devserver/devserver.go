// Package devserver finds or builds the Temporal command line, starts its
// development server as a child process, waits until it answers, and ends it.
//
// The server lives exactly as long as this process: it leads a process group
// of its own, which [Server.Stop] ends, and on Linux the kernel kills it when
// this process is killed. A database file is locked for as long as a server
// has it open, and is never changed, moved or deleted by this package.
package devserver

import (
	"io"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"chimera.ai/engine/internal/process"
)

// pollRPS lifts the bound on how often the server's one history shard looks for
// new tasks. The default of 20 a second makes every task wait up to 50 ms.
const pollRPS = "history.transferProcessorMaxPollRPS=2000"

// DefaultNamespace is the namespace that every server has.
const DefaultNamespace = "default"

// Times that bound a start and a stop where the caller gives no bound.
const (
	startTimeout = 60 * time.Second
	stopTimeout  = 10 * time.Second
)

// Options says how to start a server. The zero value is a server in memory on
// free ports, without its web pages.
type Options struct {
	// Path is the temporal executable; "" asks [Find].
	Path string
	// DB is the SQLite file, or "" for memory. Its folder is made where it is missing.
	DB string
	// Host is the address to listen on; "" is 127.0.0.1.
	Host string
	// Port is the frontend's TCP port; 0 takes a free one.
	Port int
	// UI starts the web pages, on UIPort; 0 takes a free one.
	UI     bool
	UIPort int
	// PortOption and UIPortOption are what the user sets to choose another
	// port; errors name them. "" is --port and --ui-port.
	PortOption, UIPortOption string
	// Namespace is created at the start; "" means [DefaultNamespace].
	Namespace string
	// LogLevel is debug, info, warn, error or never; "" is error.
	LogLevel string
	// Log receives the server's log, or is nil. A failed write, as on a full disk, loses
	// output but does not stop the server.
	Log io.Writer
	// Progress takes lines for people (a first build takes minutes); nil is stderr.
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
	// Version is the server's version, as "1.29.1".
	Version string

	cmd  *exec.Cmd
	tail *process.Tail
	done chan struct{}
	// err is how the process ended; it is set before done is closed.
	err error
	// asked reports that the end was requested.
	asked atomic.Bool
	stop  sync.Once
}

// Done is closed when the server's process has ended, for whatever reason.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err reports how the process ended, with the last lines of its log. It returns nil
// before [Server.Done] is closed and after a [Server.Stop].
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// WebRun returns the address of a run's page, or "" without web pages.
func (s *Server) WebRun(workflow, run string) string {
	return WebRun(s.UI, s.Namespace, workflow, run)
}
