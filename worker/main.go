// Command chimera-worker is a worker of a deployment: it runs workflows,
// compiles plans, and calls skills, executables and MCP servers, as its roles
// say. It talks to Temporal, to its store and to its children, and listens only on
// worker.metrics, if that is set.
//
// SIGTERM and SIGINT end it in order: no new work, then the time of worker.drain
// for calls in flight, then its children. A second signal ends it at once.
//
// While Temporal is unavailable, it waits and logs that.
//
// Exit codes: 0 ended as asked, 2 wrong use or configuration, 3 Temporal refuses the
// worker, or the store cannot be reached.
//
// On Linux it is not dumpable: other processes of its user can read neither its memory nor its
// environment.
//
// main only drives a [Program], as tests do.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"chimera.ai/engine/internal/process"
)

func main() {
	if err := process.Hide(); err != nil {
		fmt.Fprintln(os.Stderr, "chimera-worker:", err)
		os.Exit(exitUsage)
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, out, messages io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	p := &Program{Stdout: out, Stderr: messages}
	err := p.Parse(args)
	if err == nil {
		err = p.Run(ctx)
	}
	if closed := p.Close(); err == nil {
		err = closed
	}
	return p.Report(err)
}
