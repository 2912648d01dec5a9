package pgtest

import "syscall"

// Pause stops the server and all that it has started, without ending anything: it
// takes connections and requests, and answers none. [Cluster.Resume] lets it go
// on.
func (c *Cluster) Pause() { c.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (c *Cluster) Resume() { c.signal(syscall.SIGCONT) }

func (c *Cluster) signal(s syscall.Signal) {
	pid := c.server.Process.Pid
	_ = syscall.Kill(pid, s)
	for _, child := range children(pid) {
		_ = syscall.Kill(child, s)
	}
}
