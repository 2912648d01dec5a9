package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"chimera.ai/engine/contract"
)

// noise counts the bytes within a minute that are not answers.
type noise struct {
	since time.Time
	bytes int
}

// add counts n bytes and reports whether there were more than allowed.
func (n *noise) add(bytes, limit int, now time.Time) bool {
	if now.Sub(n.since) > time.Minute {
		*n = noise{since: now}
	}
	n.bytes += bytes
	return n.bytes > limit
}

// hear counts bytes of noise and reports whether they are within the bound.
func (c *conn) hear(bytes int) bool {
	c.mu.Lock()
	over := c.noise.add(bytes, c.opts.MaxNoise, time.Now())
	c.mu.Unlock()
	if over {
		c.offend(contract.ServerError, "it wrote more than %d bytes in a minute that are not answers", c.opts.MaxNoise)
	}
	return !over
}

// failAnswered fails the request that an overlong message answers: the one that it names,
// or, if it names none, the only one in flight. It reports whether there was one.
//
// of is the request to which alone the message may belong, or nil.
func (c *conn) failAnswered(s *skim, of *request) bool {
	if s.call {
		return false
	}
	id, named := s.id()
	if of != nil && !named {
		id = of.id
	}
	c.mu.Lock()
	r := c.pending[id]
	if of == nil && !named && len(c.pending) == 1 {
		for _, r = range c.pending {
		}
	}
	c.mu.Unlock()
	return r != nil && (of == nil || r == of) && c.complete(r, reply{err: c.errorf(contract.TooLarge, "the result is too large: %w", &oversize{c.opts.MaxLine})})
}

// take handles one message and reports whether to continue reading. of is the request to which
// alone the message may belong, or nil if it may belong to any.
func (c *conn) take(line []byte, of *request) bool {
	f, err := parse(line)
	if err != nil {
		return c.hear(len(line))
	}
	switch {
	case f.method != "" && f.id != nil:
		c.answer(f, of)
		return c.hear(len(line))
	case f.method != "":
		if f.method == mcp.MethodNotificationToolsListChanged {
			c.changed()
		}
		return c.hear(len(line))
	}
	id, ok := wireID(f.id)
	if !ok || of != nil && id != of.id {
		return c.hear(len(line))
	}
	c.mu.Lock()
	r, late := c.pending[id], c.late[id]
	delete(c.late, id)
	c.mu.Unlock()
	switch {
	case r == nil && late:
		return true
	case r == nil || !c.complete(r, reply{frame: f}):
		return c.hear(len(line))
	}
	return true
}

// changed notes that the server says that its list of tools has changed. The log has the first time of a
// session, since a server may say so as often as it likes.
func (c *conn) changed() {
	if !c.announced.Swap(true) {
		c.log.Info("MCP server says that its tools have changed")
	}
	c.opts.Changed(c.name)
}

// answer answers a request of the server: it answers a ping, and refuses everything else,
// since no capability for it was declared.
func (c *conn) answer(f frame, of *request) {
	switch f.method {
	case string(mcp.MethodPing):
		c.say(map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "id": f.id, "result": struct{}{}})
		return
	case string(mcp.MethodSamplingCreateMessage), string(mcp.MethodElicitationCreate), string(mcp.MethodListRoots):
		c.asked(f.method, of)
	}
	c.say(map[string]any{
		"jsonrpc": mcp.JSONRPC_VERSION, "id": f.id,
		"error": map[string]any{"code": mcp.METHOD_NOT_FOUND, "message": "this client answers no such request"},
	})
}

// asked records that the server asks for input. Where no request is known to which that belongs
// (of is nil) and only one is in flight, it is that one. The call may still succeed for a
// while, since some servers can do without input.
func (c *conn) asked(method string, of *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var call *request
	for _, r := range c.pending {
		if of != nil && r != of {
			continue
		}
		if r.method != string(mcp.MethodToolsCall) && r.method != string(mcp.MethodResourcesRead) || r.stage.Load() != sent {
			continue
		}
		if call != nil {
			return
		}
		call = r
	}
	if call == nil || call.asked != "" {
		return
	}
	call.asked = method
	time.AfterFunc(c.opts.AskGrace, func() {
		if c.complete(call, reply{err: c.needsInput(method)}) {
			c.cancel(call, "the client has no input to give")
		}
	})
}

func (c *conn) needsInput(method string) *contract.Error {
	err := c.errorf(contract.NeedsInput, "it asked for input (%s), which this client does not give", method)
	err.Details = object("asked", method)
	return err
}

// lines takes messages, one a line, until reading fails, or the session has and it is no use to read
// on: then the error is nil.
func (c *conn) lines(from io.Reader) error {
	in := bufio.NewReaderSize(from, 64<<10)
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		switch {
		case err == nil || errors.Is(err, bufio.ErrBufferFull):
			if len(line)+len(bytes.TrimSuffix(part, []byte("\n"))) > c.opts.MaxLine {
				if on, err := c.overlong(in, line, part, err == nil); !on {
					return err
				}
				line = nil
				continue
			}
			line = append(line, part...)
			if err == nil {
				if !c.take(line, nil) {
					return nil
				}
				// Frames point into the line, so it is not reused.
				line = nil
			}
		default:
			return err
		}
	}
}

// overlong skips a message that is too long, and fails the request that it answers. It
// reports whether to continue reading. The bound on what it skips is that on noise; a line
// that never ends breaks the protocol.
func (c *conn) overlong(in *bufio.Reader, line, part []byte, end bool) (bool, error) {
	var s skim
	s.write(line)
	total := len(line)
	for {
		s.write(part)
		total += len(part)
		if end {
			break
		}
		if total > c.opts.MaxLine+c.opts.MaxNoise {
			// A caller that retries after the error gets another client.
			c.closed.Store(true)
			c.failAnswered(&s, nil)
			c.offend(contract.Transport, "it wrote a line of more than %d bytes", total)
			return false, nil
		}
		var err error
		part, err = in.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			c.closed.Store(true)
			c.failAnswered(&s, nil)
			return false, err
		}
		end = err == nil
	}
	c.log.Warn("MCP message over the limit", "limit", c.opts.MaxLine)
	return c.failAnswered(&s, nil) || c.hear(total), nil
}
