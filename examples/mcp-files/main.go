// Command mcp-files is an MCP server that shows the files of one folder: list, read and
// look at. With -write it also writes files, into another folder.
//
//	mcp-files [-write FOLDER] ROOT
//
// It speaks the protocol on standard input and output. Nothing outside ROOT and FOLDER
// can be reached: paths are relative with slashes, ".." is refused, and so is every
// symbolic link. All that it takes and returns is bounded.
package main

import (
	"context"
	"errors"
	"flag"
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
	flags := flag.NewFlagSet("mcp-files", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	folder := flags.String("write", "", "the `FOLDER` that is written to; it is created")
	if err := flags.Parse(args); err != nil || flags.NArg() != 1 {
		return errors.Join(err, errors.New("usage: mcp-files [-write FOLDER] ROOT"))
	}
	root, err := os.OpenRoot(flags.Arg(0))
	if err != nil {
		return fmt.Errorf("open the folder: %w", err)
	}
	defer root.Close()
	offered := tools(&files{root: root})
	if *folder != "" {
		if err := os.MkdirAll(*folder, 0o755); err != nil {
			return fmt.Errorf("create the folder to write to: %w", err)
		}
		to, err := os.OpenRoot(*folder)
		if err != nil {
			return fmt.Errorf("open the folder to write to: %w", err)
		}
		defer to.Close()
		offered = append(offered, writeTools(&reports{root: to})...)
	}

	s := server.NewMCPServer("mcp-files", "1.0.0",
		server.WithToolCapabilities(false),
		server.WithInputSchemaValidation(),
		server.WithOutputSchemaValidation(),
		server.WithRecovery(),
		server.WithInstructions("Shows the files of one folder, to which paths are relative, and may write files into another."),
	)
	s.AddTools(offered...)

	stdio := server.NewStdioServer(s)
	stdio.SetErrorLogger(log.New(errs, "mcp-files: ", 0))
	if err := stdio.Listen(ctx, in, out); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, io.EOF) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
