//go:build unix

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/process"
)

// stderrTail is how much of the end of a server's standard error is kept.
const stderrTail = 8 << 10

// pipe is the link to a server that runs as a child process: a message is a line.
type pipe struct {
	c     *conn
	proc  *process.Process
	tail  process.Tail
	queue chan *outgoing
	// stderrEnd is closed at the end of standard error.
	stderrEnd chan struct{}
}

// spawn starts a server, and a session with it.
func spawn(name string, s Server, opts Options) (*conn, error) {
	proc, err := process.Start(process.Spec{Command: s.Command, Args: s.Args, Env: s.Env, Dir: s.Dir, User: s.User, Guard: true})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Command, err)
	}
	c := newConn(name, opts)
	c.log, c.single = c.log.With("pid", proc.PID), true
	c.begin(&pipe{
		c: c, proc: proc,
		tail:      process.Tail{Limit: stderrTail},
		queue:     make(chan *outgoing, queueLong),
		stderrEnd: make(chan struct{}),
	})
	return c, nil
}

func (p *pipe) send(ctx context.Context, out *outgoing) {
	select {
	case p.queue <- out:
	case <-out.request.over.Done():
	case <-ctx.Done():
	}
}

func (p *pipe) say(line []byte) {
	select {
	case p.queue <- &outgoing{line: line}:
	default:
	}
}

// notify has nothing to wait for: lines keep their order.
func (p *pipe) notify(_ context.Context, line []byte) *contract.Error {
	p.say(line)
	return nil
}

func (p *pipe) agreed(string) {}

func (p *pipe) kill() { p.proc.Kill() }

// serve reads and writes until the session has failed. Then it ends the process, and waits
// for everything to end.
func (p *pipe) serve() {
	var pipes sync.WaitGroup
	pipes.Go(p.write)
	pipes.Go(p.read)
	pipes.Go(p.readErrors)
	select {
	case <-p.c.failed:
	case <-p.proc.Done():
		// A process that has left the group may still hold the pipes.
		deadline := time.Now().Add(p.c.opts.settle)
		_ = p.proc.Stdout.SetReadDeadline(deadline)
		_ = p.proc.Stderr.SetReadDeadline(deadline)
		<-p.c.failed
	}
	if err := p.proc.Stop(p.c.opts.StopGrace); err != nil {
		p.c.log.Error("MCP server does not exit", "err", err)
	}
	p.proc.Stdout.Close()
	p.proc.Stderr.Close()
	pipes.Wait()
}

// write writes what is queued, one line at a time.
func (p *pipe) write() {
	for {
		var out *outgoing
		select {
		case out = <-p.queue:
		case <-p.c.failed:
			return
		}
		if out.request != nil && !out.request.stage.CompareAndSwap(queued, sent) {
			continue
		}
		n, err := p.proc.Stdin.Write(out.line)
		if err == nil {
			continue
		}
		p.c.closed.Store(true)
		if n == 0 && out.request != nil {
			out.request.stage.Store(queued) // nothing of it was sent
		}
		// The end of its output explains more, if it comes.
		select {
		case <-p.c.failed:
		case <-time.After(2 * p.c.opts.settle):
			p.c.fail(p.c.errorf(contract.Transport, "it no longer reads: %w", err))
		}
		return
	}
}

// read takes what the server writes until that ends, or there is no use in it.
func (p *pipe) read() {
	if err := p.c.lines(p.proc.Stdout); err != nil {
		p.ended(err)
	}
}

// ended fails the connection at the end of the server's output, with its exit status and
// the end of its standard error if they come soon.
func (p *pipe) ended(err error) {
	timer := time.NewTimer(p.c.opts.settle)
	defer timer.Stop()
	how := "it closed its output"
	select {
	case <-p.proc.Done():
		how = "it ended (" + p.proc.State().String() + ")"
		select {
		case <-p.stderrEnd:
		case <-timer.C:
		}
	case <-p.c.failed:
	case <-timer.C:
	}
	reason := p.c.errorf(contract.Transport, "%s before it answered", how)
	if !errors.Is(err, io.EOF) {
		reason.Cause = err
	}
	reason.Details = p.detail(nil)
	p.c.log.Info("MCP server is gone", "how", how)
	p.c.fail(reason)
}

// readErrors drains standard error, so that the server never blocks on it.
func (p *pipe) readErrors() {
	defer close(p.stderrEnd)
	buf := make([]byte, 32<<10)
	for {
		n, err := p.proc.Stderr.Read(buf)
		// Write never fails.
		_, _ = p.tail.Write(buf[:n])
		if err != nil || !p.c.hear(n) {
			return
		}
	}
}

// detail adds the end of standard error to details, which is an object or nil.
func (p *pipe) detail(details json.RawMessage) json.RawMessage {
	words := p.tail.String()
	if words == "" {
		return details
	}
	all := map[string]json.RawMessage{}
	if details != nil && json.Unmarshal(details, &all) != nil {
		return details
	}
	text, err := json.Marshal(words)
	if err != nil {
		return details
	}
	all["stderr"] = text
	raw, err := json.Marshal(all)
	if err != nil {
		return details
	}
	return raw
}
