package mcp

import (
	"fmt"
	"sync"

	"chimera.ai/engine/internal/process"
)

// spawn starts a server and the goroutines that serve it.
func spawn(name string, s Server, opts Options) (*conn, error) {
	proc, err := process.Start(process.Spec{Command: s.Command, Args: s.Args, Env: s.Env, Dir: s.Dir, Guard: true})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Command, err)
	}
	c := &conn{
		name: name, opts: opts, proc: proc,
		log:       opts.Logger.With("server", name, "pid", proc.PID),
		tail:      process.Tail{Limit: stderrTail},
		queue:     make(chan *outgoing, queueLong),
		pending:   map[int64]*request{},
		late:      map[int64]bool{},
		failed:    make(chan struct{}),
		gone:      make(chan struct{}),
		stderrEnd: make(chan struct{}),
	}
	var pipes sync.WaitGroup
	pipes.Go(c.write)
	pipes.Go(c.read)
	pipes.Go(c.readErrors)
	go c.reap(&pipes)
	return c, nil
}
