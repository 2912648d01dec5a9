package conform

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"chimera.ai/engine/internal/process"
	"chimera.ai/engine/schemas"
)

// protocolVersion is the newest version of the protocol that begins with initialize.
const protocolVersion = "2025-11-25"

// Bounds of what a server writes in one session, in bytes.
const (
	maxLine   = 16 << 20
	maxOutput = 64 << 20
)

// errQuiet is the error of a server that does not answer in time, and errGone that of one that
// has closed its output.
var (
	errQuiet = errors.New("it did not answer in time")
	errGone  = errors.New("it closed its output")
)

// wire is a running server, whose standard output is read line by line.
type wire struct {
	proc *process.Process
	// lines has what was read; it is closed at the end, after which err is set if that was no
	// end of file.
	lines chan []byte
	err   error
	// left is closed when nobody takes lines any more.
	left chan struct{}
	wait sync.WaitGroup
	// patience bounds one answer.
	patience time.Duration
	// stray is the first line that is no message, and strays counts them.
	stray  string
	strays int
	last   int
}

// start starts the server. The caller ends it.
func (s *suite) start() (*wire, error) {
	c := s.target.Stdio
	proc, err := process.Start(process.Spec{Command: c.Command, Args: c.Args, Env: c.Env, Dir: c.Dir, Guard: true})
	if err != nil {
		return nil, err
	}
	w := &wire{proc: proc, lines: make(chan []byte), left: make(chan struct{}), patience: s.opts.Timeout}
	w.wait.Go(w.read)
	w.wait.Go(func() { _, _ = io.Copy(io.Discard, proc.Stderr) })
	return w, nil
}

// end ends what is left of the server.
func (w *wire) end() error {
	close(w.left)
	w.proc.Kill()
	err := w.proc.Stop(w.patience)
	// A process that has left the group may still hold the pipes.
	w.proc.Stdout.Close()
	w.proc.Stderr.Close()
	w.wait.Wait()
	return err
}

// read sends the lines of standard output.
func (w *wire) read() {
	defer close(w.lines)
	in := bufio.NewReader(io.LimitReader(w.proc.Stdout, maxOutput+1))
	total := 0
	for {
		var line []byte
		for {
			part, err := in.ReadSlice('\n')
			line = append(line, part...)
			total += len(part)
			if len(line) > maxLine || total > maxOutput {
				w.err = fmt.Errorf("it wrote more than a line of %d or all of %d bytes", maxLine, maxOutput)
				return
			}
			if err == nil {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				if len(line) > 0 {
					w.put(line)
				}
				return
			}
		}
		if !w.put(line) {
			return
		}
	}
}

func (w *wire) put(line []byte) bool {
	select {
	case w.lines <- line:
		return true
	case <-w.left:
		return false
	}
}

// send writes a message.
func (w *wire) send(message map[string]any) error {
	message["jsonrpc"] = "2.0"
	raw, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	if err := w.proc.Stdin.SetWriteDeadline(time.Now().Add(w.patience)); err != nil {
		return err
	}
	if _, err := w.proc.Stdin.Write(append(raw, '\n')); err != nil {
		return fmt.Errorf("it does not read: %w", err)
	}
	return nil
}

// request sends a request, and returns its id.
func (w *wire) request(method string, params any) (id int, err error) {
	w.last++
	return w.last, w.send(map[string]any{"id": w.last, "method": method, "params": params})
}

// ask sends a request, and waits for its answer, which may be an error.
func (w *wire) ask(ctx context.Context, method string, params any, patience time.Duration) (answer map[string]any, err error) {
	id, err := w.request(method, params)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case line, ok := <-w.lines:
			if !ok {
				if w.err != nil {
					return nil, w.err
				}
				return nil, errGone
			}
			m := w.take(line)
			if n, ok := m["id"].(json.Number); ok && m["method"] == nil && string(n) == fmt.Sprint(id) {
				return m, nil
			}
		case <-timer.C:
			return nil, errQuiet
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take judges a line, answers it if it is a request, and returns the message or nil.
func (w *wire) take(line []byte) map[string]any {
	v, err := schemas.Decode(line)
	m, ok := v.(map[string]any)
	method, calls := m["method"].(string)
	_, result := m["result"]
	_, fault := m["error"]
	if err != nil || !ok || m["jsonrpc"] != "2.0" || !calls && !(m["id"] != nil && result != fault) {
		if w.strays++; w.strays == 1 {
			w.stray = strings.TrimRight(string(line), "\r\n")
		}
		return nil
	}
	if id := m["id"]; calls && id != nil {
		answer := map[string]any{"id": id, "error": map[string]any{"code": -32601, "message": "this client answers no such request"}}
		if method == "ping" {
			answer = map[string]any{"id": id, "result": map[string]any{}}
		}
		_ = w.send(answer) // a server that does not read does not answer either
	}
	return m
}

// ended takes what is left, and reports whether the server ends before ctx does.
func (w *wire) ended(ctx context.Context) bool {
	lines, done := w.lines, w.proc.Done()
	for lines != nil || done != nil {
		select {
		case line, ok := <-lines:
			if !ok {
				lines = nil
				continue
			}
			w.take(line)
		case <-done:
			done = nil
		case <-ctx.Done():
			return done == nil
		}
	}
	return true
}
