package skills

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/process"
	"chimera.ai/engine/schemas"
)

// Bounds of an executable that does not set its own.
const (
	// DefaultOutput bounds standard output, in bytes.
	DefaultOutput = 16 << 20
	// DefaultMemory bounds the private memory of each process, in bytes, on Linux.
	DefaultMemory = 2 << 30

	// stderrTail is how much of standard error's end is kept.
	stderrTail = 8 << 10
	// drain is how long the pipes may stay open once the program has ended and all that
	// it started has been killed.
	drain = 2 * time.Second
)

// Executable is a program that offers operations. One call is one process:
//
//   - its arguments are Args and then the operation;
//   - its standard input is the input, one JSON text, and then the end of file;
//   - its standard output is the output, one JSON text and nothing else but white
//     space, and its exit code is 0;
//   - otherwise its exit code is not 0, and its standard output is an error object
//     {"error": {"message": "…", "details": …}}, or anything else, in which
//     case the end of standard error tells people what went wrong;
//   - standard error is never part of the output. The details of a failure hold
//     its last 8 KiB.
//
// The environment holds only Env and the names of process.Inherited: HOME,
// LANG, LC_ALL, LOGNAME, PATH, TMPDIR, TZ, USER; with a User, HOME, LOGNAME and USER
// are theirs, and there is no TMPDIR. All that the program starts ends
// with it: its process group is killed when the program ends, when the call ends,
// and when the program writes too much.
type Executable struct {
	// Command is a path, or a name to find on PATH.
	Command string
	Args    []string
	Env     map[string]string
	// Public are the names in Env whose values are no secrets.
	Public []string
	// Dir is the working directory; "" is the worker's.
	Dir string
	// User is another user of this machine, by name or number, as whom the program runs, or "" for the
	// worker's. The worker must be root, or have the capabilities SETUID, SETGID and KILL.
	User string
	// Pin are files and folders, such as scripts and lock files, that the program is made of.
	Pin []string
	// Base is the folder against which paths in its identity are written, or "".
	Base string
	// MaxOutput bounds standard output, in bytes; 0 is DefaultOutput.
	MaxOutput int64
	// MaxMemory bounds the private memory of each process, in bytes; 0 is
	// DefaultMemory on Linux and no bound elsewhere, where any other value is
	// refused. Negative is no bound.
	MaxMemory int64
}

// Call runs one operation. Its error is a [contract.Error]: unsent (could not be started),
// timeout and cancelled (ctx ended), tool_error (the program says that it failed), transport
// (a signal has ended it), too_large (it wrote more than MaxOutput), invalid_output (what it
// wrote is not one JSON text).
func (e Executable) Call(ctx context.Context, operation string, input json.RawMessage) (json.RawMessage, error) {
	if !name.MatchString(operation) {
		return nil, contract.Errorf(contract.Contract, "skill: %q is not the name of an operation", operation)
	}
	if ctx.Err() != nil {
		err := ended(ctx, "skill "+operation)
		if err.Kind == contract.Timeout {
			err.Kind = contract.Unsent
		}
		return nil, err
	}
	child, err := process.Start(process.Spec{
		Command: e.Command,
		Args:    append(append([]string(nil), e.Args...), operation),
		Env:     e.Env,
		Dir:     e.Dir,
		User:    e.User,
		Memory:  e.memory(),
	})
	if err != nil {
		return nil, contract.Errorf(contract.Unsent, "skill %s: start %s: %w", operation, e.Command, err)
	}
	limit := e.MaxOutput
	if limit <= 0 {
		limit = DefaultOutput
	}
	return exchange(ctx, child, operation, input, limit)
}

// exchange writes the input to a started program, reads its output and checks it.
func exchange(ctx context.Context, child *process.Process, operation string, input []byte, limit int64) (json.RawMessage, error) {
	var (
		pipes  sync.WaitGroup
		stdout []byte
		tail   = process.Tail{Limit: stderrTail}
	)
	pipes.Go(func() {
		// A program need not read its input.
		_, _ = child.Stdin.Write(input)
		child.Stdin.Close()
	})
	pipes.Go(func() {
		// One byte more than allowed distinguishes "full" from "too much".
		stdout, _ = io.ReadAll(io.LimitReader(child.Stdout, limit+1))
		if int64(len(stdout)) > limit {
			child.Kill()
		}
		child.Stdout.Close()
	})
	pipes.Go(func() {
		_, _ = io.Copy(&tail, child.Stderr)
		child.Stderr.Close()
	})
	select {
	case <-child.Done():
	case <-ctx.Done():
		child.Kill()
		<-child.Done()
	}
	// A process that still holds the pipes has left the group; do not wait for it.
	deadline := time.Now().Add(drain)
	for _, f := range []*os.File{child.Stdin, child.Stdout, child.Stderr} {
		_ = f.SetDeadline(deadline)
	}
	pipes.Wait()

	what := "skill " + operation
	state := child.State()
	switch {
	case int64(len(stdout)) > limit:
		return nil, contract.Errorf(contract.TooLarge, "%s: standard output is over %d bytes", what, limit)
	case ctx.Err() != nil && !state.Success():
		err := ended(ctx, what)
		err.Details = details(state, tail.String())
		return nil, err
	case !state.Success():
		return nil, failure(what, state, stdout, tail.String())
	}
	out := bytes.TrimSpace(stdout)
	if _, err := schemas.Decode(out); errors.Is(err, schemas.ErrTooLarge) {
		return nil, contract.Errorf(contract.TooLarge, "%s: standard output: %w", what, err)
	} else if err != nil {
		bad := contract.Errorf(contract.InvalidOutput, "%s: standard output is not one JSON text: %w", what, err)
		bad.Details = details(state, tail.String())
		return nil, bad
	}
	return out, nil
}

func (e Executable) memory() int64 {
	switch {
	case e.MaxMemory < 0, e.MaxMemory == 0 && !process.LimitsMemory:
		return 0
	case e.MaxMemory == 0:
		return DefaultMemory
	}
	return e.MaxMemory
}
