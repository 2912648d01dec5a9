// Command mcp-files is an MCP server that shows the files of one folder: list,
// read and look at, never write.
//
//	mcp-files ROOT
//
// It speaks the protocol on standard input and output. Nothing outside ROOT can
// be reached: paths are relative with slashes, ".." is refused, and so is every
// symbolic link. All that it returns is bounded.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/mark3labs/mcp-go/server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mcp-files:", err)
		os.Exit(1)
	}
}

// run serves until its input ends or ctx does.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) error {
	if len(args) != 1 {
		return errors.New("usage: mcp-files ROOT")
	}
	root, err := os.OpenRoot(args[0])
	if err != nil {
		return fmt.Errorf("open the folder: %w", err)
	}
	defer root.Close()

	s := server.NewMCPServer("mcp-files", "1.0.0",
		server.WithToolCapabilities(false),
		server.WithInputSchemaValidation(),
		server.WithOutputSchemaValidation(),
		server.WithRecovery(),
		server.WithInstructions("Shows the files of one folder. Paths are relative to it."),
	)
	s.AddTools(tools(&files{root: root})...)

	stdio := server.NewStdioServer(s)
	stdio.SetErrorLogger(log.New(errs, "mcp-files: ", 0))
	if err := stdio.Listen(ctx, in, out); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, io.EOF) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
