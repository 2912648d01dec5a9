// Command chimera is the command line: it compiles plans, shows them, starts
// runs on Temporal, follows and cancels them, and runs a whole Chimera on one
// machine (chimera dev).
//
// Names, flags, exit codes and JSON are a contract. Exit codes are the same
// everywhere: 0 yes or done, 1 a negative answer, 2 wrong use, 3 no answer. With
// --format json exactly one JSON document goes to standard output. Messages for
// people go to standard error, with colours and redrawn lists only on a terminal.
//
// main only drives a [Program], as tests do.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"chimera.ai/engine/internal/process"
)

func main() {
	if err := process.Hide(); err != nil {
		fmt.Fprintln(os.Stderr, "chimera:", err)
		os.Exit(exitUsage)
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// sameSignal is how long a repeated signal counts as the same one.
const sameSignal = time.Second

func run(args []string, in io.Reader, out, messages io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once, unless it comes right after the first:
	// timeout(1) signals a process and then its group.
	context.AfterFunc(ctx, func() { time.AfterFunc(sameSignal, stop) })
	p := &Program{Stdin: in, Stdout: out, Stderr: messages}
	if strings.ContainsRune(os.Args[0], '/') && !filepath.IsAbs(os.Args[0]) {
		p.Name = os.Args[0] // such as bin/chimera, which is not on PATH
	}
	err := p.Parse(args)
	if err == nil {
		err = p.Run(ctx)
	}
	if closed := p.Close(); err == nil {
		err = closed
	}
	return p.Report(err)
}
