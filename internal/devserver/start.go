package devserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/process"
)

// attempts bounds how often a start on free ports is tried: between choosing a
// free port and using it, another process can take it.
const attempts = 5

// Start starts a server and waits until its frontend answers for the
// namespace. It fails with a [*PortError] if a port is taken and with a
// [*DatabaseError] if the database file cannot be used; then nothing runs.
// The context bounds the start only; without a deadline a minute does, not
// counting a first build.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if o.LogLevel == "" {
		o.LogLevel = "error"
	}
	if o.PortOption == "" {
		o.PortOption = "--port"
	}
	if o.UIPortOption == "" {
		o.UIPortOption = "--ui-port"
	}
	if o.Path == "" {
		path, err := Find(ctx, o.Progress)
		if err != nil {
			return nil, err
		}
		o.Path = path
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, startTimeout)
		defer cancel()
	}
	version, err := serverVersion(ctx, o.Path)
	if err != nil {
		return nil, err
	}
	var held *Lock
	if o.DB != "" {
		if o.DB, err = filepath.Abs(o.DB); err != nil {
			return nil, fmt.Errorf("finding the Temporal database: %w", err)
		}
		if held, err = open(o.DB, version); err != nil {
			return nil, err
		}
		defer held.Release() // the child holds it from here on
	}
	for try := 1; ; try++ {
		s, err := start(ctx, o, version, held)
		if err == nil {
			if o.DB == "" {
				return s, nil
			}
			if err := mark(o.DB, version); err != nil {
				return nil, errors.Join(err, s.Stop(ctx))
			}
			return s, nil
		}
		var taken *collision
		if !errors.As(err, &taken) || try == attempts {
			return nil, err
		}
	}
}

// collision is a start that failed because a port that we chose, or perhaps one
// that the server chose, was taken.
type collision struct{ err error }

func (c *collision) Error() string { return c.err.Error() }
func (c *collision) Unwrap() error { return c.err }

// start tries once.
func start(ctx context.Context, o Options, version string, held *Lock) (*Server, error) {
	port, err := reserve(o.Host, o.Port, "the Temporal frontend", o.PortOption)
	if err != nil {
		return nil, err
	}
	s := &Server{
		Address:   net.JoinHostPort(o.Host, strconv.Itoa(port)),
		Namespace: o.Namespace,
		Version:   version,
		tail:      &process.Tail{Limit: 16 << 10},
		done:      make(chan struct{}),
	}
	args := []string{
		"server", "start-dev", "--disable-config-env", "--disable-config-file", "--color", "never",
		"--ip", o.Host, "--port", strconv.Itoa(port), "--log-level", o.LogLevel,
		"--dynamic-config-value", pollRPS,
	}
	for _, name := range []string{contract.AttributePlan, contract.AttributeAgent, contract.AttributeState} {
		args = append(args, "--search-attribute", name+"=Keyword")
	}
	if o.Namespace != DefaultNamespace {
		args = append(args, "--namespace", o.Namespace)
	}
	if o.DB != "" {
		args = append(args, "--db-filename", o.DB)
	}
	if o.UI {
		uiPort, err := reserve(o.Host, o.UIPort, "the Temporal web pages", o.UIPortOption)
		if err != nil {
			return nil, err
		}
		args = append(args, "--ui-port", strconv.Itoa(uiPort))
		s.UI = "http://" + net.JoinHostPort(o.Host, strconv.Itoa(uiPort))
	} else {
		args = append(args, "--headless")
	}
	s.cmd = exec.Command(o.Path, args...)
	// What an executable needs to run, and none of the user's Temporal settings
	// or secrets.
	if s.cmd.Env, err = process.Environ(nil); err != nil {
		return nil, err
	}
	s.cmd.Stdout = io.Discard
	s.cmd.Stderr = s.tail
	if o.Log != nil {
		s.cmd.Stderr = io.MultiWriter(s.tail, lossy{o.Log})
	}
	s.cmd.WaitDelay = time.Second
	if held != nil {
		s.cmd.ExtraFiles = []*os.File{held.file}
	}
	lead(s.cmd)
	if err := s.spawn(); err != nil {
		return nil, fmt.Errorf("starting the Temporal server: %w", err)
	}
	if err := s.ready(ctx); err != nil {
		select {
		case <-s.done: // it ended by itself: its log says why
			log := s.tail.String()
			err = explain(o, log, s.err)
			switch {
			case strings.Contains(log, "address already in use"):
				err = inUse(o, log, err)
			case log == "":
				// It was seen once, on a machine where many servers started at the
				// same moment: each also takes ports that it finds free itself.
				err = &collision{err: err}
			}
		default:
			_ = s.Stop(context.WithoutCancel(ctx))
			if log := s.tail.String(); log != "" {
				err = fmt.Errorf("%w; its log ends with: %s", err, log)
			}
		}
		return nil, err
	}
	return s, nil
}

// lossy takes whatever is written, also where its writer fails. The server would
// end with a broken pipe if nobody read its log any more.
type lossy struct{ w io.Writer }

func (l lossy) Write(p []byte) (int, error) {
	_, _ = l.w.Write(p)
	return len(p), nil
}

// inUse names the port that the server could not take, which somebody took
// after we had looked; a port that we chose ourselves is worth another try.
func inUse(o Options, log string, err error) error {
	if o.Port != 0 && strings.Contains(log, ":"+strconv.Itoa(o.Port)+":") {
		return &PortError{Port: o.Port, What: "the Temporal frontend", Option: o.PortOption}
	}
	if o.UIPort != 0 && strings.Contains(log, ":"+strconv.Itoa(o.UIPort)+":") {
		return &PortError{Port: o.UIPort, What: "the Temporal web pages", Option: o.UIPortOption}
	}
	return &collision{err: err}
}

// reserve answers with a port that nobody listens on: the given one, or any.
func reserve(host string, port int, what, option string) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return 0, &PortError{Port: port, What: what, Option: option}
	}
	if err != nil {
		return 0, fmt.Errorf("taking port %d for %s (%s): %w", port, what, option, err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// spawn starts the process and has it waited for. The kernel ties the child to
// the thread that started it, so one thread is kept for as long as it lives.
func (s *Server) spawn() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := s.cmd.Start()
		if err == nil {
			s.PID = s.cmd.Process.Pid
		}
		started <- err
		if err != nil {
			return
		}
		err = s.cmd.Wait()
		switch {
		case s.asked.Load():
		case err == nil:
			s.err = errors.New("exit status 0")
		default:
			s.err = err
		}
		close(s.done)
	}()
	return <-started
}
